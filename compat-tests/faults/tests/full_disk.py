"""A disk filled to the last byte: T15, T16; BR-061; DESIGN 4 (disk full)."""
import errno
import os
import shutil
import subprocess
import tempfile

from faults.disk import troubled, until
from raw import batch as rb
from raw.harness import fetch, list_offset, metadata, producer_id, produce, read_all, test

STORAGE_ERROR = 56                                   # KAFKA_STORAGE_ERROR: clients try again
PIECE = 40_000


class Mounted:
    """A small file system of its own."""

    def __init__(self, c, kind, mebibytes):
        if os.geteuid() != 0:
            c.skip("mounting needs root")
        self.home = os.path.realpath(tempfile.mkdtemp(prefix="faults-", dir=os.environ.get("COMPAT_TMP")))
        self.path = os.path.join(self.home, "mounted")
        os.mkdir(self.path)
        image = os.path.join(self.home, "image")
        if kind == "ext4":
            with open(image, "wb") as f:
                f.truncate(mebibytes << 20)
        commands = {"tmpfs": [["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", self.path]],
                    "ext4": [["mkfs.ext4", "-q", "-F", image], ["mount", "-o", "loop", image, self.path]]}[kind]
        for command in commands:
            if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
                shutil.rmtree(self.home)
                c.skip(f"{command[0]} does not work here")

    def fill(self, most=1 << 40):
        """Somebody else takes all that is left, or so much of it."""
        fd = os.open(os.path.join(self.path, "somebody-elses"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        piece = min(most, 1 << 20)
        while piece:
            try:
                wrote = os.write(fd, bytes(piece))
                most -= wrote
                piece = min(most, piece if wrote == piece else piece // 2)
            except OSError as e:
                assert e.errno == errno.ENOSPC, e
                piece //= 2
        os.close(fd)

    def empty(self):
        os.unlink(os.path.join(self.path, "somebody-elses"))

    def close(self):
        subprocess.run(["umount", self.path], check=False)
        shutil.rmtree(self.home, ignore_errors=True)


class Filled:
    """Two topics on a full file system, and what they hold."""

    def __init__(self, c, kind, mebibytes):
        self.c, self.disk = c, Mounted(c, kind, mebibytes)
        c.opened.append(self.disk)
        self.disk.fill(4 << 20)
        self.broker = c.own(data=os.path.join(self.disk.path, "data"), store_space_reserve="1MiB")
        self.keep, self.ballast = (c.topic(broker=self.broker, segment_bytes=2_000_000) for _ in range(2))
        self.held = {self.keep: [], self.ballast: []}
        self.conn = c.conn(self.broker)

    def until_refused(self):
        for i in range(100_000):
            topic = (self.keep, self.ballast, self.ballast)[i % 3]
            value = b"%d." % i + os.urandom(PIECE)
            answer = produce(self.conn, topic, rb.batch([(None, value)]))
            if answer["error"]:
                break
            assert answer["base_offset"] == len(self.held[topic])
            self.held[topic].append(value)
        assert answer["error"] == STORAGE_ERROR and len(self.held[self.keep]) > 20, (answer, len(self.held[self.keep]))

    def refuses(self):
        """Producers are told, and not hung up on; everybody else is served."""
        for acks in (-1, 1):
            answer = produce(self.conn, self.keep, rb.batch([(None, bytes(PIECE))]), acks=acks)
            assert answer["error"] == STORAGE_ERROR, answer
        self.reads()
        assert metadata(self.conn, [str(self.keep)])["topics"][0]["error"] == 0

    def reads(self):
        for topic, held in self.held.items():
            assert list_offset(self.conn, topic, -1)["offset"] == len(held)
            assert [r[3] for r in read_all(self.conn, topic)] == held, "what was acknowledged is not what is read"

    def administrates(self, name):
        """The room that is kept for the metadata log."""
        made = self.conn.call("CreateTopics", 7, topics=[{"name": name}])["topics"][0]
        assert made["error"] == 0, made
        assert self.conn.call("DeleteTopics", 4, names=[name])["topics"][0]["error"] == 0
        assert producer_id(self.conn) >= 0

    def again(self, how="kill9"):
        getattr(self.broker, how)()
        self.broker.start()
        self.conn = self.c.conn(self.broker)

    def resumes(self, within=15):
        """Without a restart."""
        held = self.held[self.keep]
        value = b"again-%d" % len(held)
        answer = until(lambda: (a := produce(self.conn, self.keep, rb.batch([(None, value)])))["error"] == 0 and a, within, "service")
        assert answer["base_offset"] == len(held), answer
        held.append(value)


def brim(c, kind, mebibytes):
    f = Filled(c, kind, mebibytes)
    f.until_refused()
    f.disk.fill()                                    # not one byte is left
    f.refuses()
    f.administrates("while-full")
    f.again()
    f.refuses()
    f.administrates("after-kill-9")
    f.again("stop")
    f.refuses()
    f.disk.empty()
    f.resumes()                                      # somebody else freed something
    f.disk.fill()
    f.again()
    f.refuses()
    assert f.conn.call("DeleteTopics", 4, names=[f.ballast])["topics"][0]["error"] == 0
    del f.held[f.ballast]
    f.resumes()                                      # what the topic held is free
    f.again()
    f.reads()
    f.again("stop")
    f.reads()
    f.resumes()


@test("T15 BR-061 a file system (tmpfs) without one byte left: a clear retriable error, readers, metadata, creating and deleting topics "
      "go on; kill -9, SIGTERM and starts while full; service resumes without restart when space is freed or a topic deleted; no hole")
def brim_tmpfs(c):
    brim(c, "tmpfs", 20)


@test("T15 BR-061 the same on ext4", full=True)
def brim_ext4(c):
    brim(c, "ext4", 40)


def epoch_of(conn, topic):
    return metadata(conn, [str(topic)])["topics"][0]["partitions"][0]["leader_epoch"]


@test("T15 T16 BR-061 after kill -9 on a full disk raised leader epochs cannot be stored: reads, metadata and offsets go on, producers are "
      "refused, and the epoch rises before the first of them is served again")
def epochs_wait(c):
    everything = ("write times=0 errno=ENOSPC", "create times=0 errno=ENOSPC", "fallocate times=0 errno=ENOSPC")
    for rules in (["write match=metadata.log times=0 errno=ENOSPC", "fallocate times=0 errno=ENOSPC"], everything):
        for then in ("disarm", "kill9", "stop"):
            broker, disk = troubled(c)
            topic = c.topic(broker=broker, write_caching="true")       # its readers may have seen what is gone: the epoch must rise
            conn = c.conn(broker)
            for i in range(3):
                assert produce(conn, topic, rb.batch([(None, b"%d" % i)]))["base_offset"] == i
            epoch = epoch_of(conn, topic)
            broker.kill9()
            disk.arm(*rules)
            broker.start()
            conn = c.conn(broker)
            assert [r[3] for r in read_all(conn, topic)] == [b"0", b"1", b"2"]
            assert list_offset(conn, topic, -1)["offset"] == 3
            for acks in (-1, 1):
                answer = produce(conn, topic, rb.batch([(None, b"no")]), acks=acks)
                assert answer["error"] == STORAGE_ERROR, answer
            assert epoch_of(conn, topic) == epoch
            assert conn.call("CreateTopics", 7, topics=[{"name": "no-room"}])["topics"][0]["error"] == STORAGE_ERROR
            assert "node.epochs_wait" in broker.log_text()
            if then != "disarm":
                getattr(broker, then)()
                disk.disarm()
                broker.start()
                conn = c.conn(broker)
            disk.disarm()
            until(lambda: produce(conn, topic, rb.batch([(None, b"3")]))["error"] == 0, 10, "service")
            batches = rb.batches(fetch(conn, topic, 0)["records"])
            assert [b.leader_epoch for b in batches] == [epoch] * 3 + [epoch + 1], [b.leader_epoch for b in batches]
            assert epoch_of(conn, topic) == epoch + 1
            broker.kill9()
