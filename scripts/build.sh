#!/usr/bin/env bash
# Build perigee: scripts/build.sh [release|debug|asan|tsan|fuzz] [target...]  ->  build/<kind>/perigee
#   release  gcc, -O2            debug  gcc, -Og, marks         asan  clang, address and undefined sanitizers
#   tsan     clang, thread sanitizer                            fuzz  clang, libFuzzer targets
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-release}
[ $# -gt 0 ] && shift
case $kind in
    release) args=(-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Release) ;;
    debug) args=(-DCMAKE_C_COMPILER=gcc -DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Debug) ;;
    asan) args=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DPERIGEE_SANITIZE=address,undefined) ;;
    tsan) args=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DPERIGEE_SANITIZE=thread) ;;
    fuzz) args=(-DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug -DPERIGEE_SANITIZE=address,undefined -DPERIGEE_FUZZ=ON) ;;
    *)
        echo "build: unknown kind '$kind': release, debug, asan, tsan or fuzz" >&2
        exit 1
        ;;
esac
for tool in cmake ninja; do
    command -v $tool >/dev/null || {
        echo "build: $tool is missing: run scripts/setup.sh build" >&2
        exit 1
    }
done
mkdir -p "build/$kind"
cmake -S . -B "build/$kind" -G Ninja "${args[@]}" >"build/$kind/configure.log" 2>&1 || {
    cat "build/$kind/configure.log" >&2
    exit 1
}
exec ninja -C "build/$kind" --quiet "$@"
