"""MinAtar's Asterix with sticky actions and without ramping, in whole episodes."""

from reference import recipe, steady

base = recipe("minatar_asterix")
SEED, STEP_NOISE, REFERENCE = 1_017, 0.0, base.REFERENCE


def environment():
    return base.Asterix("Asterix", time_limit=5_000, sticky_action_prob=0.25, ramping=False, env="minatar_asterix")


def cases(c, rng):
    best = steady(c, rng, lambda: base.wary(c.env, rng), range(10, 30))
    assert best > 300, best  # long enough that speeds would have risen
