"""Gymnasium's FrozenLake-v1 on the map 8x8; a move succeeds with chance 0.8."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_001, 0.0, EXACT
HOLES = (19, 29, 35, 41, 42, 46, 49, 52, 54, 59)


def environment():
    return ToyText("FrozenLake8x8-v1", {"success_rate": 0.8})


def cases(c, rng):
    for _ in range(2):
        tabular(c, rng, [[s] for s in range(63) if s not in HOLES], (0.1, 0.9), episodes=3)
    assert {e["reward"][-1] for e in c.expected} == {0.0, 1.0}
