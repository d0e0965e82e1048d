"""rss.sh's inside: what a broker weighs and how fast it starts (P9 to P12, P14, P15).

P9   RSS at rest, empty, with the Kafka, native and admin listeners and no TLS
P11  spawn to first ApiVersions reply, empty directory, warm (binary and libraries in the page cache)
P10  RSS at rest with many partitions (default 10,000)
P12  start with them: spawn to the end offsets of all, after a clean stop and after kill -9 under load
P14  CPU of 1,000 idle connections; P15 memory of each
"""
import argparse
import json
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import brokers


def commands(system, where):
    """The command bench_start spawns; {port} is its."""
    if system == "perigee":
        return [brokers.PERIGEE, "serve", "--data-dir", where / "data", "--set", "listeners=PLAINTEXT://127.0.0.1:{port}",
                "--set", "native.listeners=PLAINTEXT://127.0.0.1:0", "--set", "admin.listeners=PLAINTEXT://127.0.0.1:0"]
    if system == "kafka":
        return [brokers.BENCH / "kafka.sh", "serve", where, "{port}"]
    return [brokers.TOOLS / "ideal_stub", "--dir", where / "data", "--port", "{port}"]


def start(system, where, *args):
    if system == "kafka" and not (where / "d").exists():
        subprocess.run([brokers.BENCH / "kafka.sh", "prepare", where], check=True)
    cmd = [brokers.TOOLS / "bench_start", "--core", "0", "--timeout", "180", "--log", where / "log", *args, "--",
           *commands(system, where)]
    p = subprocess.run([str(c) for c in cmd], capture_output=True, text=True, check=False)
    if p.returncode != 0:
        raise RuntimeError(f"{p.stderr.strip()}\n{(where / 'log').read_text()[-1000:] if (where / 'log').exists() else ''}")
    return json.loads(p.stdout)


class Place:
    """A directory that is removed at the end."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir=brokers.os.environ.get("BENCH_DIR")))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


def empty_starts(system, n, rest):
    """P11 over n starts after one that warms, P9 from a last one that rests."""
    hello = []
    for i in range(n + 1):
        with Place() as where:
            r = start(system, where)
            if i > 0:
                hello.append(r["hello_ms"])
    with Place() as where:
        r = start(system, where, "--rest", str(rest))
    return {"P9_rss_mb": r["rss_mb"], "P9_peak_mb": r["peak_mb"], "idle_cpu_percent": r["idle_cpu_percent"],
            "stop_ms": r["stop_ms"], "exit": r["exit"],
            "P11_ms": {"median": statistics.median(hello), "min": min(hello), "max": max(hello), "n": n}}


def cached(system):
    return ["--config", "write.caching=true"] if system == "perigee" else []


def many_partitions(system, n, rest, tail_mb):
    """P10 and P12. One record batch in each partition, so that every directory exists."""
    topic = ["--topic", "many", "--partitions", str(n)]
    with Place() as where:
        with brokers.Broker(system, keep=where) as b:
            brokers.gen(b, *topic, "--create", *cached(system), "--batch-bytes", 0, "--record-bytes", 200, "--parts-per-request",
                        min(100, n), "--warmup", 0, "--duration", 120, "--total-mb", 1 + n * 300 // 1048576, "--verify")
        clean = start(system, where, "--rest", str(rest), *topic)
        b = brokers.Broker(system, keep=where).start()
        load = brokers.gen(b, *topic, "--connections", 4, "--depth", 8, "--batch-bytes", 16384, "--warmup", 0, "--duration", 120,
                           "--total-mb", tail_mb)
        b.stop(signal.SIGKILL)
        crashed = start(system, where, *topic)
        again = start(system, where, *topic)
    return {"partitions": n, "P10_rss_mb": clean["rss_mb"], "P10_peak_mb": clean["peak_mb"],
            "P12_clean_hello_ms": clean["hello_ms"], "P12_clean_offsets_ms": clean["offsets_ms"],
            "P12_killed_offsets_ms": crashed["offsets_ms"], "P12_written_before_kill_mb": round(load["mb_s"] * load["seconds"]),
            "P12_after_that_offsets_ms": again["offsets_ms"], "stop_ms": clean["stop_ms"]}


def idle_connections(system, n, rest):
    with brokers.Broker(system) as b:
        time.sleep(1)
        before = brokers.gen(b, "--mode", "idle", "--connections", 1, "--duration", 1)["broker_rss_bytes"]
        r = brokers.gen(b, "--mode", "idle", "--connections", n, "--duration", rest)
    return {"connections": n, "P14_cpu_percent": r["broker_cpu_percent"],
            "P15_rss_bytes_per_connection": round((r["broker_rss_bytes"] - before) / n)}


def main():
    p = argparse.ArgumentParser(prog="bench/rss.sh")
    p.add_argument("--system", default="perigee", choices=["perigee", "kafka", "stub"])
    p.add_argument("--only", default="start,many,idle", help="comma separated: start many idle")
    p.add_argument("--starts", type=int, default=10)
    p.add_argument("--partitions", type=int, default=10000)
    p.add_argument("--rest", type=int, default=5, help="seconds before memory is read")
    p.add_argument("--tail-mb", type=int, default=512, help="written before kill -9")
    o = p.parse_args()
    if o.system == "perigee" and not brokers.have_perigee():
        print("SKIPPED rss: perigee is not built (scripts/build.sh release)")
        return 0
    what = o.only.split(",")
    out = {"system": o.system, "machine": brokers.machine()}
    if "start" in what:
        out["start"] = empty_starts(o.system, o.starts, o.rest)
    if "many" in what and o.system != "stub":  # the stub forgets everything when it stops
        out["many"] = many_partitions(o.system, o.partitions, o.rest, o.tail_mb)
    if "idle" in what:
        out["idle"] = idle_connections(o.system, 1000, max(o.rest, 10))
    print(json.dumps(out, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
