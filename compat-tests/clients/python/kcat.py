"""Drives the kcat program. A kcat writes one kind of record per call (partition, headers, null or not), so runs of alike records share one."""
import json
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from contract import Lacks, Until, main, records_of

DELIMITER, LARGE = "\t", 100_000


class Kcat:
    client = "kcat"

    def __init__(self, broker, limit_s):
        self.broker, self.limit = broker, limit_s
        said = self.kcat("-V").decode()
        self.version = said.split("Version ")[1].split(" (")[0] + ", librdkafka " + said.split("librdkafka ")[1].split(" ")[0]

    def kcat(self, *args, data=None):
        command = ["kcat", *([] if args == ("-V",) else ["-b", self.broker, "-m", "10"]), *args]
        done = subprocess.run(command, input=data, capture_output=True, timeout=self.limit, check=False)
        if done.returncode or b"%3|" in done.stderr or b"ERROR" in done.stderr:
            raise RuntimeError(f"kcat exited {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}")
        return done.stdout

    def close(self):
        pass

    def metadata(self, *more):
        return json.loads(self.kcat("-L", "-J", *more))

    def list(self, _):
        return {"topics": sorted(t["topic"] for t in self.metadata()["topics"])}

    def describe(self, step):
        return {"partitions": len(self.metadata("-t", step["topic"])["topics"][0]["partitions"])}

    def produce(self, step):
        settings = ["-X", f"acks={step['acks']}", "-X", f"linger.ms={step['linger_ms']}", "-z", step["codec"],
                    "-X", f"enable.idempotence={'true' if step['idempotent'] else 'false'}"]
        records = records_of(step["records"])
        with ThreadPoolExecutor(4) as pool:          # partitions beside each other
            for done in [pool.submit(self.write_part, step["topic"], p, settings, [r for r in records if r[0] == p]) for p in {r[0] for r in records}]:
                done.result()
        return {"offsets": [-1] * len(records) if step["acks"] == 0 else self.where(step["topic"], records)}

    def write_part(self, topic, p, settings, records):
        run, kind = [], None
        for _, _, k, v, h in [*records, (p, 0, None, None, None)]:
            now = (None if h is None else tuple(h), None in (k, v), v if v and len(v) > LARGE else None)
            if run and now != kind:
                self.write(topic, p, settings, kind, run)
                run = []
            kind = now
            run.append((k, v))

    def where(self, topic, records):
        """kcat does not tell offsets; it ends when all is delivered, so the set is what lies before the end."""
        ends, out = self.query(topic, len({r[0] for r in records}), -1), []
        after = {p: sum(r[0] == p for r in records) for p in range(len(ends))}
        for p, *_ in records:
            out.append(ends[p] - after[p])
            after[p] -= 1
        return out

    def write(self, topic, p, settings, kind, run):
        headers, nulls, large = kind
        args = ["-P", "-t", topic, "-p", str(p), *settings]
        for name, value in headers:
            args += ["-H", name if value is None else f"{name}={value.decode()}"]
        if large:
            with tempfile.NamedTemporaryFile() as f:
                f.write(large)
                f.flush()
                self.kcat(*args, "-k", run[0][0].decode(), f.name)
            return
        lines = b"".join((k or b"") + DELIMITER.encode() + (v or b"") + b"\n" for k, v in run)
        self.kcat(*args, "-K", DELIMITER, *(["-Z"] if nulls else []), data=lines)

    def query(self, topic, partitions, timestamp):
        asks = [x for p in range(partitions) for x in ("-t", f"{topic}:{p}:{timestamp}")]
        told = {}
        for line in self.kcat("-Q", *asks).decode().splitlines():
            where, offset = line.rsplit(" ", 1)
            told[int(where.split("[")[1].split("]")[0])] = int(offset)
        return [told[p] for p in range(partitions)]

    def consume(self, step):
        n = len(step["until"])
        if step["from"] == "time":
            starts = [o if o < end else -1 for o, end in zip(self.query(step["topic"], n, step["time"]), step["until"])]
        else:
            starts = [0] * n if step["from"] == "earliest" else step["offsets"]
        left = Until(starts, step["until"])
        for p in sorted(left.open):
            at = {"earliest": "beginning", "time": f"s@{step.get('time')}"}.get(step["from"], str(starts[p]))
            for record in self.whole(step["topic"], p, at, step["until"][p]):
                left.saw(*record[:2])
                yield record
        if left.open:
            raise RuntimeError(f"partitions {sorted(left.open)} did not come to their ends")
        return starts

    def whole(self, topic, p, at, until):
        """Again when a record that nobody acknowledged (acks 0) is not there yet."""
        deadline = time.monotonic() + self.limit
        while True:
            out = self.kcat("-C", "-t", topic, "-p", str(p), "-o", at, "-e", "-q", "-X", "check.crcs=true",
                            "-f", "%p %o %T %K %S %h\\n%k%s\\n")
            records = list(parsed(out))
            if time.monotonic() > deadline or records and records[-1][1] + 1 >= until:
                return records

    def offsets(self, step):
        n = step["partitions"]
        return {"earliest": self.query(step["topic"], n, -2), "latest": self.query(step["topic"], n, -1)}

    def create(self, _):
        raise Lacks("kcat has no admin calls")


def parsed(out):
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        p, o, t, key, size, headers = out[at:end].decode().split(" ", 5)
        at, key, size = end + 1, int(key), int(size)
        k = None if key < 0 else out[at:at + key]
        at += max(key, 0)
        v = None if size < 0 else out[at:at + size]
        at += max(size, 0) + 1
        pairs = [h.partition("=") for h in headers.split(",")] if headers else []
        yield int(p), int(o), int(t), k, v, [(n, None if x == "NULL" else x.encode()) for n, _, x in pairs]


main(Kcat)
