"""Gymnasium's CliffWalkingSlippery-v1; the time limit is operant's."""

from toy_text import EXACT, ToyText, tabular

SEED, STEP_NOISE, REFERENCE = 2_004, 0.0, EXACT


def environment():
    return ToyText("CliffWalking-v1", {"is_slippery": True}, env="cliff_walking", time_limit=200)


def cases(c, rng):
    for _ in range(5):
        tabular(c, rng, [[s] for s in range(37)], (1 / 3, 2 / 3), episodes=0)
    for c.env.seed in range(4):
        assert c.long_episode([36], [int(a) for a in rng.integers(0, 4, 200)], (False, True))
