"""The matrix's verdict can be bad: one thing is changed in what a client would have written, and that column complains, no other."""
import copy
import json
import os
import tempfile
import types

from raw import matrix


def perfect(plan):
    """The answers of a client that did everything right: {step: (closing line, record lines)}."""
    steps = {}
    for n, step in enumerate(plan.steps):
        end, lines, ask = {"step": n, "ok": True}, [], step.plan
        if ask["do"] == "produce":
            with open(ask["records"], encoding="utf-8") as f:
                sent = [json.loads(line) for line in f]
            end["offsets"] = where(plan.log, [matrix.record_of(line) for line in sent])
        elif ask["do"] == "consume":
            by_time = plan.log.first_at(ask["time"]) if ask["from"] == "time" else None
            starts = by_time or (ask["offsets"] if ask["from"] == "offsets" else [0] * matrix.PARTITIONS)
            end["start"] = starts
            lines = [{"step": n, "o": o, **json.loads(matrix.line_of(r))} for p, s in enumerate(starts) if s >= 0
                     for o, r in enumerate(plan.log.parts[p]) if o >= s]
        elif ask["do"] == "offsets":
            end |= {"earliest": [0] * matrix.PARTITIONS, "latest": plan.log.ends()}
        elif ask["do"] == "describe":
            end["partitions"] = matrix.PARTITIONS
        elif ask["do"] == "list":
            end["topics"] = [] if "delete" in [s.plan["do"] for s in plan.steps[:n]] else [plan.topic]
        steps[n] = (end, lines)
    return steps


def where(log, records):
    return [log.parts[r[0]].index(r) for r in records]


def wrong(plan, answers):
    plan.told = []
    return {column for column, word in matrix.judge(plan, answers).items() if word != "yes"}


def find(plan, column):
    return next(n for n, s in enumerate(plan.steps) if s.column == column)


def flaws(plan):
    """(column, change of (closing line, record lines)): each must be seen."""
    def record(change, pick=lambda r: True):
        def go(_, lines):
            change(next(r for r in lines if pick(r)))
        return go
    yield "earliest", lambda end, lines: lines.pop()
    yield "earliest", lambda end, lines: lines.append(dict(lines[-1]))
    yield "earliest", record(lambda r: r.update(o=r["o"] + 1))
    yield "earliest", record(lambda r: r.update(t=r["t"] + 1))
    yield "earliest", record(lambda r: r.update(v=""), lambda r: r["v"] is None)
    yield "earliest", record(lambda r: r.update(k=None), lambda r: r["k"] == "")
    yield "earliest", record(lambda r: r["h"].pop(), lambda r: len(r["h"]) > 2)
    yield "earliest", record(lambda r: r["h"][0].__setitem__(1, ""), lambda r: r["h"] and r["h"][0][1] is None)
    yield "earliest", record(lambda r: r.update(v=r["v"][:-8] + "AAAAAAA="), lambda r: len(r["v"] or "") > 1_000_000)
    yield "from offset", lambda end, lines: lines.pop(0)
    yield "from time", lambda end, lines: end["start"].__setitem__(0, end["start"][0] + 1)
    yield "from time", lambda end, lines: lines.pop(0)
    yield "zstd", lambda end, lines: end["offsets"].__setitem__(3, 0)
    yield "ends", lambda end, lines: end["latest"].__setitem__(1, 0)
    yield "gzip", lambda end, lines: end.update(ok=False, error="no")
    yield "lz4", lambda end, lines: (end.pop("ok"), end.update(skip="cannot"))
    yield "describe", lambda end, lines: end.pop("partitions")
    yield "list", lambda end, lines: end["topics"].clear()


def main():
    with tempfile.TemporaryDirectory(dir=os.environ.get("COMPAT_TMP")) as home:
        broker = types.SimpleNamespace(kind="perigee", addr="")
        plan = matrix.Plan(matrix.Client("selftest", None), broker, home).whole(set(), {})
        right, bad, count = perfect(plan), 0, 0
        bad += bool(wrong(plan, right))
        for column, change in flaws(plan):
            answers = copy.deepcopy(right)
            change(*answers[find(plan, column)])
            count += 1
            if column not in (seen := wrong(plan, answers)) or len(seen) > 1:
                bad += 1
                print(f"a flaw in {column} is told as {seen}")
        del right[find(plan, "snappy")]
        bad += wrong(plan, right) != {"snappy"}
    print(f"# the matrix's verdict: {count + 2} checks, {bad} wrong")
    print(f"{int(not bad)} passed, {int(bool(bad))} failed, 0 skipped")


if __name__ == "__main__":
    main()
