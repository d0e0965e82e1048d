#!/usr/bin/env python3
"""Seeds of the fuzz targets, from the golden bytes: of each api, version and direction one body of a middling size (T53).
usage: seed_corpus.py GOLDEN OUT"""
import os
import re
import struct
import sys

# As in the generated table (k_apis), in order of key.
APIS = [("produce", 0, 0), ("fetch", 1, 4), ("listoffsets", 2, 0), ("metadata", 3, 0), ("findcoordinator", 10, 0), ("apiversions", 18, 0),
        ("createtopics", 19, 0), ("deletetopics", 20, 0), ("initproducerid", 22, 0), ("offsetforleaderepoch", 23, 2)]
FLEXIBLE = {0: 9, 1: 12, 2: 6, 3: 9, 10: 3, 18: 3, 19: 5, 20: 4, 22: 2, 23: 4}
BODY_BYTES_MAX = 600


def bodies(path):
    with open(path, "rb") as f:
        data = f.read()
    while data:
        n = struct.unpack(">I", data[:4])[0]
        yield data[4:4 + n]
        data = data[4 + n:]


def write(path, inputs):
    with open(path, "wb") as f:
        for i in inputs:
            f.write(struct.pack(">I", len(i)) + i)


def pick(path):
    """The body nearest to 200 bytes, which has a little of everything."""
    return min((b for b in bodies(path) if len(b) <= BODY_BYTES_MAX), key=lambda b: abs(len(b) - 200), default=b"")


def header(key, v):
    return struct.pack(">hhih4s", key, v, -5, 4, b"seed") + (b"\0" if v >= FLEXIBLE[key] else b"")


def messages(golden):
    index = {name: (i, key, low) for i, (name, key, low) in enumerate(APIS)}
    message, frame = [], []
    for name in sorted(os.listdir(golden)):
        m = re.fullmatch(r"([a-z]+)_(req|resp)_v(\d+)_(java|java_tags)\.bin", name)
        if not m:
            continue
        i, key, low = index[m[1]]
        v, body = int(m[3]), pick(os.path.join(golden, name))
        message.append(bytes([i, (0x80 if m[2] == "resp" else 0) | (v - low)]) + body)
        if m[2] == "req":
            one = header(key, v) + body
            frame.append(struct.pack(">I", len(one)) + one)
    return message, frame


def batches(golden):
    batch, packed, stream = [], [], []
    for name in sorted(os.listdir(golden)):
        if re.fullmatch(r"batch_\w+\.bin", name):
            b = next(bodies(os.path.join(golden, name)))
            batch.append(b)
            codec = b[22] & 7
            if codec:
                packed.append(bytes([codec - 1]) + b[61:])
                stream.append(bytes([codec - 1, min(struct.unpack(">i", b[57:61])[0] - 1, 7)]) + b[61:])
    return batch, packed, stream


def main():
    golden, out = sys.argv[1:]
    message, frame = messages(golden)
    batch, packed, stream = batches(golden)
    for name, inputs in (("message", message), ("frame", frame), ("batch", batch), ("zip", packed), ("stream", stream)):
        write(os.path.join(out, f"seed_{name}.bin"), inputs)
        print(f"seed_{name}: {len(inputs)} inputs")


main()
