"""Finds the tests of compat-tests/tests, gives each a broker, counts.

A test is a function with @test("name with the rule it checks"); it gets a Context and asserts. Output is TAP-like:
`ok 3 - name`, `not ok 4 - name`, `SKIPPED name: reason`, and at the end `N passed, N failed, N skipped`.
usage: harness.py [--broker perigee|kafka] [--shards N] [--full] [--list] [word...]      (words select by file or name)
"""
import argparse
import importlib
import itertools
import os
import sys
import time
import traceback

from raw import batch as rb
from raw.broker import COMPAT, Broker, BrokerError
from raw.wire import Conn

TESTS = []


class Skip(Exception):
    """The test cannot run here; the reason is counted and printed."""


class Test:
    def __init__(self, name, function, only, full):
        self.name, self.function, self.only, self.full = name, function, only, full
        self.file = function.__module__.rsplit(".", 1)[-1]


def test(name, only=None, full=False):
    """only="perigee": a rule where Kafka differs on purpose. full=True: only with --full."""
    def add(function):
        TESTS.append(Test(name, function, only, full))
        return function
    return add


class Topic(str):
    """A topic's name that knows its id."""
    id = bytes(16)


class Context:
    """What a test may use. Shared brokers live for the whole run, own ones and connections for the test."""
    shared = {}
    numbers = itertools.count(1)

    def __init__(self, options):
        self.options, self.kind, self.shards, self.full = options, options.broker, options.shards, options.full
        self.opened = []
        self.current = None

    @property
    def perigee(self):
        return self.kind == "perigee"

    def skip(self, reason):
        raise Skip(reason)

    # ---- brokers ----

    def broker(self, **settings):
        """A running broker with these settings (dots written as underscores), shared with other tests."""
        settings = dotted(settings)
        key = tuple(sorted(settings.items()))
        b = Context.shared.get(key)
        if b is None or not b.alive():
            b = Context.shared[key] = Broker(self.kind, self.shards, settings).start()
        self.current = b
        return b

    def own(self, start=True, shards=None, **more):
        """A broker for this test alone: it may be stopped and killed."""
        extra = {k: more.pop(k) for k in ("data", "env", "prefix", "host") if k in more}
        b = Broker(self.kind, shards or self.shards, dotted(more), **extra)
        self.opened.append(b)
        self.current = b
        return b.start() if start else b

    def conn(self, broker=None, **options):
        c = Conn((broker or self.current or self.broker()).addr, **options)
        self.opened.append(c)
        return c

    def close(self):
        for thing in reversed(self.opened):
            thing.close()

    # ---- topics and data ----

    def name(self, stem="t"):
        return Topic(f"{stem}-{next(Context.numbers)}")

    def topic(self, partitions=1, broker=None, name=None, **configs):
        """Create a topic and return its name."""
        topic = name or self.name()
        with Conn((broker or self.current or self.broker()).addr) as c:
            answer = c.call("CreateTopics", 7, topics=[{
                "name": topic, "partitions": partitions, "replication": 1,
                "configs": [{"name": k.replace("_", "."), "value": str(v)} for k, v in configs.items()]}])["topics"][0]
            assert answer["error"] == 0, f"CreateTopics: {answer}"
            topic = Topic(topic)
            topic.id = answer["topic_id"]
            if not self.perigee:
                settle(c, topic, partitions)
        return topic

    def settled(self, topic, partitions=1):
        """After a restart: wait for Kafka's partitions. perigee is ready when its ready file is there (BR-013)."""
        if not self.perigee:
            with Conn(self.current.addr) as c:
                settle(c, topic, partitions)


def settle(c, topic, partitions):
    """Kafka answers CreateTopics before the broker has the partitions; perigee must not need this (S4.12)."""
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        answer = c.call("ListOffsets", 7, topics=[{"name": str(topic), "partitions": [
            {"partition": p, "timestamp": -1} for p in range(partitions)]}])
        if all(p["error"] == 0 for p in answer["topics"][0]["partitions"]):
            return


def dotted(settings):
    return {k.replace("__", "-").replace("_", "."): str(v) for k, v in settings.items()}


# ---- short forms of the common requests ----

def name_or_id(topic, version):
    return {"topic_id": topic.id} if version >= 13 else {"name": str(topic)}


def produce(c, topic, data, partition=0, acks=-1, version=9, timeout_ms=10000):
    """One batch (bytes) to one partition; the partition's answer."""
    answer = c.call("Produce", version, acks=acks, timeout_ms=timeout_ms, topics=[{
        **name_or_id(topic, version), "partitions": [{"index": partition, "records": data}]}])
    return answer["topics"][0]["partitions"][0]


def fill(c, topic, n, partition=0, size=0, prefix="v", per_batch=None, codec=0):
    """n records, acknowledged; the first offset."""
    first, per_batch = None, per_batch or n
    for at in range(0, n, per_batch):
        items = [(None, f"{prefix}{i}".encode().ljust(size, b".")) for i in range(at, min(n, at + per_batch))]
        answer = produce(c, topic, rb.batch(items, codec=codec), partition)
        assert answer["error"] == 0, answer
        first = answer["base_offset"] if first is None else first
    return first


def fetch_request(topic, offset, partition=0, version=12, max_wait_ms=0, min_bytes=1, max_bytes=1 << 24, part_bytes=1 << 24, **more):
    part = {"partition": partition, "offset": offset, "max_bytes": part_bytes,
            **{k: more.pop(k) for k in ("leader_epoch", "last_fetched_epoch") if k in more}}
    return {"max_wait_ms": max_wait_ms, "min_bytes": min_bytes, "max_bytes": max_bytes,
            "topics": [{**name_or_id(topic, version), "partitions": [part]}], **more}


def fetch(c, topic, offset, version=12, **options):
    """One partition's answer."""
    answer = c.call("Fetch", version, **fetch_request(topic, offset, version=version, **options))
    assert answer.get("error", 0) == 0, answer
    return answer["topics"][0]["partitions"][0]


def read_all(c, topic, partition=0, offset=0, until=None):
    """Every record from offset to the high watermark: (offset, timestamp, key, value)."""
    out = []
    while True:
        part = fetch(c, topic, offset, partition=partition, max_wait_ms=100)
        assert part["error"] == 0, part
        got = [r for b in rb.batches(part["records"]) for r in b.records() if r[0] >= offset]
        out += got
        offset = out[-1][0] + 1 if got else offset
        if offset >= (until if until is not None else part["high_watermark"]):
            return out


def list_offset(c, topic, timestamp, partition=0, version=7, **more):
    answer = c.call("ListOffsets", version, topics=[{"name": str(topic), "partitions": [{
        "partition": partition, "timestamp": timestamp, **{k: more.pop(k) for k in ("leader_epoch",) if k in more}}]}], **more)
    return answer["topics"][0]["partitions"][0]


def metadata(c, names, version=9, auto=False):
    topics = None if names is None else [{"name": n} for n in names]
    more = {"allow_auto_create": auto} if version >= 4 else {}
    return c.call("Metadata", version, topics=topics, **more)


def producer_id(c):
    answer = c.call("InitProducerId", 1)
    assert answer["error"] == 0, answer
    return answer["producer_id"]


# ---- running ----

class Result:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def say(self, good, name):
        self.passed += good
        self.failed += not good
        print(f"{'ok' if good else 'not ok'} {self.passed + self.failed} - {name}", flush=True)

    def skip(self, name, reason):
        self.skipped += 1
        print(f"SKIPPED {name}: {reason}", flush=True)


def run_one(t, options, result):
    c, began = Context(options), time.monotonic()
    name = f"{t.file}: {t.name}"
    try:
        t.function(c)
        if c.perigee and c.current and c.current in Context.shared.values() and not c.current.alive():
            raise BrokerError(f"the broker died:\n{c.current.log_text()[-3000:]}")
    except Skip as why:
        result.skip(name, why)
        return
    except Exception:                                # noqa: BLE001 - any failure of a test is its failure
        trace = traceback.format_exc()
        if c.current and not c.current.alive():
            trace += f"\nthe broker is gone; its log:\n{c.current.log_text()[-3000:]}"
        print("".join(f"# {line}\n" for line in trace.splitlines()), end="", flush=True)
        result.say(False, name)
        return
    finally:
        c.close()
    took = time.monotonic() - began
    result.say(True, name + (f" ({took:.1f} s)" if took > 3 else ""))


def load():
    folder = os.path.join(COMPAT, "tests")
    sys.path.insert(0, COMPAT)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".py"):
            importlib.import_module(f"tests.{file[:-3]}")


def selected(options):
    for t in TESTS:
        if options.words and not any(w in t.file or w in t.name for w in options.words):
            continue
        if t.only in (None, options.broker) and (options.full or not t.full):
            yield t


def main():
    parser = argparse.ArgumentParser(usage=__doc__.rsplit("usage: ", 1)[1])
    parser.add_argument("--broker", default="perigee", choices=["perigee", "kafka"])
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    load()
    if options.list:
        for t in selected(options):
            print(f"{t.file}: {t.name}{' [perigee only]' if t.only else ''}{' [full]' if t.full else ''}")
        return 0
    result = Result()
    try:
        for t in selected(options):
            run_one(t, options, result)
    finally:
        for b in Context.shared.values():
            b.close()
    strict = os.environ.get("CI") == "true" and result.skipped
    print(f"{result.passed} passed, {result.failed + (result.skipped if strict else 0)} failed, "
          f"{0 if strict else result.skipped} skipped")
    return 1 if result.failed or strict or not result.passed else 0


if __name__ == "__main__":
    sys.modules["raw.harness"] = sys.modules["__main__"]
    sys.exit(main())
