"""Gymnasium's MountainCarContinuous-v0, which rounds its state to float32."""

import math

import numpy as np
from reference import Gym, f32, first, number32, recipe, rollout

SEED = 1_002
STEP_NOISE = 3e-8
REFERENCE = {"tolerance": {"step": 2e-7, "end": 5e-6, "reward": 1e-4, "f32": 1e-5}, "angles": []}


class MountainCarContinuous(Gym):
    def set(self, state):
        values = np.array(state, dtype=np.float64)
        # It computes in float32 from its second step on: a state in mid-course is float32.
        same = np.array_equal(values, values.astype(np.float32))
        self.inner.state = values.astype(np.float32) if same else values

    def state(self):
        return [number32(x) for x in self.inner.state]


def environment():
    return MountainCarContinuous("MountainCarContinuous-v0")


def cases(c, rng):
    env = c.env
    for _ in range(36):
        c.single(f32(rng.uniform([-1.2, -0.07], [0.44, 0.07])), f32([rng.uniform(-1.6, 1.6)]))
    recipe("mountain_car").edge_singles(c, [[-1.0], [1.0]], 0.45)
    c.single(f32([0.42, 0.05]), [1.75])  # reward at the goal charges the action as given
    c.single(f32([-0.5, 0.01]), [-2.5])
    c.single(f32([-0.5, 0.01]), [0.0])
    for seed in range(2):
        state = env.reset_state(seed)
        pump = lambda s, k: f32([math.copysign(rng.uniform(0.6, 1.3), s[1])])
        first(20, lambda _: c.episode(state, rollout(env, state, pump, 999), (True, False)))
    state = env.reset_state(4)
    first(20, lambda _: c.long_episode(state, [[int(a) / 32] for a in rng.integers(-32, 33, 999)], (False, True)))
    for seed in range(6, 8):
        state = env.reset_state(seed)
        weak = lambda s, k: [math.copysign(int(rng.integers(5, 30)) / 32, s[1])]
        first(50, lambda _: c.long_episode(state, rollout(env, state, weak, 999), (True, False)))
