"""MinAtar's Seaquest with sticky actions and without ramping, in whole episodes."""

from reference import first, recipe, rollout

base = recipe("minatar_seaquest")
SEED, STEP_NOISE, REFERENCE = 1_019, 0.0, base.REFERENCE


def environment():
    return base.Seaquest("Seaquest", time_limit=5_000, sticky_action_prob=0.25, ramping=False, env="minatar_seaquest")


def cases(c, rng):
    env = c.env
    start = env.reset_state(1)
    for env.seed in (2, 3):
        first(20, lambda _: c.episode(start, [int(a) for a in rng.integers(0, 6, 400)], (True, False)))
    best = 0
    for env.seed in range(10, 90):
        actions = rollout(env, start, base.captain(env, rng, True), 5_000)
        if len(actions) > best and c.long_episode(start, actions, (True, False)):
            best = len(actions)
    # Long enough that speeds would have risen.
    assert best > 200, best
