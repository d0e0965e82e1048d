"""soak.sh's inside: one broker, half of its own P1 load, for many minutes; RSS must stay flat and nothing may be lost.

The data of ten minutes would fill the disk, so the load goes topic by topic: while one is written, the one before is read
back by a second generator (every CRC, count and sum against what was acknowledged) and deleted. The broker never rests.
"""
import argparse
import json
import statistics
import sys
import threading
import time

import brokers

LOAD = ["--partitions", 100, "--connections", 4, "--batch-bytes", 65536]


def rss_mb(pid):
    for line in open(f"/proc/{pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


class Sampler(threading.Thread):
    def __init__(self, pid, every_s):
        super().__init__(daemon=True)
        self.pid, self.every_s, self.samples, self.stop = pid, every_s, [], threading.Event()

    def run(self):
        start = time.monotonic()
        while not self.stop.wait(self.every_s):
            try:
                self.samples.append((time.monotonic() - start, rss_mb(self.pid)))
            except OSError:
                return


def settings(kind):
    return ["--acks", 1, *(["--config", "write.caching=true"] if kind == "perigee" else [])]


def check_topic(b, topic, wrote, problems):
    """Reads a finished topic back beside the running load, compares, deletes it."""
    seen = brokers.gen(b, "--topic", topic, "--partitions", 100, "--mode", "verify", "--delete", check=False)
    for ours, theirs in (("acked_records", "verify_records"), ("acked_crc_sum", "verify_crc_sum")):
        if wrote.get(ours) != seen.get(theirs):
            problems.append(f"{topic}: {ours} {wrote.get(ours)}, read {seen.get(theirs)}")
    if seen["exit"]:
        problems.append(f"{topic}: exit {seen['exit']} {seen['why']}")


def run_load(b, kind, o, requests_s, problems):
    """Topic after topic until the time is up; returns the generator's lines, in order."""
    lines, checker = [], None
    end, k = time.monotonic() + o.minutes * 60, 0
    while time.monotonic() < end and not problems:
        seconds = min(o.slice, max(5, end - time.monotonic()))
        wrote = brokers.gen(b, "--topic", f"soak-{k}", "--create", *LOAD, "--depth", 16, *settings(kind), "--rate",
                            f"{requests_s:.1f}", "--warmup", 0, "--duration", f"{seconds:.1f}", check=False)
        if checker:
            checker.join()
        if wrote["exit"]:
            problems.append(f"soak-{k}: exit {wrote['exit']} {wrote['why']}")
            break
        lines.append(wrote)
        checker = threading.Thread(target=check_topic, args=(b, f"soak-{k}", wrote, problems))
        checker.start()
        k += 1
    if checker:
        checker.join()
    return lines


def capacity(b, kind):
    r = brokers.gen(b, "--topic", "capacity", "--create", *LOAD, "--depth", 8, *settings(kind), "--warmup", 2, "--duration", 8,
                    "--verify", "--delete")
    return r["mb_s"], r["mb_s"] * 1e6 / r["batch_size"]


def verdict(o, samples, lines, problems, peak):
    if not lines or not samples:
        return {"nothing_lost": False, "problems": problems or ["too short"]}, False
    settled = [r for t, r in samples if t >= min(60, o.minutes * 60 / 3)]
    middle = statistics.median(settled)
    low, high = min(settled), max(settled)
    flat = middle * 0.95 <= low and high <= middle * 1.05
    late = [l["p999_ms"] for l in lines]
    out = {
        "minutes": o.minutes, "p1_mb_s": peak, "load_mb_s": round(statistics.mean(l["mb_s"] for l in lines), 1),
        "gb": round(sum(l["acked_records"] for l in lines) * 1034 / 1e9, 1), "topics": len(lines),
        "rss_mb": {"first": round(samples[0][1], 1), "median": round(middle, 1), "min": round(low, 1), "max": round(high, 1),
                   "last": round(samples[-1][1], 1)},
        "p999_ms": {"first": late[0], "median": statistics.median(late), "worst": max(late)},
        "rss_flat_5_percent": flat, "nothing_lost": not problems, "problems": problems[:10],
    }
    return out, flat and not problems


def main():
    p = argparse.ArgumentParser(prog="bench/soak.sh")
    p.add_argument("minutes", type=float)
    p.add_argument("--system", default="perigee", choices=["perigee", "kafka"])
    p.add_argument("--slice", type=float, default=20, help="seconds of load per topic")
    p.add_argument("--share", type=float, default=0.5, help="of the P1 throughput measured first")
    p.add_argument("--rate-mb", type=float, help="this load instead of a share of P1")
    p.add_argument("--raw", help="RSS samples, one JSON line each")
    o = p.parse_args()
    kind = o.system
    if kind == "perigee" and not brokers.have_perigee():
        print("SKIPPED soak: perigee is not built (scripts/build.sh release)")
        return 0
    brokers.warm()
    problems = []
    with brokers.Broker(kind) as b:
        peak, requests_s = capacity(b, kind)
        if o.rate_mb:
            requests_s *= o.rate_mb / peak / o.share
        sampler = Sampler(b.pid, max(1, min(10, o.minutes * 2)))
        sampler.start()
        lines = run_load(b, kind, o, requests_s * o.share, problems)
        sampler.stop.set()
        sampler.join()
        out, good = verdict(o, sampler.samples, lines, problems, peak)
    if o.raw:
        with open(o.raw, "w", encoding="utf-8") as f:
            f.writelines(json.dumps({"s": round(t, 1), "rss_mb": round(r, 2)}) + "\n" for t, r in sampler.samples)
    out["system"], out["machine"] = o.system, brokers.machine()
    print(json.dumps(out, indent=1))
    print("soak: " + ("good: RSS within 5 %, everything acknowledged was read back" if good else "NOT good"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
