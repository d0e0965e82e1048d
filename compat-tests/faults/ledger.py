"""From the shim's ledger to what a disk may hold after a power cut.

Every file has a durable content and what was done to it since; every directory durable names and what was done to them. A sync moves what had
been done when it began; a failed one dooms it: the kernel forgets such pages, so no later sync makes them durable. image() builds a directory:
durable state, plus per directory a seeded prefix of its newer names, plus per file a seeded subset of its newer 4 KiB pages, torn at 512 bytes.
"""
import os
import struct
from collections import namedtuple

START, CREATE, MKDIR, UNLINK, RENAME, WRITE, SIZE, SYNC_BEGIN, SYNC_END, FAULT = range(1, 11)
HEAD = struct.Struct("<IB3xi4xQQqqHH4x")
PAGE, SECTOR = 4096, 512
MOODS = ("nothing", "pages", "mixed", "everything")

Record = namedtuple("Record", "op n ino a b ns name name2 data")


def records(path, at=0):
    """(record, offset behind it) of every whole record from `at` on."""
    with open(path, "rb") as f:
        f.seek(at)
        data = f.read()
    i = 0
    while i + HEAD.size <= len(data):
        size, op, n, ino, a, b, ns, n1, n2 = HEAD.unpack_from(data, i)
        if i + size > len(data):
            return
        body = i + HEAD.size
        yield Record(op, n, ino, a, b, ns, data[body:body + n1].decode(), data[body + n1:body + n1 + n2].decode(),
                     data[body + n1 + n2:i + size]), at + i + size
        i += size


def put(content, at, data):
    if at > len(content):
        content.extend(bytes(at - len(content)))
    content[at:at + len(data)] = data


def resize(content, size):
    if size < len(content):
        del content[size:]
    else:
        content.extend(bytes(size - len(content)))


class File:
    def __init__(self, content=b""):
        self.durable, self.now = bytearray(content), bytearray(content)
        self.pending = []                            # [number, at or None, data or size, doomed]

    def do(self, number, at, what):
        self.apply(self.now, at, what)
        self.pending.append([number, at, what, False])

    @staticmethod
    def apply(content, at, what):
        if at is None:
            resize(content, what)
        else:
            put(content, at, what)

    def settle(self, before):
        rest = []
        for p in self.pending:
            if p[0] < before and not p[3]:
                self.apply(self.durable, p[1], p[2])
            else:
                rest.append(p)
        self.pending = rest

    def doom(self, before):
        for p in self.pending:
            p[3] = p[3] or p[0] < before

    def after_cut(self, rng, mood):
        ops = [p for p in self.pending if not p[3]]
        out = bytearray(self.durable)
        if mood == "nothing" or not ops:
            return out
        reached = {}                                 # sector: how many of ops it has seen
        sizes = len(ops) if mood == "everything" else rng.randint(0, len(ops))

        def sector_reached(sector):
            if mood == "everything":
                return len(ops)
            page = sector * SECTOR // PAGE
            if page not in reached:
                kind = rng.random()
                whole = rng.choice((0, len(ops), rng.randint(0, len(ops))))
                reached[page] = [rng.choice((0, len(ops))) for _ in range(PAGE // SECTOR)] if kind < 0.3 else [whole] * (PAGE // SECTOR)
            return reached[page][sector % (PAGE // SECTOR)]

        for i, (_, at, what, _) in enumerate(ops):
            if at is None:
                if i < sizes:
                    resize(out, what)
                continue
            for sector in range(at // SECTOR, (at + len(what) + SECTOR - 1) // SECTOR):
                begin, end = max(at, sector * SECTOR), min(at + len(what), (sector + 1) * SECTOR)
                if sector_reached(sector) > i:
                    put(out, begin, what[begin - at:end - at])
        return out


class Dir:
    def __init__(self, names=None):
        self.durable, self.now = dict(names or {}), dict(names or {})
        self.pending = []                            # [number, [(name, ino or None)], doomed]

    def do(self, number, *changes):
        self.apply(self.now, changes)
        self.pending.append([number, changes, False])

    @staticmethod
    def apply(names, changes):
        for name, ino in changes:
            if ino is None:
                names.pop(name, None)
            else:
                names[name] = ino

    def settle(self, before):
        for p in self.pending:
            if p[0] < before and not p[2]:
                self.apply(self.durable, p[1])
        self.pending = [p for p in self.pending if p[0] >= before or p[2]]

    def doom(self, before):
        for p in self.pending:
            p[2] = p[2] or p[0] < before

    def after_cut(self, rng, mood):
        out = dict(self.durable)
        ops = [p for p in self.pending if not p[2]]
        n = {"nothing": 0, "everything": len(ops)}.get(mood)
        for p in ops[:rng.randint(0, len(ops)) if n is None else n]:
            self.apply(out, p[1])
        return out


class Ledger:
    """The files below root, from now on."""

    def __init__(self, root, log):
        self.root, self.log, self.at, self.number = root, log, 0, 0
        self.inodes, self.syncs = {}, {}
        if os.path.isdir(root):
            self._look(root)

    def _look(self, path):
        """Take what is there as durable."""
        ino = os.stat(path).st_ino
        if os.path.isdir(path):
            self.inodes[ino] = Dir({e: self._look(os.path.join(path, e)) for e in os.listdir(path)})
        else:
            with open(path, "rb") as f:
                self.inodes[ino] = File(f.read())
        return ino

    # ---- reading on ----

    def catch_up(self, dead=True):
        """Take in what the ledger says by now. dead: the process is gone, so the torn end of the ledger goes too."""
        if os.path.isdir(self.root):
            self.inodes.setdefault(os.stat(self.root).st_ino, Dir())
        if not os.path.exists(self.log):
            return
        for r, self.at in records(self.log, self.at):
            self.number += 1
            self._take(r)
        if dead:
            os.truncate(self.log, self.at)

    def _take(self, r):
        if r.op == START:
            self.syncs.clear()
        elif r.op in (CREATE, MKDIR):
            self.inodes[r.ino] = File() if r.op == CREATE else Dir()
            self._dir(r.a).do(self.number, (r.name, r.ino))
        elif r.op == UNLINK:
            self._dir(r.a).do(self.number, (r.name, None))
        elif r.op == RENAME:
            self._rename(r)
        elif r.op == WRITE:
            if len(r.data) != r.b:
                raise ValueError("a ledger without contents plays no power cut: FAULT_DATA was not set")
            self._file(r.ino).do(self.number, r.a, r.data)
        elif r.op == SIZE:
            self._file(r.ino).do(self.number, None, r.a)
        elif r.op == SYNC_BEGIN:
            self.syncs[r.a] = (self.number, None if r.b else r.ino)
        elif r.op == SYNC_END:
            self._synced(r)

    def _rename(self, r):
        if r.a == r.b:
            self._dir(r.a).do(self.number, (r.name, None), (r.name2, r.ino))
        else:
            self._dir(r.a).do(self.number, (r.name, None))
            self._dir(r.b).do(self.number, (r.name2, r.ino))

    def _synced(self, r):
        before, ino = self.syncs.pop(r.a)
        if r.b:
            return                                   # it lied
        for node in self.inodes.values() if ino is None else [self.inodes[ino]] if ino in self.inodes else []:
            if r.n == 0:
                node.settle(before)
            else:
                node.doom(before)

    def _dir(self, ino):
        return self.inodes.setdefault(ino, Dir())

    def _file(self, ino):
        return self.inodes.setdefault(ino, File())

    # ---- what a kill hid ----

    def reconcile(self):
        """Call after a kill: the last calls may be in the files and not in the ledger. Returns how many differences there were."""
        return self._compare(self.root, os.stat(self.root).st_ino) if os.path.isdir(self.root) else 0

    def _compare(self, path, ino):
        if not os.path.isdir(path):
            return self._compare_file(path, self._file(ino))
        node, count = self._dir(ino), 0
        real = {e: os.lstat(os.path.join(path, e)).st_ino for e in os.listdir(path)}
        self.number += 1
        changes = [(n, None) for n in node.now if n not in real] + [(n, i) for n, i in real.items() if node.now.get(n) != i]
        if changes:
            node.do(self.number, *changes)
            count += 1
        return count + sum(self._compare(os.path.join(path, n), i) for n, i in real.items())

    def _compare_file(self, path, node):
        with open(path, "rb") as f:
            real = f.read()
        if real == node.now:
            return 0
        self.number += 1
        same = len(os.path.commonprefix([bytes(node.now), real]))
        node.do(self.number, None, len(real))
        if same < len(real):
            node.do(self.number, same, real[same:])
        return 1

    # ---- the cut ----

    def unsynced(self):
        """(operations on names, bytes) that no sync covered."""
        names = sum(len(n.pending) for n in self.inodes.values() if isinstance(n, Dir))
        return names, sum(len(p[2]) for n in self.inodes.values() if isinstance(n, File) for p in n.pending if p[1] is not None)

    def image(self, target, rng, mood):
        """Write what the disk may hold after the cut into a new directory."""
        self._write(os.stat(self.root).st_ino, target, rng, mood)

    def _write(self, ino, path, rng, mood):
        node = self.inodes[ino]
        here = rng.choice(MOODS[:3]) if mood == "mixed" else mood
        if isinstance(node, Dir):
            os.mkdir(path)
            for name, child in sorted(node.after_cut(rng, here).items()):
                self._write(child, os.path.join(path, name), rng, mood)
        else:
            with open(path, "wb") as f:
                f.write(node.after_cut(rng, here))
