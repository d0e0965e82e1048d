"""Random walks on perigee and Apache Kafka side by side: writes, reads, look-ups by time, cuts; and fetch sessions. Only with --full."""
import os
import random
import struct
import time

from raw import batch as rb
from raw import differential as df
from raw.harness import test
from tests.differential import both, fetched, listed, named, sent

WALK_DEVIATIONS = [
    ("re:walk \\d+ step \\d+ time: .*(offset|timestamp|leader_epoch): perigee \\d+, kafka -1",
     "Kafka looks into the first segment that could have the time only, also when what qualifies there was deleted"),
    ("re:walk \\d+ step \\d+ special: .*(offset|timestamp): perigee \\d+, kafka \\d+", "Kafka may name a record that is deleted as the one with the largest time"),
    ("*error_message: perigee 'words', kafka None", "refusals come with words"),
]


# ---- one partition ----

def walk(sides, seed, steps):
    """Writes, reads, look-ups by time and cuts by chance, the same on both sides; the lines where they differ."""
    rng, name = random.Random(seed), f"d-walk-{seed}"
    configs = rng.choice(({}, {"compression_type": "lz4"}, {"message_timestamp_type": "LogAppendTime"}, {"segment_bytes": 1_048_576}, {"index_interval_bytes": 0}))
    lines, end = [], 0
    for s in sides:
        s.create(name, **configs)
    for step in range(steps):
        kind = rng.choice(("produce", "produce", "produce", "fetch", "fetch", "time", "time", "special", "trim"))
        at, bytes_, codec, count = rng.randrange(-2, end + 3), rng.choice((1, 300, 5000, 1 << 20)), rng.randrange(5), rng.randrange(1, 40)
        if kind == "produce":
            size = rng.choice((1, 10, 1000, 20_000))
            items = [(rng.choice((None, b"k")), rng.randbytes(rng.randrange(size)), rb.T0 + step * 1000 + rng.randrange(-5000, 5000)) for _ in range(count)]
            data = rb.batch(items, codec=codec)
            seen = [sent(s, rng_version(seed, step, 7, 12), data, topic=name) for s in sides]
            end += count
        elif kind == "fetch":
            seen = [first_batch(fetched(s, rng_version(seed, step, 10, 16), at, topic=name, part_bytes=bytes_)) for s in sides]
        elif kind == "time":
            when = rb.T0 + rng.randrange(-6000, step * 1000 + 6000)
            seen = [timeless(listed(s, rng_version(seed, step, 4, 10), when, topic=name), configs) for s in sides]
        elif kind == "special":
            special = rng.choice((-1, -2, -3))
            seen = [timeless(listed(s, 8, special, topic=name), configs) for s in sides]
        else:
            cut = rng.randrange(0, max(1, end // 2 + 2))
            seen = [s.call("DeleteRecords", 2, topics=[{"name": name, "partitions": [{"partition": 0, "offset": cut}]}]) for s in sides]
        reduced = [df.reduce(s, x) for s, x in zip(sides, seen)]
        lines += [f"walk {seed} step {step} {kind}: {d}" for d in df.differences(*reduced)]
    return lines


def rng_version(seed, step, low, high):
    """A version that depends on nothing but the step, so that both sides speak the same."""
    return low + (seed * 7919 + step * 104_729) % (high - low + 1)


def first_batch(answer):
    """Kafka cuts the last batch where the bytes end: only the first one is promised."""
    for t in answer["topics"]:
        for p in t["partitions"]:
            p["records"] = p["records"] and p["records"][:12 + struct.unpack_from(">i", p["records"], 8)[0]]
            p["log_start"] = 0 if p["error"] else p["log_start"]
            p["aborted"] = None
    return answer


def timeless(answer, configs):
    if "message_timestamp_type" in configs:              # the broker's own time: where it lies among the batches is chance
        for p in (p for t in answer["topics"] for p in t["partitions"]):
            p["timestamp"] = p["offset"] = 0
    return answer


# ---- fetch sessions ----

class Reader:
    """What a consumer knows of its session: where it reads, what changed since it last said so. It believes perigee's answers."""

    def __init__(self, rng, topics):
        self.rng, self.version = rng, rng.randrange(7, 18)
        self.parts = [(t, p) for t in topics for p in (0, 1)]
        self.at, self.said, self.forgotten = {}, {}, set()
        self.epoch, self.sids = 0, [0, 0]

    def request(self, s, sid, epoch, parts, forgotten=()):
        def lines(names, line):
            return [{**named(t, self.version), "partitions": [line(t, p) for u, p in sorted(names) if u == t]} for t in sorted({t for t, _ in names})]
        return s.call("Fetch", self.version, max_wait_ms=0, min_bytes=0, max_bytes=1 << 24, session_id=sid, session_epoch=epoch,
                      topics=lines(parts, lambda t, p: {"partition": p, "offset": self.at[t, p]}), forgotten=lines(set(forgotten), lambda t, p: p))

    def full(self, sides):
        """A new session in place of the old one."""
        self.at = {tp: 0 for tp in self.rng.sample(self.parts, self.rng.randrange(1, len(self.parts) + 1))}
        answers = [self.request(s, sid, 0, self.at) for s, sid in zip(sides, self.sids)]
        self.sids = [a.get("session_id", 0) if isinstance(a, dict) else 0 for a in answers]
        self.epoch, self.said, self.forgotten = 1, dict(self.at), set()
        return answers

    def poll(self, sides):
        rng = self.rng
        for tp in self.parts:
            if tp in self.at and rng.random() < 0.08:
                del self.at[tp]
                self.forgotten.add(tp)
            elif tp in self.at and rng.random() < 0.08:
                self.at[tp] = rng.choice((0, 3, 1000, -1))
            elif tp not in self.at and rng.random() < 0.2:
                self.at[tp] = 0
                self.forgotten.discard(tp)
        changed = {tp for tp, at in self.at.items() if self.said.get(tp) != at}
        answers = [self.request(s, sid, self.epoch, changed, self.forgotten) for s, sid in zip(sides, self.sids)]
        self.epoch += 1
        self.said, self.forgotten = dict(self.at), set()
        return answers

    def wrong(self, sides):
        return [self.request(s, sid, self.epoch + 5, ()) for s, sid in zip(sides, self.sids)]

    def close(self, sides):
        answers = [self.request(s, sid, -1, self.at) for s, sid in zip(sides, self.sids)]
        self.epoch, self.sids = 0, [0, 0]
        return answers

    def learn(self, s, answer):
        """Read on behind what came; out of range starts over."""
        for t in answer.get("topics", ()) if isinstance(answer, dict) else ():
            name = t.get("name") or next((n for n, i in s.ids.items() if i == t["topic_id"]), None)
            for p in t["partitions"]:
                tp = (name, p["partition"])
                batches = rb.batches(p["records"] or b"")
                if tp in self.at and batches and self.rng.random() < 0.9:
                    self.at[tp] = batches[-1].base_offset + batches[-1].last_delta + 1
                elif tp in self.at and p["error"] == 1:
                    self.at[tp] = max(p["log_start"], 0)


def session_walk(sides, seed, steps):
    rng, lines = random.Random(seed), []
    topics = [f"d-session-{seed}-{n}" for n in range(3)]
    for s in sides:
        for t in topics:
            s.create(t, partitions=2)
    reader = Reader(rng, topics)
    for step in range(steps):
        kind = rng.choice(("produce", "produce", "poll", "poll", "poll", "poll", "trim", "wrong", "full", "close", "flip"))
        if kind in ("produce", "trim"):
            topic, partition, cut = rng.choice(topics), rng.randrange(2), rng.randrange(4)
            data = rb.batch(rb.values(f"s{step}-", rng.randrange(1, 4)))
            for s in sides:
                if kind == "produce":
                    s.call("Produce", 9, acks=-1, topics=[{"name": topic, "partitions": [{"index": partition, "records": data}]}])
                else:
                    s.call("DeleteRecords", 2, topics=[{"name": topic, "partitions": [{"partition": partition, "offset": cut}]}])
            continue
        if kind == "flip":                           # with topic ids or without: another session
            reader.version = 12 if reader.version >= 13 else 13
            kind = "poll"
        if not reader.sids[0] or not reader.sids[1]:
            kind = "full"
        answers = getattr(reader, kind)(sides)
        reduced = [df.reduce(s, together(a)) for s, a in zip(sides, answers)]
        lines += [f"sessions {seed} step {step} {kind} v{reader.version}: {d}" for d in df.differences(*reduced)]
        reader.learn(sides[0], answers[0])
        if isinstance(answers[0], dict) and answers[0]["error"] and kind != "wrong":
            reader.close(sides)
    reader.close(sides)
    return lines


def together(answer):
    """In the order of a session a topic may come in several pieces: they are put together."""
    if not isinstance(answer, dict):
        return answer
    whole = {}
    for t in answer["topics"]:
        whole.setdefault(t.get("name") or t.get("topic_id"), {**t, "partitions": []})["partitions"] += t["partitions"]
    for p in (p for t in whole.values() for p in t["partitions"]):
        p["log_start"] = 0 if p["error"] else p["log_start"]
        p["aborted"] = None
    return {**answer, "topics": list(whole.values())}


# ---- the tests ----

def seeds():
    return [int(x) for x in os.environ.get("DIFFERENTIAL_SEEDS", "").split(",") if x] or [int(time.time()) % 1_000_000 + n for n in range(20)]


def judged(lines, count, what):
    print(f"# {count} {what}", flush=True)
    left, _ = df.judge(lines, WALK_DEVIATIONS)
    assert not left, f"{len(left)} differences (DIFFERENTIAL_SEEDS=n replays one):\n" + "\n".join(left[:30])


@test("differential: random walks of writes, reads, look-ups by time and cuts on perigee and on Apache Kafka", only="perigee", full=True)
def walks(c):
    sides, chosen = both(c), seeds()
    judged([line for seed in chosen for line in walk(sides, seed, 60)], len(chosen), f"walks of 60 steps, the first with seed {chosen[0]}")


@test("differential: fetch sessions by chance on perigee and on Apache Kafka: the same partitions in each answer (S7.30 to S7.39)", only="perigee", full=True)
def session_walks(c):
    sides, chosen = both(c), seeds()
    judged([line for seed in chosen for line in session_walk(sides, seed, 80)], len(chosen), f"walks of 80 steps, the first with seed {chosen[0]}")
