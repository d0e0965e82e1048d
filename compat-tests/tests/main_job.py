"""The main job on real input: the word list in by kcat, out by three other clients, judged by Kafka's own log reader. D2, BR-062, I1-I4."""
import glob
import os
import re
import subprocess
import time

from raw import tools
from raw.harness import list_offset, test
from raw.wire import Conn

PARTITIONS = 6


def put_words(broker, topic, home, words, codec):
    """Every line keyed by itself."""
    path = os.path.join(home, "input")
    with open(path, "wb") as f:
        f.writelines(w + b"\t" + w + b"\n" for w in words)
    tools.kcat(broker.addr, "-P", "-t", topic, "-K", "\t", "-z", codec, "-l", path, "-X", "queue.buffering.max.messages=200000")


def ends(broker, topic):
    with Conn(broker.addr) as c:
        return [list_offset(c, topic, -1, partition=p)["offset"] for p in range(PARTITIONS)]


def collected(folder):
    """The values of all partition files; each line must be word<TAB>word."""
    out = []
    for p in range(PARTITIONS):
        with open(os.path.join(folder, str(p)), "rb") as f:
            for line in f.read().splitlines():
                key, value = line.split(b"\t")
                assert key == value, (key, value)
                out.append(value)
    return out


def read_with(name, broker, topic, home):
    folder = os.path.join(home, name)
    os.makedirs(folder)
    if name == "librdkafka":
        tools.run([tools.c_binary("reader"), broker.addr, topic, str(PARTITIONS), folder])
    elif name == "franz-go":
        tools.run([tools.go_binary(), "read", broker.addr, topic, str(PARTITIONS), folder])
    else:
        counts = [f"{p}:{n}" for p, n in enumerate(ends(broker, topic))]
        tools.java("ConsoleLoop", broker.addr, topic, folder, *counts)
    return collected(folder)


@test("the word list by kcat with lz4, read back per partition by Java, librdkafka and franz-go, sorted identical; "
      "then kafka-dump-log reads the files of a clean stop without complaint (D2)")
def words(c):
    words_ = tools.words()
    broker = c.own()
    topic = c.topic(partitions=PARTITIONS, broker=broker, segment_bytes=1_048_576)
    put_words(broker, topic, broker.home, words_, "lz4")
    assert sum(ends(broker, topic)) == len(words_) == 104_334
    want = sorted(words_)
    for name in ("librdkafka", "franz-go", "java"):
        got = read_with(name, broker, topic, broker.home)
        assert sorted(got) == want, f"{name}: {len(got)} records, {len(set(got))} distinct"
    broker.stop()
    dump(broker.data)


@test("the word list by kcat with gzip, snappy and zstd, the idempotent zstd run included, read back by librdkafka")
def words_codecs(c):
    words_ = tools.words()
    broker = c.own()
    for codec in ("gzip", "snappy", "zstd"):
        topic = c.topic(partitions=PARTITIONS, broker=broker)
        put_words(broker, topic, broker.home, words_, codec)
        home = os.path.join(broker.home, codec)
        os.makedirs(home)
        got = read_with("librdkafka", broker, topic, home)
        assert sorted(got) == sorted(words_), f"{codec}: {len(got)} records"
    broker.stop()
    dump(broker.data)


class Child:
    """A process that must not outlive its test."""

    def __init__(self, process):
        self.process = process

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@test("I1 I3 BR-027 BR-062 kcat by standard input with idempotence; kill -9 at half, restart on the same port and data: "
      "kcat exits 0, every line exactly once")
def words_killed(c):
    words_ = tools.words()
    broker = c.own()
    topic = c.topic(partitions=PARTITIONS, broker=broker)
    tools.need("kcat")
    errors = open(os.path.join(broker.home, "kcat.err"), "wb")
    kcat = subprocess.Popen(["kcat", "-b", broker.addr, "-P", "-E", "-t", topic, "-K", "\t", "-z", "lz4", "-X", "enable.idempotence=true",
                             "-X", "linger.ms=20", "-X", "batch.num.messages=500", "-X", "reconnect.backoff.max.ms=200",
                             "-X", "socket.timeout.ms=10000"],
                            stdin=subprocess.PIPE, stderr=errors)
    c.opened.append(Child(kcat))
    half = len(words_) // 2
    lines = [w + b"\t" + w + b"\n" for w in words_]
    kcat.stdin.write(b"".join(lines[:half]))
    kcat.stdin.flush()
    deadline = time.monotonic() + 30
    while not any(ends(broker, topic)) and time.monotonic() < deadline:
        pass                                         # something is stored, more is on its way
    broker.kill9()
    broker.start()
    try:
        kcat.stdin.write(b"".join(lines[half:]))
        kcat.stdin.close()
    except BrokenPipeError:
        pass                                         # it ended early: its status and words tell why
    status = kcat.wait(120)
    errors.close()
    with open(errors.name, encoding="utf-8", errors="replace") as f:
        assert status == 0, f.read()[-1500:]
    c.settled(topic, PARTITIONS)
    got = read_with("librdkafka", broker, topic, broker.home)
    assert len(got) == len(words_), f"{len(got)} records for {len(words_)} lines"
    assert sorted(got) == sorted(words_)
    broker.stop()
    dump(broker.data)


COMPLAINTS = re.compile(r"mismatch|Exception|isvalid: false|Found|corrupt|invalid|Error|out of order|not found", re.IGNORECASE)


def dump(data):
    """kafka-dump-log over every file of the topic partitions; nothing that it prints is a complaint."""
    files = sorted(f for kind in ("log", "index", "timeindex", "snapshot", "txnindex")
                   for f in glob.glob(os.path.join(data, "*-[0-9]*", f"*.{kind}")) if "__cluster" not in f)
    kinds = {f.rsplit(".", 1)[1] for f in files}
    assert {"log", "index", "timeindex", "snapshot"} <= kinds, f"missing kinds of files: {kinds}"
    out = tools.java("org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(files), heap="512m").decode()
    bad = [line for line in out.splitlines() if COMPLAINTS.search(line) and not line.startswith("| offset")]
    assert not bad, bad[:10]
    assert out.count("Dumping") >= len(files), f"{out.count('Dumping')} of {len(files)} files read"
    assert out.count("baseOffset:") > 0
    check = tools.java("org.apache.kafka.tools.DumpLogSegments", "--index-sanity-check", "--files",
                       ",".join(f for f in files if f.endswith("index"))).decode()
    assert not COMPLAINTS.search(check), check[-2000:]


@test("D2 text files as Kafka's: partition.metadata, leader-epoch-checkpoint, meta.properties; the lock excludes a second broker")
def text_files(c):
    broker = c.own()
    topic = c.topic(broker=broker)
    with Conn(broker.addr) as conn:
        from raw.harness import fill
        fill(conn, topic, 3)
        epoch = conn.call("Metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"][0]["leader_epoch"]
    if c.perigee:                                    # Kafka as well, but the first one then does not stop
        second = c.own(start=False, data=broker.data)
        status = second.start_expecting_failure(20)
        assert status == 78, (status, second.log_text()[-500:])
        c.current = broker
    broker.stop()
    folder = os.path.join(broker.data, f"{topic}-0")
    with open(os.path.join(folder, "partition.metadata"), encoding="ascii") as f:
        import base64
        lines = f.read().splitlines()
        assert lines == ["version: 0", "topic_id: " + base64.urlsafe_b64encode(topic.id).decode().rstrip("=")], lines
    with open(os.path.join(folder, "leader-epoch-checkpoint"), encoding="ascii") as f:
        assert f.read().split("\n")[:3] == ["0", "1", f"{epoch} 0"]
    assert os.path.exists(os.path.join(broker.data, "meta.properties"))
