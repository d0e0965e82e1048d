"""The main job on real input: the word list in by kcat, out by three other clients, judged by Kafka's own log reader. D2, BR-062, I1-I4."""
import base64
import os
import subprocess
import time

from raw import dumplog, tools
from raw.harness import fill, list_offset, test
from raw.wire import Conn

PARTITIONS = 6


def put_words(broker, topic, home, words, codec, *more):
    """Every line keyed by itself."""
    path = os.path.join(home, "input")
    with open(path, "wb") as f:
        f.writelines(w + b"\t" + w + b"\n" for w in words)
    tools.kcat(broker.addr, "-P", "-t", topic, "-K", "\t", "-z", codec, "-l", path, "-X", "queue.buffering.max.messages=200000", *more)


def ends(broker, topic, partitions=PARTITIONS):
    with Conn(broker.addr) as c:
        return [list_offset(c, topic, -1, partition=p)["offset"] for p in range(partitions)]


def collected(folder):
    """The values of all partition files; each line must be word<TAB>word."""
    out = []
    for p in os.listdir(folder):
        with open(os.path.join(folder, p), "rb") as f:
            for line in f.read().splitlines():
                key, value = line.split(b"\t")
                assert key == value, (key, value)
                out.append(value)
    return out


def read_with(name, broker, topic, home, partitions=PARTITIONS):
    folder = os.path.join(home, name)
    os.makedirs(folder)
    if name == "librdkafka":
        tools.run([tools.c_binary("reader"), broker.addr, topic, str(partitions), folder])
    elif name == "franz-go":
        tools.run([tools.go_binary(), "read", broker.addr, topic, str(partitions), folder])
    else:
        counts = [f"{p}:{n}" for p, n in enumerate(ends(broker, topic, partitions))]
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
    dumplog.judge(broker.data, snapshots=False)


@test("the word list by kcat with gzip, snappy and zstd, and uncompressed into one partition of several segments, the last two "
      "idempotent; read back by librdkafka; then kafka-dump-log without complaint")
def words_codecs(c):
    words_ = tools.words()
    broker = c.own()
    for codec, partitions in (("gzip", PARTITIONS), ("snappy", PARTITIONS), ("zstd", PARTITIONS), ("none", 1)):
        topic = c.topic(partitions=partitions, broker=broker, segment_bytes=1_048_576)
        put_words(broker, topic, broker.home, words_, codec, "-X", f"enable.idempotence={'true' if codec in ('zstd', 'none') else 'false'}")
        home = os.path.join(broker.home, codec)
        os.makedirs(home)
        got = read_with("librdkafka", broker, topic, home, partitions)
        assert sorted(got) == sorted(words_), f"{codec}: {len(got)} records"
    broker.stop()
    rolled = [f for f in os.listdir(os.path.join(broker.data, f"{topic}-0")) if f.endswith(".log")]
    assert len(rolled) >= 3, rolled
    dumplog.judge(broker.data)


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
    dumplog.judge(broker.data)


@test("D2 text files as Kafka's: partition.metadata, leader-epoch-checkpoint, meta.properties; the lock excludes a second broker")
def text_files(c):
    broker = c.own()
    topic = c.topic(broker=broker)
    with Conn(broker.addr) as conn:
        fill(conn, topic, 40, size=1000, per_batch=4)    # enough for side files: a log without index entries has none
        epoch = conn.call("Metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"][0]["leader_epoch"]
    if c.perigee:                                    # Kafka as well, but the first one then does not stop
        second = c.own(start=False, data=broker.data)
        status = second.start_expecting_failure(20)
        assert status == 78, (status, second.log_text()[-500:])
        c.current = broker
    broker.stop()
    folder = os.path.join(broker.data, f"{topic}-0")
    with open(os.path.join(folder, "partition.metadata"), encoding="ascii") as f:
        lines = f.read().splitlines()
        assert lines == ["version: 0", "topic_id: " + base64.urlsafe_b64encode(topic.id).decode().rstrip("=")], lines
    with open(os.path.join(folder, "leader-epoch-checkpoint"), encoding="ascii") as f:
        assert f.read().split("\n")[:3] == ["0", "1", f"{epoch} 0"]
    assert os.path.exists(os.path.join(broker.data, "meta.properties"))


@test("the log reader's verdict can be bad: a flipped byte in a log and a wrong index entry are complained about")
def dump_complains(c):
    broker = c.own()
    topic = c.topic(broker=broker, index_interval_bytes=100)
    with Conn(broker.addr) as conn:
        fill(conn, topic, 50, size=300, per_batch=1)
    broker.stop()
    folder = os.path.join(broker.data, f"{topic}-0")
    assert dumplog.judge(broker.data, snapshots=False) >= 3
    for kind, at in (("index", 6), ("log", 200)):
        path = os.path.join(folder, f"{0:020}.{kind}")
        with open(path, "rb+") as f:
            good = f.read()
            f.seek(at)
            f.write(bytes([good[at] ^ 0xFF]))
        try:
            dumplog.judge(broker.data, snapshots=False)
        except AssertionError:
            pass
        else:
            raise AssertionError(f"nothing was said about a broken {kind}")
        with open(path, "wb") as f:
            f.write(good)
