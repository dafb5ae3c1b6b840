"""Gymnasium's Taxi-v4 in the rain, with a fickle passenger."""

from reference import first, recipe
from toy_text import tabular

taxi = recipe("taxi")
SEED, STEP_NOISE, REFERENCE = 2_006, 0.0, taxi.REFERENCE


def environment():
    return taxi.environment(is_rainy=True, fickle_passenger=True, rainy_probability=0.4)


def cases(c, rng):
    tabular(c, rng, taxi.states(3), (0.4, 0.7), episodes=0)
    tabular(c, rng, taxi.states(7, fickle=1), (0.4, 0.7), episodes=0)

    def long(_):
        c.env.seed += 1
        return c.long_episode(c.env.reset_state(c.env.seed), [int(a) for a in rng.integers(0, 6, 200)], (False, True))

    for _ in range(3):
        first(20, long)
    assert {d[1] for case in c.cases for d in case["draws"] if len(d) == 2} == {0, 1, 2}  # new destinations
