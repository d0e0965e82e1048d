#!/usr/bin/env bash
# What the tests never reach: builds with gcov, runs unit, golden, fuzz-smoke, torture and some simulation, and prints each function of src/ that was
# never called, a line per file, and the share of lines reached.
#   scripts/coverage.sh [SEEDS]       seeds of the simulator to run (default 60)
set -euo pipefail
cd "$(dirname "$0")/.."
build=build/coverage
cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=gcc -DCMAKE_C_FLAGS=--coverage > /dev/null
ninja -C $build > /dev/null
find $build -name '*.gcda' -delete
ctest --test-dir $build -j2 -LE 'sim|tidy' > $build/ctest.log 2>&1 || tail -15 $build/ctest.log
$build/sim --seeds 1.."${1:-60}" --once > $build/sim.log 2>&1 || tail -3 $build/sim.log
python3 - $build <<'PY'
import glob, json, os, subprocess, sys
build, root = sys.argv[1], os.getcwd() + "/src/"
calls, lines = {}, {}
for note in glob.glob(f"{build}/src/**/*.gcno", recursive=True):
    out = subprocess.run(["gcov", "--json-format", "--stdout", note], capture_output=True).stdout
    for f in (json.loads(out)["files"] if out else []):
        path = os.path.normpath(os.path.join(build, f["file"]))
        if not path.startswith(root):
            continue
        name = path[len(root):]
        for fn in f["functions"]:
            key = (name, fn["name"])
            calls[key] = calls.get(key, 0) + fn["execution_count"]
        for ln in f["lines"]:
            key = (name, ln["line_number"])
            lines[key] = lines.get(key, 0) + ln["count"]
for name in sorted({n for n, _ in calls}):
    mine = [c for (n, _), c in lines.items() if n == name]
    never = sorted(fn for (n, fn), c in calls.items() if n == name and c == 0)
    if never:
        print(f"{name} ({100 * sum(c > 0 for c in mine) // max(1, len(mine))} % of lines): never called: {', '.join(never)}")
print(f"{sum(c > 0 for c in lines.values())} of {len(lines)} lines, {sum(c > 0 for c in calls.values())} of {len(calls)} functions")
PY
