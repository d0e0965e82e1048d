"""Produce: semantics 5, T54, T55, T63, BR-009, BR-052."""
import struct
import time

from raw import batch as rb
from raw.harness import fetch, fill, list_offset, producer_id, produce, read_all, test
from raw.wire import Conn

HOUR_MS = 3_600_000


def refused(c, topic, data, codes, version=9, conn=None):
    """The batch is refused with one of these codes, and nothing was stored."""
    conn = conn or c.conn()
    before = list_offset(conn, topic, -1)["offset"]
    answer = produce(conn, topic, data, version=version)
    assert answer["error"] in codes, f"error {answer['error']}, expected {codes}: {answer}"
    assert answer["base_offset"] == -1, answer
    assert list_offset(conn, topic, -1)["offset"] == before, "something was stored"
    return answer


@test("S5.1 acks outside -1, 0, 1: error 21, nothing appended")
def bad_acks(c):
    conn, topic = c.conn(), c.topic()
    for acks in (2, -2, 127, -32768):
        answer = produce(conn, topic, rb.batch(rb.values("a", 1)), acks=acks)
        assert answer["error"] == 21, (acks, answer)
    assert fill(conn, topic, 1) == 0


@test("S5.2 S5.26 no batch, two batches, null records or another magic: error 87")
def one_batch(c):
    topic = c.topic()
    one = rb.batch(rb.values("a", 1))
    for data in (one + one, b""):
        refused(c, topic, data, {87})
    if c.perigee:
        refused(c, topic, None, {87})                # Kafka 4.3 never answers null records
    for magic in (0, 1, 3, 127):
        try:
            refused(c, topic, rb.batch(rb.values("a", 1), magic=magic), {87, 2, 35, 43}, conn=c.conn())
        except EOFError:
            assert not c.perigee, "perigee answers"   # Kafka may close on magics that its parser does not know


@test("S5.3 zstd below Produce v7: error 76; from v7 accepted")
def zstd_version(c):
    topic = c.topic()
    refused(c, topic, rb.batch(rb.values("z", 3), codec=rb.ZSTD), {76}, version=6)
    assert produce(c.conn(), topic, rb.batch(rb.values("z", 3), codec=rb.ZSTD), version=7)["error"] == 0


@test("S5.4 T54 a base offset other than 0: error 87")
def base_offset(c):
    topic = c.topic()
    for offset in (1, -1, 1 << 40):
        refused(c, topic, rb.batch(rb.values("a", 2), base_offset=offset), {87})


@test("S5.5 BR-009 T54 counts and deltas that lie, control bit, producer id without sequence: error 87 (or 2), never stored")
def lying_header(c):
    topic = c.topic()
    three = rb.values("a", 3)
    for lies in ({"count": 2}, {"count": 4}, {"count": 0}, {"count": -1}, {"count": 2**31 - 1}, {"last_delta": 0}, {"last_delta": 3},
                 {"last_delta": -1}, {"attributes": 0x20}, {"pid": 7, "epoch": 0, "seq": -1}, {"count": 0, "last_delta": -1}):
        refused(c, topic, rb.batch(three, **lies), {87, 2})


@test("T54 BR-009 inner lengths and varints that lie in an uncompressed batch: never stored")
def lying_records(c):
    topic = c.topic()
    good = rb.body_of(rb.values("a", 3), rb.T0)
    bodies = {
        "cut": good[:-2], "tail": good + b"xx", "length too big": b"\x7e" + good[1:], "length negative": b"\x01" + good[1:],
        "length zero": b"\0" + good[1:], "five byte length": b"\xff\xff\xff\xff\x0f" + good[1:],
        "endless varint": b"\xff" * 12 + good, "value beyond": good.replace(b"\x04a0", b"\x7ea0"),
        "delta gap": rb.record(0, 0, None, b"x") + rb.record(2, 0, None, b"x") + rb.record(3, 0, None, b"x"),
        "delta twice": rb.record(0, 0, None, b"x") + rb.record(0, 0, None, b"x") + rb.record(1, 0, None, b"x"),
        "delta negative": rb.record(-1, 0, None, b"x") + rb.record(1, 0, None, b"x") + rb.record(2, 0, None, b"x"),
        "empty": b"", "two only": rb.body_of(rb.values("a", 2), rb.T0),
    }
    for name, body in bodies.items():
        if "delta" in name and not c.perigee:
            continue                                 # Kafka stores such a batch; perigee refuses it (T54)
        conn = Conn(c.broker().addr)
        before = list_offset(conn, topic, -1)["offset"]
        answer = produce(conn, topic, rb.batch(rb.values("a", 3), body=body))
        conn.close()
        assert answer["error"] not in (0,), (name, answer)
        assert answer["error"] in (87, 2, -1), (name, answer)
        assert list_offset(c.conn(), topic, -1)["offset"] == before, name
        if c.perigee:
            assert answer["error"] in (87, 2), (name, answer)


@test("S5.6 producer id -1 with epoch 0 and sequence 0 (kafkajs) is not idempotent: repeats are stored")
def kafkajs_batch(c):
    conn, topic = c.conn(), c.topic()
    data = rb.batch(rb.values("a", 1), pid=-1, epoch=0, seq=0)
    assert [produce(conn, topic, data)["base_offset"] for _ in range(3)] == [0, 1, 2]


@test("S5.7 BR-009 a flipped byte under the CRC, a wrong CRC, a batch shorter than its header: error 2, no offset consumed")
def corrupt(c):
    topic = c.topic()
    good = rb.batch(rb.values("a", 3))
    for at in (21, 23, 40, 57, 61, len(good) - 1):
        bad = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:]
        refused(c, topic, bad, {2})
    refused(c, topic, rb.batch(rb.values("a", 1), crc=0), {2})
    assert fill(c.conn(), topic, 1) == 0


@test("S5.7 T54 batch lengths that do not match the bytes: refused, nothing stored")
def batch_length(c):
    topic = c.topic()
    real = len(rb.batch(rb.values("a", 1))) - 12
    for length in (0, -1, 13, 48, real - 1, real + 1, 2**31 - 1, -2**31):
        try:
            refused(c, topic, rb.batch(rb.values("a", 1), length=length), {2, 87} if c.perigee else {2, 87, -1}, conn=c.conn())
        except EOFError:
            assert not c.perigee, f"length {length}: perigee answers"


@test("S5.19 a timeout of 0, of a millisecond or below 0 is about other replicas: what is stored and synced is answered as such")
def short_timeout(c):
    conn, topic = c.conn(), c.topic()
    for n, timeout_ms in enumerate((0, 1, -5, -2147483648) * 4):
        assert produce(conn, topic, rb.batch(rb.values("a", 1)), timeout_ms=timeout_ms)["base_offset"] == n


@test("S5.8 BR-052 max.message.bytes bounds the batch as stored: 10 for that partition only, its neighbours succeed")
def too_large(c):
    topic, other = c.topic(max_message_bytes=100_000), c.topic()
    conn = c.conn()
    big = rb.batch([(None, b"x" * 110_000)])
    assert produce(conn, topic, rb.batch([(None, b"x" * 90_000)]))["error"] == 0
    refused(c, topic, big, {10})
    answer = conn.call("Produce", 9, acks=-1, topics=[
        {"name": topic, "partitions": [{"index": 0, "records": big}]},
        {"name": other, "partitions": [{"index": 0, "records": big}]}])
    codes = {t["name"]: t["partitions"][0]["error"] for t in answer["topics"]}
    assert codes == {topic: 10, other: 0}, codes
    # 500 kB of zeros fit once compressed: the limit is on the stored size
    assert produce(conn, topic, rb.batch([(None, bytes(500_000))], codec=rb.ZSTD))["error"] == 0


@test("S5.8 the default limit is 1048588 bytes for the whole batch, to the byte")
def default_limit(c):
    topic = c.topic()
    overhead = len(rb.batch([(None, bytes(1_000_000))])) - 1_000_000
    fits = rb.batch([(None, bytes(1_048_588 - overhead))])
    assert len(fits) == 1_048_588
    assert produce(c.conn(), topic, fits)["error"] == 0
    refused(c, topic, rb.batch([(None, bytes(1_048_589 - overhead))]), {10})


@test("S5.8 a batch above segment.bytes: error 18 (or 10 where the message limit is met first)")
def above_segment(c):
    topic = c.topic(segment_bytes=1_048_576, max_message_bytes=4_000_000)
    refused(c, topic, rb.batch([(None, bytes(1_200_000))]), {18})
    assert fill(c.conn(), topic, 5, size=300_000, per_batch=1) == 0


@test("BR-052 a frame above socket.request.max.bytes: closed, the others unharmed")
def oversize_frame(c):
    c.broker(socket_request_max_bytes=200_000)
    topic = c.topic()
    conn = c.conn()
    assert produce(conn, topic, rb.batch([(None, bytes(150_000))]))["error"] == 0
    conn.raw(struct.pack(">i", 200_001) + bytes(1000))
    assert conn.closed(5)
    assert fill(c.conn(), topic, 1) == 1


@test("S5.9 I16 consecutive offsets; only base offset and leader epoch are rewritten, for every codec")
def bytes_kept(c):
    conn, topic = c.conn(), c.topic()
    sent, at = [], 0
    for codec in range(5):
        for n in (1, 7):
            data = rb.batch([(f"k{i}".encode(), bytes(range(i, 200))) for i in range(n)], codec=codec)
            assert produce(conn, topic, data)["base_offset"] == at
            sent.append((at, data))
            at += n
    got = rb.batches(fetch(conn, topic, 0)["records"])
    assert [(b.base_offset, b.data[16:]) for b in got] == [(o, d[16:]) for o, d in sent]
    assert all(b.good_crc and b.leader_epoch >= 0 for b in got)


@test("S5.17 S7.12 BR-002 gzip, snappy (raw and xerial), lz4 and zstd batches are stored as sent and come back with their codec")
def codecs(c):
    conn, topic = c.conn(), c.topic()
    items = [(b"key%d" % i, b"value %d" % i * 20) for i in range(50)]
    xerial = rb.compress(rb.SNAPPY, rb.body_of(items, rb.T0))
    xerial = b"\x82SNAPPY\0" + struct.pack(">iii", 1, 1, len(xerial)) + xerial
    framed = rb.batch(items, body=xerial, attributes=rb.SNAPPY)
    for data in [rb.batch(items, codec=codec) for codec in range(5)] + [framed]:
        assert produce(conn, topic, data)["error"] == 0
    got = rb.batches(fetch(conn, topic, 0)["records"])
    assert [b.codec for b in got] == [0, 1, 2, 3, 4, 2]
    for b in got:
        assert [(k, v) for _, _, k, v in b.records()] == items


@test("S7.12 a topic with compression.type=zstd: Fetch below v10 gets error 76", only="perigee")
def zstd_topic(c):                                   # Kafka 4.3 no longer checks
    conn, topic = c.conn(), c.topic(compression_type="zstd")
    assert produce(conn, topic, rb.batch(rb.values("z", 2), codec=rb.ZSTD))["error"] == 0
    old = fetch(conn, topic, 0, version=9)
    assert old["error"] == 76, old
    assert fetch(conn, topic, 0, version=10)["error"] == 0


@test("S5.12 message.timestamp.type=LogAppendTime: type bit, broker time for every record, LogAppendTimeMs in the answer, good CRC")
def log_append_time(c):
    topic = c.topic(message_timestamp_type="LogAppendTime")
    conn = c.conn()
    before = time.time() * 1000
    for codec in (rb.NONE, rb.LZ4):
        answer = produce(conn, topic, rb.batch([(None, b"x", 5), (None, b"y", 6)], codec=codec))
        assert answer["error"] == 0
        assert before - 1000 <= answer["log_append_time"] <= time.time() * 1000 + 1000, answer
        b = rb.batches(fetch(conn, topic, answer["base_offset"])["records"])[0]
        assert b.attributes & 8 and b.good_crc and b.max_ts == answer["log_append_time"], vars(b)
        assert b.base_ts == 5, "base timestamp and deltas stay"
        assert all(r[1] == answer["log_append_time"] for r in b.records())
    plain = produce(conn, c.topic(), rb.batch(rb.values("a", 1)))
    assert plain["log_append_time"] == -1, plain


@test("S5.13 a producer batch marked LogAppendTime on a CreateTime topic: error 32")
def marked_log_append(c):
    topic = c.topic()
    refused(c, topic, rb.batch([(None, b"x", -1)], attributes=8, base_ts=-1), {32})
    if c.perigee:                                    # Kafka 4.3 looks only at records without timestamp here
        refused(c, topic, rb.batch(rb.values("a", 1), attributes=8), {32})


@test("S5.14 timestamps: more than an hour ahead is 32, the distant past and -1 are accepted; limits are per topic")
def timestamp_limits(c):
    conn, topic = c.conn(), c.topic()
    now = int(time.time() * 1000)
    answer = refused(c, topic, rb.batch([(None, b"a", now), (None, b"f", now + 2 * HOUR_MS)]), {32})
    assert answer["record_errors"] is not None
    for ts in (now, 0, now + HOUR_MS // 2, -1):
        assert produce(conn, topic, rb.batch([(None, b"x", ts)], base_ts=ts))["error"] == 0, ts
    strict = c.topic(message_timestamp_before_max_ms=HOUR_MS)
    assert produce(conn, strict, rb.batch([(None, b"x", now)]))["error"] == 0
    refused(c, strict, rb.batch([(None, b"x", now - 2 * HOUR_MS)]), {32})


@test("S5.11 a max timestamp that lies is corrected to the records' (uncompressed), CRC recomputed")
def lying_max_timestamp(c):
    conn, topic = c.conn(), c.topic()
    now = int(time.time() * 1000)
    data = rb.batch([(None, b"a", now - 50), (None, b"b", now - 10)], max_ts=now + 5)
    answer = produce(conn, topic, data)
    if answer["error"] == 0:
        b = rb.batches(fetch(conn, topic, 0)["records"])[0]
        assert b.good_crc and b.max_ts == now - 10, (b.max_ts - now)
    else:
        assert answer["error"] == 87, answer


@test("S5.15 compacted topic: a record without key is refused with 87, the bad records listed")
def compacted_key(c):
    conn, topic = c.conn(), c.topic(cleanup_policy="compact")
    answer = refused(c, topic, rb.batch([(b"k", b"v"), (None, b"v"), (b"k", b"v"), (None, b"v")]), {87})
    assert [e["index"] for e in answer["record_errors"]] == [1, 3], answer
    packed = rb.batch([(b"k", b"v"), (None, b"v")], codec=rb.GZIP)
    refused(c, topic, packed, {87})
    assert produce(conn, topic, rb.batch([(b"k", None)]))["error"] == 0


@test("S5.18 S5.21 an answer covers exactly the partitions asked; success has base offset and log start")
def answer_shape(c):
    conn, topic = c.conn(), c.topic(partitions=3)
    answer = conn.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
        {"index": p, "records": rb.batch(rb.values("a", 2))} for p in (2, 0, 1, 9)]}, {"name": "nope", "partitions": [
            {"index": 0, "records": rb.batch(rb.values("a", 1))}]}])
    got = {(t["name"], p["index"]): (p["error"], p["base_offset"], p["log_start"]) for t in answer["topics"] for p in t["partitions"]}
    assert {k: v[0] for k, v in got.items()} == {(topic, 0): 0, (topic, 1): 0, (topic, 2): 0, (topic, 9): 3, ("nope", 0): 3}
    assert got[(topic, 0)] == (0, 0, 0) and got[(topic, 9)][1] == -1


@test("S5.19 S5.22 acks 1 and -1: the record is there for the very next ListOffsets and Fetch")
def visible_next(c):
    conn, topic = c.conn(), c.topic()
    for i in range(40):
        answer = produce(conn, topic, rb.batch(rb.values("a", 1)), acks=1 if i % 2 else -1)
        assert answer["base_offset"] == i
        if i % 2 == 0:
            assert list_offset(conn, topic, -1)["offset"] == i + 1


@test("D6 ListOffsets(-1) sent after an acks=1 answer lies above its offset", only="perigee")
def acks1_then_end(c):
    conn, topic = c.conn(), c.topic()
    for i in range(100):
        assert produce(conn, topic, rb.batch(rb.values("a", 1)), acks=1)["base_offset"] == i
        assert list_offset(conn, topic, -1)["offset"] == i + 1, i


@test("S1.7 acks=0 gets no answer and the next request is served; D6 a parked consumer has the record within 1 s")
def acks_zero(c):
    conn, topic = c.conn(), c.topic()
    waiting = c.conn()
    correlation_id = waiting.send("Fetch", 12, max_wait_ms=10000, min_bytes=1, topics=[{
        "name": topic, "partitions": [{"partition": 0, "offset": 0}]}])
    began = time.monotonic()
    conn.send("Produce", 9, acks=0, topics=[{"name": topic, "partitions": [{"index": 0, "records": rb.batch(rb.values("z", 1))}]}])
    conn.call("Metadata", 9, topics=[])
    part = waiting.recv("Fetch", 12, correlation_id)["topics"][0]["partitions"][0]
    assert len(rb.batches(part["records"])) == 1 and time.monotonic() - began < 1
    assert conn.silent(0.05)


@test("D6 acks=0 and acks=1 producers alone: a parked consumer has each record within 20 ms (median of 30)", only="perigee")
def acks01_latency(c):
    conn, waiting, topic = c.conn(), c.conn(), c.topic()
    for acks in (0, 1):
        took = []
        for i in range(30):
            end = list_offset(conn, topic, -1)["offset"]
            correlation_id = waiting.send("Fetch", 12, max_wait_ms=10000, min_bytes=1, topics=[{
                "name": topic, "partitions": [{"partition": 0, "offset": end}]}])
            conn.call("Metadata", 9, topics=[])      # the fetch has had a turn to park
            began = time.monotonic()
            send = conn.send("Produce", 9, acks=acks, topics=[{"name": topic, "partitions": [
                {"index": 0, "records": rb.batch(rb.values("z", 1))}]}])
            part = waiting.recv("Fetch", 12, correlation_id)["topics"][0]["partitions"][0]
            took.append(time.monotonic() - began)
            assert rb.batches(part["records"]), i
            if acks:
                conn.recv("Produce", 9, send)
        assert sorted(took)[15] < 0.020, f"acks={acks}: {sorted(took)}"


@test("S1.8 an acks=0 produce that fails closes the connection")
def acks_zero_fails(c):
    conn = c.conn()
    conn.send("Produce", 9, acks=0, topics=[{"name": "no-such-topic", "partitions": [
        {"index": 0, "records": rb.batch(rb.values("z", 1))}]}])
    assert conn.closed(5)


@test("S5.24 Produce v13 by topic id; an unknown id: 100")
def by_id(c):
    conn, topic = c.conn(), c.topic()
    assert produce(conn, topic, rb.batch(rb.values("a", 2)), version=13)["base_offset"] == 0
    stranger = type(topic)("x")
    stranger.id = bytes(range(16))
    assert produce(conn, stranger, rb.batch(rb.values("a", 1)), version=13)["error"] == 100


@test("S5.27 appends of one connection become visible in request order, 200 in flight")
def in_order(c):
    conn, topic = c.conn(), c.topic()
    sent = [conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
        {"index": 0, "records": rb.batch(rb.values(f"{i}-", 1))}]}]) for i in range(200)]
    offsets = [conn.recv("Produce", 9, s)["topics"][0]["partitions"][0]["base_offset"] for s in sent]
    assert offsets == list(range(200))
    assert [r[3] for r in read_all(conn, topic)] == [b"%d-0" % i for i in range(200)]


@test("T55 a zstd bomb (1 GiB from 32 KiB), gzip and lz4 bombs on a compacted topic: refused, memory stays within 64 MiB")
def bombs(c):
    broker = c.own(message_max_bytes=2_000_000) if c.perigee else c.broker()
    topic = c.topic(cleanup_policy="compact", max_message_bytes=2_000_000)
    conn = c.conn()
    flat = bytes(64 << 20)
    front = rb.endless(1 << 30)                      # a record that must be unpacked to the ceiling to be found out
    bombs_ = {"zstd": (rb.ZSTD, rb.zstd_bomb(1024)), "gzip": (rb.GZIP, rb.compress(rb.GZIP, flat)),
              "lz4": (rb.LZ4, rb.compress(rb.LZ4, flat)), "zstd, endless record": (rb.ZSTD, rb.zstd_bomb(1024, front, window_log=23)),
              "gzip, endless record": (rb.GZIP, rb.compress(rb.GZIP, front + flat)), "lz4, endless record": (rb.LZ4, rb.compress(rb.LZ4, front + flat)),
              "snappy claims 4 GB": (rb.SNAPPY, b"\xff\xff\xff\xff\x0f" + bytes(30))}
    for name, (codec, body) in bombs_.items():
        if not c.perigee and "zstd" in name:
            continue                                 # Kafka unpacks all of it on the heap
        data = rb.batch([(b"k", b"v")], attributes=codec, body=body)
        answer = produce(conn, topic, data)
        if c.perigee:
            assert answer["error"] in (87, 2, 10), (name, answer)
    if c.perigee:
        assert broker.rss_peak_kib() <= 64 * 1024, broker.rss_peak_kib()
    assert produce(c.conn(), topic, rb.batch([(b"k", b"fine")]))["error"] == 0


@test("T55 bombs on an ordinary topic, with a time look-up over them: memory stays within 64 MiB", only="perigee")
def bombs_cold(c):
    broker, topic = c.own(), c.topic(max_message_bytes=2_000_000)
    conn = c.conn()
    flat, front = bytes(64 << 20), rb.endless(1 << 30)
    for codec, body in ((rb.ZSTD, rb.zstd_bomb(1024)), (rb.GZIP, rb.compress(rb.GZIP, flat)), (rb.ZSTD, rb.zstd_bomb(1024, front, window_log=23)),
                        (rb.GZIP, rb.compress(rb.GZIP, front + flat)), (rb.LZ4, rb.compress(rb.LZ4, front + flat))):
        assert produce(conn, topic, rb.batch([(b"k", b"v")], attributes=codec, body=body))["error"] in (0, 87, 2)
    assert produce(conn, topic, rb.batch([(b"k", b"fine", rb.T0 + 10)]))["error"] == 0
    assert list_offset(conn, topic, rb.T0 - 1)["error"] == 0
    assert list_offset(conn, topic, -3)["error"] == 0
    assert list_offset(conn, topic, rb.T0 + 5)["offset"] == 5, "the fine record is found behind them"
    assert broker.rss_peak_kib() <= 64 * 1024, broker.rss_peak_kib()


@test("S5.2 T54 the same partition twice in one Produce: no loss of order, one answer each or one refused")
def partition_twice(c):
    conn, topic = c.conn(), c.topic()
    answer = conn.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
        {"index": 0, "records": rb.batch(rb.values("a", 1))}, {"index": 0, "records": rb.batch(rb.values("b", 1))}]}])
    good = [p for p in answer["topics"][0]["partitions"] if p["error"] == 0]
    assert len(read_all(conn, topic)) >= len(good) >= 1


@test("S5.25 an idempotent batch needs no transaction; a transactional one without transactional id is refused and not stored")
def transactional_without_id(c):
    conn, topic = c.conn(), c.topic()
    pid = producer_id(conn)
    refused(c, topic, rb.batch(rb.values("t", 1), pid=pid, epoch=0, seq=0, attributes=0x10), {53, 48, 49, 87, 42, 29})
