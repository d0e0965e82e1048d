#!/usr/bin/env bash
# Set up, build and test perigee.
#   scripts/test.sh          every kind of test, each time-boxed; at most 25 minutes on two cores
#   scripts/test.sh full     the long campaigns as well; at most 90 minutes
# Prints a line per step and at the end "N passed, N failed, N skipped". A step that cannot run here prints SKIPPED name: reason;
# with CI=true a skip counts as a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-quick}
passed=0 failed=0 skipped=0
failures=()
mkdir -p build/test-logs
began=$SECONDS

# step NAME SECONDS COMMAND...: run it in its time box; a line starting with SKIPPED in its output marks a skip.
step() {
    local name=$1 box=$2 log="build/test-logs/${1//[^a-zA-Z0-9_.-]/_}.log" at=$SECONDS code
    shift 2
    printf '== %s\n' "$name"
    timeout --kill-after=20 "$box" "$@" >"$log" 2>&1
    code=$?
    grep -h '^SKIPPED ' "$log" | sort -u
    local skips
    skips=$(grep -c '^SKIPPED ' "$log")
    skipped=$((skipped + skips))
    if [ $code -eq 0 ] && { [ "$skips" -eq 0 ] || [ "${CI:-}" != true ]; }; then
        passed=$((passed + 1))
        printf '   ok      %s  (%d s)\n' "$name" $((SECONDS - at))
        grep -hE '^(RESULT|seeds|counts|[0-9]+ passed)' "$log" | tail -4 | sed 's/^/           /'
    else
        failed=$((failed + 1))
        failures+=("$name")
        [ $code -eq 124 ] && echo "   TIMEOUT $name after $box s"
        printf '   FAILED  %s  (%d s), last lines of %s:\n' "$name" $((SECONDS - at)) "$log"
        tail -40 "$log" | sed 's/^/           /'
    fi
}

full() { [ "$mode" = full ]; }

step setup 900 scripts/setup.sh
step build.release 600 scripts/build.sh release
step build.debug 900 scripts/build.sh debug
step build.asan 900 scripts/build.sh asan
step tidy 400 ctest --test-dir build/debug --output-on-failure -L tidy
step rules 60 tests/rules.py
step unit.asan 900 ctest --test-dir build/asan --output-on-failure -j2 -LE 'sim|tidy'
if full; then
    step sim.seeds 1200 build/debug/sim --seeds 1..2000 --all
    step sim.points 900 build/debug/sim --points 1..100 --all
    fresh=$((SRANDOM % 1000000 + 10000))
    step "sim.fresh.$fresh" 900 build/debug/sim --seeds $fresh..$((fresh + 999)) --all
else
    step sim 600 ctest --test-dir build/debug --output-on-failure -L sim
fi
step compat.fetch 900 compat-tests/run.sh --fetch
step compat 900 compat-tests/run.sh
step faults 700 compat-tests/faults/run.sh
step tsan 420 scripts/tsan.sh
step deny 300 scripts/deny.sh
if full; then
    step compat.full 2400 compat-tests/run.sh --full --shards 2
    step faults.full 1500 compat-tests/faults/run.sh --full
    step fuzz 900 scripts/fuzz.sh 60
    step budgets 600 scripts/budgets.sh
    step bench.check 300 bench/check.sh build/release/bench
fi

printf 'took %d s\n' $((SECONDS - began))
[ ${#failures[@]} -gt 0 ] && printf 'failed: %s\n' "${failures[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
