#!/usr/bin/env bash
# Memory of the real process (build/release/perigee), measured as resident size: 10,000 partitions that hold one batch of 200 bytes each,
# cut from frames of 1 MB, cost at most 32 MB beyond the idle broker; with shards=1 and shards=2. tests/unit/kafka/test_named.c judges the
# same by allocated bytes.
set -euo pipefail
cd "$(dirname "$0")/.."
binary=${COMPAT_PERIGEE:-build/release/perigee}
[ -x "$binary" ] || {
    echo "SKIPPED budgets: $binary is not built (scripts/build.sh release)"
    exit 0
}
COMPAT_PERIGEE=$(realpath "$binary") PYTHONPATH=compat-tests PYTHONDONTWRITEBYTECODE=1 exec python3 - <<'PY'
import sys

from raw import batch, broker, wire

PARTITIONS, FRAME, LIMIT_KIB = 10000, 5000, 32 * 1024


def ok(code, what):
    if code:
        sys.exit(f"{what}: error {code}")


def measure(shards):
    with broker.Broker("perigee", shards=shards) as b:
        idle = b.rss_kib()
        with wire.Conn(b.addr, timeout=120) as c:
            made = c.call("CreateTopics", 7, topics=[dict(name="t", partitions=PARTITIONS, replication=1)], timeout_ms=60000)
            ok(made["topics"][0]["error"], "create")
            one = batch.batch([(b"k", b"v" * 131)])
            assert 195 <= len(one) <= 205, len(one)
            for at in range(0, PARTITIONS, FRAME):
                parts = [dict(index=i, records=one) for i in range(at, at + FRAME)]
                got = c.call("Produce", 9, acks=-1, timeout_ms=60000, topics=[dict(name="t", partitions=parts)])
                for p in got["topics"][0]["partitions"]:
                    ok(p["error"], f"produce to {p['index']}")
            full = b.rss_kib()
        print(f"RESULT 10,000 partitions of one 200-byte batch, shards={shards}: idle {idle} KiB, then {full} KiB (limit +{LIMIT_KIB})")
        return full - idle <= LIMIT_KIB


sys.exit(0 if all([measure(1), measure(2)]) else 1)
PY
