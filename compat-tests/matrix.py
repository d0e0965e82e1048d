#!/usr/bin/env python3
"""Writes the table of the stock clients into docs/kafka-compatibility.md, from what the last runs left in build/compat/matrix.json.

usage: compat-tests/matrix.py            run `compat-tests/run.sh matrix` first; prints what it wrote
       compat-tests/matrix.py --print    prints only
"""
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RESULTS = os.path.join(ROOT, "build", "compat", "matrix.json")
PAGE = os.path.join(ROOT, "docs", "kafka-compatibility.md")
BEGIN, END = "<!-- the matrix: written by compat-tests/matrix.py -->", "<!-- end of the matrix -->"
GROUPS = (("create, list, describe, delete", ("create", "list", "describe", "delete")), ("none", ("none",)), ("gzip", ("gzip",)),
          ("snappy", ("snappy",)), ("lz4", ("lz4",)), ("zstd", ("zstd",)), ("acks 1, 0", ("acks 1", "acks 0")), ("from start", ("earliest",)),
          ("from offset", ("from offset",)), ("from time", ("from time",)), ("ends", ("ends",)),
          ("reads Java's, librdkafka's", ("reads Java's", "reads librdkafka's")), ("reads re-packed", ("reads re-packed",)), ("settings: read, change", ("configs", "alter")),
          ("delete records", ("trim",)), ("add partitions", ("grow",)))
SAYS = {"yes": "yes", "lacks": "–", "not tried": "·"}


def label(name, version):
    """The name without what its version says anyway."""
    bare = re.sub(r" (\(newest\)|\(Debian\)|[\d.]+)$", "", name)
    return name if not version else f"{name} ({version})" if " at " in name else f"{bare} {version}"


def cell(runs, columns):
    """One word when the columns agree over all runs, else one per column."""
    words = []
    for column in columns:
        seen = {run["cells"].get(column, "not tried") for run in runs}
        words.append(SAYS.get(seen.pop(), "**no**") if len(seen) == 1 else "**no**" if any(s not in SAYS for s in seen) else "·")
    return words[0] if len(set(words)) == 1 else ", ".join(words)


def table(results):
    lines = ["| client | " + " | ".join(g[0] for g in GROUPS) + " |", "|---" * (len(GROUPS) + 1) + "|"]
    notes = []
    for name in sorted(results, key=str.lower):
        runs = list(results[name].values())
        lines.append(f"| {label(name, runs[-1]['version'])} | " + " | ".join(cell(runs, g[1]) for g in GROUPS) + " |")
        if runs[-1]["lacks"]:
            notes.append(f"- {label(name, '').strip()}: " + "; ".join(f"{reason} ({', '.join(words)})" for reason, words in reasons(runs[-1]["lacks"])))
    return lines + ["", "What a client has not (–), or cannot send:", "", *notes]


def reasons(lacks):
    by = {}
    for word, reason in lacks.items():
        by.setdefault(reason, []).append(word)
    return by.items()


def main():
    with open(RESULTS, encoding="utf-8") as f:
        results = json.load(f)
    text = "\n".join(table(results))
    print(text)
    if "--print" in sys.argv:
        return 0
    with open(PAGE, encoding="utf-8") as f:
        page = f.read()
    if BEGIN not in page or END not in page:
        print(f"{PAGE} has no lines '{BEGIN}' and '{END}'", file=sys.stderr)
        return 1
    page = page[:page.index(BEGIN) + len(BEGIN)] + "\n" + text + "\n" + page[page.index(END):]
    with open(PAGE, "w", encoding="utf-8") as f:
        f.write(page)
    return 0


if __name__ == "__main__":
    sys.exit(main())
