"""Runs the tests of faults/tests with the machinery of raw.harness, a seed, and a time box for each.

usage: run.py [--shards N] [--seed N] [--full] [--list] [word...]      (words select by file or name)
"""
import argparse
import contextlib
import importlib
import os
import random
import signal
import sys
import time

from raw import harness
from raw.broker import COMPAT

BOX_S = 120                                          # one test; times FULL_FACTOR with --full
FULL_FACTOR = 10
options = None


def seed():
    return options.seed


def rng(salt):
    """A generator of choices that differs from test to test and repeats with the seed."""
    return random.Random(f"{options.seed}/{salt}")


def expired(*_):
    raise AssertionError("the time box of this test is used up")


def load():
    folder = os.path.join(COMPAT, "faults", "tests")
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py") and file != "__init__.py":
            importlib.import_module(f"faults.tests.{file[:-3]}")


def telling(function):
    """A failure shows the end of the broker's log, also of one that lives."""
    def told(c):
        try:
            function(c)
        except harness.Skip:
            raise
        except Exception as e:
            log = c.current.log_text()[-2500:] if c.current and os.path.exists(c.current.log_path) else ""
            raise AssertionError(f"seed {options.seed}: {type(e).__name__} {e}\n--- the broker's log ends\n{log}") from e
    return told


def run(result):
    for t in harness.selected(options):
        t.function = telling(t.function)
        signal.alarm(BOX_S * (FULL_FACTOR if options.full else 1))
        try:
            harness.run_one(t, options, result)
        finally:
            signal.alarm(0)


def main():
    global options
    parser = argparse.ArgumentParser(usage=__doc__.rsplit("usage: ", 1)[1])
    parser.add_argument("--shards", type=int, default=2)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("FAULTS_SEED", "0")) or int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    options.broker = "perigee"
    load()
    if options.list:
        for t in harness.selected(options):
            print(f"{t.file}: {t.name}{' [full]' if t.full else ''}")
        return 0
    print(f"# seed {options.seed}")
    from faults import selftest
    selftest.prove()
    signal.signal(signal.SIGALRM, expired)
    result, began = harness.Result(), time.monotonic()
    with contextlib.ExitStack() as at_end:
        at_end.callback(lambda: [b.close() for b in harness.Context.shared.values()])
        run(result)
    strict = os.environ.get("CI") == "true" and result.skipped
    print(f"# seed {options.seed}, {time.monotonic() - began:.0f} s")
    print(f"{result.passed} passed, {result.failed + (result.skipped if strict else 0)} failed, "
          f"{0 if strict else result.skipped} skipped")
    return 1 if result.failed or strict or not result.passed else 0


if __name__ == "__main__":
    sys.modules["faults.run"] = sys.modules["__main__"]
    sys.exit(main())
