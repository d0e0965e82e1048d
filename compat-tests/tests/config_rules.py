"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources, kafka-configs, `perigee topic alter`: semantics 16."""
import json
import os
import subprocess

from raw import batch as rb
from raw import tools
from raw.broker import shell
from raw.harness import fetch, fill, produce, test
from raw.wire import Conn

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3
OF_TOPIC, OF_BROKER, OF_BROKERS, OF_FILE, OF_DEFAULT, OF_LOGGER, OF_METRICS, OF_GROUP = 1, 2, 3, 4, 5, 6, 7, 8
TYPES = {1: "BOOLEAN", 2: "STRING", 3: "INT", 4: "SHORT", 5: "LONG", 6: "DOUBLE", 7: "LIST", 8: "CLASS", 9: "PASSWORD"}


def describe(conn, kind, name, keys=None, version=4, **more):
    """(error, {key: entry}) of one resource."""
    result = conn.call("DescribeConfigs", version, resources=[{"type": kind, "name": str(name), "keys": keys}], **more)["results"][0]
    assert (result["type"], result["name"]) == (kind, str(name)), result
    return result["error"], {c["name"]: c for c in result["configs"]}


def value(conn, kind, name, key):
    """(value, source) of one setting."""
    error, got = describe(conn, kind, name, [key])
    assert error == 0, (kind, name, error)
    return (got[key]["value"], got[key]["source"]) if key in got else (None, None)


def change(conn, kind, name, *ops, version=1, validate_only=False):
    """IncrementalAlterConfigs of one resource; each op is (key, value) to set or (key, op, value). The answer."""
    configs = [{"name": o[0], "op": SET, "value": o[1]} if len(o) == 2 else {"name": o[0], "op": o[1], "value": o[2]} for o in ops]
    return conn.call("IncrementalAlterConfigs", version, validate_only=validate_only,
                     resources=[{"type": kind, "name": str(name), "configs": configs}])["responses"][0]


def replace(conn, kind, name, version=2, validate_only=False, **settings):
    configs = [{"name": k.replace("_", "."), "value": v} for k, v in settings.items()]
    return conn.call("AlterConfigs", version, validate_only=validate_only,
                     resources=[{"type": kind, "name": str(name), "configs": configs}])["responses"][0]


def done(answer):
    assert answer["error"] == 0, answer


def waited(c, check, limit_s=10):
    """Kafka applies a change some moments after its answer; perigee must have it at once (S16.9)."""
    if c.perigee:
        return check()
    import time
    end = time.monotonic() + limit_s
    while not check() and time.monotonic() < end:
        time.sleep(0.05)
    return check()


# ---- describing ----

@test("S16.1 S16.5 a topic lists every topic key, each with value, source, type and documentation; v0 says what is a default")
def topic_entries(c):
    conn, topic = c.conn(), c.topic(retention_ms=86400000)
    for version in range(0 if c.perigee else 1, 5):
        error, got = describe(conn, TOPIC, topic, version=version, with_synonyms=True, with_docs=True)
        assert error == 0 and list(got) and len(got) >= 33, (version, error, len(got))
        own = got["retention.ms"]
        assert own["value"] == "86400000" and not own["read_only"] and not own["sensitive"], own
        if version == 0:
            assert not own["is_default"] and got["segment.ms"]["is_default"], own
        else:
            assert own["source"] == OF_TOPIC and got["segment.ms"]["source"] == OF_DEFAULT, own
            assert own["synonyms"][0] == {"name": "retention.ms", "value": "86400000", "source": OF_TOPIC}, own
        if version >= 3:
            assert TYPES[own["type"]] == "LONG" and TYPES[got["cleanup.policy"]["type"]] == "LIST", own
            assert all(e["documentation"] for e in got.values()), [k for k, e in got.items() if not e["documentation"]]


@test("S16.1 documentation and synonyms only when asked for")
def only_when_asked(c):
    conn, topic = c.conn(), c.topic(retention_ms=86400000)
    _, got = describe(conn, TOPIC, topic)
    assert all(e["documentation"] is None and e["synonyms"] == [] for e in got.values())


@test("S16.2 the layers of a value, most specific first: topic, this broker, all brokers, file, default")
def layers(c):
    broker = c.own(log_retention_ms=360000000)
    conn, topic = c.conn(broker), c.topic(broker=broker)
    assert value(conn, TOPIC, topic, "retention.ms") == ("360000000", OF_FILE)
    done(change(conn, BROKER, "", ("log.retention.ms", "200000000")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "retention.ms") == ("200000000", OF_BROKERS))
    done(change(conn, BROKER, 1, ("log.retention.ms", "300000000")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "retention.ms") == ("300000000", OF_BROKER))
    done(change(conn, TOPIC, topic, ("retention.ms", "400000000")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "retention.ms") == ("400000000", OF_TOPIC))
    _, got = describe(conn, TOPIC, topic, ["retention.ms"], with_synonyms=True)
    told = [(s["name"], s["value"], s["source"]) for s in got["retention.ms"]["synonyms"]]
    assert told[:4] == [("retention.ms", "400000000", OF_TOPIC), ("log.retention.ms", "300000000", OF_BROKER),
                        ("log.retention.ms", "200000000", OF_BROKERS), ("log.retention.ms", "360000000", OF_FILE)], told
    _, got = describe(conn, BROKER, 1, ["log.retention.ms"], with_synonyms=True)
    assert [(s["value"], s["source"]) for s in got["log.retention.ms"]["synonyms"]][:3] == [
        ("300000000", OF_BROKER), ("200000000", OF_BROKERS), ("360000000", OF_FILE)], got
    done(change(conn, TOPIC, topic, ("retention.ms", DELETE, None)))
    done(change(conn, BROKER, 1, ("log.retention.ms", DELETE, "whatever")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "retention.ms") == ("200000000", OF_BROKERS))
    done(change(conn, BROKER, "", ("log.retention.ms", DELETE, None)))
    assert waited(c, lambda: value(conn, TOPIC, topic, "retention.ms") == ("360000000", OF_FILE))


@test("S16.2 a topic's default that stands under an older broker key is told under that key, in the topic's unit", only="perigee")
def older_names(c):                                  # Kafka 4.3 gives the value and no layers
    broker = c.own(log_retention_hours=100)
    conn, topic = c.conn(broker), c.topic(broker=broker)
    _, got = describe(conn, TOPIC, topic, ["retention.ms"], with_synonyms=True)
    assert (got["retention.ms"]["value"], got["retention.ms"]["source"]) == ("360000000", OF_FILE), got
    assert [(s["name"], s["value"], s["source"]) for s in got["retention.ms"]["synonyms"]] == [
        ("log.retention.hours", "100", OF_FILE), ("log.retention.hours", "168", OF_DEFAULT)], got


@test("S16.3 keys null or empty: all of them; picked keys alone, unknown ones left out silently")
def picked_keys(c):
    conn, topic = c.conn(), c.topic()
    whole = set(describe(conn, TOPIC, topic, None)[1])
    assert whole == set(describe(conn, TOPIC, topic, [])[1])
    error, got = describe(conn, TOPIC, topic, ["segment.ms", "no.such.key", "retention.ms", "num.partitions"])
    assert (error, set(got)) == (0, {"segment.ms", "retention.ms"}), got
    assert describe(conn, BROKER, 1, ["retention.ms"])[1] == {}


@test("S16.4 unknown topic 3, impossible name 17, another broker's id 42, an unknown type 42, each without settings")
def described_wrongly(c):
    conn = c.conn()
    for kind, name, want in ((TOPIC, c.name("missing"), 3), (TOPIC, "a/b", 17), (TOPIC, "x" * 250, 17), (BROKER, "77", 42), (BROKER, "one", 42),
                             (LOGGER, "77", 42), (LOGGER, "", 42), (METRICS, "", 42), (GROUP, "", 42), (3, "x", 42)):
        result = conn.call("DescribeConfigs", 4, resources=[{"type": kind, "name": str(name), "keys": None}])["results"][0]
        assert (result["error"], result["configs"]) == (want, []), (kind, name, result)
        assert result["error_message"] or not c.perigee, result


@test("S16.1 the broker lists its settings; the empty name lists only what was set for all brokers")
def broker_entries(c):
    broker = c.own(num_partitions=3)
    conn = c.conn(broker)
    error, got = describe(conn, BROKER, 1, with_docs=True, with_synonyms=True)
    assert error == 0 and len(got) > 200, (error, len(got))
    assert (got["num.partitions"]["value"], got["num.partitions"]["source"], got["num.partitions"]["read_only"]) == ("3", OF_FILE, True)
    assert not got["log.retention.ms"]["read_only"] and got["log.dirs"]["read_only"]
    assert [e["value"] for e in got.values() if e["sensitive"]].count(None) == len([e for e in got.values() if e["sensitive"]])
    assert all(e["documentation"] for e in got.values())
    assert set(describe(conn, BROKER, "")[1]) <= (set() if c.perigee else {"min.insync.replicas"})
    done(change(conn, BROKER, "", ("log.segment.bytes", "20000000")))
    assert waited(c, lambda: {k: (e["value"], e["source"]) for k, e in describe(conn, BROKER, "")[1].items() if k != "min.insync.replicas"} ==
                  {"log.segment.bytes": ("20000000", OF_BROKERS)})


@test("S16.4 many resources in one request: each its own result, in one answer")
def many_described(c):
    conn, topic = c.conn(), c.topic()
    results = conn.call("DescribeConfigs", 4, resources=[
        {"type": BROKER, "name": "1", "keys": ["num.partitions"]}, {"type": TOPIC, "name": topic, "keys": ["segment.ms"]},
        {"type": TOPIC, "name": "nowhere", "keys": None}])["results"]
    got = {(r["type"], r["name"]): (r["error"], len(r["configs"])) for r in results}
    assert got == {(BROKER, "1"): (0, 1), (TOPIC, topic): (0, 1), (TOPIC, "nowhere"): (3, 0)}, got


FACTS = os.path.join(os.path.dirname(__file__), "config_facts.txt")
OTHER_DEFAULT = {"listeners", "log.dir", "max.connections", "node.id", "listener.security.protocol.map", "min.insync.replicas"}
# Kafka lets these be changed while it runs, perigee reads them at the start.
FIXED_HERE = ("ssl.", "sasl.", "listener", "config.providers", "metric.reporters", "principal.builder.class", "group.", "share.coordinator.",
              "cordoned.log.dirs")


def facts():
    with open(FACTS, encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f if not line.startswith("#")]


def default_of(entry):
    """Of an entry of a fresh broker, as config_facts.txt writes it."""
    at_default = [s["value"] for s in entry["synonyms"] if s["source"] == OF_DEFAULT]
    text = at_default[-1] if at_default else entry["value"] if entry["source"] == OF_DEFAULT else None
    return "-" if text is None else text or "''"


@test("S16.1 S16.5 every setting that a Kafka 4.3 broker lists is listed: topics, broker, groups, metrics; with its type, default and flags")
def all_of_kafkas(c):
    conn, topic = c.conn(), c.topic()
    told = {kind: describe(conn, number, name, with_synonyms=True, with_docs=True)[1] for kind, number, name in (
        ("topic", TOPIC, topic), ("broker", BROKER, 1), ("group", GROUP, "nobody"), ("metrics", METRICS, "nobody"))}
    wrong = []
    for kind, name, type_, live, secret, default in facts():
        got = told[kind].get(name)
        if got is None:
            wrong.append((kind, name, "not listed"))
            continue
        if TYPES[got["type"]] != type_ or got["sensitive"] != (secret == "secret"):
            wrong.append((kind, name, TYPES[got["type"]], got["sensitive"]))
        if got["read_only"] != (live == "fixed") and not (c.perigee and got["read_only"] and name.startswith(FIXED_HERE)):
            wrong.append((kind, name, "read_only", got["read_only"]))
        older = c.perigee and name.startswith(("log.retention.", "log.roll.", "log.flush.interval.ms", "log.dirs")) and default == "-"
        derived = c.perigee and kind == "topic" and got["synonyms"] and got["synonyms"][0]["name"] in ("log.retention.hours", "log.roll.hours", "log.roll.jitter.hours")
        if name not in OTHER_DEFAULT and not older and not derived and default_of(got) != default:
            wrong.append((kind, name, "default", default_of(got), default))
        if derived and got["value"] != default:
            wrong.append((kind, name, "value", got["value"], default))
    assert not wrong, wrong


# ---- changing ----

@test("S16.6 SET, DELETE, APPEND, SUBTRACT: what is not named stays; lists without duplicates")
def operations(c):
    conn, topic = c.conn(), c.topic(segment_ms=5000000)
    done(change(conn, TOPIC, topic, ("retention.ms", "1000000"), ("cleanup.policy", APPEND, "compact")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "cleanup.policy") == ("delete,compact", OF_TOPIC))
    assert value(conn, TOPIC, topic, "retention.ms") == ("1000000", OF_TOPIC)
    assert value(conn, TOPIC, topic, "segment.ms") == ("5000000", OF_TOPIC)
    done(change(conn, TOPIC, topic, ("cleanup.policy", APPEND, "compact,delete")))
    done(change(conn, TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "cleanup.policy") == ("compact", OF_TOPIC))
    done(change(conn, TOPIC, topic, ("cleanup.policy", DELETE, None), ("segment.ms", DELETE, "x")))
    assert waited(c, lambda: value(conn, TOPIC, topic, "cleanup.policy") == ("delete", OF_DEFAULT))
    assert value(conn, TOPIC, topic, "segment.ms") == ("604800000", OF_DEFAULT)
    assert value(conn, TOPIC, topic, "retention.ms") == ("1000000", OF_TOPIC)
    done(change(conn, TOPIC, topic, ("leader.replication.throttled.replicas", APPEND, "0:1"), version=0))
    assert waited(c, lambda: value(conn, TOPIC, topic, "leader.replication.throttled.replicas") == ("0:1", OF_TOPIC))


@test("S16.6 refused: APPEND to what is no list 40, null 42, a key twice 42, an unknown key 40, a malformed value 40, an unknown operation 42")
def refusals(c):
    conn, topic = c.conn(), c.topic()
    for ops, want in (([("retention.ms", APPEND, "1")], 40), ([("retention.ms", SUBTRACT, "1")], 40), ([("retention.ms", None)], 42),
                      ([("cleanup.policy", APPEND, None)], 42), ([("retention.ms", "1000000"), ("retention.ms", "2000000")], 42),
                      ([("retention.sm", "1")], 40), ([("retention.ms", "soon")], 40), ([("retention.ms", "-2")], 40),
                      ([("cleanup.policy", "shred")], 40), ([("compression.type", "rar")], 40),
                      ([("leader.replication.throttled.replicas", "xyz")], 40)):
        answer = change(conn, TOPIC, topic, *ops)
        assert answer["error"] == want and answer["error_message"], (ops, answer)
    if c.perigee:                                    # Kafka: -1 or 42
        assert change(conn, TOPIC, topic, ("retention.ms", 9, "1"))["error"] == 42
        assert "did you mean retention.ms" in change(conn, TOPIC, topic, ("retention.sm", "1"))["error_message"]
    assert value(conn, TOPIC, topic, "retention.ms") == ("604800000", OF_DEFAULT)


@test("S16.6 the same resource twice in one request: 42 and nothing of it done, its siblings go on")
def resource_twice(c):
    conn, one, two = c.conn(), c.topic(), c.topic()
    entry = [{"name": "retention.ms", "op": SET, "value": "1000000"}]
    answer = conn.call("IncrementalAlterConfigs", 1, resources=[{"type": TOPIC, "name": n, "configs": entry} for n in (one, two, one)])
    got = sorted({(r["name"], r["error"]) for r in answer["responses"]})
    assert got == sorted([(one, 42), (two, 0)]), answer
    assert waited(c, lambda: value(conn, TOPIC, two, "retention.ms")[0] == "1000000")
    assert value(conn, TOPIC, one, "retention.ms")[1] == OF_DEFAULT


@test("S16.8 all or nothing inside a resource; validate_only checks and changes nothing")
def all_or_nothing(c):
    conn, topic = c.conn(), c.topic()
    assert change(conn, TOPIC, topic, ("segment.ms", "9000000"), ("retention.ms", "soon"))["error"] == 40
    done(change(conn, TOPIC, topic, ("segment.ms", "9000000"), validate_only=True))
    assert change(conn, TOPIC, topic, ("segment.ms", "never"), validate_only=True)["error"] == 40
    done(replace(conn, TOPIC, topic, validate_only=True, segment_ms="9000000"))
    assert value(conn, TOPIC, topic, "segment.ms") == ("604800000", OF_DEFAULT)


@test("S16.4 alterations of what is not there: unknown topic 3, another broker 42, an unknown type 42")
def altered_wrongly(c):
    conn = c.conn()
    for kind, name, want in ((TOPIC, "missing-topic", 3), (TOPIC, "", 42), (TOPIC, "a/b", 17), (BROKER, "77", 42), (3, "x", 42), (METRICS, "", 42), (GROUP, "", 42)):
        key = {TOPIC: "retention.ms", BROKER: "log.retention.ms", GROUP: "consumer.session.timeout.ms"}.get(kind, "interval.ms")
        answer = change(conn, kind, name, (key, "50000"))
        assert answer["error"] == want and answer["error_message"], (kind, name, answer)
        if kind in (TOPIC, BROKER):
            assert replace(conn, kind, name, **{key.replace(".", "_"): "50000"})["error"] == want, (kind, name)


@test("S16.7 AlterConfigs replaces: what is not named goes back to its default")
def whole(c):
    conn, topic = c.conn(), c.topic(retention_ms=1000000, segment_ms=2000000)
    for version in range(3):
        done(replace(conn, TOPIC, topic, version=version, segment_ms=str(3000000 + version)))
        assert waited(c, lambda: value(conn, TOPIC, topic, "segment.ms") == (str(3000000 + version), OF_TOPIC))
        assert value(conn, TOPIC, topic, "retention.ms") == ("604800000", OF_DEFAULT)
    assert replace(conn, TOPIC, topic, segment_ms=None)["error"] == 42
    assert replace(conn, TOPIC, topic, segment_ms="no")["error"] == 40
    done(replace(conn, TOPIC, topic))
    assert waited(c, lambda: value(conn, TOPIC, topic, "segment.ms") == ("604800000", OF_DEFAULT))


@test("S16.6 broker settings that are read at the start are refused with a text that says so")
def read_only(c):
    conn = c.conn()
    for name in ("", "1"):
        for key, text in (("num.partitions", "5"), ("log.dirs", "/elsewhere"), ("node.id", "9")):
            answer = change(conn, BROKER, name, (key, text))
            assert answer["error"] == 42, (name, key, answer)
            assert key in answer["error_message"], answer
            assert not c.perigee or "restart" in answer["error_message"], answer
    assert value(conn, BROKER, 1, "num.partitions")[0] == "1"
    assert change(conn, BROKER, "", ("log.retention.ms", "soon"))["error"] == 42
    done(change(conn, BROKER, "1", ("num.partitions", DELETE, None), ("no.such.key", DELETE, None)))


@test("S16.6 unknown broker settings are refused, and the text names the nearest", only="perigee")
def unknown_broker_key(c):                           # Kafka keeps them for its plug-ins
    conn = c.conn()
    assert change(conn, BROKER, "1", ("max.connections", "0"))["error"] == 42
    answer = change(conn, BROKER, "", ("log.retension.ms", "5"))
    assert answer["error"] == 40 and "log.retention.ms" in answer["error_message"], answer
    answer = change(conn, BROKER, "", ("retention.ms", "5"))
    assert answer["error"] == 40 and "log.retention.ms" in answer["error_message"], answer
    answer = change(conn, BROKER, "1", ("listener.name.internal.ssl.keystore.location", "/x"))
    assert answer["error"] == 40 and "no effect" in answer["error_message"], answer


# ---- effects ----

@test("S16.9 max.message.bytes and message.timestamp.type of a topic act on the next request")
def topic_effects(c):
    conn, topic = c.conn(), c.topic()
    big = rb.batch([(None, b"x" * 3000)])
    assert produce(conn, topic, big)["error"] == 0
    done(change(conn, TOPIC, topic, ("max.message.bytes", "2000")))
    assert waited(c, lambda: produce(conn, topic, big)["error"] == 10)
    done(change(conn, TOPIC, topic, ("max.message.bytes", DELETE, None), ("message.timestamp.type", "LogAppendTime")))
    assert waited(c, lambda: produce(conn, topic, big)["log_append_time"] > 0)
    done(change(conn, TOPIC, topic, ("message.timestamp.type", "CreateTime")))
    assert waited(c, lambda: produce(conn, topic, big)["log_append_time"] == -1)


@test("S16.9 broker-wide defaults act at once on topics that do not override them, and only on those")
def broker_effects(c):
    broker = c.own()
    conn, plain, own = c.conn(broker), c.topic(broker=broker), c.topic(broker=broker, max_message_bytes=5000)
    big = rb.batch([(None, b"x" * 3000)])
    assert produce(conn, plain, big)["error"] == produce(conn, own, big)["error"] == 0
    done(change(conn, BROKER, "", ("message.max.bytes", "2000")))
    assert waited(c, lambda: produce(conn, plain, big)["error"] == 10)
    assert produce(conn, own, big)["error"] == 0
    done(change(conn, BROKER, "1", ("message.max.bytes", "1000000")))
    assert waited(c, lambda: produce(conn, plain, big)["error"] == 0)
    done(change(conn, BROKER, "1", ("message.max.bytes", DELETE, None)))
    done(change(conn, BROKER, "", ("message.max.bytes", DELETE, None)))
    assert waited(c, lambda: produce(conn, plain, big)["error"] == 0)


@test("S16.9 segment.bytes acts on the next append, on every shard's partitions", only="perigee")
def segment_effect(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(partitions=4, broker=broker)
    for p in range(4):
        fill(conn, topic, 4, partition=p, size=1000, per_batch=1)
    done(change(conn, TOPIC, topic, ("segment.bytes", "2000")))
    for p in range(4):
        fill(conn, topic, 4, partition=p, size=1000, per_batch=1)
        files = [f for f in os.listdir(os.path.join(broker.data, f"{topic}-{p}")) if f.endswith(".log")]
        assert len(files) >= 4, (p, files)


@test("D6 S16.9 write.caching goes on and off while records flow: nothing that was visible disappears", only="perigee")
def caching_effect(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(broker=broker)
    total = 0
    for round_ in range(20):
        done(change(conn, TOPIC, topic, ("write.caching", "true" if round_ % 2 == 0 else "false")))
        for acks in (1, -1, 1):
            assert produce(conn, topic, rb.batch(rb.values("v", 3)), acks=acks)["error"] == 0
            total += 3
        part = fetch(conn, topic, 0)
        assert part["high_watermark"] <= total and part["error"] == 0, part
    done(change(conn, TOPIC, topic, ("write.caching", DELETE, None)))
    assert produce(conn, topic, rb.batch(rb.values("v", 1)))["base_offset"] == total
    assert fetch(conn, topic, 0)["high_watermark"] == total + 1


@test("S16.9 changes survive a restart and kill -9: topic, broker and all-brokers settings")
def persists(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(broker=broker, segment_ms=5000000)
    done(change(conn, TOPIC, topic, ("retention.ms", "111111111"), ("segment.ms", DELETE, None)))
    done(change(conn, BROKER, "", ("log.segment.bytes", "20000000"), ("message.max.bytes", "500000")))
    done(change(conn, BROKER, "1", ("message.max.bytes", "600000")))

    def as_left(now):
        return (value(now, TOPIC, topic, "retention.ms") == ("111111111", OF_TOPIC) and value(now, TOPIC, topic, "segment.ms")[1] == OF_DEFAULT and
                value(now, TOPIC, topic, "segment.bytes") == ("20000000", OF_BROKERS) and
                value(now, TOPIC, topic, "max.message.bytes") == ("600000", OF_BROKER))
    assert waited(c, lambda: as_left(conn))
    for way in ("restart", "kill9"):
        broker.restart() if way == "restart" else (broker.kill9(), broker.start())
        with Conn(broker.addr) as again:
            c.settled(topic)
            assert waited(c, lambda: as_left(again)), way
            assert produce(again, topic, rb.batch([(None, b"x" * 590000)]))["error"] == 0
            assert produce(again, topic, rb.batch([(None, b"x" * 610000)]))["error"] == 10


@test("S16.9 max.connections may change while the broker runs", only="perigee")
def connections(c):
    broker = c.own()
    conn = c.conn(broker)
    done(change(conn, BROKER, "1", ("max.connections", "2")))
    second = c.conn(broker)
    assert second.call("Metadata", 9, topics=[])["brokers"]
    third = c.conn(broker)
    try:
        third.call("Metadata", 9, topics=[])
        raise AssertionError("a third connection was served")
    except (OSError, EOFError):
        pass
    done(change(conn, BROKER, "1", ("max.connections", DELETE, None)))
    assert c.conn(broker).call("Metadata", 9, topics=[])["brokers"]


@test("S4.9 CreateTopics tells the sources of the settings as DescribeConfigs does")
def created_sources(c):
    broker = c.own(log_retention_hours=100)
    conn = c.conn(broker)
    done(change(conn, BROKER, "", ("log.segment.bytes", "20000000")))
    assert waited(c, lambda: value(conn, BROKER, 1, "log.segment.bytes")[0] == "20000000")
    answer = conn.call("CreateTopics", 7, topics=[{"name": c.name("src"), "partitions": 1, "replication": 1,
                                                   "configs": [{"name": "flush.ms", "value": "7000"}]}])["topics"][0]
    got = {e["name"]: (e["value"], e["source"]) for e in answer["configs"]}
    assert got["flush.ms"] == ("7000", OF_TOPIC) and got["segment.bytes"] == ("20000000", OF_BROKERS), got
    assert got["retention.ms"] == ("360000000", OF_FILE) and got["segment.ms"] == ("604800000", OF_DEFAULT), got


# ---- the other resources ----

@test("S16.10 groups and metrics subscriptions hold their own keys, only those, and persist")
def other_resources(c):
    broker = c.own()
    conn = c.conn(broker)
    for kind, name, key, text, source in ((GROUP, "g-1", "consumer.session.timeout.ms", "50000", OF_GROUP),
                                          (METRICS, "sub-1", "interval.ms", "5000", OF_METRICS)):
        done(change(conn, kind, name, (key, text)))
        assert waited(c, lambda: value(conn, kind, name, key) == (text, source)), (kind, describe(conn, kind, name))
        assert change(conn, kind, name, ("retention.ms", "5"))["error"] == (40 if kind == GROUP else 42)
    assert change(conn, METRICS, "sub-1", ("match", "foo=bar"))["error"] == 40
    assert change(conn, METRICS, "sub-1", ("interval.ms", "1"))["error"] == 42
    assert change(conn, GROUP, "g-1", ("consumer.session.timeout.ms", "1"))["error"] == 40
    broker.restart()
    conn = c.conn(broker)
    assert waited(c, lambda: value(conn, GROUP, "g-1", "consumer.session.timeout.ms") == ("50000", OF_GROUP))
    assert waited(c, lambda: value(conn, METRICS, "sub-1", "interval.ms") == ("5000", OF_METRICS))


@test("S16.11 ListConfigResources: v1 by type, an empty list means all; v0 only metrics subscriptions")
def listed(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(broker=broker)
    done(change(conn, METRICS, "sub-1", ("interval.ms", "5000")))
    done(change(conn, GROUP, "g-1", ("consumer.session.timeout.ms", "50000")))

    def listing(version, *types):
        answer = conn.call("ListConfigResources", version, **({"resource_types": list(types)} if version else {}))
        assert answer["error"] == 0, answer
        return {(r.get("type", METRICS), r["name"]) for r in answer["resources"]}
    assert waited(c, lambda: listing(0) == {(METRICS, "sub-1")})
    assert waited(c, lambda: listing(1, GROUP) == {(GROUP, "g-1")})
    assert listing(1, TOPIC) >= {(TOPIC, topic)} and all(t == TOPIC for t, _ in listing(1, TOPIC))
    assert listing(1, BROKER, METRICS) == {(BROKER, "1"), (METRICS, "sub-1")}
    assert listing(1) >= {(TOPIC, topic), (BROKER, "1"), (METRICS, "sub-1"), (GROUP, "g-1"), (LOGGER, "1")}
    assert conn.call("ListConfigResources", 1, resource_types=[3])["error"] == 35


@test("S16.4 broker loggers: their level is described, set at once, never stored")
def loggers(c):
    broker = c.own()
    conn = c.conn(broker)
    error, got = describe(conn, LOGGER, "1")
    assert error == 0 and got["root"]["value"] in ("INFO", "WARN", "ERROR", "DEBUG") and got["root"]["source"] == OF_LOGGER, got.get("root")
    done(change(conn, LOGGER, "1", ("root", "ERROR")))
    assert value(conn, LOGGER, "1", "root") == ("ERROR", OF_LOGGER)
    assert change(conn, LOGGER, "1", ("root", "LOUD"))["error"] == 40
    assert change(conn, LOGGER, "1", ("no.such.logger", "INFO"))["error"] == 40
    assert change(conn, LOGGER, "1", ("root", DELETE, None))["error"] == 42
    assert replace(conn, LOGGER, "1", root="INFO")["error"] == 42


# ---- the tools ----

def tool(*args, limit=60):
    """kafka-configs of the newest Kafka."""
    return tools.java("kafka.admin.ConfigCommand", *args, limit=limit).decode()


@test("S16.1 kafka-configs: topics are altered, described and put back")
def tool_topics(c):
    broker, topic = c.broker(), c.topic()
    base = ("--bootstrap-server", broker.addr, "--entity-type", "topics", "--entity-name", topic)
    out = tool(*base, "--alter", "--add-config", "retention.ms=1000000,cleanup.policy=[compact,delete]")
    assert "Completed updating config" in out, out
    out = tool(*base, "--describe")
    assert "retention.ms=1000000" in out and "cleanup.policy=compact,delete" in out and "DYNAMIC_TOPIC_CONFIG:retention.ms=1000000" in out, out
    out = tool(*base, "--describe", "--all")
    assert "segment.bytes=1073741824" in out and "DEFAULT_CONFIG:log.segment.bytes=1073741824" in out, out
    assert "Completed updating config" in tool(*base, "--alter", "--delete-config", "retention.ms,cleanup.policy")
    assert "retention.ms" not in tool(*base, "--describe")


@test("S16.1 kafka-configs: one broker and all brokers (--entity-default)")
def tool_brokers(c):
    broker = c.own()
    base = ("--bootstrap-server", broker.addr, "--entity-type", "brokers")
    assert "Completed updating" in tool(*base, "--entity-default", "--alter", "--add-config", "log.retention.ms=7000000")
    assert "Completed updating" in tool(*base, "--entity-name", "1", "--alter", "--add-config", "message.max.bytes=900000")
    out = tool(*base, "--entity-default", "--describe")
    assert "log.retention.ms=7000000" in out and "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=7000000" in out, out
    out = tool(*base, "--entity-name", "1", "--describe", "--all")
    assert "message.max.bytes=900000" in out and "log.retention.ms=7000000" in out and "num.io.threads" in out, out
    assert "Completed updating" in tool(*base, "--entity-name", "1", "--alter", "--delete-config", "message.max.bytes")
    assert "Completed updating" in tool(*base, "--entity-default", "--alter", "--delete-config", "log.retention.ms")
    assert "7000000" not in tool(*base, "--entity-default", "--describe")


@test("S16.10 kafka-configs: client metrics and broker loggers")
def tool_others(c):
    broker = c.own()
    metrics = ("--bootstrap-server", broker.addr, "--entity-type", "client-metrics")
    assert "Completed updating" in tool(*metrics, "--entity-name", "sub", "--alter", "--add-config", "interval.ms=5000")
    assert "DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=5000" in tool(*metrics, "--describe")
    logger = ("--bootstrap-server", broker.addr, "--entity-type", "broker-loggers", "--entity-name", "1")
    assert "root=" in tool(*logger, "--describe")


CONFLUENT = """
import sys
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
a = AdminClient({"bootstrap.servers": sys.argv[1]})
put = lambda name, value, op: ConfigEntry(name, value, incremental_operation=op)
[f.result() for f in a.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, sys.argv[2], incremental_configs=[
    put("retention.ms", "1234567", AlterConfigOpType.SET), put("cleanup.policy", "compact", AlterConfigOpType.APPEND)])]).values()]
got = next(iter(a.describe_configs([ConfigResource(ResourceType.TOPIC, sys.argv[2])]).values())).result()
print(got["retention.ms"].value, got["retention.ms"].source, got["cleanup.policy"].value, "segment.ms" in got)
[f.result() for f in a.alter_configs([ConfigResource(ResourceType.TOPIC, sys.argv[2], set_config={"segment.ms": "99999"})]).values()]
"""
KAFKA_PYTHON = """
import sys
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient
a = KafkaAdminClient(bootstrap_servers=sys.argv[1])
a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, sys.argv[2], {"retention.ms": "7654321"})])
print("7654321" in str(a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, sys.argv[2])])))
"""
AIOKAFKA = """
import asyncio, sys
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
async def main():
    a = AIOKafkaAdminClient(bootstrap_servers=sys.argv[1])
    await a.start()
    await a.alter_configs([ConfigResource(ConfigResourceType.TOPIC, sys.argv[2], {"retention.ms": "2345678"})])
    print("2345678" in str(await a.describe_configs([ConfigResource(ConfigResourceType.TOPIC, sys.argv[2])])))
    await a.close()
asyncio.run(main())
"""


@test("S16.6 S16.7 librdkafka's, kafka-python's (old and new) and aiokafka's admin clients alter and describe")
def client_admins(c):
    broker, conn = c.broker(), c.conn()
    for venv, script, want, key, text in (("new", CONFLUENT, "1234567 1 delete,compact True", "segment.ms", "99999"),
                                          ("old", KAFKA_PYTHON, "True", "retention.ms", "7654321"),
                                          ("new", KAFKA_PYTHON, "True", "retention.ms", "7654321"),
                                          ("new", AIOKAFKA, "True", "retention.ms", "2345678")):
        topic = c.topic()
        try:
            python = os.path.join(shell("compat_matrix_venv", venv), "bin", "python")
        except (subprocess.CalledProcessError, IndexError):
            c.skip("the Python clients cannot be installed here")
        out = tools.run([python, "-W", "ignore", "-c", script, broker.addr, str(topic)], 60).decode().strip()
        assert out == want, (venv, out)
        assert waited(c, lambda: value(conn, TOPIC, topic, key) == (text, OF_TOPIC)), (venv, key)


def perigee(broker, *args, status=0):
    binary = broker._command()[0]
    got = subprocess.run([binary, *args, "-b", broker.addr], capture_output=True, text=True, timeout=30, check=False)
    assert got.returncode == status, (args, got.returncode, got.stdout, got.stderr)
    return got.stdout if status == 0 else got.stderr


@test("S16.6 perigee topic alter --set, --unset; topic describe --settings tells values and origins", only="perigee")
def command(c):
    broker, conn, topic = c.broker(), c.conn(), c.topic(segment_ms=5000000)
    assert perigee(broker, "topic", "alter", topic, "--set", "retention.ms=7d", "--unset", "segment.ms") == f"{topic}\n"
    assert value(conn, TOPIC, topic, "retention.ms") == ("604800000", OF_TOPIC)
    assert value(conn, TOPIC, topic, "segment.ms")[1] == OF_DEFAULT
    rows = [line.split("\t") for line in perigee(broker, "topic", "describe", topic, "--settings").splitlines()]
    assert [topic, "retention.ms", "604800000", "topic"] in rows and [topic, "segment.ms", "604800000", "default"] in rows, rows
    told = json.loads(perigee(broker, "topic", "describe", topic, "--settings", "-o", "json"))
    assert {"topic": topic, "setting": "retention.ms", "value": "604800000", "origin": "topic"} in told, told
    assert "did you mean retention.ms" in perigee(broker, "topic", "alter", topic, "--set", "retention.sm=1", status=2)
    assert "UNKNOWN_TOPIC" in perigee(broker, "topic", "alter", "nowhere", "--set", "retention.ms=1", status=5)
