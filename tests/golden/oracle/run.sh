#!/usr/bin/env bash
# The Java client as judge of the batches we write. Needs a JDK; usage: run.sh WRITE_BATCHES (the built program)
set -euo pipefail
program=$(realpath "${1:?usage: run.sh WRITE_BATCHES}")
cd "$(dirname "$0")"
. ../../../compat-tests/lib.sh
jars=$(compat_kafka_jars)
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$program" "$out"
java -cp "$jars/*" ReadBatches.java "$out" 2> >(grep -v SLF4J >&2)
