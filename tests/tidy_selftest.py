#!/usr/bin/env python3
"""Breaks every rule of tests/tidy.py once, in a small tree of its own, and sees exactly that reported.

Method: a clean tree with one file of each kind must pass; each case edits a copy of it, compiles what changed, runs tidy.py as ctest does and
compares the (path, rule) pairs of its report with the expected ones, no more and no fewer.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

TIDY = pathlib.Path(__file__).resolve().parent / "tidy.py"
HEAD = "/* What it is for.\n *\n * Happy path: it works.\n * Failure modes: none.\n * Runs on: any thread. */\n"
README = "# a room\n\nWhat it is for.\n"
LATER = "TO" + "DO"                               # written apart, so that tidy does not find it here

CLEAN = {
    "src/base/CMakeLists.txt": "room(base)\n",
    "src/base/README.md": README,
    "src/base/include/base/word.h": "/* A word. */\n#pragma once\n#include <stddef.h>\nsize_t word_len(const char *s);\n",
    "src/base/word.c": HEAD + '#include "base/word.h"\n#include <string.h>\nsize_t word_len(const char *s) {\n    return strlen(s);\n}\n',
    "src/base/include/base/mem.h": "/* Memory. */\n#pragma once\n#include <stddef.h>\nvoid *mem_alloc(size_t n);\n",
    "src/base/mem.c": HEAD + '#include "base/mem.h"\n#include <stdlib.h>\nvoid *mem_alloc(size_t n) {\n    return malloc(n);\n}\n',
    "src/port/CMakeLists.txt": "room(port NEEDS base)\n",
    "src/port/README.md": README,
    "src/port/include/port/clock.h": "/* Time. */\n#pragma once\nstruct clock;\nlong clock_now(struct clock *c);\n",
    "src/port/clock.c": HEAD + '#include "port/clock.h"\nlong clock_now(struct clock *c) {\n    return c != 0;\n}\n',
    "src/port/uv/CMakeLists.txt": "room(port_uv NEEDS port)\n",
    "src/port/uv/README.md": README,
    "src/port/uv/clock_uv.c": HEAD + "#include <pthread.h>\n#include <time.h>\nlong clock_uv_now(void);\n"
                              "long clock_uv_now(void) {\n    return (long)pthread_self() + time(0);\n}\n",
    "src/state/CMakeLists.txt": "room(state NEEDS base)\n",
    "src/state/README.md": README,
    "src/state/include/state/lease.h": "/* Leases. */\n#pragma once\nint lease_next(int now);\n",
    "src/state/lease.c": HEAD + '#include "state/lease.h"\nint lease_next(int now) {\n    return now + 1;\n}\n',
    "src/store/CMakeLists.txt": "room(store NEEDS port)\n",
    "src/store/README.md": README,
    "src/store/include/store/plog.h": "/* A log. */\n#pragma once\nint plog_open(void);\n",
    "src/store/plog.c": HEAD + '#include "store/plog.h"\nint plog_open(void) {\n    return 0;\n}\n',
    "src/broker/CMakeLists.txt": "# the broker\nroom(broker NEEDS state port HIDES store)\n",
    "src/broker/README.md": README,
    "src/broker/include/broker/shard.h": "/* A shard. */\n#pragma once\nint shard_turn(int n);\n",
    "src/broker/shard.c": HEAD + '#include "broker/shard.h"\n#include "state/lease.h"\n#include "store/plog.h"\n'
                          "int shard_turn(int n) {\n    return plog_open() + lease_next(n);\n}\n",
    "src/kafka/CMakeLists.txt": "room(kafka NEEDS broker)\n",
    "src/kafka/README.md": README,
    "src/kafka/api.h": "/* Private to the room. */\n#pragma once\nint fetch_run(int n);\n",
    "src/kafka/01_fetch.c": HEAD + '#include "api.h"\n#include "base/mem.h"\n#include "base/word.h"\n#include "broker/shard.h"\n#include "port/clock.h"\n'
                            'static const char *const names[] = {"a", "b"};\n'
                            "int fetch_run(int n) {\n    return shard_turn(n) + names[n & 1][0];\n}\n",
    "tests/unit/base/test_word.c": "/* Goal: words. */\n#include <assert.h>\nint main(void) {\n    assert(1);\n    return 0;\n}\n",
}


def with_body(path, extra):
    return {path: CLEAN[path] + extra}


def function(name, lines, params="void"):
    return f"int {name}({params});\nint {name}({params}) {{\n" + "    (void)0;\n" * (lines - 3) + "    return 0;\n}\n"


FETCH, WORD, SHARD, LEASE = "src/kafka/01_fetch.c", "src/base/word.c", "src/broker/shard.c", "src/state/lease.c"
CASES = {
    # the street
    "kafka_reaches_store": (with_body(FETCH, '#include "store/plog.h"\n'), [(FETCH, "street")]),
    "upward_include": (with_body(WORD, '#include "state/lease.h"\n'), [(WORD, "street")]),
    "angle_brackets_do_not_help": (with_body(LEASE, "#include <port/clock.h>\n"), [(LEASE, "street")]),
    "public_header_shows_hidden_room": (with_body("src/broker/include/broker/shard.h", '#include "store/plog.h"\n'),
                                        [("src/broker/include/broker/shard.h", "street")]),
    "store_linked_openly": ({"src/broker/CMakeLists.txt": "room(broker NEEDS state port store)\n"}, [("src/broker/CMakeLists.txt", "street")]),
    "upward_link": ({"src/base/CMakeLists.txt": "room(base NEEDS wire)\n"}, [("src/base/CMakeLists.txt", "street")]),
    "room_without_a_place": ({"src/base/CMakeLists.txt": "room(base)\nroom(attic NEEDS base)\n"}, [("src/base/CMakeLists.txt", "street")]),
    "smuggled_extern": (with_body(FETCH, "extern int plog_open(void);\nint fetch_two(void);\nint fetch_two(void) {\n    return plog_open();\n}\n"),
                        [(FETCH, "street")]),
    # symbols
    "foreign_prefix": (with_body(WORD, "int sentence(void);\nint sentence(void) {\n    return 0;\n}\n"), [(WORD, "prefix")]),
    "number_is_not_the_stem": (with_body(FETCH, "int produce_run(void);\nint produce_run(void) {\n    return 0;\n}\n"), [(FETCH, "prefix")]),
    "file_that_continues_another": ({"src/store/plog_read.c": HEAD + "int plog_tail(void);\nint plog_tail(void) {\n    return 0;\n}\n"}, []),
    "file_that_continues_nothing": ({"src/store/page_read.c": HEAD + "int page_tail(void);\nint page_tail(void) {\n    return 0;\n}\n"},
                                    [("src/store/page_read.c", "prefix")]),
    "clock_in_a_quiet_room": (with_body(LEASE, "#include <time.h>\nlong lease_at(void);\nlong lease_at(void) {\n    return time(0);\n}\n"),
                              [(LEASE, "quiet")]),
    "unlisted_call_in_a_quiet_room": (with_body(LEASE, "#include <stdio.h>\nvoid lease_say(int c);\nvoid lease_say(int c) {\n    putc(c, stdout);\n}\n"),
                                      [(LEASE, "quiet")]),
    "fopen_in_a_noisy_room": (with_body(SHARD, '#include <stdio.h>\nint shard_x(void);\nint shard_x(void) {\n    return fopen("x", "r") != 0;\n}\n'),
                              [(SHARD, "impure")]),
    "malloc_outside_mem": (with_body(SHARD, "#include <stdlib.h>\nvoid *shard_x(void);\nvoid *shard_x(void) {\n    return (malloc)(7);\n}\n"),
                           [(SHARD, "malloc")]),
    "free_as_a_callback": (with_body(SHARD, "#include <stdlib.h>\nvoid (*shard_x(void))(void *);\nvoid (*shard_x(void))(void *) {\n    return free;\n}\n"),
                           [(SHARD, "malloc")]),
    "writable_global": (with_body(SHARD, "static int seen;\nint shard_x(void);\nint shard_x(void) {\n    return seen++;\n}\n"), [(SHARD, "globals")]),
    "writable_static_in_a_function": (with_body(LEASE, "int lease_x(void);\nint lease_x(void) {\n    static int n = 5;\n    return n++;\n}\n"),
                                      [(LEASE, "globals")]),
    # words
    "strcpy_word": (with_body(WORD, "#define WORD_COPY(a, b) strcpy(a, b)\n"), [(WORD, "word")]),
    "sprintf_word": (with_body(SHARD, "#define SHARD_PRINT(a) sprintf(a, a)\n"), [(SHARD, "word")]),
    "atoi_word": (with_body(SHARD, "#define SHARD_NUM(a) atoi(a)\n"), [(SHARD, "word")]),
    "strtok_word": (with_body(SHARD, "#define SHARD_CUT(a) strtok(a, a)\n"), [(SHARD, "word")]),
    "strcat_word": (with_body(SHARD, "#define SHARD_ADD(a) strcat(a, a)\n"), [(SHARD, "word")]),
    "gets_word": (with_body(SHARD, "#define SHARD_GET(a) gets(a)\n"), [(SHARD, "word")]),
    "assert_word": (with_body(SHARD, "#define SHARD_SURE(a) assert(a)\n"), [(SHARD, "word")]),
    "usleep_word": (with_body(SHARD, "#define SHARD_NAP(a) usleep(a)\n"), [(SHARD, "word")]),
    "malloc_word": (with_body(SHARD, "#define SHARD_MEM(a) malloc(a)\n"), [(SHARD, "word")]),
    "free_word": (with_body(SHARD, "#define SHARD_DROP(a) free(a)\n"), [(SHARD, "word")]),
    "float_in_state": (with_body(LEASE, "typedef double lease_share;\n"), [(LEASE, "word")]),
    "sleep_in_a_test": (with_body("tests/unit/base/test_word.c", "#define NAP sleep(1)\n"), [("tests/unit/base/test_word.c", "word")]),
    "dotdot_include": (with_body(WORD, '#include "../base/include/base/word.h"\n'), [(WORD, "word")]),
    "work_left_for_later": (with_body(WORD, f"/* {LATER}: finish */\n"), [(WORD, "word")]),
    "work_left_in_a_script": ({"scripts/run.sh": f"# {LATER}\n"}, [("scripts/run.sh", "word")]),
    "words_in_comments_and_strings_are_free": (with_body(SHARD, '/* never strcpy(a, b) or malloc(1) */\n#define SHARD_S "sleep(1) \\" strcpy(x, y)"\n'), []),
    "kin_of_words_are_free": (with_body(SHARD, "#define SHARD_F(x) mem_free(x) x.free(1) x->free(1) my_free(x) static_assert(1) snprintf(x)\n"), []),
    # sizes
    "function_too_long": (with_body(WORD, function("word_long", 71)), [(WORD, "size")]),
    "function_just_fits": (with_body(WORD, function("word_long", 70)), []),
    "file_too_long": (with_body(WORD, "\n" * 800), [(WORD, "size")]),
    "too_many_parameters": (with_body(WORD, function("word_many", 5, "int a, int b, int c, int d, int e, int f")), [(WORD, "size")]),
    "parameters_behind_a_macro_call": (with_body(WORD, "#define WORD_SIX(a, b, c, d, e, f)\nWORD_SIX(1, 2, 3, 4, 5, 6)\n" + function("word_few", 5)), []),
    "function_that_returns_a_function": (with_body(WORD, "int (*word_of(int a))(int);\nint (*word_of(int a))(int) {\n" + "    a++;\n" * 70
                                                   + "    return a ? 0 : 0;\n}\n"), [(WORD, "size")]),
    "five_parameters_and_a_tail": (with_body(WORD, function("word_many", 5, "int a, int b, int c, int d, int e, ...")), []),
    "giant_in_the_ratchet": ({**with_body(WORD, function("word_long", 90)), "tests/tidy.ratchet": f"# giants\nfunction {WORD}:word_long 90\n"}, []),
    "giant_grows": ({**with_body(WORD, function("word_long", 91)), "tests/tidy.ratchet": f"function {WORD}:word_long 90\n"}, [(WORD, "size")]),
    "giant_shrinks": ({**with_body(WORD, function("word_long", 89)), "tests/tidy.ratchet": f"function {WORD}:word_long 90\n"},
                      [("tests/tidy.ratchet", "size")]),
    "giant_is_gone": ({"tests/tidy.ratchet": f"function {WORD}:word_long 90\n"}, [("tests/tidy.ratchet", "size")]),
    # files
    "header_needs_company": (with_body("src/base/include/base/word.h", "int word_all(struct list *l, uint8_t n);\n"),
                             [("src/base/include/base/word.h", "alone")]),
    "header_not_guarded": ({"src/kafka/api.h": "/* Private. */\nint fetch_run(int n);\n"}, [("src/kafka/api.h", "head")]),
    "no_head": ({WORD: CLEAN[WORD][len(HEAD):]}, [(WORD, "head")]),
    "head_without_threads": ({WORD: CLEAN[WORD].replace("Runs on", "Used by")}, [(WORD, "head")]),
    "test_without_a_head": ({"tests/unit/base/test_word.c": "int main(void) {\n    return 0;\n}\n"}, [("tests/unit/base/test_word.c", "head")]),
    "head_too_long": ({WORD: "/* A\n" + " * story\n" * 30 + " * Runs on: any. */\n" + CLEAN[WORD][len(HEAD):]}, [(WORD, "head")]),
    "uv_outside_its_room": (with_body(SHARD, "#if 0\n#include <uv.h>\n#endif\n"), [(SHARD, "system")]),
    "pthread_outside_its_room": (with_body(SHARD, "#include <pthread.h>\n"), [(SHARD, "system")]),
    "readme_missing": ({"src/store/README.md": None}, [("src/store/README.md", "readme")]),
    "readme_too_long": ({"src/store/README.md": "line\n" * 61}, [("src/store/README.md", "readme")]),
    "header_nobody_includes": ({"src/store/left.h": "/* Left over. */\n#pragma once\n"}, [("src/store/left.h", "dead")]),
    "object_missing": ({"src/store/new.c": HEAD + "/* not compiled */\n", "OBJECTS": ["src/store/new.c"]}, [("src/store/new.c", "built")]),
}


def command(root, source):
    room = pathlib.PurePosixPath(source).parent
    obj = f"{room}/CMakeFiles/r.dir/{pathlib.PurePosixPath(source).name}.o"
    includes = " ".join(f"-I{p}" for p in sorted(root.glob("src/**/include")))
    return obj, f"cc -std=gnu2x -Wall -Wextra -Werror {includes} -c {root / source} -o {obj}"


def lay_out(root, files):
    for path, text in files.items():
        target = root / path
        if text is None:
            target.unlink()
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def compile_all(root, sources):
    build = root / "build"
    for source in sources:
        obj, line = command(root, source)
        (build / obj).parent.mkdir(parents=True, exist_ok=True)
        relaxed = line.replace("-Wall -Wextra -Werror", "-w")       # a seeded sin must still become an object
        subprocess.run(relaxed.split(), cwd=build, check=True)


def write_commands(root):
    build = root / "build"
    sources = sorted(p.relative_to(root).as_posix() for p in root.glob("src/**/*.c"))
    entries = [{"directory": str(build), "file": str(root / s), "command": command(root, s)[1]} for s in sources]
    (build / "compile_commands.json").write_text(json.dumps(entries))


def tidy(root):
    run = subprocess.run([sys.executable, str(TIDY), str(root / "build"), "--root", str(root)], capture_output=True, text=True)
    found = [m.groups() for m in re.finditer(r"^(\S+?):\d+: \[(\w+)\]", run.stdout, re.M)]
    return run.returncode, sorted(set(found)), run.stdout + run.stderr


class TidySelftest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temp = tempfile.TemporaryDirectory()
        cls.clean = pathlib.Path(cls.temp.name) / "clean"
        (cls.clean / "build").mkdir(parents=True)
        lay_out(cls.clean, CLEAN)
        compile_all(cls.clean, [p for p in CLEAN if p.startswith("src/") and p.endswith(".c")])

    @classmethod
    def tearDownClass(cls):
        cls.temp.cleanup()

    def check(self, name, edits, expected):
        root = self.clean.parent / name
        shutil.copytree(self.clean, root)
        uncompiled = edits.pop("OBJECTS", [])
        lay_out(root, edits)
        headers = any(p.endswith(".h") for p in edits)
        changed = [p for p in edits if p.startswith("src/") and p.endswith(".c") and p not in uncompiled]
        compile_all(root, [] if headers else changed)
        write_commands(root)
        status, found, output = tidy(root)
        self.assertEqual(found, sorted(expected), output)
        self.assertEqual(status, 1 if expected else 0, output)


def add_case(name, edits, expected):
    setattr(TidySelftest, f"test_{name}", lambda self: self.check(name, dict(edits), expected))


add_case("clean_tree_passes", {}, [])
for case, (its_edits, its_expected) in CASES.items():
    add_case(case, its_edits, its_expected)

if __name__ == "__main__":
    unittest.main()
