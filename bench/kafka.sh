#!/usr/bin/env bash
# Apache Kafka as the other side of the ratios; optional. Versions stand in compat-tests/versions.env.
#   bench/kafka.sh install          fetch the jars (Maven), once, into build/compat
#   bench/kafka.sh ready            exit 0 if they are there
#   bench/kafka.sh prepare DIR      an empty, formatted data directory
#   bench/kafka.sh serve DIR PORT   run the broker in the foreground (exec: the pid is the JVM's)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=../compat-tests/versions.env
. "$root/compat-tests/versions.env"
jars=$root/build/compat/kafka-$KAFKA_VERSION

props() { # props DIR PORT
    local controller
    controller=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat <<END
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
controller.quorum.voters=1@127.0.0.1:$controller
listeners=PLAINTEXT://127.0.0.1:$2,CONTROLLER://127.0.0.1:$controller
advertised.listeners=PLAINTEXT://127.0.0.1:$2
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$1/d
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
END
}

case ${1:-} in
install) bash -c '. "$1/compat-tests/lib.sh"; compat_kafka_jars' _ "$root" >/dev/null ;;
ready) [ -e "$jars/.complete" ] ;;
prepare)
    mkdir -p "$2"
    props "$2" 2 >"$2/format.properties"
    java -Dlog4j2.configurationFile="$root/compat-tests/java/log4j2.properties" -cp "$jars/*" \
        kafka.tools.StorageTool format -t cGVyaWdlZS1iZW5jaC0wMQ -c "$2/format.properties" >/dev/null
    ;;
serve)
    props "$2" "$3" >"$2/server.properties"
    exec java -Xmx1G -Xms1G -server -XX:+UseG1GC -XX:MaxGCPauseMillis=20 -XX:InitiatingHeapOccupancyPercent=35 \
        -XX:+ExplicitGCInvokesConcurrent -XX:MaxInlineLevel=15 -Djava.awt.headless=true -XX:ActiveProcessorCount=1 \
        -Dlog4j2.configurationFile="$root/compat-tests/java/log4j2.properties" -cp "$jars/*" \
        kafka.Kafka "$2/server.properties"
    ;;
*) sed -n 2,6p "$0" >&2; exit 2 ;;
esac
