#!/usr/bin/env bash
# Trouble on the real process: failing, slow and full disks, power cuts, damaged files, too few descriptors, stopped and stubborn peers.
#
#   compat-tests/faults/run.sh [--shards N]... [--kind release|debug|asan|tsan] [--seed N] [--full] [--list] [word...]
#
# Without --shards everything runs with shards=2. A word selects tests whose file or name contains it. The seed is printed; the same one
# makes the same choices. --full plays 200 power cuts instead of 30.
# Prints "ok N - name", "not ok N - name", "SKIPPED name: reason", and last "N passed, N failed, N skipped".
# Exit 0 when nothing failed. With CI=true a skip is a failure.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2
. ./lib.sh

shards=() words=() kind=release
while [ $# -gt 0 ]; do
    case $1 in
        --shards) shards+=("$2"); shift ;;
        --kind) kind=$2; shift ;;
        --seed) words+=("$1" "$2"); shift ;;
        -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
        *) words+=("$1") ;;
    esac
    shift
done
[ ${#shards[@]} -gt 0 ] || shards=(2)
export COMPAT_KIND=$kind PYTHONDONTWRITEBYTECODE=1
COMPAT_PERIGEE=${COMPAT_PERIGEE:-$ROOT/build/$kind/perigee}
export COMPAT_PERIGEE
if [ ! -x "$COMPAT_PERIGEE" ]; then
    echo "faults: no $COMPAT_PERIGEE; build it first (scripts/build.sh $kind)" >&2
    exit 2
fi
ulimit -n 65536 2>/dev/null || ulimit -n "$(ulimit -Hn)"
COMPAT_TMP=$(mktemp -d)
export COMPAT_TMP
trap 'rm -rf "$COMPAT_TMP"' EXIT

failed=0
for n in "${shards[@]}"; do
    echo "# shards=$n"
    python3 -u -m faults.run --shards "$n" "${words[@]}" || failed=1
done
exit $failed
