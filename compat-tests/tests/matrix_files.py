"""What stock clients wrote, on disk: read by Kafka's own log reader, record by record. D2."""
import os
import re

from raw import dumplog, matrix
from raw.harness import test

RECORD = re.compile(r"^\| offset: (\d+) .*?keySize: (-?\d+) valueSize: (-?\d+).*? headerKeys: \[(.*)\]", re.MULTILINE)


def size(data):
    return -1 if data is None else len(data)


def ascii_names(names):
    """The reader prints names in its own encoding."""
    return [n for n in names if n.isascii() and "?" not in n and n]


@test("D2 S5.16 S5.17 kafka-dump-log on what Java and librdkafka wrote: every codec, also re-packed to lz4, idempotent or not, nulls, headers, 900 KB "
      "records; each record as sent")
def files(c):
    broker = c.own()
    logs = [(*matrix.written(name, broker), set(matrix.CODECS)) for name in (matrix.NEWEST_JAVA, matrix.LIBRDKAFKA)]
    logs.append((*matrix.written(matrix.LIBRDKAFKA, broker, compression_type="lz4"), {"lz4"}))
    status, _ = broker.stop()
    assert status == (0 if c.perigee else 143), broker.log_text()[-1000:]
    dumplog.judge(broker.data)
    out = dumplog.dump(["--deep-iteration"], [f for f in dumplog.files_of(broker.data) if f.endswith(".log")])
    dumped = {os.path.basename(os.path.dirname(part.split("\n", 1)[0])): part for part in out.split("Dumping ")[1:]}
    for topic, log, wanted_codecs in logs:
        codecs = set()
        for p, wanted in enumerate(log.parts):
            part = dumped[f"{topic}-{p}"]
            got = [(int(o), int(k), int(v), ascii_names(h.split(","))) for o, k, v, h in RECORD.findall(part)]
            sent = [(o, size(k), size(v), ascii_names(n for n, _ in h)) for o, (_, _, k, v, h) in enumerate(wanted)]
            assert got == sent, f"{topic}-{p}: {len(got)} of {len(sent)}; {[x for x in zip(got, sent) if x[0] != x[1]][:3]}"
            codecs |= set(re.findall(r"compresscodec: (\w+)", part.lower()))
        assert codecs == wanted_codecs, (topic, codecs)
