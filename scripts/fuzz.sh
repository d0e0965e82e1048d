#!/usr/bin/env bash
# Fuzz each target for a while with libFuzzer, ASan and UBSan, starting from the kept inputs.
#   scripts/fuzz.sh SECONDS [TARGET...]        a finding is left in build/fuzz/findings and makes the exit status 1
#   KEEP=1 scripts/fuzz.sh SECONDS [TARGET...] also keep what was learnt: the smallest set of inputs with the same coverage
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:?usage: fuzz.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(fuzz_message fuzz_frame fuzz_batch fuzz_zip fuzz_stream)
corpus=tests/fuzz/corpus build=build/fuzz
configure() {   # DIR OPTION...
    local dir=$1
    shift
    cmake -S . -B "$dir" -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ "$@" > /dev/null
}
configure $build/fuzzer -DPERIGEE_FUZZ=ON -DPERIGEE_SANITIZE=address,undefined
configure $build/replay
ninja -C $build/fuzzer "${targets[@]}" > /dev/null
ninja -C $build/replay "${targets[@]}" > /dev/null
mkdir -p $build/findings
failed=0
for t in "${targets[@]}"; do
    work=$build/corpus-$t
    rm -rf "$work" "$work-small"
    mkdir -p "$work" "$work-small"
    $build/replay/tests/fuzz/"$t" --unpack $corpus/seed_"${t#fuzz_}".bin "$work"
    $build/replay/tests/fuzz/"$t" --unpack $corpus/"$t".bin "$work"
    if ! $build/fuzzer/tests/fuzz/"$t" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4000 -print_final_stats=1 \
        -artifact_prefix=$build/findings/"$t"- "$work" > $build/"$t".log 2>&1; then
        tail -40 $build/"$t".log
        failed=1
    fi
    echo "$t: $(grep -c '' < <(ls "$work")) inputs, $(sed -n 's/stat::number_of_executed_units: *//p' $build/"$t".log) runs"
    if [ -n "${KEEP:-}" ]; then
        $build/fuzzer/tests/fuzz/"$t" -merge=1 "$work-small" "$work" > /dev/null 2>&1
        $build/replay/tests/fuzz/"$t" --pack $corpus/"$t".bin "$work-small"
    fi
done
exit $failed
