"""Field reports of other brokers, each by what it says to reproduce: BR-015, 045, 046, 047, 051, 065 (what of it one node can show). BR-039: store_rules and retention_rules."""
import glob
import os

from raw import batch as rb, tools
from raw.harness import fetch, fill, list_offset, metadata, produce, read_all, test
from tests.config_rules import BROKER, TOPIC, change, done, replace, value
from tests.topic_rules import create

RETRIABLE = {3, 5, 6, 56, 74, 75, 78, 100, 103}


def delete_records(conn, topic, offset, partition=0):
    answer = conn.call("DeleteRecords", 2, topics=[{"name": topic, "partitions": [{"partition": partition, "offset": offset}]}])
    return answer["topics"][0]["partitions"][0]


# ---- BR-015 ----

@test("BR-015 DeleteRecords at 5, 5, 3, -1, 99 of ten records: no-ops succeed, 99 is error 1; afterwards earliest = latest = 10, over restarts too, and the next record is 10")
def emptied(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic()
    fill(conn, topic, 10, per_batch=1)

    def ends(conn):
        return tuple(list_offset(conn, topic, t)["offset"] for t in (-2, -1))
    for offset, error, low, after in ((5, 0, 5, (5, 10)), (5, 0, 5, (5, 10)), (3, 0, 5, (5, 10)), (-1, 0, 10, (10, 10)), (99, 1, -1, (10, 10))):
        answer = delete_records(conn, topic, offset)
        assert (answer["error"], answer["low_watermark"]) == (error, low), (offset, answer)
        assert ends(conn) == after, (offset, ends(conn))
    assert fetch(conn, topic, 9)["error"] == 1
    empty = fetch(conn, topic, 10)
    assert (empty["error"], empty["high_watermark"], empty["log_start"]) == (0, 10, 10), empty
    for restart in (broker.restart, lambda: (broker.kill9(), broker.start())):
        restart()
        conn = c.conn(broker)
        c.settled(topic)
        assert ends(conn) == (10, 10)
    assert produce(conn, topic, rb.batch(rb.values("x", 1)))["base_offset"] == 10
    assert ends(conn) == (10, 11)
    compact = c.topic(cleanup_policy="compact")
    assert produce(conn, compact, rb.batch([(b"k", b"v")]))["error"] == 0
    assert delete_records(conn, compact, -1)["error"] == 44
    assert delete_records(conn, "nowhere", 1)["error"] == 3


# ---- BR-045 ----

@test("BR-045 DescribeLogDirs of all: one directory, every partition with a size >= 0, their sum is what the disk holds; 5,000 partitions answered at once, memory stays small")
def log_dirs(c):
    broker = c.own()
    conn = c.conn(broker, timeout=60)
    many = 5000 if c.perigee else 500
    big, wide = c.topic(partitions=3), c.topic(partitions=many)
    for p in range(3):
        fill(conn, big, 50, partition=p, size=20_000, per_batch=10)
    before = broker.rss_kib()
    answer = conn.call("DescribeLogDirs", 4, topics=None)
    assert answer["error"] == 0 and len(answer["results"]) == 1, answer
    d = answer["results"][0]
    sizes = {(t["name"], p["partition"]): p["size"] for t in d["topics"] for p in t["partitions"]}
    assert sum(n == wide for n, _ in sizes) == many and min(sizes.values()) >= 0
    assert d["total_bytes"] > d["usable_bytes"] > 0 and all(p["offset_lag"] == 0 and not p["is_future"] for t in d["topics"] for p in t["partitions"])
    on_disk = sum(os.path.getsize(f) for f in glob.glob(os.path.join(broker.data, f"{big}-*", "*.log")))
    told = sum(v for (n, _), v in sizes.items() if n == big)
    assert 3_000_000 < told <= on_disk * 1.05 + 1 and told >= on_disk * 0.95, (told, on_disk)
    assert not c.perigee or broker.rss_kib() - before < 16 * 1024, (before, broker.rss_kib())


# ---- BR-046 ----

@test("BR-046 DescribeConfigs of broker '1', broker '', a topic and type 99 in one call: the keys that ksqlDB and Debezium read, with source and type; 42 for the unknown type only")
def broker_configs(c):
    conn, topic = c.conn(), c.topic()
    me = str(metadata(conn, [])["brokers"][0]["node_id"])
    odd = [{"type": 99, "name": "x"}] if c.perigee else []       # Kafka 4.3 refuses all of a request that has one
    answer = conn.call("DescribeConfigs", 4, resources=[{"type": BROKER, "name": me}, {"type": BROKER, "name": ""}, {"type": TOPIC, "name": topic}] + odd)
    got = {(r["type"], r["name"]): r for r in answer["results"]}
    codes = {k: r["error"] for k, r in got.items()}
    assert codes == {(BROKER, me): 0, (BROKER, ""): 0, (TOPIC, topic): 0, **({(99, "x"): 42} if c.perigee else {})}, codes
    entries = {e["name"]: e for e in got[(BROKER, me)]["configs"]}
    for key in ("default.replication.factor", "num.partitions", "auto.create.topics.enable", "delete.topic.enable", "log.retention.ms", "log.retention.hours", "log.retention.bytes",
                "log.cleanup.policy", "log.segment.bytes", "message.max.bytes", "transaction.max.timeout.ms", "min.insync.replicas", "offsets.topic.replication.factor",
                "compression.type", "broker.id", "advertised.listeners", "log.message.timestamp.type"):
        assert key in entries and entries[key]["type"] > 0 and entries[key]["source"] in (1, 2, 3, 4, 5), key
    assert entries["default.replication.factor"]["value"] == "1"
    chosen = conn.call("DescribeConfigs", 4, resources=[{"type": BROKER, "name": me, "keys": ["num.partitions", "nonsense"]}])["results"][0]
    assert [e["name"] for e in chosen["configs"]] == ["num.partitions"], chosen


# ---- BR-047 ----

@test("BR-047 IncrementalAlterConfigs touches only what it names, AlterConfigs sets all anew; one bad key beside a good one: neither; the same after a restart")
def alter_and_incremental(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(cleanup_policy="compact")
    done(change(conn, TOPIC, topic, ("retention.ms", "123456")))
    assert wait_value(c, conn, topic, "retention.ms", "123456") and value(conn, TOPIC, topic, "cleanup.policy")[0] == "compact"
    bad = change(conn, TOPIC, topic, ("retention.ms", "1"), ("max.message.bytes", "many"))
    assert bad["error"] == 40 and "max.message.bytes" in bad["error_message"], bad
    assert value(conn, TOPIC, topic, "retention.ms")[0] == "123456"
    done(replace(conn, TOPIC, topic, retention_ms="222"))
    assert wait_value(c, conn, topic, "retention.ms", "222") and value(conn, TOPIC, topic, "cleanup.policy")[0] == "delete"
    broker.restart()
    conn = c.conn(broker)
    assert value(conn, TOPIC, topic, "retention.ms")[0] == "222" and value(conn, TOPIC, topic, "cleanup.policy")[0] == "delete"


def wait_value(c, conn, topic, key, want):
    for _ in range(1 if c.perigee else 200):
        if value(conn, TOPIC, topic, key)[0] == want:
            return True
    return False


# ---- BR-051 ----

@test("BR-051 what Connect asks of its topics: made with cleanup.policy=compact it is told so at once; no Metadata of others makes it first with delete; reading to the end ends")
def connect_topics(c):
    c.own()
    conn, other = c.conn(), c.conn()
    for name, parts in ((c.name("connect-configs"), 1), (c.name("connect-offsets"), 25), (c.name("connect-status"), 5)):
        sent = other.send("Metadata", 12, topics=[{"name": name}], allow_auto_create=False)      # what its admin client asks meanwhile
        answer = create(conn, {"name": name, "partitions": parts, "configs": [{"name": "cleanup.policy", "value": "compact"}]})[name]
        assert answer["error"] == 0 and answer["partitions"] == parts, answer
        other.recv("Metadata", 12, sent)
        assert {x["name"]: x["value"] for x in answer["configs"]}["cleanup.policy"] == "compact"
        assert not c.perigee or value(conn, TOPIC, name, "cleanup.policy") == ("compact", 1)
        if not c.perigee:
            c.settled(name, parts)
        for p in range(parts):                       # read to the end: the end is told, and reached without a wait
            assert list_offset(conn, name, -1, partition=p)["offset"] == 0
            assert fetch(conn, name, 0, partition=p)["error"] == 0
        assert produce(conn, name, rb.batch([(b"task", b"1")], codec=rb.LZ4))["error"] == 0
        end = list_offset(conn, name, -1)["offset"]
        assert [r[0] for r in read_all(conn, name, until=end)] == [0] and end == 1


# ---- BR-065 ----

@test("BR-065 a partition whose log is damaged is refused with a retriable error, never as unknown; its siblings are served; Metadata lists all; 3 only for what does not exist", only="perigee")
def not_unknown(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(partitions=3)
    for p in range(3):
        fill(conn, topic, 50, partition=p, size=1000, per_batch=10)
    assert broker.stop()[0] == 0
    with open(os.path.join(broker.data, f"{topic}-1", "0" * 20 + ".log"), "r+b") as f:
        f.truncate(20_000)                           # below what was acknowledged and marked
    broker.start()
    conn = c.conn(broker)
    told = metadata(conn, [topic])["topics"][0]
    assert told["error"] == 0 and sorted(p["partition"] for p in told["partitions"]) == [0, 1, 2]
    assert {p["partition"]: p["error"] for p in told["partitions"] if p["partition"] != 1} == {0: 0, 2: 0}
    codes = {"produce": produce(conn, topic, rb.batch(rb.values("x", 1)), partition=1)["error"], "fetch": fetch(conn, topic, 0, partition=1)["error"],
             "list": list_offset(conn, topic, -1, partition=1)["error"],
             "epoch": conn.call("OffsetForLeaderEpoch", 3, topics=[{"name": topic, "partitions": [{"partition": 1, "epoch": 0}]}])["topics"][0]["partitions"][0]["error"]}
    assert codes["produce"] == codes["fetch"] == 56 and all(code in RETRIABLE - {3, 100} | {0} for code in codes.values()), codes
    assert codes["list"] or list_offset(conn, topic, -1, partition=1)["offset"] == 50, "an end below what was acknowledged"
    for p in (0, 2):
        assert produce(conn, topic, rb.batch(rb.values("x", 1)), partition=p)["base_offset"] == 50
        assert len(read_all(conn, topic, partition=p)) == 51
        assert list_offset(conn, topic, -1, partition=p)["offset"] == 51
    mixed = conn.call("ListOffsets", 7, topics=[{"name": topic, "partitions": [{"partition": p, "timestamp": -1} for p in (0, 1, 2, 7)]}])["topics"][0]["partitions"]
    assert {p["partition"]: p["error"] for p in mixed} == {0: 0, 1: codes["list"], 2: 0, 7: 3}, mixed


@test("BR-065 BR-013 a client that connects while the broker starts after kill -9 is never told that a partition is unknown", only="perigee")
def during_start(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(partitions=200)
    data = rb.batch(rb.values("x", 20, 1000))
    for p in range(0, 200, 20):
        conn.call("Produce", 9, acks=1, topics=[{"name": topic, "partitions": [{"index": q, "records": data} for q in range(p, p + 20)]}])
    for _ in range(3):
        broker.kill9()
        broker.start()                               # ready: the very first answers count
        conn = c.conn(broker)
        parts = metadata(conn, [topic])["topics"][0]["partitions"]
        assert len(parts) == 200 and {p["error"] for p in parts} == {0}
        answer = conn.call("ListOffsets", 7, topics=[{"name": topic, "partitions": [{"partition": p, "timestamp": -1} for p in range(200)]}])
        assert {(p["error"], p["offset"]) for p in answer["topics"][0]["partitions"]} == {(0, 20)}


@test("BR-015 BR-046 BR-047 the same through Kafka's own tools: kafka-delete-records past the end says so, kafka-configs keeps what it does not name")
def by_tools(c):
    broker, conn, topic = c.broker(), c.conn(), c.topic(cleanup_policy="compact,delete")
    assert produce(conn, topic, rb.batch([(b"k", b"%d" % i) for i in range(10)]))["error"] == 0
    path = os.path.join(broker.home, "delete.json")
    for offset, words in ((4, "low_watermark: 4"), (99, "Exception")):
        with open(path, "w", encoding="ascii") as f:
            f.write(f'{{"partitions": [{{"topic": "{topic}", "partition": 0, "offset": {offset}}}], "version": 1}}')
        status, said = tools.kafka_tool("org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", broker.addr, "--offset-json-file", path)
        assert words in said, (status, said)
    assert list_offset(conn, topic, -2)["offset"] == 4
    base = ("kafka.admin.ConfigCommand", "--bootstrap-server", broker.addr, "--entity-type", "topics", "--entity-name", topic)
    status, said = tools.kafka_tool(*base, "--alter", "--add-config", "retention.ms=777777")
    assert status == 0 and "Completed updating" in said, said
    status, said = tools.kafka_tool(*base, "--describe")
    assert "retention.ms=777777" in said and "cleanup.policy=compact,delete" in said, said
