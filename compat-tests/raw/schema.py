"""Bodies of the Kafka APIs that the tests speak, as data, with one reader and one writer for all of them.

Independent of the broker's own generator on purpose: a mistake must not be made twice. tests/golden proves this table
(`python3 -m raw.selftest`). Field: (name, type, versions, options); type is a scalar name, [type] for an array, or a list of fields
wrapped in Struct. Options: null=first version that may be null, tag=number, dflt=value assumed when absent.
"""
import struct
import uuid

SCALARS = {"i8": ">b", "i16": ">h", "i32": ">i", "i64": ">q", "u16": ">H"}


class Struct(list):
    """A list of fields."""


class Field:
    def __init__(self, name, kind, since=0, until=999, null=None, tag=None, dflt=None):
        self.name, self.kind, self.since, self.until, self.null, self.tag = name, kind, since, until, null, tag
        self.dflt = default_of(kind) if dflt is None else dflt
        if dflt == "null":
            self.dflt = None

    def lives(self, version):
        return self.since <= version <= self.until

    def nullable(self, version):
        return self.null is not None and version >= self.null


F = Field


def default_of(kind):
    if isinstance(kind, Struct):
        return None                                  # made field by field
    if isinstance(kind, list):
        return []
    return {"string": "", "bytes": b"", "uuid": bytes(16), "bool": False}.get(kind, 0)


class Api:
    def __init__(self, key, flex, req, resp):
        self.key, self.flex, self.req, self.resp = key, flex, Struct(req), Struct(resp)


LEADER = Struct([F("leader_id", "i32", dflt=-1), F("leader_epoch", "i32", dflt=-1)])
CURSOR = Struct([F("topic", "string"), F("partition", "i32")])
ENDPOINTS = [Struct([F("node_id", "i32"), F("host", "string"), F("port", "i32"), F("rack", "string", null=0, dflt="null")])]

APIS = {
    "Produce": Api(0, 9, [
        F("transactional_id", "string", 3, null=3, dflt="null"), F("acks", "i16", dflt=-1), F("timeout_ms", "i32", dflt=10000),
        F("topics", [Struct([
            F("name", "string", 0, 12), F("topic_id", "uuid", 13),
            F("partitions", [Struct([F("index", "i32"), F("records", "bytes", null=0, dflt="null")])])])])],
        [F("topics", [Struct([
            F("name", "string", 0, 12), F("topic_id", "uuid", 13),
            F("partitions", [Struct([
                F("index", "i32"), F("error", "i16"), F("base_offset", "i64"), F("log_append_time", "i64", 2, dflt=-1),
                F("log_start", "i64", 5, dflt=-1),
                F("record_errors", [Struct([F("index", "i32"), F("message", "string", null=0, dflt="null")])], 8),
                F("error_message", "string", 8, null=8, dflt="null"),
                F("current_leader", LEADER, 10, tag=0)])])])]),
         F("throttle_ms", "i32", 1), F("endpoints", ENDPOINTS, 10, tag=0)]),
    "Fetch": Api(1, 12, [
        F("cluster_id", "string", 12, null=12, tag=0, dflt="null"), F("replica_id", "i32", 0, 14, dflt=-1),
        F("replica_state", Struct([F("replica_id", "i32", dflt=-1), F("replica_epoch", "i64", dflt=-1)]), 15, tag=1),
        F("max_wait_ms", "i32"), F("min_bytes", "i32"), F("max_bytes", "i32", 3, dflt=0x7fffffff), F("isolation", "i8", 4),
        F("session_id", "i32", 7), F("session_epoch", "i32", 7, dflt=-1),
        F("topics", [Struct([
            F("name", "string", 0, 12), F("topic_id", "uuid", 13),
            F("partitions", [Struct([
                F("partition", "i32"), F("leader_epoch", "i32", 9, dflt=-1), F("offset", "i64"),
                F("last_fetched_epoch", "i32", 12, dflt=-1), F("log_start", "i64", 5, dflt=-1),
                F("max_bytes", "i32", dflt=1 << 20), F("directory_id", "uuid", 17, tag=0),
                F("high_watermark", "i64", 18, tag=1, dflt=(1 << 63) - 1)])])])]),
        F("forgotten", [Struct([F("name", "string", 7, 12), F("topic_id", "uuid", 13), F("partitions", ["i32"])])], 7),
        F("rack", "string", 11)],
        [F("throttle_ms", "i32", 1), F("error", "i16", 7), F("session_id", "i32", 7),
         F("topics", [Struct([
             F("name", "string", 0, 12), F("topic_id", "uuid", 13),
             F("partitions", [Struct([
                 F("partition", "i32"), F("error", "i16"), F("high_watermark", "i64"), F("last_stable", "i64", 4, dflt=-1),
                 F("log_start", "i64", 5, dflt=-1),
                 F("diverging", Struct([F("epoch", "i32", dflt=-1), F("end_offset", "i64", dflt=-1)]), 12, tag=0),
                 F("current_leader", LEADER, 12, tag=1),
                 F("snapshot", Struct([F("end_offset", "i64", dflt=-1), F("epoch", "i32", dflt=-1)]), 12, tag=2),
                 F("aborted", [Struct([F("producer_id", "i64"), F("first_offset", "i64")])], 4, null=4),
                 F("preferred_replica", "i32", 11, dflt=-1), F("records", "bytes", null=0, dflt="null")])])])]),
         F("endpoints", ENDPOINTS, 16, tag=0)]),
    "ListOffsets": Api(2, 6, [
        F("replica_id", "i32", dflt=-1), F("isolation", "i8", 2),
        F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
            F("partition", "i32"), F("leader_epoch", "i32", 4, dflt=-1), F("timestamp", "i64"),
            F("max_num", "i32", 0, 0, dflt=1)])])])]),
        F("timeout_ms", "i32", 10)],
        [F("throttle_ms", "i32", 2),
         F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
             F("partition", "i32"), F("error", "i16"), F("old_offsets", ["i64"], 0, 0), F("timestamp", "i64", 1, dflt=-1),
             F("offset", "i64", 1, dflt=-1), F("leader_epoch", "i32", 4, dflt=-1)])])])])]),
    "Metadata": Api(3, 9, [
        F("topics", [Struct([F("topic_id", "uuid", 10), F("name", "string", null=10)])], null=1),
        F("allow_auto_create", "bool", 4, dflt=True), F("cluster_operations", "bool", 8, 10), F("topic_operations", "bool", 8)],
        [F("throttle_ms", "i32", 3),
         F("brokers", [Struct([F("node_id", "i32"), F("host", "string"), F("port", "i32"),
                               F("rack", "string", 1, null=1, dflt="null")])]),
         F("cluster_id", "string", 2, null=2, dflt="null"), F("controller_id", "i32", 1, dflt=-1),
         F("topics", [Struct([
             F("error", "i16"), F("name", "string", null=12), F("topic_id", "uuid", 10), F("internal", "bool", 1),
             F("partitions", [Struct([
                 F("error", "i16"), F("partition", "i32"), F("leader", "i32"), F("leader_epoch", "i32", 7, dflt=-1),
                 F("replicas", ["i32"]), F("isr", ["i32"]), F("offline", ["i32"], 5)])]),
             F("operations", "i32", 8, dflt=-2147483648)])]),
         F("cluster_operations", "i32", 8, 10, dflt=-2147483648), F("error", "i16", 13)]),
    "FindCoordinator": Api(10, 3, [
        F("key", "string", 0, 3), F("key_type", "i8", 1), F("keys", ["string"], 4)],
        [F("throttle_ms", "i32", 1), F("error", "i16", 0, 3), F("error_message", "string", 1, 3, null=1),
         F("node_id", "i32", 0, 3), F("host", "string", 0, 3), F("port", "i32", 0, 3),
         F("coordinators", [Struct([F("key", "string"), F("node_id", "i32"), F("host", "string"), F("port", "i32"), F("error", "i16"),
                                    F("error_message", "string", null=0)])], 4)]),
    "ApiVersions": Api(18, 3, [F("software_name", "string", 3), F("software_version", "string", 3)],
        [F("error", "i16"), F("keys", [Struct([F("key", "i16"), F("min", "i16"), F("max", "i16")])]), F("throttle_ms", "i32", 1),
         F("supported_features", [Struct([F("name", "string"), F("min", "i16"), F("max", "i16")])], 3, tag=0),
         F("features_epoch", "i64", 3, tag=1, dflt=-1),
         F("finalized_features", [Struct([F("name", "string"), F("max", "i16"), F("min", "i16")])], 3, tag=2),
         F("zk_migration", "bool", 3, tag=3)]),
    "CreateTopics": Api(19, 5, [
        F("topics", [Struct([
            F("name", "string"), F("partitions", "i32", dflt=1), F("replication", "i16", dflt=1),
            F("assignments", [Struct([F("partition", "i32"), F("brokers", ["i32"])])]),
            F("configs", [Struct([F("name", "string"), F("value", "string", null=0)])])])]),
        F("timeout_ms", "i32", dflt=60000), F("validate_only", "bool", 1)],
        [F("throttle_ms", "i32", 2),
         F("topics", [Struct([
             F("name", "string"), F("topic_id", "uuid", 7), F("error", "i16"), F("error_message", "string", 1, null=0),
             F("config_error", "i16", 5, tag=0), F("partitions", "i32", 5, dflt=-1), F("replication", "i16", 5, dflt=-1),
             F("configs", [Struct([F("name", "string"), F("value", "string", null=0), F("read_only", "bool"),
                                   F("source", "i8", dflt=-1), F("sensitive", "bool")])], 5, null=5)])])]),
    "DeleteTopics": Api(20, 4, [
        F("topics", [Struct([F("name", "string", null=6, dflt="null"), F("topic_id", "uuid")])], 6),
        F("names", ["string"], 0, 5), F("timeout_ms", "i32", dflt=60000)],
        [F("throttle_ms", "i32", 1),
         F("topics", [Struct([F("name", "string", null=6), F("topic_id", "uuid", 6), F("error", "i16"),
                              F("error_message", "string", 5, null=5, dflt="null")])])]),
    "InitProducerId": Api(22, 2, [
        F("transactional_id", "string", null=0, dflt="null"), F("timeout_ms", "i32", dflt=60000),
        F("producer_id", "i64", 3, dflt=-1), F("producer_epoch", "i16", 3, dflt=-1)],
        [F("throttle_ms", "i32"), F("error", "i16"), F("producer_id", "i64", dflt=-1), F("producer_epoch", "i16")]),
    "DeleteRecords": Api(21, 2, [
        F("topics", [Struct([F("name", "string"), F("partitions", [Struct([F("partition", "i32"), F("offset", "i64")])])])]),
        F("timeout_ms", "i32", dflt=60000)],
        [F("throttle_ms", "i32"),
         F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
             F("partition", "i32"), F("low_watermark", "i64"), F("error", "i16")])])])])]),
    "DescribeLogDirs": Api(35, 2, [
        F("topics", [Struct([F("name", "string"), F("partitions", ["i32"])])], null=0, dflt="null")],
        [F("throttle_ms", "i32"), F("error", "i16", 3),
         F("results", [Struct([
             F("error", "i16"), F("log_dir", "string"),
             F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
                 F("partition", "i32"), F("size", "i64"), F("offset_lag", "i64"), F("is_future", "bool")])])])]),
             F("total_bytes", "i64", 4, dflt=-1), F("usable_bytes", "i64", 4, dflt=-1)])])]),
    "CreatePartitions": Api(37, 2, [
        F("topics", [Struct([F("name", "string"), F("count", "i32"),
                             F("assignments", [Struct([F("brokers", ["i32"])])], null=0, dflt="null")])]),
        F("timeout_ms", "i32", dflt=60000), F("validate_only", "bool")],
        [F("throttle_ms", "i32"),
         F("results", [Struct([F("name", "string"), F("error", "i16"), F("error_message", "string", null=0, dflt="null")])])]),
    "DescribeCluster": Api(60, 0, [
        F("cluster_operations", "bool"), F("endpoint_type", "i8", 1, dflt=1), F("include_fenced", "bool", 2)],
        [F("throttle_ms", "i32"), F("error", "i16"), F("error_message", "string", null=0, dflt="null"), F("endpoint_type", "i8", 1, dflt=1),
         F("cluster_id", "string"), F("controller_id", "i32", dflt=-1),
         F("brokers", [Struct([F("node_id", "i32"), F("host", "string"), F("port", "i32"), F("rack", "string", null=0, dflt="null"),
                               F("fenced", "bool", 2)])]),
         F("cluster_operations", "i32", dflt=-2147483648)]),
    "DescribeTopicPartitions": Api(75, 0, [
        F("topics", [Struct([F("name", "string")])]), F("limit", "i32", dflt=2000), F("cursor", CURSOR, null=0, dflt="null")],
        [F("throttle_ms", "i32"),
         F("topics", [Struct([
             F("error", "i16"), F("name", "string", null=0), F("topic_id", "uuid"), F("internal", "bool"),
             F("partitions", [Struct([
                 F("error", "i16"), F("partition", "i32"), F("leader", "i32"), F("leader_epoch", "i32", dflt=-1),
                 F("replicas", ["i32"]), F("isr", ["i32"]), F("eligible", ["i32"], null=0, dflt="null"),
                 F("last_eligible", ["i32"], null=0, dflt="null"), F("offline", ["i32"])])]),
             F("operations", "i32", dflt=-2147483648)])]),
         F("next_cursor", CURSOR, null=0, dflt="null")]),
    "OffsetForLeaderEpoch": Api(23, 4, [
        F("replica_id", "i32", 3, dflt=-2),
        F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
            F("partition", "i32"), F("current_epoch", "i32", 2, dflt=-1), F("epoch", "i32")])])])])],
        [F("throttle_ms", "i32", 2),
         F("topics", [Struct([F("name", "string"), F("partitions", [Struct([
             F("error", "i16"), F("partition", "i32"), F("epoch", "i32", 1, dflt=-1), F("end_offset", "i64", dflt=-1)])])])])]),
    "DescribeConfigs": Api(32, 4, [
        F("resources", [Struct([F("type", "i8"), F("name", "string"), F("keys", ["string"], null=0)])]),
        F("with_synonyms", "bool", 1), F("with_docs", "bool", 3)],
        [F("throttle_ms", "i32"),
         F("results", [Struct([
             F("error", "i16"), F("error_message", "string", null=0), F("type", "i8"), F("name", "string"),
             F("configs", [Struct([
                 F("name", "string"), F("value", "string", null=0), F("read_only", "bool"), F("is_default", "bool", 0, 0),
                 F("source", "i8", 1, dflt=-1), F("sensitive", "bool"),
                 F("synonyms", [Struct([F("name", "string"), F("value", "string", null=0), F("source", "i8")])], 1),
                 F("type", "i8", 3), F("documentation", "string", 3, null=3)])])])])]),
    "AlterConfigs": Api(33, 2, [
        F("resources", [Struct([F("type", "i8"), F("name", "string"),
                                F("configs", [Struct([F("name", "string"), F("value", "string", null=0)])])])]),
        F("validate_only", "bool")],
        [F("throttle_ms", "i32"),
         F("responses", [Struct([F("error", "i16"), F("error_message", "string", null=0), F("type", "i8"), F("name", "string")])])]),
    "IncrementalAlterConfigs": Api(44, 1, [
        F("resources", [Struct([F("type", "i8"), F("name", "string"),
                                F("configs", [Struct([F("name", "string"), F("op", "i8"), F("value", "string", null=0)])])])]),
        F("validate_only", "bool")],
        [F("throttle_ms", "i32"),
         F("responses", [Struct([F("error", "i16"), F("error_message", "string", null=0), F("type", "i8"), F("name", "string")])])]),
    "ListConfigResources": Api(74, 0, [F("resource_types", ["i8"], 1)],
        [F("throttle_ms", "i32"), F("error", "i16"),
         F("resources", [Struct([F("name", "string"), F("type", "i8", 1, dflt=16)])])]),
}


# ---- writing ----

def uvarint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def sized(data, flexible, wide):
    """Length-prefixed bytes; data None is null."""
    if flexible:
        return uvarint(0) if data is None else uvarint(len(data) + 1) + data
    size = struct.pack(">i" if wide else ">h", -1 if data is None else len(data))
    return size + (data or b"")


def put_value(kind, value, version, flexible):
    if isinstance(kind, Struct):
        return put_struct(kind, value or {}, version, flexible)
    if isinstance(kind, list):
        if value is None:
            return uvarint(0) if flexible else struct.pack(">i", -1)
        head = uvarint(len(value) + 1) if flexible else struct.pack(">i", len(value))
        return head + b"".join(put_value(kind[0], v, version, flexible) for v in value)
    if kind == "string":
        return sized(None if value is None else value.encode(), flexible, False)
    if kind == "bytes":
        return sized(value, flexible, True)
    if kind == "bool":
        return b"\1" if value else b"\0"
    if kind == "uuid":
        return value.bytes if isinstance(value, uuid.UUID) else value
    return struct.pack(SCALARS[kind], value)


def effective_default(field, version):
    return blank(field.kind, version) if isinstance(field.kind, Struct) and field.null is None else field.dflt


def blank(fields, version):
    return {f.name: effective_default(f, version) for f in fields if f.lives(version)}


def put_struct(fields, values, version, flexible):
    unknown = set(values) - {f.name for f in fields} - {"_tags"}
    if unknown:
        raise KeyError(f"no such field: {unknown}")
    out, tags = [], []
    for f in fields:
        if not f.lives(version):
            continue
        value = values.get(f.name, effective_default(f, version))
        if f.tag is None and isinstance(f.kind, Struct) and f.nullable(version):
            out.append(b"\xff" if value is None else b"\1" + put_value(f.kind, value, version, flexible))
        elif f.tag is None:
            out.append(put_value(f.kind, value, version, flexible))
        elif isinstance(f.kind, Struct) and {**blank(f.kind, version), **value} != blank(f.kind, version) \
                or not isinstance(f.kind, Struct) and value != f.dflt:
            tags.append((f.tag, put_value(f.kind, value, version, True)))
    if flexible:
        tags = sorted(tags + list(values.get("_tags", {}).items()))
        out.append(uvarint(len(tags)))
        out += [uvarint(t) + uvarint(len(b)) + b for t, b in tags]
    return b"".join(out)


# ---- reading ----

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if n < 0 or self.at + n > len(self.data):
            raise ValueError(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        piece = self.data[self.at:self.at + n]
        self.at += n
        return piece

    def uvarint(self):
        n = shift = 0
        while True:
            b = self.take(1)[0]
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n
            if shift > 63:
                raise ValueError("varint too long")

    def varint(self):
        n = self.uvarint()
        return n >> 1 ^ -(n & 1)

    def number(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def length(self, flexible, wide):
        return self.uvarint() - 1 if flexible else self.number(">i" if wide else ">h")


def get_value(kind, r, version, flexible):
    if isinstance(kind, Struct):
        return get_struct(kind, r, version, flexible)
    if isinstance(kind, list):
        n = r.length(flexible, True)
        return None if n < 0 else [get_value(kind[0], r, version, flexible) for _ in range(n)]
    if kind in ("string", "bytes"):
        n = r.length(flexible, kind == "bytes")
        data = None if n < 0 else r.take(n)
        return data.decode() if data is not None and kind == "string" else data
    if kind == "bool":
        return r.take(1) != b"\0"
    if kind == "uuid":
        return r.take(16)
    return r.number(SCALARS[kind])


def get_struct(fields, r, version, flexible):
    out = {}
    for f in fields:
        if f.lives(version) and f.tag is None and isinstance(f.kind, Struct) and f.nullable(version) and r.number(">b") < 0:
            out[f.name] = None
        elif f.lives(version) and f.tag is None:
            out[f.name] = get_value(f.kind, r, version, flexible)
            if out[f.name] is None and not f.nullable(version):
                raise ValueError(f"{f.name} is null and must not be in v{version}")
    if not flexible:
        return out
    tagged = {f.tag: f for f in fields if f.tag is not None and f.lives(version)}
    for f in tagged.values():
        out[f.name] = effective_default(f, version)
    last = -1
    for _ in range(r.uvarint()):
        tag = r.uvarint()
        if tag <= last:
            raise ValueError("tags out of order")
        last = tag
        part = Reader(r.take(r.uvarint()))
        if tag in tagged:
            out[tagged[tag].name] = get_value(tagged[tag].kind, part, version, True)
            if part.at != len(part.data):
                raise ValueError(f"tag {tag} has a tail")
        else:
            out.setdefault("_tags", {})[tag] = part.data
    return out


def encode(api, version, values, response=False):
    a = APIS[api]
    return put_struct(a.resp if response else a.req, values, version, version >= a.flex)


def decode(api, version, data, response=True):
    """Returns (values, bytes left over)."""
    a, r = APIS[api], Reader(data)
    return get_struct(a.resp if response else a.req, r, version, version >= a.flex), len(data) - r.at
