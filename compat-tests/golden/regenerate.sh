#!/usr/bin/env bash
# Write tests/golden/*.bin again with both foreign encoders. Needs a JDK, Maven and Go; the result is committed.
set -euo pipefail
cd "$(dirname "$0")"
. ../lib.sh
out=$ROOT/tests/golden
kafka=$(compat_kafka_jars) old=$(compat_kafka_old_jars)
rm -f "$out"/*.bin
java -cp "$kafka/*" java/Golden.java "$out" all 2> >(grep -v SLF4J >&2)
java -cp "$old/*" java/Golden.java "$out" missing 2> >(grep -v SLF4J >&2)
java -cp "$kafka/*" java/GoldenBatches.java "$out" 2> >(grep -v SLF4J >&2)
(cd kmsg && go run . "$out")
ls "$out"/*.bin | wc -l
