"""Stock clients: kcat (librdkafka 2.0), the Java clients, franz-go, sarama with old versions, kafka-python."""
import functools
import os
import subprocess
import sys

from raw import batch as rb
from raw import tools
from raw.broker import CACHE, shell
from raw.harness import Skip, fetch, fill, list_offset, metadata, test


# ---- kcat ----

@test("BR-001 kcat -L -d feature,broker: no parse failure, no fallback to an old feature set")
def kcat_features(c):
    broker = c.broker()
    tools.need("kcat")
    done = subprocess.run(["kcat", "-b", broker.addr, "-L", "-d", "feature,broker", "-m", "20"], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    text = done.stderr.lower()
    assert "falling back" not in text and "unable to parse" not in text and "parse error" not in text, done.stderr[-1500:]
    for feature in ("MsgVer2", "IdempotentProducer", "ZSTD", "LZ4"):      # groups come with the next road
        lines = [line for line in text.splitlines() if f"feature {feature.lower()}" in line]
        assert any("enabling feature" in line or "not" not in line for line in lines), (feature, lines)


@test("BR-002 kcat -z gzip, snappy, lz4, zstd: no word about unsupported compression, the stored batches carry the codec")
def kcat_codecs(c):
    broker, conn = c.broker(), c.conn()
    for codec, number in rb.CODECS.items():
        topic = c.topic()
        data = b"\n".join(b"compressible line %d" % i for i in range(500))
        out = subprocess.run(["kcat", "-b", broker.addr, "-P", "-t", topic, "-p", "0", "-z", codec, "-d", "msg,feature"],
                             input=data, capture_output=True, timeout=60, check=True)
        assert b"nsupported" not in out.stderr.replace(b"Unsupported ApiVersion", b""), (codec, out.stderr[-500:])
        got = rb.batches(fetch(conn, topic, 0)["records"])
        # A first batch of a few lines, which packing would only make longer, is sent as it is.
        assert any(b.codec == number for b in got) and all(b.codec == number or b.count < 10 for b in got), (codec, [(b.codec, b.count) for b in got])
        back = tools.kcat(broker.addr, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-X", "check.crcs=true")
        assert back.rstrip(b"\n") == data, codec


@test("BR-026 kcat -P -X enable.idempotence=true")
def kcat_idempotent(c):
    broker, topic = c.broker(), c.topic()
    tools.need("kcat")
    subprocess.run(["kcat", "-b", broker.addr, "-P", "-t", topic, "-X", "enable.idempotence=true"], input=b"a\nb\nc\n", timeout=60, check=True)
    assert tools.kcat(broker.addr, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q") == b"a\nb\nc\n"
    assert rb.batches(fetch(c.conn(), topic, 0)["records"])[0].pid >= 0


@test("BR-004 kcat at an offset far beyond the end reports out of range, no parse error")
def kcat_out_of_range(c):
    broker, topic = c.broker(), c.topic()
    fill(c.conn(), topic, 3)
    tools.need("kcat")
    done = subprocess.run(["kcat", "-b", broker.addr, "-C", "-t", topic, "-p", "0", "-o", "99999999", "-X", "auto.offset.reset=error", "-e"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert "out of range" in done.stderr.lower(), done.stderr
    assert "parse" not in done.stderr.lower() and done.stdout == ""


@test("BR-010 BR-011 kcat -Q and -o s@: by time, also where nothing is found")
def kcat_by_time(c):
    broker, topic, conn = c.broker(), c.topic(), c.conn()
    for t in (1000, 2000, 3000):
        conn.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": 0, "records": rb.batch([(None, b"t%d" % t, rb.T0 + t)])}]}])
    ask = [tools.kcat(broker.addr, "-Q", "-t", f"{topic}:0:{rb.T0 + t}").decode().strip() for t in (0, 1001, 3000, 9_000_000)]
    assert [a.rsplit(" ", 1)[1] for a in ask[:3]] == ["0", "1", "2"], ask
    assert ask[3].rsplit(" ", 1)[1] in ("-1", "3"), ask[3]
    got = tools.kcat(broker.addr, "-C", "-t", topic, "-p", "0", "-o", f"s@{rb.T0 + 1500}", "-e", "-q")
    assert got == b"t2000\nt3000\n", got


@test("BR-040 kcat -L is told an address that it can dial")
def kcat_address(c):
    broker = c.broker()
    out = tools.kcat(broker.addr, "-L").decode()
    assert f"at {broker.addr}" in out, out[:500]


@test("BR-050 kcat auto-creates a.b and not a_b after it; bad names are told as such")
def kcat_names(c):
    broker, conn = c.broker(), c.conn()
    tools.need("kcat")
    name = c.name("kc")
    subprocess.run(["kcat", "-b", broker.addr, "-P", "-t", f"{name}.x"], input=b"1\n", timeout=60, check=True)
    bad = subprocess.run(["kcat", "-b", broker.addr, "-P", "-t", f"{name}_x", "-X", "message.timeout.ms=3000"], input=b"1\n",
                         timeout=60, check=False, capture_output=True)
    known = {t["name"] for t in metadata(conn, None)["topics"]}
    assert f"{name}.x" in known and f"{name}_x" not in known, bad.stderr


# ---- Java ----

@functools.cache
def java_results(where, prefix):
    out = tools.java("Clients", where, prefix, limit=240).decode().splitlines()
    return {line.removeprefix("not ").split(":")[0].removeprefix("ok "): line for line in out if "ok " in line}


def java_check(name):
    def function(c):
        line = java_results(c.broker().addr, "java").get(name, "no result")
        assert line == f"ok {name}", line
    return function


JAVA = {
    "defaultProducer": "BR-026 a Java producer with no settings but the address, onto a topic that is not there yet (BR-044)",
    "codecs": "S5.17 each codec of the Java client, headers, null keys and values, check.crcs",
    "offsetsForTimes": "BR-010 BR-011 S8.3 offsetsForTimes inside a batch and null for the future; ends; Admin maxTimestamp",
    "largeMessage": "BR-017 a 5 MB message through fetch.max.bytes=1000",
    "tooLarge": "BR-052 MESSAGE_TOO_LARGE for one topic only; batches that the client splits get through",
    "outOfRange": "BR-004 T46 out of range is told as such; the log end is not out of range",
    "noCreation": "BR-043 allow.auto.create.topics=false does not create",
    "adminTopics": "BR-049 BR-050 Admin.createTopics with defaults, existing, invalid, too many replicas",
    "recreated": "BR-042 producer and consumer go on over deletion and re-creation, no data of the former life",
    "idle": "BR-016 fetch.max.wait.ms is honoured: an idle consumer fetches about twice a second",
}
for _name, _title in JAVA.items():
    test(f"Java clients: {_title}")(java_check(_name))


# ---- Go ----

@test("franz-go with its defaults: idempotent producing and reading back in order")
def franz_defaults(c):
    tools.run([tools.go_binary(), "produce", c.broker().addr, c.topic(), "3000"])


@test("BR-012 franz-go kmsg: OffsetForLeaderEpoch of the current and the next epoch")
def franz_epochs(c):
    topic = c.topic()
    fill(c.conn(), topic, 7)
    tools.run([tools.go_binary(), "epochs", c.broker().addr, topic])


@test("BR-003 BR-004 sarama pinned to 0.11, 1.0, 2.1, 2.8, 3.6 and 4.0 produces, consumes and is told out of range")
def sarama_versions(c):
    topic = c.topic()
    for version in ("0.11.0.0", "1.0.0", "2.1.0", "2.8.0", "3.6.0", "4.0.0"):
        try:
            tools.run([tools.go_binary(), "sarama", c.broker().addr, topic, version])
        except AssertionError as e:
            raise AssertionError(f"version {version}: {e}") from None


# ---- Python ----

@functools.cache
def kafka_python():
    try:
        return shell("compat_kafka_python")
    except (subprocess.CalledProcessError, IndexError):
        raise Skip("kafka-python could not be installed") from None


KAFKA_PYTHON = """
import sys, time
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
where, topic, version = sys.argv[1], sys.argv[2], sys.argv[3]
more = {} if version == "auto" else {"api_version": tuple(int(x) for x in version.split("."))}
p = KafkaProducer(bootstrap_servers=where, acks="all", linger_ms=50, **more)
t0 = (int(time.time()) - 86_400) * 1000
sent = [p.send(topic, b"v%d" % i, partition=0, timestamp_ms=t0 + 2 * i + 2) for i in range(4)]
first = sent[0].get(10).offset
assert [f.get(10).offset for f in sent] == [first + i for i in range(4)]
c = KafkaConsumer(bootstrap_servers=where, auto_offset_reset="earliest", consumer_timeout_ms=10000, **more)
tp = TopicPartition(topic, 0)
c.assign([tp]); c.seek(tp, first)
got = [next(c).value for _ in range(4)]
assert got == [b"v%d" % i for i in range(4)], got
assert c.end_offsets([tp])[tp] == first + 4
if version in ("auto", "2.1"):
    assert c.offsets_for_times({tp: int(time.time() * 1000) + 3_600_000})[tp] is None
    if first == 0:
        assert [c.offsets_for_times({tp: t0 + t})[tp].offset for t in (2, 3, 4, 5, 8)] == [0, 1, 1, 2, 3]
c.close(); p.close()
"""


@test("BR-002 BR-003 BR-010 BR-011 kafka-python: version probe, produce, consume, look-up by time; also pinned to 1.0 and 2.1")
def python_client(c):
    python, topic = kafka_python(), c.topic()
    for version in ("auto", "1.0", "2.1"):
        tools.run([python, "-c", KAFKA_PYTHON, c.broker().addr, topic, version])
    assert list_offset(c.conn(), topic, -1)["offset"] == 12
