#!/usr/bin/env bash
# Install what perigee needs to build and to run its tests: Debian packages only, idempotent, root needed.
#   scripts/setup.sh            everything (build and tests)
#   scripts/setup.sh build      only what the build needs
set -euo pipefail
what=${1:-all}
build=(gcc g++ clang clang-tools cmake ninja-build pkg-config python3 git make
       libuv1-dev libssl-dev zlib1g-dev liblz4-dev libzstd-dev libsnappy-dev libisal-dev libcjson-dev check)
tests=(clang-format clang-tidy libclang-rt-14-dev libfuse3-dev librdkafka-dev kcat wamerican tshark valgrind
       libprotobuf-c-dev default-jdk-headless maven golang-go python3-venv jq iproute2 cargo-web nodejs npm)
pick=("${build[@]}")
[ "$what" = build ] || pick+=("${tests[@]}")

missing=()
for p in "${pick[@]}"; do
    dpkg-query -W -f='${Status}' "$p" 2>/dev/null | grep -q 'install ok installed' && continue
    case $p in                                   # a toolchain that is on PATH already need not come from a package
        golang-go) command -v go >/dev/null && continue ;;
        cargo-web) command -v cargo >/dev/null && continue ;;      # Debian's newest Rust; the plain package is too old for the clients
        nodejs) command -v node >/dev/null && continue ;;
        npm) command -v npm >/dev/null && continue ;;
        maven) command -v mvn >/dev/null && continue ;;
        default-jdk-headless) command -v javac >/dev/null && continue ;;
    esac
    missing+=("$p")
done
[ ${#missing[@]} -eq 0 ] && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "setup: these packages are missing and need root to install: ${missing[*]}" >&2
    echo "setup: run 'sudo apt-get install ${missing[*]}'" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
