"""One broker process under test: perigee, or Apache Kafka as the judge of the tests themselves.

Broker(kind, shards=1, settings={...}) owns a temporary data directory; start(), stop() (SIGTERM), kill9(), start() again on the same
port and data. Nothing here sleeps for luck: perigee's ready file is awaited, Kafka is asked over its own protocol.
Also a command, for shell scripts:  broker.py run KIND SHARDS ADDRFILE [key=value...]   (serves until standard input closes)
"""
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

COMPAT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(COMPAT)
CACHE = os.path.join(ROOT, "build", "compat")
SANITIZED = os.environ.get("COMPAT_KIND") in ("asan", "tsan")
START_LIMIT_S = {"perigee": 30, "kafka": 90}
STOP_LIMIT_S = {"perigee": 10, "kafka": 60}


class BrokerError(Exception):
    """The broker did not start, or ended when it should not have."""


given = set()


def free_port():
    """A port that nobody listens on, another at each call: the kernel may name the same one twice in a row."""
    while True:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        if port not in given:
            given.add(port)
            return port


def shell(function, *args):
    """Call a function of lib.sh and return the last line that it prints."""
    script = '. "$0/lib.sh"; f=$1; shift; "$f" "$@"'
    out = subprocess.run(["bash", "-c", script, COMPAT, function, *args], stdout=subprocess.PIPE, check=True, text=True)
    return out.stdout.strip().splitlines()[-1]


def kafka_jars():
    return shell("compat_kafka_jars")


def java(heap="256m"):
    return ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            f"-Dlog4j2.configurationFile={COMPAT}/java/log4j2.properties", "-cp", f"{kafka_jars()}/*:{java_classes()}"]


def java_classes():
    """The compiled programs of compat-tests/java (made on first use)."""
    return shell("compat_java_classes")


def bind_host(where):
    return where.rsplit(":", 1)[0]


class Broker:
    def __init__(self, kind, shards=1, settings=None, data=None, host="127.0.0.1", env=None, prefix=None):
        self.kind, self.shards, self.host = kind, shards, host
        self.settings = dict(settings or {})
        self.env = env or {}
        self.prefix = (["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []) + (prefix or [])   # dies with the tests
        self.home = tempfile.mkdtemp(prefix="compat-", dir=os.environ.get("COMPAT_TMP"))
        self.data = data or os.path.join(self.home, "data")
        self.port = 0
        self.process = None
        self.starts = 0

    # ---- what a test asks ----

    @property
    def addr(self):
        return f"{self.host}:{self.port}"

    @property
    def pid(self):
        return self.process.pid

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def rss_peak_kib(self):
        """0 under a sanitizer: its own memory would be measured."""
        return 0 if SANITIZED else self._status("VmHWM")

    def rss_kib(self):
        return 0 if SANITIZED else self._status("VmRSS")

    def _status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            for line in f:
                if line.startswith(name + ":"):
                    return int(line.split()[1])
        return 0

    def fd_count(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_text(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    @property
    def log_path(self):
        return os.path.join(self.home, "broker.log")

    # ---- life ----

    def start(self):
        self.starts += 1
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.prefix + self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.env}, start_new_session=True)
        try:
            self._wait_ready(START_LIMIT_S[self.kind])
        except BaseException:
            self.kill9()
            raise
        return self

    def start_expecting_failure(self, limit=30):
        """Run the command and return its exit status (a configuration that must be refused)."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env={**os.environ, **self.env}, start_new_session=True)
        try:
            return self.process.wait(limit)
        except subprocess.TimeoutExpired:
            self.kill9()
            return None

    def stop(self):
        """SIGTERM; returns (exit status, seconds)."""
        if not self.alive():
            return (self.process.returncode if self.process else None), 0.0
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S[self.kind])
        except subprocess.TimeoutExpired:
            self.kill9()
            raise BrokerError(f"{self.kind} did not stop within {STOP_LIMIT_S[self.kind]} s of SIGTERM") from None
        return self.process.returncode, time.monotonic() - began

    def kill9(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def restart(self):
        self.stop()
        return self.start()

    def close(self):
        self.kill9()
        shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self if self.alive() else self.start()

    def __exit__(self, *_):
        self.close()

    # ---- the two kinds ----

    def _command(self):
        return self._perigee_command() if self.kind == "perigee" else self._kafka_command()

    def _perigee_command(self):
        self.ready = os.path.join(self.home, "ready.json")
        if os.path.exists(self.ready):
            os.unlink(self.ready)
        binary = os.environ.get("COMPAT_PERIGEE", os.path.join(ROOT, "build", os.environ.get("COMPAT_KIND", "release"), "perigee"))
        settings = {"listeners": f"PLAINTEXT://{self.host}:{self.port}", "shards": self.shards, **self.settings}
        command = [binary, "serve", "--data-dir", self.data, "--ready-file", self.ready]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        return command

    def _kafka_command(self):
        if not self.port:
            self.port = free_port()
        if not os.path.isdir(self.data):
            shutil.copytree(kafka_template(), self.data)
        properties = os.path.join(self.home, "server.properties")
        write_kafka_properties(properties, {
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://127.0.0.1:{free_port()}",
            "advertised.listeners": f"PLAINTEXT://{self.host}:{self.port}", "log.dirs": self.data, **self.settings})
        return java("768m") + ["kafka.Kafka", properties]

    def _wait_ready(self, limit):
        deadline = time.monotonic() + limit
        pidfd = os.pidfd_open(self.process.pid)
        try:
            while not self._ready():
                if select.select([pidfd], [], [], 0.005 if self.kind == "perigee" else 0.1)[0]:
                    raise BrokerError(f"{self.kind} ended with status {self.process.wait()}:\n{self.log_text()[-2000:]}")
                if time.monotonic() > deadline:
                    raise BrokerError(f"{self.kind} was not ready within {limit} s:\n{self.log_text()[-2000:]}")
        finally:
            os.close(pidfd)

    def _ready(self):
        if self.kind == "kafka":
            return kafka_answers(self.host, self.port)
        if not os.path.exists(self.ready):
            return False
        with open(self.ready, encoding="utf-8") as f:
            self.ready_info = json.load(f)
        self.port = int(self.ready_info["kafka"][0].rsplit(":", 1)[1])
        return True


def kafka_answers(host, port):
    """True once the broker is registered, names a controller and has a block of producer ids."""
    from raw.wire import Conn
    try:
        with Conn((host, port), timeout=2) as c:
            answer = c.call("Metadata", 9, topics=[])
            if not answer["brokers"] or answer["controller_id"] < 0:
                return False
            return c.call("InitProducerId", 1)["error"] == 0
    except (OSError, EOFError):
        return False


KAFKA_DEFAULTS = {
    "process.roles": "broker,controller", "node.id": "1", "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1", "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0", "broker.heartbeat.interval.ms": "200", "broker.session.timeout.ms": "9000",
    "log.flush.interval.messages": "1000000",
}


def write_kafka_properties(path, settings):
    merged = {**KAFKA_DEFAULTS, **settings}
    controller = [p for p in merged["listeners"].split(",") if p.startswith("CONTROLLER")]
    if controller:
        merged["controller.quorum.voters"] = "1@" + controller[0].split("//")[1]
    with open(path, "w", encoding="utf-8") as f:
        for key, value in merged.items():
            f.write(f"{key}={value}\n")


def kafka_template():
    """A formatted, empty data directory, made once: formatting costs a JVM start."""
    return shell("compat_kafka_template")


def run_until_stdin_closes(kind, shards, addr_file, *settings):
    broker = Broker(kind, int(shards), dict(s.split("=", 1) for s in settings))
    try:
        broker.start()
        with open(addr_file + ".tmp", "w", encoding="utf-8") as f:
            f.write(broker.addr)
        os.rename(addr_file + ".tmp", addr_file)
        sys.stdin.read()
        broker.stop()
    finally:
        broker.close()


if __name__ == "__main__":
    sys.path.insert(0, COMPAT)
    if len(sys.argv) < 5 or sys.argv[1] != "run":
        sys.exit(__doc__)
    run_until_stdin_closes(*sys.argv[2:])
