"""Gymnasium's Pendulum-v1, which rounds its action to float32."""

import math

from reference import Gym, f32, first, rollout

SEED = 1_003
STEP_NOISE = 1e-8
REFERENCE = {"tolerance": {"step": 2e-8, "end": 5e-5, "reward": 1e-4, "f32": 1e-5}, "angles": []}


def environment():
    return Gym("Pendulum-v1")


def cases(c, rng):
    env = c.env
    for _ in range(40):
        c.single(f32(rng.uniform([-math.pi, -8.0], [math.pi, 8.0])), f32([rng.uniform(-2.6, 2.6)]))
    for _ in range(8):  # angles grow without wrapping
        c.single(f32(rng.uniform([-20.0, -8.0], [20.0, 8.0])), f32([rng.uniform(-2.0, 2.0)]))
    for side in (1.0, -1.0):
        c.single(f32([side * 1.5, side * 7.9]), [2.0 * side])  # the speed limit
        c.single(f32([side * 3.1, side * 2.0]), [0.5])  # across the bottom
        c.single(f32([side * (math.pi - 1e-3), 0.0]), [0.0])
        c.single(f32([side * (math.pi + 1e-3), 0.0]), [0.0])
        c.single(f32([0.5, 1.0]), [side * 5.0])  # the action is clipped
        c.single([0.0, 0.0], [side * 0.1])
    state = env.reset_state(0)
    first(50, lambda _: c.episode(state, [f32([a]) for a in rng.uniform(-2, 2, 200)], (False, True)))
    swing = lambda s, k: [math.copysign(1.5, s[1])] if k < 150 else [max(-2.0, min(2.0, round(-s[1] * 64) / 64))]
    first(50, lambda i: c.long_episode(s := env.reset_state(1 + i), rollout(env, s, swing, 200), (False, True)))
    for seed in range(60, 64):
        first(50, lambda i: c.long_episode(
            env.reset_state(seed + 10 * i), [[int(a) / 32] for a in rng.integers(-70, 71, 200)], (False, True)))
