"""The cases of the differential test (differential.py) for settings, partitions, records and log directories."""
from raw.differential import case

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
CHANGING = {"d-conf": "retention.ms"}
# Settings whose value is a matter of the machine or of the broker itself.
OWN_VALUES = {"log.dirs", "log.dir", "listeners", "advertised.listeners", "controller.quorum.voters", "node.id", "broker.id", "process.roles",
              "controller.listener.names", "listener.security.protocol.map"}


# ---- DescribeConfigs ----

def described(s, v, *resources, **more):
    """Names only of what differs from machine to machine; "own" is the broker's own id."""
    asked = [{"type": t, "name": str(s.node) if n == "own" else n, "keys": k} for t, n, k in resources]
    answer = s.call("DescribeConfigs", v, resources=asked, **more)
    for r in answer["results"] if isinstance(answer, dict) else ():
        r["name"] = "own" if r["name"] == str(s.node) else r["name"]
        for c in r["configs"]:
            c["value"] = "own" if c["name"] in OWN_VALUES else c["value"]
            if c["name"] in OWN_VALUES:
                c["synonyms"], c["source"], c["is_default"] = [], 0, False
        r["configs"] = {c.pop("name"): c for c in r["configs"]}
        for c in r["configs"].values():
            c["synonyms"] = [(x["name"], x["value"], x["source"]) for x in c.get("synonyms", ())]
    return answer


for _name, _resources in {
        "a topic": [(TOPIC, "d-conf", None)], "three settings, one unknown": [(TOPIC, "d-conf", ["retention.ms", "segment.bytes", "no.such"])],
        "no setting": [(TOPIC, "d-conf", [])], "a missing topic": [(TOPIC, "d-missing", None)], "a bad name": [(TOPIC, "a b", None)],
        "an empty name": [(TOPIC, "", None)], "two topics": [(TOPIC, "d-conf", ["retention.ms"]), (TOPIC, "d-two", ["retention.ms"])],
        "a topic twice": [(TOPIC, "d-conf", ["retention.ms"]), (TOPIC, "d-conf", ["segment.ms"])], "nothing": [],
        "the broker's settings of time": [(BROKER, "own", ["log.retention.ms", "log.retention.hours", "log.roll.ms", "message.max.bytes"])],
        "all brokers": [(BROKER, "", None)], "a stranger": [(BROKER, "77", None)], "a broker with a name": [(BROKER, "one", None)],
        "type 0": [(0, "x", None)], "type 99": [(99, "x", None)], "loggers": [(LOGGER, "own", ["root"])], "a group": [(GROUP, "g", None)],
        "client metrics": [(METRICS, "m", None)], "client metrics without a name": [(METRICS, "", None)]}.items():
    def describe(s, v, resources=_resources):
        return described(s, v, *resources)
    case("DescribeConfigs", _name)(describe)

    def describe_synonyms(s, v, resources=_resources):
        return described(s, v, *resources, with_synonyms=True)
    case("DescribeConfigs", f"with synonyms: {_name}", since=1)(describe_synonyms)


@case("DescribeConfigs", "the broker, every setting")
def describe_broker(s, v):
    answer = described(s, v, (BROKER, "own", None))
    for r in answer["results"]:
        r["configs"] = {n: (c["type"] if v >= 3 else 0, c["read_only"], c["sensitive"]) for n, c in r["configs"].items()}
    return answer


@case("DescribeConfigs", "with documentation", since=3)
def describe_documented(s, v):
    answer = described(s, v, (TOPIC, "d-conf", None), with_docs=True)
    return sorted(n for n, c in answer["results"][0]["configs"].items() if c["documentation"])


# ---- AlterConfigs, IncrementalAlterConfigs ----

def settings_of(s, topic):
    """What the topic itself sets."""
    answer = s.call("DescribeConfigs", 4, resources=[{"type": TOPIC, "name": topic, "keys": None}])
    return {c["name"]: c["value"] for c in answer["results"][0]["configs"] if c["source"] == 1}


def altered(s, v, *resources, **more):
    """The answer to a replacing change, and the settings of the topic afterwards."""
    topic = s.fresh(f"alter{v}")
    s.create(topic, retention_ms=777_000)
    asked = [{"type": t, "name": n or topic, "configs": [{"name": k, "value": x} for k, x in c]} for t, n, c in resources]
    answer = s.call("AlterConfigs", v, resources=asked, **more)
    for r in answer["responses"] if isinstance(answer, dict) else ():
        r["name"] = "own" if r["name"] == topic else r["name"]
    return [answer, changed(s, topic)]


def changed(s, topic):
    """Kafka's broker hears of a change later than the answer leaves: it is asked until two answers agree."""
    if s.perigee:
        return settings_of(s, topic)
    last = None
    for _ in range(40):
        now = settings_of(s, topic)
        if now == last and now != {"retention.ms": "777000"}:
            return now
        last = now
    return last


ALTER = {
    "one": [("segment.ms", "100000")], "none": [], "unknown": [("no.such", "1")], "bad value": [("retention.ms", "soon")],
    "good and bad": [("segment.ms", "100000"), ("retention.ms", "soon")], "null": [("retention.ms", None)], "empty": [("retention.ms", "")],
    "twice": [("retention.ms", "1"), ("retention.ms", "2")], "blank": [("retention.ms", " 5 ")], "list": [("cleanup.policy", "compact,delete")],
    "bad choice": [("cleanup.policy", "shred")], "out of range": [("segment.bytes", "1")], "true": [("preallocate", "TRUE")],
    "a broker's": [("log.retention.ms", "1")],
}
for _name, _configs in ALTER.items():
    def alter(s, v, configs=_configs):
        return altered(s, v, (TOPIC, None, configs))
    case("AlterConfigs", _name)(alter)

    def alter_dry(s, v, configs=_configs):
        return altered(s, v, (TOPIC, None, configs), validate_only=True)[0]
    case("AlterConfigs", f"only asked: {_name}")(alter_dry)

for _name, _resources in {
        "a missing topic": [(TOPIC, "d-missing", [("retention.ms", "1")])], "a bad name": [(TOPIC, "a b", [("retention.ms", "1")])],
        "type 0": [(0, "x", [])], "type 99": [(99, "x", [])], "a stranger": [(BROKER, "77", [("log.retention.ms", "1")])],
        "a broker with a name": [(BROKER, "one", [("log.retention.ms", "1")])], "nothing": [],
        "a topic twice": [(TOPIC, "d-two", [("retention.ms", "1")]), (TOPIC, "d-two", [("retention.ms", "2")])],
        "unknown for brokers": [(BROKER, "", [("no.such", "1")])], "read-only for brokers": [(BROKER, "", [("log.dirs", "/x")])]}.items():
    def alter_what(s, v, resources=_resources):
        return altered(s, v, *resources)[0]
    case("AlterConfigs", _name)(alter_what)


def incremental(s, v, *resources, **more):
    topic = s.fresh(f"incremental{v}")
    s.create(topic, retention_ms=777_000, cleanup_policy="delete")
    asked = [{"type": t, "name": n or topic, "configs": [{"name": k, "op": op, "value": x} for k, op, x in c]} for t, n, c in resources]
    answer = s.call("IncrementalAlterConfigs", v, resources=asked, **more)
    for r in answer["responses"] if isinstance(answer, dict) else ():
        r["name"] = "own" if r["name"] == topic else r["name"]
    return [answer, changed(s, topic)]


INCREMENTAL = {
    "set": [("segment.ms", SET, "100000")], "set and delete": [("segment.ms", SET, "100000"), ("retention.ms", DELETE, None)],
    "delete what is not set": [("segment.ms", DELETE, None)], "delete with a value": [("retention.ms", DELETE, "5")], "delete unknown": [("no.such", DELETE, None)],
    "append": [("cleanup.policy", APPEND, "compact")], "append what is there": [("cleanup.policy", APPEND, "delete")],
    "append two": [("cleanup.policy", APPEND, "compact,delete")], "append to a number": [("retention.ms", APPEND, "5")],
    "append nonsense": [("cleanup.policy", APPEND, "shred")], "subtract": [("cleanup.policy", SUBTRACT, "delete")],
    "subtract what is not there": [("cleanup.policy", SUBTRACT, "compact")], "subtract from a number": [("retention.ms", SUBTRACT, "5")],
    "set null": [("retention.ms", SET, None)], "append null": [("cleanup.policy", APPEND, None)], "operation 9": [("retention.ms", 9, "1")],
    "unknown": [("no.such", SET, "1")], "bad value": [("retention.ms", SET, "soon")], "good and bad": [("segment.ms", SET, "100000"), ("retention.ms", SET, "soon")],
    "twice": [("retention.ms", SET, "1"), ("retention.ms", SET, "2")], "set and delete one": [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)],
    "empty": [("retention.ms", SET, "")], "empty list": [("cleanup.policy", SET, "")], "none": [],
}
for _name, _configs in INCREMENTAL.items():
    def alter_some(s, v, configs=_configs):
        return incremental(s, v, (TOPIC, None, configs))
    case("IncrementalAlterConfigs", _name)(alter_some)

    def alter_some_dry(s, v, configs=_configs):
        return incremental(s, v, (TOPIC, None, configs), validate_only=True)[0]
    case("IncrementalAlterConfigs", f"only asked: {_name}")(alter_some_dry)

for _name, _resources in {
        "a missing topic": [(TOPIC, "d-missing", [("retention.ms", SET, "1")])], "a bad name": [(TOPIC, "a b", [("retention.ms", SET, "1")])],
        "type 0": [(0, "x", [])], "type 99": [(99, "x", [])], "a stranger": [(BROKER, "77", [("log.retention.ms", SET, "1")])],
        "a broker with a name": [(BROKER, "one", [("log.retention.ms", SET, "1")])], "nothing": [],
        "a topic twice": [(TOPIC, "d-two", [("retention.ms", SET, "1")]), (TOPIC, "d-two", [("retention.ms", SET, "2")])],
        "unknown for brokers": [(BROKER, "", [("no.such", SET, "1")])], "read-only for brokers": [(BROKER, "", [("log.dirs", SET, "/x")])],
        "all brokers": [(BROKER, "", [("log.cleaner.threads", SET, "2")])], "a group": [(GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])],
        "unknown for groups": [(GROUP, "g", [("no.such", SET, "1")])], "an empty topic name": [(TOPIC, "", [("retention.ms", SET, "1")])]}.items():
    def alter_some_what(s, v, resources=_resources):
        return incremental(s, v, *[(t, n if n else "", c) for t, n, c in resources])[0]
    case("IncrementalAlterConfigs", _name)(alter_some_what)


# ---- ListConfigResources ----

for _types in ((), (TOPIC,), (BROKER,), (LOGGER,), (METRICS,), (GROUP,), (TOPIC, BROKER), (0,), (99,)):
    def list_resources(s, v, types=_types):
        answer = s.call("ListConfigResources", v, resource_types=list(types))
        answer["resources"] = sorted({(r.get("type"), "own" if r["name"] == str(s.node) else r["name"]) for r in answer["resources"]
                                      if r["name"].startswith("d-") or not r.get("type") == TOPIC}, key=str)
        return answer
    case("ListConfigResources", f"types {_types}", since=1)(list_resources)

case("ListConfigResources", "as it was", until=0)(lambda s, v: s.call("ListConfigResources", v))


# ---- CreatePartitions ----

def grown(s, v, count, assignments=None, names=None, **more):
    topic = s.fresh(f"grow{v}")
    s.create(topic, partitions=2)
    topics = [{"name": n or topic, "count": count, "assignments": None if assignments is None else [{"brokers": b} for b in assignments]}
              for n in names or (None,)]
    answer = s.call("CreatePartitions", v, topics=topics, **more)
    for r in answer["results"] if isinstance(answer, dict) else ():
        r["name"] = "own" if r["name"] == topic else r["name"]
    return answer


for _count in (3, 2, 1, 0, -1):
    def grow_to(s, v, count=_count):
        return grown(s, v, count)
    case("CreatePartitions", f"from 2 to {_count}")(grow_to)

    def grow_dry(s, v, count=_count):
        return grown(s, v, count, validate_only=True)
    case("CreatePartitions", f"only asked: from 2 to {_count}")(grow_dry)

case("CreatePartitions", "a missing topic")(lambda s, v: grown(s, v, 3, names=("d-missing",)))
case("CreatePartitions", "a bad name")(lambda s, v: grown(s, v, 3, names=("a b",)))
case("CreatePartitions", "a topic twice")(lambda s, v: grown(s, v, 3, names=(None, None)))
case("CreatePartitions", "good and missing")(lambda s, v: grown(s, v, 3, names=(None, "d-missing")))
case("CreatePartitions", "nothing")(lambda s, v: s.call("CreatePartitions", v, topics=[]))
case("CreatePartitions", "assigned")(lambda s, v: grown(s, v, 4, assignments=[[s.node], [s.node]]))
case("CreatePartitions", "assigned too few")(lambda s, v: grown(s, v, 4, assignments=[[s.node]]))
case("CreatePartitions", "assigned too many")(lambda s, v: grown(s, v, 3, assignments=[[s.node], [s.node]]))
case("CreatePartitions", "assigned to a stranger")(lambda s, v: grown(s, v, 3, assignments=[[77]]))
case("CreatePartitions", "assigned to nobody")(lambda s, v: grown(s, v, 3, assignments=[[]]))
case("CreatePartitions", "assigned twice to one")(lambda s, v: grown(s, v, 3, assignments=[[s.node, s.node]]))
case("CreatePartitions", "assigned, with an empty list")(lambda s, v: grown(s, v, 3, assignments=[]))


# ---- DeleteRecords ----

def trimmed(s, v, *offsets, partition=0, topic=None):
    """The answers to several cuts of one partition with 9 records in 3 batches, and where it then begins."""
    name = s.fresh(f"trim{v}")
    s.create(name)
    s.fill(name, 3, 3)
    out = []
    for offset in offsets:
        answer = s.call("DeleteRecords", v, topics=[{"name": topic or name, "partitions": [{"partition": partition, "offset": offset}]}])
        for t in answer["topics"] if isinstance(answer, dict) else ():
            t["name"] = "own" if t["name"] == name else t["name"]
        out.append(answer)
    first = s.call("ListOffsets", 7, topics=[{"name": name, "partitions": [{"partition": 0, "timestamp": -2}]}])
    return [out, first["topics"][0]["partitions"][0]["offset"]]


for _name, _offsets in {"to 4": (4,), "to 0": (0,), "to the end": (-1,), "to 9": (9,), "beyond": (10,), "negative": (-2,), "back and forth": (5, 3, 6, 6, -1)}.items():
    def trim(s, v, offsets=_offsets):
        return trimmed(s, v, *offsets)
    case("DeleteRecords", _name)(trim)

case("DeleteRecords", "partition 9")(lambda s, v: trimmed(s, v, 1, partition=9))
case("DeleteRecords", "partition -1")(lambda s, v: trimmed(s, v, 1, partition=-1))
case("DeleteRecords", "a missing topic")(lambda s, v: trimmed(s, v, 1, topic="d-missing"))
case("DeleteRecords", "a bad name")(lambda s, v: trimmed(s, v, 1, topic="a b"))
case("DeleteRecords", "a compacted topic")(lambda s, v: trimmed(s, v, 0, topic="d-compact"))
case("DeleteRecords", "nothing")(lambda s, v: s.call("DeleteRecords", v, topics=[]))


@case("DeleteRecords", "a partition twice")
def trim_twice(s, v):
    name = s.fresh(f"trim{v}")
    s.create(name)
    s.fill(name, 3, 3)
    answer = s.call("DeleteRecords", v, topics=[{"name": name, "partitions": [{"partition": 0, "offset": o} for o in (2, 4)]}])
    return answer


# ---- DescribeLogDirs ----

def log_dirs(s, v, topics):
    """Sizes are the store's own matter; that something is there is not."""
    answer = s.call("DescribeLogDirs", v, topics=topics)
    for r in answer["results"] if isinstance(answer, dict) else ():
        r["log_dir"] = "words"
        r["topics"] = [t for t in r["topics"] if t["name"].startswith("d-")]
        for p in (p for t in r["topics"] for p in t["partitions"]):
            p["size"] = min(p["size"], 1)
        for space in ("total_bytes", "usable_bytes"):
            r[space] = min(r.get(space, 0), 1)
    return answer


for _name, _topics in {"all": None, "none": [], "one": [{"name": "d-data", "partitions": [0]}], "two partitions": [{"name": "d-two", "partitions": [1, 0]}],
                       "without partitions": [{"name": "d-data", "partitions": []}], "missing": [{"name": "d-missing", "partitions": [0]}],
                       "missing partition": [{"name": "d-data", "partitions": [0, 7]}], "bad name": [{"name": "a b", "partitions": [0]}]}.items():
    def dirs(s, v, topics=_topics):
        return log_dirs(s, v, topics)
    case("DescribeLogDirs", _name)(dirs)


# ---- DescribeCluster, DescribeTopicPartitions ----

for _name, _more in {"plain": {}, "with operations": {"cluster_operations": True}, "fenced too": {"include_fenced": True}, "controllers": {"endpoint_type": 2},
                     "endpoints of type 0": {"endpoint_type": 0}, "endpoints of type 9": {"endpoint_type": 9}}.items():
    def cluster(s, v, more=_more):
        return s.call("DescribeCluster", v, **more)
    case("DescribeCluster", _name, since=2 if "fenced" in _name else 1 if "endpoint_type" in _more else 0)(cluster)


def pages(s, v, names, limit=2000, cursor=None, until=6):
    """Page after page as the cursor says."""
    out = []
    while len(out) < until:
        answer = s.call("DescribeTopicPartitions", v, topics=[{"name": n} for n in names], limit=limit, cursor=cursor)
        out.append(answer)
        cursor = answer["next_cursor"] if isinstance(answer, dict) else None
        if cursor is None:
            break
    return out


for _name, _ask in {
        "two topics": (("d-data", "d-two"),), "out of order": (("d-two", "d-data"),), "one twice": (("d-data", "d-data"),), "missing": (("d-missing", "d-two"),),
        "bad name": (("a b",),), "empty name": (("",),), "page by page": (("d-data", "d-three", "d-two"), 2), "one by one": (("d-three", "d-two"), 1),
        "limit 0": (("d-two",), 0), "limit -1": (("d-two",), -1), "from a cursor": (("d-data", "d-three", "d-two"), 9, {"topic": "d-three", "partition": 1}),
        "cursor at a topic not asked for": (("d-data", "d-two"), 9, {"topic": "d-three", "partition": 1}),
        "cursor behind the last partition": (("d-three", "d-two"), 9, {"topic": "d-three", "partition": 7}),
        "cursor at partition -1": (("d-three", "d-two"), 9, {"topic": "d-three", "partition": -1}),
        "cursor at a missing topic": (("d-missing", "d-two"), 9, {"topic": "d-missing", "partition": 0})}.items():
    def paged(s, v, ask=_ask):
        return pages(s, v, *ask)
    case("DescribeTopicPartitions", _name)(paged)


@case("DescribeTopicPartitions", "all topics")
def paged_all(s, v):
    seen = [t["name"] for a in pages(s, v, (), limit=50, until=100) for t in a["topics"]]
    return [n for n in seen if n.startswith("d-")]
