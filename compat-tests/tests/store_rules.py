"""How a topic's settings decide what is stored: semantics 5.8, 5.12 to 5.16, 5.20, T55, BR-039, BR-052 and what of the produce path is off the turn."""
import os
import threading
import time

from raw import batch as rb
from raw.harness import fetch, list_offset, producer_id, produce, read_all, test
from tests.config_rules import TOPIC, change, done, waited

CODECS = {"uncompressed": rb.NONE, "gzip": rb.GZIP, "snappy": rb.SNAPPY, "lz4": rb.LZ4, "zstd": rb.ZSTD}
HOUR_MS = 3_600_000


def now_ms():
    return int(time.time() * 1000)


def items(n, size=40):
    t = now_ms()
    return [(None if i % 4 == 0 else b"key%d" % i, None if i % 5 == 1 else (b"value %d " % i * size)[:size], t - i % 3) for i in range(n)]


def stored(conn, topic, offset):
    return rb.batches(fetch(conn, topic, offset)["records"])[0]


# ---- compression.type ----

@test("S5.16 compression.type: whatever codec a batch has, it is stored with the topic's; records, times, offsets and producer fields stay, the CRC is right")
def recompressed(c):
    conn = c.conn()
    for name, codec in CODECS.items():
        topic, at, pid = c.topic(compression_type=name), 0, producer_id(conn)
        for seq, sent in enumerate(CODECS.values()):
            what = items(7)
            data = rb.batch(what, codec=sent, pid=pid, epoch=0, seq=seq * 7)
            answer = produce(conn, topic, data)
            assert (answer["error"], answer["base_offset"]) == (0, at), (name, sent, answer)
            b = stored(conn, topic, at)
            assert b.codec == codec and b.good_crc and b.magic == 2, (name, sent, vars(b))
            assert (b.pid, b.epoch, b.seq, b.count, b.last_delta, b.base_offset) == (pid, 0, seq * 7, 7, 6, at)
            assert b.max_ts == max(x[2] for x in what)
            assert b.records() == [(at + i, ts, key, value) for i, (key, value, ts) in enumerate(what)], (name, sent)
            at += 7
        answer = produce(conn, topic, data)          # S6.2: a duplicate, packed anew or not
        assert (answer["error"], answer["base_offset"]) == (0, at - 7), answer


@test("S5.16 compression.type=producer keeps the bytes; a batch that has the topic's codec keeps them, too")
def untouched(c):
    conn = c.conn()
    for name in ("producer", "gzip"):
        topic = c.topic(compression_type=name)
        data = rb.batch(items(9), codec=rb.GZIP)
        assert produce(conn, topic, data)["error"] == 0
        assert stored(conn, topic, 0).data[16:] == data[16:]


@test("S5.16 the broker's compression.type is the default of topics; a topic's own, producer too, is above it")
def broker_default(c):
    c.broker(compression_type="zstd")
    conn = c.conn()
    for own, codec in (({}, rb.ZSTD), ({"compression_type": "producer"}, rb.NONE), ({"compression_type": "lz4"}, rb.LZ4)):
        topic = c.topic(**own)
        assert produce(conn, topic, rb.batch(items(5)))["error"] == 0
        assert stored(conn, topic, 0).codec == codec, own


@test("S5.16 compression.<codec>.level: higher levels make smaller batches; levels out of range are refused")
def levels(c):
    conn = c.conn()
    text = b"".join(b"%d %s, " % (i * i, os.urandom(2).hex().encode()) for i in range(20_000))
    for codec, low, high, bad in (("gzip", 1, 9, 10), ("lz4", 9, 17, 18), ("zstd", -50, 19, 23)):
        sizes = []
        for level in (low, high):
            topic = c.topic(**{"compression_type": codec, f"compression_{codec}_level": level})
            assert produce(conn, topic, rb.batch([(None, text)]))["error"] == 0
            b = stored(conn, topic, 0)
            assert b.codec == CODECS[codec] and b.records()[0][3] == text
            sizes.append(len(b.data))
        assert sizes[1] < sizes[0], (codec, sizes)
        answer = conn.call("CreateTopics", 7, topics=[{"name": c.name(), "partitions": 1, "replication": 1, "configs": [
            {"name": f"compression.{codec}.level", "value": str(bad)}]}])["topics"][0]
        assert answer["error"] == 40, answer


@test("S5.8 S5.16 BR-052 max.message.bytes holds before and after a batch is packed anew: error 10, and nothing is stored")
def limit_after(c):
    conn = c.conn()
    topic = c.topic(compression_type="uncompressed", max_message_bytes=10_000)
    assert produce(conn, topic, rb.batch([(None, bytes(9_000))], codec=rb.GZIP))["error"] == 0
    big = rb.batch([(None, bytes(20_000))], codec=rb.GZIP)
    assert len(big) < 1_000
    assert produce(conn, topic, big)["error"] == 10
    packs_well = c.topic(compression_type="gzip", max_message_bytes=10_000)
    assert produce(conn, packs_well, rb.batch([(None, bytes(20_000))]))["error"] == 10
    assert list_offset(conn, topic, -1)["offset"] == 1 and list_offset(conn, packs_well, -1)["offset"] == 0


@test("S5.16 S5.17 T55 packed nonsense and bombs on a topic with another codec: 2, 10 or 87, nothing stored, memory within 64 MiB", only="perigee")
def nonsense_repacked(c):                            # Kafka takes as many records as are counted and looks no further
    broker = c.own()
    topic, conn = c.topic(compression_type="lz4"), c.conn()
    one = rb.batch(items(3), codec=rb.GZIP)
    for body in (one[61:-4], b"\x1f\x8b" + bytes(60), one[61:] + b"x"):
        answer = produce(conn, topic, raw_gzip(items(3), body))
        assert answer["error"] == 2, answer
    assert produce(conn, topic, raw_gzip(items(4), one[61:]))["error"] == 87       # fewer records than counted
    assert produce(conn, topic, raw_gzip([(b"k", b"v")], rb.compress(rb.GZIP, rb.endless(1 << 30) + bytes(64 << 20))))["error"] in (10, 87)
    assert produce(conn, topic, raw(rb.ZSTD, [(b"k", b"v")], rb.zstd_bomb(1024)))["error"] in (10, 87)
    assert broker.rss_peak_kib() <= 64 * 1024, broker.rss_peak_kib()
    assert list_offset(conn, topic, -1)["offset"] == 0
    assert produce(conn, topic, one)["base_offset"] == 0


def raw(codec, what, body):
    """A batch whose packed bytes are exactly these."""
    return rb.batch(what, body=body, attributes=codec)


def raw_gzip(what, body):
    return raw(rb.GZIP, what, body)


@test("S5.16 IncrementalAlterConfigs of compression.type acts on the next batch, while a producer writes; every record is there once")
def changed_live(c):
    conn, admin, topic = c.conn(), c.conn(), c.topic()
    at, seen = 0, set()
    for name, codec in list(CODECS.items()) + [("producer", rb.GZIP)]:
        done(change(admin, TOPIC, topic, ("compression.type", name)))

        def acts(codec=codec):
            nonlocal at
            answer = produce(conn, topic, rb.batch([(None, b"%d" % at)], codec=rb.GZIP))
            assert answer["base_offset"] == at
            at += 1
            return stored(conn, topic, at - 1).codec == codec
        assert waited(c, acts)
        seen.add(name)
    assert [r[3] for r in read_all(conn, topic)] == [b"%d" % i for i in range(at)] and len(seen) == 6


# ---- off the turn ----

def worst(conn, until, took):
    while not until.is_set():
        began = time.monotonic()
        conn.call("Metadata", 9, topics=[])
        took.append(time.monotonic() - began)


@test("T55 T19 eight gzip bombs in one Produce on a compacted topic hold up nobody else: the other clients' calls stay short", only="perigee")
def bombs_in_one_request(c):
    c.own()
    topic, plain, conn, other, third = c.topic(partitions=8, cleanup_policy="compact"), c.topic(), c.conn(timeout=60), c.conn(), c.conn()
    bomb = raw_gzip([(b"k", b"v")], rb.compress(rb.GZIP, rb.endless(1 << 30) + bytes(64 << 20)))
    began = time.monotonic()
    sent = conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": p, "records": bomb} for p in range(8)]}])
    over, took, made = threading.Event(), [], []
    threads = [threading.Thread(target=worst, args=(other, over, took))]
    for t in threads:
        t.start()
    while not select_readable(conn):
        at = time.monotonic()
        assert produce(third, plain, rb.batch(items(3)))["error"] == 0
        made.append(time.monotonic() - at)
    answer = conn.recv("Produce", 9, sent)
    whole = time.monotonic() - began
    over.set()
    for t in threads:
        t.join()
    assert {p["error"] for p in answer["topics"][0]["partitions"]} == {87}, answer
    print(f"# 8 bombs of 64 MiB took {whole:.2f} s; meanwhile {len(took)} Metadata calls: worst {max(took) * 1000:.0f} ms; {len(made)} produces: worst {max(made) * 1000:.0f} ms")
    assert len(took) > 10 and len(made) > 3
    assert sorted(took)[int(len(took) * 0.9)] < 0.05 and max(took) < max(whole / 3, 0.5), (whole, max(took))
    assert sorted(made)[int(len(made) * 0.9)] < 0.2 and max(made) < max(whole / 3, 0.5), (whole, max(made))


def select_readable(conn):
    return not conn.silent(0)


@test("S5.16 D12 memory: 60 clients with 1 MB batches for a topic that packs anew, eight batches each under way: within the budget, all answered, all stored", only="perigee")
def many_repacked(c):
    broker = c.own()
    topic = c.topic(partitions=4, compression_type="uncompressed")
    data = rb.batch([(None, (b"%d " % i * 40)[:200]) for i in range(4_500)], codec=rb.ZSTD)
    conns = [c.conn(timeout=60) for _ in range(60)]
    sent = [[conn.send("Produce", 9, acks=-1, timeout_ms=60000, topics=[{"name": topic, "partitions": [{"index": (i + k) % 4, "records": data}]}]) for k in range(8)]
            for i, conn in enumerate(conns)]
    good = 0
    for conn, ids in zip(conns, sent):
        for i in ids:
            good += conn.recv("Produce", 9, i)["topics"][0]["partitions"][0]["error"] == 0
    assert good == 480
    assert sum(list_offset(conns[0], topic, -1, partition=p)["offset"] for p in range(4)) == 480 * 4_500
    print(f"# 480 batches of {len(data)} bytes, stored as 950 KB each: peak RSS {broker.rss_peak_kib()} KiB")
    assert broker.rss_peak_kib() <= 128 * 1024, broker.rss_peak_kib()


@test("S5.27 S5.9 a Produce of 90 MB in 90 partitions: Metadata of others stays short meanwhile", only="perigee")
def large_request(c):
    c.own()
    topic, conn, other = c.topic(partitions=90), c.conn(timeout=60), c.conn()
    data = rb.batch([(None, b"") for _ in range(90_000)])       # as many small records as a batch can have
    parts = [{"index": p, "records": data} for p in range(90)]
    over, took = threading.Event(), []
    thread = threading.Thread(target=worst, args=(other, over, took))
    thread.start()
    answer = conn.call("Produce", 9, acks=-1, timeout_ms=60000, topics=[{"name": topic, "partitions": parts}])
    over.set()
    thread.join()
    assert {p["error"] for p in answer["topics"][0]["partitions"]} == {0}
    print(f"# 90 batches of {len(data)} bytes: worst Metadata call {max(took) * 1000:.0f} ms of {len(took)}")
    assert sorted(took)[int(len(took) * 0.99)] < 0.2, sorted(took)[-5:]


# ---- times ----

@test("BR-039 S5.14 producer clocks: a year ahead, and microseconds for milliseconds, are 32 with record errors; ts=1 and mixed old ones are stored as sent")
def producer_clocks(c):
    conn, topic, t = c.conn(), c.topic(), now_ms()
    for bad in (t + 365 * 24 * HOUR_MS, t * 1000, (1 << 63) - 1):
        for codec in (rb.NONE, rb.GZIP):
            answer = produce(conn, topic, rb.batch([(None, b"x", t), (None, b"y", bad)], codec=codec))
            assert answer["error"] == 32 and answer["base_offset"] == -1, (bad, codec, answer)
            assert codec or [e["index"] for e in answer["record_errors"]] == [1], answer
    mixed = [(None, b"a", t), (None, b"b", 1), (None, b"c", t - HOUR_MS), (None, b"d", 0)]
    assert produce(conn, topic, rb.batch(mixed))["error"] == 0
    assert [(ts, v) for _, ts, _, v in read_all(conn, topic)] == [(ts, v) for _, v, ts in mixed]


@test("BR-039 S5.12 LogAppendTime: within a second of the clock, for every codec, with a clock of the producer that is a year off; a changed type acts at once")
def append_time(c):
    conn, admin, topic = c.conn(), c.conn(), c.topic(message_timestamp_type="LogAppendTime")
    for codec in CODECS.values():
        answer = produce(conn, topic, rb.batch([(None, b"x", now_ms() + 365 * 24 * HOUR_MS)], codec=codec))
        assert answer["error"] == 0 and abs(answer["log_append_time"] - now_ms()) < 1000, answer
        b = stored(conn, topic, answer["base_offset"])
        assert b.good_crc and b.attributes & 8 and b.max_ts == answer["log_append_time"]
    done(change(admin, TOPIC, topic, ("message.timestamp.type", "CreateTime")))
    assert waited(c, lambda: produce(conn, topic, rb.batch([(None, b"y", 5)]))["log_append_time"] == -1)
    assert read_all(conn, topic)[-1][1] == 5
    done(change(admin, TOPIC, topic, ("message.timestamp.type", "LogAppendTime")))
    assert waited(c, lambda: produce(conn, topic, rb.batch([(None, b"z", 5)]))["log_append_time"] > 5)


@test("S5.14 the limits of time are live and have broker twins: message.timestamp.before.max.ms, after.max.ms, log.message.timestamp.*")
def limits_live(c):
    conn, admin, topic, t = c.conn(), c.conn(), c.topic(), now_ms()
    old, ahead = rb.batch([(None, b"o", t - 3 * HOUR_MS)]), rb.batch([(None, b"a", t + HOUR_MS // 2)])
    assert produce(conn, topic, old)["error"] == produce(conn, topic, ahead)["error"] == 0
    done(change(admin, TOPIC, topic, ("message.timestamp.before.max.ms", str(HOUR_MS)), ("message.timestamp.after.max.ms", "60000")))
    assert waited(c, lambda: produce(conn, topic, old)["error"] == 32 and produce(conn, topic, ahead)["error"] == 32)
    packed = rb.batch([(None, b"n", t), (None, b"o", t - 3 * HOUR_MS)], codec=rb.LZ4)
    assert produce(conn, topic, packed)["error"] == 32
    done(change(admin, TOPIC, topic, ("message.timestamp.before.max.ms", 1, None), ("message.timestamp.after.max.ms", 1, None)))
    assert waited(c, lambda: produce(conn, topic, old)["error"] == 0 and produce(conn, topic, ahead)["error"] == 0)
    c.broker(log_message_timestamp_before_max_ms=HOUR_MS)
    there, strict, own = c.conn(), c.topic(), c.topic(message_timestamp_before_max_ms=10 * HOUR_MS)
    assert produce(there, strict, old)["error"] == 32 and produce(there, own, old)["error"] == 0


@test("S5.15 BR-051 cleanup.policy=compact refuses records without key, also inside every codec and where batches are packed anew; a topic that becomes compact does from then on")
def keyless(c):
    conn, admin = c.conn(), c.conn()
    for more in ({}, {"compression_type": "zstd"}, {"compression_type": "uncompressed"}):
        topic = c.topic(cleanup_policy="compact", **more)
        for codec in CODECS.values():
            for version in (7, 8, 12):
                if codec == rb.ZSTD and version < 7:
                    continue
                answer = produce(conn, topic, rb.batch([(b"k", b"v"), (None, b"v"), (b"k", None), (None, None)], codec=codec), version=version)
                assert answer["error"] == 87, (more, codec, answer)
                assert version < 8 or [e["index"] for e in answer["record_errors"]] == [1, 3], (more, codec, answer)
                assert version < 8 or answer["error_message"], answer
            assert produce(conn, topic, rb.batch([(b"k", b"v"), (b"", b"v")], codec=codec))["error"] == 0
    topic = c.topic()
    assert produce(conn, topic, rb.batch([(None, b"v")]))["error"] == 0
    done(change(admin, TOPIC, topic, ("cleanup.policy", "compact,delete")))
    assert waited(c, lambda: produce(conn, topic, rb.batch([(None, b"v")]))["error"] == 87)


# ---- replicas ----

@test("S5.20 min.insync.replicas above the replica count counts as that: acks=all and acks=1 are stored on one node, as Kafka 4 does")
def min_insync(c):
    conn, topic = c.conn(), c.topic(min_insync_replicas=2)
    for acks in (-1, 1, 0):
        if acks == 0:
            conn.send("Produce", 9, acks=0, topics=[{"name": topic, "partitions": [{"index": 0, "records": rb.batch(items(1))}]}])
        else:
            assert produce(conn, topic, rb.batch(items(1)), acks=acks)["error"] == 0, acks
    assert waited(c, lambda: list_offset(conn, topic, -1)["offset"] == 3)


@test("S4.9 unclean.leader.election.enable and min.insync.replicas are accepted and reported")
def replica_settings(c):
    conn = c.conn()
    answer = conn.call("CreateTopics", 7, topics=[{"name": c.name(), "partitions": 1, "replication": 1, "configs": [
        {"name": "unclean.leader.election.enable", "value": "true"}, {"name": "min.insync.replicas", "value": "3"}]}])["topics"][0]
    assert answer["error"] == 0
    got = {x["name"]: (x["value"], x["source"]) for x in answer["configs"]}
    assert got["unclean.leader.election.enable"] == ("true", 1) and got["min.insync.replicas"] == ("3", 1), got
