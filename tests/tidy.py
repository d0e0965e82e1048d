#!/usr/bin/env python3
"""The house rules that the compiler cannot enforce, as a test.

    tests/tidy.py BUILD_DIR [--root DIR] [--partial] [--ratchet]

Prints one line per broken rule, `path:line: [rule] what, and what to do instead`, and exits 1 if there is one. Reads the sources below
ROOT (default: the checkout this file lies in) and, for what only the linker knows, the objects that BUILD_DIR/compile_commands.json
names. --partial skips sources whose object is not built yet; without it a missing object is a broken rule, so that a rule is never
passed for want of looking. --ratchet prints what tests/tidy.ratchet would have to say today, and nothing else.
tests/tidy_selftest.py breaks every rule once and sees it reported.

The rules: street (includes, CMake and symbols keep to the one-way street), prefix (a symbol begins with its file's stem, or that of the
file it continues), quiet, impure and malloc (who may call what), globals, word (banned words and their replacement), size (lines and
parameters, with a ratchet), alone (a header compiles by itself), head (what a file opens with), system (uv.h and pthread.h), readme, dead
(a header nobody includes), built (nothing is passed over).
"""
import argparse
import concurrent.futures
import json
import pathlib
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field

# ---------------------------------------------------------------------------------------------------------------- the law

CORE = {"broker", "state", "wire", "port", "base"}
LAW = {                                           # room: the rooms it may see
    "base": set(),
    "wire": {"base"},
    "port": {"base"},
    "port_uv": {"port", "base"},
    "port_sim": {"port", "base"},
    "state": {"wire", "base"},
    "store": {"wire", "port", "base"},
    "broker": {"state", "store", "wire", "port", "base"},
    "kafka": CORE,
    "native": CORE,
    "admin": CORE,
    "client": {"wire", "base"},
    "cli": {"client", "state", "wire", "port_uv", "port", "base"},
    "app": CORE | {"kafka", "native", "admin", "cli", "store", "port_uv"},
}
HIDDEN = {"broker": {"store"}}                    # seen by the room's .c files, never through its public headers
NESTED = {"port/uv": "port_uv", "port/sim": "port_sim"}
QUIET = {"base", "wire", "state"}
OUTSIDERS = {"port_uv", "app", "cli", "client"}   # rooms that may touch the machine directly
SYSTEM_HEADERS = {"uv.h", "pthread.h", "threads.h"}
GLOBALS_ALLOWED = {"src/base/mem.c", "src/base/log.c", "src/base/mark.c"}   # counters, the thread's context

LINES_FILE, LINES_FUNCTION, PARAMS = 800, 70, 5
LINES_HEAD, LINES_README = (2, 24), 60

MALLOC = set("""malloc calloc realloc reallocarray free strdup strndup asprintf vasprintf getline getdelim posix_memalign aligned_alloc
    memalign valloc open_memstream""".split())
IMPURE = re.compile(r"""^(pthread_\w+|thrd_\w+|mtx_\w+|clock_gettime|clock_nanosleep|gettimeofday|time|ftime|timespec_get|localtime|localtime_r
    |nanosleep|usleep|sleep|alarm|setitimer|timerfd_\w+|s?rand|s?random|[ejlmn]rand48|getrandom|getentropy|arc4random\w*
    |open|openat|creat|close|read|write|pread|pwrite|p?readv2?|p?writev2?|lseek|fsync|fdatasync|syncfs|sync|fallocate|posix_fallocate|ftruncate
    |truncate|rename\w*|unlink\w*|remove|mkdir\w*|rmdir|opendir|fdopendir|readdir|l?stat|fstat\w*|statvfs|fstatvfs|mmap|munmap|msync|f?lock\w*|fcntl
    |fopen|fdopen|freopen|fread|tmpfile|mkstemp|mkdtemp|socket|socketpair|bind|listen|accept4?|connect|send\w*|recv\w*|shutdown|getaddrinfo
    |poll|ppoll|select|epoll_\w+|io_uring_\w+|eventfd|pipe2?|fork|vfork|exec\w+|system|popen|wait\w*|kill|signal|sigaction|getpid|getenv
    |uv_\w+)$""".replace("\n", "").replace(" ", ""))
QUIET_LIBC = set("""memcpy memmove memset memcmp memchr memrchr memmem strlen strnlen strcmp strncmp strcasecmp strncasecmp strchr strrchr strstr
    strspn strcspn strpbrk snprintf vsnprintf qsort bsearch strtol strtoll strtoul strtoull abort bcmp __errno_location
    __tls_get_addr __stack_chk_fail _GLOBAL_OFFSET_TABLE_""".split())
QUIET_MORE = {                                    # what a single file, or room, may call besides
    "src/base/mem.c": MALLOC,
    "src/base/must.c": {"fprintf", "fflush", "stderr", "fwrite"},
    "src/base/crc.c": {"crc32_iscsi"},
    "src/state/conf_value.c": {"strtod"},         # settings of type double
    "wire": re.compile(r"^((de|in)flate\w*|crc32|LZ4\w*|ZSTD_\w+|snappy_\w+)$"),
}

def banned(regex, instead, rooms=None, but=()):
    return re.compile(regex), instead, rooms, but

WORDS = [                                         # searched in code without comments and strings
    banned(r"\bv?sprintf\s*\(", "snprintf, arena_printf or str_addf"),
    banned(r"\b(strcpy|stpcpy|strcat|strncat|strncpy)\s*\(", "memcpy with a known size, or str_add"),
    banned(r"\b(atoi|atol|atoll|atof)\s*\(", "strtoll with its end and range checked"),
    banned(r"\bgets\s*\(", "fgets"),
    banned(r"\bstrtok(_r)?\s*\(", "a loop over a span"),
    banned(r"(?<!static_)\bassert\s*\(", "must (base/must.h)"),
    banned(r"\b(usleep|sleep|nanosleep)\s*\(", "waiting for the event, or a timer of the wheel"),
    banned(r"\b(malloc|calloc|realloc|reallocarray|strdup|strndup|asprintf)\s*\(", "mem_alloc and its kin (base/mem.h)", but={"src/base/mem.c"}),
    banned(r"(?<![\w.>])free\s*\(", "mem_free (base/mem.h)", but={"src/base/mem.c"}),
    banned(r"\b(alloca|setjmp|longjmp)\s*\(", "an arena; err"),
    banned(r"\b(float|double)\b", "integers: a decision must be the same on every machine", rooms={"state"}, but={"src/state/conf_value.c"}),
]
SLEEPS = re.compile(r"\b(usleep|sleep|nanosleep|clock_nanosleep)\s*\(")
LATER = re.compile(r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "X" * 3)) + r")\b")
TEXT_FILES = {".c", ".h", ".py", ".sh", ".cmake", ".txt", ".msg", ".tbl", ".md"}


@dataclass
class Tree:
    root: pathlib.Path
    build: pathlib.Path
    partial: bool = False
    found: list = field(default_factory=list)
    texts: dict = field(default_factory=dict)

    def report(self, path, line, rule, text):
        self.found.append(f"{path}:{line}: [{rule}] {text}")

    def text(self, path):
        if path not in self.texts:
            self.texts[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        return self.texts[path]

    def files(self, *tops, suffixes=(".c", ".h")):
        """Paths below the given folders, relative to root, in order; hidden and built things left out."""
        for top in tops:
            for p in sorted((self.root / top).rglob("*")):
                rel = p.relative_to(self.root)
                hidden = any(part.startswith(".") or part in ("__pycache__", "node_modules", "build", "target") for part in rel.parts)
                if p.suffix in suffixes and p.is_file() and not hidden and not (p == self.build or self.build in p.parents):
                    yield rel.as_posix()

# ---------------------------------------------------------------------------------------------------------------- reading C

C_NOISE = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'", re.S)


def hide(match):
    return re.sub(r"[^\n]", " ", match.group())


def code_of(text):
    """The text with comments, strings and characters blanked; every line keeps its number."""
    return C_NOISE.sub(hide, text)


def line_at(text, pos):
    return text.count("\n", 0, pos) + 1


@dataclass
class Function:
    name: str
    first: int
    last: int
    params: int


SIGNATURE = re.compile(r"([A-Za-z_]\w*)\s*\(")
ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)|\[\[.*?\]\]", re.S)
MACRO_NAMED = ("START_TEST", "TEST", "BENCH")


def param_count(params):
    depth, commas, last = 0, 0, ""
    for c in params:
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            commas += 1
            last = ""
        else:
            last += c
    if params.strip() in ("", "void"):
        return 0
    return commas + (last.strip() != "...")


def signature_of(head):
    """(name, its position, parameter count) if the text before a top-level brace is a function's signature, else None."""
    head = ATTRIBUTE.sub(hide, head).rstrip()
    if not head.endswith(")") or "=" in head:
        return None
    depth, at = 1, len(head) - 1                  # walk back to the parenthesis that opens the last group
    while at > 0 and depth > 0:
        at -= 1
        depth += (head[at] == ")") - (head[at] == "(")
    named = re.search(r"([A-Za-z_]\w*)\s*$", head[:at])
    if not named:                                 # a function that returns a function pointer: its own list is inside
        inner = SIGNATURE.search(head)
        return inner and (inner.group(1), inner.start(), 0)
    if named.group(1) in MACRO_NAMED:
        return head[at + 1:-1].split(",")[0].strip(), named.start(), 0
    return named.group(1), named.start(), param_count(head[at + 1:-1])


def functions_of(text):
    code = re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", hide, code_of(text), flags=re.M)
    code = re.sub(r"\bEND_TEST\b", hide, code)
    depth, start, open_function = 0, 0, None
    for at, c in ((m.start(), m.group()) for m in re.finditer(r"[{};]", code)):
        if c == "{":
            if depth == 0:
                sig = signature_of(code[start:at])
                open_function = sig and (sig[0], line_at(code, start + sig[1]), sig[2])
            depth += 1
            continue
        depth -= c == "}"
        if depth == 0:
            if c == "}" and open_function:
                yield Function(open_function[0], open_function[1], line_at(code, at), open_function[2])
                open_function = None
            start = at + 1


def room_of(path):
    parts = pathlib.PurePosixPath(path).parts
    if len(parts) < 3 or parts[0] != "src":
        return None
    return NESTED.get("/".join(parts[1:3]), parts[1])


def is_public(path):
    return "/include/" in path

# ---------------------------------------------------------------------------------------------------------------- rules on text

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"\n]+)[>"]', re.M)


def check_includes(tree):
    for path in tree.files("src", "tests"):
        room = room_of(path)
        text = tree.text(path)
        for m in INCLUDE.finditer(text):
            check_include(tree, path, line_at(text, m.start()), room, m.group(2))


def check_include(tree, path, line, room, name):
    if name.startswith("../") or "/../" in name:
        tree.report(path, line, "word", f'include "{name}": write "room/thing.h", or move the header beside its user')
    if room is None:
        return
    if name in SYSTEM_HEADERS and room != "port_uv":
        tree.report(path, line, "system", f"<{name}> belongs to src/port/uv: use port/*.h")
    target = name.split("/")[0]
    if "/" not in name or target not in LAW or target == room:
        return
    if target not in LAW.get(room, set()):
        tree.report(path, line, "street", f"{room} must not see {target} ({name}): {room} sees {', '.join(sorted(LAW.get(room, []))) or 'nothing'}")
    elif is_public(path) and target in HIDDEN.get(room, set()):
        tree.report(path, line, "street", f"a public header of {room} must not show {target}: include {name} in the .c file")


def check_cmake(tree):
    for p in tree.files("src", suffixes=(".txt",)):
        text = re.sub(r"#[^\n]*", hide, tree.text(p))
        for m in re.finditer(r"\broom\s*\(\s*(\w+)([^)]*)\)", text):
            check_room_call(tree, p, line_at(text, m.start()), m.group(1), m.group(2).split())


def check_room_call(tree, path, line, room, words):
    if room not in LAW:
        tree.report(path, line, "street", f"room {room} has no place in the street: add it to LAW in tests/tidy.py and to ARCHITECTURE.md")
        return
    mode = None
    for word in words:
        if word in ("NEEDS", "HIDES", "LIBS", "DIR", "GENERATED"):
            mode = word
        elif mode in ("NEEDS", "HIDES") and word not in LAW[room]:
            tree.report(path, line, "street", f"{room} must not link {word}")
        elif mode == "NEEDS" and word in HIDDEN.get(room, set()):
            tree.report(path, line, "street", f"{room} must hide {word}: HIDES, not NEEDS")


def check_words(tree):
    for path in tree.files("src", "tests"):
        code = code_of(tree.text(path))
        in_src = path.startswith("src/")
        for regex, instead, rooms, but in WORDS if in_src else [(SLEEPS, "waiting for the event", None, ())]:
            if path in but or (rooms and room_of(path) not in rooms):
                continue
            for m in regex.finditer(code):
                tree.report(path, line_at(code, m.start()), "word", f"{m.group().strip(' (')}: use {instead}")


def check_later(tree):
    tops = ("src", "tests", "bench", "schema", "scripts", "cmake", "docs", "compat-tests", "include")
    for path in tree.files(*tops, suffixes=TEXT_FILES):
        text = tree.text(path)
        for m in LATER.finditer(text):
            tree.report(path, line_at(text, m.start()), "word", f"{m.group()}: do it now, or open an issue")


def check_heads(tree):
    for path in tree.files("src", "tests"):
        text = tree.text(path)
        head = re.match(r"(?:/\*.*?\*/\s*|//[^\n]*\n\s*)+", text, re.S)
        if not head:
            tree.report(path, 1, "head", "the file must open with a comment that says what it is for")
        elif path.endswith(".h") and not re.search(r"^#pragma once$", text, re.M):
            tree.report(path, 1, "head", "#pragma once is missing")
        elif path.startswith("src/") and path.endswith(".c"):
            check_c_head(tree, path, head.group().rstrip())


def check_c_head(tree, path, head):
    lines = head.count("\n") + 1
    if not LINES_HEAD[0] <= lines <= LINES_HEAD[1]:
        tree.report(path, 1, "head", f"the opening comment has {lines} lines, not {LINES_HEAD[0]} to {LINES_HEAD[1]}: purpose, happy path, failure modes, threads")
    if not re.search(r"\bRuns on\b", head):
        tree.report(path, 1, "head", "the opening comment must say 'Runs on: ...'")


def check_readmes(tree):
    folders = {pathlib.PurePosixPath(p).parent for p in tree.files("src", suffixes=(".txt",)) if "room(" in tree.text(p)}
    for folder in sorted(folders):
        has_code = any((tree.root / folder).glob("*.c")) or any((tree.root / folder / "include").rglob("*.h"))
        readme = (folder / "README.md").as_posix()
        if not has_code:
            continue
        if not (tree.root / readme).is_file():
            tree.report(readme, 1, "readme", "a room has a README.md: what it is for, who owns what, which threads, which invariants")
        elif tree.text(readme).count("\n") > LINES_README:
            tree.report(readme, LINES_README, "readme", f"a room's README.md is at most a page ({LINES_README} lines)")


def check_dead(tree):
    included = set()
    for path in tree.files("src", "tests", "bench"):
        for m in INCLUDE.finditer(tree.text(path)):
            included.add(pathlib.PurePosixPath(m.group(2)).name)
    for path in tree.files("src", suffixes=(".h",)):
        if pathlib.PurePosixPath(path).name not in included:
            tree.report(path, 1, "dead", "nobody includes this header: delete it")

# ---------------------------------------------------------------------------------------------------------------- sizes

def measure(tree):
    """Every size above its cap, as {(kind, where): (size, line)}."""
    over = {}
    for path in tree.files("src", "tests", "bench"):
        lines = tree.text(path).count("\n")
        if lines > LINES_FILE:
            over["file", path] = (lines, 1)
        for f in functions_of(tree.text(path)):
            if f.last - f.first + 1 > LINES_FUNCTION:
                over["function", f"{path}:{f.name}"] = (f.last - f.first + 1, f.first)
            if f.params > PARAMS:
                over["params", f"{path}:{f.name}"] = (f.params, f.first)
    return over


def read_ratchet(tree):
    """tests/tidy.ratchet: `kind where size`, giants that existed before the rule; they may only shrink."""
    path = tree.root / "tests/tidy.ratchet"
    entries = {}
    for number, line in enumerate(path.read_text().splitlines() if path.exists() else [], 1):
        words = line.split("#")[0].split()
        if words:
            entries[words[0], words[1]] = (int(words[2]), number)
    return entries


def check_sizes(tree):
    caps = {"file": LINES_FILE, "function": LINES_FUNCTION, "params": PARAMS}
    over, ratchet = measure(tree), read_ratchet(tree)
    for (kind, where), (size, line) in over.items():
        path, _, name = where.partition(":")
        allowed = ratchet.get((kind, where), (caps[kind], 0))[0]
        what = {"file": "the file has {0} lines", "function": "{1} has {0} lines", "params": "{1} has {0} parameters"}[kind].format(size, name)
        if size > allowed:
            tree.report(path, line, "size", f"{what}, the cap is {allowed}")
        elif size < allowed:
            tree.report("tests/tidy.ratchet", ratchet[kind, where][1], "size", f"{what} now: lower its entry to {size}")
    for (kind, where), (_, number) in ratchet.items():
        if (kind, where) not in over:
            tree.report("tests/tidy.ratchet", number, "size", f"{kind} {where} is within its cap now: delete its entry")

# ---------------------------------------------------------------------------------------------------------------- the compiler's view

@dataclass
class Unit:
    source: str                                   # relative to root, or absolute when generated
    generated: bool
    room: str
    obj: pathlib.Path
    directory: str
    args: list


def units_of(tree):
    """Translation units of the rooms, from compile_commands.json."""
    path = tree.build / "compile_commands.json"
    if not path.is_file():
        tree.report(path, 1, "built", "no such file: configure with CMake first")
        return []
    units = []
    for entry in json.loads(path.read_text()):
        args = entry.get("arguments") or shlex.split(entry["command"])
        directory = pathlib.Path(entry["directory"])
        obj = pathlib.Path(args[args.index("-o") + 1])
        out = obj.relative_to(directory) if obj.is_absolute() else obj
        room = room_of(out.as_posix())
        if room is None:
            continue
        source = directory / entry["file"]
        generated = tree.build in source.parents or tree.root not in source.parents
        name = source.as_posix() if generated else source.relative_to(tree.root).as_posix()
        units.append(Unit(name, generated, room, directory / obj, entry["directory"], args))
    return units


def check_alone(tree, units):
    flags = {}
    for u in units:
        flags.setdefault(u.room, u)
    jobs = [(path, flags[room_of(path)]) for path in tree.files("src", suffixes=(".h",)) if room_of(path) in flags]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, line, message in filter(None, pool.map(lambda job: compile_alone(tree, *job), jobs)):
            tree.report(path, line, "alone", f"does not compile by itself: {message}")


def flags_of(unit):
    """The unit's compiler and flags, without its input, its outputs and their names."""
    flags, args = [], iter(unit.args)
    for arg in args:
        if arg in ("-o", "-MT", "-MF"):
            next(args)
        elif arg not in ("-c", "-MD") and not arg.endswith(pathlib.PurePosixPath(unit.source).name):
            flags.append(arg)
    return flags


def compile_alone(tree, path, unit):
    full = (tree.root / path).as_posix()
    run = subprocess.run([*flags_of(unit), "-I" + str(pathlib.Path(full).parent), "-fsyntax-only", "-x", "c", "-"], cwd=unit.directory,
                         input=f'#include "{full}"\n', capture_output=True, text=True)
    if run.returncode == 0:
        return None
    first = next((s for s in run.stderr.splitlines() if "error" in s), run.stderr.strip())
    line = re.search(r":(\d+):\d+: (?:fatal )?error", first)
    return path, int(line.group(1)) if line else 1, first.split("error: ")[-1]

# ---------------------------------------------------------------------------------------------------------------- the linker's view

@dataclass
class Symbols:
    defined: dict = field(default_factory=dict)   # external name: section
    undefined: set = field(default_factory=set)
    writable: set = field(default_factory=set)


WRITABLE = re.compile(r"^\.(t?data|t?bss)(\.(?!rel\.ro)|$)|^COM|^\*COM")


def plain(name):
    """The name as the source wrote it: without fortification, versions and large-file suffixes."""
    name = re.sub(r"^__(\w+)_chk$", r"\1", name.split("@")[0])
    name = re.sub(r"^__isoc\d\d_", "", name)
    return re.sub(r"^(open|openat|creat|fopen|freopen|pread|pwrite|preadv2?|pwritev2?|lseek|ftruncate|truncate|fallocate|posix_fallocate|readdir|l?stat|fstat|fstatat|statvfs|fstatvfs|mmap|mkstemp|tmpfile)64$",
                  r"\1", name)


def symbols_of(units):
    """nm's answer for every object, {object path: Symbols}."""
    if not units:
        return {}
    out = subprocess.run(["nm", "-A", "--format=sysv", *[str(u.obj) for u in units]], capture_output=True, text=True, check=True).stdout
    table = {str(u.obj): Symbols() for u in units}
    for row in out.splitlines():
        cells = [c.strip() for c in row.split("|")]
        if len(cells) != 7:
            continue
        obj, _, name = cells[0].rpartition(":")
        if obj not in table or name.startswith((".L", ".")):
            continue
        note_symbol(table[obj], name, cells[2], cells[6])
    return table


def note_symbol(symbols, name, kind, section):
    if kind in ("U", "w", "v"):
        symbols.undefined.add(plain(name))
        return
    if kind.isupper():
        symbols.defined[name] = section
    if WRITABLE.match(section):
        symbols.writable.add(name)


def stem_of(source):
    return re.sub(r"^\d+_", "", pathlib.PurePosixPath(source).stem)


def built_units(tree, units):
    built = []
    for u in units:
        if u.obj.is_file():
            built.append(u)
        elif not tree.partial:
            tree.report(u.source, 1, "built", f"its object is missing: build the room {u.room} first")
    return built


def check_symbols(tree, units):
    cache = tree.build / "CMakeCache.txt"
    if cache.is_file() and re.search(r"^PERIGEE_(SANITIZE:\w+=.+|FUZZ:\w+=ON)$", cache.read_text(), re.M):
        print("tidy: an instrumented build: symbols are not looked at")
        return
    units = built_units(tree, units)
    table = symbols_of(units)
    owners = {}                                   # external name: rooms that define it
    for u in units:
        for name in table[str(u.obj)].defined:
            owners.setdefault(name, set()).add(u.room)
    for u in units:
        symbols = table[str(u.obj)]
        check_prefix(tree, u, symbols)
        check_globals(tree, u, symbols)
        for name in sorted(symbols.undefined):
            check_call(tree, u, name, owners.get(name))


def stems_of(tree, source):
    """The prefixes a file's symbols may have: its stem, or that of the file beside it which it continues (plog_read.c continues plog.c)."""
    words = stem_of(source).split("_")
    parts = ["_".join(words[:n]) for n in range(len(words), 0, -1)]
    beside = {stem_of(p.name) for p in (tree.root / source).parent.glob("*.c")}
    return [p for p in parts if p in beside]


def check_prefix(tree, unit, symbols):
    if unit.generated:
        return
    stem, stems = stem_of(unit.source), tuple(stems_of(tree, unit.source))
    for name in sorted(symbols.defined):
        if not name.startswith(stems) and not (unit.room == "app" and name == "main"):
            tree.report(unit.source, line_of(tree, unit.source, name), "prefix", f"{name} must begin with {stem}_, its file's name")


def check_globals(tree, unit, symbols):
    if unit.source in GLOBALS_ALLOWED or unit.room in OUTSIDERS or unit.room not in LAW:
        return
    for name in sorted(symbols.writable):
        plain_name = name.split(".")[0]
        tree.report(unit.source, line_of(tree, unit.source, plain_name), "globals", f"{plain_name} is writable and static: put it into the shard")


def check_call(tree, unit, name, owners):
    line = 1 if unit.generated else line_of(tree, unit.source, name)
    if owners:
        if not owners & (LAW.get(unit.room, set()) | {unit.room}):
            tree.report(unit.source, line, "street", f"{name} belongs to {', '.join(sorted(owners))}, which {unit.room} must not see")
        return
    if name in MALLOC and unit.source != "src/base/mem.c":
        tree.report(unit.source, line, "malloc", f"{name}: use mem_alloc and its kin (base/mem.h)")
        return
    if unit.room in QUIET:
        if not quiet_may_call(unit, name):
            tree.report(unit.source, line, "quiet", f"{name}: {unit.room} is quiet; take the value as an argument, or add a pure function to QUIET_LIBC")
    elif unit.room not in OUTSIDERS and IMPURE.match(name):
        tree.report(unit.source, line, "impure", f"{name}: {unit.room} touches the machine through port/*.h only")


def quiet_may_call(unit, name):
    more = QUIET_MORE.get(unit.room)
    return name in QUIET_LIBC or name in QUIET_MORE.get(unit.source, ()) or bool(more and more.match(name))


def line_of(tree, source, name):
    if not (tree.root / source).is_file():
        return 1
    code = code_of(tree.text(source))
    m = re.search(r"\b" + re.escape(name) + r"\b", code)
    return line_at(code, m.start()) if m else 1

# ---------------------------------------------------------------------------------------------------------------- all together

def main():
    parser = argparse.ArgumentParser(description="house rules as a test")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--partial", action="store_true", help="skip sources that are not built yet")
    parser.add_argument("--ratchet", action="store_true", help="print today's giants as entries of tests/tidy.ratchet")
    options = parser.parse_args()
    tree = Tree(options.root.resolve(), options.build.resolve(), options.partial)
    if options.ratchet:
        print("\n".join(f"{kind} {where} {size}" for (kind, where), (size, _) in sorted(measure(tree).items())))
        return 0
    for check in (check_includes, check_cmake, check_words, check_later, check_heads, check_readmes, check_dead, check_sizes):
        check(tree)
    units = units_of(tree)
    check_alone(tree, units)
    check_symbols(tree, units)
    for line in sorted(set(tree.found)):
        print(line)
    print(f"tidy: {len(set(tree.found))} broken rules, {len(list(tree.files('src', 'tests', 'bench')))} files, {len(units)} units")
    return 1 if tree.found else 0


if __name__ == "__main__":
    sys.exit(main())
