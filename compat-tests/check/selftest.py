"""The checker is checked: a clean history passes, each violation alone is caught under its own number."""
import copy
import json
import os
import subprocess
import sys
import tempfile
import unittest

from check.history import History, Judge

HERE = os.path.dirname(os.path.abspath(__file__))


def clean():
    """Two producers, one consumer, a final reader, marks and batch hashes: nothing wrong with it."""
    ops = []
    for n in range(10):
        ops.append({"op": "send", "producer": "p1", "key": "t-0", "n": n, "value": f"p1-{n}", "result": "ok", "offset": n * 2,
                    "idempotent": True})
        ops.append({"op": "send", "producer": "p2", "key": "t-0", "n": n, "value": f"p2-{n}", "result": "ok", "offset": n * 2 + 1,
                    "idempotent": False})
    ops.append({"op": "send", "producer": "p1", "key": "t-0", "n": 10, "value": "maybe", "result": "unknown", "offset": None, "idempotent": True})
    ops.append({"op": "send", "producer": "p1", "key": "t-0", "n": 11, "value": "failed", "result": "fail", "offset": None, "idempotent": True})
    records = [[i, f"p{i % 2 + 1}-{i // 2}"] for i in range(20)] + [[21, "maybe"]]         # 20 is a gap nobody saw
    ops.append({"op": "assign", "consumer": "c", "key": "t-0"})
    for at in range(0, 20, 5):
        ops.append({"op": "poll", "consumer": "c", "key": "t-0", "records": copy.deepcopy(records[at:at + 5])})
    ops.append({"op": "assign", "consumer": "c", "key": "t-0"})
    ops.append({"op": "poll", "consumer": "c", "key": "t-0", "records": copy.deepcopy(records[3:6])})
    for hw in (0, 5, 5, 20):
        ops.append({"op": "mark", "observer": "c", "key": "t-0", "high_watermark": hw, "log_start": 0, "leader_epoch": hw // 10})
    ops.append({"op": "batch", "side": "sent", "key": "t-0", "offset": 4, "hash": "abc"})
    ops.append({"op": "batch", "side": "read", "key": "t-0", "offset": 4, "hash": "abc"})
    ops.append({"op": "final", "reader": "f", "key": "t-0", "start": 0, "end": 22, "records": records})
    return ops


def judge(ops):
    h = History()
    for op in copy.deepcopy(ops):
        h.add(op)
    j = Judge(h)
    j.run()
    return {a for a, _ in j.found}, j


def final(ops):
    return next(op for op in ops if op["op"] == "final")["records"]


def polls(ops):
    return [op["records"] for op in ops if op["op"] == "poll"]


def drop(ops, value, everywhere=True):
    for op in ops:
        if op["op"] in ("poll", "final") and (everywhere or op["op"] == "final"):
            op["records"][:] = [r for r in op["records"] if r[1] != value]


def send(ops, value):
    return next(op for op in ops if op.get("value") == value)


class Violations(unittest.TestCase):
    def caught(self, ops, *ids):
        found, _ = judge(ops)
        self.assertEqual(found, set(ids))

    def test_clean(self):
        self.caught(clean())

    def test_i1_lost(self):
        ops = clean()
        drop(ops, "p1-4")
        self.caught(ops, "I1", "I2")

    def test_i2_unseen_at_the_end(self):
        ops = clean()
        drop(ops, "maybe")
        drop(ops, "p2-9")                            # the last one: nobody read above it
        self.caught(ops, "I2")

    def test_i2_no_final_reader(self):
        ops = [op for op in clean() if op["op"] != "final"]
        self.caught(ops, "I2")

    def test_below_the_log_start_is_excused(self):
        ops = clean()
        fin = next(op for op in ops if op["op"] == "final")
        fin["start"] = 6
        fin["records"] = fin["records"][6:]
        self.caught(ops)

    def test_i3_duplicate_idempotent(self):
        ops = clean()
        final(ops).append([22, "p1-3"])
        self.caught(ops, "I3")

    def test_i3_duplicate_plain_is_allowed_and_counted(self):
        ops = clean()
        final(ops).append([22, "p2-3"])
        found, j = judge(ops)
        self.assertEqual((found, j.allowed["I3"]), (set(), 1))

    def test_i4_two_values(self):
        ops = clean()
        send_again = send(ops, "p1-2")
        send_again["result"] = "unknown"
        polls(ops)[0][4][1] = "maybe"
        drop([op for op in ops if op["op"] == "final"], "maybe")
        self.caught(ops, "I4")

    def test_i4_read_then_gone(self):
        ops = clean()
        polls(ops)[3].append([21, "maybe"])
        drop([op for op in ops if op["op"] == "final"], "maybe")
        self.caught(ops, "I4")

    def test_i5_failed_value_read(self):
        ops = clean()
        final(ops).append([22, "failed"])
        self.caught(ops, "I5")

    def test_i7_send_order(self):
        ops = clean()
        a, b = send(ops, "p2-3"), send(ops, "p2-4")
        a["n"], b["n"] = b["n"], a["n"]
        self.caught(ops, "I7")

    def test_i8_back_inside_a_poll(self):
        ops = clean()
        records = polls(ops)[1]
        records[1], records[2] = records[2], records[1]
        found, _ = judge(ops)
        self.assertIn("I8", found)

    def test_i8_skip_inside_a_poll(self):
        ops = clean()
        del polls(ops)[1][2]
        self.caught(ops, "I8")

    def test_i8_final_reader_goes_back(self):
        ops = clean()
        records = final(ops)
        records[5], records[6] = records[6], records[5]
        found, _ = judge(ops)
        self.assertIn("I8", found)

    def test_i9_skip_between_polls(self):
        ops = clean()
        ops.remove(next(op for op in ops if op["op"] == "poll" and op["records"][0][0] == 5))
        self.caught(ops, "I9")

    def test_i9_back_between_polls(self):
        ops = clean()
        at = max(i for i, op in enumerate(ops) if op["op"] == "assign")
        del ops[at]
        self.caught(ops, "I9")

    def test_i11_offset_of_the_acknowledgement(self):
        ops = clean()
        send(ops, "p2-9")["offset"] = 300
        self.caught(ops, "I11")

    def test_i11_spurious_zero(self):
        ops = clean()
        send(ops, "p2-0")["offset"] = 0
        self.caught(ops, "I11")

    def test_i11_no_offset(self):
        ops = clean()
        send(ops, "p1-0")["offset"] = -1
        found, _ = judge(ops)
        self.assertIn("I11", found)

    def test_i12_each_mark(self):
        for name in ("high_watermark", "log_start", "leader_epoch", "last_stable"):
            ops = clean()
            ops.append({"op": "mark", "observer": "c", "key": "t-0", name: 30})
            ops.append({"op": "mark", "observer": "other", "key": "t-0", name: 3})
            self.caught(ops)
            ops.append({"op": "mark", "observer": "c", "key": "t-0", name: 29})
            self.caught(ops, "I12")

    def test_i16_bytes(self):
        ops = clean()
        next(op for op in ops if op["op"] == "batch" and op["side"] == "read")["hash"] = "abd"
        self.caught(ops, "I16")

    def test_i16_two_readers(self):
        ops = clean()
        for h in ("x", "y"):
            ops.append({"op": "batch", "side": "read", "key": "t-0", "offset": 9, "hash": h})
        self.caught(ops, "I16")

    def test_i16_foreign_value(self):
        ops = clean()
        final(ops).append([22, "stranger"])
        self.caught(ops, "I16")

    def test_i16_other_partition(self):
        ops = clean()
        ops.append({"op": "final", "reader": "f", "key": "t-1", "start": 0, "end": 1, "records": [[0, "p2-3"]]})
        found, _ = judge(ops)
        self.assertIn("I16", found)

    def test_unknown_may_be_absent(self):
        ops = clean()
        drop(ops, "maybe")
        self.caught(ops)

    def test_value_sent_twice_is_refused(self):
        ops = clean()
        ops.append(copy.deepcopy(send(ops, "p1-1")))
        with self.assertRaises(ValueError):
            judge(ops)


class Command(unittest.TestCase):
    def run_on(self, lines):
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
            f.write("".join(line + "\n" for line in lines))
            f.flush()
            return subprocess.run([sys.executable, os.path.join(HERE, "history.py"), f.name], capture_output=True, text=True, check=False)

    def test_exit_codes(self):
        good = [json.dumps(op) for op in clean()]
        self.assertEqual(self.run_on(good).returncode, 0)
        ops = clean()
        drop(ops, "p1-4")
        bad = self.run_on([json.dumps(op) for op in ops])
        self.assertEqual(bad.returncode, 1)
        self.assertIn("I1 t-0@8: p1-4", bad.stdout)
        self.assertEqual(self.run_on(good + ["{broken"]).returncode, 2)
        self.assertEqual(self.run_on(good + ['{"op":"sned"}']).returncode, 2)

    def test_an_empty_history_is_no_success(self):
        self.assertEqual(self.run_on([]).returncode, 2)
        self.assertEqual(self.run_on([json.dumps(op) for op in clean() if op["op"] != "final"]).returncode, 2)
        self.assertEqual(self.run_on([json.dumps(op) for op in clean() if op["op"] != "send"]).returncode, 2)


if __name__ == "__main__":
    result = unittest.TextTestRunner(verbosity=0).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
    failed = len(result.failures) + len(result.errors)
    print(f"{result.testsRun - failed} passed, {failed} failed, 0 skipped")
    sys.exit(1 if failed else 0)
