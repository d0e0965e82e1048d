"""Fetch: semantics 7, T46, T63, BR-004, BR-012, BR-013, BR-016, BR-017."""
import time

from raw import batch as rb
from raw.harness import fetch, fetch_request, fill, list_offset, produce, test

VERSIONS = (4, 5, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17, 18)


@test("S7.1 a fetch inside a batch returns the batch that contains the offset")
def inside(c):
    conn, topic = c.conn(), c.topic()
    for _ in range(4):
        fill(conn, topic, 5)
    for offset in range(20):
        first = rb.batches(fetch(conn, topic, offset)["records"])[0]
        assert first.base_offset == offset // 5 * 5, offset


@test("S7.2 BR-017 the first batch comes whole whatever the limits; later ones respect them")
def limits(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 10, size=50_000, per_batch=1)
    for limit in ({"max_bytes": 1}, {"part_bytes": 1}, {"max_bytes": 1000, "part_bytes": 1000}, {"max_bytes": 0, "part_bytes": 0}):
        got = rb.batches(fetch(conn, topic, 3, **limit)["records"])
        assert len(got) == 1 and got[0].base_offset == 3, (limit, got)
    got = fetch(conn, topic, 0, part_bytes=170_000)["records"]
    assert len(rb.batches(got)) == 3 and len(got) <= 170_000, len(got)


@test("BR-017 a 5 MB message reaches a consumer with fetch.max.bytes=1000")
def large_message(c):
    topic, conn = c.topic(max_message_bytes=6_000_000), c.conn()
    assert produce(conn, topic, rb.batch([(None, b"L" * 5_000_000)]))["error"] == 0
    got = rb.batches(fetch(conn, topic, 0, max_bytes=1000, part_bytes=1000)["records"])
    assert got[0].records()[0][3] == b"L" * 5_000_000


@test("S7.2 S7.21 max_bytes over several partitions: one batch at least, the total bounded, every partition gets its turn")
def total_limit(c):
    conn, topic = c.conn(), c.topic(partitions=4)
    for p in range(4):
        fill(conn, topic, 4, partition=p, size=30_000, per_batch=1)
    position, rounds = dict.fromkeys(range(4), 0), 0
    while any(v < 4 for v in position.values()):
        parts = [{"partition": p, "offset": o, "max_bytes": 1 << 20} for p, o in position.items()]
        parts = parts[rounds % 4:] + parts[:rounds % 4]
        answer = conn.call("Fetch", 12, min_bytes=1, max_bytes=65_000, topics=[{"name": topic, "partitions": parts}])
        size = 0
        for part in answer["topics"][0]["partitions"]:
            size += len(part["records"])
            position[part["partition"]] += len(rb.batches(part["records"]))
        assert size <= 65_000 + 30_100, size
        rounds += 1
        assert rounds < 40, position


@test("S7.3 MaxBytes is capped by the broker's fetch.max.bytes", only="perigee")
def broker_cap(c):
    c.broker(fetch_max_bytes=100_000)
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 10, size=30_000, per_batch=1)
    assert len(fetch(conn, topic, 0)["records"]) <= 100_000


@test("S7.4 S7.6 min_bytes 0 or max_wait 0 answers at once, with or without data")
def at_once(c):
    conn, topic = c.conn(), c.topic()
    began = time.monotonic()
    assert fetch(conn, topic, 0, min_bytes=0, max_wait_ms=10000)["records"] == b""
    assert fetch(conn, topic, 0, min_bytes=1, max_wait_ms=0)["records"] == b""
    assert conn.call("Fetch", 12, min_bytes=1, max_wait_ms=10000, topics=[])["topics"] == []
    assert time.monotonic() - began < 2


@test("S7.4 S7.6 an empty topic is waited for: about max_wait_ms, then an empty answer without error")
def waits(c):
    conn, topic = c.conn(), c.topic()
    began = time.monotonic()
    part = fetch(conn, topic, 0, max_wait_ms=400)
    took = time.monotonic() - began
    assert part["error"] == 0 and part["records"] == b"" and 0.35 < took < 1.5, took


@test("S7.4 min_bytes is met over several partitions (with two shards: over both)")
def min_bytes_sum(c):
    conn, waiting, topic = c.conn(), c.conn(), c.topic(partitions=4)
    size = len(rb.batch([(None, b"x" * 1000)]))
    request = {"max_wait_ms": 15000, "min_bytes": 3 * size + 1, "topics": [{"name": topic, "partitions": [
        {"partition": p, "offset": 0} for p in range(4)]}]}
    sent = waiting.send("Fetch", 12, **request)
    for p in range(3):
        produce(conn, topic, rb.batch([(None, b"x" * 1000)]), partition=p)
    assert waiting.silent(0.15), "answered before min_bytes were there"
    began = time.monotonic()
    produce(conn, topic, rb.batch([(None, b"x" * 1000)]), partition=3)
    parts = waiting.recv("Fetch", 12, sent)["topics"][0]["partitions"]
    assert sum(len(p["records"]) for p in parts) == 4 * size and time.monotonic() - began < 1


@test("S7.4 S7.5 a parked fetch is woken by the append, within 20 ms (median of 20)")
def wake(c):
    conn, waiting, topic = c.conn(), c.conn(), c.topic()
    took = []
    for i in range(20):
        sent = waiting.send("Fetch", 12, **fetch_request(topic, i, max_wait_ms=10000))
        conn.call("Metadata", 9, topics=[])
        began = time.monotonic()
        fill(conn, topic, 1)
        part = waiting.recv("Fetch", 12, sent)["topics"][0]["partitions"][0]
        took.append(time.monotonic() - began)
        assert rb.batches(part["records"])[0].base_offset == i
    assert sorted(took)[10] < (0.02 if c.perigee else 0.2), sorted(took)


@test("S7.4 an error on any partition answers at once, the others with their data")
def error_at_once(c):
    conn, topic = c.conn(), c.topic(partitions=2)
    fill(conn, topic, 1)
    began = time.monotonic()
    answer = conn.call("Fetch", 12, min_bytes=1 << 20, max_wait_ms=10000, topics=[
        {"name": topic, "partitions": [{"partition": 0, "offset": 0}, {"partition": 1, "offset": 99}, {"partition": 7, "offset": 0}]},
        {"name": "no-such", "partitions": [{"partition": 0, "offset": 0}]}])
    assert time.monotonic() - began < 2
    got = {(t["name"], p["partition"]): p["error"] for t in answer["topics"] for p in t["partitions"]}
    assert got == {(topic, 0): 0, (topic, 1): 1, (topic, 7): 3, ("no-such", 0): 3}, got


@test("T46 S7.7 out of range only outside [log start, log end]; the log end itself is empty without error, in every version")
def range_(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    for version in VERSIONS:
        assert fetch(conn, topic, 3, version=version)["error"] == 0, version
        for offset in (4, 1 << 40, -1, -5):
            assert fetch(conn, topic, offset, version=version)["error"] == 1, (version, offset)


@test("BR-004 S7.8 S7.9 with an error the record set is empty, never null, and the high watermark -1; in every version")
def no_null(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    for version in VERSIONS:
        part = fetch(conn, topic, 999, version=version)
        assert part["error"] == 1 and part["records"] == b"" and part["high_watermark"] == -1, (version, part)
        empty = fetch(conn, topic, 3, version=version)
        assert empty["records"] == b"" and empty["high_watermark"] == 3 and empty["last_stable"] == 3, (version, empty)
        if version >= 5:
            assert empty["log_start"] == 0, (version, empty)


@test("S7.10 aborted transactions: null for read_uncommitted, an empty array for read_committed")
def aborted_list(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 2)
    assert fetch(conn, topic, 0)["aborted"] is None
    part = fetch(conn, topic, 0, isolation=1)
    assert part["aborted"] == [] and len(rb.batches(part["records"])) == 1, part


@test("S7.13 BR-012 the current leader epoch is checked: older 74, newer 75, -1 and equal pass")
def leader_epoch(c):
    broker = c.own()
    topic = c.topic()
    broker.kill9()                                   # a restart may raise the epoch: then an older one exists
    broker.start()
    conn = c.conn(broker)
    fill(conn, topic, 1)
    epoch = conn.call("Metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"][0]["leader_epoch"]
    assert epoch >= 0
    for version in (9, 11, 12, 16):
        for asked, code in ((-1, 0), (epoch, 0), (epoch + 1, 75)) + (((epoch - 1, 74),) if epoch else ()):
            t = topic
            assert fetch(conn, t, 0, version=version if version < 13 else 13, leader_epoch=asked)["error"] == code, (version, asked)


@test("S7.14 LastFetchedEpoch that the log does not know, or beyond its end: error 1 or a diverging epoch, never data")
def diverging(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    epoch = rb.batches(fetch(conn, topic, 0)["records"])[0].leader_epoch
    same = fetch(conn, topic, 3, last_fetched_epoch=epoch)
    assert same["error"] == 0 and same["diverging"]["end_offset"] == -1, same
    other = fetch(conn, topic, 2, last_fetched_epoch=epoch + 5)
    assert other["records"] == b"" and (other["error"] == 1 or other["diverging"]["end_offset"] >= 0), other


@test("S7.15 Fetch v13+ by topic id; an unknown id: 100")
def by_id(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 2)
    for version in range(13, 19):
        part = fetch(conn, topic, 0, version=version)
        assert part["error"] == 0 and rb.batches(part["records"])[0].count == 2, version
    stranger = type(topic)("x")
    stranger.id = bytes(range(16))
    assert fetch(conn, stranger, 0, version=13)["error"] == 100


@test("S7.17 the preferred read replica is -1")
def preferred(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 1)
    assert fetch(conn, topic, 0, version=12, rack="r1")["preferred_replica"] == -1


@test("S7.20 a partition listed twice appears once in the answer, read from the last entry")
def listed_twice(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 4, per_batch=1)
    answer = conn.call("Fetch", 12, min_bytes=1, topics=[{"name": topic, "partitions": [
        {"partition": 0, "offset": 0}, {"partition": 0, "offset": 2}]}])
    parts = [p for t in answer["topics"] for p in t["partitions"]]
    assert len(parts) == 1 and rb.batches(parts[0]["records"])[0].base_offset == 2, parts


@test("S7.30 S7.31 a full fetch without session (epoch -1), and one that offers a session, both work")
def sessions(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 2)
    assert conn.call("Fetch", 12, session_epoch=-1, **fetch_request(topic, 0))["session_id"] == 0
    answer = conn.call("Fetch", 12, session_id=0, session_epoch=0, **fetch_request(topic, 0))
    assert answer["error"] == 0 and rb.batches(answer["topics"][0]["partitions"][0]["records"])
    assert answer["session_id"] > 0, answer


@test("S7.32 an unknown session id: top-level error 70 without partitions, session id 0")
def unknown_session(c):
    conn, topic = c.conn(), c.topic()
    for version in (7, 12, 17):
        answer = conn.call("Fetch", version, session_id=123456789, session_epoch=3, topics=[])
        assert (answer["error"], answer["session_id"], answer["topics"]) == (70, 0, []), answer
    assert fetch(conn, topic, 0)["error"] == 0


@test("BR-016 S7.39 an idle consumer that polls with max_wait 500 gets about two answers a second, and the broker rests")
def idle(c):
    broker = c.broker()
    conn, topic = c.conn(), c.topic()
    cpu, began, polls = broker.cpu_seconds(), time.monotonic(), 0
    while time.monotonic() - began < 2.2:
        fetch(conn, topic, 0, max_wait_ms=500)
        polls += 1
    assert 3 <= polls <= 6, polls
    if c.perigee:
        assert broker.cpu_seconds() - cpu < 0.1


@test("T46 BR-013 right after kill -9 and restart an idle position at the log end is never out of range, twenty times")
def after_restart(c):
    broker = c.own()
    topic = c.topic()
    end = 0
    for round_ in range(20 if c.perigee else 3):
        conn = c.conn(broker)
        fill(conn, topic, 3)
        end += 3
        broker.kill9()
        broker.start()
        conn = c.conn(broker)
        first = fetch(conn, topic, end)
        while first["error"] in (5, 6, 3) and not c.perigee:
            first = fetch(conn, topic, end)
        assert first["error"] == 0 and first["records"] == b"", (round_, first)
        assert list_offset(conn, topic, -1)["offset"] == end, round_


@test("1,000 parked fetches whose clients disconnect: nothing leaks, the broker serves on")
def parked_disconnect(c):
    from raw.wire import Conn
    broker, topic = c.broker(), c.topic()
    fds = broker.fd_count()
    held = []
    for _ in range(1000):
        conn = Conn(broker.addr)
        conn.send("Fetch", 12, **fetch_request(topic, 0, max_wait_ms=60000))
        held.append(conn)
    for i, conn in enumerate(held):
        conn.reset() if i % 2 else conn.close()
    assert fill(c.conn(), topic, 1) == 0
    deadline = time.monotonic() + 10
    while broker.fd_count() > fds + 20 and time.monotonic() < deadline:
        c.conn().call("Metadata", 9, topics=[])
    assert broker.fd_count() <= fds + 20 + 10, (broker.fd_count(), fds)
    if c.perigee:
        assert broker.rss_peak_kib() <= 64 * 1024
