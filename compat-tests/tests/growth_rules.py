"""CreatePartitions, and what a topic's name and id mean over its life: semantics 4.2, 4.10, 4.12, 4.16, 5.24, BR-042, BR-065 (the part about metadata), T4."""
import subprocess
import threading
import time

from raw import batch as rb
from raw.harness import fetch, fill, list_offset, metadata, produce, test
from tests.topic_rules import create, delete


def grow(conn, name, count, version=3, assignments=None, **more):
    topic = {"name": str(name), "count": count, "assignments": None if assignments is None else [{"brokers": b} for b in assignments]}
    return conn.call("CreatePartitions", version, topics=[topic], **more)["results"][0]


def count(conn, name):
    return len(metadata(conn, [name])["topics"][0]["partitions"])


def waited(c, check, limit_s=20):
    """Kafka answers before its broker has the partitions; perigee must not need this."""
    end = time.monotonic() + limit_s
    while not c.perigee and not check() and time.monotonic() < end:
        pass
    return check()


# ---- growing ----

@test("S4.16 a topic grows: new partitions have leaders and take records at once, on every connection; the old ones keep their records")
def grows(c):
    conn, others, topic = c.conn(), [c.conn() for _ in range(4)], c.topic(partitions=2)
    fill(conn, topic, 5, partition=1)
    for version, n in enumerate((3, 7, 8, 20)):
        answer = grow(conn, topic, n, version=version)
        assert (answer["error"], answer["error_message"], answer["name"]) == (0, None, topic), answer
        for other in others:
            assert waited(c, lambda other=other, n=n: count(other, topic) == n)
            got = produce(other, topic, rb.batch(rb.values("n", 1)), partition=n - 1)
            assert waited(c, lambda got=got, other=other, n=n: got["error"] == 0 or produce(other, topic, rb.batch(rb.values("n", 1)), partition=n - 1)["error"] == 0), got
        parts = sorted(metadata(conn, [topic])["topics"][0]["partitions"], key=lambda p: p["partition"])
        assert [p["partition"] for p in parts] == list(range(n)) and all(p["error"] == 0 and p["leader"] >= 0 for p in parts)
        assert list_offset(conn, topic, -1, partition=1)["offset"] == 5
    assert metadata(conn, [topic], version=12)["topics"][0]["topic_id"] == topic.id


@test("S4.16 counts that stay or shrink, 0, below 0: error 37, with words; unknown topics 3; each topic has its own verdict; validate_only changes nothing")
def refusals(c):
    conn, topic, other = c.conn(), c.topic(partitions=3), c.topic(partitions=3)
    for n in (3, 2, 1, 0, -1, -2**31):
        answer = grow(conn, topic, n)
        assert answer["error"] == 37 and answer["error_message"], (n, answer)
        assert not c.perigee or str(topic) in answer["error_message"] and "3" in answer["error_message"], answer
    assert grow(conn, "nowhere", 5)["error"] == 3
    answer = conn.call("CreatePartitions", 3, topics=[{"name": topic, "count": 2}, {"name": "nowhere", "count": 5}, {"name": other, "count": 4}])
    assert {r["name"]: r["error"] for r in answer["results"]} == {topic: 37, "nowhere": 3, other: 0}, answer
    assert grow(conn, topic, 9, validate_only=True)["error"] == 0
    assert grow(conn, topic, 3, validate_only=True)["error"] == 37
    assert waited(c, lambda: count(conn, other) == 4) and count(conn, topic) == 3
    if c.perigee:
        assert grow(conn, topic, 100_001)["error"] == 37


@test("S4.16 assignments cover exactly what is added: error 39 else; the broker's own node is accepted")
def assignments(c):
    conn, topic = c.conn(), c.topic(partitions=2)
    me = metadata(conn, [])["brokers"][0]["node_id"]
    for n, brokers in ((4, [[me]]), (3, [[me], [me]]), (3, []), (3, [[]]), (3, [[me + 70]]), (3, [[me, me]]), (4, [[me], [me + 70]])):
        answer = grow(conn, topic, n, assignments=brokers)
        assert answer["error"] == 39 and answer["error_message"], (n, brokers, answer)
    assert count(conn, topic) == 2
    assert grow(conn, topic, 4, assignments=[[me], [me]])["error"] == 0
    assert waited(c, lambda: count(conn, topic) == 4)


@test("S4.16 a topic named twice in one request: error 42 for it, the others proceed")
def twice(c):
    conn, topic, other = c.conn(), c.topic(), c.topic()
    answer = conn.call("CreatePartitions", 3, topics=[{"name": topic, "count": 2}, {"name": other, "count": 2}, {"name": topic, "count": 3}])
    codes = {r["name"]: r["error"] for r in answer["results"]}
    assert codes == {topic: 42, other: 0} and len(answer["results"]) == 2, answer
    assert waited(c, lambda: count(conn, other) == 2) and count(conn, topic) == 1


@test("S4.16 T4 growth survives kill -9 at once after the answer, with the records of old and new partitions; ten rounds", only="perigee")
def survives(c):
    broker = c.own()
    topic = c.topic(partitions=1)
    for n in range(2, 12):
        conn = c.conn(broker)
        assert grow(conn, topic, n)["error"] == 0
        assert produce(conn, topic, rb.batch(rb.values("x", n)), partition=n - 1)["error"] == 0
        broker.kill9()
        broker.start()
        conn = c.conn(broker)
        assert count(conn, topic) == n
        assert [list_offset(conn, topic, -1, partition=p)["offset"] for p in range(1, n)] == list(range(2, n + 1))
        epochs = [p["leader_epoch"] for p in metadata(conn, [topic])["topics"][0]["partitions"]]
        assert min(epochs) >= 0


@test("S4.16 S5.27 BR-065 growing under load: producers to all partitions that Metadata tells see no error, and every record is there once", only="perigee")
def under_load(c):
    c.own()
    topic, over, errors, sent = c.topic(partitions=1), threading.Event(), [], [0] * 41

    def load(conn):
        i = 0
        while not over.is_set():
            n = count(conn, topic)
            part = i % n
            answer = produce(conn, topic, rb.batch(rb.values("l", 1)), partition=part, acks=1)
            if answer["error"]:
                errors.append((part, answer["error"]))
            else:
                with lock:
                    sent[part] += 1
            i += 7
    lock = threading.Lock()
    threads = [threading.Thread(target=load, args=(c.conn(),)) for _ in range(4)]
    for t in threads:
        t.start()
    admin = c.conn()
    for n in range(2, 42):
        assert grow(admin, topic, n)["error"] == 0
    over.set()
    for t in threads:
        t.join()
    # Metadata of one shard may tell of a partition a moment before another shard has it: 3, which clients retry, and never anything else
    assert all(e == 3 for _, e in errors) and len(errors) <= 40, errors
    assert [list_offset(admin, topic, -1, partition=p)["offset"] for p in range(41)] == sent


@test("S4.16 a consumer that waits on old partitions is not disturbed, and one that asks for a new one is served; perigee topic alter --partitions", only="perigee")
def command(c):
    broker, conn, waiting, topic = c.broker(), c.conn(), c.conn(), c.topic(partitions=1)
    parked = waiting.send("Fetch", 12, max_wait_ms=15000, min_bytes=1, topics=[{"name": topic, "partitions": [{"partition": 0, "offset": 0}]}])
    binary = broker._command()[0]
    done = subprocess.run([binary, "topic", "alter", topic, "--partitions", "3", "-b", broker.addr], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (0, f"{topic}\t3\n"), done
    again = subprocess.run([binary, "topic", "alter", topic, "-p", "3", "-b", broker.addr], capture_output=True, text=True, timeout=30, check=False)
    assert again.returncode == 2 and "INVALID_PARTITIONS" in again.stderr and "3 partitions already" in again.stderr, again
    assert not waiting.buffer and waiting.silent(0)
    assert fetch(conn, topic, 0, partition=2)["error"] == 0
    fill(conn, topic, 1, partition=0)
    part = waiting.recv("Fetch", 12, parked)["topics"][0]["partitions"][0]
    assert len(rb.batches(part["records"])) == 1


# ---- names and ids ----

@test("S4.2 BR-050 names that differ in '.' and '_' collide as long as one of them lives, also in one request and after a restart", only="perigee")
def collisions(c):                                   # Kafka 4.3 makes both when one request names them
    broker = c.own()
    conn = c.conn(broker)
    stem = c.name("col")
    got = create(conn, {"name": f"{stem}.x"}, {"name": f"{stem}_x"})
    assert sorted(got[n]["error"] for n in (f"{stem}.x", f"{stem}_x")) == [0, 17], got
    lives = f"{stem}.x" if got[f"{stem}.x"]["error"] == 0 else f"{stem}_x"
    dead = f"{stem}_x" if lives == f"{stem}.x" else f"{stem}.x"
    broker.restart()
    conn = c.conn(broker)
    assert create(conn, {"name": dead})[dead]["error"] == 17
    assert delete(conn, lives)[lives] == 0
    assert waited(c, lambda: create(conn, {"name": dead})[dead]["error"] in (0, 36))
    assert create(conn, {"name": lives})[lives]["error"] == 17


@test("S4.1 S3.15 the names of the broker's own topics: nobody else can write them; a name of 249 characters grows, and its directories are Kafka's")
def long_names(c):
    conn = c.conn()
    name = c.topic(name="n" * 245 + c.name("x")[-4:].rjust(4, "x"), partitions=1)
    assert grow(conn, name, 3)["error"] == 0
    assert waited(c, lambda: produce(conn, name, rb.batch(rb.values("a", 1)), partition=2)["error"] == 0)
    for own in ("__consumer_offsets", "__transaction_state", "__share_group_state"):
        answer = produce(conn, own, rb.batch(rb.values("a", 1)))
        assert answer["error"] in (3, 17), (own, answer)
        assert not c.perigee or create(conn, {"name": own})[own]["error"] == 17


@test("S4.10 S5.24 BR-042 ids over delete and create: Produce v13 and Metadata by id know only the living topic; growth keeps the id")
def ids(c):
    conn, name = c.conn(), c.name("id")
    dead = []
    for _ in range(5):
        topic = c.topic(name=name)
        assert topic.id not in dead
        assert grow(conn, topic, 2)["error"] == 0
        assert waited(c, lambda topic=topic: produce(conn, topic, rb.batch(rb.values("a", 1)), partition=1, version=13)["error"] == 0)
        got = conn.call("Metadata", 12, topics=[{"topic_id": topic.id, "name": None}])["topics"][0]
        assert (got["error"], got["name"]) == (0, name)
        for gone in dead:
            old = type(topic)(name)
            old.id = gone
            assert produce(conn, old, rb.batch(rb.values("a", 1)), version=13)["error"] == 100
            got = conn.call("Metadata", 12, topics=[{"topic_id": gone, "name": None}])["topics"][0]
            assert (got["error"], got["name"], got["partitions"]) == (100, None, [])
        dead.append(topic.id)
        assert delete(conn, name)[name] == 0
        assert waited(c, lambda: metadata(conn, [name])["topics"][0]["error"] == 3)
