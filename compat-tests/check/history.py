#!/usr/bin/env python3
"""The history checker: reads what clients saw and says whether a broker may have done that (RELIABILITY section 3).

usage: history.py FILE...            exit 0 clean, 1 an anomaly that is fatal, 2 nothing to judge or an unreadable history

A history is JSON lines; each file keeps the order of its writer, and one producer, consumer or observer writes to one file only.
`key` is topic-partition. Values are unique strings: no two sends of a history carry the same one.

  {"op":"send","producer":P,"key":K,"n":7,"value":V,"result":"ok","offset":41,"idempotent":true}
        one send; n counts the producer's sends to this key in the order in which they were handed over. result: "ok" (acknowledged, with
        the offset that the broker named), "fail" (certainly not written) or "unknown" (timed out, connection lost). idempotent: whether
        a duplicate of the value is fatal.
  {"op":"assign","consumer":C,"key":K}
        the consumer's position was set anew (assign, seek, rebalance): the next poll need not follow the last one.
  {"op":"poll","consumer":C,"key":K,"records":[[41,V],...]}
        one delivery to a consumer, in the order of delivery.
  {"op":"final","reader":R,"key":K,"start":0,"end":42,"records":[[0,V],...]}
        a fresh reader read everything from the log start to the end, after all faults. At least one per key that was sent to.
  {"op":"mark","observer":O,"key":K,"high_watermark":42,"log_start":0,"leader_epoch":3,"last_stable":42}
        what one observer was told, in its order; any of the four may be missing.
  {"op":"batch","side":"sent"|"read","key":K,"offset":41,"hash":H}
        a batch as it was sent (and acknowledged at this base offset) or read: hash of the bytes that a broker must not touch.
  {"op":"note", ...}   ignored.

Judged: I1 lost write, I2 unseen, I3 duplicate, I4 inconsistent offsets, I5 a failed value read, I7 one producer's sends out of order, I8 and I9
skips and steps back inside and between polls, I11 acknowledged offset differs from the one read, I12 regressing marks, I16 bytes changed
or a value in a partition that it was not sent to. Gaps in offsets are legal (control records): a skip is a gap that hides an offset
which somebody saw. A plain producer's duplicates are counted, not fatal.
"""
import bisect
import collections
import json
import sys

SHOWN_MAX = 25
FATAL = ("I1", "I2", "I3", "I4", "I5", "I7", "I8", "I9", "I11", "I12", "I16")


class History:
    def __init__(self):
        self.sends = []
        self.polls = collections.defaultdict(list)       # (consumer, key) -> [records | None for a new position]
        self.finals = collections.defaultdict(list)      # key -> [op]
        self.marks = collections.defaultdict(list)       # (observer, key) -> [op]
        self.batches = {"sent": {}, "read": collections.defaultdict(set)}
        self.lines = 0

    def add(self, op):
        self.lines += 1
        kind = op["op"]
        if kind == "send":
            self.sends.append(op)
        elif kind == "assign":
            self.polls[op["consumer"], op["key"]].append(None)
        elif kind == "poll":
            self.polls[op["consumer"], op["key"]].append([tuple(r) for r in op["records"]])
        elif kind == "final":
            op["records"] = [tuple(r) for r in op["records"]]
            self.finals[op["key"]].append(op)
        elif kind == "mark":
            self.marks[op["observer"], op["key"]].append(op)
        elif kind == "batch" and op["side"] == "sent":
            self.batches["sent"][op["key"], op["offset"]] = op["hash"]
        elif kind == "batch":
            self.batches["read"][op["key"], op["offset"]].add(op["hash"])
        elif kind != "note":
            raise ValueError(f"unknown op {kind!r}")


def read(paths):
    h = History()
    for path in paths:
        with open(path, encoding="utf-8") as f:
            for number, line in enumerate(f, 1):
                try:
                    h.add(json.loads(line))
                except (ValueError, KeyError, TypeError) as e:
                    raise ValueError(f"{path}:{number}: {e}") from None
    return h


class Judge:
    """Collects anomalies as (id, text)."""

    def __init__(self, h):
        self.h = h
        self.found = []
        self.allowed = collections.Counter()
        self.acked = [s for s in h.sends if s["result"] == "ok"]
        self.by_value = {}                               # value -> its send
        for s in h.sends:
            if s["value"] in self.by_value:
                raise ValueError(f"value {s['value']!r} was sent twice")
            self.by_value[s["value"]] = s
        self.seen = collections.defaultdict(dict)        # key -> offset -> {value: who}
        self.where = collections.defaultdict(set)        # value -> {(key, offset)}
        for (consumer, key), polls in h.polls.items():
            for records in polls:
                self._see(key, records or [], consumer)
        for key, finals in h.finals.items():
            for op in finals:
                self._see(key, op["records"], op["reader"])

    def _see(self, key, records, who):
        for offset, value in records:
            self.seen[key].setdefault(offset, {}).setdefault(value, who)
            self.where[value].add((key, offset))

    def say(self, anomaly, text):
        self.found.append((anomaly, text))

    def run(self):
        for check in (self.lost, self.unseen, self.duplicates, self.inconsistent, self.failed_read, self.send_order, self.poll_order,
                      self.returned_offset, self.regress, self.bytes):
            check()
        return self.found

    # ---- the checks, one per invariant ----

    def lost(self):
        """I1: acknowledged, below the highest offset that anybody read there, never read."""
        top = {key: max(offsets) for key, offsets in self.seen.items()}
        for s in self.acked:
            if s["value"] not in self.where and s["offset"] < top.get(s["key"], -1) and s["offset"] >= self.start(s["key"]):
                self.say("I1", f"{s['key']}@{s['offset']}: {s['value']} was acknowledged, later offsets were read, it never was")

    def start(self, key):
        return max((op.get("start", 0) for op in self.h.finals.get(key, [])), default=0)

    def unseen(self):
        """I2: acknowledged, not read by a final reader (below the log start it is excused)."""
        acked = collections.defaultdict(list)
        for s in self.acked:
            acked[s["key"]].append(s)
        for key in acked.keys() - self.h.finals.keys():
            self.say("I2", f"{key} has acknowledged values and no final reader")
        for key, finals in self.h.finals.items():
            for op in finals:
                there = {value for _, value in op["records"]}
                for s in acked[key]:
                    if s["value"] not in there and s["offset"] >= op.get("start", 0):
                        self.say("I2", f"{key}@{s['offset']}: {s['value']} was acknowledged and {op['reader']} did not find it")

    def duplicates(self):
        """I3: one value at two offsets."""
        for value, places in self.where.items():
            if len(places) > 1:
                send = self.by_value.get(value)
                if send and not send.get("idempotent"):
                    self.allowed["I3"] += 1
                else:
                    self.say("I3", f"{value} stands at {sorted(places)}")

    def inconsistent(self):
        """I4: one offset with two values, or with a value for one reader and nothing for a final reader that passed it."""
        for key, offsets in self.seen.items():
            for offset, values in offsets.items():
                if len(values) > 1:
                    self.say("I4", f"{key}@{offset}: {', '.join(f'{v} for {w}' for v, w in sorted(values.items()))}")
            for op in self.h.finals.get(key, []):
                there = {offset for offset, _ in op["records"]}
                for offset in offsets.keys() - there:
                    if offset >= op.get("start", 0):
                        self.say("I4", f"{key}@{offset}: {next(iter(offsets[offset]))} was read before and is gone for {op['reader']}")

    def failed_read(self):
        """I5: a value whose send certainly failed was read."""
        for s in self.h.sends:
            if s["result"] == "fail" and s["value"] in self.where:
                self.say("I5", f"{s['value']} failed and stands at {sorted(self.where[s['value']])}")

    def send_order(self):
        """I7: one producer's acknowledged sends to one partition got offsets out of order."""
        lines = collections.defaultdict(list)
        for s in self.acked:
            lines[s["producer"], s["key"]].append((s["n"], s["offset"], s["value"]))
        for (producer, key), sends in lines.items():
            sends.sort()
            for (n, offset, _), (n2, offset2, value) in zip(sends, sends[1:]):
                if offset2 <= offset:
                    self.say("I7", f"{producer} to {key}: send {n} at {offset}, send {n2} ({value}) at {offset2}")

    def hides(self, key, low, high):
        """An offset between the two that somebody saw, or None."""
        order = self.sorted_offsets(key)
        at = bisect.bisect_right(order, low)
        return order[at] if at < len(order) and order[at] < high else None

    def sorted_offsets(self, key):
        if not hasattr(self, "_sorted"):
            self._sorted = {k: sorted(offsets) for k, offsets in self.seen.items()}
        return self._sorted.get(key, [])

    def poll_order(self):
        """I8 inside one delivery, I9 from one to the next."""
        for (consumer, key), polls in self.h.polls.items():
            last = None
            for records in polls:
                if records is None:
                    last = None
                    continue
                inside = False
                for offset, value in records:
                    if last is not None:
                        self.step("I8" if inside else "I9", consumer, key, last, offset, value)
                    last, inside = offset, True
        for key, finals in self.h.finals.items():
            for op in finals:
                for (a, _), (b, value) in zip(op["records"], op["records"][1:]):
                    self.step("I8", op["reader"], key, a, b, value)

    def step(self, anomaly, who, key, last, offset, value):
        if offset <= last:
            self.say(anomaly, f"{who} on {key} went from {last} back to {offset} ({value})")
        elif offset > last + 1 and (hidden := self.hides(key, last, offset)) is not None:
            self.say(anomaly, f"{who} on {key} went from {last} to {offset} and skipped {hidden}")

    def returned_offset(self):
        """I11: the offset in the acknowledgement is not where the value stands."""
        for s in self.acked:
            places = self.where.get(s["value"])
            if s["offset"] is None or s["offset"] < 0:
                self.say("I11", f"{s['value']} was acknowledged with offset {s['offset']}")
            elif places and (s["key"], s["offset"]) not in places:
                self.say("I11", f"{s['value']} was acknowledged at {s['key']}@{s['offset']} and stands at {sorted(places)}")

    def regress(self):
        """I12: a mark that an observer was told goes back."""
        for (observer, key), ops in self.h.marks.items():
            top = {}
            for op in ops:
                for name in ("high_watermark", "log_start", "leader_epoch", "last_stable"):
                    if op.get(name) is None or op[name] < 0:
                        continue
                    if op[name] < top.get(name, op[name]):
                        self.say("I12", f"{observer} on {key}: {name} went from {top[name]} back to {op[name]}")
                    top[name] = max(op[name], top.get(name, op[name]))

    def bytes(self):
        """I16: a batch's bytes changed, or a value stands in a partition that it was not sent to."""
        for (key, offset), sent in self.h.batches["sent"].items():
            for got in self.h.batches["read"].get((key, offset), ()):
                if got != sent:
                    self.say("I16", f"{key}@{offset}: the batch read differs from the batch sent")
        for (key, offset), hashes in self.h.batches["read"].items():
            if len(hashes) > 1:
                self.say("I16", f"{key}@{offset}: two readers got different bytes")
        for value, places in self.where.items():
            send = self.by_value.get(value)
            for key, offset in places:
                if send is None:
                    self.say("I16", f"{key}@{offset}: {value!r} was never sent")
                elif send["key"] != key:
                    self.say("I16", f"{key}@{offset}: {value} was sent to {send['key']}")


def summary(h, judge):
    results = collections.Counter(s["result"] for s in h.sends)
    return {"lines": h.lines, "sends": dict(results), "keys": len(h.finals),
            "polled": sum(len(r or []) for p in h.polls.values() for r in p),
            "final": sum(len(op["records"]) for ops in h.finals.values() for op in ops),
            "marks": sum(len(m) for m in h.marks.values()), "batches_sent": len(h.batches["sent"]),
            "batches_read": len(h.batches["read"]), "anomalies": dict(collections.Counter(a for a, _ in judge.found)),
            "allowed": dict(judge.allowed)}


def main(paths):
    try:
        h = read(paths)
        judge = Judge(h)
        judge.run()
    except (OSError, ValueError) as e:
        print(f"history: {e}", file=sys.stderr)
        return 2
    for anomaly, text in judge.found[:SHOWN_MAX]:
        print(f"{anomaly} {text}")
    if len(judge.found) > SHOWN_MAX:
        print(f"... and {len(judge.found) - SHOWN_MAX} more")
    print(json.dumps(summary(h, judge)))
    if not judge.acked or not any(op["records"] for ops in h.finals.values() for op in ops):
        print("history: nothing was acknowledged and read, so nothing was judged", file=sys.stderr)
        return 2
    return 1 if any(a in FATAL for a, _ in judge.found) else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
