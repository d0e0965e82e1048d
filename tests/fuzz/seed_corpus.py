#!/usr/bin/env python3
"""Seeds of the fuzz targets, from the golden bytes: of each api, version and direction one body of a middling size (T53).
usage: seed_corpus.py GOLDEN OUT"""
import os
import re
import struct
import sys

SCHEMAS = os.path.join(os.path.dirname(__file__), "../../schema/kafka")
BODY_BYTES_MAX = 600


def apis():
    """name without underscores -> (key, lowest version, first flexible version)"""
    found = {}
    for name in sorted(os.listdir(SCHEMAS)):
        with open(os.path.join(SCHEMAS, name)) as f:
            text = f.read()
        api = re.search(r"^api (\w+)\s+key (\d+)$", text, re.M)
        if api:
            versions = re.search(r"^versions (\d+)(?:-\d+)?(?:\s+flexible (\d+)\+)?", text, re.M)
            found[api[1].replace("_", "")] = (int(api[2]), int(versions[1]), int(versions[2] or 9999))
    return found


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


def header(key, v, flexible):
    return struct.pack(">hhih4s", key, v, -5, 4, b"seed") + (b"\0" if v >= flexible else b"")


def messages(golden):
    known = apis()
    message, frame = [], []
    for name in sorted(os.listdir(golden)):
        m = re.fullmatch(r"([a-z]+)_(req|resp)_v(\d+)_(java|java_tags)\.bin", name)
        if not m or m[1] not in known:
            continue
        key, low, flexible = known[m[1]]
        v, body = int(m[3]), pick(os.path.join(golden, name))
        message.append(bytes([key, (0x80 if m[2] == "resp" else 0) | (v - low)]) + body)
        if m[2] == "req":
            one = header(key, v, flexible) + body
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


def answers(golden):
    """What a command is told: its first answer at each version, and ListOffsets twice for `describe` (fuzz_answer)."""
    def one(name, v, low):
        body = pick(os.path.join(golden, f"{name}_resp_v{v}_java.bin"))
        return struct.pack(">BH", v - low, len(body)) + body
    known, found = apis(), []
    for command, name in ((0, "metadata"), (1, "metadata"), (2, "metadata"), (3, "createtopics"), (4, "deletetopics"), (5, "metadata")):
        for v in range(known[name][1], 99):
            if not os.path.exists(os.path.join(golden, f"{name}_resp_v{v}_java.bin")):
                break
            ends = one("listoffsets", min(v, 8), known["listoffsets"][1])
            found.append(bytes([command]) + one(name, v, known[name][1]) + (2 * ends if command in (1, 2) else b""))
    return found


def main():
    golden, out = sys.argv[1:]
    message, frame = messages(golden)
    batch, packed, stream = batches(golden)
    for name, inputs in (("message", message), ("frame", frame), ("batch", batch), ("zip", packed), ("stream", stream), ("answer", answers(golden))):
        write(os.path.join(out, f"seed_{name}.bin"), inputs)
        print(f"seed_{name}: {len(inputs)} inputs")


main()
