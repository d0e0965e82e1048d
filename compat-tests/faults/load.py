"""Clients at work until their broker dies, and a book of everything it promised them.

A promise is a record acknowledged at acks=all, a record or an end of log shown to a consumer, a topic created or deleted, a producer
id handed out. Whatever happens to the broker then (kill -9, power cut): keep() asks a restarted one for all of them, and repeats what
had no answer as an idempotent client does. BR-062; I1 to I4, I11, I12 of the history checker, in small.
"""
import threading
import time

from raw import batch as rb
from raw.harness import fetch, list_offset, metadata, produce, read_all
from raw.wire import Conn


class Refused(Exception):
    """The broker said no, as it may while its disk fails; the worker rests."""


GONE = (OSError, EOFError)
MAY_FAIL = {56, 7, 15}                               # KAFKA_STORAGE_ERROR and its kin: retriable
WINDOW = 4                                           # batches in flight: within the five that a broker remembers


class Part:
    """One partition's promises."""

    def __init__(self):
        self.promised = {}                           # offset: value
        self.sent = set()
        self.end = self.epoch = 0


class Book:
    def __init__(self):
        self.lock = threading.Lock()
        self.parts = {}                              # (topic, partition): Part
        self.topics = {}                             # name: id; "making" and "deleting" while unknown
        self.pids = set()
        self.number = 0
        self.acked = 0

    def value(self, size=0):
        with self.lock:
            self.number += 1
            return b"n%d." % self.number + b"." * size

    def promise(self, part, offset, value):
        with self.lock:
            old = part.promised.setdefault(offset, value)
            assert old == value, f"offset {offset} was {old[:20]!r} and is {value[:20]!r} (I4)"

    def pid(self, pid):
        with self.lock:
            assert pid not in self.pids, f"producer id {pid} was given twice"
            self.pids.add(pid)

    def add_topic(self, topic, partitions):
        self.topics[str(topic)] = topic.id
        for p in range(partitions):
            self.parts[topic, p] = Part()


class Worker(threading.Thread):
    """A thread that works until the broker is gone or it is told to stop; what it did wrong is kept for the test."""
    tolerant = False                                 # the disk may fail: a clear, retriable error ends the work

    def __init__(self, addr, book):
        super().__init__(daemon=True)
        self.addr, self.book, self.wrong = addr, book, None
        self.halt = threading.Event()

    def good(self, answer):
        if answer["error"] != 0 and self.tolerant:
            assert answer["error"] in MAY_FAIL, answer
            raise Refused
        assert answer["error"] == 0, answer

    def run(self):
        try:
            with Conn(self.addr) as self.conn:
                while not self.halt.is_set():
                    self.work()
        except (*GONE, Refused):
            pass
        except Exception as e:                       # noqa: BLE001 - the test shows it
            self.wrong = e


class Producer:
    """An idempotent producer's memory: what outlives connections."""

    def __init__(self, topic, partition):
        self.topic, self.partition = topic, partition
        self.pid, self.seq = None, 0
        self.flying = []                             # (bytes, values)
        self.last = None                             # (bytes, offset) of the last one acknowledged


class Writer(Worker):
    def __init__(self, addr, book, producer, rng):
        super().__init__(addr, book)
        self.p, self.rng = producer, rng

    def make(self):
        p, part = self.p, self.book.parts[self.p.topic, self.p.partition]
        values = [self.book.value(self.rng.choice((0, 30, 900, 3000))) for _ in range(self.rng.randint(1, 4))]
        part.sent.update(values)
        data = rb.batch([(None, v) for v in values], pid=p.pid, epoch=0, seq=p.seq, base_ts=int(time.time() * 1000))
        p.seq += len(values)
        return data, values

    def work(self):
        p = self.p
        if p.pid is None:
            answer = self.conn.call("InitProducerId", 1)
            self.good(answer)
            self.book.pid(answer["producer_id"])
            p.pid = answer["producer_id"]
        if not p.flying:
            for _ in range(self.rng.randint(1, WINDOW)):
                p.flying.append(self.make())
                self.conn.send("Produce", 9, acks=-1, topics=[{"name": str(p.topic), "partitions": [
                    {"index": p.partition, "records": p.flying[-1][0]}]}])
        answer = self.conn.recv("Produce", 9)["topics"][0]["partitions"][0]
        self.good(answer)
        self.acked(answer["base_offset"])

    def acked(self, base):
        data, values = self.p.flying.pop(0)
        part = self.book.parts[self.p.topic, self.p.partition]
        for i, v in enumerate(values):
            self.book.promise(part, base + i, v)
        self.p.last = data, base
        self.book.acked += 1

    def resend(self, conn):
        """After a restart: what had no answer again, in order; if there was none, the last one, which must be known (BR-027)."""
        p = self.p
        if not p.flying and p.last:
            answer = produce(conn, p.topic, p.last[0], p.partition)
            assert (answer["error"], answer["base_offset"]) == (0, p.last[1]), (answer, p.last[1])
        while p.flying:
            answer = produce(conn, p.topic, p.flying[0][0], p.partition)
            assert answer["error"] == 0, answer
            self.acked(answer["base_offset"])


class Careless(Worker):
    """acks=1: nothing is promised, but bytes are written that no sync covered."""

    def __init__(self, addr, book, where, rng):
        super().__init__(addr, book)
        self.where, self.rng = where, rng

    def work(self):
        value, part = self.book.value(self.rng.choice((0, 500))), self.book.parts[self.where]
        part.sent.add(value)
        answer = produce(self.conn, self.where[0], rb.batch([(None, value)]), self.where[1], acks=1)
        self.good(answer)


class Reader(Worker):
    """What a consumer was shown is promised too: the high watermark moves at the sync (D6)."""

    def __init__(self, addr, book, where):
        super().__init__(addr, book)
        self.where, self.at = where, max(0, book.parts[where].end - 20)

    def work(self):
        topic, partition = self.where
        part = self.book.parts[self.where]
        got = fetch(self.conn, topic, self.at, partition=partition, max_wait_ms=50)
        self.good(got)
        for r in (r for b in rb.batches(got["records"]) for r in b.records()):
            self.book.promise(part, r[0], r[3])
            self.at = max(self.at, r[0] + 1)
        end = list_offset(self.conn, topic, -1, partition)
        self.good(end)
        part.end = max(part.end, end["offset"])


class Admin(Worker):
    """Topics come and go."""

    def __init__(self, addr, book, rng, prefix):
        super().__init__(addr, book)
        self.rng, self.prefix, self.n = rng, prefix, 0

    def work(self):
        mine = [t for t, state in self.book.topics.items() if t.startswith(self.prefix) and isinstance(state, bytes)]
        if len(mine) > 3 or mine and self.rng.random() < 0.3:
            name = self.rng.choice(mine)
            self.book.topics[name] = "deleting"
            answer = self.conn.call("DeleteTopics", 4, names=[name])["topics"][0]
            self.good(answer)
            del self.book.topics[name]
            return
        self.n += 1
        name = f"{self.prefix}{self.n}"
        self.book.topics[name] = "making"
        answer = self.conn.call("CreateTopics", 7, topics=[{"name": name, "partitions": 2}])["topics"][0]
        self.good(answer)
        self.book.topics[name] = answer["topic_id"]
        produce(self.conn, name, rb.batch([(None, b"first")]), 0, acks=self.rng.choice((1, -1)))


class Load:
    """Writers on every partition, one careless, two readers, one admin."""

    def __init__(self, c, book, rng, partitions=3):
        self.book, self.rng, self.c = book, rng, c
        self.topic = c.topic(partitions=partitions, segment_bytes=20_000, index_interval_bytes=2000)
        book.add_topic(self.topic, partitions)
        self.partitions = partitions
        self.producers = [Producer(self.topic, i % partitions) for i in range(partitions + 1)]
        self.round = 0

    def start(self, addr, tolerant=False):
        self.round += 1
        last = (self.topic, self.partitions - 1)
        self.writers = [Writer(addr, self.book, p, self.rng) for p in self.producers]
        self.workers = [*self.writers, Careless(addr, self.book, last, self.rng), Reader(addr, self.book, (self.topic, 0)),
                        Reader(addr, self.book, last), Admin(addr, self.book, self.rng, f"come-and-go-{self.round}-")]
        for w in self.workers:
            w.tolerant = tolerant
            w.start()

    def wait_acks(self, n, within=10):
        deadline, goal = time.monotonic() + within, self.book.acked + n
        pause = threading.Event()
        while self.book.acked < goal and time.monotonic() < deadline and any(w.is_alive() for w in self.writers):
            pause.wait(0.001)

    def join(self):
        for w in self.workers:
            w.halt.set()
            w.join(10)
            if w.wrong:
                raise w.wrong

    # ---- what must hold afterwards ----

    def keep(self, broker):
        """Every promise, on a broker that was started again. Then the clients' own retries."""
        with Conn(broker.addr) as conn:
            self.keep_topics(conn)
            for w in self.writers:
                w.resend(conn)
            for where, part in self.book.parts.items():
                self.keep_part(conn, where, part)
            self.book.pid(conn.call("InitProducerId", 1)["producer_id"])

    def keep_topics(self, conn):
        there = {t["name"]: t for t in metadata(conn, None, version=10)["topics"]}
        for name, state in list(self.book.topics.items()):
            if state in ("making", "deleting"):
                if name in there:
                    self.book.topics[name] = there[name]["topic_id"]
                else:
                    del self.book.topics[name]
                continue
            assert name in there and there[name]["topic_id"] == state, f"topic {name} is gone, or another one: {there.get(name)}"
        strangers = set(there) - set(self.book.topics)
        assert not strangers, f"deleted topics are back: {strangers}"
        for p in there[str(self.topic)]["partitions"]:
            part = self.book.parts[self.topic, p["partition"]]
            assert p["error"] == 0 and p["leader_epoch"] >= part.epoch, (p, part.epoch)
            part.epoch = p["leader_epoch"]

    def keep_part(self, conn, where, part):
        topic, partition = where
        end = list_offset(conn, topic, -1, partition)["offset"]
        assert end >= part.end, f"{where}: the end was {part.end}, is {end} (I12)"
        got = {}
        for offset, _, _, value in read_all(conn, topic, partition, until=end) if end else []:
            assert offset not in got, f"{where}: offset {offset} twice"
            got[offset] = value
        assert sorted(got) == list(range(end)), f"{where}: a hole: {sorted(set(range(end)) - set(got))[:5]}"
        for offset, value in part.promised.items():
            assert got.get(offset) == value, f"{where}: offset {offset} promised {value[:20]!r}, now {got.get(offset, b'nothing')[:20]!r}"
        seen = list(got.values())
        assert len(set(seen)) == len(seen), f"{where}: a value twice (I3)"
        assert set(seen) <= part.sent, f"{where}: a value that nobody sent here"
        for offset, value in got.items():
            self.book.promise(part, offset, value)
        part.end = end
