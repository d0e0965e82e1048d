"""Fetch sessions (KIP-227): semantics 7.30 to 7.39, BR-016."""
import subprocess
import time

from raw import batch as rb
from raw import broker as brokers
from raw import tools
from raw.harness import fill, name_or_id, test

VERSIONS = (7, 9, 11, 12, 13, 16, 18)


class Session:
    """A client's side of one session: topics are (topic, partition) with the offset it wants next."""

    def __init__(self, conn, version=12, session_id=0, epoch=0):
        self.conn, self.version, self.id, self.epoch = conn, version, session_id, epoch

    def request(self, wants, forgotten=(), max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, part_bytes=1 << 20, **more):
        topics, gone = {}, {}
        for (topic, partition), offset in dict(wants).items():
            topics.setdefault(topic, []).append({"partition": partition, "offset": offset, "max_bytes": part_bytes})
        for topic, partition in forgotten:
            gone.setdefault(topic, []).append(partition)
        return {"session_id": self.id, "session_epoch": self.epoch, "max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes,
                "topics": [{**name_or_id(t, self.version), "partitions": p} for t, p in topics.items()],
                "forgotten": [{**name_or_id(t, self.version), "partitions": p} for t, p in gone.items()], **more}

    def send(self, wants=(), **options):
        return self.conn.send("Fetch", self.version, **self.request(wants, **options))

    def answer(self, sent=None):
        got = self.conn.recv("Fetch", self.version, sent)
        if got["error"] == 0:
            self.id = got["session_id"]
            self.epoch = 1 if self.epoch in (0, 0x7fffffff) else self.epoch + 1
        return got

    def poll(self, wants=(), **options):
        return self.answer(self.send(wants, **options))


def parts(answer):
    """{partition: its answer}, of answers about one topic."""
    return {p["partition"]: p for t in answer["topics"] for p in t["partitions"]}


def order(answer):
    return [p["partition"] for t in answer["topics"] for p in t["partitions"] if p["records"]]


def opened(c, partitions=3, version=12, conn=None, **options):
    """A session over all partitions of a new topic, empty and told."""
    conn = conn or c.conn()
    topic = c.topic(partitions=partitions)
    s = Session(conn, version)
    answer = s.poll({(topic, p): 0 for p in range(partitions)}, **options)
    assert answer["error"] == 0 and answer["session_id"] > 0, answer
    assert sorted(parts(answer)) == list(range(partitions)), answer
    return s, topic


@test("S7.30 S7.33 a full fetch with epoch 0 opens a session whose first epoch is 1, in every version from 7; the answer names every partition")
def opens(c):
    for version in VERSIONS:
        s, topic = opened(c, version=version)
        answer = s.poll()
        assert (answer["error"], answer["session_id"], answer["topics"]) == (0, s.id, []), (version, answer)


@test("S7.30 two full fetches open two sessions; each answers for its own partitions")
def two(c):
    conn = c.conn()
    a, topic = opened(c, conn=conn)
    b = Session(conn)
    b.poll({(topic, 1): 0})
    assert a.id != b.id
    fill(conn, topic, 2, partition=1)
    fill(conn, topic, 2, partition=2)
    assert sorted(parts(a.poll())) == [1, 2] and sorted(parts(b.poll())) == [1]


@test("S7.31 epoch -1 answers without a session; with a session id it closes that one: 70 afterwards")
def final_epoch(c):
    s, topic = opened(c)
    answer = Session(s.conn, epoch=-1).poll({(topic, 0): 0})
    assert answer["session_id"] == 0 and sorted(parts(answer)) == [0], answer
    assert s.poll()["error"] == 0
    last = Session(s.conn, session_id=s.id, epoch=-1).poll()
    assert (last["error"], last["session_id"]) == (0, 0), last
    assert s.poll()["error"] == 70


@test("S7.31 epoch 0 with a session id closes that session and opens a new one")
def epoch_zero_with_id(c):
    s, topic = opened(c)
    new = Session(s.conn, session_id=s.id)
    answer = new.poll({(topic, 0): 0})
    assert answer["error"] == 0 and new.id not in (0, s.id), answer
    assert s.poll()["error"] == 70 and new.poll()["error"] == 0


@test("S7.32 a wrong epoch: 71 at the top, no partitions, session id 0; the session lives on with the epoch it expects")
def wrong_epoch(c):
    for version in VERSIONS:
        s, topic = opened(c, version=version)
        for epoch in (2, 5, 0x7fffffff, -2):
            answer = Session(s.conn, version, s.id, epoch).poll({(topic, 0): 0})
            assert (answer["error"], answer["session_id"], answer["topics"]) == (71, 0, []), (version, epoch, answer)
        assert s.poll()["error"] == 0
        assert Session(s.conn, version, s.id, 1).poll()["error"] == 71, "an epoch that was used already"


@test("S7.32 an unknown session id, whatever the epoch: 70 at the top, no partitions, session id 0; also with id 0")
def unknown_id(c):
    s, topic = opened(c)
    for session_id in (0, s.id ^ 1) + ((0x7fffffff, -5) if c.perigee else ()):      # on the largest Kafka 4.3 stumbles: error -1
        for epoch in (1, 7, -2):
            answer = Session(s.conn, 12, session_id, epoch).poll({(topic, 0): 0})
            assert (answer["error"], answer["session_id"], answer["topics"]) == (70, 0, []), (session_id, epoch, answer)


@test("S7.33 epochs count 1, 2, 3, ... one per poll")
def epochs_count(c):
    s, _ = opened(c)
    for epoch in range(1, 200):
        assert s.epoch == epoch
        assert s.poll()["error"] == 0, epoch


@test("S7.34 listed partitions are added or updated, the others keep their last values; forgotten ones leave")
def incremental(c):
    conn = c.conn()
    topic = c.topic(partitions=4)
    for p in range(4):
        fill(conn, topic, 3, partition=p, per_batch=1)
    s = Session(conn)
    first = s.poll({(topic, 0): 0, (topic, 1): 3})
    assert len(rb.batches(parts(first)[0]["records"])) == 3 and parts(first)[1]["records"] == b""
    added = s.poll({(topic, 0): 3, (topic, 2): 1})                   # one moves on, one is new
    assert sorted(parts(added)) == [2] and len(rb.batches(parts(added)[2]["records"])) == 2, added
    same = s.poll()                                                  # nobody told of the progress: the same records again
    assert sorted(parts(same)) == [2] and len(rb.batches(parts(same)[2]["records"])) == 2, same
    assert parts(s.poll(forgotten=[(topic, 2)])) == {}
    fill(conn, topic, 1, partition=2)
    fill(conn, topic, 1, partition=0)
    assert sorted(parts(s.poll())) == [0]
    back = s.poll({(topic, 2): 3, (topic, 0): 4})
    assert sorted(parts(back)) == [2] and len(rb.batches(parts(back)[2]["records"])) == 1, back


@test("S7.34 a partition that is listed and forgotten in one request leaves; one that was never there is forgotten in silence")
def both(c):
    s, topic = opened(c)
    fill(s.conn, topic, 1, partition=1)
    assert parts(s.poll({(topic, 1): 0}, forgotten=[(topic, 1), (topic, 77)])) == {}
    fill(s.conn, topic, 1, partition=1)
    assert parts(s.poll()) == {} and s.id > 0


@test("S7.34 S7.20 a partition listed twice in a session is there once, with the last values")
def listed_twice(c):
    conn = c.conn()
    topic = c.topic()
    fill(conn, topic, 4, per_batch=1)
    s = Session(conn)
    request = s.request({(topic, 0): 0})
    request["topics"][0]["partitions"].append({"partition": 0, "offset": 3, "max_bytes": 1 << 20})
    answer = s.answer(conn.send("Fetch", 12, **request))
    assert len(parts(answer)) == 1 and [b.base_offset for b in rb.batches(parts(answer)[0]["records"])] == [3], answer
    request = s.request({(topic, 0): 0})
    request["topics"][0]["partitions"].append({"partition": 0, "offset": 2, "max_bytes": 1 << 20})
    answer = s.answer(conn.send("Fetch", 12, **request))
    assert [b.base_offset for b in rb.batches(parts(answer)[0]["records"])] == [2, 3], answer


@test("S7.34 when nothing is left the session closes: session id 0, then 70")
def emptied(c):
    s, topic = opened(c)
    old, epoch = s.id, s.epoch
    answer = s.poll(forgotten=[(topic, p) for p in range(3)], max_wait_ms=5000)
    assert (answer["error"], answer["session_id"], answer["topics"]) == (0, 0, []), answer
    assert Session(s.conn, 12, old, epoch + 1).poll()["error"] == 70


@test("S7.35 an answer names a partition for records, an error, or a changed high watermark or log start; not otherwise")
def changes(c):
    conn = c.conn()
    s, topic = opened(c, conn=conn)
    assert parts(s.poll()) == {}
    fill(conn, topic, 5, partition=1)
    got = s.poll({(topic, 1): 5})                                    # nothing to read there, but the high watermark is news
    assert sorted(parts(got)) == [1] and parts(got)[1]["records"] == b"" and parts(got)[1]["high_watermark"] == 5, got
    assert parts(s.poll()) == {}
    fill(conn, topic, 1, partition=1)
    got = parts(s.poll())
    assert sorted(got) == [1] and got[1]["high_watermark"] == 6 and len(rb.batches(got[1]["records"])) == 1, got


@test("S7.35 after an error the partition is named in each answer, and once more when it recovers")
def errors_recover(c):
    conn = c.conn()
    s, topic = opened(c, conn=conn)
    fill(conn, topic, 2, partition=0)
    for _ in range(3):
        got = parts(s.poll({(topic, 0): 50}))
        assert sorted(got) == [0] and got[0]["error"] == 1 and got[0]["high_watermark"] == -1, got
    got = parts(s.poll({(topic, 0): 2}))
    assert sorted(got) == [0] and got[0]["error"] == 0 and got[0]["high_watermark"] == 2, got
    assert parts(s.poll()) == {}
    got = parts(s.poll({(topic, 9): 0}))
    assert sorted(got) == [9] and got[9]["error"] == 3, got
    assert sorted(parts(s.poll())) == [9], "an error that lasts is told again"
    assert parts(s.poll(forgotten=[(topic, 9)])) == {}


@test("S7.4 S7.35 an error answers a waiting poll of a session at once")
def error_at_once(c):
    s, topic = opened(c)
    began = time.monotonic()
    got = parts(s.poll({(topic, 1): 99}, max_wait_ms=20000))
    assert got[1]["error"] == 1 and time.monotonic() - began < 5, got


@test("S7.36 a session by ids is not for versions below 13, nor one by names for 13 and above: 106, and it lives on")
def mixed(c):
    for version, other in ((12, 13), (7, 18), (13, 12), (18, 7)):
        s, _ = opened(c, version=version)
        answer = Session(s.conn, other, s.id, s.epoch).poll()
        assert (answer["error"], answer["session_id"], answer["topics"]) == (106, 0, []), (version, other, answer)
        assert s.poll()["error"] == 0
        assert Session(s.conn, other, s.id, s.epoch + 3).poll()["error"] == 71, "the epoch is looked at first"


@test("S7.37 S7.21 under a small max_bytes the partitions take turns; a busy one does not starve the others")
def turns(c):
    conn = c.conn()
    topic = c.topic(partitions=4)
    for p in range(4):
        fill(conn, topic, 30, partition=p, size=2000, per_batch=1)
    s = Session(conn)
    position = dict.fromkeys(range(4), 0)
    seen = []
    wants = {(topic, p): 0 for p in range(4)}
    for _ in range(24):
        answer = s.poll(wants, max_bytes=2500)
        assert len(order(answer)) == 1, order(answer)
        seen += order(answer)
        for p in order(answer):
            position[p] = rb.batches(parts(answer)[p]["records"])[-1].base_offset + 1
        wants = {(topic, p): position[p] for p in order(answer)}
        fill(conn, topic, 5, partition=0, size=2000, per_batch=1)    # the busy one always has more
    assert all(5 <= position[p] <= 7 for p in range(4)), position
    for at in range(1, 21, 4):                                       # Kafka reads the first one of the full fetch first again
        assert sorted(seen[at:at + 4]) == [0, 1, 2, 3] or not c.perigee, seen


@test("S7.37 a partition that got nothing is read first next time, even when its client says nothing new")
def left_behind(c):
    conn = c.conn()
    topic = c.topic(partitions=3)
    s = Session(conn)
    s.poll({(topic, p): 0 for p in range(3)})
    for p in range(3):
        fill(conn, topic, 1, partition=p, size=50_000)
    got = [order(s.poll(max_bytes=1000)) for _ in range(6)]
    assert all(len(o) == 1 for o in got), got
    assert sorted(sum(got[:3], [])) == [0, 1, 2] and got[3:] == got[:3], got


@test("S7.38 max.incremental.fetch.session.cache.slots bounds the sessions; beyond it a full fetch is answered without one", only="perigee")
def slots(c):
    c.broker(max_incremental_fetch_session_cache_slots=4, shards=1)
    conn = c.conn()
    sessions = [opened(c, conn=conn)[0] for _ in range(4)]
    topic = c.topic()
    for _ in range(3):
        extra = Session(conn)
        answer = extra.poll({(topic, 0): 0})
        assert (answer["error"], answer["session_id"]) == (0, 0) and sorted(parts(answer)) == [0], answer
    for s in sessions:
        assert s.poll()["error"] == 0
    Session(conn, 12, sessions[2].id, -1).poll()
    assert Session(conn).poll({(topic, 0): 0})["session_id"] > 0, "a slot is free again"


@test("S7.38 max.incremental.fetch.session.cache.slots=0: no sessions at all, and every full fetch works")
def no_slots(c):
    c.broker(max_incremental_fetch_session_cache_slots=0)
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 2)
    answer = Session(conn).poll({(topic, 0): 0})
    assert answer["session_id"] == 0 and len(parts(answer)[0]["records"]) > 0, answer


@test("S7.39 BR-016 an empty poll of an idle session waits for max_wait_ms, then answers empty")
def waits(c):
    s, _ = opened(c)
    s.poll()
    for min_bytes in (1, 5000):
        began = time.monotonic()
        answer = s.poll(max_wait_ms=400, min_bytes=min_bytes)
        took = time.monotonic() - began
        assert answer["topics"] == [] and answer["error"] == 0 and 0.35 < took < 2, (min_bytes, took, answer)


@test("S7.39 S7.5 a waiting empty poll is woken by an append to any of its partitions, on whichever shard, within 20 ms (median of 20)")
def woken(c):
    other = c.conn()
    s, topic = opened(c, partitions=4)
    took, offsets, wants = [], dict.fromkeys(range(4), 0), {}
    for i in range(20):
        sent = s.send(wants, max_wait_ms=20000)
        other.call("Metadata", 9, topics=[])
        began = time.monotonic()
        fill(other, topic, 1, partition=i % 4)
        got = parts(s.answer(sent))
        took.append(time.monotonic() - began)
        assert sorted(got) == [i % 4] and rb.batches(got[i % 4]["records"])[0].base_offset == offsets[i % 4], got
        offsets[i % 4] += 1
        wants = {(topic, i % 4): offsets[i % 4]}
    assert sorted(took)[10] < (0.02 if c.perigee else 0.2), sorted(took)


@test("S7.4 S7.39 min_bytes counts over all partitions of the session, those not listed included")
def min_bytes(c):
    other = c.conn()
    s, topic = opened(c, partitions=4)
    size = len(rb.batch([(None, b"v0".ljust(1000, b"."))]))
    sent = s.send(max_wait_ms=20000, min_bytes=3 * size + 1)
    for p in range(3):
        fill(other, topic, 1, partition=p, size=1000)
    assert s.conn.silent(0.15), "answered before min_bytes were there"
    began = time.monotonic()
    fill(other, topic, 1, partition=3, size=1000)
    got = parts(s.answer(sent))
    assert sum(len(p["records"]) for p in got.values()) == 4 * size and time.monotonic() - began < 2, got


@test("S7.4 min_bytes not met when time is over: what is there goes out")
def min_bytes_late(c):
    other = c.conn()
    s, topic = opened(c)
    sent = s.send(max_wait_ms=300, min_bytes=1 << 20)
    fill(other, topic, 1, partition=2)
    assert order(s.answer(sent)) == [2]


@test("S7.6 min_bytes 0 or max_wait 0: a poll of a session is answered at once")
def at_once(c):
    s, _ = opened(c)
    began = time.monotonic()
    assert s.poll(min_bytes=0, max_wait_ms=20000)["topics"] == []
    assert s.poll(min_bytes=1, max_wait_ms=0)["topics"] == []
    assert time.monotonic() - began < 5


@test("S7.30 a session outlives its connection: another connection of the same shard goes on with it; of another shard: 70", only="perigee")
def other_connection(c):
    c.broker()
    s, topic = opened(c)
    s.conn.close()
    fill(c.conn(), topic, 1, partition=1)
    codes = []
    for _ in range(2 * c.shards):                                    # connections go round robin over the shards
        answer = Session(c.conn(), 12, s.id, s.epoch).poll()
        codes.append(answer["error"])
        if answer["error"] == 0:
            assert order(answer) == [1], answer
            s.epoch += 1
    assert codes.count(0) == 2 and codes.count(70) == len(codes) - 2, codes


@test("S7.32 while a poll of a session waits, another one with the next epoch gets 71, and closing the session answers the one that waits", only="perigee")
def busy(c):
    c.broker(shards=1)
    s, topic = opened(c)
    s.poll()
    sent = s.send(max_wait_ms=30000)
    other = c.conn()
    other.call("Metadata", 9, topics=[])
    for epoch in (s.epoch, s.epoch + 1):
        assert Session(other, 12, s.id, epoch).poll()["error"] == 71, epoch
    began = time.monotonic()
    assert Session(other, 12, s.id, -1).poll()["error"] == 0
    answer = s.answer(sent)
    assert (answer["error"], answer["topics"]) == (0, []) and time.monotonic() - began < 5, answer
    assert s.poll()["error"] == 70


@test("S7.32 after a restart the session is unknown: 70, then a full fetch opens a new one")
def restart(c):
    broker = c.own()
    topic = c.topic(partitions=2)
    s = Session(c.conn(broker))
    s.poll({(topic, 0): 0, (topic, 1): 0})
    for stop in (broker.kill9, broker.stop):
        stop()
        broker.start()
        c.settled(topic, 2)
        s.conn = c.conn(broker)
        assert s.poll()["error"] == 70
        s = Session(s.conn)
        assert s.poll({(topic, 0): 0, (topic, 1): 0})["session_id"] > 0 and s.poll()["error"] == 0


@test("S7.15 S4.10 a topic deleted under a session by ids: 100, at once for a poll that waits; its new namesake comes in by its id")
def deleted_by_id(c):
    other = c.conn()
    s, topic = opened(c, version=13)
    s.poll()
    sent = s.send(max_wait_ms=30000)
    began = time.monotonic()
    assert other.call("DeleteTopics", 6, topics=[{"name": str(topic)}])["topics"][0]["error"] == 0
    got = parts(s.answer(sent))
    if c.perigee:
        assert time.monotonic() - began < 5 and got and all(p["error"] == 100 for p in got.values()), got
    again = c.topic(partitions=3, name=str(topic))
    assert again.id != topic.id
    fill(other, again, 1, partition=2)
    answer = s.poll({(again, p): 0 for p in range(3)}, forgotten=[(topic, p) for p in range(3)])
    assert order(answer) == [2] and all(p["error"] == 0 for p in parts(answer).values()), answer


@test("S7.35 S3.2 a topic deleted under a session by names: 3, and its new namesake is served when it is there", only="perigee")
def deleted_by_name(c):
    other = c.conn()
    s, topic = opened(c, partitions=1)
    sent = s.send(max_wait_ms=30000)
    assert other.call("DeleteTopics", 6, topics=[{"name": str(topic)}])["topics"][0]["error"] == 0
    assert parts(s.answer(sent))[0]["error"] == 3
    assert parts(s.poll())[0]["error"] == 3
    c.topic(partitions=1, name=str(topic))
    fill(other, topic, 1)
    answer = s.poll(max_wait_ms=5000)
    assert order(answer) == [0] and parts(answer)[0]["error"] == 0, answer


@test("S7.14 a diverging epoch in a session: told without records, and the partition goes on when the client has stepped back")
def diverging(c):
    conn = c.conn()
    s, topic = opened(c, partitions=1, conn=conn)
    fill(conn, topic, 3)
    request = s.request({})
    request["topics"] = [{"name": str(topic), "partitions": [{"partition": 0, "offset": 2, "max_bytes": 1 << 20, "last_fetched_epoch": 1 << 20}]}]
    got = parts(s.answer(conn.send("Fetch", 12, **request)))[0]
    assert got["records"] == b"" and (got["error"] == 1 or got["diverging"]["end_offset"] >= 0), got
    assert order(s.poll({(topic, 0): 0})) == [0]


@test("S7.7 S7.13 errors inside a session are those of a full fetch: 1, 74 or 75")
def epoch_errors(c):
    conn = c.conn()
    s, topic = opened(c, partitions=1, conn=conn)
    for fields, code in (({"leader_epoch": 1 << 20}, 75), ({"offset": 5}, 1)):
        request = s.request({})
        request["topics"] = [{"name": str(topic), "partitions": [{"partition": 0, "offset": 0, "max_bytes": 1 << 20, **fields}]}]
        assert parts(s.answer(conn.send("Fetch", 12, **request)))[0]["error"] == code, fields


@test("S7.2 the first batch of a session's poll comes whole above all limits")
def whole(c):
    conn = c.conn()
    topic = c.topic(partitions=2)
    fill(conn, topic, 1, partition=0, size=200_000)
    fill(conn, topic, 1, partition=1, size=200_000)
    s = Session(conn)
    s.poll({(topic, 0): 1, (topic, 1): 1})
    answer = s.poll({(topic, 0): 0, (topic, 1): 0}, max_bytes=1, part_bytes=1)
    assert len(order(answer)) == 1 and len(rb.batches(parts(answer)[order(answer)[0]]["records"])) == 1, order(answer)


@test("S1.2 S7.33 polls of one session may be pipelined on one connection: each is answered with its epoch, in order")
def pipelined(c):
    conn = c.conn()
    s, topic = opened(c, conn=conn)
    fill(conn, topic, 1, partition=1)
    sent = []
    for _ in range(20):
        sent.append(s.send())
        s.epoch += 1
    s.epoch -= 20
    for correlation in sent:
        answer = s.answer(correlation)
        assert answer["error"] == 0 and order(answer) == [1], answer


@test("S1.5 BR-016 clients that vanish with a poll of their session parked leave nothing behind", only="perigee")
def vanish(c):
    from raw.wire import Conn
    broker = c.broker(max_incremental_fetch_session_cache_slots=5000)
    topic = c.topic(partitions=4)
    fds = broker.fd_count()
    held = []
    for _ in range(200):
        conn = Conn(broker.addr)
        s = Session(conn)
        s.poll({(topic, p): 0 for p in range(4)})
        s.send(max_wait_ms=60000)
        held.append(conn)
    for i, conn in enumerate(held):
        conn.reset() if i % 2 else conn.close()
    fill(c.conn(), topic, 1, partition=1)
    deadline = time.monotonic() + 10
    while broker.fd_count() > fds + 20 and time.monotonic() < deadline:
        c.conn().call("Metadata", 9, topics=[])
    assert broker.fd_count() <= fds + 30
    s = Session(c.conn())
    assert order(s.poll({(topic, p): 0 for p in range(4)})) == [1]


@test("the broker stops within seconds while sessions exist and polls of them wait", only="perigee")
def stops(c):
    broker = c.own()
    topic = c.topic(partitions=4)
    waiting = []
    for _ in range(8):
        s = Session(c.conn(broker))
        s.poll({(topic, p): 0 for p in range(4)})
        s.poll()
        waiting.append((s, s.send(max_wait_ms=60000)))
    idle = Session(c.conn(broker))
    idle.poll({(topic, p): 0 for p in range(4)})
    idle.poll()
    status, took = broker.stop()
    assert status == 0 and took < 5, (status, took)
    for s, sent in waiting:
        assert s.answer(sent)["topics"] == []


def idle_cost_over(c, seconds, limit_s):
    broker = c.own()
    topic = c.topic(partitions=5000)
    conn, other = c.conn(broker), c.conn(broker)
    s = Session(conn)
    s.poll({(topic, p): 0 for p in range(5000)})
    s.poll()
    cpu, began = broker.cpu_seconds(), time.monotonic()
    while time.monotonic() - began < seconds:
        answer = s.poll(max_wait_ms=500)
        assert answer["topics"] == []
    used, took = broker.cpu_seconds() - cpu, time.monotonic() - began
    print(f"# idle session of 5,000 partitions: {100 * used / took:.2f} % of a core over {took:.1f} s")
    assert used <= limit_s, used                                     # one clock tick is 0.01 s
    sent = s.send(max_wait_ms=20000)
    fill(other, topic, 1, partition=4711)
    assert order(s.answer(sent)) == [4711]


@test("BR-016 an idle session of 5,000 partitions that is polled twice a second costs the broker nearly nothing, and one append is found at once", only="perigee")
def idle_cost(c):
    idle_cost_over(c, 3, 0.03)


@test("BR-016 the same over a minute: at most 0.1 % of a core", only="perigee", full=True)
def idle_cost_minute(c):
    idle_cost_over(c, 60, 0.06)



# ---- stock clients ----

@test("S7.34 S7.32 a Java consumer of 40 partitions that pauses and resumes them at every poll reads each record once, over a kill -9 of the broker (70, then a full fetch)")
def java_sessions(c):
    tools.need("java", "mvn")
    broker = c.own()
    topic, conn = c.topic(partitions=40), c.conn(broker)
    for p in range(40):
        fill(conn, topic, 100, partition=p, size=400, per_batch=5)
    program = subprocess.Popen(brokers.java() + ["Sessions", broker.addr, str(topic), "40", "4000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert program.stdout.readline() == "half\n", program.stderr.read()[-1500:]
        broker.kill9()
        broker.start()
        line = program.stdout.readline()
        assert line.startswith("done "), line + program.stderr.read()[-1500:]
        print(f"# 4,000 records of 40 partitions in {line.split()[1]} fetches")
    finally:
        program.kill()
        program.communicate()
