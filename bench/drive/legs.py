"""run.sh's inside: measures of PERFORMANCE 3, each run on every system in turn, again and again, and put into one table.

A leg = a fresh broker in a fresh directory, warm memory, one generator run (its verdict included), the directory removed.
Legs of one measure are interleaved (A B C A B C ...), so that a slow minute of the machine hits all of them. The ratio is
that of the medians; its range is over the repetitions, each against its own neighbour.
"""
import argparse
import json
import statistics
import sys
import time

import brokers

KB, MB = 1024, 1024 * 1024

# name, what, class, metric, better, generator arguments; depth is swept in "full" where given
MEASURES = {
    "P1-64k": dict(what="produce 1 KB records, 100 partitions, 64 KB batches", cls="written", metric="mb_s",
                   args=["--partitions", 100, "--connections", 4, "--batch-bytes", 64 * KB], depth=8, sweep=(4, 8, 16)),
    "P1-1m": dict(what="the same, 1 MB batches", cls="written", metric="mb_s",
                  args=["--partitions", 100, "--connections", 4, "--batch-bytes", MB], depth=2, sweep=(1, 2, 4)),
    "P1-default": dict(what="P1-64k with acks=1 on a default topic", cls="acks1", metric="mb_s",
                       args=["--partitions", 100, "--connections", 4, "--batch-bytes", 64 * KB], depth=8),
    "P2-64k": dict(what="P1-64k, synced", cls="synced", metric="mb_s",
                   args=["--partitions", 100, "--connections", 4, "--batch-bytes", 64 * KB], depth=32, sweep=(16, 32, 64)),
    "P2-1m": dict(what="P1-1m, synced", cls="synced", metric="mb_s",
                  args=["--partitions", 100, "--connections", 4, "--batch-bytes", MB], depth=4, sweep=(2, 4, 8)),
    "P4-written": dict(what="1 KB, 16 connections, depth 1: p99", cls="written", metric="p99_ms", low=True,
                       args=["--partitions", 16, "--connections", 16, "--batch-bytes", 0], depth=1),
    "P4-synced": dict(what="the same, synced", cls="synced", metric="p99_ms", low=True,
                      args=["--partitions", 16, "--connections", 16, "--batch-bytes", 0], depth=1),
    "P5": dict(what="open loop, 5 k requests/s of ten 1 KB records, 16 partitions: end-to-end p99", cls="synced",
               metric="e2e_p99_ms", low=True,
               args=["--mode", "e2e", "--rate", 5000, "--partitions", 16, "--connections", 16, "--fetch-connections", 2,
                     "--batch-bytes", 10420], depth=64),
    "P6": dict(what="1 KB requests, 256 connections, depth 1", cls="written", metric="requests_s",
               args=["--partitions", 100, "--connections", 256, "--batch-bytes", 0], depth=1),
    "P7-catchup": dict(what="fetch what lies there (1 GB, 16 partitions), 2 connections", cls="written",
                       metric="read_mb_s", catchup=True,
                       args=["--partitions", 16, "--fetch-connections", 2], depth=4),
    "P7-tail": dict(what="produce 64 KB batches and read them at the tail", cls="written", metric="read_mb_s",
                    args=["--mode", "e2e", "--partitions", 16, "--connections", 2, "--fetch-connections", 2,
                          "--batch-bytes", 64 * KB], depth=4),
    "P8": dict(what="P1-64k with 10,000 partitions", cls="written", metric="mb_s",
               args=["--partitions", 10000, "--connections", 4, "--batch-bytes", 64 * KB], depth=8),
    "P8-synced": dict(what="P2-64k with 10,000 partitions", cls="synced", metric="mb_s",
                      args=["--partitions", 10000, "--connections", 4, "--batch-bytes", 64 * KB], depth=32),
    "P13-16k": dict(what="16 KB batches: broker CPU-seconds per GB", cls="written", metric="broker_cpu_s_gb", low=True,
                    args=["--partitions", 100, "--connections", 4, "--batch-bytes", 16 * KB], depth=16),
}
QUICK = ["P1-64k", "P1-1m", "P2-64k", "P4-written", "P4-synced", "P6", "P7-catchup", "P7-tail"]
SYSTEMS = ["perigee", "stub-fresh", "stub-recycled", "kafka"]
ALSO = ["p50_ms", "p99_ms", "e2e_p50_ms", "e2e_p999_ms", "broker_cpu_s_gb", "broker_cpu", "gen_cpu", "broker_peak_mb"]


def broker_for(system, m):
    if system.startswith("stub"):
        sync = "thread" if m["cls"] == "synced" else "none"
        return brokers.Broker("stub", files=system[5:], sync=sync)
    return brokers.Broker(system)


def class_args(system, cls):
    """acks and topic settings of a durability class, in each system's words."""
    if cls == "synced":
        return ["--acks", -1, *(["--config", "flush.messages=1"] if system == "kafka" else [])]
    return ["--acks", 1, *(["--config", "write.caching=true"] if system == "perigee" and cls == "written" else [])]


def leg(system, m, o, depth):
    """One measurement; a dict of the generator's figures."""
    brokers.warm(o.warm_gb)
    verify = [] if system == "stub-recycled" or o.no_verify else ["--verify"]
    common = [*m["args"], *class_args(system, m["cls"]), "--depth", depth]
    window = ["--warmup", o.warmup, "--duration", o.duration]
    with broker_for(system, m) as b:
        if m.get("catchup"):
            brokers.gen(b, *common, "--create", "--warmup", 0, "--duration", 120, "--total-mb", o.catchup_mb, *verify)
            return brokers.gen(b, *m["args"], "--mode", "fetch", *window)
        r = brokers.gen(b, *common, "--create", *window, *verify, "--total-mb", o.total_mb)
        if r["seconds"] < 0.9 * o.duration:
            raise RuntimeError(f"--total-mb {o.total_mb} was reached after {r['seconds']} s of the window: no figure")
        return r


def best_depth(system, m, o):
    if not (o.sweep and m.get("sweep")):
        return m["depth"]
    quick = argparse.Namespace(**{**vars(o), "warmup": 1, "duration": 3, "no_verify": True})
    tried = {d: leg(system, m, quick, d)[m["metric"]] for d in m["sweep"]}
    return max(tried, key=tried.get)


def run_measure(name, systems, o, sink):
    m = MEASURES[name]
    got = {s: [] for s in systems}
    failed = {}
    depth = {s: best_depth(s, m, o) for s in systems}
    for rep in range(o.reps):
        for s in systems:
            if s in failed:
                continue
            try:
                r = leg(s, m, o, depth[s])
            except (RuntimeError, OSError) as e:
                failed[s] = str(e).splitlines()[0][:300]
                print(f"# {name} {s}: {failed[s]}", file=sys.stderr)
                continue
            r.update(measure=name, system=s, rep=rep, depth=depth[s])
            sink.write(json.dumps(r) + "\n")
            sink.flush()
            got[s].append(r)
            print(f"# {name} {s} {rep}: {m['metric']}={r[m['metric']]} verify={r['verify']}", file=sys.stderr)
    return m, got, failed


def number(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.2f}" if x >= 1 else f"{x:.3f}"


def spread(values):
    return f"{number(statistics.median(values))} ({number(min(values))}–{number(max(values))})"


def ratio(ours, theirs, metric):
    """Ratio of medians, and the range of the ratios of neighbours."""
    a, b = [r[metric] for r in ours], [r[metric] for r in theirs]
    each = [x / y for x, y in zip(a, b) if y]
    if not each or not statistics.median(b):
        return "–"
    return f"{statistics.median(a) / statistics.median(b):.2f} ({min(each):.2f}–{max(each):.2f})"


def table(name, m, got, failed, systems):
    metric = m["metric"]
    also = [k for k in ALSO if k != metric and any(r[k] for rs in got.values() for r in rs)]
    rows = [f"### {name}: {m['what']} ({m['cls']}; {metric}, {'lower' if m.get('low') else 'higher'} is better)", ""]
    rows.append("| system | " + " | ".join([metric, "depth", *also, "verified"]) + " |")
    rows.append("|---" * (len(also) + 4) + "|")
    for s in systems:
        if s in failed or not got[s]:
            rows.append(f"| {s} | failed: {failed.get(s, 'no run')} |" + " |" * (len(also) + 2))
            continue
        cells = [number(statistics.median(r[k] for r in got[s])) for k in also]
        verified = "/".join(sorted({r["verify"] for r in got[s]}))
        rows.append("| " + " | ".join([s, spread([r[metric] for r in got[s]]), str(got[s][0]["depth"]), *cells, verified]) + " |")
    first = systems[0]
    rows.append("")
    for s in systems[1:]:
        if got[s] and got[first]:
            rows.append(f"- {first} / {s}: **{ratio(got[first], got[s], metric)}**; CPU-s/GB "
                        f"{ratio(got[first], got[s], 'broker_cpu_s_gb')}")
    for s in systems:
        if not m.get("low") and "--rate" not in m["args"] and got[s] and statistics.median(r["gen_cpu"] for r in got[s]) > 0.95:
            rows.append(f"- {s}: the generator's core was full; the figure is a lower bound")
    return "\n".join(rows) + "\n"


def choose_systems(o):
    if o.systems:
        return o.systems.split(",")
    have = [s for s in SYSTEMS if s.startswith("stub")]
    if brokers.have_perigee():
        have.insert(0, "perigee")
    else:
        print("SKIPPED perigee: it is not built (scripts/build.sh release)", file=sys.stderr)
    if brokers.have_kafka():
        have.append("kafka")
    else:
        print("SKIPPED kafka: bench/kafka.sh install fetches it", file=sys.stderr)
    return have


def parse():
    p = argparse.ArgumentParser(prog="bench/run.sh", description="ratios against the stubs and, if installed, Kafka")
    p.add_argument("kind", choices=["quick", "full"])
    p.add_argument("--only", help="measures, comma separated: " + " ".join(MEASURES))
    p.add_argument("--systems", help="comma separated, the first is compared with the others: " + " ".join(SYSTEMS))
    p.add_argument("--reps", type=int)
    p.add_argument("--warmup", type=float)
    p.add_argument("--duration", type=float)
    p.add_argument("--warm-gb", type=int, default=4, help="memory touched before each leg")
    p.add_argument("--catchup-mb", type=int, default=1024)
    p.add_argument("--total-mb", type=int, default=32768, help="ceiling of one leg's data")
    p.add_argument("--no-verify", action="store_true")
    p.add_argument("--sweep", action="store_true", help="find each system's best depth first (full does)")
    p.add_argument("--out", help="write the table here as well")
    p.add_argument("--raw", help="one JSON line per leg (default: beside the build)")
    o = p.parse_args()
    quick = o.kind == "quick"
    o.reps = o.reps or (3 if quick else 5)
    o.warmup = (1 if quick else 5) if o.warmup is None else o.warmup
    o.duration = (3 if quick else 12) if o.duration is None else o.duration
    o.sweep = o.sweep or not quick
    return o


def main():
    o = parse()
    systems = choose_systems(o)
    names = o.only.split(",") if o.only else QUICK if o.kind == "quick" else list(MEASURES)
    raw = o.raw or brokers.TOOLS / time.strftime("legs-%Y%m%d-%H%M%S.jsonl")
    text = [f"Command: `bench/run.sh {' '.join(sys.argv[1:])}`", f"Machine: {brokers.machine()}; broker on core 0, generator "
            f"on core 1; {o.reps} interleaved repetitions, {o.warmup:g} s warm-up, {o.duration:g} s measured, medians (min–max).", ""]
    bad = False
    with open(raw, "a", encoding="utf-8") as sink:
        for name in names:
            m, got, failed = run_measure(name, systems, o, sink)
            text.append(table(name, m, got, failed, systems))
            print(text[-1], flush=True)
            bad = bad or bool(failed)
    if o.out:
        with open(o.out, "w", encoding="utf-8") as f:
            f.write("\n".join(text))
    print(f"# raw figures: {raw}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
