#!/usr/bin/env bash
# Set up, build and test perigee.
#   scripts/test.sh          every kind of test, each time-boxed; at most 25 minutes on two cores
#   scripts/test.sh full     the long campaigns as well; at most 90 minutes
# Prints a line per step and at the end "N passed, N failed, N skipped". A step that cannot run here prints SKIPPED name: reason;
# with CI=true a skip counts as a failure.
set -uo pipefail
cd "$(dirname "$0")/.."
mode=${1:-quick}
export PERIGEE_TEST_MODE=$mode
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

step setup 600 scripts/setup.sh
step build.release 600 scripts/build.sh release
step build.asan 900 scripts/build.sh asan
step unit.asan 600 ctest --test-dir build/asan --output-on-failure -j2 -LE 'slow|sim'
[ -d tests/sim ] && [ -f tests/sim/CMakeLists.txt ] && step sim 420 scripts/sim.sh "$mode"
[ -x compat-tests/run.sh ] && for shards in 1 2; do
    if [ "$mode" = full ]; then
        step "compat.shards$shards" 1800 compat-tests/run.sh --broker perigee --shards $shards --full
    else
        step "compat.shards$shards" 600 compat-tests/run.sh --broker perigee --shards $shards
    fi
done
[ -x scripts/tsan.sh ] && step tsan 420 scripts/tsan.sh
[ -x scripts/deny.sh ] && step deny 300 scripts/deny.sh
[ -x scripts/budgets.sh ] && step budgets 300 scripts/budgets.sh
if [ "$mode" = full ]; then
    [ -x scripts/fuzz.sh ] && step fuzz 1500 scripts/fuzz.sh 60
fi

printf 'took %d s\n' $((SECONDS - began))
[ ${#failures[@]} -gt 0 ] && printf 'failed: %s\n' "${failures[*]}"
echo "$passed passed, $failed failed, $skipped skipped"
[ $failed -eq 0 ]
