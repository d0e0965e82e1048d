"""A well-behaved client, measured while others misbehave, and the crowd that does (mob.py)."""
import os
import select
import subprocess
import sys
import time

from raw import batch as rb
from raw.broker import COMPAT
from raw.harness import fetch, metadata, produce

FLOOR_MS = 40                                        # below this, twice the undisturbed p99 is the machine's own noise
BUSY = 0.8                                           # processors are waited for so much of the time: nothing can be judged
STALL = 20                                           # so many times the limit is no noise: no second window
STARVED_S = 0.15                                     # without a processor for so long in a window: judged by p90; for half of it: by p50


def percentile(values, p):
    return sorted(values)[min(len(values) - 1, int(len(values) * p / 100))]


def starved_s(pids):
    """Seconds that their threads were ready to run and had no processor."""
    total = 0
    for pid in pids:
        for t in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{t}/schedstat", encoding="ascii") as f:
                    total += int(f.read().split()[1])
            except OSError:                          # a thread that just ended
                pass
    return total / 1e9


class Well:
    """Metadata, a record at acks=all, a fetch of it, in turn and at fixed instants (an open loop: who is kept waiting is seen to be late)."""

    def __init__(self, c, broker, topic):
        self.broker, self.topic = broker, topic
        self.conn = c.conn(broker, timeout=60)
        self.n = self.end = 0
        self.kept = {}                               # offset: value, all acknowledged

    def once(self):
        kind, self.n = self.n % 3, self.n + 1
        if kind == 0:
            assert metadata(self.conn, [str(self.topic)])["topics"][0]["error"] == 0
        elif kind == 1:
            value = b"well-%d" % self.n
            answer = produce(self.conn, self.topic, rb.batch([(None, value)]))
            assert answer["error"] == 0, answer
            self.end, self.kept[answer["base_offset"]] = answer["base_offset"], value
        else:
            assert fetch(self.conn, self.topic, self.end, max_wait_ms=1000)["records"]

    def window(self, seconds, every=0.01):
        """Milliseconds from each instant to the end of what was due then, and how long processors were not to be had."""
        pids = os.getpid(), self.broker.pid
        starved = starved_s(pids)
        out, due = [], time.monotonic()
        end = due + seconds
        while due < end:
            left = due - time.monotonic()
            if left > 0:
                select.select([], [], [], left)
            self.once()
            out.append((time.monotonic() - due) * 1000)
            due += every
        return out, starved_s(pids) - starved

    def undisturbed(self, seconds=1.5):
        self.window(0.2)                             # the first ones open files
        self.before = self.window(seconds)[0]
        return percentile(self.before, 99)

    def judge(self, seconds=2, windows=3, what="they misbehave"):
        """Within twice the undisturbed p99, in one of a few windows; call undisturbed() before."""
        tries = []
        for _ in range(windows):
            began = time.monotonic()
            took, starved = self.window(seconds)
            share = starved / (time.monotonic() - began)
            rank = 50 if share > 0.5 else 90 if starved > STARVED_S else 99
            limit = max(FLOOR_MS, 2 * percentile(self.before, rank))
            tries.append((percentile(took, rank), limit))
            print(f"# p50 {percentile(took, 50):.1f} p90 {percentile(took, 90):.1f} p99 {percentile(took, 99):.1f} max {max(took):.1f} ms while "
                  f"{what}; before p99 {percentile(self.before, 99):.1f}; {share:.0%} of the time without a processor: p{rank} judged, limit {limit:.0f}")
            if tries[-1][0] <= limit:
                return
            if share > BUSY:
                print("# no verdict: other work on this machine keeps everybody waiting")
                return
            assert tries[-1][0] <= STALL * limit, f"a well-behaved client is stalled while {what}: (ms, limit) {tries}"
        raise AssertionError(f"a well-behaved client waits while {what}: (ms, limit) {tries}")


class Crowd:
    """A running mob.py."""

    def __init__(self, c, broker, kind, count, *options):
        self.kind, self.heard, self.buffer = kind, {}, b""
        command = [sys.executable, os.path.join(COMPAT, "faults", "mob.py"), broker.addr, kind, str(count), *(str(o) for o in options)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        c.opened.append(self)

    @property
    def pid(self):
        return self.process.pid

    def listen(self, wait):
        """Take what it says within so many seconds. False: it said nothing."""
        if not select.select([self.process.stdout], [], [], wait)[0]:
            return False
        data = os.read(self.process.stdout.fileno(), 1 << 16)
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            word, n = line.decode().rsplit(" ", 1)
            self.heard[word] = int(n)
            assert not word.startswith("wrong"), f"{self.kind}: {line.decode()}"
        assert data or self.process.poll() in (None, 0), f"{self.kind} died"
        return bool(data)

    def wait(self, word, at_least=0, within=30):
        """Until it said this word with at least that number; the number."""
        deadline = time.monotonic() + within
        while self.heard.get(word, -1) < at_least:
            left = deadline - time.monotonic()
            assert left > 0, f"{self.kind}: '{word}' did not come within {within} s; it said {self.heard}"
            self.listen(left)
        return self.heard[word]

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process.stdout.close()
