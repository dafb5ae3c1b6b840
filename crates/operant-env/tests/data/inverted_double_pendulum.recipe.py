"""Gymnasium's InvertedDoublePendulum-v5."""

import numpy as np
from bodies import STEP_NOISE, Body, collect, near_upright, play_long, tolerances
from reference import f32, first

# Observations have the force of the rail's ends, up to 10 N.
SEED, REFERENCE = 3_005, tolerances(f32=0.001, f32_obs=0.005)


def environment():
    return Body("InvertedDoublePendulum-v5")


def cases(c, rng, states=120):
    collect(c, rng, states - 8, near_upright, constrained=0.4)
    for _ in range(8):
        first(20_000, lambda _: leans(c, rng))
    play_long(c, rng, steps=15, count=4, hold=1)


def leans(c, rng):
    """A cart that leaves the end of its rail so slowly that the force there, which is observed, is not clipped."""
    side = rng.choice([-1, 1])
    qpos = [side * rng.uniform(0.97, 1.02), *rng.uniform(-0.1, 0.1, 2)]
    state = f32([*qpos, -side * rng.uniform(-0.3, 0.5), *rng.normal(0, 0.5, 2)])
    actions = [f32(rng.uniform(-0.2, 0.2, 1)) for _ in range(2)]
    c.env.start(state)
    forces = [abs(c.env.step(action)[0][8]) for action in actions]
    return bool(np.any([0 < force < 9.9 for force in forces])) and c.episode(state, actions)
