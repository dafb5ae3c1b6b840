"""Gymnasium's MountainCar-v0."""

import math

from reference import Gym, f32, first, rollout

SEED = 1_001
STEP_NOISE = 1e-16
REFERENCE = {"tolerance": {"step": 1e-12, "end": 1e-6, "reward": 0.0, "f32": 1e-5}, "angles": []}


def environment():
    return Gym("MountainCar-v0")


def cases(c, rng):
    env = c.env
    for k in range(39):
        c.single(f32(rng.uniform([-1.2, -0.07], [0.49, 0.07])), k % 3)
    edge_singles(c, [0, 1, 2], 0.5)
    bang = lambda s, _: 2 if s[1] >= 0 else 0
    state = env.reset_state(0)
    assert c.episode(state, [int(a) for a in rng.integers(0, 3, 200)], (False, True))
    # Waits before it pumps, so that some try arrives on the very last step: both flags.
    late = lambda s, k, wait: 1 if k < wait else bang(s, k)
    first(900, lambda i: c.episode(
        s := env.reset_state(20 + i // 90), rollout(env, s, lambda s, k: late(s, k, 60 + i % 90), 200), (True, True)))
    for seed in range(6, 12):
        state = env.reset_state(seed)
        slow = lambda s, k: int(rng.integers(0, 3)) if rng.random() < 0.4 else bang(s, k)
        first(50, lambda _: c.long_episode(state, rollout(env, state, slow, 200), (True, False)))


def edge_singles(c, actions, goal):
    """What both mountain cars do at the walls, the speed limits and the goal, 1e-4 clear of every comparison."""
    low, high = actions[0], actions[-1]
    for action in (low, high):
        c.single(f32([-1.19, -0.05]), action)  # into the left wall: stops
        c.single(f32([-1.2, 0.0]), action)
        c.single(f32([-1.2, 0.03]), action)
        c.single(f32([0.3, 0.0699]), action)  # the speed limit, both ways
        c.single(f32([-0.2, -0.0699]), action)
        c.single(f32([-1.0, 0.0699]), action)
        c.single(f32([goal - 0.002, -0.03]), action)  # near the goal but going away
    for gap in (1e-4, -1e-4):  # just over and just short of the goal
        v = 0.03
        push = {0: -0.001, 1: 0.0, 2: 0.001}[high] if goal == 0.5 else 0.0015
        v_next = v + push - 0.0025 * math.cos(3 * (goal - v))
        p = goal + gap - v_next
        v = v_next - push + 0.0025 * math.cos(3 * p)
        c.single(f32([p, v]), high)
    assert c.expected[-2]["terminated"] == [True] and c.expected[-1]["terminated"] == [False]
    assert c.single(f32([goal + 0.06, 0.0695]), high)["terminated"] == [True]
    c.single(f32([0.59, 0.06]), high)  # into the right end
    c.single(f32([goal + 0.03, -0.01]), high)  # beyond the goal, rolling back: continues
