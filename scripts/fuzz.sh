#!/usr/bin/env bash
# Fuzz each target for a while with libFuzzer, ASan and UBSan, two at a time, starting from the kept inputs.
#   scripts/fuzz.sh SECONDS [TARGET...]        a finding is left in build/fuzz/findings and makes the exit status 1
#   KEEP=1 scripts/fuzz.sh SECONDS [TARGET...] also keep what was learnt: the smallest set of inputs with the same coverage
#   scripts/fuzz.sh seeds                      write tests/fuzz/corpus/seed_* anew (golden bytes; files that the store itself writes)
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS|seeds [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || mapfile -t targets < <(basename -as .c tests/fuzz/fuzz_*.c)
corpus=tests/fuzz/corpus build=build/fuzz
configure() {   # DIR OPTION...
    local dir=$1
    shift
    cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ "$@" > /dev/null
}
if [ "$seconds" = seeds ]; then
    configure $build/replay
    ninja -C $build/replay "${targets[@]}" > /dev/null
    python3 tests/fuzz/seed_corpus.py tests/golden $corpus
    for t in "${targets[@]}"; do
        if grep -q '^void fuzz_seeds' tests/fuzz/"$t".c; then
            $build/replay/tests/fuzz/"$t" --seed $corpus/seed_"${t#fuzz_}".bin
        fi
    done
    exit 0
fi
configure $build/fuzzer -DPERIGEE_FUZZ=ON -DPERIGEE_SANITIZE=address,undefined
ninja -C $build/fuzzer "${targets[@]}" > /dev/null
mkdir -p $build/findings

fuzz() {   # TARGET
    local t=$1 work=$build/corpus-$1 code=0
    rm -rf "$work" "$work-small"
    mkdir -p "$work" "$work-small"
    python3 tests/fuzz/corpus.py unpack $corpus/seed_"${t#fuzz_}".bin "$work"
    python3 tests/fuzz/corpus.py unpack $corpus/"$t".bin "$work"
    $build/fuzzer/tests/fuzz/"$t" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -max_len=4000 -print_final_stats=1 \
        -artifact_prefix=$build/findings/"$t"- "$work" > $build/"$t".log 2>&1 || code=1
    [ $code -eq 0 ] || tail -40 $build/"$t".log
    echo "counts $t: $(find "$work" -type f | wc -l) inputs, $(sed -n 's/stat::number_of_executed_units: *//p' $build/"$t".log) runs"
    if [ -n "${KEEP:-}" ]; then
        $build/fuzzer/tests/fuzz/"$t" -merge=1 "$work-small" "$work" > /dev/null 2>&1
        python3 tests/fuzz/corpus.py pack $corpus/"$t".bin "$work-small"
    fi
    return $code
}

failed=0 running=0
for t in "${targets[@]}"; do
    if [ $running -eq 2 ]; then
        wait -n || failed=1
        running=$((running - 1))
    fi
    fuzz "$t" &
    running=$((running + 1))
done
while [ $running -gt 0 ]; do
    wait -n || failed=1
    running=$((running - 1))
done
exit $failed
