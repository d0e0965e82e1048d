"""From the shim's ledger to what a disk may hold after a power cut.

Every file has a durable content and what was done to it since; every directory durable names and what was done to them. A sync
moves what had been done when it began; a failed one dooms it: the kernel forgets such pages, so no later sync makes them durable.
image() builds a directory: durable state, plus per directory a seeded prefix of its newer names, plus per file a seeded subset of
its newer 4 KiB pages, torn at 512 bytes.
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
                torn = [rng.choice((0, len(ops))) for _ in range(PAGE // SECTOR)]
                reached[page] = torn if kind < 0.3 else [whole] * (PAGE // SECTOR)
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
        self.pending = []                            # [number, [(name, node or None)], None, doomed]

    def do(self, number, *changes):
        self.apply(self.now, changes)
        self.pending.append([number, changes, None, False])

    @staticmethod
    def apply(names, changes):
        for name, node in changes:
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node

    def settle(self, before):
        for p in self.pending:
            if p[0] < before and not p[3]:
                self.apply(self.durable, p[1])
        self.pending = [p for p in self.pending if p[0] >= before or p[3]]

    def doom(self, before):
        for p in self.pending:
            p[3] = p[3] or p[0] < before

    def after_cut(self, rng, mood):
        out = dict(self.durable)
        ops = [p for p in self.pending if not p[3]]
        n = {"nothing": 0, "everything": len(ops)}.get(mood)
        for p in ops[:rng.randint(0, len(ops)) if n is None else n]:
            self.apply(out, p[1])
        return out


class Ledger:
    """The files below root, from now on. Names lead to nodes, for inode numbers of removed files are used again at once."""

    def __init__(self, root, log):
        self.root, self.log, self.at, self.number = root, log, 0, 0
        self.nodes, self.by_ino, self.syncs = [], {}, {}
        self.top = self._look(root) if os.path.isdir(root) else self._node(0, Dir())

    def _node(self, ino, node):
        self.by_ino[ino] = node
        self.nodes.append(node)
        return node

    def _look(self, path):
        """Take what is there as durable."""
        ino = os.stat(path).st_ino
        if os.path.isdir(path):
            return self._node(ino, Dir({e: self._look(os.path.join(path, e)) for e in os.listdir(path)}))
        with open(path, "rb") as f:
            return self._node(ino, File(f.read()))

    # ---- reading on ----

    def catch_up(self):
        """The process is gone: take in what the ledger says; its torn end, if any, is cut off."""
        if os.path.isdir(self.root):
            self.by_ino[os.stat(self.root).st_ino] = self.top
        if not os.path.exists(self.log):
            return
        for r, self.at in records(self.log, self.at):
            self.number += 1
            self._take(r)
        os.truncate(self.log, self.at)

    def _take(self, r):
        if r.op == START:
            self.syncs.clear()
        elif r.op in (CREATE, MKDIR):
            self.by_ino[r.a].do(self.number, (r.name, self._node(r.ino, File() if r.op == CREATE else Dir())))
        elif r.op == UNLINK:
            self.by_ino[r.a].do(self.number, (r.name, None))
        elif r.op == RENAME:
            self._rename(r)
        elif r.op == WRITE:
            if len(r.data) != r.b:
                raise ValueError("a ledger without contents plays no power cut: FAULT_DATA was not set")
            self.by_ino[r.ino].do(self.number, r.a, r.data)
        elif r.op == SIZE:
            self.by_ino[r.ino].do(self.number, None, r.a)
        elif r.op == SYNC_BEGIN:
            self.syncs[r.a] = (self.number, list(self.nodes) if r.b else [self.by_ino[r.ino]])
        elif r.op == SYNC_END:
            self._synced(r)

    def _rename(self, r):
        node = self.by_ino[r.ino]
        if r.a == r.b:
            self.by_ino[r.a].do(self.number, (r.name, None), (r.name2, node))
        else:
            self.by_ino[r.a].do(self.number, (r.name, None))
            self.by_ino[r.b].do(self.number, (r.name2, node))

    def _synced(self, r):
        before, nodes = self.syncs.pop(r.a)
        for node in [] if r.b else nodes:            # b: it lied
            if r.n == 0:
                node.settle(before)
            else:
                node.doom(before)

    # ---- what a kill hid ----

    def reconcile(self):
        """Call after a kill: the last calls may be in the files and not in the ledger. Returns how many differences there were."""
        return self._compare(self.root, self.top) if os.path.isdir(self.root) else 0

    def _compare(self, path, node):
        if isinstance(node, File):
            return self._compare_file(path, node)
        self.number += 1
        changes, count = [(n, None) for n in node.now if not os.path.lexists(os.path.join(path, n))], 0
        for name in sorted(os.listdir(path)):
            child = os.path.join(path, name)
            ino = os.stat(child).st_ino
            known = node.now.get(name)
            if known is None or known is not self.by_ino.get(ino):
                known = self._hidden(ino, os.path.isdir(child))
                changes.append((name, known))
            count += self._compare(child, known)
        if changes:
            node.do(self.number, *changes)
        return count + bool(changes)

    def _hidden(self, ino, is_dir):
        """The node of a name that the kill hid: a renamed one, else a new one."""
        known = self.by_ino.get(ino)
        named = any(known in d.now.values() for d in self.nodes if isinstance(d, Dir))
        return known if named and isinstance(known, Dir) == is_dir else self._node(ino, Dir() if is_dir else File())

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
        names = sum(len(n.pending) for n in self.nodes if isinstance(n, Dir))
        return names, sum(len(p[2]) for n in self.nodes if isinstance(n, File) for p in n.pending if p[1] is not None)

    def image(self, target, rng, mood):
        """Write what the disk may hold after the cut into a new directory."""
        self._write(self.top, target, rng, mood)

    def _write(self, node, path, rng, mood):
        here = rng.choice(MOODS[:3]) if mood == "mixed" else mood
        if isinstance(node, Dir):
            os.mkdir(path)
            for name, child in sorted(node.after_cut(rng, here).items()):
                self._write(child, os.path.join(path, name), rng, mood)
        else:
            with open(path, "wb") as f:
                f.write(node.after_cut(rng, here))
