"""The shim and its ledger, proved on a small program (this one) before any broker is judged with them."""
import os
import random
import subprocess
import sys
import time

if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from faults import ledger                            # noqa: E402
from faults.disk import Disk                         # noqa: E402


def victim(root, seed, ops):
    """Random work on files, printing after each sync what must be durable then."""
    rng, files = random.Random(seed), {}
    os.makedirs(root, exist_ok=True)
    at = os.open(root, os.O_RDONLY)
    for i in range(ops):
        what = rng.choice(("create", "write", "write", "write", "append", "cut", "sync", "dir", "rename", "unlink", "mkdir"))
        name = rng.choice(list(files)) if files else None
        if what == "create" or name is None:
            name = rng.choice(("", "sub/")) + f"f{i}"
            os.makedirs(os.path.join(root, os.path.dirname(name)), exist_ok=True)
            files[name] = os.open(name, os.O_RDWR | os.O_CREAT, 0o644, dir_fd=at)
        elif what == "write":
            os.pwritev(files[name], [rng.randbytes(rng.randint(1, 9000)), b"tail"], rng.randint(0, 20000))
        elif what == "append":
            os.lseek(files[name], 0, os.SEEK_END)
            os.write(files[name], rng.randbytes(100))
        elif what == "cut":
            os.ftruncate(files[name], rng.randint(0, 15000))
        elif what == "sync":
            os.fdatasync(files[name])
        elif what == "dir":
            fd = os.open(os.path.dirname(name) or ".", os.O_RDONLY, dir_fd=at)
            os.fsync(fd)
            os.close(fd)
        elif what == "rename":
            to = os.path.join(os.path.dirname(name), f"r{i}")
            os.rename(name, to, src_dir_fd=at, dst_dir_fd=at)
            files[to] = files.pop(name)
        elif what == "unlink":
            os.unlink(name, dir_fd=at)
            os.close(files.pop(name))


def run_victim(disk, seed, ops):
    subprocess.run([sys.executable, os.path.abspath(__file__), "victim", disk.data, str(seed), str(ops)],
                   env={**os.environ, **disk.env}, check=True)


def tree(path):
    out = {}
    for folder, folders, files in os.walk(path):
        for name in folders:
            out[os.path.relpath(os.path.join(folder, name), path)] = None
        for name in files:
            with open(os.path.join(folder, name), "rb") as f:
                out[os.path.relpath(os.path.join(folder, name), path)] = f.read()
    return out


def check_ledger(seed):
    """The ledger knows every byte, and `everything` is the same tree; `nothing` differs as soon as something is unsynced."""
    disk, rng = Disk(contents=True), random.Random(seed)
    try:
        run_victim(disk, seed, 200)
        disk.ledger.catch_up()
        assert disk.ledger.reconcile() == 0, f"seed {seed}: the ledger differs from the files"
        real = tree(disk.data)
        for mood in ledger.MOODS:
            target = os.path.join(disk.home, mood)
            disk.ledger.image(target, rng, mood)
            assert (tree(target) == real) == (mood == "everything"), f"seed {seed} mood {mood}"
        names, bytes_ = disk.ledger.unsynced()
        assert names + bytes_ > 0
        disk.cut_power(rng, "nothing")
        assert disk.ledger.unsynced() == (0, 0) and tree(disk.data) == tree(os.path.join(disk.home, "nothing"))
    finally:
        disk.close()


def script(disk, text):
    """Python statements in a process on the troublesome disk; what they print."""
    head = f"import os\nd={disk.data!r}\nos.makedirs(d, exist_ok=True)\nfd=os.open(d+'/f', os.O_RDWR|os.O_CREAT)\n"
    tail = "\ndef tried(f, *a):\n    try: return f(*a)\n    except OSError as e: return -e.errno\n"
    return subprocess.run([sys.executable, "-c", head + tail + text], env={**os.environ, **disk.env}, check=True,
                          stdout=subprocess.PIPE, text=True).stdout


RULES = [
    ("write at=150 errno=EIO", "print([tried(os.pwrite, fd, b'x'*100, i) for i in (0, 100, 150, 150)])", "[100, 50, -5, 100]"),
    ("write at=150 short", "print([tried(os.pwrite, fd, b'x'*100, i) for i in (0, 100, 150)])", "[100, 50, 100]"),
    ("write match=/f skip=1 times=2 errno=EINTR", "print(os.pwrite(fd, b'x', 0)); print(tried(lambda: os.pwrite(fd, b'x', 0)))", "1\n1"),
    ("sync times=0 errno=EIO", "print([tried(os.fdatasync, fd) for _ in range(3)])", "[-5, -5, -5]"),
    ("statvfs free=8192", "print(os.fstatvfs(fd).f_bavail <= 2, os.fstatvfs(fd).f_bavail > 2)", "True True"),
    ("create match=/g errno=ENOSPC", "f = lambda: tried(os.open, d+'/g', os.O_CREAT|os.O_RDWR)\nprint(f(), f() > 0)", "-28 True"),
    ("rename errno=EIO", "print(tried(os.rename, d+'/f', d+'/h'), os.path.exists(d+'/f'))", "-5 True"),
    ("sync delay=80", "import time; t=time.monotonic(); os.fsync(fd); print(time.monotonic()-t >= .08)", "True"),
    ("read flip", "os.pwrite(fd, b'\\0'*10, 0); print(sum(os.pread(fd, 10, 0)), sum(os.pread(fd, 10, 0)))", "16 0"),
    ("write match=other errno=EIO", "print(os.pwrite(fd, b'x', 0))", "1"),
]


def check_rules():
    for rule, text, want in RULES:
        disk = Disk()
        try:
            disk.arm(rule)
            got = script(disk, text).strip()
            assert got == want, f"{rule}: {got!r}, expected {want!r}"
        finally:
            disk.close()


def check_failed_sync():
    """A failed sync dooms what it covered: a later good one does not bring it back. And a lie makes nothing durable."""
    for rule, kept in (("sync match=/f errno=EIO", b"\0" * 5 + b"later"), ("sync match=/f lie", b"firstlater")):
        disk = Disk(contents=True)
        try:
            disk.arm(rule)
            script(disk, "s=os.open(d, os.O_RDONLY); os.fsync(s); os.pwrite(fd, b'first', 0); tried(os.fdatasync, fd)\n"
                         "os.pwrite(fd, b'later', 5); os.fdatasync(fd)")
            disk.cut_power(random.Random(1), "nothing")
            assert tree(disk.data) == {"f": kept}, tree(disk.data)
        finally:
            disk.close()


def check_clock():
    """The wall clock is off by what was said, also under a running process; the other clocks are not."""
    disk = Disk()
    try:
        disk.wall_shift(-7_200_000)
        got = script(disk, "import struct, time\na = time.time(), time.monotonic()\n"
                           f"open({disk.clock!r}, 'r+b').write(struct.pack('=q', 3_600_000))\n"
                           "print(round((time.time() - a[0]) / 60), round((time.monotonic() - a[1]) / 60), a[0])").split()
        assert got[:2] == ["180", "0"] and abs(float(got[2]) + 7200 - time.time()) < 60, got
    finally:
        disk.close()


def prove():
    check_rules()
    check_clock()
    check_failed_sync()
    for seed in range(3):
        check_ledger(seed)
    print("# shim and ledger proved")


if __name__ == "__main__":
    if sys.argv[1:2] == ["victim"]:
        victim(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    else:
        prove()
