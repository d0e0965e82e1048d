"""Starting, stopping, dying: D6, BR-014, BR-058, BR-060, BR-062, BR-063, T1, T46."""
import os
import threading
import time

from raw import batch as rb
from raw import tools
from raw.harness import fetch, fetch_request, fill, list_offset, metadata, produce, read_all, test
from raw.wire import Conn


@test("BR-063 SIGTERM with 20 parked fetches, a busy producer and idle connections: exit 0 in under 5 s, nothing acknowledged is lost, "
      "the next start is clean and quick")
def stop_quickly(c):
    broker = c.own()
    topic = c.topic(broker=broker, partitions=2)
    parked = [c.conn(broker) for _ in range(20)]
    for conn in parked:
        conn.send("Fetch", 12, **fetch_request(topic, 0, partition=1, max_wait_ms=120_000))
    idle = [c.conn(broker) for _ in range(20)]
    acked, stop = [], threading.Event()

    def load():
        conn = Conn(broker.addr)
        try:
            while not stop.is_set():
                answer = produce(conn, topic, rb.batch(rb.values(f"{len(acked)}-", 1, 100)))
                if answer["error"] == 0:
                    acked.append(answer["base_offset"])
        except (OSError, EOFError):
            pass
    thread = threading.Thread(target=load)
    thread.start()
    while len(acked) < 50 and thread.is_alive():
        pass
    status, seconds = broker.stop()
    stop.set()
    thread.join()
    assert len(acked) >= 50 and idle
    assert (status == 0 and seconds < 5) if c.perigee else status in (0, 143), (status, seconds)
    began = time.monotonic()
    broker.start()
    assert time.monotonic() - began < (1 if c.perigee else 60)
    c.settled(topic, 2)
    got = {r[0] for r in read_all(c.conn(broker), topic)}
    assert set(acked) <= got, set(acked) - got


@test("BR-063 a second SIGTERM during the stop, and a stop under an idle broker, end at once", only="perigee")
def stop_idle(c):
    broker = c.own()
    status, seconds = broker.stop()
    assert status == 0 and seconds < 1, (status, seconds)
    assert not os.path.exists(broker.ready), "the ready file is removed on exit"


@test("BR-062 T1 acknowledged at acks=all, then kill -9 at once: everything is there, every time")
def kill_after_ack(c):
    broker = c.own()
    topic = c.topic(broker=broker, partitions=3)
    expect = {p: [] for p in range(3)}
    for round_ in range(10 if c.perigee else 2):
        conn = c.conn(broker)
        for i in range(20):
            p = i % 3
            value = b"r%d-%d" % (round_, i)
            answer = produce(conn, topic, rb.batch([(None, value)], codec=i % 5), partition=p)
            assert answer["error"] == 0 and answer["base_offset"] == len(expect[p]), (answer, len(expect[p]))
            expect[p].append(value)
        broker.kill9()
        broker.start()
        c.settled(topic, 3)
        conn = c.conn(broker)
        for p in range(3):
            assert [r[3] for r in read_all(conn, topic, p)] == expect[p], (round_, p)


@test("BR-014 numbered messages, writer and reader at once, small segments, restarts between: gap-free and in order")
def reader_over_restarts(c):
    broker = c.own()
    topic = c.topic(broker=broker, segment_bytes=1_048_576)
    position = number = 0
    for round_ in range(8 if c.perigee else 2):
        stop = threading.Event()
        written, wrong = [], []

        def write(start=number):
            conn, n = Conn(broker.addr), start
            try:
                while not stop.is_set():
                    answer = produce(conn, topic, rb.batch([(None, (b"%d." % (n + i)).ljust(2000, b".")) for i in range(20)]))
                    if answer["error"] or answer["base_offset"] != n:
                        wrong.append((answer, n))
                        return
                    n += 20
                    written.append(n)
            except (OSError, EOFError):
                pass
        thread = threading.Thread(target=write)
        thread.start()
        conn, until = Conn(broker.addr), time.monotonic() + 0.7
        while time.monotonic() < until:
            part = fetch(conn, topic, position, max_wait_ms=50, part_bytes=60_000)
            for r in (r for b in rb.batches(part["records"]) for r in b.records()):
                if r[0] >= position:
                    assert r[0] == position and int(r[3].split(b".")[0]) == position, (r[0], position)
                    position += 1
        (broker.kill9 if round_ % 2 else broker.stop)()
        stop.set()
        thread.join()
        assert not [w for w in wrong if w[0]["error"] not in (5, 6, 56)], wrong      # a stopping broker may refuse
        broker.start()
        c.settled(topic)
        number = list_offset(c.conn(broker), topic, -1)["offset"]
        assert not written or number >= written[-1], (number, written[-1])
        assert number >= position
    got = [int(r[3].split(b".")[0]) for r in read_all(c.conn(broker), topic)]
    assert got == list(range(number))


@test("S1.9 BR-058 idle connections are closed after connections.max.idle.ms; one with a parked fetch is spared")
def idle_connections(c):
    broker = c.own(connections_max_idle_ms=1500)
    topic = c.topic(broker=broker)
    idle, parked = c.conn(broker), c.conn(broker)
    metadata(idle, [])
    if c.perigee:
        parked.send("Fetch", 12, **fetch_request(topic, 0, max_wait_ms=4000))
    assert idle.closed(8)
    if c.perigee:
        assert parked.recv("Fetch", 12)["topics"][0]["partitions"][0]["error"] == 0


@test("BR-058 TCP keepalive is set on accepted connections", only="perigee")
def keepalive(c):
    broker = c.broker()
    metadata(c.conn(broker), [])                     # it is accepted, not only in the backlog
    tools.need("ss")
    out = tools.run(["ss", "-tnoe", "state", "established", "sport", "=", f":{broker.port}"]).decode()
    assert "keepalive" in out, out


@test("BR-060 1,000 connections asking all of the metadata of 500 partitions at once (--full: 3,000 and 5,000): memory bounded")
def metadata_storm(c):
    broker = c.own()
    for i in range(5):
        c.topic(partitions=1000 if c.full else 100, broker=broker, name=f"wide-{i}")
    conns = [Conn(broker.addr, timeout=60) for _ in range(3000 if c.full else 1000)]
    for _ in range(3):
        for conn in conns:
            conn.send("Metadata", 9, topics=None)
    answers = [conn.recv("Metadata", 9) for conn in conns[:50]]
    assert all(len(a["topics"]) == 5 for a in answers)
    for conn in conns:
        conn.reset()
    assert len(metadata(c.conn(broker), None)["topics"]) == 5
    if c.perigee:
        assert broker.rss_peak_kib() <= 64 * 1024 + 40 * 1024, broker.rss_peak_kib()


@test("BR-060 InitProducerId and one batch each, 20,000 times: memory bounded, everything stored")
def producer_storm(c):
    broker = c.own()
    topic = c.topic(broker=broker)
    conn, n = c.conn(broker, timeout=60), 20_000 if c.perigee else 2_000
    for at in range(0, n, 100):
        ids = [conn.send("InitProducerId", 1) for _ in range(100)]
        ids = [conn.recv("InitProducerId", 1, s)["producer_id"] for s in ids]
        sent = [conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": 0, "records": rb.batch(rb.values("s", 1), pid=i, epoch=0, seq=0)}]}]) for i in ids]
        assert all(conn.recv("Produce", 9, s)["topics"][0]["partitions"][0]["error"] == 0 for s in sent), at
    assert list_offset(conn, topic, -1)["offset"] == n
    if c.perigee:
        assert broker.rss_peak_kib() <= 64 * 1024, broker.rss_peak_kib()


@test("T57 256 descriptors and 300 connections: the served go on, logs roll, no busy loop, recovery when they close", only="perigee")
def descriptors(c):
    broker = c.own(prefix=["bash", "-c", 'ulimit -n 256; exec "$@"', "_"])
    topic = c.topic(broker=broker, segment_bytes=1_048_576)
    first = c.conn(broker)
    held = []
    for _ in range(300):
        try:
            held.append(Conn(broker.addr, timeout=5))
        except OSError:
            break
    for i in range(4):
        assert produce(first, topic, rb.batch([(None, bytes(900_000))]))["base_offset"] == i
    cpu, began = broker.cpu_seconds(), time.monotonic()
    assert fetch(first, topic, 4, max_wait_ms=1000)["error"] == 0
    assert broker.cpu_seconds() - cpu < 0.5 * (time.monotonic() - began), "busy"
    for conn in held:
        conn.close()
    for _ in range(20):
        assert metadata(c.conn(broker, timeout=10), [])["brokers"]
    assert len([f for f in os.listdir(os.path.join(broker.data, f"{topic}-0")) if f.endswith(".log")]) >= 3


@test("a broker that listens on a port in use says so and exits 78 or 1", only="perigee")
def port_in_use(c):
    first = c.own()
    second = c.own(start=False)
    second.port = first.port
    status = second.start_expecting_failure(20)
    assert status in (1, 78) and str(first.port) in second.log_text(), (status, second.log_text()[-400:])
    c.current = first


@test("acks=all under many connections: every answer's offset is unique and all are read back (I1, I4)")
def many_writers(c):
    topic, n = c.topic(), 40
    conns, offsets = [c.conn() for _ in range(n)], []
    for i in range(25):
        sent = [conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
            {"index": 0, "records": rb.batch([(None, b"%d/%d" % (k, i))])}]}]) for k, conn in enumerate(conns)]
        offsets += [conn.recv("Produce", 9, s)["topics"][0]["partitions"][0]["base_offset"] for conn, s in zip(conns, sent)]
    assert sorted(offsets) == list(range(25 * n))
    assert len({r[3] for r in read_all(c.conn(), topic)}) == 25 * n
