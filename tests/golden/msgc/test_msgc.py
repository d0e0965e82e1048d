#!/usr/bin/env python3
"""Goal: a mistake in a schema is refused with file, line and a reason; the digest notices a change. Method: one wrong schema per rule.
usage: test_msgc.py MSGC"""
import contextlib
import importlib.util
import io
import os
import re
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(sys.argv[1]))
spec = importlib.util.spec_from_file_location("msgc", sys.argv[1])
msgc = importlib.util.module_from_spec(spec)
spec.loader.exec_module(msgc)
HEAD = "api a  key 1\nversions 0-3  flexible 2+\n\n"

# What is wrong, the schema, the line that must be named, words that must be said.
WRONG = [
    ("no pair", "api a  key\n", 1, "pairs"),
    ("unknown word", "api a  key 1  color 3\n", 1, "unknown word"),
    ("given twice", "api a  key 1\nkey 2\n", 2, "given twice"),
    ("bad range", HEAD + "request\n  x  i32  3-1\nresponse\n  y  i8\n", 5, "range"),
    ("open range of versions", "api a  key 1\nversions 0+  flexible none\nrequest\n  x  i8\nresponse\n  y  i8\n", 3, "bounded"),
    ("no versions", "api a  key 1\nflexible none\nrequest\n  x  i8\nresponse\n  y  i8\n", 3, "missing"),
    ("serve too wide", HEAD + "serve 0-4\nrequest\n  x  i8\nresponse\n  y  i8\n", 4, "serve"),
    ("no response", HEAD + "request\n  x  i8\n", 5, "one response"),
    ("tab", HEAD + "request\n\tx  i8\n", 5, "tabs"),
    ("odd indentation", HEAD + "request\n   x  i8\n", 5, "odd"),
    ("too deep", HEAD + "request\n  x  i8\n    y  i8\n", 6, "deeply"),
    ("no type", HEAD + "request\n  x\n", 5, "name type"),
    ("field before a message", "api a  key 1\n  x  i8\n", 2, "outside"),
    ("bad name", HEAD + "request\n  X  i8\n", 5, "name"),
    ("a word of C", HEAD + "request\n  int  i8\n", 5, "name"),
    ("taken name", HEAD + "request\n  unknown  i8\n", 5, "name"),
    ("twice", HEAD + "request\n  x  i8\n  x  i16\n", 6, "already"),
    ("half a bracket", HEAD + "request\n  x  [i8\n", 5, "not a type"),
    ("null number", HEAD + "request\n  x  i8?\n", 5, "null"),
    ("unknown attribute", HEAD + "request\n  x  i8  0+  sorted\n", 5, "not understood"),
    ("bad tag", HEAD + "request\n  x  i8  2+  tag first\n", 5, "tag number"),
    ("tag in inflexible versions", HEAD + "request\n  x  i8  1+  tag 0\nresponse\n  y  i8\n", 5, "flexible"),
    ("tag twice", HEAD + "request\n  x  i8  2+  tag 0\n  y  i8  2+  tag 0\nresponse\n  y  i8\n", 5, "twice"),
    ("never", HEAD + "request\n  x  i8  4+\nresponse\n  y  i8\n", 5, "no version"),
    ("never in its parent", HEAD + "request\n  s  s  0-1\n    x  i8  2+\nresponse\n  y  i8\n", 6, "no version"),
    ("unknown struct", HEAD + "request\n  s  s\nresponse\n  y  i8\n", 5, "without fields"),
    ("struct used where it is not", HEAD + "request\n  s  s  2+\n    x  i8\n  t  s  1+\nresponse\n  y  i8\n", 7, "all versions"),
    ("struct in itself", HEAD + "request\n  s  [s]\n    x  [s]\nresponse\n  y  i8\n", 6, "itself"),
    ("struct twice", HEAD + "request\n  s  s\n    x  i8\n  t  s\n    y  i8\nresponse\n  y  i8\n", 7, "of this name"),
    ("default too big", HEAD + "request\n  x  i8  = 128\nresponse\n  y  i8\n", 5, "fit"),
    ("default of the wrong kind", HEAD + "request\n  x  bool  = 1\nresponse\n  y  i8\n", 5, "bool"),
    ("not a number", HEAD + "request\n  x  i32  = many\nresponse\n  y  i8\n", 5, "i32"),
    ("null default of what is never null", HEAD + "request\n  x  string  = null\nresponse\n  y  i8\n", 5, "never null"),
    ("default of a struct", HEAD + "request\n  s  s  = 3\n    x  i8\nresponse\n  y  i8\n", 5, "struct"),
    ("record without a key", "record a  versions 0  flexible none\n  x  i8\n", 1, "key"),
    ("record's key twice", "record a  key 1  versions 0  flexible none\n  x  i8\nrecord b  key 1  versions 0  flexible none\n  x  i8\n", 3, "already"),
    ("record in an api", HEAD + "request\n  x  i8\nrecord r  key 1\n", 6, "among records"),
    ("two apis", HEAD + "request\n  x  i8\nresponse\n  y  i8\napi b  key 2\n", 8, "one api"),
    ("nothing", "# only words\n", 1, "no message"),
]


def run(*args):
    """What the command line would do: exit status and what it says."""
    said = io.StringIO()
    sys.argv = ["msgc", *args]
    with contextlib.redirect_stderr(said):
        return msgc.main(), said.getvalue().strip()


def check(ok, what):
    if not ok:
        print(f"FAIL {what}")
        check.failures += 1


check.failures = 0


def write(path, text):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return path


def main():
    with tempfile.TemporaryDirectory() as folder:
        for what, text, line, words in WRONG:
            path = write(os.path.join(folder, "01_a.msg"), text)
            code, said = run("--out", os.path.join(folder, "out"), path)
            check(code == 1, f"{what}: accepted")
            check(re.match(re.escape(path) + rf":{line}: ", said) and words in said, f"{what}: said `{said}`, not line {line} and `{words}`")
        good = HEAD + "request\n  x  i8\n  y  string?  2+  tag 0  = null\nresponse\n  z  i8\n"
        path = write(os.path.join(folder, "01_a.msg"), good)
        again = write(os.path.join(folder, "02_b.msg"), good.replace("api a", "api b"))
        digest = os.path.join(folder, "digest")
        check(run("--digest", digest, path)[0] == 0, "a good schema is refused")
        check(run("--check-digest", digest, path)[0] == 0, "a digest is not its own")
        check("already" in run("--out", folder, path, again)[1], "one key for two apis is accepted")
        for old, new in (("i8\n  y", "i16\n  y"), ("tag 0", "tag 1"), ("= null", ""), ("2+  tag", "3+  tag"), ("string?", "string?3+")):
            write(path, good.replace(old, new, 1))
            check(run("--check-digest", digest, path)[0] == 1, f"the digest does not notice `{old}` -> `{new}`")
    print(f"msgc: {len(WRONG)} wrong schemas, {check.failures} failures")
    return 1 if check.failures else 0


sys.exit(main())
