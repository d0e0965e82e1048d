"""Metadata, CreateTopics, DeleteTopics, FindCoordinator: semantics 3, 4, 9.2, T64, BR-040 to BR-044, BR-049, BR-050."""
import os
import time

from raw import batch as rb
from raw.broker import free_port
from raw.harness import fetch, fill, list_offset, metadata, produce, test
from raw.wire import Conn


def create(conn, *topics, version=7, **more):
    """Each topic a dict; returns {name: answer} (a list where names repeat)."""
    answer = conn.call("CreateTopics", version, topics=[{"partitions": 1, "replication": 1, **t} for t in topics], **more)
    return {t["name"]: t for t in answer["topics"]}


def delete(conn, *names, version=5):
    return {t["name"]: t["error"] for t in conn.call("DeleteTopics", version, names=list(names))["topics"]}


def names(conn):
    return {t["name"] for t in metadata(conn, None)["topics"]}


def exists(conn, name):
    return metadata(conn, [name])["topics"][0]["error"] == 0


# ---- Metadata ----

@test("S3.1 Metadata: v0 empty means all; v1+ null means all, empty means brokers only")
def all_or_none(c):
    conn, topic = c.conn(), c.topic()
    assert topic in {t["name"] for t in conn.call("Metadata", 0, topics=[])["topics"]}
    for version in (1, 4, 9, 12, 13):
        assert topic in {t["name"] for t in conn.call("Metadata", version, topics=None)["topics"]}, version
        none = conn.call("Metadata", version, topics=[])
        assert none["topics"] == [] and none["brokers"], version


@test("S3.2 BR-044 mixed known and unknown names: error 3 without partitions for the missing, full data for the others")
def mixed(c):
    conn, topic = c.conn(), c.topic(partitions=2)
    for version in (4, 8, 12):
        answer = conn.call("Metadata", version, topics=[{"name": n} for n in (topic, "missing-1", "missing-2")], allow_auto_create=False)
        got = {t["name"]: (t["error"], len(t["partitions"])) for t in answer["topics"]}
        assert got == {topic: (0, 2), "missing-1": (3, 0), "missing-2": (3, 0)}, (version, got)


@test("S3.4 BR-050 invalid names in Metadata: error 17")
def invalid_names(c):
    conn = c.conn()
    for name in ("a/b", "..", ".", "x" * 250, "a b", "\u00e4"):
        answer = metadata(conn, [name], auto=True)["topics"][0]
        assert (answer["error"], answer["partitions"]) == (17, []), (name, answer)


@test("S3.5 S3.6 look-up by id from v12: known id names the topic, unknown id is 100 with a null name; v10 with an id is error 42")
def by_id(c):
    conn, topic = c.conn(), c.topic()
    for version in (12, 13):
        got = conn.call("Metadata", version, topics=[{"topic_id": topic.id, "name": None}])["topics"]
        assert [(t["error"], t["name"]) for t in got] == [(0, topic)], got
        got = conn.call("Metadata", version, topics=[{"topic_id": bytes(range(16)), "name": None}])["topics"]
        assert [(t["error"], t["name"]) for t in got] == [(100, None)], got


@test("S3.8 S3.13 every partition from 0 to n-1 with a leader, replicas and ISR that are in the broker list")
def partitions(c):
    conn, topic = c.conn(), c.topic(partitions=7)
    answer = metadata(conn, [topic])
    brokers = {b["node_id"] for b in answer["brokers"]}
    parts = sorted(answer["topics"][0]["partitions"], key=lambda p: p["partition"])
    assert [p["partition"] for p in parts] == list(range(7))
    for p in parts:
        assert p["error"] == 0 and p["leader"] in brokers and p["leader_epoch"] >= 0, p
        assert set(p["replicas"]) == set(p["isr"]) == {p["leader"]} and not p["offline"], p


@test("S3.11 S3.12 the controller is a live broker; the cluster id is constant, 22 characters, also after a restart")
def cluster(c):
    broker = c.own()
    first = metadata(c.conn(broker), [])
    assert first["controller_id"] in {b["node_id"] for b in first["brokers"]}
    assert len(first["cluster_id"]) == 22
    broker.restart()
    assert metadata(c.conn(broker), [])["cluster_id"] == first["cluster_id"]


@test("S3.14 authorized operations: -2147483648 when not asked, all of them without an authorizer")
def operations(c):
    conn, topic = c.conn(), c.topic()
    plain = conn.call("Metadata", 8, topics=[{"name": topic}])
    assert plain["topics"][0]["operations"] == plain["cluster_operations"] == -2147483648
    asked = conn.call("Metadata", 8, topics=[{"name": topic}], topic_operations=True, cluster_operations=True)
    bits = [sum(1 << n for n in named) for named in ((3, 4, 5, 6, 7, 8, 10, 11), (5, 7, 8, 9, 10, 11, 12))]       # what each kind can be allowed
    assert [asked["topics"][0]["operations"], asked["cluster_operations"]] == bits, asked


@test("S3.3 BR-043 BR-044 automatic creation: only when named and allowed; perigee answers with the finished topic at once")
def auto_create(c):
    conn = c.conn()
    ghost = c.name("ghost")
    assert metadata(conn, [ghost], auto=False)["topics"][0]["error"] == 3
    conn.call("Metadata", 9, topics=None, allow_auto_create=True)
    assert not exists(conn, ghost), "created without being allowed"
    answer = metadata(conn, [ghost], auto=True)["topics"][0]
    if c.perigee:
        assert answer["error"] == 0 and len(answer["partitions"]) >= 1, answer
        assert produce(conn, ghost, rb.batch(rb.values("a", 1)))["base_offset"] == 0
    else:
        assert answer["error"] in (0, 3, 5), answer
    old = c.name("ghost")
    first = conn.call("Metadata", 1, topics=[{"name": old}])["topics"][0]["error"]
    assert first == 0 or not c.perigee and first in (3, 5), first
    for bad in ("..", "a/b"):
        assert metadata(conn, [bad], auto=True)["topics"][0]["error"] == 17


@test("BR-044 S4.12 an auto-created topic asked for by eight clients at once is one topic, usable at once", only="perigee")
def auto_create_race(c):
    name = c.name("race")
    conns = [c.conn() for _ in range(8)]
    sent = [conn.send("Metadata", 12, topics=[{"name": name}], allow_auto_create=True) for conn in conns]
    ids = set()
    for conn, s in zip(conns, sent):
        t = conn.recv("Metadata", 12, s)["topics"][0]
        assert t["error"] == 0 and t["partitions"], t
        ids.add(t["topic_id"])
    assert len(ids) == 1
    assert sorted(produce(conn, name, rb.batch(rb.values("x", 1)))["base_offset"] for conn in conns) == list(range(8))


@test("BR-043 auto.create.topics.enable=false: nobody creates, error 3")
def auto_create_off(c):
    c.broker(auto_create_topics_enable="false")
    conn = c.conn()
    ghost = c.name("ghost")
    for version in (1, 4, 12):
        answer = conn.call("Metadata", version, topics=[{"name": ghost}])["topics"][0]
        assert answer["error"] == 3 and not answer["partitions"], answer
    assert ghost not in names(conn)


@test("BR-043 a deleted topic stays deleted under a fetch, a produce and a list-all")
def stays_deleted(c):
    conn, topic = c.conn(), c.topic()
    fill(conn, topic, 1)
    assert delete(conn, topic) == {topic: 0}
    waiting = time.monotonic() + 5
    while not c.perigee and exists(conn, topic) and time.monotonic() < waiting:
        pass
    for _ in range(3):
        assert fetch(conn, topic, 0)["error"] in (3, 6)
        assert produce(conn, topic, rb.batch(rb.values("a", 1)))["error"] in (3, 6)
        assert list_offset(conn, topic, -1)["error"] in (3, 6)
        conn.call("Metadata", 12, topics=None)
    assert not exists(conn, topic)


# ---- addresses ----

@test("BR-040 S3.10 bound to a wildcard, perigee tells each client the address it connected to", only="perigee")
def wildcard(c):
    broker = c.own(host="0.0.0.0")
    for host in ("127.0.0.1", "127.0.0.2"):
        with Conn((host, broker.port)) as conn:
            b = metadata(conn, [])["brokers"][0]
            assert (b["host"], b["port"]) == (host, broker.port), b
            coordinator = conn.call("FindCoordinator", 2, key="g")
            assert coordinator["error"] == 0 and coordinator["host"] == host, coordinator


@test("BR-040 an advertised wildcard is refused at start (exit 78, one clear line)")
def advertised_wildcard(c):
    port = free_port()
    broker = c.own(start=False, advertised_listeners=f"PLAINTEXT://0.0.0.0:{port}")
    broker.port = port
    status = broker.start_expecting_failure()
    assert status == 78 if c.perigee else status not in (None, 0), (status, broker.log_text()[-500:])
    assert not c.perigee or "advertised" in broker.log_text()
    c.current = None


@test("BR-041 S3.10 two listeners: each client is told the advertised address of its own; a changed one is served after a restart")
def two_listeners(c):
    a, b = free_port(), free_port()
    broker = c.own(start=False)
    broker.port = a
    extra = ",CONTROLLER:PLAINTEXT" if not c.perigee else ""
    controller = f",CONTROLLER://127.0.0.1:{free_port()}" if not c.perigee else ""
    broker.settings.update({
        "listeners": f"PLAINTEXT://127.0.0.1:{a},OUTSIDE://127.0.0.1:{b}{controller}",
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT{extra}"})
    for inside, outside in (("in.example", "out.example"), ("out.example", "other.example")):
        broker.settings["advertised.listeners"] = f"PLAINTEXT://{inside}:1111,OUTSIDE://{outside}:2222"
        if not c.perigee:
            broker.settings["inter.broker.listener.name"] = "PLAINTEXT"
        broker.start()
        for port, host, told in ((a, inside, 1111), (b, outside, 2222)):
            with Conn(("127.0.0.1", port)) as conn:
                got = metadata(conn, [])["brokers"][0]
                assert (got["host"], got["port"]) == (host, told), (got, host)
        broker.stop()


@test("S9.2 FindCoordinator for a kind of key that is not there: 42 in words, in every version")
def coordinator_kinds(c):
    conn = c.conn()
    for version in range(1, 7):
        ask = {"key": "k"} if version < 4 else {"keys": ["k"]}
        for kind in (-1, 9, *(() if version >= 6 else (2,))):
            answer = conn.call("FindCoordinator", version, key_type=kind, **ask)
            got = answer if version < 4 else answer["coordinators"][0]
            assert got["error"] == 42 and (got["error_message"] or not c.perigee), (version, kind, answer)


@test("S9.2 BR-002 FindCoordinator names this node in every version; v4+ answers each key")
def coordinator(c):
    conn = c.conn()
    me = metadata(conn, [])["brokers"][0]
    for version in range(7):
        deadline = time.monotonic() + 20
        while True:
            if version < 4:
                got = [conn.call("FindCoordinator", version, key="group-x")]
            else:
                got = conn.call("FindCoordinator", version, keys=["group-x", "other"])["coordinators"]
                assert [g["key"] for g in got] == ["group-x", "other"]
            if c.perigee or got[0]["error"] != 15 or time.monotonic() > deadline:
                break
        for g in got:
            assert (g["error"], g["node_id"], g["host"], g["port"]) == (0, me["node_id"], me["host"], me["port"]), (version, g)


# ---- CreateTopics ----

@test("BR-050 S4.1 T64 names: 1 to 249 of [a-zA-Z0-9._-], not . or ..; else 17, and nothing odd in the data directory")
def topic_names(c):
    broker, conn = c.broker(), c.conn()
    prefix = c.name("n")
    good = [f"{prefix}.server.db_name.table", prefix + "x" * (249 - len(prefix)), f"{prefix}-._"]
    bad = ["", ".", "..", "x" * 250, "a/b", "../x", "/etc/passwd", "\u00e4", "a b", "a\0b", "a\nb", "a:b", "a*", "%2e%2e"]
    got = create(conn, *({"name": n} for n in good + bad))
    assert {n: got[n]["error"] for n in good} == dict.fromkeys(good, 0), got
    assert {n: got[n]["error"] for n in bad} == dict.fromkeys(bad, 17), {n: got[n]["error"] for n in bad}
    for root, folders, _ in os.walk(broker.data):
        assert not [f for f in folders if " " in f or "\n" in f], root
    assert not os.path.exists(os.path.join(os.path.dirname(broker.data), "x-0"))


@test("BR-050 S4.2 a.b and a_b collide: error 17, either way round, also by auto-creation")
def collision(c):
    conn = c.conn()
    prefix = c.name("col")
    assert create(conn, {"name": f"{prefix}.a.b"})[f"{prefix}.a.b"]["error"] == 0
    assert create(conn, {"name": f"{prefix}_a.b"})[f"{prefix}_a.b"]["error"] == 17
    assert create(conn, {"name": f"{prefix}.a_b"})[f"{prefix}.a_b"]["error"] == 17
    assert metadata(conn, [f"{prefix}_a_b"], auto=True)["topics"][0]["error"] in ((17,) if c.perigee else (17, 3, 5))
    assert not exists(conn, f"{prefix}_a_b")


@test("S4.3 S4.11 an existing name: error 36, also with validate_only; its siblings proceed")
def existing(c):
    conn, topic = c.conn(), c.topic()
    other = c.name()
    assert create(conn, {"name": topic}, validate_only=True)[topic]["error"] == 36
    got = create(conn, {"name": topic}, {"name": other})
    assert (got[topic]["error"], got[other]["error"]) == (36, 0), got


@test("S4.4 the same name twice in one request: error 42 for it, the others proceed; __cluster_metadata: 42")
def twice(c):
    conn = c.conn()
    dup, other = c.name(), c.name()
    answer = conn.call("CreateTopics", 7, topics=[{"name": dup}, {"name": other}, {"name": dup}, {"name": "__cluster_metadata"}])
    codes = {t["name"]: t["error"] for t in answer["topics"]}
    assert codes == {dup: 42, other: 0, "__cluster_metadata": 42} or codes == {dup: 42, other: 0, "__cluster_metadata": 17}, codes
    assert not exists(conn, dup)


@test("BR-049 S4.5 counts: -1 takes the defaults and the answer shows them; 0 and below -1 are 37 and 38; more replicas than brokers 38")
def counts(c):
    conn = c.conn()
    name = c.name()
    got = create(conn, {"name": name, "partitions": -1, "replication": -1})[name]
    assert got["error"] == 0 and got["partitions"] >= 1 and got["replication"] == 1, got
    assert len(metadata(conn, [name])["topics"][0]["partitions"]) == got["partitions"]
    for more, code in (({"partitions": 0}, 37), ({"partitions": -2}, 37), ({"replication": 0}, 38), ({"replication": -2}, 38),
                       ({"replication": 3}, 38)):
        bad = c.name()
        got = create(conn, {"name": bad, **more})[bad]
        assert got["error"] == code, (more, got)
        if more.get("replication") == 3:
            assert "3" in got["error_message"] and "1" in got["error_message"], got
        assert not exists(conn, bad)


@test("BR-049 num.partitions is the default count")
def default_count(c):
    c.broker(num_partitions=3)
    conn = c.conn()
    name = c.name()
    assert create(conn, {"name": name, "partitions": -1, "replication": -1})[name]["partitions"] == 3


@test("T64 CreateTopics with 1,000,000 partitions: refused, broker unharmed", only="perigee")
def million(c):                                      # Kafka would make them
    broker, conn = c.broker(), c.conn()
    name = c.name()
    for count in (1_000_000, 2**31 - 1):
        assert create(conn, {"name": name, "partitions": count})[name]["error"] in (37, 44, 42)
    assert not exists(conn, name) and broker.rss_peak_kib() <= 64 * 1024


@test("S4.6 manual assignments: counts must be -1 (42), numbers 0..n-1, brokers known, no duplicates (39)")
def assignments(c):
    conn = c.conn()
    me = metadata(conn, [])["brokers"][0]["node_id"]

    def ask(assigned, **more):
        name = c.name()
        shape = {"partitions": -1, "replication": -1, **more}
        return create(conn, {"name": name, **shape, "assignments": [{"partition": p, "brokers": b} for p, b in assigned]})[name]
    good = ask([(0, [me]), (1, [me])])
    assert (good["error"], good["partitions"]) == (0, 2), good
    assert ask([(0, [me])], partitions=1)["error"] == 42
    for wrong in ([(0, [me]), (2, [me])], [(1, [me])], [(0, [me + 90])], [(0, [])], [(0, [me, me])]):
        assert ask(wrong)["error"] == 39, wrong


@test("S4.7 unknown or malformed config keys: error 40, nothing created, siblings proceed")
def configs(c):
    conn = c.conn()
    for key, value in (("no.such.config", "1"), ("retention.ms", "soon"), ("cleanup.policy", "burn"), ("max.message.bytes", "-5"),
                       ("segment.bytes", "x"), ("message.timestamp.type", "Now"), ("compression.type", "brotli")):
        bad, good = c.name(), c.name()
        got = create(conn, {"name": bad, "configs": [{"name": key, "value": value}]}, {"name": good})
        assert (got[bad]["error"], got[good]["error"]) == (40, 0), (key, got[bad])
        assert not exists(conn, bad)


@test("S4.8 validate_only checks everything and creates nothing")
def validate_only(c):
    conn = c.conn()
    name = c.name()
    got = create(conn, {"name": name, "partitions": 4}, validate_only=True)[name]
    assert (got["error"], got["partitions"]) == (0, 4), got
    assert create(conn, {"name": "a/b"}, validate_only=True)["a/b"]["error"] == 17
    assert not exists(conn, name)


@test("S4.9 S4.10 CreateTopics v5+: counts and configs sorted by name with their effective values; v7: the id of Metadata")
def effective(c):
    conn = c.conn()
    name = c.name()
    wanted = [{"name": "retention.ms", "value": "123456"}, {"name": "cleanup.policy", "value": "compact"}]
    got = create(conn, {"name": name, "partitions": 2, "configs": wanted})[name]
    assert (got["error"], got["partitions"], got["replication"], got["config_error"]) == (0, 2, 1, 0), got
    keys = [k["name"] for k in got["configs"]]
    values = {k["name"]: k["value"] for k in got["configs"]}
    assert keys == sorted(keys) and values["retention.ms"] == "123456" and values["cleanup.policy"] == "compact"
    for key in ("segment.bytes", "max.message.bytes", "message.timestamp.type", "compression.type", "min.insync.replicas"):
        assert key in values, key
    deadline = time.monotonic() + 10
    while not c.perigee and not exists(conn, name) and time.monotonic() < deadline:
        pass
    assert conn.call("Metadata", 12, topics=[{"name": name}])["topics"][0]["topic_id"] == got["topic_id"] != bytes(16)


@test("S4.12 D11 a created topic is there at once for a client on any shard, and a deleted one gone: 500 times (10,000 with --full)",
      only="perigee")
def visible_everywhere(c):
    conns = [c.conn() for _ in range(4)]
    for i in range(10_000 if c.full else 500):
        name = f"vis-{i}"
        assert create(conns[i % 4], {"name": name})[name]["error"] == 0
        for k in range(1, 3):
            assert exists(conns[(i + k) % 4], name), i
        assert delete(conns[(i + 1) % 4], name)[name] == 0
        assert not exists(conns[(i + 2) % 4], name) and not exists(conns[(i + 3) % 4], name), i


# ---- DeleteTopics ----

@test("S4.13 DeleteTopics: unknown name 3, unknown id 100, both or neither 42, duplicates 42; by name and by id")
def deletion(c):
    conn, a, b = c.conn(), c.topic(), c.topic()
    assert delete(conn, "no-such", a) == {"no-such": 3, a: 0}

    def v6(*topics):
        return [t["error"] for t in conn.call("DeleteTopics", 6, topics=list(topics))["topics"]]
    assert v6({"topic_id": bytes(range(16))}) == [100]
    assert v6({"name": b, "topic_id": b.id}) == [42]
    assert v6({}) == [42]
    assert set(v6({"topic_id": b.id}, {"topic_id": b.id})) == {42}
    assert v6({"topic_id": b.id}) == [0]


@test("S4.14 delete.topic.enable=false: error 73 (v3+), 42 below")
def deletion_off(c):
    c.broker(delete_topic_enable="false")
    conn, topic = c.conn(), c.topic()
    assert delete(conn, topic, version=5) == {topic: 73}
    assert delete(conn, topic, version=2)[topic] == 42
    assert exists(conn, topic)


@test("BR-042 deleted and created again, 20 times: new id, offsets from 0, no producer state, old id unknown, fds and memory flat")
def recreated(c):
    broker, conn = c.broker(), c.conn()
    topic, ids, fds = c.topic(partitions=3), set(), None
    rounds = 20 if c.perigee else 3
    for i in range(rounds):
        ids.add(topic.id)
        for p in range(3):
            assert fill(conn, topic, 5, partition=p, prefix=f"life{i}-") == 0
        data = rb.batch(rb.values("i", 1), pid=123456, epoch=0, seq=0)
        assert produce(conn, topic, data)["base_offset"] == 5
        assert delete(conn, topic)[topic] == 0
        old, deadline = topic, time.monotonic() + 10
        while not c.perigee and exists(conn, topic) and time.monotonic() < deadline:
            pass
        assert fetch(conn, old, 0, version=13)["error"] == 100
        assert fetch(conn, old, 0)["error"] == 3
        topic = c.topic(partitions=3, name=old)
        assert list_offset(conn, topic, -1)["offset"] == 0
        assert fetch(conn, topic, 0)["records"] == b""
        fds = fds or broker.fd_count()
    assert len(ids) == rounds
    if c.perigee:
        assert broker.fd_count() <= fds + 8, (fds, broker.fd_count())


@test("T64 BR-042 a topic deleted while producers pipeline into it: errors or answers, then the broker serves on")
def deleted_under_load(c):
    conn, admin, topic = c.conn(), c.conn(), c.topic(partitions=2)
    sent = []
    for i in range(300):
        sent.append(conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": i % 2, "records": rb.batch(rb.values(f"{i}-", 1, 200))}]}]))
        if i == 150:
            deletion_ = admin.send("DeleteTopics", 5, names=[topic])
    codes = [conn.recv("Produce", 9, s)["topics"][0]["partitions"][0]["error"] for s in sent]
    assert admin.recv("DeleteTopics", 5, deletion_)["topics"][0]["error"] == 0
    assert set(codes) <= {0, 3, 6, 56}, set(codes)
    for p in range(2):                               # partitions of different shards go one after the other
        mine = codes[p::2]
        first_bad = next((i for i, e in enumerate(mine) if e), 150)
        assert all(mine[first_bad:]) or not c.perigee, "accepted again after it was gone"
    assert fill(admin, c.topic(), 1) == 0


@test("D11 topics, their ids and configs survive kill -9 at once after the answer", only="perigee")
def survives_kill(c):
    broker = c.own()
    known = {}
    for i in range(12):
        conn = c.conn(broker)
        topic = c.topic(partitions=2, broker=broker, max_message_bytes=5000)
        known[str(topic)] = topic.id
        if i % 3 == 2:
            gone = next(iter(known))
            assert delete(conn, gone)[gone] == 0
            del known[gone]
        broker.kill9()
        broker.start()
        got = {t["name"]: t["topic_id"] for t in c.conn(broker).call("Metadata", 12, topics=None)["topics"]}
        assert got == known, i
    last = next(iter(known))
    assert produce(c.conn(broker), last, rb.batch([(None, bytes(6000))]))["error"] == 10
