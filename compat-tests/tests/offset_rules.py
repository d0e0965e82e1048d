"""ListOffsets and OffsetForLeaderEpoch: semantics 8 and 4.20, BR-010, BR-011, BR-012."""
from raw import batch as rb
from raw.harness import fetch, fill, list_offset, produce, test

T = rb.T0


def put(c, conn, topic, times, together, codec=0):
    items = [(None, b"v%d" % t, T + t) for t in times]
    for part in [items] if together else [[x] for x in items]:
        assert produce(conn, topic, rb.batch(part, codec=codec))["error"] == 0


def look_up(conn, topic, t, version=7):
    a = list_offset(conn, topic, T + t, version=version)
    assert a["error"] == 0, a
    return a["offset"], a["timestamp"] - T if a["timestamp"] != -1 else -1


@test("BR-010 S8.6 look-up by time finds the record inside the batch: 2,3,4,5,8 over 2,4,6,8 give 0,1,1,2,3; every codec, one batch or four")
def by_time(c):
    conn = c.conn()
    for codec in range(5):
        for together in (True, False):
            topic = c.topic()
            put(c, conn, topic, (2, 4, 6, 8), together, codec)
            got = [look_up(conn, topic, t) for t in (1, 2, 3, 4, 5, 8, 9)]
            assert got == [(0, 2), (0, 2), (1, 4), (1, 4), (2, 6), (3, 8), (-1, -1)], (codec, together, got)


@test("BR-010 S8.6 out-of-order timestamps: the first record by offset whose time is not below, scanning on; many batches")
def out_of_order(c):
    conn = c.conn()
    times = [50, 10, 90, 20, 70, 30, 100, 60, 5, 80]
    for together in (True, False):
        for codec in (0, 3):
            topic = c.topic()
            put(c, conn, topic, times, together, codec)
            for t in (1, 11, 51, 60, 71, 91, 100, 101):
                want = next(((i, x) for i, x in enumerate(times) if x >= t), (-1, -1))
                assert look_up(conn, topic, t) == want, (together, codec, t, look_up(conn, topic, t))


@test("BR-010 S8.6 look-up over many segments and index entries")
def many_segments(c):
    topic, conn = c.topic(segment_bytes=1_048_576, index_interval_bytes=4096), c.conn()
    for i in range(0, 3000, 10):
        assert produce(conn, topic, rb.batch([(None, b"." * 1000, T + (i + k) * 10) for k in range(10)]))["error"] == 0
    for i in (0, 1, 999, 1000, 1055, 1999, 2500, 2999):
        assert look_up(conn, topic, i * 10) == (i, i * 10)
        assert look_up(conn, topic, i * 10 - 9) == (i, i * 10)
    assert look_up(conn, topic, 30_000) == (-1, -1)


@test("BR-011 S8.6 nothing at or after the time: offset -1, timestamp -1, error 0; also on an empty topic; v1 to v11")
def nothing_found(c):
    conn, topic, empty = c.conn(), c.topic(), c.topic()
    put(c, conn, topic, (2, 4), True)
    for version in range(1, 12):
        for t in (topic, empty):
            a = list_offset(conn, t, T + 3_600_000, version=version)
            assert (a["error"], a["offset"], a["timestamp"]) == (0, -1, -1), (version, a)


@test("S8.1 S8.2 latest and earliest: offsets, timestamp -1, the current leader epoch (v4+), both isolations")
def ends(c):
    conn, topic = c.conn(), c.topic()
    for n in (0, 5):
        if n:
            fill(conn, topic, n)
        for version in range(1, 12):
            for isolation in (0, 1):
                more = {"isolation": isolation} if version >= 2 else {}
                late = list_offset(conn, topic, -1, version=version, **more)
                early = list_offset(conn, topic, -2, version=version, **more)
                assert (late["error"], late["offset"], late["timestamp"]) == (0, n, -1), (version, late)
                assert (early["error"], early["offset"], early["timestamp"]) == (0, 0, -1), (version, early)
                if version >= 4 and n:
                    assert late["leader_epoch"] >= 0, late


@test("S8.3 -3 gives the first record that carries the largest timestamp; -1/-1 on an empty log")
def max_timestamp(c):
    conn = c.conn()
    empty = list_offset(conn, c.topic(), -3)
    assert (empty["error"], empty["offset"], empty["timestamp"]) == (0, -1, -1), empty
    for together in (True, False):
        for codec in (0, 4):
            topic = c.topic()
            put(c, conn, topic, (5, 90, 20, 90, 30), together, codec)
            a = list_offset(conn, topic, -3)
            assert (a["error"], a["offset"], a["timestamp"] - T) == (0, 1, 90), (together, codec, a)


@test("S8.3 S4.17 -3 when records were deleted up to the middle of a batch: the largest timestamp of what is left")
def max_timestamp_trimmed(c):
    conn = c.conn()
    for codec in (0, 4):
        topic = c.topic()
        put(c, conn, topic, (90, 20, 70, 30), True, codec)
        put(c, conn, topic, (40, 60), True, codec)
        for to, offset, found in ((1, 2, 70), (3, 5, 60), (5, 5, 60)):
            answer = conn.call("DeleteRecords", 2, topics=[{"name": topic, "partitions": [{"partition": 0, "offset": to}]}])
            assert answer["topics"][0]["partitions"][0]["error"] == 0, answer
            a = list_offset(conn, topic, -3)
            if c.perigee or a["offset"] >= to:       # Kafka 4.3 may name a record that is deleted
                assert (a["error"], a["offset"], a["timestamp"] - T) == (0, offset, found), (codec, to, a)


@test("S8.4 -4, -5, -6 without tiering: the log start, and -1")
def tiers(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    a = list_offset(conn, topic, -4, version=8)
    assert (a["error"], a["offset"]) == (0, 0), a
    for special, version in ((-5, 9), (-6, 11)):
        a = list_offset(conn, topic, special, version=version)
        assert (a["error"], a["offset"]) == (0, -1), a


@test("S8.5 special timestamps below their version, and unknown ones: error 35 for the partition")
def special_versions(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    for special, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11), (-100, 7)):
        a = list_offset(conn, topic, special, version=version)
        assert a["error"] == 35 or (not c.perigee and a["error"] in (0, 42)), (special, version, a)


@test("S8.7 ListOffsets v0 answers old style lists", only="perigee")
def old_style(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 3)
    assert list_offset(conn, topic, -1, version=0)["old_offsets"] == [3]
    assert list_offset(conn, topic, -2, version=0)["old_offsets"] == [0]


@test("S8.8 the same partition twice: error 42 for it")
def partition_twice(c):
    conn, topic = c.conn(), c.topic()
    answer = conn.call("ListOffsets", 7, topics=[{"name": topic, "partitions": [
        {"partition": 0, "timestamp": -1}, {"partition": 0, "timestamp": -2}]}])
    codes = [p["error"] for t in answer["topics"] for p in t["partitions"]]
    assert codes and set(codes) == {42}, answer


@test("S8.10 BR-012 the current leader epoch is checked: newer 75, -1 and equal pass; unknown topic 3")
def epoch_checked(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 1)
    epoch = list_offset(conn, topic, -1)["leader_epoch"]
    for asked, code in ((-1, 0), (epoch, 0), (epoch + 1, 75)):
        assert list_offset(conn, topic, -1, leader_epoch=asked)["error"] == code, asked
    assert list_offset(conn, "no-such", -1)["error"] == 3
    assert list_offset(conn, topic, -1, partition=5)["error"] == 3


def ask_epoch(conn, topic, epoch, current=-1, version=3):
    answer = conn.call("OffsetForLeaderEpoch", version, topics=[{"name": topic, "partitions": [
        {"partition": 0, "epoch": epoch, "current_epoch": current}]}])
    p = answer["topics"][0]["partitions"][0]
    return p["error"], p["epoch"], p["end_offset"]


@test("BR-012 S4.20 S3.9 OffsetForLeaderEpoch: current, unknown, -1; one epoch in metadata, batches, ListOffsets; it only grows over kill -9")
def leader_epochs(c):
    broker = c.own()
    topic = c.topic()
    history = []                                     # (epoch, its start offset)
    for _ in range(3):
        conn = c.conn(broker)
        first = fill(conn, topic, 4)
        epoch = conn.call("Metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"][0]["leader_epoch"]
        assert list_offset(conn, topic, -1)["leader_epoch"] == epoch
        assert rb.batches(fetch(conn, topic, first)["records"])[0].leader_epoch == epoch
        assert not history or epoch >= history[-1][0], (history, epoch)
        if not history or epoch > history[-1][0]:
            history.append((epoch, first))
        broker.kill9()
        broker.start()
    conn = c.conn(broker)
    fill(conn, topic, 1)
    now = conn.call("Metadata", 9, topics=[{"name": topic}])["topics"][0]["partitions"][0]["leader_epoch"]
    for version in (2, 3, 4):
        assert ask_epoch(conn, topic, now, version=version) == (0, now, 13)
        assert ask_epoch(conn, topic, now + 5, version=version) == (0, -1, -1)
        assert ask_epoch(conn, topic, -1, version=version) == (0, -1, -1)
        assert ask_epoch(conn, topic, now, current=now, version=version)[0] == 0
        assert ask_epoch(conn, topic, now, current=now + 1, version=version)[0] == 75
        assert ask_epoch(conn, "no-such", 0, version=version)[0] == 3
        known = history + ([(now, 12)] if now > history[-1][0] else [])
        for (epoch, _), (_, start) in zip(known, known[1:]):
            assert ask_epoch(conn, topic, epoch, version=version) == (0, epoch, start), (epoch, start, known)


@test("S4.20 on an empty log the current epoch answers end 0 or unknown, never an error")
def epoch_empty(c):
    conn, topic = c.conn(), c.topic()
    error, epoch, end = ask_epoch(conn, topic, 0)
    assert error == 0 and (epoch, end) in ((0, 0), (-1, -1)), (epoch, end)
