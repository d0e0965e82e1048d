"""Idempotent producing: semantics 6, T23 to T26, BR-026, BR-027, BR-028. The proxy's part of T23 and T25 is in proxy_rules."""
import time

from raw import batch as rb
from raw.harness import list_offset, producer_id, produce, read_all, test

MAX = 2**31 - 1
NOW = int(time.time() * 1000)                        # Kafka expires producers by the time in their batches


class Producer:
    """Sends idempotent batches by hand."""

    def __init__(self, c, topic, conn=None, pid=None, epoch=0):
        self.conn = conn or c.conn()
        self.topic = topic
        self.pid = producer_id(self.conn) if pid is None else pid
        self.epoch = epoch

    def batch(self, seq, n=1, epoch=None):
        return rb.batch(rb.values(f"p{self.pid}s{seq}-", n), pid=self.pid, epoch=self.epoch if epoch is None else epoch, seq=seq,
                        base_ts=NOW)

    def send(self, seq, n=1, epoch=None, partition=0):
        a = produce(self.conn, self.topic, self.batch(seq, n, epoch), partition)
        return a["error"], a["base_offset"]


@test("T23 S6.1 S6.2 BR-027 each of the last five batches resent: original offset, one copy; the sixth is answered as Kafka does")
def five_batches(c):
    topic = c.topic()
    p = Producer(c, topic)
    offsets = []
    for i in range(7):
        error, offset = p.send(i * 3, 3)
        assert error == 0
        offsets.append(offset)
    for i in (6, 2, 5, 3, 4, 2):
        assert p.send(i * 3, 3) == (0, offsets[i]), i
    error, _ = p.send(3, 3)                          # the sixth from the end is forgotten
    assert error in (45, 46), error
    assert p.send(0, 3)[0] in (45, 46)
    assert list_offset(p.conn, topic, -1)["offset"] == 21
    assert p.send(21, 1) == (0, 21)                  # and nothing of this broke the sequence


@test("S6.2 a duplicate must match first and last sequence: a part or an overlap is error 45")
def not_a_duplicate(c):
    topic = c.topic()
    p = Producer(c, topic)
    assert p.send(0, 4) == (0, 0)
    for seq, n in ((0, 3), (1, 3), (2, 4), (0, 5)):
        assert p.send(seq, n)[0] == 45, (seq, n)
    assert list_offset(p.conn, topic, -1)["offset"] == 4


@test("S6.3 a gap is error 45 and changes nothing; the right sequence then goes on")
def gap(c):
    p = Producer(c, c.topic())
    assert p.send(0) == (0, 0)
    for seq in (2, 5, MAX):
        assert p.send(seq)[0] == 45, seq
    assert p.send(1) == (0, 1)


@test("T26 S6.3 S6.4 sequences wrap from 2147483647 to 0, also inside a batch, duplicates included")
def wrap(c):
    topic = c.topic()
    p = Producer(c, topic)
    assert p.send(MAX - 1, 1) == (0, 0)              # no state yet: any first sequence (S6.6)
    assert p.send(MAX, 3) == (0, 1)                  # MAX, 0, 1
    assert p.send(MAX, 3) == (0, 1)
    assert p.send(2, 1) == (0, 4)
    assert p.send(0, 1)[0] in (45, 46)
    assert [r[0] for r in read_all(p.conn, topic)] == [0, 1, 2, 3, 4]


@test("T26 S6.5 epochs: higher must begin at 0, lower is error 47")
def epochs(c):
    topic = c.topic()
    p = Producer(c, topic)
    assert p.send(0, 2) == (0, 0)
    assert p.send(2, 1, epoch=1)[0] == 45
    assert p.send(0, 1, epoch=1) == (0, 2)
    assert p.send(1, 1, epoch=0)[0] == 47
    assert p.send(0, 2, epoch=0)[0] == 47, "an old epoch is no duplicate"
    assert p.send(1, 1, epoch=1) == (0, 3)
    assert p.send(0, 1, epoch=32767) == (0, 4)


@test("S6.6 BR-028 no state for the producer: any first sequence is accepted, error 59 is never used")
def no_state(c):
    p = Producer(c, c.topic(partitions=2), pid=900_000_001)
    assert p.send(4711, 2) == (0, 0)
    assert p.send(4713, 1) == (0, 2)
    assert p.send(5, 1, partition=1) == (0, 0)


@test("S6.7 five in flight on one connection, sequences checked per partition")
def in_flight(c):
    topic = c.topic(partitions=2)
    p = Producer(c, topic)
    sent = []
    for i in range(5):
        for part in (0, 1):
            sent.append(p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
                {"index": part, "records": p.batch(i * 2, 2)}]}]))
    answers = [p.conn.recv("Produce", 9, s)["topics"][0]["partitions"][0] for s in sent]
    assert [(a["error"], a["base_offset"]) for a in answers] == [(0, i // 2 * 2) for i in range(10)]


@test("S6.2 a duplicate of a batch whose first answer is still on its way waits for it: same offset, one copy")
def duplicate_in_flight(c):
    topic = c.topic()
    p = Producer(c, topic)
    second = c.conn()
    for i in range(20):
        one = p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p.batch(i)}]}])
        two = second.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p.batch(i)}]}])
        a = p.conn.recv("Produce", 9, one)["topics"][0]["partitions"][0]
        b = second.recv("Produce", 9, two)["topics"][0]["partitions"][0]
        assert (a["error"], a["base_offset"], b["error"], b["base_offset"]) == (0, i, 0, i), (a, b)


@test("T24 S6.8 BR-027 state survives kill -9: each of the last five batches resent after the restart gets its offset, the next goes on")
def after_kill(c):
    broker = c.own()
    topic = c.topic(partitions=2)
    p = Producer(c, topic)
    for i in range(8):
        assert p.send(i * 2, 2) == (0, i * 2)
    assert p.send(0, 1, partition=1) == (0, 0)
    for round_ in range(3):
        broker.kill9()
        broker.start()
        p.conn = c.conn(broker)
        c.settled(topic, 2)
        for i in (7, 3, 5, 4, 6) if c.perigee else (7,):     # Kafka comes back with the last batch only
            assert p.send(i * 2, 2) == (0, i * 2), (round_, i)
        assert p.send(0, 1, partition=1) == (0, 0)
    assert p.send(15, 1)[0] == 45
    assert p.send(16, 1) == (0, 16)
    p.conn = c.conn(broker)
    assert list_offset(p.conn, topic, -1)["offset"] == 17


@test("S6.8 state survives a clean stop: epoch, sequence and the last batch")
def after_stop(c):
    broker = c.own()
    topic = c.topic()
    p = Producer(c, topic)
    assert p.send(0, 3, epoch=0) == (0, 0) and p.send(0, 3, epoch=4) == (0, 3) and p.send(3, 1, epoch=4) == (0, 6)
    broker.restart()
    c.settled(topic)
    p.conn = c.conn(broker)
    assert p.send(3, 1, epoch=4) == (0, 6)
    assert p.send(0, 1, epoch=3)[0] == 47
    assert p.send(5, 1, epoch=4)[0] == 45
    assert p.send(4, 1, epoch=4) == (0, 7)


@test("S6.8 BR-027 after a clean stop each of the last five batches is still recognised", only="perigee")
def five_after_stop(c):                              # Kafka's snapshot file keeps only the last batch
    broker = c.own()
    p = Producer(c, c.topic())
    for i in range(8):
        assert p.send(i * 2, 2) == (0, i * 2)
    for _ in range(2):
        broker.restart()
        p.conn = c.conn(broker)
        for i in (7, 3, 5, 4, 6):
            assert p.send(i * 2, 2) == (0, i * 2), i
    assert p.send(16, 1) == (0, 16)


@test("S10.1 InitProducerId with an empty transactional id: 42")
def empty_transactional_id(c):
    conn = c.conn()
    assert [conn.call("InitProducerId", v, transactional_id="")["error"] for v in range(6)] == [42] * 6


@test("S6.10 BR-026 InitProducerId: epoch 0, ids never repeat, also over clean restarts and kill -9")
def distinct_ids(c):
    broker = c.own()
    seen = set()
    for end in (broker.stop, broker.kill9, broker.kill9, None):
        conn = c.conn(broker)
        sent = [conn.send("InitProducerId", 1) for _ in range(300)]
        for s in sent:
            answer = conn.recv("InitProducerId", 1, s)
            assert answer["error"] == 0 and answer["producer_epoch"] == 0, answer
            assert answer["producer_id"] >= 0 and answer["producer_id"] not in seen
            seen.add(answer["producer_id"])
        if end:
            end()
            broker.start()
    assert len(seen) == 1200


@test("S6.10 ids of many connections at once are distinct")
def distinct_connections(c):
    conns = [c.conn() for _ in range(20)]
    for conn in conns:
        for _ in range(20):
            conn.send("InitProducerId", 4)
    ids = [conn.recv("InitProducerId", 4)["producer_id"] for conn in conns for _ in range(20)]
    assert len(set(ids)) == 400


@test("S6.11 InitProducerId v3+ with only one of producer id and epoch: error 42")
def half_pair(c):
    conn = c.conn()
    for more in ({"producer_id": 5}, {"producer_epoch": 5}):
        assert conn.call("InitProducerId", 4, **more)["error"] == 42, more


@test("InitProducerId with a transactional id: error 35 on this road (docs/kafka-compatibility)", only="perigee")
def transactional_id(c):
    conn = c.conn()
    for version in range(6):
        assert conn.call("InitProducerId", version, transactional_id="tx")["error"] == 35, version


@test("BR-026 1,000 producers, a batch each: all accepted, memory stays small")
def many_producers(c):
    broker, topic, conn = c.broker(), c.topic(), c.conn()
    for at in range(0, 1000, 50):
        sent = []
        for i in range(50):
            p = rb.batch(rb.values("m", 1), pid=50_000 + at + i, epoch=0, seq=0)
            sent.append(conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p}]}]))
        for s in sent:
            assert conn.recv("Produce", 9, s)["topics"][0]["partitions"][0]["error"] == 0
    assert list_offset(conn, topic, -1)["offset"] == 1000
    if c.perigee:
        assert broker.rss_peak_kib() <= 64 * 1024
