"""T1: kill -9 under load, round after round, judged by the history checker."""
import os
import random
import tempfile

import kill9
from raw.harness import test


def play(c, count, **more):
    seed = int(os.environ.get("COMPAT_SEED", random.SystemRandom().randrange(1 << 32)))
    with tempfile.TemporaryDirectory(prefix="kill9-", dir=os.environ.get("COMPAT_TMP")) as folder:
        return seed, kill9.rounds(count, c.kind, c.shards, seed, folder, **more)


@test("T1 T24 I1 I2 I3 I4 I7 I8 I9 I11 I12 I16 kill -9 after 0.5 to 3 s of load, 15 rounds (200 with --full), "
      "stock and raw clients going on over it")
def rounds(c):
    seed, troubles = play(c, 200 if c.full else 15 if c.perigee else 3)
    assert not troubles, f"replay with compat-tests/kill9.sh --seed {seed}: {troubles[:5]}"


@test("the rounds can fail: half of each log cut off behind the dead broker is seen as a loss", only="kafka")
def sabotaged(c):
    _, troubles = play(c, 1, spoil=True)
    assert any("I1 " in t or "I2 " in t or "I4 " in t or "I11 " in t for t in troubles), troubles
