"""The stock-client matrix: plans, data and verdict for the programs of clients/ (their contract: clients/README.md).

A client registers itself with client(name, command, lacks); that is its test. All selected clients run beside each other; each
fills a topic of its own with every codec it has, reads it back in every way, reads what Java and librdkafka wrote, and goes through
the life of the topic. What came back is compared record by record with what was sent. Results: build/compat/matrix.json.
"""
import base64
import concurrent.futures
import fcntl
import json
import os
import random
import subprocess
import sys
import tempfile
import time
import traceback

from raw import batch as rb
from raw.broker import CACHE, COMPAT, shell
from raw.harness import Skip, fetch, selected, test
from raw.wire import Conn

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = 3
LARGE = 900_000
LIMIT_S = 30
NEEDS = {"configs": (32,), "alter": (44, 33), "grow": (37,), "trim": (21,)}      # a step is planned when one of these APIs is served
COLUMNS = ("create", "list", "describe", *CODECS, "acks 1", "acks 0", "earliest", "from offset", "from time", "ends", "reads Java's",
           "reads librdkafka's", "reads re-packed", "configs", "alter", "trim", "grow", "delete")
KINDS = {"earliest": "consume", "from offset": "consume", "from time": "consume", "reads Java's": "consume",
         "reads librdkafka's": "consume", "reads re-packed": "consume", "ends": "offsets"}
RESULTS = os.path.join(CACHE, "matrix.json")
CLIENTS = {}


class Client:
    """lacks: {word: reason}, the words of clients/README.md. command: gives the argument list, builds or fetches on first use."""

    def __init__(self, name, command, lacks=None, settings=None):
        self.name, self.command, self.lacks, self.settings = name, command, dict(lacks or {}), settings or {}

    def can(self, column):
        kind = KINDS.get(column, column)
        return not any(word in self.lacks for word in (column, kind, {"acks 0": "acks0", "from time": "time"}.get(column)))


def client(name, command, lacks=None, **settings):
    """Register a client; its test belongs to the file that calls this."""
    it = CLIENTS[name] = Client(name, command, lacks, settings)

    def function(c):
        run(c, it)
    function.__module__ = sys._getframe(1).f_globals["__name__"]
    function.client = it
    test(f"stock client {name}: create, every codec, read from start, offset and time, what Java and librdkafka wrote, the life of a topic (S5.17)")(function)
    return it


def python(venv, program):
    """The command of a program of clients/python."""
    try:
        return [os.path.join(shell("compat_matrix_venv", venv), "bin/python"), os.path.join(COMPAT, "clients/python", program)]
    except (subprocess.CalledProcessError, IndexError):
        raise Skip(f"the Python packages of {program} could not be installed") from None


# ---- data ----

def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def line_of(rec):
    p, t, k, v, h = rec
    return json.dumps({"p": p, "t": t, "k": encoded(k), "v": encoded(v), "h": [[n, encoded(x)] for n, x in h]})


def record_of(line):
    k, v = (None if line[x] is None else base64.b64decode(line[x]) for x in "kv")
    return line["p"], line["t"], k, v, [(n, None if x is None else base64.b64decode(x)) for n, x in line["h"]]


def large_value(rng, text, size):
    """Half noise, half not: it stays large under every codec."""
    noise = rng.randbytes(size // 2)
    return (noise.hex().encode() if text else noise + noise[:1000] * (size // 2000)).ljust(size, b"=")[:size]


HEADERS = ([], [], [("h", b"one")], [("same", b"1"), ("same", b"2"), ("other", b""), ("same", b"1")], [("n", None)], [("näme", b"w\xc3\xa4rt")])


def told_headers(headers, lacks):
    """Headers as a client can have them that keeps them in an object or a map."""
    if "repeated-headers" in lacks:
        return sorted(dict(headers).items())
    return sorted(headers, key=lambda h: h[0]) if "header-order" in lacks else headers


def a_set(rng, lacks, base, count, large):
    """Records in sending order: (partition, timestamp, key, value, headers). Every oddity that the client can send is in each set,
    and at last one value of so many bytes (0: none)."""
    text, out = "binary" in lacks, []
    for i in range(count):
        key = [b"key-%d" % (i % 7), None, b"" if "empty-key" not in lacks else b"k", b"k" if text else bytes(rng.randrange(256) for _ in range(9))][i % 4]
        value = [b"value %d of a set" % i, b"w" * rng.randrange(1, 300), b"v" if text else rng.randbytes(40), b"", None, b"x%d" % i][i % 6]
        if "nulls" in lacks:
            key, value = key if key is not None else b"no null", value or b"not empty"
        if "null-beside-empty" in lacks and None in (key, value):
            key, value = key if key != b"" else b"k", value if value != b"" else b"v"
        if i % 24 == 5 and "nulls" not in lacks and "both-null" not in lacks:
            key, value = None, None
        headers = [] if "headers" in lacks else HEADERS[i // 3 % len(HEADERS)]
        headers = [(n, x if x is not None or "null-headers" not in lacks else b"not null") for n, x in headers]
        headers = told_headers(headers, lacks)
        out.append((i % PARTITIONS, base + i * 10 + rng.choice((-35, 0, 0, 0, 35)), key, value, headers))
    if large:
        out.append((1, base + count * 10, b"large", large_value(rng, text, large), []))
    return out


class Log:
    """What a topic must hold: records by partition; the offset is the index."""

    def __init__(self):
        self.parts = [[] for _ in range(PARTITIONS)]

    def add(self, records):
        """The offset of each record."""
        offsets = []
        for r in records:
            offsets.append(len(self.parts[r[0]]))
            self.parts[r[0]].append(r)
        return offsets

    def ends(self):
        return [len(p) for p in self.parts]

    def first_at(self, t):
        """Where offsets-for-times must point: the first offset whose time is t or later, -1 for none."""
        return [next((o for o, r in enumerate(p) if r[1] >= t), -1) for p in self.parts]


# ---- plans ----

class Step:
    """One step, the column that it counts for, and how its answer is judged: check(closing line, record lines)."""

    def __init__(self, column, do, check=None, **more):
        self.column, self.plan, self.check = column, {"do": do, **more}, check


class Plan:
    def __init__(self, it, broker, home, full=False):
        self.it, self.broker, self.home, self.full = it, broker, home, full
        self.rng = random.Random(it.name)
        self.base = int(time.time() * 1000) - 3_000_000
        self.topic = f"matrix-{''.join(ch if ch.isalnum() else '-' for ch in it.name)}"
        self.log = Log()
        self.steps = []
        self.troubles = {}                           # {column: what went wrong outside of this client}
        self.told = []                               # of the earliest read: what the client saw

    def add(self, column, do, check=None, **more):
        if self.it.can(column):
            self.steps.append(Step(column, do, check, **more))

    def at_once(self, check):
        """Kafka's brokers hear of a change a moment after its answer; we answer when it is there (S4.12)."""
        return check if self.broker.kind == "perigee" else None

    def records_file(self, records):
        path = os.path.join(self.home, f"set-{len(self.steps)}.jsonl")
        with open(path, "w", encoding="utf-8") as f:
            f.writelines(line_of(r) + "\n" for r in records)
        return path

    def create(self, configs):
        given = {} if "configs-at-create" in self.it.lacks else configs
        self.add("create", "create", topic=self.topic, partitions=PARTITIONS, configs=given)

    def produce(self, column, number, codec="none", acks=-1, idempotent=True, linger_ms=20):
        if not self.it.can(column):
            return
        count = self.it.settings.get("records", 3_000 if self.full else 24 if acks == 0 else 48)
        large = self.it.settings.get("large", LARGE) if number < len(CODECS) else 0
        records = a_set(self.rng, self.it.lacks, self.base + number * 400_000, count, large)
        offsets = self.log.add(records)
        self.add(column, "produce", same_offsets(offsets, acks), topic=self.topic, records=self.records_file(records), codec=codec,
                 acks=acks, idempotent=idempotent and "idempotent" not in self.it.lacks, linger_ms=linger_ms)

    def produce_all(self):
        for n, codec in enumerate(CODECS):
            self.produce(codec, n, codec)
        self.produce("acks 1", 5, acks=1, idempotent=False, linger_ms=0)
        self.produce("acks 0", 6, acks=0, idempotent=False, linger_ms=5)

    def read(self):
        ends, log = self.log.ends(), self.log
        half = [n // 2 for n in ends[:-1]] + ends[-1:]
        self.add("earliest", "consume", same_records(self, log, [0] * PARTITIONS), topic=self.topic, until=ends, **{"from": "earliest"})
        self.add("from offset", "consume", same_records(self, log, half), topic=self.topic, until=ends, offsets=half, **{"from": "offsets"})
        for ahead in (800_235, 2_999_000 if "timestamps" not in self.it.lacks else 90_000_000):
            self.add("from time", "consume", same_by_time(self, log, self.base + ahead), topic=self.topic, until=ends,
                     time=self.base + ahead, **{"from": "time"})
        self.add("ends", "offsets", result_is(earliest=[0] * PARTITIONS, latest=ends), topic=self.topic, partitions=PARTITIONS)

    def cross(self, references):
        for column, reference in references.items():
            if isinstance(reference, str):
                self.troubles[column] = reference[:500]
            elif reference:
                topic, log = reference
                self.add(column, "consume", same_records(self, log, [0] * PARTITIONS, foreign=True), topic=topic, until=log.ends(),
                         **{"from": "earliest"})

    def life(self, served):
        ends, name = self.log.ends(), self.topic
        cut = [5, 0, ends[2] - 2]

        def may(column):
            return any(key in served for key in NEEDS[column])
        if may("configs"):
            if "configs-at-create" not in self.it.lacks and self.it.can("create"):
                self.add("configs", "configs", setting_is("retention.ms", "86400000"), topic=name)
            if may("alter"):
                self.add("alter", "alter", topic=name, configs={"retention.ms": "172800000"})
                if self.it.can("alter"):
                    self.add("configs", "configs", self.at_once(setting_is("retention.ms", "172800000")), topic=name)
        if may("trim") and self.it.can("trim"):
            self.add("trim", "trim", low_is(cut), topic=name, offsets=cut)
            self.add("ends", "offsets", result_is(earliest=cut, latest=ends), topic=name, partitions=PARTITIONS)
            self.add("earliest", "consume", same_records(self, self.log, cut), topic=name, until=ends, **{"from": "earliest"})
            self.add("trim", "trim", low_is([5, 0, ends[2]]), topic=name, offsets=[5, 0, ends[2]])
            self.add("ends", "offsets", result_is(earliest=[5, 0, ends[2]], latest=ends), topic=name, partitions=PARTITIONS)
        if may("grow"):
            self.add("grow", "grow", topic=name, partitions=PARTITIONS + 2)
            if self.it.can("grow"):
                self.add("describe", "describe", self.at_once(result_is(partitions=PARTITIONS + 2)), topic=name)
        if self.it.can("create"):                    # else nobody but the test would have made it
            self.add("delete", "delete", topic=name)
            if self.it.can("delete"):
                self.add("list", "list", self.at_once(not_listed(name)))

    def whole(self, served, references):
        self.filled(references).life(served)
        return self

    def filled(self, references):
        self.create({"retention.ms": "86400000", "max.message.bytes": "1048588"})
        self.add("list", "list", self.at_once(listed(self.topic)))
        self.add("describe", "describe", result_is(partitions=PARTITIONS), topic=self.topic)
        self.produce_all()
        self.read()
        self.cross(references)
        return self

    def rest(self, served):
        """The life of the topic that this plan filled, as a plan of its own."""
        it = Plan(self.it, self.broker, new_home(), self.full)
        it.topic, it.log = self.topic, self.log
        it.life(served)
        return it


# ---- verdicts: each returns a function of (closing line, record lines) that gives a complaint or None ----

def result_is(**wanted):
    def check(end, _):
        return next((f"{k} is {end.get(k)}, not {v}" for k, v in wanted.items() if end.get(k) != v), None)
    return check


def same_offsets(wanted, acks):
    def check(end, _):
        got = end.get("offsets", [])
        if len(got) != len(wanted):
            return f"{len(got)} offsets for {len(wanted)} records"
        bad = [(g, w) for g, w in zip(got, wanted) if g != w and acks]       # nobody tells the client with acks 0
        return f"offsets (got, wanted): {bad[:5]}" if bad else None
    return check


def listed(topic):
    return lambda end, _: None if topic in end["topics"] else f"{topic} is not in {end['topics'][:20]}"


def not_listed(topic):
    return lambda end, _: f"{topic} is still listed" if topic in end["topics"] else None


def setting_is(name, value):
    return lambda end, _: None if end["configs"].get(name) == value else f"{name} is {end['configs'].get(name)!r}, not {value!r}"


def low_is(cut):
    def check(end, _):
        low = end.get("low", [])
        return None if len(low) == len(cut) and all(g in (-1, w) for g, w in zip(low, cut)) else f"low watermarks {low}, not {cut}"
    return check


def plain(rec, lacks, foreign):
    """The record as far as this client can tell."""
    p, t, k, v, h = rec
    if "nulls" in lacks or "tells-nulls" in lacks:
        k, v = k or b"", v or b""
        h = [(n, x or b"") for n, x in h]
    if "empty-key" in lacks:
        k = k or None
    t = 0 if "timestamps" in lacks and not foreign else t
    return p, t, k, v, [] if "headers" in lacks else told_headers(h, lacks)


def short(rec):
    return tuple(x if not isinstance(x, bytes) or len(x) < 40 else f"{x[:12]!r}... {len(x)} bytes" for x in rec)


def same_records(plan, log, starts, foreign=False):
    def check(_, lines):
        lacks, got = plan.it.lacks, [[] for _ in range(PARTITIONS)]
        for line in lines:
            got[line["p"]].append((line["o"], record_of(line)))
        for p in range(PARTITIONS):
            wanted = list(enumerate(log.parts[p]))[starts[p]:] if starts[p] >= 0 else []
            if not foreign and starts[p] == 0 and len(got[p]) == len(log.parts[p]):
                plan.told.extend(r for _, r in got[p])
            if [o for o, _ in got[p]] != [o for o, _ in wanted]:
                return f"partition {p}: {len(got[p])} of {len(wanted)} records, offsets {[o for o, _ in got[p]][:8]}... from {starts[p]}"
            for (o, g), (_, w) in zip(got[p], wanted):
                if plain(g, lacks, foreign) != plain(w, lacks, foreign):
                    return f"partition {p} offset {o}: {short(plain(g, lacks, foreign))}, sent {short(plain(w, lacks, foreign))}"
        return None
    return check


def same_by_time(plan, log, t):
    def check(end, lines):
        seen = log
        if "timestamps" in plan.it.lacks:            # its times are its own: they came with the earliest read
            seen = Log()
            seen.add(plan.told)
        wanted = seen.first_at(t)
        return f"starts {end.get('start')}, not {wanted}" if end.get("start") != wanted else same_records(plan, log, wanted)(end, lines)
    return check


# ---- running ----

def execute(plan):
    """Run the client's program; returns (head, {step: (closing line, record lines)}, what it printed)."""
    path, out = os.path.join(plan.home, "plan.json"), os.path.join(plan.home, "out.jsonl")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"broker": plan.broker.addr, "out": out, "limit_s": LIMIT_S * (6 if plan.full else 1), "steps": [s.plan for s in plan.steps]}, f)
    command = plan.it.command() + [path]
    with open(os.path.join(plan.home, "said"), "wb") as said:
        done = subprocess.run(command, stdout=said, stderr=said, stdin=subprocess.DEVNULL, cwd=plan.home, check=False,
                              timeout=1500 if plan.full else 150)
    with open(said.name, encoding="utf-8", errors="replace") as f:
        text = f.read()
    head, steps, lines = {}, {}, {}
    if os.path.exists(out):
        with open(out, encoding="utf-8") as f:
            for line in map(json.loads, f):
                if "client" in line:
                    head = line
                elif "o" in line:
                    lines.setdefault(line["step"], []).append(line)
                else:
                    steps[line["step"]] = (line, lines.get(line["step"], []))
    if done.returncode or len(steps) != len(plan.steps):
        text = f"exit status {done.returncode}, {len(steps)} of {len(plan.steps)} steps closed\n{text}"
    return head, steps, text


def judge(plan, steps):
    """{column: 'yes' or what is wrong}"""
    cells = dict(plan.troubles)
    for n, step in enumerate(plan.steps):
        end, lines = steps.get(n, ({"ok": False, "error": "the program did not come so far"}, []))
        if "skip" in end:
            wrong = f"skipped though its row does not say so: {end['skip']}"
        elif not end.get("ok"):
            wrong = f"{step.plan['do']}: {end.get('error')}"
        else:
            try:
                wrong = step.check(end, lines) if step.check else None
            except Exception:                        # noqa: BLE001 - an answer that cannot be read is a wrong answer
                wrong = f"unreadable answer: {traceback.format_exc(limit=2)}"
        if cells.get(step.column, "yes") == "yes":
            cells[step.column] = f"step {n} {step.plan['do']}: {wrong}" if wrong else "yes"
    return cells


def write_results(shards, plan, head, cells, took):
    """One cell file for all runners; whoever writes holds the lock."""
    with open(RESULTS + ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        results = {}
        if os.path.exists(RESULTS):
            with open(RESULTS, encoding="utf-8") as f:
                results = json.load(f)
        row = {c: cells.get(c, "lacks" if not plan.it.can(c) else "not tried") for c in COLUMNS}
        if row["list"] == "not tried" and "list" in plan.it.lacks:
            row["list"] = "lacks"
        results.setdefault(plan.it.name, {})[str(shards)] = {"version": head.get("version", "?"), "cells": row, "lacks": plan.it.lacks,
                                                            "seconds": round(took, 1), "full": plan.full}
        with open(RESULTS + ".part", "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1, sort_keys=True)
        os.rename(RESULTS + ".part", RESULTS)


def new_home():
    return tempfile.mkdtemp(prefix="matrix-", dir=os.environ.get("COMPAT_TMP"))


def written(name, broker, full=False, **configs):
    """This client creates a topic and writes every codec into it: (topic, log)."""
    plan = Plan(CLIENTS[name], broker, new_home(), full)
    plan.topic += "-re-packed" if configs else "-written"
    plan.create({k.replace("_", "."): v for k, v in configs.items()})
    plan.produce_all()
    _, steps, said = execute(plan)
    bad = {k: v for k, v in judge(plan, steps).items() if v != "yes"}
    assert not bad, f"{name} could not write: {bad}\n{said[-2000:]}"
    return plan.topic, plan.log


class Race:
    """All selected clients against one broker, a few beside each other; the writers that everybody reads come first."""
    AT_ONCE = 3

    def __init__(self, c, broker):
        self.broker, self.full, self.shards, self.perigee = broker, c.full, c.shards, c.perigee
        self.log_from = len(broker.log_text())
        with Conn(broker.addr) as conn:
            self.served = {k["key"] for k in conn.call("ApiVersions", 0)["keys"]}
        self.pool = concurrent.futures.ThreadPoolExecutor(self.AT_ONCE)
        self.written = {"reads Java's": self.pool.submit(self.write, NEWEST_JAVA), "reads librdkafka's": self.pool.submit(self.write, LIBRDKAFKA),
                        "reads re-packed": self.pool.submit(self.write, LIBRDKAFKA, compression_type="lz4")}
        wanted = [t.function.client for t in selected(c.options) if hasattr(t.function, "client")]
        self.done = {it.name: self.pool.submit(self.one, it) for it in wanted}
        self.pool.shutdown(wait=False)

    def write(self, name, **configs):
        """(topic, log), or None where this client is not to be had, or a text that says why it could not write."""
        try:
            return written(name, self.broker, self.full, **configs) if name in CLIENTS else None
        except Skip:
            return None
        except Exception as e:                       # noqa: BLE001 - the writer's own test says it, too
            return f"{type(e).__name__}: {e}"

    def one(self, it):
        began = time.monotonic()
        it.command()                                 # fetched and built before others are waited for
        references = {column: f.result() for column, f in self.written.items()}
        plan = Plan(it, self.broker, new_home(), self.full)
        if not it.can("create"):
            make_topic(self.broker, plan.topic)
        if it.can("earliest") and "tells-nulls" not in it.lacks:
            head, steps, said = execute(plan.whole(self.served, references))
            cells = judge(plan, steps)
        else:                                        # what it wrote is read by the raw client before the topic goes
            head, steps, said = execute(plan.filled(references))
            cells = {**judge(plan, steps), "as stored": stored(self.broker, plan) or "yes"}
            rest = plan.rest(self.served)
            _, steps, more = execute(rest)
            cells.update({k: v for k, v in judge(rest, steps).items() if cells.get(k, "yes") == "yes"})
            said += more
        if self.perigee:
            write_results(self.shards, plan, head, cells, time.monotonic() - began)
        return head, cells, said


def stored(broker, plan):
    """A complaint when the topic does not hold what the plan's client was given to send."""
    weak = {k: v for k, v in plan.it.lacks.items() if k != "tells-nulls"}
    with Conn(broker.addr) as c:
        for p, wanted in enumerate(plan.log.parts):
            got, at = [], 0
            while len(got) < len(wanted):
                part = fetch(c, plan.topic, at, partition=p)
                batches = rb.batches(part["records"])
                if part["error"] or not batches:
                    return f"partition {p}: error {part['error']} at {at} of {len(wanted)}"
                got += [(p, t, k, v, h) for b in batches for _, t, k, v, h in b.whole_records()]
                at = len(got)
            for o, (g, w) in enumerate(zip(got, wanted)):
                if plain(g, weak, False) != plain(w, weak, False):
                    return f"stored in partition {p} at offset {o}: {short(g)}, sent {short(w)}"
    return None


NEWEST_JAVA, LIBRDKAFKA = "Java kafka-clients (newest)", "librdkafka (Debian)"


def make_topic(broker, topic):
    with Conn(broker.addr) as c:
        answer = c.call("CreateTopics", 2, topics=[{"name": topic, "partitions": PARTITIONS, "replication": 1}])["topics"][0]
        assert answer["error"] == 0, answer


RACES = {}


def run(c, it):
    broker = c.broker()
    race = RACES.get(broker.addr)
    if not race:
        race = RACES[broker.addr] = Race(c, broker)
    head, cells, said = race.done[it.name].result(1800 if c.full else 600)
    bad = {k: v for k, v in cells.items() if v != "yes"}
    assert not bad, f"{it.name} {head.get('version')}:\n" + "\n".join(f"  {k}: {v}" for k, v in bad.items()) + f"\nit said:\n{said[-3000:]}"
    errors = [line for line in broker.log_text()[race.log_from:].splitlines() if c.perigee and " ERROR " in line]
    assert not errors, errors[:5]
    assert head.get("version"), f"no version told:\n{said[-2000:]}"
    assert sum(v == "yes" for v in cells.values()) >= 6, cells
