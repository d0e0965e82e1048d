"""Files that say what the data is: damaged, missing, somebody else's, newer, in use. T12; DESIGN 4 and 7 (exit codes)."""
import os
import re
import shutil

from faults import ledger, run
from faults.disk import Disk, until
from raw import batch as rb
from raw.harness import fill, metadata, producer_id, produce, read_all, test

DAMAGED, CONFIG = 74, 78
META = "perigee.meta"


def tree(data):
    """Every file and its bytes; the lock says nothing about data."""
    out = {}
    for folder, _, files in os.walk(data):
        for name in files:
            path = os.path.join(folder, name)
            if name != ".lock":
                with open(path, "rb") as f:
                    out[os.path.relpath(path, data)] = f.read()
    return out


def complaint(broker, before):
    """The lines of the last start that say why it was refused."""
    said = broker.log_text()[before:]
    return [line for line in said.splitlines() if line.startswith("perigee:") or " ERROR " in line]


def refused(broker, status, word):
    """It does not start: that exit status, one clear line that has the word, and no file is touched."""
    was, log = tree(broker.data), len(broker.log_text()) if os.path.exists(broker.log_path) else 0
    got = broker.start_expecting_failure(20)
    lines = complaint(broker, log)
    assert got == status, f"{word}: exit {got}, expected {status}: {lines}"
    assert len(lines) == 1, f"{word}: one line expected: {lines}"
    assert word in lines[0], f"{word!r} is not named: {lines[0]}"
    now = tree(broker.data)
    assert now == was, f"{word}: files changed: {sorted(set(now) ^ set(was)) or [n for n in now if now[n] != was[n]]}"


class Home:
    """A data directory with two topics, one deleted, a producer id; and what must be there whenever it is served."""

    def __init__(self, c, clean):
        self.c = c
        self.disk = Disk()
        c.opened.append(self.disk)
        self.broker = c.own(data=self.disk.data, env=self.disk.env)
        self.topics = [c.topic(partitions=3, broker=self.broker, segment_bytes=20_000) for _ in range(2)]
        self.gone = c.topic(broker=self.broker)
        conn = c.conn(self.broker)
        for t in self.topics:
            for p in range(3):
                fill(conn, t, 60, partition=p, size=700, per_batch=6)
        assert conn.call("DeleteTopics", 4, names=[self.gone])["topics"][0]["error"] == 0
        self.pid = producer_id(conn)
        self.marked()
        self.broker.stop() if clean else self.broker.kill9()
        self.saved = self.disk.data + ".saved"
        shutil.copytree(self.disk.data, self.saved)

    def marked(self):
        """Wait until the durable marks speak of every log: a sync of each marks file that begins after the load."""
        self.disk.arm()
        want = set(self.meta_files("marks."))
        until(lambda: {r.name for r in self.disk.events() if r.op == ledger.SYNC_BEGIN} >= want, 10, "a sync of the durable marks")

    def path(self, name):
        return os.path.join(self.disk.data, name)

    def restore(self):
        shutil.rmtree(self.disk.data)
        shutil.copytree(self.saved, self.disk.data)

    def served(self):
        """Starts, and everything is there."""
        self.broker.start()
        conn = self.c.conn(self.broker)
        there = {t["name"]: t["topic_id"] for t in metadata(conn, None, version=10)["topics"]}
        assert there == {str(t): t.id for t in self.topics}, there
        for t in self.topics:
            for p in range(3):
                assert len(read_all(conn, t, p)) == 60, (t, p)
        assert producer_id(conn) != self.pid
        self.broker.kill9()

    def meta_files(self, stem):
        return sorted(os.path.join(META, n) for n in os.listdir(os.path.join(self.disk.data, META)) if n.startswith(stem))


def flip(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x20]))


def cut(path, size):
    os.truncate(path, size)


def refused_or_whole(home, name):
    """Damage that a crash could also have left: refused with one line, or everything served; never less, and no data file lost."""
    before, log = tree(home.disk.data), len(home.broker.log_text())
    status = None
    try:
        home.served()
    except AssertionError:
        raise
    except Exception:                                # noqa: BLE001 - it did not start: look at how
        status = home.broker.process.returncode
    if status is not None:
        assert status == DAMAGED, f"{name}: exit {status}: {complaint(home.broker, log)}"
        assert len(complaint(home.broker, log)) == 1, complaint(home.broker, log)
    lost = [n for n in before if n.endswith(".log") and "-" in n and n not in tree(home.disk.data)]
    assert not lost, f"{name}: data files are gone: {lost}"


@test("T12 the metadata log damaged below what was synced: exit 74, one line that names it, nothing touched; put back, "
      "everything is served")
def metadata_log(c):
    home, rng = Home(c, clean=True), run.rng("metalog")
    name = os.path.join(META, "metadata.log")
    size = os.path.getsize(home.path(name))
    for _ in range(20 if c.full else 6):
        flip(home.path(name), rng.randrange(size))
        refused(home.broker, DAMAGED, "metadata.log")
        home.restore()
    for to in (0, 1, size // 2, size - 1):
        cut(home.path(name), to)
        refused(home.broker, DAMAGED, "metadata.log")
        home.restore()
    os.unlink(home.path(name))
    refused(home.broker, DAMAGED, "metadata.log")
    home.restore()
    home.served()


@test("T12 the metadata log damaged after kill -9, at any byte: refused, or every acknowledged topic is served; no "
      "data file is deleted")
def metadata_log_unclean(c):
    home, rng = Home(c, clean=False), run.rng("metalog unclean")
    name = os.path.join(META, "metadata.log")
    size = os.path.getsize(home.path(name))
    for at in [size - 1, size - 60] + [rng.randrange(size) for _ in range(20 if c.full else 4)]:
        flip(home.path(name), at)
        refused_or_whole(home, f"flip at {at} of {size}")
        home.restore()
    cut(home.path(name), size - 10)
    refused_or_whole(home, "cut")
    home.restore()
    home.served()


@test("T12 format and meta.properties damaged or missing: exit 74, one line that names the file, nothing touched")
def other_metadata(c):
    home = Home(c, clean=True)
    form = os.path.join(META, "format")
    properties = "meta.properties"
    for name, how in [(form, lambda p: flip(p, 3)), (form, lambda p: cut(p, 0)), (form, os.unlink),
                      (properties, lambda p: cut(p, 12)), (properties, lambda p: flip(p, 12)), (properties, os.unlink)]:
        how(home.path(name))
        refused(home.broker, DAMAGED, os.path.basename(name))
        home.restore()
    home.served()


@test("T12 a missing or damaged marks file never makes a log look empty: refused, or everything is served; no data "
      "file is deleted")
def marks(c):
    for clean in (True, False):
        home, rng = Home(c, clean), run.rng(f"marks {clean}")
        for name in home.meta_files("marks."):
            size = os.path.getsize(home.path(name))
            for how in [os.unlink, lambda p: cut(p, 0), lambda p: cut(p, size // 2), lambda p: flip(p, size - 1),
                        lambda p: flip(p, rng.randrange(size))]:
                how(home.path(name))
                refused_or_whole(home, name)
                home.restore()


@test("T12 the metadata snapshot damaged at any byte, cut or missing: exit 74, one line that names it, nothing touched", full=True)
def snapshot(c):
    disk = Disk()
    c.opened.append(disk)
    broker = c.own(data=disk.data)
    conn, path = c.conn(broker), os.path.join(disk.data, META, "metadata.snapshot")
    for i in range(60):                              # a snapshot is taken when the log has grown by some megabytes
        names = [f"s-{i}-{k}" + "x" * 200 for k in range(500)]
        conn.call("CreateTopics", 7, topics=[{"name": n} for n in names])
        conn.call("DeleteTopics", 4, names=names)
        if os.path.exists(path):
            break
    topic = c.topic(broker=broker)
    assert os.path.exists(path), "no snapshot was taken"
    assert produce(conn, topic, rb.batch([(None, b"x")]))["error"] == 0
    broker.stop()
    rng, saved = run.rng("snapshot"), disk.data + ".saved"
    shutil.copytree(disk.data, saved)
    size = os.path.getsize(path)
    for how in [lambda p: flip(p, rng.randrange(size)), lambda p: flip(p, size - 1), lambda p: cut(p, size // 2), lambda p: cut(p, 0),
                os.unlink]:
        how(path)
        refused(broker, DAMAGED, "metadata.")
        shutil.rmtree(disk.data)
        shutil.copytree(saved, disk.data)
    broker.start()
    assert [r[3] for r in read_all(c.conn(broker), topic)] == [b"x"]


# ---- whose directory is it ----

@test("a data directory in use: the second broker exits 78 with one line that names the directory; the first goes on; "
      "after kill -9 it is free")
def locked(c):
    first = c.own()
    topic = c.topic(broker=first)
    second = c.own(start=False, data=first.data)
    began = len(second.log_text()) if os.path.exists(second.log_path) else 0
    assert second.start_expecting_failure(20) == CONFIG
    lines = complaint(second, began)
    assert len(lines) == 1 and re.search("in use|locked", lines[0]), lines
    assert produce(c.conn(first), topic, rb.batch([(None, b"mine")]))["error"] == 0
    first.kill9()
    second.start()
    assert [r[3] for r in read_all(c.conn(second), topic)] == [b"mine"]
    assert first.data in lines[0], f"the directory is not named: {lines[0]}"


def kafka_directory(data):
    """What Apache Kafka leaves in log.dirs (KRaft)."""
    for folder in ("__cluster_metadata-0", "orders-0"):
        os.makedirs(os.path.join(data, folder))
        with open(os.path.join(data, folder, "0" * 20 + ".log"), "wb") as f:
            f.write(rb.batch([(b"k", b"v")]))
        for suffix in (".index", ".timeindex"):
            with open(os.path.join(data, folder, "0" * 20 + suffix), "wb") as f:
                f.write(bytes(64))
    with open(os.path.join(data, "meta.properties"), "w", encoding="ascii") as f:
        f.write("#\n#Tue Jan 02 03:04:05 UTC 2024\nnode.id=1\nversion=1\ndirectory.id=9sqWa5NOSFWmd4M4cJh6iA\n"
                "cluster.id=MkU3OEVBNTcwNTJENDM2Qk\n")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
                 "bootstrap.checkpoint"):
        with open(os.path.join(data, name), "w", encoding="ascii") as f:
            f.write("0\n1\norders 0 1\n")


@test("a directory of Apache Kafka, of somebody else, of another node, of a newer perigee: exit 78, one line that says "
      "so, nothing changed")
def foreign(c):
    def make(fill_it):
        disk = Disk()
        c.opened.append(disk)
        os.makedirs(disk.data)
        fill_it(disk.data)
        return c.own(start=False, data=disk.data)

    def photos(data):
        with open(os.path.join(data, "holiday.jpg"), "wb") as f:
            f.write(b"\xff\xd8\xff")
    refused(make(kafka_directory), CONFIG, "Kafka")
    refused(make(photos), CONFIG, "holiday.jpg")
    home = Home(c, clean=True)
    home.broker.settings["node.id"] = 7
    refused(home.broker, CONFIG, "node")
    del home.broker.settings["node.id"]
    path = home.path(os.path.join(META, "format"))
    with open(path, encoding="ascii") as f:
        text = f.read()
    with open(path, "w", encoding="ascii") as f:
        f.write(re.sub(r"\d+", "99", text))
    refused(home.broker, CONFIG, "newer")
    home.restore()
    home.served()


@test("T12 a partition's directory gone or emptied although its mark says that it held bytes: that partition is "
      "refused (56), named, the others are served")
def partition_gone(c):
    home = Home(c, clean=False)
    victim, path = home.topics[0], home.path(f"{home.topics[0]}-1")
    for how in (shutil.rmtree, lambda p: os.unlink(sorted(os.path.join(p, f) for f in os.listdir(p) if f.endswith(".log"))[0])):
        how(path)
        before = len(home.broker.log_text())
        home.broker.start()
        conn = c.conn(home.broker)
        for t in home.topics:
            for p in range(3):
                if (t, p) != (victim, 1):
                    assert len(read_all(conn, t, p)) == 60, (t, p)
        answer = produce(conn, victim, rb.batch([(None, b"x")]), 1)
        assert answer["error"] == 56, answer
        errors = [line for line in home.broker.log_text()[before:].splitlines() if " ERROR " in line]
        assert any(f"{victim}-1" in line for line in errors), errors
        home.broker.stop()
        log = len(home.broker.log_text())
        home.broker.start()
        assert produce(c.conn(home.broker), victim, rb.batch([(None, b"x")]), 1)["error"] == 56, "a clean stop made the damage good"
        assert " ERROR " in home.broker.log_text()[log:]
        home.broker.kill9()
        home.restore()
    home.served()
