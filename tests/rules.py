#!/usr/bin/env python3
"""Which rules are named by a test, which by docs/kafka-compatibility.md, and which by nobody.

    tests/rules.py            counts, and the numbers that nobody names; exits 1 when there are any
    tests/rules.py --where N  the places that name N
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"\b(?:S\d+\.\d+|T\d+|BR-\d{3})\b")
# "S4.1-4.10", "S5.1, 5.3" and "T23-T26" name each number of the range or list.
SPAN = re.compile(r"\bS(\d+)\.(\d+)(?:-|–)(?:S?(\d+)\.)?(\d+)\b")
TSPAN = re.compile(r"\bT(\d+)(?:-|–)T?(\d+)\b")
TAIL = re.compile(r"\bS\d+\.\d+((?:,\s*\d+\.\d+)+)")
KINDS = {".c", ".h", ".py", ".sh", ".go", ".java", ".txt"}


def numbers(text):
    found = set(NUMBER.findall(text))
    for m in SPAN.finditer(text):
        if m.group(3) in (None, m.group(1)):
            found |= {f"S{m.group(1)}.{n}" for n in range(int(m.group(2)), int(m.group(4)) + 1)}
    for m in TSPAN.finditer(text):
        found |= {f"T{n}" for n in range(int(m.group(1)), int(m.group(2)) + 1)}
    for m in TAIL.finditer(text):
        found |= {"S" + part.strip() for part in m.group(1).split(",") if part.strip()}
    return found


def test_files():
    for top in ("tests", "compat-tests"):
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in KINDS and path.is_file() and path.name not in ("rules.py", "rules.txt"):
                yield path


def main():
    wanted = [n for line in (ROOT / "tests/rules.txt").read_text().splitlines() if not line.startswith("#") for n in line.split()]
    by_test = {}
    for path in test_files():
        for n in numbers(path.read_text(errors="replace")):
            by_test.setdefault(n, []).append(path.relative_to(ROOT))
    if len(sys.argv) == 3 and sys.argv[1] == "--where":
        print("\n".join(str(p) for p in by_test.get(sys.argv[2], ["nobody"])))
        return 0
    doc = ROOT / "docs/kafka-compatibility.md"
    by_doc = numbers(doc.read_text()) if doc.exists() else set()
    nobody = [n for n in wanted if n not in by_test and n not in by_doc]
    only_doc = [n for n in wanted if n not in by_test and n in by_doc]
    print(f"{len(wanted)} rules: {sum(n in by_test for n in wanted)} named by a test, {len(only_doc)} only by the compatibility page, {len(nobody)} by nobody")
    if only_doc:
        print("compatibility page:", " ".join(only_doc))
    if nobody:
        print("nobody:", " ".join(nobody))
    return 1 if nobody else 0


if __name__ == "__main__":
    sys.exit(main())
