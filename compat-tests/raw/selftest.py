"""The schema table against the golden bytes of two foreign encoders: read, nothing left over, written again the same."""
import glob
import os
import struct
import sys

from raw import batch, schema
from raw.broker import ROOT


def bodies(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        n = struct.unpack_from(">I", data, at)[0]
        yield data[at + 4:at + 4 + n]
        at += 4 + n


def batches():
    """The batch reader and builder against batches of the Java client."""
    bad = 0
    paths = sorted(glob.glob(os.path.join(ROOT, "tests", "golden", "batch_*.bin")))
    for path in paths:
        b = batch.Batch(next(bodies(path)))
        with open(path[:-3] + "txt", encoding="utf-8") as f:
            want = [line.split()[:4] for line in f.read().splitlines()[1:]]
        got = [[str(o), str(t), text(k), text(v)] for o, t, k, v in b.records()]
        if not b.good_crc or got != want:
            bad += 1
            print(f"{path}: crc {b.good_crc}, records equal {got == want}")
    with open(os.path.join(ROOT, "tests", "golden", "batch_single.bin"), "rb") as f:
        bad += batch.batch([(b"key", b"value", 1_700_000_000_000)]) != f.read()[4:]
    for codec in range(5):
        bad += len(batch.Batch(batch.batch(batch.values("x", 5), codec=codec)).records()) != 5
    print(f"# raw batch: {len(paths) + 6} checks, {bad} wrong")
    return not bad and bool(paths)


def text(b):
    return "-" if b is None else "." if b == b"" else b.hex()


def main():
    names = {a.lower(): a for a in schema.APIS}
    count = bad = 0
    for path in sorted(glob.glob(os.path.join(ROOT, "tests", "golden", "*_v*.bin"))):
        api, direction, version = os.path.basename(path).split("_")[:3]
        version = int(version[1:])
        for i, body in enumerate(bodies(path)):
            values, left = schema.decode(names[api], version, body, direction == "resp")
            again = schema.encode(names[api], version, values, direction == "resp")
            count += 1
            if left or again != body:
                bad += 1
                print(f"{path} body {i}: {left} left over, equal {again == body}")
    print(f"# raw schema: {count} golden bodies, {bad} wrong")
    good = [not bad and count > 0, batches()]
    print(f"{sum(good)} passed, {len(good) - sum(good)} failed, 0 skipped")
    return not all(good)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
