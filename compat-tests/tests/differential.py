"""perigee and Apache Kafka side by side: every advertised API at each version that both have, with valid, odd and wrong requests.

The answers must be alike in error codes and shape (raw/differential.py says what is compared). What differs on purpose stands in
DEVIATIONS with the reason; a deviation that no longer occurs fails the test as well. The cases of the APIs that change or describe
settings and logs are in differential_admin.py. Only with --full: it starts Kafka. All lines go to build/compat/differential.txt.
"""
import os
import struct
import time

from raw import batch as rb
from raw import differential as df
from raw import schema
from raw.broker import CACHE, Broker
from raw.differential import Id, Node, case, until
from raw.harness import Context, test
from raw.tools import need

FAR = 1 << 40
ZERO = bytes(16)
LONG = "n" * 250

# (pattern of the difference line, why). "re:" begins a regular expression, otherwise it is a shell pattern.
DEVIATIONS = [
    # frames
    ("*frame: tags out of order: answer: perigee 'closed', kafka 'answered'", "the protocol orders tags; Kafka takes them as they come"),
    ("Metadata v* frame: lying counts: ?1?: perigee 'closed', kafka 'answered'", "Kafka takes any negative count for null (S2.13)"),
    ("re:Produce v[012] frame: .*: perigee 'answered', kafka 'closed'", "old versions get 35 where the layout has room for it (S2.8)"),
    # ApiVersions, Metadata, FindCoordinator
    ("Metadata v* by zero id: *", "Kafka fails with -1 for the whole answer; perigee says 42 for that topic (S3.5)"),
    ("Metadata v* creates a topic by itself: first: perigee 0, kafka [35]", "a topic is complete when the answer leaves (DESIGN 5)"),
    ("re:FindCoordinator v[456] .*error_message: perigee None, kafka ''", "no words about what is well"),
    ("FindCoordinator v* share kind before its version: *.error_message: perigee 'words', kafka ''", "refusals come with words"),
    ("re:FindCoordinator v[123] .*error_message: perigee None, kafka 'words'", "Kafka says NONE in words where all is well"),
    # CreateTopics, DeleteTopics, CreatePartitions
    ("re:CreateTopics v\\d+ (only asked: )?truth: .*", "yes, on, no and off are booleans here; what is reported is true or false"),
    ("CreateTopics v7 only asked: *.topic_id: perigee 'zero', kafka 'an id'", "a topic that is not made has no id"),
    ("CreateTopics v* no time: *", "one node is done at once: the timeout has nothing to bound"),
    ("DeleteTopics v* one twice: topics: *", "every line of a request has its line in the answer"),
    ("DeleteTopics v* by id, and by name: topics: *", "every line of a request has its line in the answer"),
    ("CreatePartitions v*.error_message: perigee 'words', kafka None", "refusals come with words"),
    # Produce
    ("re:Produce .*\\.error_message: perigee 'words', kafka None", "refusals come with words"),
    ("re:Produce .*\\.log_start: perigee -1, kafka 0", "Kafka tells the log's start beside a refusal of the batch"),
    ("Produce v* a topic without partitions: *", "every line of a request has its line in the answer"),
    ("re:Produce v\\d+ codec [57]: .*error: perigee 87, kafka -1", "a wrong batch, not a broken broker"),
    ("re:Produce v\\d+ (cut by one byte|half a header|length 1073741824): .*error: perigee 2, kafka 87", "an impossible length is damage (S5.7)"),
    ("re:Produce v\\d+ (length 49|magic 3): .*error: perigee 87, kafka 2", "a header that makes no sense, its CRC is not asked"),
    ("re:Produce v\\d+ (gzip|zstd) of nonsense: .*", "compressed batches are not unpacked where no rule asks for it (T54)"),
    ("Produce v* idempotent: first, duplicate*log_append_time: perigee -1, kafka 'some'", "create time: there is no append time, for a duplicate neither"),
    ("Produce v* log append time claimed: *", "Kafka 4.3 looks at records without timestamp only (S5.13)"),
    ("Produce v* null records: *kafka 'silent'", "Kafka 4.3 never answers null records"),
    ("Produce v* one byte more: *", "Kafka drops what follows the batch; perigee stores nothing it was not told about"),
    ("Produce v* transactional, no id: *error: perigee 48, kafka 53", "transactions are not served yet"),
    ("Produce v* time -2: stored*", "Kafka's largest time is at least -1; perigee stores the largest of the batch"),
    # Fetch
    ("re:Fetch .*log_start: perigee 0, kafka -1", "the log's start is told beside an error, too: clients can use it"),
    ("re:Fetch .*aborted: perigee None, kafka \\[\\]", "null for: nobody asked for committed records only"),
    ("re:Fetch v\\d+ isolation 9: .*", "Kafka fails the request with -1; perigee takes every value but 1 for uncommitted"),
    ("re:Fetch v\\d+ negative bytes( in all)?: .*", "Kafka fails with -1; perigee takes it for 0, the first batch comes whole"),
    # ListOffsets, OffsetForLeaderEpoch
    ("ListOffsets v* a partition twice: *", "every line of a request has its line in the answer"),
    ("re:(ListOffsets|OffsetForLeaderEpoch) v\\d+ current epoch -[35]: .*", "every negative epoch means none, as in Fetch; here Kafka says 74"),
    ("ListOffsets v* isolation 9: *", "Kafka fails with -1; perigee takes every value but 1 for uncommitted"),
    ("OffsetForLeaderEpoch v* epoch -5: *", "an epoch that cannot be has no end"),
    # settings
    ("AlterConfigs v* a topic twice: *kafka 'silent'", "Kafka never answers"),
    ("IncrementalAlterConfigs v* operation 9: *", "Kafka fails with -1"),
    ("re:DescribeConfigs .*error_message: perigee None, kafka ''", "no words about what is well"),
    ("DescribeConfigs v* a missing topic: *error_message: perigee 'words', kafka ''", "refusals come with words"),
    ("DescribeConfigs v* a topic twice: *", "Kafka merges the lines of a resource into the last one"),
    ("re:DescribeConfigs .*flush\\.messages.*", "the test broker's own start setting"),
    ("re:DescribeConfigs .*min\\.insync\\.replicas.*", "Kafka 4.3 sets it for the cluster when it formats itself"),
    ("re:DescribeConfigs .*write\\.caching.*", "a setting of perigee"),
    ("re:DescribeConfigs .*\\.(admin|native|peer)\\.listeners: .*", "a setting of perigee"),
    ("re:DescribeConfigs .*\\.(shards|protected\\.mode|store\\.[a-z.]+): .*", "a setting of perigee"),
    ("re:DescribeConfigs .* every setting: .*: perigee \\((\\d+), True, (True|False)\\), kafka \\(\\1, False, \\2\\)",
     "what cannot change while perigee runs is told as read-only"),
    ("re:DescribeConfigs .*configs\\.log\\.(retention|roll)\\.ms\\.value: perigee '604800000', kafka None", "the value in force is told"),
    ("DescribeConfigs v* loggers: *", "perigee has one logger, with a level of its own"),
    ("re:DescribeConfigs .*\\.synonyms: perigee \\[.+\\], kafka .*", "the broker's default is among the synonyms of every setting"),
    ("DescribeConfigs v* with documentation: *", "perigee documents every setting that it lists"),
    # records, log directories, topic partitions
    ("DescribeTopicPartitions v0 empty name: *", "a wrong name, not a broken broker"),
    ("DeleteRecords v* a partition twice: *", "every line of a request has its line in the answer"),
    ("DescribeLogDirs v* without partitions: *", "every line of a request has its line in the answer"),
]


def named(topic, version, since=13):
    """The topic of a Produce or Fetch request: its name, from this version on its id."""
    return {"topic_id": Id(topic)} if version >= since else {"name": topic}


# ---- ApiVersions ----

@case("ApiVersions", "as clients ask")
def versions_plain(s, v):
    answer = s.call("ApiVersions", v, **({"software_name": "compat", "software_version": "1.0"} if v >= 3 else {}))
    return {"error": answer["error"], "fields": sorted(set(answer) - {"keys", "supported_features", "finalized_features", "features_epoch"})}


for _name, _software in (("empty name", ("", "1")), ("empty version", ("compat", "")), ("a space in it", ("my client", "1")),
                         ("ends with a dash", ("client-", "1"))):
    def versions_odd(s, v, software=_software):
        answer = s.call("ApiVersions", v, software_name=software[0], software_version=software[1])
        return {"error": answer["error"], "any": bool(answer["keys"])} if isinstance(answer, dict) else answer
    case("ApiVersions", f"software: {_name}", since=3)(versions_odd)


@case("ApiVersions", "a version that nobody has", since=3, until=3)
def versions_future(s, v):
    answer = s.bytes("ApiVersions", v, b"\0" * 8, version=77, answer_version=0)
    return {"error": answer["error"], "keys": sorted(k["key"] for k in answer["keys"] if k["key"] in (0, 1, 3, 18))}


# ---- Metadata ----

def metadata(s, v, topics, **more):
    if v >= 4:
        more.setdefault("allow_auto_create", False)
    return s.call("Metadata", v, topics=topics, **more)


@case("Metadata", "all topics")
def metadata_all(s, v):
    answer = metadata(s, v, None if v >= 1 else [])
    answer["topics"] = [t for t in answer["topics"] if not t["name"].startswith("__") and t["name"] in s.ids]
    return answer


@case("Metadata", "none", since=1)
def metadata_none(s, v):
    return metadata(s, v, [])


@case("Metadata", "two topics, one twice")
def metadata_some(s, v):
    return metadata(s, v, [{"name": "d-data"}, {"name": "d-two"}, {"name": "d-data"}])


for _name, _topic in (("missing", "d-missing"), ("empty name", ""), ("two dots", ".."), ("too long", LONG), ("a blank", "a b"),
                      ("a slash", "a/b"), ("not ASCII", "tüp")):
    def metadata_bad(s, v, topic=_topic):
        return metadata(s, v, [{"name": topic}, {"name": "d-data"}])
    case("Metadata", f"name: {_name}", since=4)(metadata_bad)


@case("Metadata", "by id", since=12)
def metadata_by_id(s, v):
    return metadata(s, v, [{"name": None, "topic_id": Id("d-data")}])


@case("Metadata", "by unknown id", since=12)
def metadata_by_no_id(s, v):
    return metadata(s, v, [{"name": None, "topic_id": b"\x42" * 16}, {"name": None, "topic_id": Id("d-data")}])


@case("Metadata", "by zero id", since=12)
def metadata_by_zero(s, v):
    return metadata(s, v, [{"name": None, "topic_id": ZERO}])


@case("Metadata", "id and name", since=12)
def metadata_both(s, v):
    return metadata(s, v, [{"name": "d-data", "topic_id": Id("d-two")}])


@case("Metadata", "authorized operations", since=8)
def metadata_operations(s, v):
    more = {"cluster_operations": True} if v <= 10 else {}
    return metadata(s, v, [{"name": "d-data"}], topic_operations=True, **more)


@case("Metadata", "creates a topic by itself")
def metadata_creates(s, v):
    name = s.fresh(f"auto{v}")
    first = s.call("Metadata", v, topics=[{"name": name}])["topics"][0]
    until(lambda: there(s, name), f"no {name}")
    return {"first": first["error"], "partitions": there(s, name)}


def there(s, name):
    """The number of partitions that Metadata tells, 0 while there are none."""
    return len(metadata(s, 9, [{"name": name}])["topics"][0]["partitions"])


# ---- Produce ----

def sent(s, v, data, topic="d-produce", partition=0, acks=-1, **more):
    """The answer to one batch with offsets relative to the end before it, by how much the end moved, and what then is stored."""
    before = s.ends(topic, 1)[0]
    answer = s.call("Produce", v, acks=acks, topics=[{**named(topic, v), "partitions": [{"index": partition, "records": data}]}], **more)
    if isinstance(answer, dict):
        for p in (p for t in answer["topics"] for p in t["partitions"]):
            p["base_offset"] -= before if p["base_offset"] >= 0 else 0
    moved = s.ends(topic, 1)[0] - before
    return {"answer": answer, "moved": moved, "stored": stored(s, topic, before) if moved else None}


def stored(s, topic, offset):
    """The batches from this offset on, as far as they do not tell the time of the day."""
    data = s.call("Fetch", 11, max_wait_ms=0, min_bytes=1, max_bytes=1 << 24,
                  topics=[{"name": topic, "partitions": [{"partition": 0, "offset": offset, "max_bytes": 1 << 24}]}])["topics"][0]["partitions"][0]["records"]
    return [{"at": b.base_offset - offset, "records": b.count, "last": b.last_delta, "attributes": b.attributes, "crc": b.good_crc, "sequence": b.seq, "epoch": b.epoch,
             "leader epoch": b.leader_epoch, "times": "append" if b.attributes & 8 else (b.max_ts - b.base_ts, b.base_ts % 1000 == rb.T0 % 1000)}
            for b in rb.batches(data)]


def batches():
    """Name -> bytes: what a batch may be like. Times are now, so that no limit is met by chance."""
    now = int(time.time() * 1000)
    items = [(b"k", b"v%d" % i, now + i) for i in range(3)]
    good = rb.batch(items)
    torn = bytearray(good)
    torn[-1] ^= 1
    out = {
        "good": good, "gzip": rb.batch(items, codec=1), "snappy": rb.batch(items, codec=2), "lz4": rb.batch(items, codec=3),
        "null records": None, "empty records": b"", "two batches": good + good, "a flipped byte": bytes(torn),
        "cut by one byte": good[:-1], "one byte more": good + b"\0", "half a header": good[:30],
        "base offset 77": rb.batch(items, base_offset=77), "leader epoch 9": rb.batch(items, leader_epoch=9),
        "no records, count 0": rb.batch([], base_ts=now, last_delta=-1), "count too small": rb.batch(items, count=2),
        "count too large": rb.batch(items, count=4), "last delta too large": rb.batch(items, last_delta=7),
        "last delta too small": rb.batch(items, last_delta=1), "negative count": rb.batch(items, count=-1),
        "record length lies": rb.batch(items, body=rb.body_of(items, now)[:-2]), "tail in the body": rb.batch(items, body=rb.body_of(items, now) + b"xx"),
        "transactional, no id": rb.batch(items, attributes=16, pid=5, epoch=0, seq=0), "control": rb.batch(items, attributes=32),
        "log append time claimed": rb.batch(items, attributes=8), "attribute bits nobody knows": rb.batch(items, attributes=1 << 10),
        "a year ahead": rb.batch([(b"k", b"v", now + 31_536_000_000)]), "year 1970": rb.batch([(b"k", b"v", 5)]),
        "time -1": rb.batch([(b"k", b"v", -1)]), "time -2": rb.batch([(b"k", b"v", -2)]),
        "maximum time lies": rb.batch(items, max_ts=now + 1000), "producer id without epoch": rb.batch(items, pid=5),
        "producer epoch without id": rb.batch(items, epoch=3, seq=0), "sequence -5": rb.batch(items, pid=5, epoch=0, seq=-5),
        "codec 5": rb.batch(items, attributes=5), "codec 7": rb.batch(items, attributes=7),
        "gzip of nonsense": rb.batch(items, attributes=1, body=b"nonsense"), "zstd of nonsense": rb.batch(items, attributes=4, body=b"nonsense"),
        "key null": rb.batch([(None, b"v", now)]), "value null": rb.batch([(b"k", None, now)]), "both empty": rb.batch([(b"", b"", now)]),
        "larger than allowed": rb.batch([(b"k", bytes(1_200_000), now)]),
    }
    out |= {f"magic {m}": rb.batch(items, magic=m) for m in (0, 1, 3)}
    out |= {f"length {n}": rb.batch(items, length=n) for n in (-1, 0, 48, 49, 1 << 30)}
    return out


for _name, _data in batches().items():
    def produce_one(s, v, data=_data):
        return sent(s, v, data)
    case("Produce", _name, since=3)(produce_one)

case("Produce", "zstd", since=3)(lambda s, v: sent(s, v, rb.batch(rb.values("z", 3), codec=4)))


for _name, _configs in {"gzip": {"compression_type": "gzip"}, "snappy": {"compression_type": "snappy"}, "lz4": {"compression_type": "lz4"}, "zstd": {"compression_type": "zstd"},
                        "uncompressed": {"compression_type": "uncompressed"}, "append time": {"message_timestamp_type": "LogAppendTime"},
                        "the past forbidden": {"message_timestamp_before_max_ms": 1000}, "small batches": {"max_message_bytes": 100},
                        "three replicas in sync": {"min_insync_replicas": 3}, "compacted": {"cleanup_policy": "compact"}}.items():
    def produce_conf(s, v, configs=_configs, name=_name):
        topic = f"d-conf-{name.replace(' ', '-')}"
        if topic not in s.ids:
            s.create(topic, **configs)
        items = [(b"k%d" % i, b"value" * 10) for i in range(3)]
        return [sent(s, v, rb.batch(items, codec=codec), topic=topic) for codec in range(5)] + [sent(s, v, rb.batch([(b"k", b"v")]), topic=topic, acks=1)]
    case("Produce", f"topic: {_name}", since=7)(produce_conf)


@case("Produce", "compacted topic without key", since=3)
def produce_compact(s, v):
    return sent(s, v, rb.batch([(None, b"v")]), topic="d-compact")


@case("Produce", "log append time", since=3)
def produce_append_time(s, v):
    return sent(s, v, rb.batch([(b"k", b"v", 12345)]), topic="d-append")


for _acks in (1, 2, -2, 7):
    def produce_acks(s, v, acks=_acks):
        return sent(s, v, rb.batch(rb.values("a", 1)), acks=acks)
    case("Produce", f"acks {_acks}", since=3)(produce_acks)


@case("Produce", "acks 0", since=3)
def produce_silent(s, v):
    before = s.ends("d-produce", 1)[0]
    seen = s.one_way("Produce", v, acks=0, topics=[{**named("d-produce", v), "partitions": [{"index": 0, "records": rb.batch(rb.values("s", 2))}]}])
    return {"answer": seen, "moved": s.ends("d-produce", 1)[0] - before}


@case("Produce", "acks 0, refused", since=3)
def produce_silent_refused(s, v):
    return s.one_way("Produce", v, acks=0, topics=[{**named("d-produce", v), "partitions": [{"index": 99, "records": rb.batch(rb.values("s", 2))}]}])


for _name, _partition in (("99", 99), ("-1", -1)):
    def produce_partition(s, v, partition=_partition):
        return sent(s, v, rb.batch(rb.values("a", 1)), partition=partition)
    case("Produce", f"partition {_name}", since=3)(produce_partition)


@case("Produce", "unknown topic and a known one", since=3)
def produce_mixed(s, v):
    good = rb.batch(rb.values("a", 1))
    topics = [{**named(t, v), "partitions": [{"index": 0, "records": good}]} for t in ("d-missing", "d-mixed")]
    answer = s.call("Produce", v, acks=-1, topics=topics)
    for t in answer["topics"]:
        for p in t["partitions"]:
            p["base_offset"] = min(p["base_offset"], 0)
    return answer


@case("Produce", "id zero", since=13)
def produce_zero(s, v):
    return s.call("Produce", v, acks=-1, topics=[{"topic_id": ZERO, "partitions": [{"index": 0, "records": rb.batch(rb.values("a", 1))}]}])


@case("Produce", "no topics", since=3)
def produce_nothing(s, v):
    return s.call("Produce", v, acks=-1, topics=[])


@case("Produce", "a topic without partitions", since=3)
def produce_no_partitions(s, v):
    return s.call("Produce", v, acks=-1, topics=[{**named("d-produce", v), "partitions": []}])


@case("Produce", "timeout negative", since=3)
def produce_timeout(s, v):
    return sent(s, v, rb.batch(rb.values("a", 1)), timeout_ms=-5)


@case("Produce", "idempotent: first, duplicate, gap, old epoch, new epoch", since=3)
def produce_idempotent(s, v):
    pid = s.call("InitProducerId", 1)["producer_id"]
    steps = ((0, 0), (3, 0), (3, 0), (0, 0), (9, 0), (0, 5), (6, 0), (0, 6), (4, 6))
    return [sent(s, v, rb.batch(rb.values("i", 3), pid=pid, epoch=epoch, seq=seq)) for seq, epoch in steps]


@case("Produce", "idempotent: an id that nobody gave, at a sequence in the middle", since=3)
def produce_strange_id(s, v):
    return [sent(s, v, rb.batch(rb.values("i", 1), pid=9_000_000 + v, epoch=0, seq=seq)) for seq in (5, 6, 9)]


# ---- Fetch ----

def fetched(s, v, offset=0, topic="d-data", partition=0, **more):
    part = {"partition": partition, "offset": offset, **{k: more.pop(k) for k in ("leader_epoch", "last_fetched_epoch", "log_start") if k in more}}
    part["max_bytes"] = more.pop("part_bytes", 1 << 20)
    more = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    return s.call("Fetch", v, topics=[{**named(topic, v), "partitions": [part]}], **more)


for _offset in (0, 1, 4, 8, 9, 10, 11, FAR, -1, -2, -5):
    def fetch_offset(s, v, offset=_offset):
        return fetched(s, v, offset)
    case("Fetch", f"offset {_offset} of 10")(fetch_offset)

for _name, _more in (
        ("partition 99", {"partition": 99}), ("partition -1", {"partition": -1}), ("missing topic", {"topic": "d-missing"}),
        ("empty topic", {"topic": "d-two"}), ("one byte", {"part_bytes": 1}), ("no bytes", {"part_bytes": 0}), ("negative bytes", {"part_bytes": -1}),
        ("one byte in all", {"max_bytes": 1}), ("no bytes in all", {"max_bytes": 0}), ("negative bytes in all", {"max_bytes": -1}),
        ("more than there is, no wait", {"min_bytes": 1 << 30}), ("negative minimum", {"min_bytes": -1}), ("negative wait", {"max_wait_ms": -1}),
        ("at the end, 20 ms", {"offset": 10, "max_wait_ms": 20}), ("read committed", {"isolation": 1}), ("isolation 9", {"isolation": 9}),
        ("second batch, little room", {"offset": 4, "part_bytes": 80}), ("start past the offset", {"log_start": 5})):
    def fetch_odd(s, v, more=_more):
        return fetched(s, v, **dict(more))
    case("Fetch", _name, since=5 if "log_start" in _more else 4)(fetch_odd)

for _epoch in (-1, 0, 1, 7, -3):
    def fetch_epoch(s, v, epoch=_epoch):
        return fetched(s, v, leader_epoch=epoch)
    case("Fetch", f"current epoch {_epoch}", since=9)(fetch_epoch)

    def fetch_last(s, v, epoch=_epoch):
        return fetched(s, v, 4, last_fetched_epoch=epoch)
    case("Fetch", f"last epoch {_epoch}", since=12)(fetch_last)

case("Fetch", "zstd")(lambda s, v: fetched(s, v, topic="d-zstd"))
case("Fetch", "another cluster", since=12)(lambda s, v: fetched(s, v, cluster_id="somebody else's"))


@case("Fetch", "no topics")
def fetch_nothing(s, v):
    return s.call("Fetch", v, max_wait_ms=0, min_bytes=0, topics=[])


@case("Fetch", "a partition twice")
def fetch_twice(s, v):
    part = {"partition": 0, "offset": 0}
    return s.call("Fetch", v, max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[{**named("d-data", v), "partitions": [part, part]}])


@case("Fetch", "zero id", since=13)
def fetch_zero(s, v):
    return s.call("Fetch", v, max_wait_ms=0, topics=[{"topic_id": ZERO, "partitions": [{"partition": 0, "offset": 0}]}])


@case("Fetch", "missing and known", since=4)
def fetch_mixed(s, v):
    part = [{"partition": 0, "offset": 0}]
    return s.call("Fetch", v, max_wait_ms=0, min_bytes=1, topics=[{**named(t, v), "partitions": part} for t in ("d-missing", "d-data")])


for _id, _epoch in ((12345, 1), (12345, 0), (0, 1), (0, 5), (12345, -1), (-1, -1), (0, -5)):
    def fetch_session_odd(s, v, session=(_id, _epoch)):
        return fetched(s, v, session_id=session[0], session_epoch=session[1])
    case("Fetch", f"session {_id}, epoch {_epoch}", since=7)(fetch_session_odd)


@case("Fetch", "a session: full, nothing new, changed, wrong epoch, forgotten, closed", since=7)
def fetch_session(s, v):
    name = s.fresh(f"session{v}")
    s.create(name, partitions=2)
    parts = [{"partition": p, "offset": 0} for p in (0, 1)]
    ask = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1 << 20}
    first = s.call("Fetch", v, session_epoch=0, topics=[{**named(name, v), "partitions": parts}], **ask)
    out, sid = [first], first["session_id"]
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=1, topics=[], **ask))
    s.call("Produce", 9, acks=-1, topics=[{"name": name, "partitions": [{"index": 1, "records": rb.batch(rb.values("a", 2))}]}])
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=2, topics=[], **ask))
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=9, topics=[], **ask))
    ahead = [{"partition": 1, "offset": 2}]
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=3, topics=[{**named(name, v), "partitions": ahead}], **ask))
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=4, topics=[], forgotten=[{**named(name, v), "partitions": [0]}], **ask))
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=5, topics=[{**named(name, v), "partitions": [{"partition": 1, "offset": FAR}]}], **ask))
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=-1, topics=[{**named(name, v), "partitions": parts}], **ask))
    out.append(s.call("Fetch", v, session_id=sid, session_epoch=6, topics=[], **ask))
    return out


# ---- ListOffsets ----

def listed(s, v, timestamp, topic="d-data", partition=0, **more):
    part = {"partition": partition, "timestamp": timestamp, **{k: more.pop(k) for k in ("leader_epoch",) if k in more}}
    return s.call("ListOffsets", v, topics=[{"name": topic, "partitions": [part]}], **more)


for _time in (-1, -2, -3, -4, -5, -6, -7, -100, 0, rb.T0 - 1, rb.T0, rb.T0 + 3500, rb.T0 + 9000, rb.T0 + 9001, FAR << 10):
    def list_time(s, v, at=_time):
        return [listed(s, v, at), listed(s, v, at, topic="d-two")]
    case("ListOffsets", f"time {_time}", since=1)(list_time)

for _name, _more in (("partition 99", {"partition": 99}), ("partition -1", {"partition": -1}), ("missing topic", {"topic": "d-missing"}),
                     ("bad name", {"topic": "a b"}), ("log append time", {"topic": "d-append-static"})):
    def list_odd(s, v, more=_more):
        return listed(s, v, -1, **more)
    case("ListOffsets", _name, since=1)(list_odd)

for _epoch in (-1, 0, 1, 9, -3):
    def list_epoch(s, v, epoch=_epoch):
        return listed(s, v, -2, leader_epoch=epoch)
    case("ListOffsets", f"current epoch {_epoch}", since=4)(list_epoch)

case("ListOffsets", "read committed", since=2)(lambda s, v: listed(s, v, -1, isolation=1))
case("ListOffsets", "isolation 9", since=2)(lambda s, v: listed(s, v, -1, isolation=9))
case("ListOffsets", "no topics", since=1)(lambda s, v: s.call("ListOffsets", v, topics=[]))


@case("ListOffsets", "a partition twice", since=1)
def list_twice(s, v):
    return s.call("ListOffsets", v, topics=[{"name": "d-data", "partitions": [{"partition": 0, "timestamp": t} for t in (-1, -2)]}])


# ---- FindCoordinator ----

def coordinator(s, v, *keys, **more):
    return s.call("FindCoordinator", v, **({"keys": list(keys)} if v >= 4 else {"key": keys[0]}), **more)


for _name, _keys in (("a group", ("g",)), ("empty", ("",))):
    def find_one(s, v, keys=_keys):
        return coordinator(s, v, *keys)
    case("FindCoordinator", _name)(find_one)

case("FindCoordinator", "three, one twice", since=4)(lambda s, v: coordinator(s, v, "g", "h", "g"))
case("FindCoordinator", "none", since=4)(lambda s, v: coordinator(s, v))
case("FindCoordinator", "kind 9", since=1)(lambda s, v: coordinator(s, v, "g", key_type=9))
case("FindCoordinator", "kind -1", since=1)(lambda s, v: coordinator(s, v, "g", key_type=-1))
case("FindCoordinator", "share kind before its version", since=1, until=5)(lambda s, v: coordinator(s, v, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", key_type=2))


# ---- CreateTopics, DeleteTopics ----

def creating(s, v, *topics, **more):
    answer = s.call("CreateTopics", v, topics=list(topics), **more)
    for t in answer["topics"]:
        t["configs"] = None                          # compared as names and values by DescribeConfigs
    return answer


def new(name, partitions=1, replication=1, assignments=(), configs=()):
    return {"name": name, "partitions": partitions, "replication": replication,
            "assignments": [{"partition": p, "brokers": b} for p, b in assignments], "configs": [{"name": k, "value": x} for k, x in configs]}


def assigned(*pairs):
    return {"partitions": -1, "replication": -1, "assignments": pairs}


CREATE = {
    "plain": {}, "defaults": {"partitions": -1, "replication": -1}, "no partitions": {"partitions": 0}, "-2 partitions": {"partitions": -2},
    "no replicas": {"replication": 0}, "-2 replicas": {"replication": -2}, "two replicas": {"replication": 2},
    "assigned": assigned((0, [Node()]), (1, [Node()])), "assigned with a count": {"partitions": 1, "assignments": [(0, [Node()])]},
    "assigned to nobody": assigned((0, [])), "assigned to a stranger": assigned((0, [77])), "assigned twice to one": assigned((0, [Node(), Node()])),
    "assigned with a gap": assigned((0, [Node()]), (2, [Node()])), "assigned twice": assigned((0, [Node()]), (0, [Node()])),
    "a setting": {"configs": [("retention.ms", "1000")]}, "unknown setting": {"configs": [("no.such", "1")]},
    "bad value": {"configs": [("retention.ms", "soon")]}, "bad choice": {"configs": [("cleanup.policy", "shred")]},
    "out of range": {"configs": [("segment.bytes", "1")]}, "null value": {"configs": [("retention.ms", None)]},
    "empty value": {"configs": [("retention.ms", "")]}, "blank value": {"configs": [("retention.ms", " 1000 ")]},
    "a setting twice": {"configs": [("retention.ms", "1000"), ("retention.ms", "2000")]},
    "a broker's setting": {"configs": [("log.retention.ms", "1000")]}, "list with blanks": {"configs": [("cleanup.policy", "compact, delete")]},
    "list with itself": {"configs": [("cleanup.policy", "delete,delete")]}, "both policies": {"configs": [("cleanup.policy", "compact,delete")]},
    "empty policy": {"configs": [("cleanup.policy", "")]}, "capital choice": {"configs": [("compression.type", "GZIP")]},
    "truth": {"configs": [("preallocate", "yes")]}, "capital truth": {"configs": [("preallocate", "TRUE")]},
    "replicas in sync": {"configs": [("min.insync.replicas", "3")]}, "no replicas in sync": {"configs": [("min.insync.replicas", "0")]},
}
for _name, _more in CREATE.items():
    def create_one(s, v, more=_more):
        return creating(s, v, new(s.fresh(f"create{v}"), **more))
    case("CreateTopics", _name, since=4 if "defaults" in _name or "assigned" in _name else 2)(create_one)

    def create_dry(s, v, more=_more):
        name = s.fresh(f"dry{v}")
        answer = creating(s, v, new(name, **more), validate_only=True)
        return [answer, metadata(s, 9, [{"name": name}])["topics"]]
    case("CreateTopics", f"only asked: {_name}", since=4)(create_dry)

for _name, _topic in (("exists", "d-data"), ("empty", ""), ("one dot", "."), ("two dots", ".."), ("249 characters", "x" * 249), ("250 characters", LONG),
                      ("a blank", "a b"), ("a slash", "a/b"), ("not ASCII", "tüp"), ("like another with a dot", "d.data.x"), ("like it", "d_data.x"),
                      ("cluster metadata", "__cluster_metadata")):
    def create_named(s, v, topic=_topic):
        name = f"{topic}{v}" if topic.endswith(".x") else f"{v:x}{topic[1:]}" if len(topic) == 249 else topic
        return creating(s, v, new(name))
    case("CreateTopics", f"name: {_name}", since=2)(create_named)


@case("CreateTopics", "a name twice, and another")
def create_twice(s, v):
    name, other = s.fresh(f"twice{v}"), s.fresh(f"once{v}")
    return creating(s, v, new(name), new(name, partitions=2), new(other))


case("CreateTopics", "none")(lambda s, v: s.call("CreateTopics", v, topics=[]))


@case("CreateTopics", "no time")
def create_no_time(s, v):
    return creating(s, v, new(s.fresh(f"hasty{v}")), timeout_ms=0)


def deleting(s, v, *topics, **more):
    ask = {"topics": [t if isinstance(t, dict) else {"name": t} for t in topics]} if v >= 6 else {"names": list(topics)}
    return s.call("DeleteTopics", v, **ask, **more)


@case("DeleteTopics", "one and a missing one")
def delete_some(s, v):
    name = s.fresh(f"delete{v}")
    s.create(name)
    answer = deleting(s, v, name, "d-missing")
    until(lambda: not there(s, name), f"{name} is still there")
    return answer


@case("DeleteTopics", "one twice")
def delete_twice(s, v):
    name = s.fresh(f"delete{v}")
    s.create(name)
    return deleting(s, v, name, name)


for _name, _topic in (("missing", "d-missing"), ("bad", "a b"), ("empty", ""), ("not ASCII", "tüp")):
    def delete_named(s, v, topic=_topic):
        return deleting(s, v, topic)
    case("DeleteTopics", f"name: {_name}")(delete_named)

case("DeleteTopics", "none")(lambda s, v: deleting(s, v))


@case("DeleteTopics", "by id", since=6)
def delete_by_id(s, v):
    name = s.fresh(f"delete{v}")
    s.create(name)
    return deleting(s, v, {"topic_id": Id(name)})


case("DeleteTopics", "by unknown id", since=6)(lambda s, v: deleting(s, v, {"topic_id": b"\x55" * 16}))
case("DeleteTopics", "by zero id", since=6)(lambda s, v: deleting(s, v, {"topic_id": ZERO}))


@case("DeleteTopics", "by id and name", since=6)
def delete_both(s, v):
    name = s.fresh(f"delete{v}")
    s.create(name)
    return deleting(s, v, {"name": name, "topic_id": Id(name)})


@case("DeleteTopics", "by id, and by name", since=6)
def delete_both_ways(s, v):
    name = s.fresh(f"delete{v}")
    s.create(name)
    return deleting(s, v, {"name": name}, {"topic_id": Id(name)})


# ---- InitProducerId, OffsetForLeaderEpoch ----

for _name, _more in (("plain", {}), ("timeout 0", {"timeout_ms": 0}), ("timeout -1", {"timeout_ms": -1}), ("empty id", {"transactional_id": ""})):
    def init_producer(s, v, more=_more):
        return s.call("InitProducerId", v, **more)
    case("InitProducerId", _name)(init_producer)

for _pid, _epoch in ((5, 3), (5, -1), (-1, 3), (-2, -2)):
    def init_again(s, v, pid=_pid, epoch=_epoch):
        return s.call("InitProducerId", v, producer_id=pid, producer_epoch=epoch)
    case("InitProducerId", f"id {_pid}, epoch {_epoch}", since=3)(init_again)


def epoch_end(s, v, epoch, topic="d-data", partition=0, current=-1, **more):
    return s.call("OffsetForLeaderEpoch", v, topics=[{"name": topic, "partitions": [
        {"partition": partition, "current_epoch": current, "epoch": epoch}]}], **more)


for _epoch in (-1, 0, 1, 100, -5):
    def epoch_of(s, v, epoch=_epoch):
        return [epoch_end(s, v, epoch), epoch_end(s, v, epoch, topic="d-two")]
    case("OffsetForLeaderEpoch", f"epoch {_epoch}")(epoch_of)

    def epoch_current(s, v, epoch=_epoch):
        return epoch_end(s, v, 0, current=epoch)
    case("OffsetForLeaderEpoch", f"current epoch {_epoch}")(epoch_current)

case("OffsetForLeaderEpoch", "partition 99")(lambda s, v: epoch_end(s, v, 0, partition=99))
case("OffsetForLeaderEpoch", "missing topic")(lambda s, v: epoch_end(s, v, 0, topic="d-missing"))
case("OffsetForLeaderEpoch", "no topics")(lambda s, v: s.call("OffsetForLeaderEpoch", v, topics=[]))


# ---- frames: for every API the same damage to a body that is right ----

BODIES = {
    "Produce": lambda v: {"acks": -1, "topics": [{**({"topic_id": ZERO} if v >= 13 else {"name": "d-frames"}), "partitions": [
        {"index": 0, "records": rb.batch(rb.values("f", 1))}]}]},
    "Fetch": lambda v: {"max_wait_ms": 0, "min_bytes": 0, "topics": [{**({"topic_id": ZERO} if v >= 13 else {"name": "d-data"}),
                                                                     "partitions": [{"partition": 0, "offset": 10}]}]},
    "ListOffsets": lambda v: {"topics": [{"name": "d-data", "partitions": [{"partition": 0, "timestamp": -1}]}]},
    "Metadata": lambda v: {"topics": [{"name": "d-data"}]},
    "FindCoordinator": lambda v: {"keys": ["g"]} if v >= 4 else {"key": "g"},
    "ApiVersions": lambda v: {"software_name": "compat", "software_version": "1"} if v >= 3 else {},
    "CreateTopics": lambda v: {"topics": [new("d-data")]},
    "DeleteTopics": lambda v: {"topics": [{"name": "d-missing"}]} if v >= 6 else {"names": ["d-missing"]},
    "InitProducerId": lambda v: {},
    "OffsetForLeaderEpoch": lambda v: {"topics": [{"name": "d-data", "partitions": [{"partition": 0, "epoch": 0}]}]},
    "DeleteRecords": lambda v: {"topics": [{"name": "d-data", "partitions": [{"partition": 0, "offset": 0}]}]},
    "DescribeConfigs": lambda v: {"resources": [{"type": 2, "name": "d-data", "keys": ["retention.ms"]}]},
    "AlterConfigs": lambda v: {"resources": [{"type": 2, "name": "d-missing", "configs": []}]},
    "IncrementalAlterConfigs": lambda v: {"resources": [{"type": 2, "name": "d-missing", "configs": []}]},
    "ListConfigResources": lambda v: {"resource_types": [2]} if v >= 1 else {},
    "DescribeLogDirs": lambda v: {"topics": [{"name": "d-data", "partitions": [0]}]},
    "CreatePartitions": lambda v: {"topics": [{"name": "d-missing", "count": 3}]},
    "DescribeCluster": lambda v: {},
    "DescribeTopicPartitions": lambda v: {"topics": [{"name": "d-data"}]},
}


def flexible(api, v):
    return v >= schema.APIS[api].flex


def outcome(answer):
    """Of an answer only that it came: what it says is the other cases' business."""
    return "answered" if isinstance(answer, dict) else answer


def frames(api):
    """The damage cases of one API."""
    def body(v):
        return schema.encode(api, v, BODIES[api](v))

    def add(name, change, since=0, **header):
        def damaged(s, v):
            if since == "flexible" and not flexible(api, v):
                return None
            return outcome(s.bytes(api, v, change(body(v)), **header))
        case(api, f"frame: {name}", since=0 if since == "flexible" else since)(damaged)

    add("whole", lambda b: b)
    add("without its last byte", lambda b: b[:-1])
    add("half", lambda b: b[:len(b) // 2])
    add("nothing", lambda b: b"")
    add("four bytes more", lambda b: b + b"\0\0\0\0")
    add("an unknown tag", lambda b: b[:-1] + b"\x01\x63\x02ab", since="flexible")
    add("tags out of order", lambda b: b[:-1] + b"\x02\x63\x00\x62\x00", since="flexible")
    add("a tag longer than the frame", lambda b: b[:-1] + b"\x01\x63\x7f", since="flexible")
    add("no client id", lambda b: b, client_id=None)
    add("empty client id", lambda b: b, client_id="")


for _api in BODIES:
    frames(_api)


@case("Metadata", "frame: lying counts", since=0)
def metadata_counts(s, v):
    if flexible("Metadata", v):
        return [outcome(s.bytes("Metadata", v, b)) for b in (b"\xff\xff\xff\xff\x07" + bytes(8), b"\x7f" + bytes(8))]
    return [outcome(s.bytes("Metadata", v, struct.pack(">i", n) + bytes(8))) for n in (0x7fffffff, -2, 1000)]


# ---- the test ----

def prepare(s):
    """The same topics with the same data on both sides."""
    s.create("d-data", partitions=1)
    for base in (0, 4, 8):
        items = [(b"k%d" % i, b"v%d" % i, rb.T0 + 1000 * i) for i in range(base, min(base + 4, 10))]
        s.call("Produce", 9, acks=-1, topics=[{"name": "d-data", "partitions": [{"index": 0, "records": rb.batch(items)}]}])
    s.create("d-two", partitions=2)
    s.create("d-three", partitions=3)
    s.create("d-produce", partitions=1)
    s.create("d-mixed")
    s.create("d-frames")
    s.create("d-compact", cleanup_policy="compact")
    s.create("d-append", message_timestamp_type="LogAppendTime")
    s.create("d-append-static", message_timestamp_type="LogAppendTime")
    s.create("d-zstd")
    s.create("d-conf", retention_ms=123_456)
    s.call("Produce", 9, acks=-1, topics=[{"name": "d-zstd", "partitions": [{"index": 0, "records": rb.batch(rb.values("z", 5), codec=4)}]}])
    until(lambda: coordinator(s, 3, "warm")["error"] != 15, "no coordinator")     # Kafka makes the internal topic first


def both(c):
    """perigee and Kafka with the same topics. Kafka serves all tests of this file."""
    need("java", "mvn")
    if "kafka" not in KEPT or not KEPT["kafka"].alive():
        KEPT["kafka"] = Context.shared["differential"] = Broker("kafka").start()
    sides = [df.Side("perigee", c.own()), df.Side("kafka", KEPT["kafka"])]
    c.opened.extend(sides)
    return sides


KEPT = {}


@test("differential: the same requests to perigee and to Apache Kafka, answers alike but for the listed deviations", only="perigee", full=True)
def alike(c):
    sides = both(c)
    for s in sides:
        prepare(s)
    words = [w for w in os.environ.get("DIFFERENTIAL", "").split(",") if w]
    bare = [api for api in df.common(sides) if api not in {k.api for k in df.CASES}]
    count, lines = df.sweep(sides, words)
    left, stale = df.judge(lines, DEVIATIONS)
    with open(os.path.join(CACHE, "differential.txt"), "w", encoding="utf-8") as f:
        f.write(f"{count} comparisons, {len(lines)} differences, {len(left)} not explained\n" + "".join(
            f"{'    ' if line not in left else 'NEW '}{line}\n" for line in lines))
    print(f"# {count} comparisons, {len(lines)} differences, {len(lines) - len(left)} of them listed as deviations", flush=True)
    assert not left, f"{len(left)} differences:\n" + "\n".join(left[:40])
    assert not bare, f"advertised, but without a case: {bare}"
    assert words or not stale, f"deviations that explain nothing any more: {stale}"
