#!/bin/sh
# Replay one run of the simulation with a readable trace: scripts/seed.sh N [--point K with --points N]
#   scripts/seed.sh 42                    the swarm of seed 42
#   scripts/seed.sh 42 --point 17         crash point 17 of the short run of seed 42
# The trace goes to standard output: time in seconds, node.shard, event, numbers. BUILD names the build directory (default build/debug).
set -eu
[ $# -ge 1 ] || { sed -n '2,5p' "$0"; exit 1; }
cd "$(dirname "$0")/.."
build=${BUILD:-build/debug}
[ -f "$build/build.ninja" ] || cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Debug >/dev/null
ninja -C "$build" sim >&2
seed=$1
shift
if [ "${1:-}" = --point ]; then
    exec "$build/sim" --points "$seed" "$@" --trace --once
fi
exec "$build/sim" --seed "$seed" "$@" --trace --once
