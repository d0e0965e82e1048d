#!/usr/bin/env python3
"""Kill -9 under load, judged by the history checker (T1, T24; I1-I4, I7-I9, I11, I12, I16).

usage: kill9.py ROUNDS [--broker perigee|kafka] [--shards N] [--seed S] [--keep DIR]
A round: a fresh topic, stock producers and a consumer (c/load.c) and raw ones (raw/load.py); kill -9 after 0.5-3 s drawn from the
seed; restart on the same port and data; the clients go on, then stop; a final reader; the checker. Every tenth round the last
ten topics are read again, at the end all of them. Prints the seed first: the same seed draws the same kill times.
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile
import time

COMPAT = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, COMPAT)

from check import history as checker                 # noqa: E402
from raw import dumplog, load, tools                          # noqa: E402
from raw.broker import Broker                        # noqa: E402
from raw.harness import settle                       # noqa: E402
from raw.wire import Conn                            # noqa: E402

PARTITIONS = 3


class Round:
    def __init__(self, number, broker, folder):
        self.topic, self.broker, self.number = f"round-{number}", broker, number
        self.folder = os.path.join(folder, f"{number:03}")
        os.makedirs(self.folder)
        self.finals = 0

    def path(self, name):
        return os.path.join(self.folder, name + ".jsonl")

    def create(self):
        with Conn(self.broker.addr) as c:
            answer = c.call("CreateTopics", 7, topics=[{"name": self.topic, "partitions": PARTITIONS, "replication": 1, "configs": [
                {"name": "segment.bytes", "value": "1048576"}]}])["topics"][0]
            assert answer["error"] == 0, answer
            if self.broker.kind == "kafka":
                settle(c, self.topic, PARTITIONS)

    def begin(self):
        addr = self.broker.addr
        self.stock = subprocess.Popen([tools.c_binary("load"), addr, self.topic, str(PARTITIONS), f"s{self.number}", self.path("stock")],
                                      stdin=subprocess.PIPE)
        self.actors = [load.Producer(addr, self.topic, p, f"r{self.number}p{p}", self.path(f"raw{p}")) for p in range(2)]
        self.actors.append(load.Reader(addr, self.topic, PARTITIONS, f"r{self.number}reader", self.path("reader")))
        for a in self.actors:
            a.start()

    def end(self):
        """Clients stop; what they say must never happen is a failure of the round."""
        self.stock.stdin.close()
        troubles = [t for t in (a.finish() for a in self.actors) if t]
        status = self.stock.wait(90)
        if self.broker.kind == "kafka":
            status = 0                               # Kafka forgets the window in a crash, librdkafka then gives up; the data is still judged
        return troubles + ([f"librdkafka load exited {status}"] if status else [])

    def judge(self):
        self.finals += 1
        final = load.Final(self.broker.addr, self.topic, f"final{self.finals}", self.path(f"final{self.finals}"))
        final.read_all(PARTITIONS)
        h = checker.read([os.path.join(self.folder, f) for f in sorted(os.listdir(self.folder))])
        judge = checker.Judge(h)
        judge.run()
        told = checker.summary(h, judge)
        acked = told["sends"].get("ok", 0)
        troubles = [f"{a} {t}" for a, t in judge.found[:10]]
        return acked, told, troubles + (["nothing was acknowledged"] if not acked else [])


def sabotage(broker, topic):
    """Proof that the checker sees a loss: the end of each log is cut off behind the dead broker's back."""
    for p in range(PARTITIONS):
        with open(os.path.join(broker.data, f"{topic}-{p}", "00000000000000000000.log"), "rb+") as f:
            f.truncate(f.seek(0, os.SEEK_END) // 2)


def play(number, broker, rng, folder, spoil=False):
    r = Round(number, broker, folder)
    r.create()
    r.begin()
    wait = rng.uniform(0.5, 3.0)
    time.sleep(wait)                                 # the load's length is the test, not a wait for something
    broker.kill9()
    if spoil:
        sabotage(broker, r.topic)
    broker.start()
    time.sleep(rng.uniform(0.1, 0.5))
    troubles = r.end()
    acked, told, more = r.judge()
    print(f"round {number}: killed after {wait:.2f} s, {acked} acknowledged, {told['polled']} polled, {told['final']} at the end, "
          f"{told['marks']} marks, {told['batches_sent']} batches, plain duplicates {told['allowed'].get('I3', 0)}"
          f"{' FAILED' if troubles or more else ''}", flush=True)
    return r, troubles + more


def rounds(count, kind, shards, seed, folder, spoil=False):
    """Returns the list of troubles."""
    rng = random.Random(seed)
    print(f"kill9: {count} rounds, {kind}, shards={shards}, seed {seed}", flush=True)
    troubles, played, acked = [], [], 0
    broker = Broker(kind, shards)
    try:
        broker.start()
        for number in range(count):
            r, bad = play(number, broker, rng, folder, spoil)
            played.append(r)
            troubles += [f"round {number}: {b}" for b in bad]
            if number % 10 == 9 or number == count - 1:
                for old in played if number == count - 1 else played[-10:]:
                    n, _, bad = old.judge()
                    acked = acked + n if number == count - 1 else acked
                    troubles += [f"round {old.number} read again after {number}: {b}" for b in bad]
            if troubles:
                print("".join(f"  {t}\n" for t in troubles[:20]), end="")
                print(broker.log_text()[-2000:])
                break
        if not troubles:
            broker.stop()
            print(f"kill9: kafka-dump-log read {dumplog.judge(broker.data, deep=False)} files without complaint", flush=True)
    finally:
        broker.close()
    print(f"kill9: {len(played)} rounds, {acked} acknowledged records, {len(troubles)} troubles", flush=True)
    return troubles


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0])
    parser.add_argument("rounds", type=int)
    parser.add_argument("--broker", default="perigee")
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--keep", default=None)
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    with tempfile.TemporaryDirectory(prefix="kill9-") as scratch:
        folder = options.keep or scratch
        os.makedirs(folder, exist_ok=True)
        return 1 if rounds(options.rounds, options.broker, options.shards, seed, folder) else 0


if __name__ == "__main__":
    sys.exit(main())
