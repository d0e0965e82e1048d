"""Many topics: created, written, restarted, killed and deleted, with times and memory (P10, P12, BR-063); 100 topics of 10 partitions, 1,000 with --full."""
import os
import time

from raw import batch as rb
from raw.broker import SANITIZED
from raw.harness import list_offset, metadata, test
from tests.topic_rules import create

PARTITIONS = 10


class Clock:
    def __init__(self):
        self.at, self.said = time.monotonic(), []

    def lap(self, what):
        now = time.monotonic()
        self.said.append(f"{what} {now - self.at:.2f} s")
        self.at = time.monotonic()


def write(conn, names, value, per_request=20):
    """One record to every partition, several requests under way."""
    data, sent, bad = rb.batch([(None, value)]), [], 0
    for i in range(0, len(names), per_request):
        sent.append(conn.send("Produce", 9, acks=-1, timeout_ms=60000, topics=[
            {"name": n, "partitions": [{"index": p, "records": data} for p in range(PARTITIONS)]} for n in names[i:i + per_request]]))
        while len(sent) > 16:
            bad += errors(conn.recv("Produce", 9, sent.pop(0)))
    for s in sent:
        bad += errors(conn.recv("Produce", 9, s))
    assert bad == 0, bad


def errors(answer):
    return sum(p["error"] != 0 for t in answer["topics"] for p in t["partitions"])


def ends(conn, names):
    """The set of end offsets of all partitions."""
    out = set()
    for i in range(0, len(names), 50):
        answer = conn.call("ListOffsets", 7, topics=[{"name": n, "partitions": [{"partition": p, "timestamp": -1} for p in range(PARTITIONS)]} for n in names[i:i + 50]])
        out |= {(p["error"], p["offset"]) for t in answer["topics"] for p in t["partitions"]}
    return out


def in_pieces(names, n=100):
    return [names[i:i + n] for i in range(0, len(names), n)]


def left(broker, stem, alive):
    """Directories of topics that are gone."""
    return [d for d in os.listdir(broker.data) if d.startswith(stem) and not d.startswith(alive + "-0")]


def storm(c, topics_n):
    broker = c.own()
    conn, clock, stem = c.conn(broker, timeout=120), Clock(), c.name("storm")
    names = [f"{stem}.{i}" for i in range(topics_n)]
    idle = broker.rss_kib()
    for piece in in_pieces(names):
        got = create(conn, *({"name": n, "partitions": PARTITIONS} for n in piece), timeout_ms=60000)
        assert {t["error"] for t in got.values()} == {0}
    clock.lap("created")
    made = broker.rss_kib()
    write(conn, names, b"one")
    clock.lap("written")
    written = broker.rss_kib()
    assert ends(conn, names) == {(0, 1)}
    status, took = broker.stop()
    assert status == 0
    clock.lap("stopped")
    broker.start()
    clock.lap("started clean")
    started = broker.rss_kib()
    conn = c.conn(broker, timeout=120)
    assert ends(conn, names) == {(0, 1)}
    write(conn, names, b"two")
    clock.lap("written again")
    broker.kill9()
    broker.start()
    clock.lap("started after kill -9")
    killed = broker.rss_kib()
    conn = c.conn(broker, timeout=120)
    assert ends(conn, names) == {(0, 2)}
    assert len(metadata(conn, None)["topics"]) == topics_n
    clock.lap("looked at")
    for piece in in_pieces(names):
        answer = conn.call("DeleteTopics", 6, topics=[{"name": n} for n in piece], timeout_ms=60000)
        assert {t["error"] for t in answer["topics"]} == {0}
    clock.lap("deleted")
    assert metadata(conn, None)["topics"] == []
    gone = broker.rss_kib()
    assert create(conn, {"name": names[0], "partitions": 1})[names[0]]["error"] == 0
    assert list_offset(conn, names[0], -1)["offset"] == 0
    status, took = broker.stop()                     # in the middle of the removals: bounded, the next start finishes them
    assert status == 0 and took < 6, (status, took)
    clock.lap("stopped")
    broker.start()
    clock.lap("started")
    conn, until = c.conn(broker), time.monotonic() + 120
    while left(broker, stem, names[0]) and time.monotonic() < until:
        assert list_offset(conn, names[0], -1)["offset"] == 0
    clock.lap("all files gone")
    print(f"# {topics_n} topics x {PARTITIONS} partitions, shards={c.shards}: {', '.join(clock.said)}")
    print(f"# RSS KiB: idle {idle}, created {made}, written {written}, started clean {started}, started after kill -9 {killed}, deleted {gone}")
    assert not left(broker, stem, names[0])
    return made, started


@test("P10 P12 BR-063 100 topics x 10 partitions: created, written, restarted, killed, deleted; nothing lost, nothing left", only="perigee")
def hundred(c):
    storm(c, 100)


@test("P10 P12 BR-063 1,000 topics x 10 partitions: created, written, restarted, killed, deleted; RSS within P10's 40 MB", only="perigee", full=True)
def thousand(c):
    made, started = storm(c, 1000)
    assert SANITIZED or max(made, started) <= 40 * 1024, (made, started)


@test("BR-042 S4.10 a hundred topics created and deleted in turn by four clients at once, ten rounds: ids new, nothing of the former ones", only="perigee")
def turns(c):
    broker = c.own()
    conns = [c.conn(broker) for _ in range(4)]
    stem, ids = c.name("turn"), set()
    for _ in range(10):
        sent = [conn.send("CreateTopics", 7, topics=[{"name": f"{stem}.{i}.{k}", "partitions": 2, "replication": 1} for k in range(25)]) for i, conn in enumerate(conns)]
        for conn, s in zip(conns, sent):
            for t in conn.recv("CreateTopics", 7, s)["topics"]:
                assert t["error"] == 0 and t["topic_id"] not in ids, t
                ids.add(t["topic_id"])
        names = [f"{stem}.{i}.{k}" for i in range(4) for k in range(25)]
        data = rb.batch([(None, b"x")])
        answer = conns[0].call("Produce", 9, acks=-1, topics=[{"name": n, "partitions": [{"index": 1, "records": data}]} for n in names])
        assert {(p["error"], p["base_offset"]) for t in answer["topics"] for p in t["partitions"]} == {(0, 0)}
        sent = [conn.send("DeleteTopics", 6, topics=[{"name": f"{stem}.{i}.{k}"} for k in range(25)]) for i, conn in enumerate(conns)]
        for conn, s in zip(conns, sent):
            assert {t["error"] for t in conn.recv("DeleteTopics", 6, s)["topics"]} == {0}
    assert metadata(conns[0], None)["topics"] == []
    assert broker.stop()[0] == 0
    assert not [d for d in os.listdir(broker.data) if d.startswith(stem) and not d.endswith("-delete")]
