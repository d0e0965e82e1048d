#!/usr/bin/env bash
# A build in which every authorisation question is answered no, and the program that sends each served API and checks its refusal.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p build/deny
cmake -S . -B build/deny -G Ninja -DCMAKE_BUILD_TYPE=Debug -DPERIGEE_DENY=ON >build/deny/configure.log 2>&1 || {
    cat build/deny/configure.log >&2
    exit 1
}
ninja -C build/deny --quiet kafka_deny
build/deny/tests/unit/kafka/kafka_deny
