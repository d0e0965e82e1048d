"""A crowd of clients in a process of their own, so that what they cost the test's machine is theirs and not the measured client's.

usage: mob.py ADDRESS KIND COUNT [OPTION]      says one line for each thing that happened ("up 500"), and leaves when standard input closes

  idle           connect and stay silent
  head           three bytes of a size, then silence (T56)
  drip [SIZE]    a request of SIZE bytes is announced, one byte of it comes each second (T56)
  mute [TOPIC]   ask for megabytes again and again and never read (T56)
  flood [N]      N requests each, nobody reads the answers before all were sent (T61); says "answered N"
  big [TOPIC]    one batch of 1 MB each, at acks=all, until every one is acknowledged (T66); says "acked N"
  work [TOPIC]   produce and consume, one record after the other, counting; says "worked N" at the end, what went wrong before (T22)
"""
import os
import resource
import selectors
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from raw import batch as rb                          # noqa: E402
from raw import schema                               # noqa: E402
from raw.wire import CLIENT_ID, Conn, address, frame, request_header   # noqa: E402

PER_SOURCE = 5000                                    # connections from one source address: its ports are finite
BIG_BYTES = 1_000_000
REFUSED = (56, 7, 10)                                # retriable: storage, time-out


def say(what, n):
    print(what, n, flush=True)


def request(api, version, values, correlation=1, client_id=CLIENT_ID):
    a = schema.APIS[api]
    return frame(request_header(a.key, version, correlation, client_id, version >= a.flex) + schema.encode(api, version, values))


class Member:
    """One socket of the crowd: what it still has to send, what came."""

    def __init__(self, sock, number):
        self.sock, self.number = sock, number
        self.out, self.heard = b"", b""
        self.closed = False

    def push(self):
        """Send what the kernel takes. False: the peer is gone."""
        while self.out:
            try:
                self.out = self.out[self.sock.send(self.out[:1 << 18]):]
            except BlockingIOError:
                return True
            except OSError:
                return False
        return True

    def take(self):
        """Read what is there. False: the peer is gone."""
        try:
            data = self.sock.recv(1 << 18)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.heard += data
        return bool(data)


class Mob:
    def __init__(self, addr, count):
        self.host, self.port = address(addr)
        self.watch = selectors.DefaultSelector()
        self.watch.register(sys.stdin.fileno(), selectors.EVENT_READ)
        self.members = [self.join(i) for i in range(count)]
        self.gone = 0

    def join(self, i):
        sock = socket.socket()
        sock.bind((f"127.0.0.{1 + i // PER_SOURCE}", 0))
        sock.settimeout(60)
        sock.connect((self.host, self.port))
        sock.setblocking(False)
        return Member(sock, i)

    def hear(self, events=selectors.EVENT_READ):
        for m in self.members:
            if not m.closed:
                self.watch.register(m.sock, events, m)

    def leave(self, m):
        if not m.closed:
            m.closed = True
            self.watch.unregister(m.sock)
            m.sock.close()
            self.gone += 1

    def happenings(self, wait):
        """(member, mask) until `wait` seconds passed; ends the process when standard input closes."""
        until = time.monotonic() + wait
        while (left := until - time.monotonic()) > 0:
            for key, mask in self.watch.select(left):
                if key.data is None:
                    os._exit(0)
                yield key.data, mask

    def stay(self):
        """Until nobody wants the crowd any more; says how many were shown the door, when that number changes."""
        said = 0
        while True:
            for m, _ in self.happenings(0.5):
                if not m.take():
                    self.leave(m)
            if self.gone != said:
                said = self.gone
                say("cut", said)


def idle(mob, _):
    mob.hear()
    say("up", len(mob.members))
    mob.stay()


def head(mob, _):
    for m in mob.members:
        m.sock.send(b"\0\0\1")
    idle(mob, _)


def drip(mob, size):
    size = int(size or 60_000)
    start = struct.pack(">i", size) + request_header(0, 7, 1)
    for m in mob.members:
        m.sock.send(start[:4])
    mob.hear()
    say("up", len(mob.members))
    said, at = 0, 4
    while True:
        for m, _ in mob.happenings(1):
            if not m.take():
                mob.leave(m)
        for m in mob.members:
            m.out = start[at:at + 1] or b"\0"
            if not m.closed and not m.push():
                mob.leave(m)
        at += 1
        if mob.gone != said:
            said = mob.gone
            say("cut", said)


def mute(mob, topic):
    ask = request("Fetch", 12, {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 6_000_000, "topics": [{
        "name": topic, "partitions": [{"partition": 0, "offset": 0, "max_bytes": 6_000_000}]}]})
    for m in mob.members:
        m.out = ask * 200
        m.push()
    say("up", len(mob.members))
    for m, _ in mob.happenings(3600):
        pass


def flood(mob, n):
    n = int(n or 100_000)
    one = request("ApiVersions", 0, {}, client_id="x" * 250)      # requests and answers are more than sockets hold
    for m in mob.members:
        m.out = b"".join(one[:8] + struct.pack(">i", i) + one[12:] for i in range(n))
        m.push()
    say("up", len(mob.members))
    mob.hear(selectors.EVENT_WRITE)
    left, moved = list(mob.members), True
    while moved:                                     # nothing is read: the broker must stop taking
        moved = False
        for m, _ in mob.happenings(0.7):
            before = len(m.out)
            if not m.push() or not m.out:
                mob.watch.unregister(m.sock)
            moved = moved or len(m.out) != before
    say("stuck", sum(bool(m.out) for m in left))
    for m in left:
        answered(m, n)
    say("answered", len(left) * n)
    mob.stay()


def answered(m, n):
    """Every answer once and in order, while the rest is sent."""
    m.sock.setblocking(True)
    m.sock.settimeout(0.05)
    seen = 0
    while seen < n:
        if m.out:
            m.sock.setblocking(False)
            m.push()
            m.sock.settimeout(0.05)
        try:
            data = m.sock.recv(1 << 20)
        except TimeoutError:
            continue
        if not data:
            say("wrong: closed after", seen)
            os._exit(1)
        m.heard += data
        at = 0
        while at + 8 <= len(m.heard):
            size, correlation = struct.unpack_from(">ii", m.heard, at)
            if at + 4 + size > len(m.heard):
                break
            if correlation != seen:
                say("wrong: correlation", correlation)
                os._exit(1)
            seen, at = seen + 1, at + 4 + size
        m.heard = m.heard[at:]
    m.sock.setblocking(False)


def big_request(topic, number):
    value = (b"big-%d." % number).ljust(BIG_BYTES, b".")
    return request("Produce", 9, {"acks": -1, "timeout_ms": 60_000, "topics": [{"name": topic, "partitions": [
        {"index": 0, "records": rb.batch([(None, value)])}]}]})


def verdict(m):
    """The error of a whole answer that came, or None."""
    if len(m.heard) < 4 or len(m.heard) < 4 + struct.unpack_from(">i", m.heard)[0]:
        return None
    size = struct.unpack_from(">i", m.heard)[0]
    values, _ = schema.decode("Produce", 9, m.heard[9:4 + size])       # correlation id and an empty tag section before it
    m.heard = m.heard[4 + size:]
    return values["topics"][0]["partitions"][0]["error"]


def big(mob, topic):
    acked, again = 0, 0
    say("up", len(mob.members))
    waiting = list(mob.members)
    window = []
    while acked < len(mob.members):
        for m in waiting[:64 - len(window)] if len(window) < 64 else []:       # what lies ready here; sockets hold the rest
            m.out = big_request(topic, m.number)
            mob.watch.register(m.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, m)
            window.append(m)
            waiting.remove(m)
        for m, mask in mob.happenings(1):
            if not m.push() or (mask & selectors.EVENT_READ and not m.take()):
                say("wrong: cut off", m.number)
                os._exit(1)
            if not m.out:
                mob.watch.modify(m.sock, selectors.EVENT_READ, m)
                if m in window:
                    window.remove(m)
            error = verdict(m)
            if error in REFUSED:
                again += 1
                m.out = big_request(topic, m.number)
                mob.watch.modify(m.sock, selectors.EVENT_READ | selectors.EVENT_WRITE, m)
            elif error is not None:
                if error:
                    say("wrong: error", error)
                    os._exit(1)
                acked += 1
            if len(window) < 64 and waiting or acked == len(mob.members):
                break
    say("refused", again)
    say("acked", acked)
    mob.stay()


def work(mob, topic):
    """One member at a time would do: this one is stopped and goes on."""
    from raw.harness import fetch, produce
    at = n = 0
    said = False
    with Conn((mob.host, mob.port), timeout=120) as c:
        say("up", 1)
        while True:
            for _ in mob.happenings(0.001):
                pass
            answer = produce(c, topic, rb.batch([(None, b"w%d" % n)]))
            if (answer["error"], answer["base_offset"]) != (0, n):
                say(f"wrong: {answer['error']} offset {answer['base_offset']} instead of", n)
                os._exit(1)
            n += 1
            while at < n:
                for b in rb.batches(fetch(c, topic, at, max_wait_ms=5000)["records"]):
                    for r in b.records():
                        if r[0] == at and r[3] != b"w%d" % at:
                            say(f"wrong: {r[3][:20]} read at", at)
                            os._exit(1)
                        at = max(at, r[0] + 1)
            if not said and n >= 100:
                said = True
                say("worked", n)


def main():
    addr, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    want = count + 64
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard < want:
        resource.setrlimit(resource.RLIMIT_NOFILE, (want, want))       # root may
    else:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(want, 1024)), hard))
    kinds = {f.__name__: f for f in (idle, head, drip, mute, flood, big, work)}
    kinds[kind](Mob(addr, 0 if kind == "work" else count), sys.argv[4] if len(sys.argv) > 4 else None)


if __name__ == "__main__":
    main()
