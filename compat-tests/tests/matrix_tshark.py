"""A judge of our frames that knows no broker: Wireshark's dissector over captured loopback traffic."""
import collections
import os
import select
import signal
import subprocess
import time
import xml.etree.ElementTree as ET

from raw import matrix, schema, tools
from raw.harness import Skip, test
from raw.wire import Conn
from tests.wire_rules import api_table, minimal

# Faults of the dissector of Wireshark 4.0: the same bytes from Apache Kafka get the same complaint (run.sh --broker kafka tshark). It also gives
# up on records of hundreds of kilobytes inside compressed batches, so the records here stay below.
FAULTS = {(20, 1, "response"), (20, 2, "response")}
UNKNOWN = {"kafka.unsupported_api_version", "kafka.unknown_api_key", "kafka.request_missing"}
DISSECTED = {0, 1, 2, 3, 10, 18, 19, 20, 21, 22, 23, 32, 33, 35, 37, 44}      # what is to be judged where we serve it
MARK = b"end-of-capture"


class Capture:
    """dumpcap on the loopback interface, from the line that says it runs to the frame that carries MARK."""

    def __init__(self, broker, path):
        self.broker, self.path = broker, path
        tools.need("tshark", "dumpcap")
        self.process = subprocess.Popen(["dumpcap", "-q", "-i", "lo", "-f", f"tcp port {broker.port}", "-B", "64", "-w", path],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        said = b""
        while b"File: " not in said:
            ready, _, _ = select.select([self.process.stderr], [], [], 20)
            more = os.read(self.process.stderr.fileno(), 4096) if ready else b""
            said += more
            if not more:
                self.close()
                raise Skip("no capture on this machine, it needs root: " + " ".join(said.decode(errors="replace").split("dumpcap: ")[-1].split())[:120])

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def finish(self):
        """Returns how many packets were dropped."""
        with Conn(self.broker.addr, client_id=MARK.decode()) as c:
            c.call("ApiVersions", 0)
        deadline = time.monotonic() + 20
        while not self.has_mark():
            assert time.monotonic() < deadline, "the capture does not show the last frame"
            select.select([], [], [], 0.05)
        self.process.send_signal(signal.SIGINT)
        return self.process.communicate(timeout=20)[1].decode(errors="replace")

    def has_mark(self):
        with open(self.path, "rb") as f:
            f.seek(max(0, os.path.getsize(self.path) - 65536))
            return MARK in f.read()


def request(name, version, topic):
    """A valid one that changes nothing."""
    of_topic, name_ = {"type": 2, "name": str(topic)}, {"name": str(topic)}
    more = {
        "DeleteRecords": {"topics": [{**name_, "partitions": [{"partition": 0, "offset": 0}]}]},
        "DescribeConfigs": {"resources": [{**of_topic, "keys": None}], **({"with_synonyms": True} if version >= 1 else {})},
        "AlterConfigs": {"resources": [{**of_topic, "configs": [{"name": "retention.ms", "value": "1000"}]}], "validate_only": True},
        "IncrementalAlterConfigs": {"resources": [{**of_topic, "configs": [{"name": "retention.ms", "op": 0, "value": "1"}]}], "validate_only": True},
        "CreatePartitions": {"topics": [{**name_, "count": 9}], "validate_only": True},
        "DescribeLogDirs": {},
        "DescribeCluster": {},
        "DescribeTopicPartitions": {"topics": [name_]},
        "ListConfigResources": {},
    }
    return more[name] if name in more else minimal(name, version, topic)


def sweep(broker, topic):
    """Every served API at every version, one small request each; returns what has no request in the table."""
    left, names = set(), {api.key: name for name, api in schema.APIS.items()}
    with Conn(broker.addr) as c:
        for key, (low, high) in sorted(api_table(c).items()):
            name = names.get(key)
            high = min(high, 4) if key == 35 else high   # 5 is Kafka 4.3's
            for version in range(max(low, 3 if key == 0 else 0), high + 1):
                try:
                    c.call(name, version, **request(name, version, topic))
                except KeyError:
                    left.add(name or key)
    return left


def kafka_parts(packet):
    """The Kafka frames of a packet, each with the names of all fields in it; what follows a frame and is malformed belongs to it."""
    parts = []
    for proto in packet.findall("proto"):
        if proto.get("name") == "kafka":
            parts.append((proto, {f.get("name") for f in proto.iter("field")} | {p.get("name") for p in proto.iter("proto")}))
        elif proto.get("name") == "_ws.malformed" and parts:
            parts[-1][1].add("_ws.malformed")
    return parts


def number(proto, name):
    found = next((f for f in proto.iter("field") if f.get("name") == name), None)
    return None if found is None else int(found.get("show"))


def judged(path, port):
    """{(request or response, key, version): [frames, marks]} of what the dissector knows, and the complaints."""
    tshark = subprocess.Popen(["tshark", "-r", path, "-d", f"tcp.port=={port},kafka", "-Y", "kafka", "-T", "pdml"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    seen, unknown, bad = collections.Counter(), collections.Counter(), []
    for _, packet in ET.iterparse(tshark.stdout):
        if packet.tag != "packet":
            continue
        for proto, names in kafka_parts(packet):
            way = "request" if "kafka.request_key" in names else "response"
            what = (number(proto, f"kafka.{way}_key"), number(proto, f"kafka.{way}.version"), way)
            if what[0] == 18 and what[1] < 4 and way == "response":
                names -= UNKNOWN                     # the table names keys that it does not know; the frame is judged all the same
            if names & UNKNOWN or what[0] is None or what in FAULTS:
                unknown[what] += 1
                continue
            seen[what] += 1
            if any("malformed" in n or n.startswith("kafka.bad_") or "mismatch" in n for n in names if n):
                bad.append((what, number(proto, "kafka.len"), sorted(n for n in names if n and ("bad" in n or "malformed" in n or "mismatch" in n))))
        packet.clear()
    assert tshark.wait(60) == 0
    return seen, unknown, bad


def ranges(what):
    """{key: 'a-b'} of the versions."""
    by = collections.defaultdict(set)
    for key, version, _ in what:
        by[key].add(version)
    return {key: f"{min(v)}-{max(v)}" if len(v) > 1 else str(min(v)) for key, v in sorted(by.items())}


def small_run(c, broker, it):
    """The whole plan of a client with few and small records: what went wrong, and what it said."""
    few = matrix.Client(f"tshark {it.name}", it.command, it.lacks, {"records": 12, "large": 20_000})
    plan = matrix.Plan(few, broker, matrix.new_home())
    plan.whole({k["key"] for k in c.conn(broker).call("ApiVersions", 0)["keys"]}, {})
    _, steps, said = matrix.execute(plan)
    return {k: v for k, v in matrix.judge(plan, steps).items() if v != "yes"}, said


@test("tshark decodes a mixed run, every served API at every version, librdkafka's programs and kafka-python: nothing malformed among what its dissector knows")
def decoded(c):
    broker = c.own()
    topic = c.topic(broker=broker)
    capture = Capture(broker, os.path.join(broker.home, "capture.pcapng"))
    c.opened.append(capture)
    left = sweep(broker, topic)
    said, wrong = "", {}
    for name in (matrix.LIBRDKAFKA, "kafka-python 2.0.2"):
        wrong[name], more = small_run(c, broker, matrix.CLIENTS[name])
        said += more
    tools.kcat(broker.addr, "-P", "-t", topic, "-p", "0", "-z", "zstd", input=b"a\nb\n")
    tools.kcat(broker.addr, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q")
    said += capture.finish()
    assert not any(wrong.values()), f"{wrong}\n{said[-2000:]}"
    seen, unknown, bad = judged(capture.path, broker.port)
    assert not bad, f"{len(bad)} frames are malformed: {bad[:10]}"
    assert sum(seen.values()) > 50, f"only {sum(seen.values())} frames judged; {said[-500:]}"
    names = {api.key: name for name, api in schema.APIS.items()}
    told = ", ".join(f"{names.get(k, k)} {v}" for k, v in ranges(seen).items())
    print(f"# tshark judged {sum(seen.values())} frames: {told}")
    print(f"# too new for its dissector: {', '.join(f'{names.get(k, k)} {v}' for k, v in ranges(u for u in unknown if u[0] is not None).items())}"
          + (f"; no request at hand for {sorted(map(str, left))}" if left else ""))
    way = {(k, w) for k, _, w in seen}
    for key in DISSECTED & {k for k, _, _ in [*seen, *unknown]}:
        assert (key, "request") in way and (key, "response") in way, f"{names[key]} was not judged both ways"
    assert {0, 1, 2, 3, 18, 19, 20, 22} <= {k for k, _ in way}
