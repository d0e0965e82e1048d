#!/usr/bin/env bash
# One load on the real process under the thread sanitizer, shards=2: produce, fetch, idempotence, topics coming and going, clients cut off, a clean stop.
# Also the unit tests of rooms with threads.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/build.sh tsan perigee
scripts/build.sh release bench_gen
work=$(mktemp -d)
suppressions="suppressions=$PWD/tests/tsan.supp"
export TSAN_OPTIONS="halt_on_error=0 exitcode=66 log_path=$work/tsan $suppressions"
build/tsan/perigee serve --data-dir "$work/data" --set listeners=PLAINTEXT://127.0.0.1:0 --set shards=2 --ready-file "$work/ready" 2>"$work/log" &
pid=$!
trap 'kill -9 $pid 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 300); do
    [ -s "$work/ready" ] && break
    kill -0 $pid || { cat "$work/log"; exit 1; }
    read -r -t 0.1 <> <(:) || true
done
at=$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["kafka"][0])' "$work/ready")
gen=build/release/bench/gen
export TSAN_OPTIONS=$suppressions
"$gen" --broker "$at" --topic a --create --partitions 12 --connections 4 --depth 4 --acks -1 --warmup 0 --duration 4 --verify
"$gen" --broker "$at" --topic b --create --partitions 12 --connections 4 --depth 4 --acks -1 --idempotent --warmup 0 --duration 3 --verify
"$gen" --broker "$at" --topic c --create --partitions 6 --connections 2 --depth 1 --batch-bytes 0 --acks -1 --mode e2e --rate 300 --fetch-connections 2 --warmup 0 --duration 4
for i in $(seq 20); do
    "$gen" --broker "$at" --topic "t$i" --mode nothing --create --partitions 3 --delete
done
for i in 1 2 3; do                                 # clients that vanish
    timeout --signal=KILL 1 "$gen" --broker "$at" --topic a --mode e2e --rate 500 --fetch-connections 2 --partitions 12 --connections 4 --depth 4 --acks 1 --duration 60 || true
done
kill -TERM $pid
code=0
wait $pid || code=$?
trap 'rm -rf "$work"' EXIT
if compgen -G "$work/tsan*" >/dev/null; then
    cat "$work"/tsan*
    echo "the thread sanitizer found races"
    exit 1
fi
[ $code -eq 0 ] || { tail -20 "$work/log"; echo "exit code $code"; exit 1; }
scripts/build.sh tsan base_test_chunk port_uv_test_contract
build/tsan/tests/unit/base_test_chunk
(cd build/tsan/tests/unit && ./port_uv_test_contract)
echo "RESULT no race in the load nor in the hand-off tests"
