"""Raw load for the kill -9 rounds: what stock clients hide. Batches byte for byte (I16), marks (I12), the five-batch window (T24, T25).

Each actor is a thread that survives any number of broker deaths and writes its own history file for check/history.py.
"""
import hashlib
import json
import threading
import time

from raw import batch as rb
from raw.harness import fetch
from raw.wire import Conn

RETRIABLE = {3, 5, 6, 7, 56}
DEADLINE_S = 40


def digest(data):
    """The bytes that a broker must not touch: everything but base offset and leader epoch."""
    return hashlib.sha256(data[8:12] + data[16:]).hexdigest()[:20]


class Actor(threading.Thread):
    def __init__(self, addr, topic, name, history):
        super().__init__(daemon=True)
        self.addr, self.topic, self.name_, self.stopping = addr, topic, name, threading.Event()
        self.out = open(history, "w", encoding="utf-8")
        self.trouble = None

    def log(self, **op):
        self.out.write(json.dumps(op) + "\n")

    def connect(self):
        """A connection, whenever the broker is back; None when it stays away."""
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            try:
                return Conn(self.addr, timeout=15)
            except OSError:
                self.stopping.wait(0.01)
        return None

    def run(self):
        try:
            self.work()
        except Exception as e:                       # noqa: BLE001 - told by finish()
            self.trouble = f"{self.name_}: {type(e).__name__}: {e}"
        finally:
            self.out.close()

    def finish(self):
        self.stopping.set()
        self.join(DEADLINE_S + 20)
        if self.is_alive():
            return f"{self.name_} did not end"
        return self.trouble


class Producer(Actor):
    """Up to five batches in flight; after a death everything unanswered is sent again, as an idempotent client does."""

    def __init__(self, addr, topic, partition, name, history):
        super().__init__(addr, topic, name, history)
        self.partition, self.key = partition, f"{topic}-{partition}"
        self.window, self.seq, self.n = [], 0, 0

    def fresh(self, conn):
        while True:
            answer = conn.call("InitProducerId", 1)
            if answer["error"] == 0:
                return answer["producer_id"]

    def work(self):
        conn = self.connect()
        self.pid = self.fresh(conn)
        while not (self.stopping.is_set() and not self.window):
            try:
                for entry in self.window:
                    self.post(conn, entry)
                self.flow(conn)
            except (OSError, EOFError):
                conn.close()
                conn = self.connect()
                if conn is None:
                    break
        for entry in self.window:
            self.record(entry, "unknown", None)

    def flow(self, conn):
        """Keep five on the way; returns when stopping and all are answered."""
        while True:
            while len(self.window) < 5 and not self.stopping.is_set():
                self.window.append(self.make())
                self.post(conn, self.window[-1])
            if not self.window:
                return
            answer = conn.recv("Produce", 9)["topics"][0]["partitions"][0]
            if answer["error"] in RETRIABLE:
                raise EOFError("retriable")          # a new connection, everything again, in order
            if answer["error"]:
                raise AssertionError(f"error {answer['error']} for sequence {self.window[0]['seq']}")
            self.record(self.window.pop(0), "ok", answer["base_offset"])

    def make(self):
        count = 1 + self.n % 7
        entry = {"seq": self.seq, "first": self.n, "values": [f"{self.name_}-{self.n + i}" for i in range(count)]}
        entry["data"] = rb.batch([(None, v.encode()) for v in entry["values"]], codec=self.n % 5, pid=self.pid, epoch=0, seq=self.seq,
                                 base_ts=int(time.time() * 1000))
        self.seq += count
        self.n += count
        return entry

    def post(self, conn, entry):
        conn.send("Produce", 9, acks=-1, timeout_ms=10000, topics=[{"name": self.topic, "partitions": [
            {"index": self.partition, "records": entry["data"]}]}])

    def record(self, entry, result, offset):
        for i, value in enumerate(entry["values"]):
            self.log(op="send", producer=self.name_, key=self.key, n=entry["first"] + i, value=value, result=result,
                     offset=None if offset is None else offset + i, idempotent=True)
        if result == "ok":
            self.log(op="batch", side="sent", key=self.key, offset=offset, hash=digest(entry["data"]))


class Reader(Actor):
    """Follows every partition and writes down what it is told: records, bytes, marks."""

    def __init__(self, addr, topic, partitions, name, history):
        super().__init__(addr, topic, name, history)
        self.position = dict.fromkeys(range(partitions), 0)

    def work(self):
        conn = self.connect()
        while not self.stopping.is_set():
            try:
                self.turn(conn)
            except (OSError, EOFError):
                conn.close()
                conn = self.connect()
                if conn is None:
                    raise AssertionError("the broker did not come back") from None

    def turn(self, conn):
        answer = conn.call("Fetch", 11, max_wait_ms=100, min_bytes=1, max_bytes=1 << 20, topics=[{"name": self.topic, "partitions": [
            {"partition": p, "offset": o, "max_bytes": 200_000} for p, o in self.position.items()]}])
        for part in answer["topics"][0]["partitions"]:
            key = f"{self.topic}-{part['partition']}"
            if part["error"] in RETRIABLE:
                continue
            if part["error"]:
                raise AssertionError(f"{key}: fetch at {self.position[part['partition']]} got error {part['error']}")
            self.log(op="mark", observer=self.name_, key=key, high_watermark=part["high_watermark"], log_start=part["log_start"],
                     last_stable=part["last_stable"])
            self.take(key, part)
        told = conn.call("Metadata", 9, topics=[{"name": self.topic}], allow_auto_create=False)["topics"][0]
        for p in told["partitions"]:
            self.log(op="mark", observer=self.name_, key=f"{self.topic}-{p['partition']}", leader_epoch=p["leader_epoch"])

    def take(self, key, part):
        position = self.position[part["partition"]]
        records = write_batches(self, key, part["records"], position)
        if records:
            self.log(op="poll", consumer=self.name_, key=key, records=records)
            self.position[part["partition"]] = records[-1][0] + 1


def write_batches(actor, key, data, position):
    out = []
    for b in rb.batches(data):
        if not b.good_crc:
            raise AssertionError(f"{key}@{b.base_offset}: bad CRC")
        actor.log(op="batch", side="read", key=key, offset=b.base_offset, hash=digest(b.data))
        out += [[r[0], r[3].decode()] for r in b.records() if r[0] >= position]
    return out


class Final(Actor):
    """Reads everything from the beginning; not a thread, call read_all()."""

    def read_all(self, partitions):
        conn = self.connect()
        for p in range(partitions):
            key, records, offset = f"{self.topic}-{p}", [], 0
            while True:
                part = fetch(conn, self.topic, offset, version=11, partition=p)
                if part["error"] in RETRIABLE:
                    continue
                if part["error"]:
                    raise AssertionError(f"{key}: final read got error {part['error']}")
                records += write_batches(self, key, part["records"], offset)
                offset = records[-1][0] + 1 if records else 0
                if offset >= part["high_watermark"]:
                    break
            self.log(op="final", reader=self.name_, key=key, start=part["log_start"], end=part["high_watermark"], records=records)
        conn.close()
        self.out.close()
