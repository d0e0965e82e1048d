"""Kafka's own tools against the broker: kafka-topics, kafka-get-offsets, kafka-producer-perf-test, kafka-cluster."""
import re

from raw import batch as rb, tools
from raw.harness import fill, list_offset, metadata, produce, read_all, test

TOPICS, OFFSETS = "org.apache.kafka.tools.TopicCommand", "org.apache.kafka.tools.GetOffsetShell"
PERF, CLUSTER = "org.apache.kafka.tools.ProducerPerformance", "org.apache.kafka.tools.ClusterTool"


def run(main, *args):
    status, said = tools.kafka_tool(main, *args)
    assert status == 0, (args, said)
    return said


def topics(c, *args):
    return run(TOPICS, "--bootstrap-server", c.broker().addr, *args)


def refused(c, *args):
    """The tool ends with an error; its words."""
    status, said = tools.kafka_tool(TOPICS, "--bootstrap-server", c.broker().addr, *args)
    assert status != 0, said
    return said


@test("S4.9 S4.12 kafka-topics --create with partitions, replication factor and settings; --describe shows them; creating it again is refused, but with --if-not-exists")
def create_describe(c):
    name = c.name("tool")
    out = topics(c, "--create", "--topic", name, "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000", "--config", "compression.type=zstd")
    assert f"Created topic {name}" in out, out
    out = topics(c, "--describe", "--topic", name)
    head = out.splitlines()[0]
    assert "PartitionCount: 3" in head and "ReplicationFactor: 1" in head and "retention.ms=60000" in head and "compression.type=zstd" in head, out
    assert len(re.findall(r"Partition: \d\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+", out)) == 3, out
    assert "already exists" in refused(c, "--create", "--topic", name)
    topics(c, "--create", "--topic", name, "--if-not-exists")


@test("S3.8 kafka-topics --list, --exclude-internal, --describe with --topics-with-overrides, --under-replicated-partitions, --unavailable-partitions, --at-min-isr-partitions")
def list_and_filters(c):
    plain, tuned = c.topic(), c.topic(segment_bytes=2_000_000)
    names = topics(c, "--list").split()
    assert plain in names and tuned in names and names == sorted(names)
    assert plain in topics(c, "--list", "--exclude-internal").split()
    out = topics(c, "--describe", "--topics-with-overrides")
    assert f"Topic: {tuned}" in out and "segment.bytes=2000000" in out, out
    assert not c.perigee or f"Topic: {plain}\t" not in out, out         # Kafka's test broker has settings that differ from the default, which count here
    for none in ("--under-replicated-partitions", "--unavailable-partitions", "--under-min-isr-partitions"):
        out = topics(c, "--describe", none)          # other tests may have left topics that belong there
        assert plain not in out and tuned not in out, (none, out)
    assert plain in topics(c, "--describe", "--at-min-isr-partitions")


@test("S4.16 kafka-topics --alter --partitions grows a topic; fewer are refused; --delete removes it, a second time is refused, but with --if-exists")
def alter_delete(c):
    name = c.topic(partitions=2)
    topics(c, "--alter", "--topic", name, "--partitions", "5")
    assert "PartitionCount: 5" in topics(c, "--describe", "--topic", name)
    assert re.search("has 5 partition|currently has 5", refused(c, "--alter", "--topic", name, "--partitions", "2")), "no reason"
    topics(c, "--delete", "--topic", name)
    assert name not in topics(c, "--list").split()
    assert "does not exist" in refused(c, "--delete", "--topic", name)
    topics(c, "--delete", "--topic", name, "--if-exists")
    assert "does not exist" in refused(c, "--describe", "--topic", name)


@test("S8.1 S8.2 S8.3 S8.6 kafka-get-offsets: latest, earliest, max-timestamp, a time, chosen partitions")
def get_offsets(c):
    conn, name = c.conn(), c.topic(partitions=2)
    t = rb.T0
    assert produce(conn, name, rb.batch([(None, b"a", t), (None, b"b", t + 50), (None, b"c", t + 20)]))["error"] == 0
    fill(conn, name, 4, partition=1)

    def asked(*args):
        out = run(OFFSETS, "--bootstrap-server", c.broker().addr, "--topic", f"^{name}$", *args)
        return sorted(line for line in out.split() if line.startswith(name))
    assert asked() == [f"{name}:0:3", f"{name}:1:4"]
    assert asked("--time", "earliest") == [f"{name}:0:0", f"{name}:1:0"]
    assert asked("--time", "-3", "--partitions", "0") == [f"{name}:0:1"]
    assert asked("--time", str(t + 10), "--partitions", "0") == [f"{name}:0:1"]


@test("S5.9 S5.16 kafka-producer-perf-test: 20,000 records, compressed, into a topic of another codec: all there")
def perf_test(c):
    name = c.topic(partitions=2, compression_type="lz4")
    out = run(PERF, "--topic", name, "--num-records", "20000", "--record-size", "200", "--throughput", "-1", "--bootstrap-server",
                     c.broker().addr, "--command-property", "compression.type=zstd", "acks=all")
    assert re.search(r"20000 records sent", out), out
    conn = c.conn()
    assert sum(list_offset(conn, name, -1, partition=p)["offset"] for p in range(2)) == 20_000
    assert all(len(r[3]) == 200 for r in read_all(conn, name))


@test("S3.12 kafka-cluster cluster-id tells the id that Metadata has")
def cluster_id(c):
    out = run(CLUSTER, "cluster-id", "--bootstrap-server", c.broker().addr)
    assert f"Cluster ID: {metadata(c.conn(), [])['cluster_id']}" in out, out
