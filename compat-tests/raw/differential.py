"""Two brokers, one request: what both answer, made comparable.

A case is a function(side, version) that sends requests through side.call and returns what it saw. It runs on perigee and on Apache Kafka;
the two answers are reduced (ids, addresses and words are replaced by what they stand for) and compared field by field. A difference is
a line "Api v3 case name: path: perigee X, kafka Y"; DEVIATIONS of tests/differential.py say which lines are meant, and why.
"""
import fnmatch
import re
import struct
import time

from raw import batch as rb
from raw import schema
from raw.wire import Conn, frame, request_header

CASES = []
SILENT_S = 3
SETTLE_S = 20


class Case:
    def __init__(self, api, name, function, since, until):
        self.api, self.name, self.function, self.since, self.until = api, name, function, since, until


def case(api, name, since=0, until=999):
    """A case of an API, run with every version from since to until that both brokers advertise."""
    def add(function):
        CASES.append(Case(api, name, function, since, until))
        return function
    return add


class Id:
    """Stands for a topic's id in a request."""

    def __init__(self, topic):
        self.topic = topic


class Node:
    """Stands for the broker's own id in a request."""


class Side:
    """One broker with what was made on it. A connection is opened anew when the broker closed it."""

    def __init__(self, kind, broker):
        self.kind, self.broker = kind, broker
        self.ids, self.conn, self.numbers = {}, None, {}
        info = self.call("Metadata", 9, topics=[])
        self.node, self.cluster = info["brokers"][0]["node_id"], info["cluster_id"]

    @property
    def perigee(self):
        return self.kind == "perigee"

    def close(self):
        if self.conn:
            self.conn.close()
            self.conn = None

    def connection(self):
        if self.conn is None:
            self.conn = Conn(self.broker.addr, timeout=SILENT_S)
        return self.conn

    def own(self, value):
        """A request with the stand-ins replaced by what they are on this side."""
        if isinstance(value, Id):
            return self.ids.get(value.topic, b"\x11" * 16)
        if isinstance(value, Node):
            return self.node
        if isinstance(value, dict):
            return {k: self.own(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.own(v) for v in value]
        return value

    def call(self, api, version, **values):
        """The decoded answer, or "closed", or "silent"."""
        return self.attempt(lambda c: c.call(api, version, **self.own(values)))

    def one_way(self, api, version, **values):
        """A request without an answer, then Metadata on the same connection: "none" when only that is answered."""
        def go(c):
            c.send(api, version, **self.own(values))
            c.call("Metadata", 9, topics=[])
            return "none"
        return self.attempt(go)

    def bytes(self, api, version, body, **header):
        """A request whose body is given as bytes."""
        a = schema.APIS[api]

        def go(c):
            c.correlation += 1
            head = header.get("head") or request_header(a.key, header.get("version", version), c.correlation,
                                                        header.get("client_id", "compat"), version >= a.flex)
            c.raw(frame(head + body))
            return c.recv(api, header.get("answer_version", version))
        return self.attempt(go)

    def attempt(self, go):
        try:
            return go(self.connection())
        except (EOFError, BrokenPipeError, ConnectionError):
            self.close()
            return "closed"
        except TimeoutError:
            self.close()
            return "silent"
        except (ValueError, AssertionError, struct.error) as e:
            self.close()
            return f"unreadable: {e}"

    def create(self, name, partitions=1, **configs):
        answer = self.call("CreateTopics", 7, topics=[{
            "name": name, "partitions": partitions, "replication": 1,
            "configs": [{"name": k.replace("_", "."), "value": str(v)} for k, v in configs.items()]}])["topics"][0]
        assert answer["error"] == 0, (self.kind, answer)
        self.ids[name] = answer["topic_id"]
        until(lambda: self.ends(name, partitions) is not None, f"{self.kind}: no partitions of {name}")

    def ends(self, topic, partitions):
        answer = self.call("ListOffsets", 7, topics=[{"name": topic, "partitions": [
            {"partition": p, "timestamp": -1} for p in range(partitions)]}])
        parts = answer["topics"][0]["partitions"]
        return None if any(p["error"] for p in parts) else [p["offset"] for p in parts]

    def fill(self, topic, batches, records):
        """So many batches of so many records into partition 0."""
        for i in range(batches):
            data = rb.batch([(b"k", b"v%d-%d" % (i, n)) for n in range(records)])
            self.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": data}]}])

    def fresh(self, stem):
        """A topic name not used before, the same on both sides."""
        self.numbers[stem] = self.numbers.get(stem, 0) + 1
        return f"{stem}-{self.numbers[stem]}"


def until(true, what):
    """Kafka answers before it is done, and asks again; something that never comes is an error of the case."""
    end = time.monotonic() + SETTLE_S
    while not true():
        if time.monotonic() > end:
            raise TimeoutError(what)


# ---- making comparable ----

WORDS = {"error_message", "message", "documentation"}
NODES = {"leader", "replicas", "isr", "offline", "controller_id", "node_id", "leader_id", "broker_id", "eligible", "last_known_elr", "elr"}
GONE = {"throttle_ms", "_tags"}
SORT_BY = ("name", "topic_id", "partition", "index", "key", "type", "resource_type", "resource_name", "path", "broker_id", "node_id")


def reduce(side, value, name=""):
    """An answer with everything replaced that may differ between two good brokers."""
    if isinstance(value, dict):
        return {k: reduce(side, v, k) for k, v in value.items() if k not in GONE}
    if isinstance(value, list) and name not in NODES:
        items = [reduce(side, v, name) for v in value]
        return sorted(items, key=sort_key) if name and items and isinstance(items[0], dict) else items    # a case's own list keeps its order
    if name in NODES:
        items = value if isinstance(value, list) else [value]
        named = ["self" if v == side.node else v for v in items or []]
        return named if isinstance(value, list) else named[0]
    return reduce_leaf(side, value, name)


def reduce_leaf(side, value, name):
    if name in WORDS:
        return value if not value else "words"
    if name == "topic_id":
        back = {v: k for k, v in side.ids.items()}
        return "zero" if value == bytes(16) else f"id of {back[value]}" if value in back else "an id"
    if name == "cluster_id":
        return "own" if value == side.cluster else value
    if name in ("host", "port"):
        return "own" if value else value
    if name in ("log_append_time", "producer_id", "session_id"):
        return value if value <= 0 else "some"
    if name == "records" and isinstance(value, bytes):
        return [(b.base_offset, b.last_delta, b.codec, b.attributes, b.count, b.magic, b.good_crc) for b in rb.batches(value)]
    return value


def sort_key(item):
    return tuple(str(item.get(k)) for k in SORT_BY)


def differences(ours, theirs, path=""):
    """Lines "path: perigee X, kafka Y"."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for k in sorted(set(ours) | set(theirs), key=str):
            yield from differences(ours.get(k, "absent"), theirs.get(k, "absent"), f"{path}.{k}" if path else str(k))
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for i, pair in enumerate(zip(ours, theirs)):
            yield from differences(*pair, f"{path}[{label(i, *pair)}]")
    elif ours != theirs:
        yield f"{path or 'answer'}: perigee {brief(ours)}, kafka {brief(theirs)}"


def label(i, ours, theirs):
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.get("name") == theirs.get("name") and ours.get("name"):
        return ours["name"]
    return i


def brief(value):
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "…"


# ---- the sweep ----

def ranges(side):
    """{api name: (min, max)} of what the side advertises and the tests can speak."""
    names = {a.key: n for n, a in schema.APIS.items()}
    keys = side.call("ApiVersions", 3, software_name="compat", software_version="1")["keys"]
    return {names[k["key"]]: (k["min"], k["max"]) for k in keys if k["key"] in names}


def common(sides):
    """{api: versions that both advertise}."""
    ours, theirs = (ranges(s) for s in sides)
    return {api: range(max(lo, theirs[api][0]), min(hi, theirs[api][1]) + 1) for api, (lo, hi) in ours.items() if api in theirs}


def sweep(sides, words=()):
    """Runs every case at every version on both sides; (number of comparisons, difference lines)."""
    versions, lines, count = common(sides), [], 0
    for case_ in CASES:
        for version in versions.get(case_.api, ()):
            if not case_.since <= version <= case_.until or words and case_.api not in words:
                continue
            seen = []
            for s in sides:
                try:
                    seen.append(reduce(s, case_.function(s, version)))
                except (KeyError, TypeError, IndexError, TimeoutError) as e:    # an answer too unlike for the case to read it
                    seen.append(f"unlike: {type(e).__name__} {e}")
            count += 1
            lines += [f"{case_.api} v{version} {case_.name}: {d}" for d in differences(*seen)]
    return count, lines


def judge(lines, deviations):
    """(lines that no deviation explains, deviations that explain nothing)."""
    patterns = [re.compile(fnmatch.translate(p) if not p.startswith("re:") else p[3:]) for p, _ in deviations]
    used, left = set(), []
    for line in lines:
        hits = [i for i, p in enumerate(patterns) if p.match(line)]
        used.update(hits)
        if not hits:
            left.append(line)
    return left, [deviations[i][0] for i in range(len(deviations)) if i not in used]
