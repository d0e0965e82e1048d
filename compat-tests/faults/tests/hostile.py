"""Crowds of bad clients, little memory, a wrong clock, stopped clients: T21, T22, T56, T58, T61, T62, T63, T66; and what a good client notices of it."""
import os
import resource
import signal
import struct
import subprocess
import time

from faults import run
from faults.disk import troubled, until
from faults.load import Book, Load
from faults.well import Crowd, Well
from raw import batch as rb
from raw import schema
from raw.harness import fetch, fetch_request, fill, list_offset, metadata, produce, read_all, test
from raw.wire import Conn

FETCH_ENTRY_BYTES = 28                               # of one partition, v9 to v11
MEMORY_KIB = 96 * 1024                               # whatever clients do (docs/reliability.md); connections come on top
DECODED_KIB = 28 * 1024                              # a request's ceiling when decoded: 16 MiB and four times this one's bytes
PER_CONN_KIB = 4                                     # T58; a request that is being sent: 4 KiB more
HOUR_MS = 3_600_000


def open_broker(c, descriptors=0, **options):
    """A broker that may open so many descriptors, and a measured client at work on it."""
    if descriptors:
        prefix = ["prlimit", f"--nofile={descriptors}:{descriptors}"]
        if subprocess.run([*prefix, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            c.skip(f"{descriptors} descriptors need root")
        options["prefix"] = prefix
    broker = c.own(**options)
    well = Well(c, broker, c.topic(broker=broker))
    well.undisturbed()
    return broker, well


def still_there(well):
    """Nothing acknowledged is lost."""
    got = {r[0]: r[3] for r in read_all(well.conn, well.topic)}
    assert well.kept and all(got.get(o) == v for o, v in well.kept.items())


# ---- T58 ----

@test("T58 2,000 idle connections (--full: 20,000): a few KiB of memory each, no processor time, nobody else notices")
def idle_crowd(c):
    n, descriptors = 2_000, 3_000
    if c.full:                                       # or as many as this machine lets a process open; an eighth is the store's
        descriptors = min(24_000, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
        n = min(20_000, descriptors * 3 // 4)
    broker, well = open_broker(c, descriptors)
    before = broker.rss_kib()
    crowd = Crowd(c, broker, "idle", n)
    crowd.wait("up", within=120)
    until(lambda: broker.fd_count() > n, 60, "the last connection")
    cpu, began = broker.cpu_seconds(), time.monotonic()
    assert well.conn.silent(1)
    busy = (broker.cpu_seconds() - cpu) / (time.monotonic() - began)
    well.judge(what=f"{n} idle connections stand")
    each = (broker.rss_kib() - before) / n
    print(f"# {each:.2f} KiB of memory for each of {n} idle connections (RSS {before} to {broker.rss_kib()} KiB), {busy:.1%} of a processor")
    assert each <= PER_CONN_KIB, f"{each:.2f} KiB each"
    assert busy < 0.1, f"{busy:.0%} of a processor for connections that say nothing"
    crowd.close()
    until(lambda: broker.fd_count() < n / 10, 30, "the return of the descriptors")
    still_there(well)


# ---- T56 ----

def slow_crowd(c, kind, *options, cut_within):
    n = 5_000 if c.full else 600
    broker, well = open_broker(c, n + 1000)
    before = broker.rss_kib()
    crowd = Crowd(c, broker, kind, n, *options)
    crowd.wait("up", within=60)
    well.judge(what=f"{n} clients do '{kind} {' '.join(str(o) for o in options)}'")
    peak = broker.rss_peak_kib()
    print(f"# RSS {before} KiB before, peak {peak} KiB")
    assert peak <= MEMORY_KIB + 2 * PER_CONN_KIB * n, f"{peak} KiB"
    if c.full:
        began = time.monotonic()
        crowd.wait("cut", n, within=cut_within)
        print(f"# all cut off {time.monotonic() - began:.0f} s later")
        well.judge(what="after they were cut off")
    crowd.close()
    still_there(well)


@test("T56 slow loris: 600 clients (--full: 5,000) begin a frame's size and fall silent: memory bounded, a good client's p99 within twice; "
      "they are cut off after 10 s (seen in --full)")
def head_crowd(c):
    slow_crowd(c, "head", cut_within=40)


@test("T56 slow loris: 600 clients (--full: 5,000) announce a small request and send a byte a second: likewise")
def drip_crowd(c):
    slow_crowd(c, "drip", 60_000, cut_within=90)


@test("T56 slow loris: clients that announce a megabyte and send a byte a second: a producer of megabytes is served, too")
def big_drip_crowd(c):
    n = 5_000 if c.full else 600
    broker, well = open_broker(c, n + 1000)
    crowd = Crowd(c, broker, "drip", n, 1_000_000)
    crowd.wait("up", within=60)
    conn, topic, took = c.conn(broker, timeout=60), c.topic(broker=broker), []
    for i in range(10):
        began = time.monotonic()
        answer = produce(conn, topic, rb.batch([(None, bytes(900_000))]))
        assert (answer["error"], answer["base_offset"]) == (0, i), answer
        took.append(time.monotonic() - began)
    print(f"# 900 KB batches beside {n} clients that drip: {max(took) * 1000:.0f} ms at most")
    assert max(took) < 2, f"a producer waits {max(took):.1f} s behind clients that send nothing"
    well.judge(what=f"{n} clients announce a megabyte and send a byte a second")
    assert broker.rss_peak_kib() <= MEMORY_KIB + 2 * PER_CONN_KIB * n
    still_there(well)


@test("T56 100 clients (--full: 1,000) ask for megabytes and never read: a good client's p99 within twice, memory bounded and given back")
def mute_crowd(c):
    n = 1_000 if c.full else 100
    broker, well = open_broker(c, n + 1000)
    topic = c.topic(broker=broker)
    fill(well.conn, topic, 64, size=100_000, per_batch=8)
    well.undisturbed(1)
    fds = broker.fd_count()
    crowd = Crowd(c, broker, "mute", n, topic)
    crowd.wait("up", within=60)
    well.judge(what=f"{n} clients ask for megabytes and never read")
    peak = broker.rss_peak_kib()
    print(f"# peak {peak} KiB")
    assert peak <= MEMORY_KIB + PER_CONN_KIB * n, f"{peak} KiB"
    crowd.close()
    until(lambda: broker.fd_count() <= fds, 30, "the return of the descriptors")
    still_there(well)


# ---- T61 ----

@test("T61 a connection (--full: five) pipelines 100,000 requests and reads nothing before the broker stops taking: then every answer in "
      "order; a good client's p99 within twice, memory bounded")
def flood_crowd(c):
    n = 5 if c.full else 1
    broker, well = open_broker(c)
    crowd = Crowd(c, broker, "flood", n, 100_000)
    crowd.wait("up", within=60)
    well.judge(what=f"{n} connections pipeline 100,000 requests and read nothing")
    crowd.wait("answered", n * 100_000, within=150)
    assert crowd.heard.get("stuck", 0) > 0, "the broker took 100,000 requests whose answers nobody read"
    assert broker.rss_peak_kib() <= MEMORY_KIB, broker.rss_peak_kib()
    still_there(well)


# ---- T62 ----

@test("T62 clients cut off at every few bytes of a produce frame and of its answer, by FIN and RST: each whole request stored once, then a clean "
      "stop: nothing is left open, and (--kind asan) nothing leaked")
def cut_off(c):
    broker, well = open_broker(c)
    topic, fds, sent = c.topic(broker=broker, partitions=2), broker.fd_count(), 0
    frame = well.conn.request("Produce", 9, {"acks": -1, "topics": [{"name": topic, "partitions": [
        {"index": 0, "records": rb.batch([(None, b"never" * 2000)])}]}]}, 1)
    for at in range(0, len(frame), 1 if c.full else 97):
        for end in (Conn.close, Conn.reset):
            conn = Conn(broker.addr)
            conn.raw(frame[:at])
            end(conn)
    for at in range(1, 60):
        conn = Conn(broker.addr)
        conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 1, "records": rb.batch([(None, b"%d" % at)])}]}])
        conn._exactly(min(at, 50))
        (conn.reset if at % 2 else conn.close)()
        sent += 1
    assert list_offset(well.conn, topic, -1, 0)["offset"] == 0, "a cut frame was applied"
    assert [r[3] for r in read_all(well.conn, topic, 1)] == [b"%d" % i for i in range(1, sent + 1)]
    until(lambda: broker.fd_count() <= fds + 1, 10, "the return of the descriptors")
    still_there(well)
    status, _ = broker.stop()
    assert status == 0, f"exit {status}: {broker.log_text()[-1500:]}"


# ---- T63 ----

@test("T63 a Fetch of 100,000 partitions, each of which may bring 2^31-1 bytes: the answer stays below its limit and names every one, memory "
      "bounded; two at once, too")
def wide_fetch(c):
    broker, well = open_broker(c)
    topic, n = c.topic(broker=broker, partitions=50), 100_000
    for p in range(50):
        fill(well.conn, topic, 4, partition=p, size=100_000)
    conns = [c.conn(broker, timeout=100) for _ in range(2)]
    one = conns[0].request("Fetch", 11, {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 2**31 - 1, "topics": [{"name": topic, "partitions": [
        {"partition": 0x01020304, "offset": 0, "max_bytes": 2**31 - 1}]}]}, 1)
    at = one.index(struct.pack(">ii", 1, 0x01020304))                  # the array: made long by hand, for that is quicker
    entry = one[at + 8:at + 4 + FETCH_ENTRY_BYTES]
    frame = one[4:at] + struct.pack(">i", n) + b"".join(struct.pack(">i", p) + entry for p in range(n)) + one[at + 4 + FETCH_ENTRY_BYTES:]
    frame = struct.pack(">i", len(frame)) + frame
    for conn in conns:
        conn.raw(frame)
    sizes = []
    for conn in conns:
        answer = conn.frame()
        sizes.append(len(answer))
    values, left = schema.decode("Fetch", 11, answer[4:])
    parts = values["topics"][0]["partitions"]
    assert not left and sorted(p["partition"] for p in parts) == list(range(n)), (len(parts), parts[:3], values["error"])
    assert all(p["error"] == (0 if p["partition"] < 50 else 3) for p in parts)
    assert sum(len(p["records"]) for p in parts) > 0 and max(sizes) < 64 << 20, sizes
    print(f"# answers of {min(sizes)} to {max(sizes)} bytes; peak RSS {broker.rss_peak_kib()} KiB")
    assert broker.rss_peak_kib() <= MEMORY_KIB + 2 * DECODED_KIB, broker.rss_peak_kib()
    still_there_after(well)


def still_there_after(well):
    well.window(0.2)
    still_there(well)


# ---- T66 ----

class MemoryLimit:
    """A control group (v1 or v2) with so much memory, page cache included."""

    def __init__(self, c, mebibytes):
        base, name = "/sys/fs/cgroup", f"perigee-test-{os.getpid()}"
        v1 = os.path.isdir(f"{base}/memory")
        self.path = os.path.join(base, "memory" if v1 else "", name)
        self.limit = os.path.join(self.path, "memory.limit_in_bytes" if v1 else "memory.max")
        self.failures = os.path.join(self.path, "memory.oom_control" if v1 else "memory.events")
        try:
            os.mkdir(self.path)
            with open(self.limit, "w", encoding="ascii") as f:
                f.write(str(mebibytes << 20))
        except OSError as e:
            if os.path.isdir(self.path):
                os.rmdir(self.path)
            c.skip(f"no control group can be made here: {e.strerror}")
        c.opened.append(self)
        self.prefix = ["sh", "-c", f'echo $$ >{self.path}/cgroup.procs && exec "$@"', "_"]

    def kills(self):
        with open(self.failures, encoding="ascii") as f:
            return sum(int(line.split()[1]) for line in f if line.split()[0] == "oom_kill")

    def close(self):
        """After its broker: things are closed in reverse."""
        until(lambda: self.removed(), 10, "the end of the control group")

    def removed(self):
        try:
            os.rmdir(self.path)
            return True
        except OSError:
            return not os.path.isdir(self.path)


@test("T66 a 256 MB memory limit and 200 producers of 1 MB at once (--full: 1,000): back-pressure, every one acknowledged, nothing killed, "
      "a good client is served meanwhile")
def little_memory(c):
    n = 1_000 if c.full else 200
    limit = MemoryLimit(c, 256)
    broker, well = open_broker(c, prefix=limit.prefix)
    topic = c.topic(broker=broker)
    crowd = Crowd(c, broker, "big", n, topic)
    crowd.wait("up", within=60)
    took, _ = well.window(2)
    crowd.wait("acked", n, within=900)
    print(f"# {n} producers of 1 MB acknowledged, {crowd.heard.get('refused', 0)} asked again; peak RSS {broker.rss_peak_kib()} KiB, "
          f"the good client's slowest {max(took):.0f} ms")
    assert limit.kills() == 0 and broker.alive()
    assert broker.rss_peak_kib() <= MEMORY_KIB, f"{broker.rss_peak_kib()} KiB"
    numbers, at = set(), 0
    while at < n:
        for b in rb.batches(fetch(well.conn, topic, at, max_bytes=3_000_000)["records"]):
            for r in b.records():
                numbers.add(int(r[3].split(b".")[0].split(b"-")[1]))
                at = r[0] + 1
    assert numbers == set(range(n)) and list_offset(well.conn, topic, -1)["offset"] == n, "an acknowledged batch is missing, or twice"
    still_there(well)


# ---- T21 ----

@test("T21 the wall clock jumps an hour forth and back, and to and fro, under load: nothing is lost or cut off, no parked fetch comes early, "
      "LogAppendTime and look-ups by time do as the clock says")
def clock_jumps(c):
    broker, disk = troubled(c, connections_max_idle_ms=30_000)
    rng, book = run.rng("t21"), Book()
    load = Load(c, book, rng)
    stamped = c.topic(broker=broker, message_timestamp_type="LogAppendTime")
    book.topics[str(stamped)] = stamped.id
    conn, idle, parked = (c.conn(broker) for _ in range(3))
    metadata(idle, [])
    load.start(broker.addr)
    base, last = time.time() * 1000, 0
    for i, jump in enumerate((HOUR_MS, -HOUR_MS, 0, *(rng.choice((-1, 1)) * HOUR_MS for _ in range(10)), 0)):
        disk.wall_shift(jump)
        began = time.monotonic()
        parked.send("Fetch", 12, **fetch_request(stamped, last, max_wait_ms=150, min_bytes=1 << 20))
        answer = produce(conn, stamped, rb.batch([(None, b"%d" % i)]))
        assert (answer["error"], answer["base_offset"]) == (0, i), answer
        assert abs(answer["log_append_time"] - base - jump) < 60_000, (answer, base + jump)
        load.wait_acks(20, 5)
        assert parked.recv("Fetch", 12)["topics"][0]["partitions"][0]["error"] == 0
        waited = time.monotonic() - began
        assert 0.14 < waited < 10, f"a fetch that may wait 150 ms came home after {waited * 1000:.0f} ms"
    assert all(w.is_alive() for w in load.workers), [w.wrong for w in load.workers]
    assert metadata(idle, [])["brokers"], "an idle connection was closed by a jump of the wall clock"
    future = list_offset(conn, stamped, int(base) + HOUR_MS // 2)
    assert future["error"] == 0 and future["offset"] == 0, future      # the first record was stamped an hour ahead
    broker.kill9()
    load.join()
    disk.wall_shift(-HOUR_MS)
    broker.start()
    load.keep(broker)
    assert [r[3] for r in read_all(c.conn(broker), stamped)] == [b"%d" % i for i in range(14)]


# ---- T22 ----

@test("T22 clients stopped for 3 s (--full: 20 s) with requests under way: others within twice their p99, afterwards they go on where they "
      "were, nothing lost or twice")
def stopped_clients(c):
    broker, well = open_broker(c)
    topics = [c.topic(broker=broker) for _ in range(4)]
    crowd = [Crowd(c, broker, "work", 1, t) for t in topics]
    for k in crowd:
        k.wait("up")
    well.undisturbed()
    for k in crowd:
        os.kill(k.pid, signal.SIGSTOP)
    ends = [list_offset(well.conn, t, -1)["offset"] for t in topics]
    well.judge(20 if c.full else 3, windows=1 if c.full else 2, what="four clients are stopped")
    for k in crowd:
        os.kill(k.pid, signal.SIGCONT)
    for t, end, k in zip(topics, ends, crowd):
        until(lambda t=t, e=end, k=k: (k.listen(0), list_offset(well.conn, t, -1)["offset"] > e + 20)[1], 20, "progress of a stopped client")
        k.close()
    for t in topics:
        values = [r[3] for r in read_all(well.conn, t)]
        assert values == [b"w%d" % i for i in range(len(values))]
    still_there(well)
