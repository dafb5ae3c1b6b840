"""Gymnasium's CliffWalking-v1; the time limit is operant's."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_003, 0.0, EXACT


def environment():
    return ToyText("CliffWalking-v1", time_limit=200)


def cases(c, rng):
    tabular(c, rng, [[s] for s in range(37)], (), episodes=1)
    assert c.episode([36], [0] + [1] * 11 + [2], (True, False))
    assert {r for e in c.expected for r in e["reward"]} == {-1.0, -100.0}
