"""Kafka's own kafka-dump-log as the judge of the files of a stopped broker (D2)."""
import glob
import os
import re

from raw import tools

COMPLAINTS = re.compile(r"mismatch|exception|isvalid: false|found|corrupt|invalid|error|out of order", re.IGNORECASE)
KINDS = ("log", "index", "timeindex", "snapshot", "txnindex")


def files_of(data):
    found = [f for kind in KINDS for f in glob.glob(os.path.join(data, "*-[0-9]*", f"*.{kind}"))]
    return sorted(f for f in found if not os.path.basename(os.path.dirname(f)).startswith("__"))


def judge(data, deep=True, snapshots=True):
    """Every file of the topic partitions is read; nothing printed is a complaint. Returns the number of files."""
    files = files_of(data)
    kinds = {f.rsplit(".", 1)[1] for f in files}
    want = {"log", "index", "timeindex"} | ({"snapshot"} if snapshots else set())
    assert want <= kinds, f"missing kinds of files: {want - kinds}"
    out = dump(["--deep-iteration"] if deep else [], files)
    assert out.count("Dumping") >= len(files), f"{out.count('Dumping')} of {len(files)} files read"
    assert out.count("baseOffset:") > 0
    dump(["--index-sanity-check"], [f for f in files if f.endswith("index")])
    return len(files)


def some(files, limit=100_000):
    """The files in groups whose names fit into one argument of a command (128 KiB)."""
    group, size = [], 0
    for f in files:
        if group and size + len(f) + 1 > limit:
            yield group
            group, size = [], 0
        group.append(f)
        size += len(f) + 1
    if group:
        yield group


def dump(options, files):
    out = "".join(tools.java("org.apache.kafka.tools.DumpLogSegments", *options, "--files", ",".join(group), heap="512m").decode(errors="replace")
                  for group in some(files))
    bad = [line for line in out.splitlines() if not line.startswith("| offset") and not line.startswith("Dumping")
           and COMPLAINTS.search(line)]
    assert not bad, bad[:10]
    return out
