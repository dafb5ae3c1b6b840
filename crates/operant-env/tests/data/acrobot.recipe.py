"""Gymnasium's Acrobot-v1."""

import math

from reference import Gym, f32, first, rollout

SEED = 1_004
STEP_NOISE = 1e-14
REFERENCE = {"tolerance": {"step": 1e-12, "end": 1e-6, "reward": 0.0, "f32": 1e-5}, "angles": [0, 1]}


def environment():
    return Gym("Acrobot-v1")


def cases(c, rng):
    env = c.env
    pi = math.pi

    def clear_of_edges(out):
        """No angle next to its wrap and no height next to the goal, where float32 could rightly differ."""
        a, b = out["state"][0][:2]
        return min(pi - abs(a), pi - abs(b)) > 1e-3 and abs(-math.cos(a) - math.cos(a + b) - 1.0) > 1e-3

    def one(low, high, action):
        def attempt(_):
            out = c.single(f32(rng.uniform(low, high)), action)
            if not clear_of_edges(out):
                c.cases.pop(), c.expected.pop()
                return False
            return True
        first(50, attempt)

    for k in range(36):  # the speeds of play
        one([-pi, -pi, -5.0, -7.0], [pi, pi, 5.0, 7.0], k % 3)
    for k in range(12):  # up to the limits of speed
        one([-pi, -pi, -4 * pi, -9 * pi], [pi, pi, 4 * pi, 9 * pi], k % 3)
    for side in (1.0, -1.0):  # wraps of each angle, and both speed limits
        for k in range(3):
            c.single(f32([side * 3.1, 0.4 * k, side * 2.0, 0.5]), k)
            c.single(f32([0.3, side * 3.1, 0.2, side * (1.0 + k)]), k)
        c.single(f32([side * 1.2, 0.2, side * 12.5, -side * 20.0]), 2)
        c.single(f32([0.2, side * 1.5, 3.0 * side, 28.0 * side]), 0)
    assert c.single([0.0, 0.0, 0.0, 0.0], 1)["terminated"] == [False]
    assert c.single(f32([2.3, 0.0, 1.0, 0.5]), 2)["terminated"] == [True]

    pump = lambda s, k: (2 if s[3] > 0 else 0) if rng.random() < 0.9 else int(rng.integers(0, 3))
    first(60, lambda i: c.episode(s := env.reset_state(i), rollout(env, s, pump, 500), (True, False)))
    for seed in range(2, 5):
        first(60, lambda i: c.long_episode(
            s := env.reset_state(seed + 10 * i), rollout(env, s, pump, 500), (True, False)))
    # Random torques stay low enough for the system to be predictable over 500 steps, mostly.
    for seed in range(5, 7):
        first(60, lambda i: c.long_episode(
            env.reset_state(seed + 10 * i), [int(a) for a in rng.integers(0, 3, 500)], (False, True)))
