#!/usr/bin/env python3
"""A corpus is one file of [u32 big endian length][input]...; libFuzzer wants a file for each input.
usage: corpus.py unpack CORPUS DIR     (a CORPUS that is not there has no inputs)
       corpus.py pack CORPUS DIR       smallest name first; inputs above 4 KiB are not kept"""
import os
import struct
import sys

INPUT_BYTES_MAX = 4 << 10


def unpack(corpus, folder):
    data = open(corpus, "rb").read() if os.path.exists(corpus) else b""
    at = n = 0
    while at < len(data):
        size = struct.unpack_from(">I", data, at)[0]
        with open(os.path.join(folder, f"{os.path.basename(corpus)}-{n:06}"), "wb") as f:
            f.write(data[at + 4:at + 4 + size])
        at += 4 + size
        n += 1


def pack(corpus, folder):
    with open(corpus, "wb") as out:
        for name in sorted(os.listdir(folder)):
            with open(os.path.join(folder, name), "rb") as f:
                data = f.read()
            if len(data) <= INPUT_BYTES_MAX:
                out.write(struct.pack(">I", len(data)) + data)


{"unpack": unpack, "pack": pack}[sys.argv[1]](*sys.argv[2:])
