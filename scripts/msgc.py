#!/usr/bin/env python3
"""msgc: messages (schema/kafka/*.msg, notation in schema/kafka/README.md) and stored records (schema/records/*.msg) into C.

    msgc.py --out DIR FILE...         write k_NAME.h and k_NAME.c per file (r_NAME for records), and k_api.h and k_api.c
    msgc.py --digest FILE FILE...     write the digest: a line per message
    msgc.py --check-digest FILE FILE...   fail when the digest is not that of the messages

Three steps, in this order below: parse (text to Message, Struct, Field; every mistake is FILE:LINE: text), plan (versions a field really
has, smallest sizes, defaults as C), emit. Generated readers have no error branches: struct rd is sticky. Standard library only.
"""
import argparse
import hashlib
import os
import re
import sys

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
        return {-2**31: "INT32_MIN", -2**63: "INT64_MIN"}.get(value, f"INT64_C({value})" if bits == 64 and abs(value) >= 2**31 else str(value))


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


# ---- emit

class Emit:
    def __init__(self):
        self.lines = []

    def __call__(self, text="", depth=0):
        self.lines.append(("    " * depth + text).rstrip())

    def text(self):
        return "\n".join(self.lines) + "\n"


def comment(words, indent=""):
    """A C comment of the given lines, or nothing."""
    text = [w.replace("*/", "* /") for w in words]
    if not text:
        return []
    return [f"{indent}/* {text[0]}"] + [f"{indent} * {t}" for t in text[1:-1]] + [f"{indent} * {text[-1]} */"] if len(text) > 1 \
        else [f"{indent}/* {text[0]} */"]


def c_type(f):
    if f.struct:
        return f"struct {f.struct.name}"
    return SCALARS[f.type][0] if f.type in SCALARS else "span"


def structs_of(m):
    """All structs of a message, inner ones first."""
    done = []

    def visit(s):
        for f in s.fields:
            if f.struct and f.struct not in done:
                visit(f.struct)
        if s not in done:
            done.append(s)
    visit(m.root)
    return done


def declare(e, m, s):
    e(f"struct {s.name} {{")
    for f in s.fields:
        note = [str(f.versions)] if not f.versions.covers(s.versions) else []
        note += ["key"] if f.key else []
        note += [f"tag {f.tag}"] if f.tag is not None else []
        note += ["null allowed" + ("" if f.null.covers(f.versions) else f" {f.null}")] if not f.null.empty() else []
        doc = " ".join(f.doc)
        tail = "; ".join(note) + (": " if note and doc else "") + doc
        tail = f"    /* {tail} */" if tail else ""
        if f.array:
            e(f"{c_type(f)} *{f.name};{tail}", 1)
            e(f"int32_t {f.name}_n;", 1)
        elif f.pointer():
            e(f"{c_type(f)} *{f.name};{tail}", 1)
        else:
            e(f"{c_type(f)} {f.name};{tail}", 1)
            if f.type == "records":
                e(f"struct chain *{f.name}_chain;    /* written instead of {f.name} when not NULL, and left empty */", 1)
    if not m.flexible.empty():
        e("const struct rd_unknown *unknown;    /* tags of a newer peer */", 1)
    e("};")
    e(f"void {s.name}_init(struct {s.name} *m);")
    e()


class Code:
    """The functions of one message."""

    def __init__(self, e, m):
        self.e, self.m = e, m

    def run(self):
        structs = structs_of(self.m)
        plain = set()
        for s in structs:
            for f in s.tagged():
                if f.struct and not f.array and not f.pointer():
                    plain |= {t.name for t in self.by_value(f.struct)}
        for s in structs:
            self.init(s)
            if s.name in plain:
                self.is_plain(s)
            if s.tagged():
                self.tags_read(s)
                self.tags_write(s)
            self.read(s)
            self.write(s)
            self.show(s)
        self.doors()

    def by_value(self, s):
        return [s] + [t for f in s.fields if f.struct and not f.array and not f.pointer() for t in self.by_value(f.struct)]

    def open(self, head):
        self.e(head + " {")

    def close(self):
        self.e("}")
        self.e()

    def flex_line(self, s):
        return f"[[maybe_unused]] const bool flex = {when_word(self.m.flexible, s.versions)};"

    def flex_of(self, f):
        return "false" if f.rigid or self.m.flexible.empty() else "flex"

    def set_default(self, f, depth=1):
        e = self.e
        if f.array:
            e(f"m->{f.name} = NULL;", depth)
            e(f"m->{f.name}_n = {f.c_default};", depth)
        elif f.struct and not f.pointer():
            e(f"{f.struct.name}_init(&m->{f.name});", depth)
        else:
            e(f"m->{f.name} = {f.c_default};", depth)
            if f.type == "records":
                e(f"m->{f.name}_chain = NULL;", depth)

    def init(self, s):
        self.open(f"void {s.name}_init(struct {s.name} *m)")
        for f in s.fields:
            self.set_default(f)
        if not self.m.flexible.empty():
            self.e("m->unknown = NULL;", 1)
        self.close()

    def not_plain(self, f):
        """C condition: the field differs from its default."""
        x = f"m->{f.name}"
        if f.array:
            return f"{x}_n != {f.c_default}"
        if f.pointer():
            return f"{x} != NULL"
        if f.struct:
            return f"!{f.struct.name}_plain(&{x})"
        if f.type == "uuid":
            return f"!uuid_is_zero({x})"
        if f.type == "records":
            return f"({x}_chain != NULL || !span_eq({x}, {f.c_default}))"
        if f.type in BLOBS:
            return f"!span_eq({x}, {f.c_default})"
        if f.type == "bool":
            return x if f.c_default == "false" else f"!{x}"
        return f"{x} != {f.c_default}"

    def is_plain(self, s):
        self.open(f"static bool {s.name}_plain(const struct {s.name} *m)")
        self.e("return m->unknown == NULL" + "".join(f" && !({self.not_plain(f)})" for f in s.fields) + ";", 1)
        self.close()

    # -- reading

    def read_one(self, f, target):
        """C statement that reads one value of f's type into target."""
        if f.struct:
            return f"{f.struct.name}_read(&{target}, r, v);"
        if f.type in SCALARS:
            return f"{target} = rd_{f.type}(r);"
        null = "false" if f.array else when_word(f.null, f.versions)
        return f"{target} = rd_{'string' if f.type == 'string' else 'bytes'}(r, {self.flex_of(f)}, {null});"

    def least_word(self, f):
        """C expression for the smallest element of the array f."""
        text, last = "", None
        for v in range(f.versions.lo, f.versions.hi + 1):
            n = least_one(f, v, self.m.flexible, self.m.flexible.has(v) and not f.rigid)
            if n != last:
                text = str(n) if last is None else f"v >= {v} ? {n} : {text}"
                last = n
        return text

    def read_array(self, f, count, depth):
        e, x = self.e, f"m->{f.name}"
        e(f"{x}_n = {count};", depth)
        e(f"{x} = rd_array(r, {x}_n, sizeof *{x});", depth)
        e(f"for (int32_t i = 0; i < {x}_n && !r->bad; i++) {{", depth)
        e(self.read_one(f, f"{x}[i]"), depth + 1)
        e("}", depth)

    def count_call(self, f):
        return f"rd_count(r, {self.flex_of(f)}, {when_word(f.null, f.versions)}, {self.least_word(f)})"

    def read_pointer(self, f, depth):
        e, x = self.e, f"m->{f.name}"
        if not f.null.covers(f.versions):
            e(f"{x} = {when(f.null, f.versions)} && !rd_present(r, {'true' if f.tag is not None else 'false'}) ? NULL : "
              f"rd_array(r, 1, sizeof *{x});", depth)
        else:
            e(f"{x} = rd_present(r, {'true' if f.tag is not None else 'false'}) ? rd_array(r, 1, sizeof *{x}) : NULL;", depth)
        e(f"if ({x} != NULL) {{", depth)
        e(f"{f.struct.name}_read({x}, r, v);", depth + 1)
        e("}", depth)

    def read_inline(self, s, f):
        e, cond, x = self.e, when(f.versions, s.versions), f"m->{f.name}"
        if f.array:
            count = self.count_call(f)
            self.read_array(f, f"{cond} ? {count} : {f.c_default}" if cond else count, 1)
        elif f.struct:
            if cond:
                e(f"if ({cond}) {{", 1)
            if f.pointer():
                self.read_pointer(f, 2 if cond else 1)
            else:
                e(self.read_one(f, x), 2 if cond else 1)
            if cond:
                e("} else {", 1)
                self.set_default(f, 2)
                e("}", 1)
        else:
            statement = self.read_one(f, x)
            if cond:
                call = statement[len(x) + 3:-1]
                cast = f"({SCALARS[f.type][0]})" if f.type in ("i8", "i16", "u16") else ""
                c_default = f"{cast}{f.c_default}" if cast else f.c_default
                statement = f"{x} = {cond} ? {call} : {c_default};"
            e(statement, 1)
            if f.type == "records":
                e(f"{x}_chain = NULL;", 1)

    def read(self, s):
        e = self.e
        self.open(f"static void {s.name}_read(struct {s.name} *m, struct rd *r, [[maybe_unused]] int v)")
        e(self.flex_line(s), 1)
        for f in s.inline():
            self.read_inline(s, f)
        for f in s.tagged():
            self.set_default(f)
        if self.m.flexible.empty():
            pass
        elif s.tagged():
            e("m->unknown = NULL;", 1)
            e("if (flex) {", 1)
            e(f"{s.name}_tags_read(m, r, v);", 2)
            e("}", 1)
        else:
            e("m->unknown = flex ? rd_unknown(r) : NULL;", 1)
        self.close()

    def tags_read(self, s):
        e, within = self.e, s.versions & self.m.flexible
        self.open(f"static void {s.name}_tags_read(struct {s.name} *m, struct rd *r, [[maybe_unused]] int v)")
        e("[[maybe_unused]] const bool flex = true;", 1)
        e("struct rd_tags t;", 1)
        e("rd_tags_open(&t, r);", 1)
        e("while (rd_tags_next(&t, r)) {", 1)
        word = "if"
        for f in s.tagged():
            cond = when(f.versions, within)
            e(f"{word} (t.tag == {f.tag}{' && ' + cond if cond else ''}) {{", 2)
            if f.array:
                self.read_array(f, self.count_call(f), 3)
            elif f.pointer():
                self.read_pointer(f, 3)
            else:
                e(self.read_one(f, f"m->{f.name}"), 3)
            word = "} else if"
        e("} else {", 2)
        e("rd_tags_keep(&t, r);", 3)
        e("}", 2)
        e("rd_tags_shut(&t, r);", 2)
        e("}", 1)
        e("m->unknown = t.kept;", 1)
        self.close()

    # -- writing

    def write_one(self, f, source):
        if f.struct:
            return f"{f.struct.name}_write(&{source}, w, v);"
        if f.type in SCALARS:
            return f"wr_{f.type}(w, {source});"
        null = "false" if f.array else when_word(f.null, f.versions)
        if f.type == "records":
            return f"wr_records(w, {source}, {source}_chain, {self.flex_of(f)}, {null});"
        return f"wr_{f.type}(w, {source}, {self.flex_of(f)}, {null});"

    def write_field(self, f, depth):
        e, x = self.e, f"m->{f.name}"
        if f.array:
            e(f"wr_count(w, {x}_n, {self.flex_of(f)}, {when_word(f.null, f.versions)});", depth)
            e(f"for (int32_t i = 0; i < {x}_n; i++) {{", depth)
            e(self.write_one(f, f"{x}[i]"), depth + 1)
            e("}", depth)
        elif f.pointer():
            mark = f"wr_present(w, {x} != NULL, {'true' if f.tag is not None else 'false'});"
            cond = when(f.null, f.versions)
            if cond:
                e(f"if ({cond}) {{", depth)
                e(mark, depth + 1)
                e("}", depth)
            else:
                e(mark, depth)
            e(f"if ({x} != NULL) {{", depth)
            e(f"{f.struct.name}_write({x}, w, v);", depth + 1)
            e("}", depth)
        else:
            e(self.write_one(f, x), depth)

    def write(self, s):
        e = self.e
        self.open(f"static void {s.name}_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
        e(self.flex_line(s), 1)
        for f in s.inline():
            cond = when(f.versions, s.versions)
            if cond:
                e(f"if ({cond}) {{", 1)
            self.write_field(f, 2 if cond else 1)
            if cond:
                e("}", 1)
        if not self.m.flexible.empty():
            e("if (flex) {", 1)
            e(f"{s.name}_tags_write(m, w, v);" if s.tagged() else "wr_unknown(w, m->unknown);", 2)
            e("}", 1)
        self.close()

    def tags_write(self, s):
        e, within = self.e, s.versions & self.m.flexible
        for f in s.tagged():
            self.open(f"static void {s.name}_tag{f.tag}_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
            e("[[maybe_unused]] const bool flex = true;", 1)
            self.write_field(f, 1)
            self.close()
        self.open(f"static void {s.name}_tags_write(const struct {s.name} *m, struct wr *w, [[maybe_unused]] int v)")
        for f in s.tagged():
            cond = when(f.versions, within)
            e(f"const bool has{f.tag} = {cond + ' && ' if cond else ''}{self.not_plain(f)};", 1)
        e("struct wr_tags t;", 1)
        e(f"wr_tags_open(&t, w, m->unknown, {' + '.join(f'(uint32_t)has{f.tag}' for f in s.tagged())});", 1)
        for f in s.tagged():
            e(f"if (has{f.tag}) {{", 1)
            e("struct wr size = wr_measure();", 2)
            e(f"{s.name}_tag{f.tag}_write(m, &size, v);", 2)
            e(f"wr_tags_known(&t, w, {f.tag}, size.measured);", 2)
            e(f"{s.name}_tag{f.tag}_write(m, w, v);", 2)
            e("}", 1)
        e("wr_tags_shut(&t, w);", 1)
        self.close()

    # -- showing

    def show_one(self, f, label, x):
        if f.struct:
            return [f'show_text(s, "{label}");'] * bool(label) + [f"{f.struct.name}_show(&{x}, s);"]
        if f.type in ("bytes", "records"):
            chain = f"{x}_chain" if f.type == "records" and not f.array else "NULL"
            return [f'show_bytes(s, "{label}", {x}, {chain});']
        kind = {"uuid": "uuid", "bool": "bool", "string": "string", "f64": "f64"}.get(f.type, "i64")
        return [f'show_{kind}(s, "{label}", {x});']

    def show(self, s):
        e = self.e
        self.open(f"static void {s.name}_show(const struct {s.name} *m, struct str *s)")
        for n, f in enumerate(s.fields):
            x, label = f"m->{f.name}", f"{' ' if n else '{'}{f.name}="
            if f.array:
                e(f'show_count(s, "{label}", {x}_n);', 1)
                e(f"for (int32_t i = 0; i < {x}_n; i++) {{", 1)
                for line in self.show_one(f, " " if not f.struct else "", f"{x}[i]"):
                    e(line, 2)
                e("}", 1)
                e("show_count_end(s);", 1)
            elif f.pointer():
                e(f'show_text(s, {x} == NULL ? "{label}null" : "{label}");', 1)
                e(f"if ({x} != NULL) {{", 1)
                e(f"{f.struct.name}_show({x}, s);", 2)
                e("}", 1)
            else:
                for line in self.show_one(f, label, x):
                    e(line, 1)
        if not self.m.flexible.empty():
            e("show_unknown(s, m->unknown);", 1)
        e('show_text(s, "}");' if s.fields else 'show_text(s, "{}");', 1)
        self.close()

    # -- the public functions

    def doors(self):
        e, n = self.e, self.m.name
        v = self.m.versions
        self.open(f"err {n}_get(struct {n} *m, struct rd *r, int v)")
        e(f"if (v < {v.lo} || v > {v.hi}) {{", 1)
        e("return ERR_BAD_VERSION;", 2)
        e("}", 1)
        e(f"{n}_read(m, r, v);", 1)
        e("return rd_status(r);", 1)
        self.close()
        self.open(f"void {n}_put(const struct {n} *m, struct wr *w, int v)")
        e(f"must(v >= {v.lo} && v <= {v.hi});", 1)
        e(f"{n}_write(m, w, v);", 1)
        self.close()
        self.open(f"void {n}_print(const struct {n} *m, struct str *s)")
        e(f"{n}_show(m, s);", 1)
        self.close()
        for verb, ret, args, call in (                  # the same for struct msg, whose members do not know the type
                ("init", "void", "void *m", "m"), ("get", "err", "void *m, struct rd *r, int v", "m, r, v"),
                ("put", "void", "const void *m, struct wr *w, int v", "m, w, v"), ("print", "void", "const void *m, struct str *s", "m, s")):
            self.open(f"static {ret} {n}_any_{verb}({args})")
            e(f"{'return ' if ret != 'void' else ''}{n}_{verb}({call});", 1)
            self.close()
        e(f"const struct msg {n}_msg = {{")
        e(f'"{n[2:]}", sizeof(struct {n}), {v.lo}, {v.hi}, {flexible_from(self.m)},', 1)
        e(f"{n}_any_init, {n}_any_get, {n}_any_put, {n}_any_print,", 1)
        e("};")
        e()


def flexible_from(m):
    return "MSG_INFLEXIBLE" if m.flexible.empty() else str(m.flexible.lo)


def origin(file):
    return f"Generated by scripts/msgc.py from {'/'.join(file.path.split('/')[-3:])}; not to be edited."


def header_text(file):
    e = Emit()
    for line in comment([origin(file)] + file.doc):
        e(line)
    e("#pragma once")
    e()
    e('#include "wire/msg.h"')
    e()
    if file.api:
        n, m = file.api.upper(), file.messages[0]
        e("enum {")
        e(f"K_{n}_KEY = {file.key},", 1)
        e(f"K_{n}_MIN = {m.versions.lo},", 1)
        e(f"K_{n}_MAX = {m.versions.hi},", 1)
        e(f"K_{n}_SERVE_MIN = {file.serve.lo},", 1)
        e(f"K_{n}_SERVE_MAX = {file.serve.hi},", 1)
        e(f"K_{n}_FLEXIBLE = {flexible_from(m)},", 1)
        e("};")
        e()
    if file.records:
        e("enum {")
        for m in file.messages:
            e(f"{m.name.upper()}_KEY = {m.key},", 1)
            e(f"{m.name.upper()}_MAX = {m.versions.hi},", 1)
        e("};")
        e()
    for m in file.messages:
        for s in structs_of(m):
            declare(e, m, s)
        e(f"err {m.name}_get(struct {m.name} *m, struct rd *r, int v);")
        e(f"void {m.name}_put(const struct {m.name} *m, struct wr *w, int v);")
        e(f"void {m.name}_print(const struct {m.name} *m, struct str *s);")
        e(f"extern const struct msg {m.name}_msg;")
        e()
    return e.text()


def code_text(file):
    e = Emit()
    e(f"/* {origin(file)} */")
    e(f'#include "wire/{file.unit()}.h"')
    e()
    e('#include "base/must.h"')
    e('#include "show.h"')
    e()
    for m in file.messages:
        Code(e, m).run()
    return e.text()


def api_header_text(apis):
    e = Emit()
    e("/* Generated by scripts/msgc.py: the table of all APIs, in order of key; not to be edited. */")
    e("#pragma once")
    e()
    e('#include "wire/msg.h"')
    e()
    e("enum k_key {")
    for a in apis:
        e(f"K_{a.api.upper()} = {a.key},", 1)
    e("};")
    e()
    e(f"#define K_APIS {len(apis)}")
    e()
    e("extern const struct msg_api k_apis[K_APIS];")
    e("const struct msg_api *k_api_find(int key);         /* NULL: no such API here */")
    return e.text()


def api_code_text(apis):
    e = Emit()
    e("/* Generated by scripts/msgc.py; not to be edited. */")
    e('#include "wire/k_api.h"')
    e()
    for a in apis:
        e(f'#include "wire/k_{a.stem()}.h"')
    e()
    e("const struct msg_api k_apis[K_APIS] = {")
    for a in apis:
        m = a.messages[0]
        e(f'{{{a.key}, {m.versions.lo}, {m.versions.hi}, {a.serve.lo}, {a.serve.hi}, {flexible_from(m)}, "{a.api}", '
          f"&k_{a.api}_req_msg, &k_{a.api}_resp_msg}},", 1)
    e("};")
    e()
    e("const struct msg_api *k_api_find(int key) {")
    e("switch (key) {", 1)
    for n, a in enumerate(apis):
        e(f"case {a.key}:", 1)
        e(f"return &k_apis[{n}];", 2)
    e("default:", 1)
    e("return NULL;", 2)
    e("}", 1)
    e("}")
    return e.text()


# ---- digest

def field_lines(s, path=""):
    for f in s.fields:
        yield (f"{path}{f.name} {'[]' if f.array else ''}{f.type} v={f.versions} null={f.null} tag={f.tag} default={f.c_default} "
               f"key={f.key} rigid={f.rigid}")
        if f.struct:
            yield from field_lines(f.struct, f"{path}{f.name}.")


def digest_text(files):
    lines = []
    for file in files:
        for m in file.messages:
            fields = list(field_lines(m.root))
            key = f" key={file.key} serve={file.serve}" if file.api else f" record={m.key}" if file.records else ""
            sha = hashlib.sha256("\n".join(fields).encode()).hexdigest()[:16]
            lines.append(f"{m.name[2:]}{key} versions={m.versions} flexible={Range(m.flexible.lo, LAST) if not m.flexible.empty() else 'none'} fields={len(fields)} hash={sha}")
    return "\n".join(lines) + "\n"


# ---- command line

def write_if_changed(path, text):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as f:
            if f.read() == text:
                return
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)


def load(paths):
    files = [Parser(p).parse() for p in paths]
    seen = {}
    for f in files:
        if f.api and f.key in seen:
            raise Bad(f"{f.path}:1: key {f.key} is {seen[f.key]} already")
        seen[f.key] = f.path
    return sorted(files, key=lambda f: (-1 if f.key is None else f.key, f.path))


def generate(files, out):
    os.makedirs(out, exist_ok=True)
    for f in files:
        write_if_changed(f"{out}/{f.unit()}.h", header_text(f))
        write_if_changed(f"{out}/{f.unit()}.c", code_text(f))
    apis = [f for f in files if f.api]
    write_if_changed(f"{out}/k_api.h", api_header_text(apis))
    write_if_changed(f"{out}/k_api.c", api_code_text(apis))


def check_digest(path, text):
    with open(path, encoding="utf-8") as f:
        old = f.read().splitlines()
    new = text.splitlines()
    for line in sorted(set(old) - set(new)):
        print(f"- {line}", file=sys.stderr)
    for line in sorted(set(new) - set(old)):
        print(f"+ {line}", file=sys.stderr)
    if old != new:
        raise Bad(f"{path}:1: is not the digest of the schemas; if the change is wanted, write it again with --digest")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--out", help="folder for the generated C")
    what.add_argument("--digest", help="digest file to write")
    what.add_argument("--check-digest", help="digest file to compare")
    p.add_argument("files", nargs="+")
    args = p.parse_args()
    try:
        files = load(args.files)
        if args.out:
            generate(files, args.out)
        elif args.digest:
            write_if_changed(args.digest, digest_text(files))
        else:
            check_digest(args.check_digest, digest_text(files))
    except Bad as bad:
        print(bad, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
