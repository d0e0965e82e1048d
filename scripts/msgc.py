#!/usr/bin/env python3
"""msgc: messages (schema/kafka/*.msg, notation in schema/kafka/README.md) and stored records (schema/records/*.msg) into C.

    msgc.py --out DIR FILE...         write k_NAME.h and k_NAME.c per file (r_NAME for records), and k_api.h and k_api.c
    msgc.py --digest FILE FILE...     write the digest: a line per message
    msgc.py --check-digest FILE FILE...   fail when the digest is not that of the messages

msgc_schema.py reads and checks the schemas, msgc_emit.py writes the C. Standard library only.
"""
import argparse
import hashlib
import os
import sys

from msgc_emit import api_code_text, api_header_text, code_text, header_text
from msgc_schema import LAST, Bad, Parser, Range


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
            flexible = m.flexible if m.flexible.empty() else Range(m.flexible.lo, LAST)
            lines.append(f"{m.name[2:]}{key} versions={m.versions} flexible={flexible} fields={len(fields)} hash={sha}")
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
