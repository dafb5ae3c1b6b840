"""MinAtar's Seaquest with sticky actions and without ramping, in whole episodes."""

from reference import recipe, steady

base = recipe("minatar_seaquest")
SEED, STEP_NOISE, REFERENCE = 1_019, 0.0, base.REFERENCE


def environment():
    return base.Seaquest("Seaquest", time_limit=5_000, sticky_action_prob=0.25, ramping=False, env="minatar_seaquest")


def cases(c, rng):
    best = steady(c, rng, lambda: base.captain(c.env, rng, True), range(10, 90))
    assert best > 200, best  # long enough that speeds would have risen
