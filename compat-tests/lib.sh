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
    local dir=$CACHE/$1 lock=$CACHE/.lock-$1
    shift
    (
        flock 9
        [ -e "$dir/.complete" ] && exit 0
        rm -rf "$dir.part" "$dir"
        mkdir -p "$dir.part"
        "$@" "$dir.part" >&2 || exit 1
        touch "$dir.part/.complete"
        mv "$dir.part" "$dir"
    ) 9>"$lock" || return 1
    echo "$dir"
}

mvn_copy() {                                         # mvn_copy PROFILE DIR
    mvn -q -B -ntp -f "$COMPAT/java/pom.xml" -P "$1" -Dkafka.version="$KAFKA_VERSION" -Dkafka.old.version="$KAFKA_OLD_VERSION" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies" \
        -DincludeScope=runtime -DoutputDirectory="$2"
}

compat_kafka_jars() { fetch_once "kafka-$KAFKA_VERSION" mvn_copy kafka; }
compat_kafka_old_jars() { fetch_once "kafka-$KAFKA_OLD_VERSION" mvn_copy old; }

# The Java programs of this folder, compiled against the fetched jars; again whenever a source is newer.
compat_java_classes() {
    local jars out=$CACHE/java-classes
    jars=$(compat_kafka_jars) || return 1
    (
        flock 9
        if [ ! -e "$out/.complete" ] || [ -n "$(find "$COMPAT/java" -name '*.java' -newer "$out/.complete")" ]; then
            rm -rf "$out"
            mkdir -p "$out"
            find "$COMPAT/java/src" -name '*.java' >"$out/.sources"
            javac -nowarn -d "$out" -cp "$jars/*" "@$out/.sources" >&2 && touch "$out/.complete"
        fi
    ) 9>"$CACHE/.java-lock" || return 1
    echo "$out"
}

format_kafka() {                                     # format_kafka DIR: an empty KRaft data directory
    local props
    props=$(mktemp)
    printf '%s\n' process.roles=broker,controller node.id=1 controller.listener.names=CONTROLLER \
        controller.quorum.voters=1@127.0.0.1:1 listeners=PLAINTEXT://127.0.0.1:2,CONTROLLER://127.0.0.1:1 \
        listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT log.dirs="$1/d" >"$props"
    java -Dlog4j2.configurationFile="$COMPAT/java/log4j2.properties" -cp "$(compat_kafka_jars)/*" \
        kafka.tools.StorageTool format -t cGVyaWdlZS1jb21wYXQtMQ -c "$props"
    local status=$?
    rm -f "$props"
    return $status
}

compat_kafka_template() { echo "$(compat_kafka_jars >/dev/null && fetch_once "kafka-template-$KAFKA_VERSION" format_kafka)/d"; }

# Programs built from this folder's sources (C and Go), rebuilt when a source is newer.
compat_build() {                                     # compat_build NAME SOURCEDIR COMMAND...   ({} is the output path)
    local out=$CACHE/bin/$1 dir=$2 words=() w
    shift 2
    for w in "$@"; do words+=("${w//\{\}/$out}"); done
    mkdir -p "$CACHE/bin"
    (
        flock 9
        if [ ! -e "$out" ] || [ -n "$(find "$dir" -newer "$out" -type f)" ]; then
            (cd "$dir" && "${words[@]}" >&2)
        fi
    ) 9>"$CACHE/.build-lock" || return 1
    echo "$out"
}

compat_c() {                                         # compat_c NAME: compat-tests/c/NAME.c on librdkafka
    compat_build "$1" "$COMPAT/c" cc -std=gnu2x -O1 -g -Wall -Wextra -Werror -o {} "$1.c" -lrdkafka -lpthread
}
compat_go() { compat_build "compat-go" "$COMPAT/go" go build -o {} .; }
compat_proxy() { compat_build frame-proxy "$COMPAT/proxy" cc -std=gnu2x -O1 -g -Wall -Wextra -Werror -o {} proxy.c; }

compat_kafka_python() { echo "$(compat_matrix_venv old)/bin/python"; }

# ---- the stock-client matrix (clients/) -------------------------------------------------------------------------------

mvn_clients() {                                      # mvn_clients VERSION DIR
    mvn -q -B -ntp -f "$COMPAT/java/pom.xml" -P clients -Dclients.version="$1" -Djackson.version="$JACKSON_VERSION" \
        "org.apache.maven.plugins:maven-dependency-plugin:$MAVEN_DEPENDENCY_PLUGIN_VERSION:copy-dependencies" \
        -DincludeScope=runtime -DoutputDirectory="$2/jars"
}

# The program of clients/java against 3.9, 4.0 or the newest kafka-clients: a folder with jars/ and classes/.
compat_matrix_java() {
    local version dir
    case $1 in 3.9) version=$KAFKA_OLD_VERSION ;; 4.0) version=$KAFKA_4_0_VERSION ;; *) version=$KAFKA_VERSION ;; esac
    dir=$(fetch_once "matrix-java-$version" mvn_clients "$version") || return 1
    (
        flock 9
        if [ ! -e "$dir/classes/.done" ] || [ -n "$(find "$COMPAT/clients/java" -name '*.java' -newer "$dir/classes/.done")" ]; then
            rm -rf "$dir/classes"
            mkdir -p "$dir/classes"
            javac -nowarn -d "$dir/classes" -cp "$dir/jars/*" "$COMPAT"/clients/java/*.java >&2 && touch "$dir/classes/.done"
        fi
    ) 9>"$CACHE/.matrix-java-$version-lock" || return 1
    echo "$dir"
}

compat_matrix_c() {
    local flags
    flags=$(pkg-config --cflags --libs rdkafka libcjson) || return 1
    # shellcheck disable=SC2086
    compat_build matrix-c "$COMPAT/clients/c" cc -std=gnu2x -O1 -g -Wall -Wextra -Werror -o {} matrix.c b64.c $flags
}

pip_venv() {                                         # pip_venv PACKAGES DIR
    # shellcheck disable=SC2086
    python3 -m venv "$2" && "$2/bin/pip" -q install --disable-pip-version-check $1
}

# The Python clients and their codecs: `old` has the old kafka-python, `new` everything newest.
compat_matrix_venv() {
    local codecs="cramjam==$CRAMJAM_VERSION python-snappy==$PYTHON_SNAPPY_VERSION lz4==$PYTHON_LZ4_VERSION zstandard==$PYTHON_ZSTANDARD_VERSION"
    case $1 in
        old) fetch_once "matrix-python-$KAFKA_PYTHON_VERSION" pip_venv "kafka-python==$KAFKA_PYTHON_VERSION $codecs" ;;
        *) fetch_once "matrix-python-$CONFLUENT_KAFKA_VERSION-$KAFKA_PYTHON_NEW_VERSION-$AIOKAFKA_VERSION" pip_venv \
               "confluent-kafka==$CONFLUENT_KAFKA_VERSION kafka-python==$KAFKA_PYTHON_NEW_VERSION aiokafka==$AIOKAFKA_VERSION $codecs" ;;
    esac
}

compat_matrix_go() { compat_build matrix-go "$COMPAT/clients/go" go build -o {} .; }

# The Rust clients: built beside a copy of the sources, so that nothing is written here; librdkafka is compiled from the crate.
compat_matrix_rust() {
    local dir=$CACHE/matrix-rust
    (
        flock 9
        if [ ! -e "$dir/.done" ] || [ -n "$(find "$COMPAT/clients/rust" -newer "$dir/.done" -type f)" ]; then
            mkdir -p "$dir/src"
            cp "$COMPAT"/clients/rust/Cargo.toml "$dir/" && cp "$COMPAT"/clients/rust/src/*.rs "$dir/src/" || exit 1
            RDKAFKA_VERSION=$RDKAFKA_VERSION RSKAFKA_VERSION=$RSKAFKA_VERSION \
                cargo build -q --manifest-path "$dir/Cargo.toml" --target-dir "$dir/target" >&2 && touch "$dir/.done"
        fi
    ) 9>"$CACHE/.matrix-rust-lock" || return 1
    echo "$dir/target/debug/clients-rust"
}

npm_clients() { cp "$COMPAT"/clients/node/package*.json "$1/" && (cd "$1" && npm ci --silent --no-audit --no-fund); }

# The Node clients: a folder with their packages and a fresh copy of the programs.
compat_matrix_node() {
    local dir
    dir=$(fetch_once "matrix-node-$(sha256sum "$COMPAT/clients/node/package-lock.json" | cut -c1-12)" npm_clients) || return 1
    cp -u "$COMPAT"/clients/node/*.mjs "$dir/" && echo "$dir"
}

# Everything that a run fetches or builds once: what is not to be had is said, and its tests will be skipped.
compat_everything() {
    local what
    for what in compat_kafka_jars compat_kafka_old_jars compat_java_classes compat_kafka_template compat_go compat_proxy "compat_c load" \
        "compat_c reader" compat_matrix_c "compat_matrix_java 3.9" "compat_matrix_java 4.0" "compat_matrix_java newest" "compat_matrix_venv old" \
        "compat_matrix_venv new" compat_matrix_go compat_matrix_node compat_matrix_rust; do
        # shellcheck disable=SC2086
        $what >/dev/null || say "compat-tests: $what failed"
    done
}
