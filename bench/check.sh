#!/usr/bin/env bash
# Do the bench tools tell the truth? Generator against the stub in each mode, everything read back; then a stub that loses,
# doubles or spoils batches, which the generator must notice. About ten seconds; a few MB each.
#   bench/check.sh [DIRECTORY OF gen AND ideal_stub]
set -uo pipefail
bin=${1:-${BENCH_BUILD:-$(dirname "$0")/../build/bench}}
dir=$(mktemp -d)
pid=
trap '[ -n "$pid" ] && kill "$pid" 2>/dev/null; rm -rf "$dir"' EXIT
passed=0 failed=0

stub() { # stub ARGS...: a fresh one; sets address and pid
    rm -rf "$dir/data"
    rm -f "$dir/ready"
    "$bin/ideal_stub" --dir "$dir/data" --ready-file "$dir/ready" "$@" &
    pid=$!
    until [ -s "$dir/ready" ]; do kill -0 "$pid" || exit 1; sleep 0.02; done
    address=$(sed 's/.*"kafka":\["\([^"]*\)".*/\1/' "$dir/ready")
}

expect() { # expect CODE NAME GEN-ARGS...
    local want=$1 name=$2 got=0
    shift 2
    timeout 60 "$bin/gen" --broker "$address" --create --warmup 0 --duration 20 --verify "$@" >"$dir/out" 2>"$dir/err" || got=$?
    kill "$pid" && wait "$pid" 2>/dev/null
    pid=
    if [ "$got" = "$want" ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "FAILED $name: exit $got, wanted $want"
        cat "$dir/out" "$dir/err"
    fi
}

small=(--partitions 7 --total-mb 8)
for sync in none inline thread; do
    for files in fresh recycled; do
        stub --files $files --sync $sync --ring-mb 128
        expect 0 "$files, $sync" "${small[@]}" --connections 3 --acks -1
    done
done
stub --sync thread
expect 0 "idempotent, several partitions in a request" "${small[@]}" --connections 2 --acks -1 --idempotent --parts-per-request 3
stub
expect 0 "acks=0" "${small[@]}" --acks 0 --batch-bytes 0
stub --roll-mb 1
expect 0 "rolled files, batches near 1 MB" "${small[@]}" --batch-bytes 1000000
stub --sync thread
expect 0 "open loop, end to end" --mode e2e --rate 500 --partitions 5 --connections 4 --fetch-connections 2 --batch-bytes 0 \
    --acks -1 --duration 1
stub
expect 0 "many small partitions" --partitions 2000 --total-mb 4 --batch-bytes 0 --parts-per-request 100 --delete
for lie in drop repeat flip; do
    stub --lie $lie
    expect 1 "a stub that lies ($lie) is found out" "${small[@]}"
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
