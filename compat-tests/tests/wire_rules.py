"""Frames, headers, version negotiation: semantics 1 and 2, T51, T52, T61, T62, T65, BR-001, BR-002, BR-003, BR-007, BR-057."""
import socket
import struct
import threading
import zlib

from raw import batch as rb
from raw import schema
from raw.harness import fill, metadata, produce, read_all, test
from raw.wire import Conn, frame, request_header

RSS_LIMIT_KIB = 64 * 1024


def api_table(c, version=0):
    more = {"software_name": "compat", "software_version": "1"} if version >= 3 else {}
    answer = c.call("ApiVersions", version, **more)
    assert answer["error"] == 0, answer
    return {k["key"]: (k["min"], k["max"]) for k in answer["keys"]}


def minimal(api, version, topic):
    """A valid request of this version that changes nothing; where nothing else is said, one that asks for nothing."""
    name = {"topic_id": topic.id} if version >= 13 else {"name": str(topic)}
    return {
        "Produce": {"acks": 1, "topics": [{**name, "partitions": [{"index": 0, "records": rb.batch(rb.values("m", 1))}]}]},
        "Fetch": {"max_wait_ms": 0, "min_bytes": 0, "topics": [{**name, "partitions": [{"partition": 0, "offset": 0}]}]},
        "ListOffsets": {"topics": [{"name": str(topic), "partitions": [{"partition": 0, "timestamp": -1}]}]},
        "Metadata": {"topics": [{"name": str(topic)}]},
        "FindCoordinator": {"key": "g"} if version < 4 else {"keys": ["g"]},
        "ApiVersions": {"software_name": "compat", "software_version": "1"} if version >= 3 else {},
        "CreateTopics": {"topics": []} if version < 1 else {"topics": [{"name": "x-never"}], "validate_only": True},
        "DeleteTopics": {"names": ["no-such-topic"]} if version < 6 else {"topics": [{"name": "no-such-topic"}]},
        "InitProducerId": {},
        "OffsetForLeaderEpoch": {"topics": [{"name": str(topic), "partitions": [{"partition": 0, "epoch": 0}]}]},
    }.get(api, {})


def alive(c, broker=None):
    """Another client notices nothing."""
    with Conn((broker or c.broker()).addr) as other:
        return bool(metadata(other, [])["brokers"])


@test("BR-001 S2.4 S2.5 T65 ApiVersions of unknown versions: error 35 in v0 layout with key 18, then the retry on the same connection")
def apiversions_unknown(c):
    conn = c.conn()
    for version in (5, 9, 999, 32767):
        body = request_header(18, version, 77, flexible=True) + b"\x05kcat\x062.0.2\0"
        conn.raw(frame(body))
        reply = schema.Reader(conn.frame())
        assert reply.number(">i") == 77
        values, left = schema.decode("ApiVersions", 0, reply.data[4:])
        assert values["error"] == 35 and not left, (values, left)
        ours = {k["key"]: (k["min"], k["max"]) for k in values["keys"]}
        assert ours.get(18, (9, 0))[0] == 0 and ours[18][1] >= 3, ours
        assert api_table(conn, ours[18][1])[18] == ours[18]


@test("BR-001 S2.3 ApiVersions v0 to v4 answer with response header v0, the same table in each")
def apiversions_each(c):
    conn = c.conn()
    tables = [api_table(conn, v) for v in range(5)]
    assert all(t == tables[0] for t in tables), tables


@test("S2.6 ApiVersions v3 with an unusable client software name or version: error 42")
def apiversions_names(c):
    conn = c.conn()
    for name, version in (("", "1"), ("a b", "1"), ("-a", "1"), ("a", ""), ("a", "1-"), ("\u00e4", "1")):
        answer = conn.call("ApiVersions", 3, software_name=name, software_version=version)
        assert answer["error"] == 42, (name, version, answer)
    assert api_table(conn, 3)


@test("S2.17 S2.9 features in ApiVersions v3: epoch >= 0 once reported, no supported feature with minimum 0 below v4")
def apiversions_features(c):
    conn = c.conn()
    answer = conn.call("ApiVersions", 3, software_name="a", software_version="1")
    if answer["supported_features"] or answer["finalized_features"]:
        assert answer["features_epoch"] >= 0, answer
    assert all(f["min"] > 0 for f in answer["supported_features"]), answer


@test("S2.8 BR-003 every version of every advertised API of this road is served and readable")
def each_version(c):
    conn, topic = c.conn(), c.topic()
    table = api_table(conn)
    for api, a in schema.APIS.items():
        low, high = table[a.key]
        for version in range(low, high + 1):
            if api == "Produce" and version < 3:
                continue                             # listed, answered with 35: checked in produce_rules
            answer = conn.call(api, version, **minimal(api, version, topic))
            if api == "FindCoordinator" and not c.perigee:
                continue                             # Kafka creates the internal topic first: 15 until then
            if answer.get("topics") and api not in ("DeleteTopics", "CreateTopics"):
                part = answer["topics"][0]["partitions"][0]
                assert part["error"] == 0, (api, version, answer)
            assert answer.get("error", 0) == 0, (api, version, answer)


@test("BR-003 the advertised ranges are those of the target table (old clients of KIP-896 age included)", only="perigee")
def target_ranges(c):
    want = {0: (0, 13), 1: (4, 18), 2: (0, 11), 3: (0, 13), 10: (0, 6), 18: (0, 4), 19: (0, 7), 20: (0, 6), 22: (0, 5), 23: (2, 4)}
    table = api_table(c.conn())
    assert {k: table.get(k) for k in want} == want, table


@test("S2.8 nothing is advertised but what this road serves", only="perigee")
def nothing_else(c):
    served = {a.key for a in schema.APIS.values()}
    assert set(api_table(c.conn())) <= served


@test("BR-002 the versions that old librdkafka and kafka-python look for lie inside the table")
def feature_probes(c):
    table = api_table(c.conn())
    for key, version in ((0, 0), (0, 3), (0, 7), (1, 4), (1, 10), (3, 0), (10, 0), (18, 0), (2, 1), (22, 0)):
        low, high = table[key]
        assert low <= version <= high, (key, version, table[key])


@test("BR-007 S2.15 topic-id versions come with stable, non-zero topic ids, also after a restart")
def topic_ids(c):
    broker = c.own()
    topic = c.topic(broker=broker)
    assert topic.id not in (bytes(16), bytes(15) + b"\1")

    def seen():
        with Conn(broker.addr) as conn:
            return conn.call("Metadata", 10, topics=[{"name": str(topic)}])["topics"][0]["topic_id"]
    assert seen() == seen() == topic.id
    broker.restart()
    assert seen() == topic.id


@test("S1.3 correlation ids are echoed bit for bit: negative, repeated")
def correlation(c):
    conn = c.conn()
    for correlation_id in (-1, -2147483648, 5, 5, 0):
        conn.raw(conn.request("Metadata", 1, {"topics": []}, correlation_id))
        assert schema.Reader(conn.frame()).number(">i") == correlation_id


@test("S1.11 a null client id is accepted in header v1 and v2")
def null_client(c):
    conn = c.conn(client_id=None)
    metadata(conn, [], version=1)
    metadata(conn, [], version=9)


@test("S1.2 S5.27 pipelined requests are answered in order")
def pipelined(c):
    conn, topic = c.conn(), c.topic()
    plan = []
    for i in range(60):
        api = ("Metadata", "Produce", "Produce", "ListOffsets", "Fetch")[i % 5]
        plan.append((api, conn.send(api, 7, **minimal(api, 7, topic))))
    offsets = [conn.recv(api, 7, correlation_id)["topics"][0]["partitions"][0].get("base_offset") for api, correlation_id in plan
               if True]
    produced = [o for (api, _), o in zip(plan, offsets) if api == "Produce"]
    assert produced == list(range(24)), produced


@test("S1.4 a parked fetch blocks only its own connection")
def parked_fetch(c):
    topic = c.topic()
    waiting = c.conn()
    correlation_id = waiting.send("Fetch", 7, max_wait_ms=20000, min_bytes=1, topics=[{
        "name": topic, "partitions": [{"partition": 0, "offset": 0}]}])
    other = c.conn()
    assert fill(other, topic, 1) == 0                # would time out if it had to wait
    part = waiting.recv("Fetch", 7, correlation_id)["topics"][0]["partitions"][0]
    assert rb.batches(part["records"])[0].count == 1


@test("S1.6 T65 unknown API keys and versions close the connection")
def unknown_api(c):
    c.broker()
    for key, version in ((999, 0), (-1, 0), (32767, 3), (3, 99), (1, 1), (1, 99), (22, 77), (0, 99), (3, -1)):
        conn = c.conn()
        conn.raw(frame(request_header(key, version, 1) + bytes(20)))
        assert conn.closed(), (key, version)
    assert alive(c)


@test("S1.6 a body that ends early closes the connection; bytes after the body are tolerated")
def cut_and_tail(c):
    topic = c.topic()
    for api, version in (("Metadata", 9), ("Metadata", 1), ("Fetch", 12), ("ListOffsets", 1), ("InitProducerId", 2)):
        conn = c.conn()
        whole = conn.request(api, version, minimal(api, version, topic), 1)[4:]
        conn.raw(frame(whole + b"tail"))
        conn.recv(api, version, 1)
        conn.raw(frame(whole[:-3]))
        assert conn.closed(), (api, version)


@test("T51 S1.1 BR-057 impossible lengths, HTTP and TLS on the plain port: closed at once, nothing stored, others unharmed")
def bad_lengths(c):
    broker = c.broker()
    probes = {"zero": struct.pack(">i", 0), "one": struct.pack(">i", 1) + b"\0", "seven": struct.pack(">i", 7) + bytes(7),
              "minus one": struct.pack(">i", -1), "2 GB": struct.pack(">i", 0x7fffffff) + bytes(64),
              "minus 2 GB": struct.pack(">I", 0x80000000), "above the limit": struct.pack(">i", 104857601) + bytes(8),
              "http": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "tls": bytes.fromhex("1603010200010001fc0303") + bytes(200)}
    for name, data in probes.items():
        conn = c.conn()
        conn.raw(data)
        assert conn.closed(5), name
    assert alive(c)
    if c.perigee:
        assert broker.rss_peak_kib() <= RSS_LIMIT_KIB, broker.rss_peak_kib()


@test("T51 half a length, half a header and silence cost nothing and disturb nobody", only="perigee")
def half_frames(c):                                  # Kafka allocates what the length says and runs out of memory here
    broker, topic = c.broker(), c.topic()
    before = broker.rss_kib()
    held = []
    for i in range(200):
        conn = c.conn()
        conn.raw((struct.pack(">i", 90 << 20) + request_header(0, 7, 1))[:1 + i % 20])
        held.append(conn)
    assert fill(c.conn(), topic, 3) == 0
    if c.perigee:
        assert broker.rss_kib() - before < 16 * 1024, "announced sizes were allocated"


@test("T51 garbage of many lengths: closed, broker unharmed")
def garbage(c):
    broker = c.broker()
    data = bytes((i * 197 + 31) & 255 for i in range(4096))
    for i in range(100):
        conn = c.conn()
        piece = data[i * 7:i * 7 + 40 + i]
        conn.raw(struct.pack(">i", len(piece)) + piece)
        assert conn.closed(5), i
    assert alive(c)
    if c.perigee:
        assert broker.rss_peak_kib() <= RSS_LIMIT_KIB


@test("T52 S2.13 lying array counts and varint lengths close the connection and allocate nothing")
def lying_counts(c):
    broker = c.broker()
    huge, long_varint = struct.pack(">i", 0x7fffffff), b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    bodies = [
        (3, 1, huge), (19, 2, huge), (20, 1, huge), (2, 1, struct.pack(">i", -1) + huge),
        (0, 7, b"\xff\xff" + struct.pack(">hi", -1, 1000) + huge), (1, 4, struct.pack(">iiiib", -1, 0, 0, 0, 0) + huge),
        (3, 9, b"\xff\xff\xff\xff\x0f"), (3, 9, long_varint), (19, 5, b"\xff\xff\xff\xff\x0f"), (10, 4, b"\0\xff\xff\xff\xff\x0f"),
        (3, 1, struct.pack(">ih", 1, 0x7fff) + b"abc"),
    ]
    if c.perigee:                                    # Kafka lets this count wrap around to 0
        bodies.append((3, 12, b"\x80\x80\x80\x80\x10" + bytes(40)))
    for key, version, body in bodies:
        conn = c.conn()
        flexible = next(a for a in schema.APIS.values() if a.key == key).flex <= version
        conn.raw(frame(request_header(key, version, 1, flexible=flexible) + body))
        assert conn.closed(5), (key, version, body)
    assert alive(c)
    if c.perigee:
        assert broker.rss_peak_kib() <= RSS_LIMIT_KIB


@test("T61 100,000 pipelined requests nobody reads: bounded memory, every answer in order once read")
def flood(c):
    broker, conn, n = c.broker(), c.conn(timeout=60), 100_000
    one = conn.request("Metadata", 1, {"topics": []}, 0)
    data = b"".join(one[:8] + struct.pack(">i", i) + one[12:] for i in range(n))
    writer = threading.Thread(target=lambda: conn.sock.sendall(data))
    writer.start()
    assert alive(c)                                  # while the flood stands
    stream, seen = b"", 0
    while seen < n:
        stream += conn.sock.recv(1 << 20)
        at = 0
        while at + 8 <= len(stream):
            size, correlation_id = struct.unpack_from(">ii", stream, at)
            if at + 4 + size > len(stream):
                break
            assert correlation_id == seen, (correlation_id, seen)
            seen, at = seen + 1, at + 4 + size
        stream = stream[at:]
    writer.join()
    if c.perigee:
        assert broker.rss_peak_kib() <= RSS_LIMIT_KIB, broker.rss_peak_kib()


@test("T62 FIN and RST at every byte of a produce frame: nothing half-applied")
def cut_requests(c):
    topic = c.topic()
    probe = c.conn()
    whole = probe.request("Produce", 7, {"acks": -1, "topics": [{"name": topic, "partitions": [
        {"index": 0, "records": rb.batch(rb.values("cut", 1))}]}]}, 1)
    for at in range(len(whole)):
        for end in (Conn.close, Conn.reset):
            conn = Conn(c.current.addr)
            conn.raw(whole[:at])
            end(conn)
    assert fill(probe, topic, 1) == 0, "a cut frame was applied"


@test("T62 S1.10 RST at every byte of our reply: each whole request applied once, others served")
def cut_replies(c):
    topic = c.topic()
    reply = None
    sent = 0
    while reply is None or sent <= reply + 4:
        conn = Conn(c.current.addr)
        conn.send("Produce", 7, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": 0, "records": rb.batch(rb.values(f"r{sent}-", 1))}]}])
        if reply is None:
            reply = len(conn.frame())
        else:
            conn._exactly(min(sent, reply + 4))
        conn.reset()
        sent += 1
    values = [r[3] for r in read_all(c.conn(), topic)]
    # Where not even the first byte of the answer was awaited the request may still be on its way: it is applied whole or not at all.
    assert len(values) == len(set(values)) and set(values) <= {f"r{i}-0".encode() for i in range(sent)}, values
    assert len(values) >= sent - 1, (len(values), sent)


@test("T61 a client that shuts down its writing side still gets the answers to what it sent")
def half_close(c):
    conn = c.conn()
    correlation_id = conn.send("Metadata", 1, topics=[])
    conn.sock.shutdown(socket.SHUT_WR)
    try:
        conn.recv("Metadata", 1, correlation_id)
    except EOFError:
        pass                                         # Kafka may drop it; a broker that answers is welcome, a crash is not
    assert alive(c)


@test("T53 a flipped bit anywhere in a produce frame: only the batch as it was sent is ever stored")
def flipped_bits(c):
    topic = c.topic()
    data = rb.batch(rb.values("flip", 2))
    probe = c.conn()
    whole = probe.request("Produce", 7, {"acks": -1, "timeout_ms": 5000, "topics": [{"name": topic, "partitions": [
        {"index": 0, "records": data}]}]}, 1)
    conn = None
    for at in range(8, len(whole)):                  # the length and the API are T51 and T65
        conn = conn or Conn(c.current.addr, timeout=5)
        conn.raw(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1:])
        try:
            conn.frame()
        except (EOFError, TimeoutError):             # closed, or acks became 0: no answer
            conn.close()
            conn = None
    if conn:
        conn.close()
    for b in stored(probe, topic):
        assert b.data[16:] == data[16:], "a damaged batch was stored"
    assert alive(c)


def stored(conn, topic):
    from raw.harness import fetch
    return rb.batches(fetch(conn, topic, 0)["records"])


@test("S5.3 BR-008 T65 Produce v0 to v2: refused with error 35 per partition, nothing stored")
def produce_old(c):
    conn, topic = c.conn(), c.topic()
    for version in (0, 1, 2):
        message = struct.pack(">bbii", 0, 0, -1, 3) + b"old"
        old = struct.pack(">qiI", 0, len(message) + 4, zlib.crc32(message)) + message
        try:
            answer = conn.call("Produce", version, acks=1, timeout_ms=1000, topics=[{
                "name": topic, "partitions": [{"index": 0, "records": old}]}])
        except EOFError:
            assert not c.perigee, "perigee answers 35 where the layout allows (S2.8)"
            conn = c.conn()                          # Kafka 4.3 closes
            continue
        assert answer["topics"][0]["partitions"][0]["error"] == 35, (version, answer)
    assert produce(conn, topic, rb.batch(rb.values("n", 1)))["base_offset"] == 0
