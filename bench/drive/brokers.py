"""The brokers a bench can run against, started one at a time on core 0, and the generator, on core 1.

perigee   build/release/perigee (or $PERIGEE)
stub      the ideal stub, with files "fresh" or "recycled" and a sync mode
kafka     Apache Kafka, if bench/kafka.sh has its jars
"""
import json
import mmap
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

BENCH = pathlib.Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
PERIGEE = pathlib.Path(os.environ.get("PERIGEE", ROOT / "build/release/perigee"))


def tools():
    """Where the bench programs are: beside perigee, or built here alone."""
    for place in (os.environ.get("BENCH_BUILD"), ROOT / "build/release/bench"):
        if place and (pathlib.Path(place) / "gen").exists():
            return pathlib.Path(place)
    out = ROOT / "build/bench"
    subprocess.run(["cmake", "-S", BENCH, "-B", out, "-G", "Ninja"], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", out], check=True, stdout=subprocess.DEVNULL)
    return out


TOOLS = tools()


def pin(core):
    return ["taskset", "-c", str(core)] if (os.cpu_count() or 1) > 1 else []


def have_perigee():
    return PERIGEE.exists()


def have_kafka():
    return subprocess.run([BENCH / "kafka.sh", "ready"], check=False, stderr=subprocess.DEVNULL).returncode == 0


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port, proc, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if proc.poll() is not None:
            raise RuntimeError(f"the broker exited with {proc.returncode}")
        with socket.socket() as s:
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError("the broker does not listen")


class Broker:
    """One running broker in a directory of its own; a context manager that removes both."""

    def __init__(self, kind, files="fresh", sync="none", ring_mb=1024, keep=None, settings=()):
        self.kind, self.files, self.sync, self.ring_mb = kind, files, sync, ring_mb
        self.settings = settings
        self.own = keep is None
        self.dir = pathlib.Path(keep or tempfile.mkdtemp(prefix="bench-", dir=os.environ.get("BENCH_DIR")))
        self.proc = None

    def command(self, port):
        if self.kind == "perigee":
            extra = [x for s in self.settings for x in ("--set", s)]
            return [PERIGEE, "serve", "--data-dir", self.dir / "data", "--set", f"listeners=PLAINTEXT://127.0.0.1:{port}",
                    *extra]
        if self.kind == "kafka":
            return [BENCH / "kafka.sh", "serve", self.dir, str(port)]
        return [TOOLS / "ideal_stub", "--dir", self.dir / "data", "--files", self.files, "--sync", self.sync,
                "--ring-mb", str(self.ring_mb), "--port", str(port)]

    def start(self):
        log = open(self.dir / "log", "ab")
        if self.kind == "kafka":
            if not (self.dir / "d").exists():
                subprocess.run([BENCH / "kafka.sh", "prepare", self.dir], check=True)
            port, extra = free_port(), []
        else:
            port, extra = 0, ["--ready-file", self.dir / "ready"]
            (self.dir / "ready").unlink(missing_ok=True)
        self.proc = subprocess.Popen([*pin(0), *map(str, self.command(port)), *map(str, extra)], stdout=log, stderr=log)
        if self.kind == "kafka":
            wait_port(port, self.proc, 120)
            self.address = f"127.0.0.1:{port}"
        else:
            self.address = self.wait_ready()
        return self

    def wait_ready(self):
        end = time.monotonic() + 120
        while not (self.dir / "ready").exists():
            if self.proc.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{self.kind} did not start:\n" + (self.dir / "log").read_text()[-2000:])
            time.sleep(0.01)
        return json.loads((self.dir / "ready").read_text())["kafka"][0]

    @property
    def pid(self):
        return self.proc.pid

    def stop(self, how=signal.SIGTERM):
        if self.proc and self.proc.poll() is None:
            self.proc.send_signal(how)
            try:
                self.proc.wait(120)
            except subprocess.TimeoutExpired:
                self.proc.kill()
                self.proc.wait()
        self.proc = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()
        if self.own:
            shutil.rmtree(self.dir, ignore_errors=True)


def gen(broker, *args, timeout=3600, check=True):
    """Runs the generator on core 1; returns its JSON, with "exit" and "why" added."""
    cmd = [*pin(1), TOOLS / "gen", "--broker", broker.address, "--broker-pid", broker.pid, *args]
    p = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, timeout=timeout, check=False)
    lines = [l for l in p.stdout.splitlines() if l.startswith("{")]
    out = json.loads(lines[-1]) if lines else {}
    out.update(exit=p.returncode, why=p.stderr.strip()[-500:])
    if check and p.returncode != 0:
        raise RuntimeError(f"gen {' '.join(map(str, args))}: exit {p.returncode}: {out['why']}\n{p.stdout[-500:]}")
    return out


def warm(gigabytes=4):
    """Touches and frees memory: the first touch of a guest page is slow and is not what is measured. Then settles the disk."""
    os.sync()
    m = mmap.mmap(-1, gigabytes << 30)
    for at in range(0, gigabytes << 30, 4096):
        m[at] = 1
    m.close()


def machine():
    """One line of facts for a result file; no host name, no path."""
    model = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo") if l.startswith("model name")), "?")
    mem = int(open("/proc/meminfo").readline().split()[1]) // 1048576
    fs = subprocess.run(["df", "--output=fstype", os.environ.get("BENCH_DIR", tempfile.gettempdir())], capture_output=True,
                        text=True, check=False).stdout.split()[-1]
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                            check=False).stdout.strip()
    return f"{os.cpu_count()} cores ({model}), {mem} GiB, Linux {os.uname().release.split('-')[0]}, {fs}, commit {commit}"
