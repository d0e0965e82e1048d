"""The contract of ../README.md for a Python client: reads the plan, calls a method per step, writes the answers.

A client is a class with `client`, `version`, `open(broker, limit_s)`, and a method per step that it knows; it returns its results as a
dictionary. consume() is a generator of records (p, o, t, k, v, headers) that ends by returning its start offsets.
"""
import base64
import json
import sys
import traceback


class Lacks(Exception):
    """This client cannot do that."""


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def decoded(text):
    return None if text is None else base64.b64decode(text)


def records_of(path):
    """(partition, timestamp, key, value, [(name, value)]) per line."""
    with open(path, encoding="utf-8") as f:
        return [(r["p"], r["t"], decoded(r["k"]), decoded(r["v"]), [(n, decoded(x)) for n, x in r["h"]]) for r in map(json.loads, f)]


def record_line(step, p, o, t, k, v, h):
    return {"step": step, "p": p, "o": o, "t": t, "k": encoded(k), "v": encoded(v), "h": [[n, encoded(x)] for n, x in h or []]}


class Until:
    """Which partitions still have something to read: start and end offsets per partition."""

    def __init__(self, starts, ends):
        self.open = {p for p, (s, e) in enumerate(zip(starts, ends)) if 0 <= s < e}
        self.ends = ends

    def saw(self, p, offset):
        if offset + 1 >= self.ends[p]:
            self.open.discard(p)


def answer(it, write, number, step):
    do = getattr(it, step["do"], None)
    if do is None:
        raise Lacks(f"{it.client} has no such call")
    if step["do"] != "consume":
        return do(step) or {}
    records = do(step)
    while True:
        try:
            write(record_line(number, *next(records)))
        except StopIteration as end:
            return {"start": end.value}


def main(make):
    """make: the client's class."""
    with open(sys.argv[1], encoding="utf-8") as f:
        plan = json.load(f)
    with open(plan["out"], "w", encoding="utf-8") as out:
        def write(line):
            out.write(json.dumps(line) + "\n")
        it = make(plan["broker"], plan["limit_s"])
        write({"client": it.client, "version": it.version})
        for number, step in enumerate(plan["steps"]):
            try:
                write({"step": number, "ok": True, **answer(it, write, number, step)})
            except Lacks as why:
                write({"step": number, "skip": str(why)})
            except Exception as e:                   # noqa: BLE001 - whatever a client raises is the answer
                traceback.print_exc()
                write({"step": number, "ok": False, "error": f"{type(e).__name__}: {e}"})
            out.flush()
        it.close()
