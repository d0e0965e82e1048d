"""msgc, first half: the text of a schema into File, Message, Struct and Field (Parser), and what follows from it: versions
that a field really has, smallest sizes, defaults as C (Planner). Every mistake is raised as Bad, worded FILE:LINE: text.
Notation: schema/kafka/README.md.
"""
import os
import re

LAST = 32767                    # upper end of "3+"
SCALARS = {                     # type -> C type, bytes on the wire
    "bool": ("bool", 1), "i8": ("int8_t", 1), "i16": ("int16_t", 2), "u16": ("uint16_t", 2), "i32": ("int32_t", 4),
    "u32": ("uint32_t", 4), "i64": ("int64_t", 8), "f64": ("double", 8), "uuid": ("uuid", 16),
}
BLOBS = ("string", "bytes", "records")
NAME = re.compile(r"[a-z][a-z0-9_]*$")
C_WORDS = set("auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
              "return short signed sizeof static struct switch typedef union unsigned void volatile while bool true false".split())
TAKEN = C_WORDS | {"unknown"}


class Bad(Exception):
    """A mistake in a schema, already worded as FILE:LINE: text."""


class Range:
    """Versions lo..hi, both included; empty when lo > hi."""

    def __init__(self, lo, hi):
        self.lo, self.hi = lo, hi

    @staticmethod
    def parse(text):
        m = re.fullmatch(r"(\d+)(?:(\+)|-(\d+))?", text)
        if not m:
            return None
        lo = int(m[1])
        r = Range(lo, LAST if m[2] else int(m[3]) if m[3] else lo)
        return r if r.lo <= r.hi else None

    def __and__(self, other):
        return Range(max(self.lo, other.lo), min(self.hi, other.hi))

    def covers(self, other):
        return self.lo <= other.lo and other.hi <= self.hi

    def empty(self):
        return self.lo > self.hi

    def has(self, v):
        return self.lo <= v <= self.hi

    def __str__(self):
        if self.empty():
            return "none"
        return f"{self.lo}+" if self.hi == LAST else str(self.lo) if self.lo == self.hi else f"{self.lo}-{self.hi}"


NEVER = Range(1, 0)
ALWAYS = Range(0, LAST)


class Field:
    def __init__(self, where, name):
        self.where, self.name = where, name
        self.type, self.array, self.null = None, False, NEVER
        self.versions, self.default, self.tag = ALWAYS, None, None
        self.key = self.rigid = False
        self.struct = None
        self.doc = []

    def pointer(self):
        """A nullable struct is held by pointer."""
        return self.struct and not self.array and not self.null.empty()


class Struct:
    def __init__(self, name, where):
        self.name, self.where = name, where         # name: C name without "struct"
        self.fields = []
        self.versions = ALWAYS

    def tagged(self):
        return sorted((f for f in self.fields if f.tag is not None), key=lambda f: f.tag)

    def inline(self):
        return [f for f in self.fields if f.tag is None]


class Message:
    def __init__(self, name, where):
        self.name, self.where = name, where
        self.versions, self.flexible = None, None
        self.key = None                             # of a record: the number that names it where it is stored
        self.root = Struct(name, where)
        self.structs = {}                           # schema name -> Struct, the latest of that name


class File:
    def __init__(self, path):
        self.path, self.doc = path, []
        self.api = self.key = self.serve = None
        self.records = False                        # a file of stored records
        self.messages = []

    def stem(self):
        return self.api or re.sub(r"^\d+_", "", os.path.basename(self.path)[:-len(".msg")])

    def unit(self):
        """Name of the generated header and code."""
        return f"{'r' if self.records else 'k'}_{self.stem()}"


# ---- parse

class Parser:
    def __init__(self, path):
        self.file = File(path)
        self.line_no = 0
        self.doc = []
        self.head = {}                              # word -> (value, where) of the api or header being opened
        self.message = None
        self.stack = []                             # open structs by depth

    def where(self):
        return f"{self.file.path}:{self.line_no}"

    def bad(self, text, where=None):
        raise Bad(f"{where or self.where()}: {text}")

    def parse(self):
        with open(self.file.path, encoding="utf-8") as f:
            for line in f:
                self.line_no += 1
                self.line(line.rstrip("\n"))
        self.end_message()
        if not self.file.messages:
            self.bad("no message in this file")
        if self.file.api and len(self.file.messages) != 2:
            self.bad("an api needs one request and one response")
        return self.file

    def line(self, text):
        if "\t" in text:
            self.bad("indent with two spaces, not with tabs")
        body, _, comment = text.partition("#")
        words = body.split()
        if not words:
            if comment:
                self.doc.append(comment.strip())
            elif self.doc and not self.message and not self.file.doc:
                self.file.doc, self.doc = self.doc, []      # text set off by a blank line belongs to the file
            return
        indent = len(body) - len(body.lstrip(" "))
        if indent % 2:
            self.bad("odd indentation")
        if indent:
            self.field(indent // 2, words, comment.strip())
        else:
            self.top(words)
        self.doc = []

    def top(self, words):
        if words[0] == "api":
            if self.file.api or len(words) < 2:
                self.bad("one api a file, and it has a name")
            self.file.api = self.name(words[1])
            self.file.doc = self.file.doc or self.doc
            self.pairs(words[2:])
        elif words[0] in ("request", "response"):
            if not self.file.api or len(words) != 1:
                self.bad(f"`{words[0]}` stands alone on its line, after `api NAME`")
            self.end_message()
            self.message = Message(f"k_{self.file.api}_{'req' if words[0] == 'request' else 'resp'}", self.where())
            self.stack = [self.message.root]
        elif words[0] == "header":
            if self.file.api or len(words) < 2:
                self.bad("a header has a name and is not part of an api")
            self.end_message()
            self.head = {}
            self.message = Message(f"k_{self.name(words[1])}_header", self.where())
            self.stack = [self.message.root]
            self.pairs(words[2:])
        elif words[0] == "record":
            self.record(words)
        else:
            self.pairs(words)

    def record(self, words):
        if self.file.api or (self.file.messages or self.message) and not self.file.records or len(words) < 2:
            self.bad("a record has a name and stands among records only")
        self.end_message()
        self.file.records = True
        self.head = {}
        self.message = Message(f"r_{self.file.stem()}_{self.name(words[1])}", self.where())
        self.stack = [self.message.root]
        self.pairs(words[2:])

    def pairs(self, words):
        if len(words) % 2:
            self.bad(f"words and values in pairs expected, found `{' '.join(words)}`")
        for word, value in zip(words[::2], words[1::2]):
            if word not in ("key", "versions", "flexible", "serve"):
                self.bad(f"unknown word `{word}`")
            if word in self.head:
                self.bad(f"`{word}` given twice")
            self.head[word] = (value, self.where())

    def range(self, text, where=None):
        r = Range.parse(text)
        if r is None:
            self.bad(f"`{text}` is not a range of versions (3, 3-5 or 3+)", where)
        return r

    def head_range(self, word, default=None):
        if word not in self.head:
            return default
        value, where = self.head[word]
        return NEVER if value == "none" else self.range(value, where)

    def end_message(self):
        m = self.message
        if m is None:
            return
        m.versions = self.head_range("versions")
        m.flexible = self.head_range("flexible")
        if m.versions is None or m.flexible is None:
            self.bad("`versions` or `flexible` is missing", m.where)
        if m.versions.empty() or m.versions.hi == LAST:
            self.bad("`versions` must be bounded", m.where)
        if self.file.api or self.file.records:
            if "key" not in self.head or not self.head["key"][0].isdigit():
                self.bad(f"{'a record' if self.file.records else 'an api'} needs `key NUMBER`", m.where)
            m.key = int(self.head["key"][0])
        if self.file.records and any(o.key == m.key for o in self.file.messages):
            self.bad(f"key {m.key} is another record's already", m.where)
        if self.file.api:
            self.file.key = m.key
            self.file.serve = self.head_range("serve", m.versions)
            if not m.versions.covers(self.file.serve):
                self.bad("`serve` goes beyond `versions`", self.head["serve"][1])
        m.flexible = m.flexible & m.versions
        Planner(m).run()
        self.file.messages.append(m)
        self.message = None

    def name(self, text):
        if not NAME.match(text) or text in TAKEN:
            self.bad(f"`{text}` cannot be a name")
        return text

    def field(self, depth, words, comment):
        if self.message is None:
            self.bad("a field outside of a message")
        if depth > len(self.stack):
            self.bad("indented too deeply: the line above is not a struct")
        self.stack = self.stack[:depth]
        if len(words) < 2:
            self.bad("a field is `name type`, then versions, `= default`, `tag N`, `key`, `rigid`")
        f = Field(self.where(), self.name(words[0]))
        f.doc = self.doc + ([comment] if comment else [])
        parent = self.stack[-1]
        if any(g.name == f.name for g in parent.fields):
            self.bad(f"`{f.name}` is a field already")
        self.type(f, words[1])
        self.attributes(f, words[2:])
        parent.fields.append(f)
        if f.type not in SCALARS and f.type not in BLOBS:
            self.open_struct(f, parent)

    def open_struct(self, f, parent):
        known = self.message.structs.get(f.type)
        f.struct = Struct(f"{parent.name}_{f.type}", f.where)
        f.struct.reuse = known                      # if no fields follow
        self.message.structs[f.type] = f.struct
        self.stack.append(f.struct)

    def type(self, f, text):
        m = re.fullmatch(r"(\[)?([a-z][a-z0-9_]*)(\])?(\?)?(\S+)?", text)
        if not m or bool(m[1]) != bool(m[3]) or (m[5] and not m[4]):
            self.bad(f"`{text}` is not a type")
        f.type, f.array = self.name(m[2]) if m[2] not in SCALARS else m[2], bool(m[1])
        if m[4]:
            f.null = self.range(m[5]) if m[5] else ALWAYS
        if m[4] and f.type in SCALARS and not f.array:
            self.bad(f"a {f.type} cannot be null")

    def attributes(self, f, words):
        words = list(words)
        if words and words[0][0].isdigit():
            f.versions = self.range(words.pop(0))
        while words:
            word = words.pop(0)
            if word in ("key", "rigid"):
                setattr(f, word, True)
            elif word in ("=", "tag") and words:
                value = words.pop(0)
                if word == "tag" and not value.isdigit():
                    self.bad(f"`{value}` is not a tag number")
                setattr(f, "default" if word == "=" else "tag", value if word == "=" else int(value))
            else:
                self.bad(f"`{word}` is not understood here")


# ---- plan

class Planner:
    """Resolve a parsed message: versions that really apply, structs used again, defaults; and refuse contradictions."""

    def __init__(self, message):
        self.m = message
        self.open, self.names = [], set()           # structs being planned, outermost first; C names taken

    def bad(self, f, text):
        raise Bad(f"{f.where}: {text}")

    def run(self):
        self.struct(self.m.root, self.m.versions)

    def struct(self, s, versions):
        s.versions = versions
        if not s.fields and s is not self.m.root:
            raise Bad(f"{s.where}: struct without fields")
        if s.name in self.names:
            raise Bad(f"{s.where}: a struct of this name stands beside it; name the type alone to use it again")
        self.names.add(s.name)
        self.open.append(s)
        self.fields(s, versions)
        self.open.pop()

    def fields(self, s, versions):
        for f in s.fields:
            f.versions = f.versions & versions
            if f.versions.empty():
                self.bad(f, f"`{f.name}` exists in no version of what holds it")
            f.null = f.null & f.versions
            self.field(s, f)

    def field(self, s, f):
        if f.struct:
            again = f.struct.reuse
            while again and not again.fields:
                again = again.reuse
            if not f.struct.fields and again:
                if again in self.open:
                    self.bad(f, f"`{f.type}` holds itself")
                if not again.versions.covers(f.versions):
                    self.bad(f, f"`{f.type}` does not exist in all versions of `{f.name}`")
                f.struct = again
            else:
                self.struct(f.struct, f.versions)
        self.tag(s, f)
        self.default(f)

    def tag(self, s, f):
        if f.tag is None:
            return
        if not self.m.flexible.covers(f.versions):
            self.bad(f, "a tag needs flexible versions")
        if any(g is not f and g.tag == f.tag for g in s.fields):
            self.bad(f, f"tag {f.tag} is used twice")

    def default(self, f):
        """f.c_default: the value of an absent field as a C expression (arrays: their count; structs by value: None)."""
        d = f.default
        if f.array or f.type in BLOBS or f.pointer():
            if d == "null" and f.null.empty():
                self.bad(f, "null as default of a field that is never null")
            if d not in (None, "null"):
                self.bad(f, "only null can be the default here")
            null = d == "null"
            f.c_default = ("-1" if null else "0") if f.array else "NULL" if f.pointer() else "SPAN_NULL" if null else "SPAN_LIT(\"\")"
        elif f.struct:
            if d is not None:
                self.bad(f, "a struct has the defaults of its fields")
            f.c_default = None
        else:
            f.c_default = self.scalar_default(f, d)

    def scalar_default(self, f, d):
        if f.type == "uuid" and d is None:
            return "(uuid){{0}}"
        if f.type == "bool":
            if d not in (None, "true", "false"):
                self.bad(f, f"`{d}` is not a bool")
            return d or "false"
        try:
            value = int(d or "0", 0)
        except ValueError:
            self.bad(f, f"`{d}` is not a {f.type}")
        if f.type == "f64":
            return f"{value}.0"
        bits = SCALARS[f.type][1] * 8
        lo, hi = (0, 2**bits - 1) if f.type[0] == "u" else (-2**(bits - 1), 2**(bits - 1) - 1)
        if not lo <= value <= hi:
            self.bad(f, f"`{d}` does not fit into {f.type}")
        named = {-2**31: "INT32_MIN", -2**63: "INT64_MIN"}
        return named.get(value, f"INT64_C({value})" if bits == 64 and abs(value) >= 2**31 else str(value))


def least(s, v, flexible):
    """Bytes of the smallest struct s in version v."""
    return sum(least_field(f, v, flexible) for f in s.inline()) + (1 if flexible.has(v) else 0)


def least_field(f, v, flexible):
    if not f.versions.has(v):
        return 0
    flex = flexible.has(v) and not f.rigid
    if f.array:
        return 1 if flex else 4
    return least_one(f, v, flexible, flex)


def least_one(f, v, flexible, flex):
    if f.type in SCALARS:
        return SCALARS[f.type][1]
    if f.type in BLOBS:
        return 1 if flex else 2 if f.type == "string" else 4
    return 1 if f.null.has(v) and not f.array else least(f.struct, v, flexible)


def when(r, within):
    """C condition that v lies in r, given that it lies in `within`; None when that is certain."""
    r = r & within
    if r.empty():
        return "false"
    if r.covers(within):
        return None
    if r.lo == r.hi:
        return f"v == {r.lo}"
    parts = ([f"v >= {r.lo}"] if r.lo > within.lo else []) + ([f"v <= {r.hi}"] if r.hi < within.hi else [])
    return " && ".join(parts)


def when_word(r, within):
    return when(r, within) or "true"
