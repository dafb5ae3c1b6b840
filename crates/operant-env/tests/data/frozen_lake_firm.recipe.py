"""Gymnasium's FrozenLake-v1 without slippery ice."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_002, 0.0, EXACT


def environment():
    return ToyText("FrozenLake-v1", {"is_slippery": False}, env="frozen_lake")


def cases(c, rng):
    tabular(c, rng, [[s] for s in range(15) if s not in (5, 7, 11, 12)], (), episodes=1)
    c.episode([0], [0, 3] * 50)  # to the time limit
    for _ in range(3):
        c.long_episode([0], [0, 3] * 49 + [1, 2], (False, True))
