"""A disk that fails, cuts short and fills up, and how much a start reads: T13, T14, T15, T16, T17, T20; BR-061; DESIGN 4 (durability rules)."""
import os
import time

from faults import ledger, run
from faults.disk import troubled, until
from faults.load import Book, Load
from raw import batch as rb
from raw.harness import fetch, list_offset, metadata, produce, read_all, test
from raw.wire import Conn

STORAGE_ERROR, EXIT_STORAGE = 56, 74


def value(tag, size=300):
    return tag.encode() + b"." * size


def put(conn, topic, tag, partition=0, **options):
    """One record; the answer, or None when the broker hung up instead."""
    try:
        return produce(conn, topic, rb.batch([(None, value(tag))]), partition, **options)
    except (OSError, EOFError):
        return None


def ready(c, partitions=2, n=5, **options):
    """A broker on a troublesome disk with n acknowledged records in each partition, all of it synced and settled."""
    settings = options.pop("settings", {})
    broker, disk = troubled(c, **options)
    topic = c.topic(partitions=partitions, **settings)
    conn = c.conn(broker)
    for i in range(n):
        for p in range(partitions):
            assert put(conn, topic, f"old-{p}-{i}", p)["error"] == 0
    return broker, disk, topic, conn


def values(conn, topic, partition=0):
    got = read_all(conn, topic, partition)
    assert [r[0] for r in got] == list(range(len(got))), "a hole"
    return [r[3].rstrip(b".").decode() for r in got]


def segment(broker, topic, partition=0):
    folder = os.path.join(broker.data, f"{topic}-{partition}")
    return os.path.join(folder, sorted(f for f in os.listdir(folder) if f.endswith(".log"))[-1])


def old(p=0, n=5):
    return [f"old-{p}-{i}" for i in range(n)]


def never_synced_again(disk):
    """After a failed sync the kernel tells lies: no second one on that file (RELIABILITY 6, rule 4)."""
    failed, begun = set(), {}
    for r in disk.events():
        if r.op == ledger.START:
            failed, begun = set(), {}
        elif r.op == ledger.SYNC_BEGIN and not r.b:
            assert r.ino not in failed, f"{r.name} was synced again after its sync had failed"
            begun[r.a] = r.ino
        elif r.op == ledger.SYNC_END and r.n:
            failed.add(begun.get(r.a))


def ended(broker, limit=10):
    return broker.process.wait(limit)


# ---- T13 ----

@test("T13 fdatasync fails once: nobody of that group is acknowledged, the log is fenced and its file never synced "
      "again, others go on; a restart recovers")
def sync_fails_once(c):
    for how in ("stop", "kill", "cut"):
        broker, disk, topic, conn = ready(c, contents=how == "cut")
        disk.arm(f"sync match={topic}-0/ errno=EIO")
        group = [c.conn(broker) for _ in range(4)]
        for k, g in enumerate(group):
            g.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [
                {"index": 0, "records": rb.batch([(None, value(f"new-{k}"))])}]}])
        answers = [g.recv("Produce", 9)["topics"][0]["partitions"][0] for g in group]
        disk.struck()
        assert all(a["error"] == STORAGE_ERROR for a in answers), answers
        assert put(conn, topic, "later")["error"] == STORAGE_ERROR, "the log was not fenced"
        assert put(conn, topic, "later", acks=1)["error"] == STORAGE_ERROR
        for i in range(5):
            assert put(conn, topic, f"other-{i}", 1)["error"] == 0, "another partition suffered"
        assert values(conn, topic, 1) == old(1) + [f"other-{i}" for i in range(5)]
        shown = fetch(conn, topic, 0)
        assert shown["error"] == STORAGE_ERROR or shown["high_watermark"] == 5, f"unproven records are shown: {shown}"
        status = broker.stop()[0] if how == "stop" else broker.kill9()
        never_synced_again(disk)
        assert status in (0, None, EXIT_STORAGE), status
        if how == "cut":
            disk.cut_power(run.rng("t13"), "mixed")
        disk.disarm()
        broker.start()
        conn = c.conn(broker)
        got = values(conn, topic)
        assert got[:5] == old() and set(got[5:]) <= {f"new-{k}" for k in range(4)}, got
        answer = put(conn, topic, "after")
        assert (answer["error"], answer["base_offset"]) == (0, len(got)), answer
        assert values(conn, topic, 1)[:5] == old(1)
        broker.kill9()


@test("T13 a failed sync of the metadata log, or of the whole file system: no answer says success, exit 74 with a line "
      "that says why; a restart recovers")
def sync_fails_for_all(c):
    def create(conn, _):
        return conn.call("CreateTopics", 7, topics=[{"name": "wanted"}])["topics"][0]["error"]

    def many(conn, topic):
        parts = [{"index": p, "records": rb.batch([(None, value("new"))])} for p in range(24)]
        answer = conn.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": parts}])
        return max(p["error"] for p in answer["topics"][0]["partitions"])
    for rule, act in (("sync match=metadata.log errno=EIO", create), ("write match=metadata.log errno=EIO", create),
                      ("syncfs errno=EIO", many)):
        broker, disk, topic, conn = ready(c, partitions=24)      # more dirty logs per shard than are synced one by one
        disk.arm(rule)
        try:
            assert act(conn, topic) != 0, f"{rule}: success was answered"
        except (OSError, EOFError):
            pass
        disk.struck()
        assert ended(broker) == EXIT_STORAGE, f"{rule}: exit {broker.process.returncode}"
        assert "ERROR perigee.fatal" in broker.log_text()
        disk.disarm()
        broker.start()
        conn = c.conn(broker)
        assert all(values(conn, topic, p)[:5] == old(p) for p in range(24))
        assert metadata(conn, [str(topic)])["topics"][0]["error"] == 0
        broker.kill9()


ANYWHERE = [f"{kind} match={where} skip={{skip}} errno={{errno}}"
            for kind in ("sync", "write", "create", "rename")
            for where in ("/.log", "/.index", "/.timeindex", "/.snapshot", "marks.", "metadata.", "/leader-epoch-checkpoint",
                          "partition.metadata", "")
            ] + ["sync match=perigee.meta errno=EIO", "syncfs errno=EIO", "truncate errno=EIO", "mkdir errno={errno}", "unlink errno=EIO"]


@test("T13 T14 T16 one failure (EIO, ENOSPC) of a sync, write, creation or renaming anywhere, under load, then a power "
      "cut: no promise is broken, "
      "nothing synced again, only clear errors")
def fails_anywhere(c):
    rng = run.rng(f"anywhere/{c.shards}")
    rules = list(ANYWHERE)
    rng.shuffle(rules)
    struck = 0
    for i, rule in enumerate(rules if c.full else rules[:16]):
        rule = rule.format(skip=rng.randint(0, 3), errno=rng.choice(("EIO", "ENOSPC")))
        broker, disk = troubled(c, contents=True)
        load = Load(c, Book(), rng)
        try:
            disk.arm(rule)
            load.start(broker.addr, tolerant=True)
            load.wait_acks(150, 1.5)
            status = broker.process.poll()
            assert status in (None, EXIT_STORAGE), f"exit {status}"
            (broker.kill9 if status is not None or rng.random() < 0.7 else broker.stop)()
            load.join()
            struck += len(disk.strikes()) > 0
            never_synced_again(disk)
            disk.cut_power(rng, rng.choice(ledger.MOODS))
            disk.disarm()
            broker.start()
            load.keep(broker)
        except Exception as e:
            raise AssertionError(f"rule {i} '{rule}' (seed {run.seed()}): {type(e).__name__} {e}\n{broker.log_text()[-2000:]}") from e
        broker.kill9()
    print(f"# {struck} rules struck")
    assert struck >= 5


# ---- T14 ----

@test("T14 a write of a segment cut short, or interrupted, at any byte goes on: acknowledged, every byte right")
def short_writes(c):
    rng = run.rng("t14")
    broker, disk, topic, conn = ready(c)
    want = old()
    for i in range(100 if c.full else 25):
        n = os.path.getsize(segment(broker, topic)) + rng.randrange(300)
        disk.arm(f"write match={topic}-0/ at={n} {rng.choice(('short', 'errno=EINTR'))}")
        answer = put(conn, topic, f"new-{i}")
        assert answer["error"] == 0 and answer["base_offset"] == len(want), answer
        disk.struck()
        want.append(f"new-{i}")
    disk.disarm()
    assert values(conn, topic) == want
    broker.kill9()
    broker.start()
    assert values(c.conn(broker), topic) == want


@test("T14 every second write cut in half and every third sync interrupted, under load: nothing lost, nothing twice")
def always_short(c):
    broker, disk = troubled(c)
    load = Load(c, Book(), run.rng("t14 load"))
    disk.arm("write times=0 pct=50 seed=3 short", "write times=0 pct=10 seed=5 errno=EINTR", "sync times=0 pct=30 seed=7 errno=EINTR",
             "syncfs times=0 pct=30 seed=9 errno=EINTR")
    load.start(broker.addr)
    load.wait_acks(200)
    broker.kill9()
    load.join()
    broker.start()
    load.keep(broker)


@test("T14 EIO in the middle of a segment's write: not acknowledged, fenced, others go on; a restart cuts the torn "
      "batch and goes on at the right offset")
def write_error(c):
    rng = run.rng("t14 eio")
    for i in range(20 if c.full else 4):
        broker, disk, topic, conn = ready(c)
        n = os.path.getsize(segment(broker, topic)) + (0 if i == 0 else rng.randrange(300))
        disk.arm(f"write match={topic}-0/ at={n} errno=EIO")
        answer = put(conn, topic, "new")
        disk.struck()
        assert answer is None or answer["error"] == STORAGE_ERROR, answer
        if answer:
            assert put(conn, topic, "more")["error"] == STORAGE_ERROR
            assert put(conn, topic, "other", 1)["error"] == 0
            broker.kill9()
        else:
            assert ended(broker) == EXIT_STORAGE
        disk.disarm()
        broker.start()
        conn = c.conn(broker)
        assert values(conn, topic) == old(), values(conn, topic)
        assert put(conn, topic, "after")["base_offset"] == 5
        broker.kill9()


# ---- T15 ----

def resumes(conn, topic, tag, partition=0, within=10):
    """Producing works again without a restart; the offset it got."""
    answers = []

    def again():
        answers.append(put(conn, topic, tag, partition))
        return answers[-1] and answers[-1]["error"] == 0
    until(again, within, f"service ({answers[-1:]})")
    return answers[-1]["base_offset"]


@test("T15 BR-061 a full disk (ENOSPC): a clear retriable error and no hang-up; consumers, metadata and admin go on; "
      "freed space resumes service; no hole")
def disk_full(c):
    broker, disk, topic, conn = ready(c)
    disk.arm(f"write match={topic}- times=0 errno=ENOSPC", "statvfs times=0 free=4096")
    for i in range(20):
        for acks in (-1, 1):
            answer = put(conn, topic, f"no-{i}", acks=acks)
            assert answer is not None and answer["error"] == STORAGE_ERROR, answer
    assert disk.strikes()
    assert values(conn, topic) == old() and values(conn, topic, 1) == old(1)
    assert list_offset(conn, topic, -1)["offset"] == 5
    assert metadata(conn, [str(topic)])["topics"][0]["error"] == 0
    made = conn.call("CreateTopics", 7, topics=[{"name": "while-full"}])["topics"][0]
    assert made["error"] == 0, f"admin does not go on: {made}"
    assert conn.call("DeleteTopics", 4, names=["while-full"])["topics"][0]["error"] == 0, "space cannot be freed by deleting"
    assert broker.alive()
    disk.disarm()
    assert resumes(conn, topic, "again") == 5
    assert values(conn, topic) == old() + ["again"]
    broker.kill9()
    broker.start()
    assert values(c.conn(broker), topic) == old() + ["again"]


@test("T15 BR-061 ENOSPC in the middle of a batch: cut back, refused with a clear error, the next batch gets the same "
      "offset; no hole before or after a restart")
def full_within_a_batch(c):
    rng, want = run.rng("t15"), old()
    broker, disk, topic, conn = ready(c)
    for i in range(40 if c.full else 10):
        size = os.path.getsize(segment(broker, topic))
        disk.arm(f"write match={topic}-0/ at={size + rng.randrange(300)} errno=ENOSPC")
        answer = put(conn, topic, f"no-{i}")
        assert answer is not None and answer["error"] == STORAGE_ERROR, answer
        disk.struck()
        assert resumes(conn, topic, f"yes-{i}") == len(want)
        want.append(f"yes-{i}")
        assert values(conn, topic) == want
    broker.kill9()
    broker.start()
    assert values(c.conn(broker), topic) == want


@test("T15 an idempotent producer with five in flight meets ENOSPC and retries as clients do: every record once, in "
      "order (I3, I7)")
def full_idempotent(c):
    from raw.harness import producer_id
    rng = run.rng("t15 idempotent")
    broker, disk, topic, conn = ready(c, n=1)
    pid, seq, want = producer_id(conn), 0, ["old-0-0"]
    for i in range(20 if c.full else 6):
        batches = [rb.batch([(None, value(f"v-{seq + k}"))], pid=pid, epoch=0, seq=seq + k) for k in range(5)]
        tags = [f"v-{seq + k}" for k in range(5)]
        disk.arm(f"write match={topic}-0/ at={os.path.getsize(segment(broker, topic)) + rng.randrange(1500)} errno=ENOSPC")
        for b in batches:
            conn.send("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": 0, "records": b}]}])
        answers = [conn.recv("Produce", 9)["topics"][0]["partitions"][0]["error"] for _ in batches]
        bad = [k for k, e in enumerate(answers) if e]
        assert bad == list(range(bad[0], 5)) if bad else True, f"a batch behind a refused one was taken: {answers}"
        assert set(answers) <= {0, STORAGE_ERROR, 45}, answers
        for k in bad:
            until(lambda b=batches[k]: produce(conn, topic, b)["error"] == 0, 10, "the retry")
        want += tags
        seq += 5
        assert values(conn, topic) == want
    broker.kill9()
    broker.start()
    conn = c.conn(broker)
    assert produce(conn, topic, batches[-1])["base_offset"] == len(want) - 1
    assert values(conn, topic) == want


@test("T16 ENOSPC exactly at a roll, at a checkpoint's side files, at the durable marks, at the metadata log: clear "
      "errors at most, then service without restart")
def full_elsewhere(c):
    rules = ["create match=/.log times=3", "create match=/.index times=3", "write match=/.index times=3", "write match=/.timeindex times=3",
             "write match=marks. times=3", "create match=/.snapshot times=3", "mkdir times=3", "write match=partition.metadata times=3",
             "create match=leader-epoch-checkpoint times=3"]
    for rule in rules:
        broker, disk, topic, conn = ready(c, settings={"segment_bytes": 2000}, partitions=1)
        disk.arm(rule + " errno=ENOSPC")
        want = old()
        for i in range(30):                          # a roll every few records
            answer = put(conn, topic, f"new-{i}")
            assert answer is not None, f"{rule}: hung up, exit {broker.process.poll()}: {broker.log_text()[-600:]}"
            assert answer["error"] in (0, STORAGE_ERROR), (rule, answer)
            if answer["error"] == 0:
                want.append(f"new-{i}")
        late = c.topic(broker=broker)
        resumes(conn, late, "first")
        disk.disarm()
        resumes(conn, topic, "end")
        want.append("end")
        assert values(conn, topic) == want, rule
        status, _ = broker.stop()
        assert status == 0, f"{rule}: exit {status}"
        broker.start()
        assert values(c.conn(broker), topic) == want, rule
        broker.kill9()
    broker, disk, topic, conn = ready(c)
    disk.arm("write match=metadata.log times=2 errno=ENOSPC")
    errors = [conn.call("CreateTopics", 7, topics=[{"name": f"no-{i}"}])["topics"][0]["error"] for i in range(3)]
    assert errors[0] not in (0, None) and errors[2] == 0, errors
    there = {t["name"] for t in metadata(conn, None)["topics"]}
    assert there == {str(topic)} | {f"no-{i}" for i in range(3) if errors[i] == 0}, there
    disk.disarm()
    broker.kill9()
    broker.start()
    assert {t["name"] for t in metadata(c.conn(broker), None)["topics"]} == there


# ---- T17 ----

@test("T17 a read that fails or brings wrong bytes: an error for that fetch only, never bad bytes; the next fetch and "
      "other partitions are well")
def bad_reads(c):
    broker, disk, topic, conn = ready(c, n=20)
    broker.stop()
    broker.start()                                   # nothing is in memory
    conn = c.conn(broker)
    for rule in ("read match=-0/0 errno=EIO", "read match=-0/0 flip"):
        disk.arm(rule)
        part = fetch(conn, topic, 0)
        disk.struck()
        assert part["error"] == STORAGE_ERROR or all(b.good_crc for b in rb.batches(part["records"])), part["error"]
        disk.disarm()
        assert values(conn, topic) == old(0, 20) and values(conn, topic, 1) == old(1, 20)
    assert put(conn, topic, "more")["base_offset"] == 20


@test("T13 T15 opening a data directory on a disk that fails or is full at boot: exit 74 or service, one clear line, "
      "nothing lost; then a normal start")
def failing_boot(c):
    broker, disk, topic, conn = ready(c)
    broker.kill9()
    for rule in ("syncfs errno=EIO", "sync times=0 errno=EIO", "write times=0 errno=EIO", "write times=0 errno=ENOSPC",
                 "read times=0 errno=EIO",
                 "open match=/.log times=0 errno=EIO", "open match=metadata.log errno=EIO", "truncate times=0 errno=EIO"):
        disk.arm(rule)
        log = len(broker.log_text())
        try:
            broker.start()
            with Conn(broker.addr) as conn:
                metadata(conn, [str(topic)])
            broker.kill9()
        except Exception:                            # noqa: BLE001 - refusing is right, too
            said = broker.log_text()[log:]
            assert broker.process.returncode in (EXIT_STORAGE, 1), f"{rule}: exit {broker.process.returncode}: {said[-600:]}"
            assert "perigee: " in said or " ERROR " in said, f"{rule}: nothing was said: {said[-600:]}"
    disk.disarm()
    broker.start()
    conn = c.conn(broker)
    assert values(conn, topic) == old() and values(conn, topic, 1) == old(1)
    assert put(conn, topic, "after")["base_offset"] == 5


# ---- T20 ----

def bytes_read(broker):
    """By system calls, since the process began."""
    with open(f"/proc/{broker.pid}/io", encoding="ascii") as f:
        return int(f.readline().split()[1])


@test("T20 a start after kill -9 reads what is above the last checkpoint, not the data: of four times the data as much is read; "
      "(--full: 10,000 partitions, unclean)")
def start_reads_little(c):
    read = []
    for megabytes in (8, 32):
        broker = c.own()
        topic = c.topic(broker=broker, segment_bytes=4_000_000)
        conn = c.conn(broker)
        for _ in range(megabytes):
            assert produce(conn, topic, rb.batch([(None, os.urandom(1_000_000))]), acks=1)["error"] == 0
        broker.restart()                             # a checkpoint at the end
        conn = c.conn(broker)
        for i in range(20):
            assert put(conn, topic, f"tail-{i}")["error"] == 0
        broker.kill9()
        broker.start()
        read.append(bytes_read(broker))
        assert list_offset(c.conn(broker), topic, -1)["offset"] == megabytes + 20
        broker.kill9()
    print(f"# read at the start after kill -9: {read[0]} bytes of 8 MB, {read[1]} bytes of 32 MB")
    assert max(read) < 2_000_000, read
    if not c.full:
        return
    broker = c.own()
    names = [c.topic(broker=broker, partitions=1000) for _ in range(10)]
    conn = c.conn(broker, timeout=120)
    for t in names:
        conn.call("Produce", 9, acks=1, timeout_ms=60_000, topics=[{"name": t, "partitions": [
            {"index": p, "records": rb.batch([(None, b"one")])} for p in range(1000)]}])
    broker.kill9()
    began = time.monotonic()
    broker.start()
    took = time.monotonic() - began
    conn = c.conn(broker)
    assert all(list_offset(conn, t, -1, 999)["offset"] == 1 for t in names)
    print(f"# ready {took:.2f} s after kill -9 with 10,000 partitions written; {bytes_read(broker)} bytes read")
    assert took < 10, took
