#!/usr/bin/env bash
# The compatibility tests: stock clients and raw sockets against the real process.
#
#   compat-tests/run.sh --fetch      only fetch and build the foreign programs, which is otherwise done on first use
#   compat-tests/run.sh [--broker perigee|kafka] [--shards N]... [--kind release|debug|asan|tsan] [--full] [--list] [word...]
#
# Without --shards everything runs with shards=1 and then with shards=2. A word selects tests whose file or name contains it.
# --broker kafka runs the same tests on Apache Kafka (fetched through Maven): that is how the tests themselves are proved.
# Prints "ok N - name", "not ok N - name", "SKIPPED name: reason", and last "N passed, N failed, N skipped".
# Exit 0 when nothing failed. With CI=true a skip is a failure.
set -uo pipefail
cd "$(dirname "$0")" || exit 2
. ./lib.sh

broker=perigee shards=() words=() kind=release
while [ $# -gt 0 ]; do
    case $1 in
        --broker) broker=$2; shift ;;
        --shards) shards+=("$2"); shift ;;
        --kind) kind=$2; shift ;;
        --fetch) compat_everything; exit 0 ;;
        --full | --list) words+=("$1") ;;
        -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) words+=("$1") ;;
    esac
    shift
done
[ ${#shards[@]} -gt 0 ] || shards=(1 2)
[ "$broker" = kafka ] && shards=(1)
export COMPAT_KIND=$kind PYTHONDONTWRITEBYTECODE=1
COMPAT_PERIGEE=${COMPAT_PERIGEE:-$ROOT/build/$kind/perigee}
export COMPAT_PERIGEE
if [ "$broker" = perigee ] && [ ! -x "$COMPAT_PERIGEE" ]; then
    echo "compat-tests: no $COMPAT_PERIGEE; build it first (scripts/build.sh $kind)" >&2
    exit 2
fi
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
COMPAT_TMP=$(mktemp -d)
export COMPAT_TMP
trap 'rm -rf "$COMPAT_TMP"' EXIT

passed=0 failed=0 skipped=0
count() {                                            # prints what it reads and adds up its closing lines
    local line
    while IFS= read -r line; do
        if [[ $line =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed,\ ([0-9]+)\ skipped$ ]]; then
            passed=$((passed + BASH_REMATCH[1])) failed=$((failed + BASH_REMATCH[2])) skipped=$((skipped + BASH_REMATCH[3]))
        else
            printf '%s\n' "$line"
        fi
    done
}

if [ "${words[*]-}" = "" ] || [ "${words[*]}" = "--full" ]; then
    echo "# the tools of these tests"
    count < <(python3 -m raw.selftest; python3 -m raw.matrix_selftest; python3 -m check.selftest)
fi
for n in "${shards[@]}"; do
    echo "# $broker, shards=$n"
    count < <(python3 -u -m raw.harness --broker "$broker" --shards "$n" "${words[@]}"; status=$?
              [ $status -le 1 ] || echo "0 passed, 1 failed, 0 skipped")
done
[ "${words[0]-}" = --list ] && exit 0
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
