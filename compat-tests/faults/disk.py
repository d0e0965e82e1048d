"""The disk under a broker, made troublesome through shim/ (LD_PRELOAD): rules of failure, a look at what was synced, power cuts."""
import os
import shutil
import struct
import tempfile
import threading
import time

from faults import ledger
from raw.broker import COMPAT, shell

SHIM = os.path.join(COMPAT, "faults", "shim")
FAST = "/dev/shm" if os.path.isdir("/dev/shm") else None     # the ledger must not be part of the syncs that it records


def build():
    return shell("compat_build", "fault-shim.so", SHIM, "cc", "-std=gnu2x", "-O1", "-g", "-Wall", "-Wextra", "-Wshadow", "-Werror",
                 "-shared", "-fPIC", "-o", "{}", "shim.c", "rules.c", "ledger.c", "clock.c", "-ldl", "-lpthread")


def until(condition, within=10, what="it"):
    """Ask again and again, briefly waiting, until true; the value. AssertionError when the time is up."""
    deadline, pause = time.monotonic() + within, threading.Event()
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come within {within} s")
        pause.wait(0.002)


class Disk:
    """Owns the data directory of one broker, whose environment must be .env."""

    def __init__(self, contents=False, parent=None):
        self.home = tempfile.mkdtemp(prefix="faults-", dir=parent or os.environ.get("COMPAT_TMP"))
        self.fast = tempfile.mkdtemp(prefix="faults-", dir=FAST)
        self.data = os.path.join(os.path.realpath(self.home), "data")
        self.log, self.control = os.path.join(self.fast, "ledger"), os.path.join(self.fast, "control")
        sanitizer = os.environ.get("ASAN_OPTIONS", "")
        self.clock = os.path.join(self.fast, "clock")
        self.wall_shift(0)
        self.env = {"LD_PRELOAD": build(), "FAULT_ROOT": self.data, "FAULT_LOG": self.log, "FAULT_CONTROL": self.control,
                    "FAULT_CLOCK": self.clock,
                    "ASAN_OPTIONS": f"{sanitizer}:verify_asan_link_order=0".lstrip(":")}
        if contents:
            self.env["FAULT_DATA"] = "1"
        self.ledger = ledger.Ledger(self.data, self.log)
        self.read_to, self.seen = 0, []
        self.cuts = 0

    def close(self):
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.rmtree(self.fast, ignore_errors=True)

    # ---- rules ----

    def arm(self, *rules):
        """From the next call on these rules hold (shim/rules.h), and no others. Forgets what struck before."""
        self.events()
        self.seen.clear()
        with open(self.control + ".new", "w", encoding="ascii") as f:
            f.write("".join(r + "\n" for r in rules))
        os.rename(self.control + ".new", self.control)

    def disarm(self):
        self.arm()

    def wall_shift(self, ms):
        """The broker's wall clock is off by so much from now on (shim/clock.c)."""
        with open(self.clock, "r+b" if os.path.exists(self.clock) else "wb") as f:
            f.write(struct.pack("=q", ms))

    # ---- what happened ----

    def events(self):
        """Every record since the rules were armed."""
        if os.path.exists(self.log):
            for r, self.read_to in ledger.records(self.log, self.read_to):
                self.seen.append(r._replace(data=b""))
        return self.seen

    def strikes(self, rule=None):
        return [r for r in self.events() if r.op == ledger.FAULT and rule in (None, r.n)]

    def struck(self, n=1, rule=None, within=10):
        """Wait until rules struck n times."""
        return until(lambda: len(self.strikes(rule)) >= n and self.strikes(rule), within, f"{n} strikes of a rule")

    # ---- power ----

    def note_kill(self):
        """The process was killed and nothing else: the page cache is whole. Returns how many calls the kill hid."""
        self.ledger.catch_up()
        return self.ledger.reconcile()

    def cut_power(self, rng, mood):
        """The process is dead. The data directory becomes what the disk may hold; (names, bytes) that were unsynced."""
        self.note_kill()
        lost = self.ledger.unsynced()
        image, old = self.data + ".image", self.data + ".old"
        self.ledger.image(image, rng, mood)
        os.rename(self.data, old)
        os.rename(image, self.data)
        shutil.rmtree(old)
        os.unlink(self.log)
        self.read_to, self.cuts = 0, self.cuts + 1
        self.seen.clear()
        self.ledger = ledger.Ledger(self.data, self.log)
        return lost


def troubled(c, contents=False, start=True, **settings):
    """A broker of its own on a troublesome disk: (broker, disk)."""
    if not c.perigee:
        c.skip("the faults are perigee's")
    disk = Disk(contents)
    c.opened.append(disk)
    return c.own(start=start, data=disk.data, env=disk.env, **settings), disk
