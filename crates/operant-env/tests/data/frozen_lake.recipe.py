"""Gymnasium's FrozenLake-v1 on the map 4x4, slippery."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_000, 0.0, EXACT
GROUND = [[s] for s in range(15) if s not in (5, 7, 11, 12)]


def environment():
    return ToyText("FrozenLake-v1")


def cases(c, rng):
    for _ in range(6):  # every way a move can go
        tabular(c, rng, GROUND, (1 / 3, 2 / 3), episodes=2)
    assert {e["reward"][-1] for e in c.expected} == {0.0, 1.0}
