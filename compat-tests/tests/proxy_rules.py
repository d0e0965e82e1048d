"""What only a hand on the wire can show: T23, T25, T50, T62, BR-027. The first tests prove the proxy itself."""
import os
import subprocess
import threading
import time

from raw import batch as rb
from raw import tools
from raw.harness import list_offset, produce, read_all, test
from raw.proxy import broker_behind
from raw.wire import Conn
from tests.idempotence import Producer


@test("the frame proxy: untouched frames pass, delay holds back exactly its frame's connection, stats count")
def proxy_delay(c):
    _, proxy = broker_behind(c)
    topic = c.topic()
    a, b = Conn(proxy.addr), Conn(proxy.addr)
    c.opened += [a, b]
    proxy.rule("slow", "rep", 3, 2, "delay:300")
    took = []
    for _ in range(3):
        began = time.monotonic()
        a.call("Metadata", 9, topics=[])
        took.append(time.monotonic() - began)
    assert took[0] < 0.2 and took[1] >= 0.29 and took[2] < 0.2, took
    assert list_offset(b, topic, -1)["offset"] == 0
    assert proxy.stats() == {"slow": (3, 1)}


@test("the frame proxy: drop, hold and release, repeat, cut at byte n, reset")
def proxy_actions(c):
    _, proxy = broker_behind(c)
    topic = c.topic()
    conn = Conn(proxy.addr)
    c.opened.append(conn)
    proxy.rule("dropped", "req", 22, 1, "drop")
    conn.send("InitProducerId", 1)
    second = conn.send("InitProducerId", 1)
    assert conn.recv("InitProducerId", 1, second)["error"] == 0
    proxy.command("clear")

    proxy.rule("held", "rep", 2, 1, "hold")
    sent = conn.send("ListOffsets", 7, topics=[{"name": topic, "partitions": [{"partition": 0, "timestamp": -1}]}])
    proxy.wait_event("held")
    assert conn.silent(0.1)
    proxy.command("release held")
    assert conn.recv("ListOffsets", 7, sent)["topics"]
    proxy.command("clear")

    proxy.rule("twice", "req", 0, 1, "repeat")
    assert produce(conn, topic, rb.batch(rb.values("a", 1)))["base_offset"] == 0
    assert list_offset(conn, topic, -1)["offset"] == 2, "the broker got the request twice, we one answer"
    proxy.command("clear")

    for action in ("cut:9", "reset:9"):
        proxy.rule("short", "rep", 3, 1, action)
        broken = Conn(proxy.addr)
        broken.send("Metadata", 9, topics=[])
        got = b""
        try:
            while piece := broken.sock.recv(100):
                got += piece
        except ConnectionResetError:
            pass
        assert len(got) <= 9 and (len(got) == 9 or action.startswith("reset")), (action, got)
        broken.close()
        proxy.command("clear")
    assert conn.call("Metadata", 9, topics=[])["brokers"]


@test("T23 BR-027 the reply to each of five batches is dropped and the connection cut; the resend gets the first offset, one copy")
def dropped_replies(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    p = Producer(c, topic, conn=Conn(proxy.addr))
    for i in range(5):
        proxy.rule("lost", "rep", 0, 1, "cut:0")
        p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p.batch(i)}]}])
        proxy.wait_event("lost", i + 1)              # the broker has answered: the batch is in
        proxy.command("clear")
        assert p.conn.closed()
        p.conn = Conn(proxy.addr)
        assert p.send(i) == (0, i), i
    direct = c.conn(broker)
    assert [r[0] for r in read_all(direct, topic)] == [0, 1, 2, 3, 4]


@test("T25 I7 five in flight, reply 2 of 5 lost with the connection, the client replays 2 to 5: order kept, no duplicates")
def replayed_window(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    for rounds in range(6):
        p = Producer(c, topic, conn=Conn(proxy.addr))
        base = list_offset(c.conn(broker), topic, -1)["offset"]
        proxy.rule("second", "rep", 0, 2, "cut:0")
        for i in range(5):
            try:
                p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p.batch(i)}]}])
            except OSError:                          # reply 2 was quick: the connection is cut before the last ones are out
                assert i >= 2, i
                break
        first = p.conn.recv("Produce", 9)["topics"][0]["partitions"][0]
        assert (first["error"], first["base_offset"]) == (0, base)
        assert p.conn.closed()
        proxy.command("clear")
        p.conn = Conn(proxy.addr)
        sent = [p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": 0, "records": p.batch(i)}]}]) for i in range(1, 5)]
        got = [p.conn.recv("Produce", 9, s)["topics"][0]["partitions"][0] for s in sent]
        assert [(g["error"], g["base_offset"]) for g in got] == [(0, base + i) for i in range(1, 5)], (rounds, got)
        values = [r[3] for r in read_all(c.conn(broker), topic, offset=base)]
        assert values == [b"p%ds%d-0" % (p.pid, i) for i in range(5)], values


@test("T23 the request itself arrives twice on one connection: one copy, both answered alike")
def repeated_request(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    p = Producer(c, topic, conn=Conn(proxy.addr))
    proxy.rule("twice", "req", 0, "/1", "repeat")
    for i in range(10):
        assert p.send(i) == (0, i)
    assert len(read_all(c.conn(broker), topic)) == 10


@test("T62 I3 a produce request cut at every 7th byte by the proxy, the idempotent client resends: stored once each")
def cut_requests(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    p = Producer(c, topic, conn=Conn(proxy.addr))
    size = len(p.conn.request("Produce", 9, {"acks": -1, "topics": [{"name": topic, "partitions": [
        {"index": 0, "records": p.batch(0)}]}]}, 1))
    count = 0
    for at in range(0, size, 7):
        proxy.rule("cut", "req", 0, 1, f"{'cut' if count % 2 else 'reset'}:{at}")
        p.conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": p.batch(count)}]}])
        assert p.conn.closed(), at
        proxy.command("clear")
        p.conn = Conn(proxy.addr)
        assert p.send(count) == (0, count), at
        count += 1
    assert len(read_all(c.conn(broker), topic)) == count


def numbered(broker_addr, topic, n, home, *settings):
    """kcat idempotent, n numbered messages to one partition; must exit 0."""
    tools.need("kcat")
    more = [x for s in ("enable.idempotence=true", "linger.ms=1", "batch.num.messages=100", "reconnect.backoff.max.ms=100",
                        "socket.timeout.ms=5000", "retry.backoff.ms=50", *settings) for x in ("-X", s)]
    path = os.path.join(home, "numbers")
    with open(path, "w", encoding="ascii") as f:
        f.writelines(f"{i}\n" for i in range(n))
    done = subprocess.run(["kcat", "-b", broker_addr, "-P", "-E", "-t", topic, "-p", "0", "-l", path, *more], capture_output=True,
                          timeout=240, check=False, text=True)
    assert done.returncode == 0, done.stderr[-1500:]


@test("BR-027 I3 I7 each 10th Produce reply lost with its connection under an idempotent librdkafka: all numbers once, in order")
def librdkafka_lossy(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    n = 100_000 if c.full else 20_000
    proxy.rule("lossy", "rep", 0, "/10", "cut:0")
    numbered(proxy.addr, topic, n, broker.home)
    assert proxy.stats()["lossy"][1] >= 5, proxy.stats()
    got = [int(r[3]) for r in read_all(c.conn(broker), topic)]
    assert got == list(range(n)), (len(got), len(set(got)), got[:20])


@test("BR-027 the same with kill -9 of the broker during the run")
def librdkafka_lossy_killed(c):
    broker, proxy = broker_behind(c)
    topic = c.topic()
    n = 60_000 if c.full else 20_000
    proxy.rule("lossy", "rep", 0, "/15", "cut:0")
    proxy.rule("slow", "rep", 0, "/4", "delay:10")
    done = threading.Event()
    wrong = []

    def feed():
        try:
            numbered(proxy.addr, topic, n, broker.home, "message.timeout.ms=120000")
        except AssertionError as e:
            wrong.append(str(e))
        done.set()
    thread = threading.Thread(target=feed)
    thread.start()
    kills = 0
    while not done.wait(0.4) and kills < (6 if c.perigee else 1):
        broker.kill9()
        broker.start()
        kills += 1
    thread.join()
    assert not wrong, wrong
    assert kills, "it was over before the first kill"
    c.settled(topic)
    got = [int(r[3]) for r in read_all(c.conn(broker), topic)]
    assert got == list(range(n)), (len(got), len(set(got)))
