"""What is deleted, when, and what readers see of it: semantics 4.17, 4.18, 7.7, 16.9, 18.1 to 18.6, T48, T63; DeleteRecords and DescribeLogDirs, also by Kafka's tools."""
import json
import os
import threading
import time

from raw import batch as rb
from raw import dumplog, tools
from raw.harness import fetch, fetch_request, fill, list_offset, produce, producer_id, read_all, test
from raw.wire import Conn

NOW = int(time.time() * 1000)
DAY = 86_400_000
SEGMENT, BATCH = 1 << 20, 500_000                        # Kafka 4 takes no smaller segment.bytes: two batches fill one


def delete(c, topic, offset, partition=0, version=2, timeout_ms=10_000):
    answer = c.call("DeleteRecords", version, topics=[{"name": str(topic), "partitions": [{"partition": partition, "offset": offset}]}],
                    timeout_ms=timeout_ms)
    part = answer["topics"][0]["partitions"][0]
    return part["error"], part["low_watermark"]


def start_of(c, topic, partition=0):
    return list_offset(c, topic, -2, partition=partition)["offset"]


def until(what, limit=60):                              # Kafka begins after half a minute
    """Retention works in the background: ask until it is so."""
    deadline = time.monotonic() + limit
    while not (got := what()):
        assert time.monotonic() < deadline, "not in time"
        time.sleep(0.02)
    return got


def usage(broker, topic):
    """Bytes that the topic's directories take on the disk."""
    total = 0
    for name in os.listdir(broker.data):
        if name.startswith(topic + "-"):
            folder = os.path.join(broker.data, name)
            try:
                total += sum(os.stat(os.path.join(folder, f)).st_blocks * 512 for f in os.listdir(folder))
            except FileNotFoundError:
                pass
    return total


# ---- DeleteRecords ----

@test("S4.17 DeleteRecords moves the log start: an offset, -1 is the high watermark, below the start nothing changes, above the end 1; v0 to v2")
def delete_records(c):
    conn = c.conn()
    for version in range(3):
        topic = c.topic()
        fill(conn, topic, 20, per_batch=5)
        assert delete(conn, topic, 7, version=version) == (0, 7)
        assert start_of(conn, topic) == 7
        assert delete(conn, topic, 3, version=version) == (0, 7)
        assert delete(conn, topic, 21, version=version) == (1, -1)
        assert delete(conn, topic, -2, version=version) == (1, -1)
        assert delete(conn, topic, 10, partition=9, version=version) == (3, -1)
        assert [r[0] for r in read_all(conn, topic, offset=7)] == list(range(7, 20))
        part = fetch(conn, topic, 6)
        assert part["error"] == 1 and part["log_start"] == (7 if c.perigee else -1), part       # S7.7
        assert delete(conn, topic, -1, version=version) == (0, 20)
        assert start_of(conn, topic) == 20 and fetch(conn, topic, 20)["error"] == 0 and fetch(conn, topic, 19)["error"] == 1
        assert fill(conn, topic, 3) == 20                                      # S18.1: offsets are never used again
    assert delete(conn, "no-such-topic", 0) == (3, -1)


@test("S4.18 DeleteRecords needs delete in cleanup.policy: 44; compact,delete has it")
def delete_records_policy(c):
    conn = c.conn()
    topic, both = c.topic(cleanup_policy="compact"), c.topic(cleanup_policy="compact,delete")
    for t in (topic, both):
        assert produce(conn, t, rb.batch([(b"k", b"v")] * 5))["error"] == 0
    assert delete(conn, topic, 2) == (44, -1)
    assert delete(conn, both, 2) == (0, 2)


@test("D6 DeleteRecords(-1) counts what was written before it, synced or not; many partitions in one request")
def delete_records_written(c):
    conn, topic = c.conn(), c.topic(partitions=8)
    for p in range(8):
        for _ in range(p):
            produce(conn, topic, rb.batch(rb.values("w", 1, 10)), partition=p, acks=1)
    answer = conn.call("DeleteRecords", 2, topics=[{"name": topic, "partitions": [{"partition": p, "offset": -1} for p in range(8)]}], timeout_ms=10000)
    got = sorted((p["partition"], p["error"], p["low_watermark"]) for p in answer["topics"][0]["partitions"])
    assert got == [(p, 0, p) for p in range(8)], got


@test("S18.1 what was answered survives kill -9 at once and a clean stop: the log start never moves back", only="perigee")
def delete_records_durable(c):
    broker = c.own()
    topic = c.topic(broker=broker, partitions=2, segment_bytes=2000)
    for round_ in range(3):
        conn = c.conn(broker)
        fill(conn, topic, 20, per_batch=2, size=200)
        assert delete(conn, topic, 20 * round_ + 11) == (0, 20 * round_ + 11)
        if round_ == 1:
            broker.stop()
        else:
            broker.kill9()
        broker.start()
        conn = c.conn(broker)
        assert start_of(conn, topic) == 20 * round_ + 11
        assert [r[0] for r in read_all(conn, topic, offset=20 * round_ + 11)] == list(range(20 * round_ + 11, 20 * (round_ + 1)))
    assert not [f for f in os.listdir(os.path.join(broker.data, f"{topic}-0")) if f.endswith(".deleted")]


@test("T48 a fetch parked below the new log start is answered at once with 1; parked at the end it waits on")
def parked_below(c):
    broker = c.broker()
    topic = c.topic()
    admin, low, end = c.conn(broker), c.conn(broker), c.conn(broker)
    fill(admin, topic, 10)
    low.send("Fetch", 12, **fetch_request(topic, 5, max_wait_ms=20_000, min_bytes=1 << 20))
    end.send("Fetch", 12, **fetch_request(topic, 10, max_wait_ms=20_000))
    assert fetch(admin, topic, 5)["error"] == 0                                # they arrived before this
    assert delete(admin, topic, -1) == (0, 10)
    began = time.monotonic()
    if c.perigee:
        part = low.recv("Fetch", 12)["topics"][0]["partitions"][0]
        assert part["error"] == 1 and part["log_start"] == 10, part
        assert time.monotonic() - began < 10
    fill(admin, topic, 1)
    part = end.recv("Fetch", 12)["topics"][0]["partitions"][0]
    assert part["error"] == 0 and rb.batches(part["records"])[0].base_offset == 10, part


# ---- retention ----

def aged(conn, topic, ages, size=BATCH):
    """One batch for each age in days."""
    for age in ages:
        assert produce(conn, topic, rb.batch([(None, b"." * size, NOW - int(age * DAY))]))["error"] == 0


@test("S18.3 S18.5 retention.ms: segments whose largest timestamp is older go from the oldest on, a younger one stops it; all old: the active one goes, too")
def by_age(c):
    broker = c.own(log_retention_check_interval_ms=50)
    conn = c.conn(broker)
    topic = c.topic(retention_ms=DAY, segment_bytes=SEGMENT)
    aged(conn, topic, (5, 4, 3, 2, 0.5, 3, 3, 3))                           # two a segment
    until(lambda: start_of(conn, topic) == 4)
    assert [r[0] for r in read_all(conn, topic, offset=4)] == [4, 5, 6, 7]
    all_old = c.topic(retention_ms=DAY, segment_bytes=SEGMENT)
    aged(conn, all_old, (5, 4, 3))
    until(lambda: start_of(conn, all_old) == 3)
    assert list_offset(conn, all_old, -1)["offset"] == 3
    if c.perigee:                                        # Kafka waits for file.delete.delay.ms
        until(lambda: usage(broker, all_old) < 9000)
    assert fill(conn, all_old, 2) == 3
    assert start_of(conn, topic) == 4
    if not c.perigee:
        return                                             # Kafka's log start may move back after a kill: it is written once a minute
    broker.kill9()
    broker.start()
    conn = c.conn(broker)
    assert start_of(conn, topic) == 4 and start_of(conn, all_old) == 3


@test("S18.4 retention.bytes: the oldest segments go while at least that much remains; S16.9 also when it is set later")
def by_size(c):
    broker = c.own(log_retention_check_interval_ms=50)
    conn = c.conn(broker)
    topic = c.topic(retention_bytes=3_000_000, segment_bytes=SEGMENT)
    fill(conn, topic, 16, per_batch=1, size=BATCH)
    until(lambda: start_of(conn, topic) > 0)
    size = lambda: next(p["size"] for t in conn.call("DescribeLogDirs", 4)["results"][0]["topics"] if t["name"] == topic for p in t["partitions"])
    until(lambda: 3_000_000 <= size() < 3_000_000 + SEGMENT)
    later = c.topic(segment_bytes=SEGMENT)
    fill(conn, later, 16, per_batch=1, size=BATCH)
    assert start_of(conn, later) == 0
    answer = conn.call("IncrementalAlterConfigs", 1, resources=[{"type": 2, "name": later, "configs": [{"name": "retention.bytes", "op": 0, "value": "2000000"}]}])
    assert answer["responses"][0]["error"] == 0, answer
    until(lambda: start_of(conn, later) > 8)


@test("S18.6 cleanup.policy=compact keeps all; compact,delete obeys retention")
def by_policy(c):
    broker = c.own(log_retention_check_interval_ms=50)
    conn = c.conn(broker)
    keep, both = (c.topic(cleanup_policy=p, retention_ms=DAY, retention_bytes=0, segment_bytes=SEGMENT) for p in ("compact", "compact,delete"))
    for t in (keep, both):
        for _ in range(4):
            assert produce(conn, t, rb.batch([(b"k", b"." * BATCH, NOW - 5 * DAY)]))["error"] == 0
    until(lambda: start_of(conn, both) == 4)
    assert start_of(conn, keep) == 0


@test("S18.3 a restart in between: segments that nobody has read since obey retention.ms, too", only="perigee")
def by_age_after_restart(c):
    broker = c.own()
    conn = c.conn(broker)
    topic = c.topic(retention_ms=DAY, segment_bytes=SEGMENT)
    aged(conn, topic, (5, 4, 3, 2, 0.5))
    for how in (broker.stop, broker.kill9):
        how()
        broker.settings["log.retention.check.interval.ms"] = "50"
        broker.start()
        conn = c.conn(broker)
        until(lambda: start_of(conn, topic) == 4)
    assert [r[0] for r in read_all(conn, topic, offset=4)] == [4]


@test("T48 a consumer behind retention gets data or 1, never a gap within what it was told to read, never wrong bytes")
def consumers_behind(c):
    broker = c.own(log_retention_check_interval_ms=20)
    topic = c.topic(broker=broker, segment_bytes=SEGMENT, retention_bytes=2 * SEGMENT)
    stop, wrong, behind = threading.Event(), [], []

    def consume():
        try:
            with Conn(broker.addr) as conn:
                offset = 0
                while not stop.is_set():
                    part = fetch(conn, topic, offset, max_wait_ms=50, part_bytes=50_000)
                    if part["error"] == 1:
                        assert part["log_start"] > offset or not c.perigee, part
                        behind.append(offset)
                        offset = start_of(conn, topic)
                        continue
                    assert part["error"] == 0, part
                    for b in rb.batches(part["records"]):
                        for r in b.records():
                            assert r[3] == b"n%d" % r[0] + b"." * 20_000, r
                            offset = max(offset, r[0] + 1) if r[0] <= offset else wrong.append((offset, r[0])) or r[0] + 1
        except Exception as e:                         # noqa: BLE001 - told at the end
            wrong.append(repr(e))
    threads = [threading.Thread(target=consume) for _ in range(3)]
    conn = c.conn(broker)
    for t in threads:
        t.start()
    for i in range(600):
        assert produce(conn, topic, rb.batch([(None, b"n%d" % i + b"." * 20_000)]), acks=1)["error"] == 0
        if i % 150 == 149:
            delete(conn, topic, -1)
    stop.set()
    for t in threads:
        t.join()
    assert not wrong, wrong[:3]


@test("T63 space comes back while a consumer holds old data: retention and topic deletion; disk usage falls, descriptors close", only="perigee")
def space_comes_back(c):
    broker = c.own()
    conn, reader = c.conn(broker), c.conn(broker)
    topic = c.topic(broker=broker, segment_bytes=1 << 20)
    for _ in range(24):
        assert produce(conn, topic, rb.batch(rb.values("x", 4, 200_000)))["error"] == 0
    before, files = usage(broker, topic), broker.fd_count()
    assert before > 15 << 20
    reader.send("Fetch", 12, **fetch_request(topic, 0))                        # and does not read the answer
    assert delete(conn, topic, 90)[0] == 0
    until(lambda: usage(broker, topic) < before / 4)
    assert conn.call("DeleteTopics", 4, names=[topic], timeout_ms=10000)["topics"][0]["error"] == 0
    until(lambda: usage(broker, topic) == 0)
    def held():
        return [p for p in os.listdir(f"/proc/{broker.pid}/fd") if "(deleted)" in read_link(f"/proc/{broker.pid}/fd/{p}")]
    until(lambda: not held())
    assert broker.fd_count() <= files


def read_link(path):
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


@test("S4.10 BR-042 a topic goes and comes again under producers and consumers, many times: a new id each time, none of the old records")
def delete_and_make_again(c):
    broker = c.own()
    name, stop, wrong = "again", threading.Event(), []

    def load():
        try:
            with Conn(broker.addr) as conn:
                while not stop.is_set():
                    answer = produce(conn, name, rb.batch(rb.values("g", 3, 50)), acks=1)
                    if answer["error"] not in ((0, 3) if c.perigee else (0, 3, 6)):
                        wrong.append(answer)
        except (OSError, EOFError) as e:
            wrong.append(repr(e))

    def read():
        try:
            with Conn(broker.addr) as conn:
                while not stop.is_set():
                    part = fetch(conn, name, 0, max_wait_ms=20)
                    if part["error"] not in ((0, 1, 3) if c.perigee else (0, 1, 3, 6)):
                        wrong.append(part)
        except (OSError, EOFError) as e:
            wrong.append(repr(e))
    threads = [threading.Thread(target=f) for f in (load, load, read)]
    admin, ids = c.conn(broker), set()
    for t in threads:
        t.start()
    for i in range(15):
        made = admin.call("CreateTopics", 7, topics=[{"name": name, "partitions": 3, "replication": 1, "configs": []}])["topics"][0]
        assert made["error"] == 0, made
        ids.add(made["topic_id"])
        c.settled(name, 3)
        fill(admin, name, 5, partition=i % 3)
        gone = admin.call("DeleteTopics", 5, names=[name], timeout_ms=10000)["topics"][0]
        assert gone["error"] == 0, gone
    stop.set()
    for t in threads:
        t.join()
    assert len(ids) == 15 and not wrong, wrong[:3]
    if c.perigee:
        until(lambda: not [d for d in os.listdir(broker.data) if d.startswith(name)])
    made = admin.call("CreateTopics", 7, topics=[{"name": name, "partitions": 3, "replication": 1, "configs": []}])["topics"][0]
    c.settled(name, 3)
    assert made["error"] == 0 and all(list_offset(admin, name, -1, partition=p)["offset"] == 0 for p in range(3))


# ---- DescribeLogDirs ----

@test("DescribeLogDirs: the directory, sizes, lag 0, only what is asked and there; v1 to v4; the volume's sizes from v4 on")
def log_dirs(c):
    broker = c.broker()
    conn, topic, other = c.conn(), c.topic(partitions=3), c.topic(partitions=2)
    fill(conn, topic, 10, partition=1, size=500)
    for version in range(1, 5):
        answer = conn.call("DescribeLogDirs", version, topics=[{"name": topic, "partitions": [1, 2, 2, 77]}, {"name": "no-such", "partitions": [0]}])
        result, = answer["results"]
        assert answer.get("error", 0) == 0 and result["error"] == 0, answer
        assert os.path.realpath(result["log_dir"]) == os.path.realpath(broker.data), result["log_dir"]
        got = {t["name"]: sorted((p["partition"], p["offset_lag"], p["is_future"]) for p in t["partitions"]) for t in result["topics"]}
        assert got == {topic: [(1, 0, False), (2, 0, False)]}, got
        sizes = {p["partition"]: p["size"] for p in result["topics"][0]["partitions"]}
        assert sizes[2] == 0 and sizes[1] == os.path.getsize(os.path.join(broker.data, f"{topic}-1", "0" * 20 + ".log")), sizes
        if version >= 4:
            vfs = os.statvfs(broker.data)
            assert result["total_bytes"] == vfs.f_blocks * vfs.f_frsize, result["total_bytes"]
            assert 0 < result["usable_bytes"] < result["total_bytes"]
    everything = conn.call("DescribeLogDirs", 4)["results"][0]["topics"]
    names = {t["name"]: len(t["partitions"]) for t in everything}
    assert names[topic] == 3 and names[other] == 2, names
    assert conn.call("DescribeLogDirs", 4, topics=[])["results"][0]["topics"] == []


# ---- Kafka's tools ----

@test("S4.17 kafka-delete-records: an offset, and -1")
def tool_delete_records(c):
    broker, topic = c.broker(), c.topic(partitions=2)
    conn = c.conn()
    for p in range(2):
        fill(conn, topic, 10, partition=p)
    path = os.path.join(broker.home, f"{topic}.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 4}, {"topic": topic, "partition": 1, "offset": -1}]}, f)
    out = tools.java("org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", broker.addr, "--offset-json-file", path).decode()
    assert f"partition: {topic}-0\tlow_watermark: 4" in out and f"partition: {topic}-1\tlow_watermark: 10" in out, out
    assert (start_of(conn, topic, 0), start_of(conn, topic, 1)) == (4, 10)


@test("kafka-log-dirs --describe prints our directory and sizes")
def tool_log_dirs(c):
    broker, topic = c.broker(), c.topic(partitions=2)
    fill(c.conn(), topic, 10, partition=1, size=300)
    out = tools.java("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.addr, "--describe", "--topic-list", topic).decode()
    told = json.loads(next(line for line in out.splitlines() if line.startswith("{")))
    parts = {p["partition"]: p for p in told["brokers"][0]["logDirs"][0]["partitions"]}
    assert parts[f"{topic}-0"]["size"] == 0 and parts[f"{topic}-1"]["size"] > 3000, told
    assert parts[f"{topic}-1"]["offsetLag"] == 0 and parts[f"{topic}-1"]["isFuture"] is False, told


@test("D2 what retention and DeleteRecords leave is sound: Kafka's kafka-dump-log and perigee log verify read it, stopped and killed, an emptied log, too", only="perigee")
def files_are_sound(c):
    broker = c.own(log_retention_check_interval_ms=50)
    conn = c.conn(broker)
    pid = producer_id(conn)
    topic, empty = c.topic(segment_bytes=20_000, retention_bytes=60_000, index_interval_bytes=500), c.topic(segment_bytes=20_000)
    for i in range(60):
        for t in (topic, empty):
            assert produce(conn, t, rb.batch(rb.values(f"{i}-", 4, 700), pid=pid, epoch=0, seq=4 * i))["error"] == 0
    assert delete(conn, empty, -1) == (0, 240)
    until(lambda: start_of(conn, topic) > 100)
    until(lambda: len([f for f in os.listdir(os.path.join(broker.data, f"{empty}-0")) if f.endswith(".log")]) == 1)
    for how in (broker.kill9, broker.stop):
        conn.close()
        how()
        verify = [broker._command()[0], "log", "verify", broker.data]
        out = tools.run(verify).decode()
        assert "sound" in out and "0 damaged places" in out, out
        if how == broker.stop:
            dumplog.judge(broker.data)
        broker.start()
        conn = c.conn(broker)
        assert start_of(conn, empty) == 240 and start_of(conn, topic) > 100
        first = start_of(conn, topic)
        assert [r[0] for r in read_all(conn, topic, offset=first)] == list(range(first, 240))
        again = produce(conn, empty, rb.batch(rb.values("59-", 4, 700), pid=pid, epoch=0, seq=4 * 59))
        assert again["error"] == 0 and again["base_offset"] == 236, again      # a duplicate of what is deleted is one all the same


@test("S8.7 ListOffsets v0 names older segments, too, when more offsets are asked", only="perigee")
def old_offsets(c):
    broker = c.own()
    conn, topic = c.conn(broker), c.topic(segment_bytes=1000)
    fill(conn, topic, 8, per_batch=1, size=400)
    def ask(most, timestamp=-1):
        answer = conn.call("ListOffsets", 0, topics=[{"name": topic, "partitions": [{"partition": 0, "timestamp": timestamp, "max_num": most}]}])
        return answer["topics"][0]["partitions"][0]["old_offsets"]
    assert ask(1) == [8] and ask(3) == [8, 6, 4] and ask(99) == [8, 6, 4, 2, 0] and ask(5, -2) == [0]
    broker.restart()
    conn = c.conn(broker)
    assert ask(99) == [8, 6, 4, 2, 0]
    assert ask(99, NOW - DAY) == []


