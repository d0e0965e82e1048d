"""DescribeCluster and DescribeTopicPartitions: semantics 3.9 to 3.17."""
import re

from raw import tools
from raw.harness import test

TOPIC_OPERATIONS, CLUSTER_OPERATIONS, UNASKED = 0xdf8, 0x1fa0, -2147483648


# ---- DescribeCluster ----

@test("S3.10 S3.11 S3.12 DescribeCluster names the same brokers, controller and cluster as Metadata, in every version")
def cluster(c):
    conn = c.conn()
    told = conn.call("Metadata", 9, topics=[])
    for version in range(3):
        got = conn.call("DescribeCluster", version)
        assert got["error"] == 0 and got["error_message"] is None, got
        assert got["cluster_id"] == told["cluster_id"] and len(got["cluster_id"]) == 22, got
        assert [(b["node_id"], b["host"], b["port"]) for b in got["brokers"]] == [(b["node_id"], b["host"], b["port"]) for b in told["brokers"]]
        assert got["controller_id"] in [b["node_id"] for b in got["brokers"]], got
        if version >= 1:
            assert got["endpoint_type"] == 1, got
        if version >= 2:
            assert not any(b["fenced"] for b in got["brokers"]), got


@test("S3.14 cluster operations only when asked for")
def cluster_operations(c):
    conn = c.conn()
    for version in range(3):
        assert conn.call("DescribeCluster", version)["cluster_operations"] == UNASKED
        assert conn.call("DescribeCluster", version, cluster_operations=True)["cluster_operations"] == CLUSTER_OPERATIONS, version


@test("S3.16 DescribeCluster v1+: endpoint type controller 114, an unknown one 115, with a message and no brokers")
def endpoint_type(c):
    conn = c.conn()
    for version in (1, 2):
        for kind, code in ((2, 114), (0, 115), (3, 115), (-1, 115), (127, 115)):
            got = conn.call("DescribeCluster", version, endpoint_type=kind)
            assert got["error"] == code and got["brokers"] == [] and got["error_message"], (version, kind, got)
    assert conn.call("DescribeCluster", 2, include_fenced=True)["error"] == 0


# ---- DescribeTopicPartitions ----

def describe(conn, names=(), **more):
    return conn.call("DescribeTopicPartitions", 0, topics=[{"name": str(n)} for n in names], **more)


def flat(answer):
    return [(t["name"], p["partition"]) for t in answer["topics"] for p in t["partitions"]]


def pages(conn, names, limit, most=1000):
    """Every page from the first to the last."""
    out, cursor = [], None
    for _ in range(most):
        answer = describe(conn, names, limit=limit, cursor=cursor)
        out.append(answer)
        cursor = answer["next_cursor"]
        if cursor is None:
            return out
    raise AssertionError(f"no end after {most} pages: {cursor}")


@test("S3.8 S3.9 S3.13 S3.14 DescribeTopicPartitions: id, partitions from 0 on with leader, epoch, replicas and in-sync ones, operations")
def describes(c):
    conn, topic = c.conn(), c.topic(partitions=3)
    told = conn.call("Metadata", 12, topics=[{"name": str(topic)}])["topics"][0]
    got = describe(conn, [topic])
    assert got["next_cursor"] is None and len(got["topics"]) == 1, got
    t = got["topics"][0]
    assert (t["error"], t["name"], t["topic_id"], t["internal"], t["operations"]) == (0, topic, topic.id, False, TOPIC_OPERATIONS), t
    assert [p["partition"] for p in t["partitions"]] == [0, 1, 2]
    for p, m in zip(t["partitions"], told["partitions"]):
        assert (p["error"], p["leader"], p["leader_epoch"], p["replicas"], p["isr"], p["offline"]) == \
            (0, m["leader"], m["leader_epoch"], m["replicas"], m["isr"], []), (p, m)
        assert p["eligible"] == [] and p["last_eligible"] == [], p


@test("S3.2 S3.4 an unknown topic: 3, an illegal name: 17, each without partitions; the others are answered")
def unknown(c):
    conn, topic = c.conn(), c.topic()
    got = {t["name"]: t for t in describe(conn, [topic, "no-such-topic", "bad name"])["topics"]}
    assert {n: t["error"] for n, t in got.items()} == {topic: 0, "no-such-topic": 3, "bad name": 17}, got
    assert got["no-such-topic"]["partitions"] == [] and got["no-such-topic"]["topic_id"] == bytes(16), got


@test("S3.17 topics come sorted by name, each once however often it was asked")
def order(c):
    conn = c.conn()
    topics = sorted(c.topic(name=c.name(stem)) for stem in ("zz", "aa", "mm", "Mm", "m-m"))
    asked = [topics[3], topics[0], topics[4], topics[0], topics[2], topics[1], topics[3]]
    assert [t["name"] for t in describe(conn, asked)["topics"]] == topics
    every = [t["name"] for page in pages(conn, [], 2000) for t in page["topics"]]
    assert every == sorted(every) and set(topics) <= set(every), every


@test("S3.17 a page holds at most the limit of partitions; the cursor names the first one left out; the pages together are everything once")
def paging(c):
    conn = c.conn()
    topics = sorted(c.topic(partitions=n, name=c.name(f"page{n}")) for n in (1, 5, 3, 7))
    want = [(t, p) for t in topics for p in range({"1": 1, "3": 3, "5": 5, "7": 7}[t[4]])]
    for limit in (1, 2, 3, 4, 5, 8, 15, 16, 17, 1000):
        got = pages(conn, topics, limit)
        assert sum((flat(a) for a in got), []) == want, limit
        for i, answer in enumerate(got[:-1]):
            assert len(flat(answer)) == limit, (limit, answer)
            follows = want[limit * (i + 1)]
            assert (answer["next_cursor"]["topic"], answer["next_cursor"]["partition"]) == follows, (limit, answer["next_cursor"])


@test("S3.17 a limit below 1 is 1; none above max.request.partition.size.limit (2000)")
def limits(c):
    conn, topic = c.conn(), c.topic(partitions=2100, name=c.name("wide"))
    for limit in (0, -5, -2147483648):
        got = describe(conn, [topic], limit=limit)
        assert flat(got) == [(topic, 0)] and got["next_cursor"] == {"topic": topic, "partition": 1}, (limit, got["next_cursor"])
    got = describe(conn, [topic], limit=0x7fffffff)
    assert len(flat(got)) == 2000 and got["next_cursor"] == {"topic": topic, "partition": 2000}, got["next_cursor"]
    assert len(flat(describe(conn, [topic], limit=3000, cursor=got["next_cursor"]))) == 100


@test("S3.17 the broker's limit is a setting: max.request.partition.size.limit")
def limit_setting(c):
    c.broker(max_request_partition_size_limit=7)
    conn, topic = c.conn(), c.topic(partitions=10)
    assert len(flat(describe(conn, [topic]))) == 7


@test("S3.17 pages over all topics: a topic that does not fit begins the next page")
def all_topics(c):
    conn = c.conn()
    own = [c.topic(partitions=4, name=c.name("every")) for _ in range(5)]
    whole = [x for page in pages(conn, [], 2000) for x in flat(page)]
    for limit in (1, 3, 4, 7):
        got = pages(conn, [], limit, most=20000)
        assert [x for page in got for x in flat(page)] == whole, limit
    assert {(t, p) for t in own for p in range(4)} <= set(whole)


@test("S3.17 a cursor on a partition that is not there any more: an empty topic, and on with the next")
def cursor_beyond(c):
    conn = c.conn()
    a, b = sorted((c.topic(partitions=2, name=c.name("curs")), c.topic(partitions=1, name=c.name("curs"))))
    got = describe(conn, [a, b], cursor={"topic": a, "partition": 9})
    assert [x for x in flat(got) if x[0] == b] == [(b, 0)] and not [x for x in flat(got) if x[0] == a], got
    assert got["next_cursor"] is None


@test("S3.17 a cursor whose topic is not asked, or with a negative partition: 42 for each topic asked")
def bad_cursor(c):
    conn, a, b = c.conn(), c.topic(), c.topic()
    for cursor in ({"topic": "zzzz-not-asked", "partition": 0}, {"topic": "aaaa-not-asked", "partition": 0}, {"topic": a, "partition": -1}):
        got = describe(conn, [a, b], cursor=cursor)
        assert sorted(t["name"] for t in got["topics"]) == sorted((a, b)), got
        assert {t["error"] for t in got["topics"]} == {42} and flat(got) == [], got
    assert describe(conn, [a], cursor={"topic": a, "partition": 0})["topics"][0]["error"] == 0


@test("S3.17 the cursor's topic was deleted between two pages: the answer says 3 for it, and goes on")
def cursor_deleted(c):
    conn = c.conn()
    a, b = sorted((c.topic(partitions=3, name=c.name("gone")), c.topic(partitions=1, name=c.name("gone"))))
    first = describe(conn, [a, b], limit=1)
    assert first["next_cursor"]["topic"] == a
    if len([p for t in first["topics"] for p in t["partitions"]]) == 1 and first["next_cursor"]["partition"] == 1:
        conn.call("DeleteTopics", 6, topics=[{"name": str(a)}])
        got = describe(conn, [a, b], limit=1, cursor=first["next_cursor"])
        assert [(t["name"], t["error"]) for t in got["topics"]] == [(a, 3), (b, 0)], got


# ---- Kafka's tools ----

@test("S3.16 kafka-cluster list-endpoints tells the address that Metadata has")
def cluster_tool(c):
    broker = c.broker()
    node = c.conn().call("DescribeCluster", 2)["brokers"][0]
    status, out = tools.kafka_tool("org.apache.kafka.tools.ClusterTool", "list-endpoints", "--bootstrap-server", broker.addr)
    assert status == 0 and re.search(rf"^{node['node_id']}\s+{re.escape(node['host'])}\s+{node['port']}\b", out, re.M), out


@test("S3.17 kafka-topics --describe of 4,500 partitions: the Java Admin client pages through them")
def topics_tool(c):
    broker = c.broker()
    topic = c.topic(partitions=4500, name=c.name("paged"))
    status, out = tools.kafka_tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", broker.addr, "--describe", "--topic", str(topic))
    assert status == 0, out
    seen = re.findall(r"Partition: (\d+)\tLeader: (\d+)\tReplicas: (\d+)\tIsr: (\d+)", out)
    assert [int(s[0]) for s in seen] == list(range(4500)), (len(seen), out[:600])
    assert len({s[1:] for s in seen}) == 1, set(s[1:] for s in seen)
