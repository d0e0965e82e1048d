# shellcheck shell=bash
# What every compatibility test shares: foreign programs (fetched once into build/compat), a broker to talk to, results.
# Sourced, never run. Messages go to standard error, values to standard output.

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
COMPAT=$ROOT/compat-tests
CACHE=$ROOT/build/compat
# shellcheck source=versions.env
. "$COMPAT/versions.env"
mkdir -p "$CACHE"

say() { echo "$*" >&2; }

# ---- foreign programs -------------------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

# fetch_once NAME COMMAND...: run COMMAND DIR once; DIR appears whole or not at all. Two runners at once are fine.
fetch_once() {
    local dir=$CACHE/$1
    shift
    (
        flock 9
        [ -e "$dir/.complete" ] && exit 0
        rm -rf "$dir.part" "$dir"
        mkdir -p "$dir.part"
        "$@" "$dir.part" >&2 || exit 1
        touch "$dir.part/.complete"
        mv "$dir.part" "$dir"
    ) 9>"$CACHE/.lock" || return 1
    echo "$dir"
}

mvn_copy() {                                         # mvn_copy PROFILE DIR
    mvn -q -B -ntp -f "$COMPAT/java/pom.xml" -P "$1" -Dkafka.version="$KAFKA_VERSION" -Dkafka.old.version="$KAFKA_OLD_VERSION" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies" \
        -DincludeScope=runtime -DoutputDirectory="$2"
}

compat_kafka_jars() { fetch_once "kafka-$KAFKA_VERSION" mvn_copy kafka; }
compat_kafka_old_jars() { fetch_once "kafka-$KAFKA_OLD_VERSION" mvn_copy old; }
