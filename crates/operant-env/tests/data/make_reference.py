"""Makes the reference data beside it from Gymnasium's classic control and MinAtar's Breakout (see README.md)."""

import copy
import json
import math
import pathlib
import sys

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit
from minatar import Environment

HERE = pathlib.Path(__file__).parent
BREAKOUT_TIME_LIMIT = 5_000  # operant's own: the package has none
GYM_IDS = {
    "cartpole": "CartPole-v1",
    "mountain_car": "MountainCar-v0",
    "mountain_car_continuous": "MountainCarContinuous-v0",
    "pendulum": "Pendulum-v1",
    "acrobot": "Acrobot-v1",
}
# How far another implementation may be off after one step (noise put on every state), and at the end of an episode.
# A case that amplifies the first to more than a quarter of the second cannot judge anybody and is not written.
STEP_NOISE = {
    "cartpole": 1e-15,
    "mountain_car": 1e-16,
    "mountain_car_continuous": 3e-8,
    "pendulum": 1e-8,
    "acrobot": 1e-14,
}
END_TOLERANCE = {
    "cartpole": 1e-6,
    "mountain_car": 1e-6,
    "mountain_car_continuous": 5e-6,
    "pendulum": 5e-5,
    "acrobot": 1e-6,
}


class Gym:
    """A Gymnasium environment whose state can be set, with the time limit counted from there."""

    def __init__(self, name):
        self.name = name
        self.spec = gymnasium.spec(GYM_IDS[name])
        # Neither checkers nor order enforcement: actions outside the box must come through.
        self.inner = gymnasium.make(GYM_IDS[name], disable_env_checker=True).unwrapped
        self.env = TimeLimit(self.inner, self.spec.max_episode_steps)
        self.continuous = name in ("mountain_car_continuous", "pendulum")

    def start(self, state, seed=0):
        self.env.reset(seed=seed)
        self.set(state)

    def set(self, state):
        values = np.array(state, dtype=np.float64)
        # MountainCarContinuous computes in float32 from its second step on: a state in mid-course is float32.
        if self.name == "mountain_car_continuous" and np.array_equal(values, values.astype(np.float32)):
            values = values.astype(np.float32)
        # CartPole computes with Python's floats, as its own tuple does.
        self.inner.state = tuple(values.tolist()) if self.name == "cartpole" else values

    def state(self):
        if self.name == "mountain_car_continuous":
            return [number32(x) for x in self.inner.state]
        return [float(x) for x in self.inner.state]

    def step(self, action):
        if self.continuous:
            action = np.array(action, dtype=np.float32)
        obs, reward, terminated, truncated, _ = self.env.step(action)
        assert obs.dtype == np.float32
        return [number32(x) for x in obs], float(reward), bool(terminated), bool(truncated)

    def reset_state(self, seed):
        self.env.reset(seed=seed)
        return [float(x) for x in self.inner.state]


class Breakout:
    """MinAtar's Breakout behind the same calls, without sticky actions; the game ignores its ramping option."""

    name = "minatar_breakout"

    def __init__(self):
        self.env = Environment("breakout", sticky_action_prob=0.0)

    def start(self, state, seed=0):
        self.env.seed(seed)
        self.env.reset()
        self.steps = 0
        game = self.env.env
        game.ball_y, game.ball_x, game.ball_dir, game.pos, strike, game.last_y, game.last_x = state[:7]
        game.strike = bool(strike)
        game.brick_map = np.array(state[7:], dtype=np.float64).reshape(10, 10)

    def state(self):
        game = self.env.env
        head = [game.ball_y, game.ball_x, game.ball_dir, game.pos, game.strike, game.last_y, game.last_x]
        return [int(x) for x in head] + [int(x) for x in game.brick_map.flatten()]

    def step(self, action):
        reward, terminated = self.env.act(action)
        self.steps += 1
        obs = [int(x) for x in self.env.state().flatten()]
        return obs, int(reward), bool(terminated), self.steps >= BREAKOUT_TIME_LIMIT

    def reset_state(self, seed):
        self.env.seed(seed)
        self.env.reset()
        return self.state()


class Number32(float):
    """A float32 value that prints as the shortest decimal which is that float32."""

    def __repr__(self):
        return np.format_float_positional(np.float32(self), trim="0") if abs(self) >= 1e-4 or self == 0 else (
            np.format_float_scientific(np.float32(self), trim="0"))


def number32(x):
    return Number32(np.float32(x))


def dump(value):
    """JSON without spaces, every float by its own repr (the json module would use float64's)."""
    if isinstance(value, dict):
        return "{" + ",".join(json.dumps(k) + ":" + dump(v) for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(dump(v) for v in value) + "]"
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


def replay(env, state, actions, noise=0.0, rng=None):
    """The answer of `replay` to one case; noise disturbs every state by that much, relatively, before its step."""
    env.start(state)
    out = {"obs": [], "reward": [], "terminated": [], "truncated": [], "state": []}
    for action in actions:
        if noise:
            env.set([x * (1 + noise * rng.uniform(-1, 1)) for x in env.state()])
        obs, reward, terminated, truncated = env.step(action)
        for key, value in zip(out, (obs, reward, terminated, truncated, env.state())):
            out[key].append(value)
        if terminated or truncated:
            break
    return out


def angle_gap(name, a, b):
    """Largest difference of two states; Acrobot's angles are compared on the circle."""
    gaps = [abs(x - y) for x, y in zip(a, b)]
    if name == "acrobot":
        gaps[:2] = [min(g, 2 * math.pi - g) for g in gaps[:2]]
    return max(gaps)


def judges_fairly(env, state, actions, expected):
    """Whether implementations that agree in one step must agree at the end of this episode."""
    rng = np.random.default_rng(0)
    for _ in range(3):
        other = replay(env, state, actions, STEP_NOISE[env.name], rng)
        if any(other[flag] != expected[flag] for flag in ("terminated", "truncated")):
            return False
        if angle_gap(env.name, other["state"][-1], expected["state"][-1]) > END_TOLERANCE[env.name] / 4:
            return False
    return True


def f32(values):
    """Rounded to float32, so that float32 lanes start from the same state."""
    return [float(np.float32(x)) for x in values]


class Collection:
    """The cases of one environment and what the reference answers."""

    def __init__(self, env):
        self.env, self.cases, self.expected, self.long = env, [], [], []

    def single(self, state, action, on_edge=False):
        """Adds one step. Unless it is on an edge by intent, float32's error must not move it over one."""
        out = replay(self.env, state, [action])
        if self.env.name in STEP_NOISE and not on_edge:
            rng = np.random.default_rng(0)
            for _ in range(8):
                other = replay(self.env, state, [action], 1e-6, rng)
                near = max(abs(a - b) for a, b in zip(out["state"][0], other["state"][0])) < 1e-2
                assert near and out["terminated"] == other["terminated"], f"{self.env.name} {state} is too near an edge"
        self.cases.append({"state": state, "actions": [action]})
        self.expected.append(out)
        return out

    def episode(self, state, actions, want=None):
        """Adds a whole episode; says whether it ended as wanted and can judge."""
        out = replay(self.env, state, actions)
        ending = (out["terminated"][-1], out["truncated"][-1])
        if (want is not None and ending != want) or not (any(ending) or want is None):
            return False
        if self.env.name in STEP_NOISE and not judges_fairly(self.env, state, actions, out):
            return False
        self.cases.append({"state": state, "actions": actions[: len(out["reward"])]})
        self.expected.append(out)
        return True

    def long_episode(self, state, actions, want):
        """Adds an episode of which only the end is kept: a long one costs little so."""
        out = replay(self.env, state, actions)
        steps = len(out["reward"])
        if (out["terminated"][-1], out["truncated"][-1]) != want:
            return False
        if self.env.name in STEP_NOISE and not judges_fairly(self.env, state, actions, out):
            return False
        self.long.append({
            "state": state, "actions": actions[:steps], "steps": steps, "return": sum(out["reward"]),
            "terminated": want[0], "truncated": want[1], "final_obs": out["obs"][-1], "final_state": out["state"][-1],
        })
        return True

    def write(self):
        for kind, rows in (("cases", self.cases), ("expected", self.expected), ("long", self.long)):
            text = "".join(dump(row) + "\n" for row in rows)
            (HERE / f"{self.env.name}.{kind}.jsonl").write_text(text)
        flags = [(e["terminated"][-1], e["truncated"][-1]) for e in self.expected]
        print(f"{self.env.name}: {len(self.cases)} cases, {sum(len(e['reward']) for e in self.expected)} steps, "
              f"{len(self.long)} long; terminated {sum(t for t, _ in flags)}, truncated {sum(t for _, t in flags)}, "
              f"both {sum(a and b for a, b in flags)}")


def first(tries, attempt):
    """The first try for which the attempt succeeds; the search is part of the recipe, so it must."""
    for i in range(tries):
        if attempt(i):
            return
    sys.exit(f"make_reference.py: no case of the wanted kind in {tries} tries")


def rollout(env, state, policy, limit):
    """The actions that a policy (state -> action) takes from a state until the episode ends."""
    env.start(state)
    actions = []
    for _ in range(limit):
        actions.append(policy(env.state(), len(actions)))
        _, _, terminated, truncated = env.step(actions[-1])
        if terminated or truncated:
            break
    return actions


def cartpole(rng):
    env = Gym("cartpole")
    c = Collection(env)
    limit = env.inner.theta_threshold_radians
    for k in range(40):
        c.single(f32(rng.uniform([-2.35, -3.0, -0.205, -3.5], [2.35, 3.0, 0.205, 3.5])), k % 2)
    for k, side in enumerate((1.0, -1.0) * 4):  # leaves, or just stays, by 1e-4: the same in float32
        margin = 1e-4 if k < 4 else -1e-4
        c.single(f32([side * (2.4 + margin - 0.02 * 1.5), side * 1.5, 0.01 * side, 0.1]), k % 2)
        c.single(f32([0.3 * side, -0.2, side * (limit + margin - 0.02 * 0.8), side * 0.8]), k % 2)
    for side in (1.0, -1.0):  # exactly on the limit: the comparison is strict
        assert c.single([2.4 * side, 0.0, 0.0, 0.0], 1, on_edge=True)["terminated"] == [False]
        assert c.single([0.0, 0.0, limit * side, 0.0], 0, on_edge=True)["terminated"] == [False]
    c.single([2.39 * 1.0, 2.0, limit - 1e-3, 1.0], 1)  # both limits at once
    c.single([0.0, 0.0, 0.0, 0.0], 1)

    def balance(s, _):
        return int(0.05 * s[0] + 0.15 * s[1] + s[2] + 0.4 * s[3] > 0)

    for seed in range(5):
        actions = [int(a) for a in rng.integers(0, 2, 500)]
        assert c.episode(env.reset_state(seed), actions, (True, False))
    for push in (0, 1):
        state = env.reset_state(10 + push)
        assert c.episode(state, rollout(env, state, lambda s, k: balance(s, k) if k < 20 else push, 500), (True, False))
    # A replayed balancing act multiplies a last-bit difference by e^4 a second, so no case can last the 500 steps.
    for push in (0, 1):
        state = env.reset_state(20 + push)
        act = rollout(env, state, lambda s, k: balance(s, k) if k < 150 else push, 500)
        assert len(act) > 150 and c.long_episode(state, act, (True, False))
    c.write()


def mountain_car(rng):
    env = Gym("mountain_car")
    c = Collection(env)
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
    c.write()


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
    c.single(f32([goal + 0.03, -0.01]), high)  # beyond the goal, rolling back: goes on


def mountain_car_continuous(rng):
    env = Gym("mountain_car_continuous")
    c = Collection(env)
    for _ in range(36):
        c.single(f32(rng.uniform([-1.2, -0.07], [0.44, 0.07])), f32([rng.uniform(-1.6, 1.6)]))
    edge_singles(c, [[-1.0], [1.0]], 0.45)
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
    c.write()


def pendulum(rng):
    env = Gym("pendulum")
    c = Collection(env)
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
    c.write()


def acrobot(rng):
    env = Gym("acrobot")
    c = Collection(env)
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
    c.write()


def bricks(*cells):
    grid = [0] * 100
    for y, x in cells:
        grid[10 * y + x] = 1
    return grid


def landing(env):
    """The column in which the ball will be met: the course of the ball does not depend on the paddle until row 9."""
    probe = copy.deepcopy(env.env.env)
    while probe.ball_y != 8 or probe.ball_dir < 2:
        probe.act(0)
    return probe.ball_x, probe


def keeper(env, rng):
    """A player that never misses, meeting the ball in its old or its new column at random."""
    choice = {"target": None}

    def policy(_, k):
        game = env.env.env
        if choice["target"] is None or (game.ball_y == 8 and game.ball_dir < 2):
            choice["target"] = rng.random()
        column, probe = landing(env)
        step = 1 if probe.ball_dir == 2 else -1
        target = column if choice["target"] < 0.6 else max(0, min(9, column + step))
        return 0 if game.pos == target else (1 if game.pos > target else 3)

    return policy


def minatar_breakout(rng):
    env = Breakout()
    c = Collection(env)
    full = bricks(*[(y, x) for y in (1, 2, 3) for x in range(10)])
    some = bricks((1, 0), (1, 9), (2, 5), (3, 0), (3, 2), (3, 9))

    def at(y, x, direction, pos, strike, last, cells):
        return [y, x, direction, pos, strike, *last, *cells]

    # state, action, what must come of it (reward, terminated, ball_y, ball_x, ball_dir, pos, strike, bricks left)
    edges = [
        (at(5, 5, 0, 4, 0, (6, 6), full), 0, (0, False, 4, 4, 0, 4, 0, 30)),  # free, all four directions
        (at(5, 5, 1, 4, 0, (6, 4), full), 2, (0, False, 4, 6, 1, 4, 0, 30)),
        (at(5, 5, 2, 0, 0, (4, 4), full), 1, (0, False, 6, 6, 2, 0, 0, 30)),  # the paddle stops at both ends
        (at(5, 5, 3, 9, 0, (4, 6), full), 3, (0, False, 6, 4, 3, 9, 0, 30)),
        (at(5, 0, 0, 4, 0, (6, 1), full), 4, (0, False, 4, 0, 1, 4, 0, 30)),  # side walls
        (at(5, 9, 1, 4, 0, (6, 8), full), 5, (0, False, 4, 9, 0, 4, 0, 30)),
        (at(5, 9, 2, 4, 0, (4, 8), full), 1, (0, False, 6, 9, 3, 3, 0, 30)),
        (at(5, 0, 3, 4, 0, (4, 1), full), 3, (0, False, 6, 0, 2, 5, 0, 30)),
        (at(4, 5, 0, 4, 0, (5, 6), full), 0, (1, False, 4, 4, 3, 4, 1, 29)),  # bricks from below and above
        (at(4, 5, 1, 4, 0, (5, 4), full), 0, (1, False, 4, 6, 2, 4, 1, 29)),
        (at(0, 1, 3, 4, 0, (0, 2), some), 0, (1, False, 0, 0, 0, 4, 1, 5)),
        (at(1, 6, 3, 4, 0, (0, 7), some), 0, (1, False, 1, 5, 0, 4, 1, 5)),
        (at(4, 0, 0, 4, 0, (5, 1), some), 0, (1, False, 4, 0, 2, 4, 1, 5)),  # wall and brick at once
        (at(4, 9, 1, 4, 0, (5, 8), some), 0, (1, False, 4, 9, 3, 4, 1, 5)),
        (at(4, 1, 1, 4, 1, (4, 0), some), 0, (0, False, 3, 2, 1, 4, 1, 6)),  # strike: passes over a brick
        (at(2, 1, 2, 4, 1, (2, 0), some), 3, (0, False, 3, 2, 2, 5, 1, 6)),
        (at(4, 5, 1, 4, 1, (4, 4), some), 0, (0, False, 3, 6, 1, 4, 0, 6)),  # strike ends in the open
        (at(0, 5, 0, 4, 0, (1, 6), some), 0, (0, False, 0, 4, 3, 4, 0, 6)),  # the ceiling
        (at(0, 5, 1, 4, 1, (0, 4), some), 0, (0, False, 0, 6, 2, 4, 0, 6)),
        (at(0, 0, 0, 4, 0, (1, 1), some), 0, (0, False, 0, 0, 2, 4, 0, 6)),  # both corners
        (at(0, 9, 1, 4, 0, (1, 8), some), 0, (0, False, 0, 9, 3, 4, 0, 6)),
        (at(8, 5, 2, 5, 0, (7, 4), some), 0, (0, False, 8, 6, 1, 5, 0, 6)),  # the paddle under the old column
        (at(8, 5, 3, 5, 0, (7, 6), some), 0, (0, False, 8, 4, 0, 5, 0, 6)),
        (at(8, 5, 2, 6, 0, (7, 4), some), 0, (0, False, 8, 6, 0, 6, 0, 6)),  # under the new column
        (at(8, 5, 3, 4, 0, (7, 6), some), 0, (0, False, 8, 4, 1, 4, 0, 6)),
        (at(8, 5, 2, 5, 0, (7, 4), some), 3, (0, False, 8, 6, 0, 6, 0, 6)),  # the paddle moves first
        (at(8, 5, 2, 4, 0, (7, 4), some), 3, (0, False, 8, 6, 1, 5, 0, 6)),
        (at(8, 9, 2, 9, 0, (7, 8), some), 0, (0, False, 8, 9, 0, 9, 0, 6)),  # paddle in a corner
        (at(8, 0, 3, 1, 0, (7, 1), some), 1, (0, False, 8, 0, 1, 0, 0, 6)),
        (at(8, 5, 2, 2, 0, (7, 4), some), 3, (0, True, 9, 6, 2, 3, 0, 6)),  # lost
        (at(8, 0, 3, 2, 0, (7, 1), some), 0, (0, True, 9, 0, 2, 2, 0, 6)),
        (at(8, 5, 2, 6, 0, (7, 4), some), 3, (0, True, 9, 6, 2, 7, 0, 6)),
        (at(4, 4, 1, 4, 0, (5, 3), bricks((3, 5))), 0, (1, False, 4, 5, 2, 4, 1, 0)),  # the last brick: no wall yet
        (at(7, 4, 2, 4, 0, (6, 3), bricks()), 0, (0, False, 8, 5, 2, 4, 0, 0)),
        (at(8, 5, 2, 5, 0, (7, 4), bricks()), 0, (0, False, 8, 6, 1, 5, 0, 30)),  # the new wall
        (at(8, 5, 3, 4, 0, (7, 6), bricks()), 0, (0, False, 8, 4, 1, 4, 0, 30)),
        (at(8, 5, 3, 8, 0, (7, 6), bricks()), 0, (0, True, 9, 4, 3, 8, 0, 30)),  # ... also when the ball is lost
    ]
    for state, action, want in edges:
        out = c.single(state, action)
        s = out["state"][0]
        got = (out["reward"][0], out["terminated"][0], *s[:5], sum(s[7:]))
        assert got == want, (state[:7], action, got, want)
    for strange in range(6):  # states from play, with the player's and other actions
        play = keeper(env, rng)
        actions = rollout(env, env.reset_state(strange), play, 40 + 150 * strange)
        c.single(env.state(), int(rng.integers(0, 6)))
    starts = {}
    for seed in range(16):
        starts.setdefault(env.reset_state(seed)[2], env.reset_state(seed))
    assert sorted(starts) == [2, 3]
    for start in starts.values():
        for _ in range(2):
            assert c.episode(start, [int(a) for a in rng.integers(0, 6, 200)], (True, False))
    # A player, then nobody: through the last brick and the new wall.
    start = at(6, 4, 1, 5, 0, (7, 3), bricks((3, 7)))
    play = keeper(env, rng)
    flee = lambda s, k: play(s, k) if k < 18 else (1 if env.env.env.pos > 0 else 0)
    first(20, lambda _: c.episode(start, rollout(env, start, flee, 200), (True, False)))
    assert any(sum(s[7:]) == 0 for e in c.expected for s in e["state"])
    actions = rollout(env, starts[2], keeper(env, rng), BREAKOUT_TIME_LIMIT)
    assert c.long_episode(starts[2], actions, (False, True))
    first(20, lambda i: c.long_episode(
        starts[3], rollout(env, starts[3], keeper(env, rng), 1_500 + i) + [1] * 40, (True, False)))
    c.write()


def specs():
    """Time limits and spaces as the packages declare them."""
    out = {}
    for name in GYM_IDS:
        env = Gym(name)
        act = env.inner.action_space
        out[name] = {
            "id": env.spec.id,
            "time_limit": env.spec.max_episode_steps,
            "obs": list(env.inner.observation_space.shape),
            "actions": {"box": [float(act.low[0]), float(act.high[0])]} if env.continuous else {"discrete": int(act.n)},
        }
    out["minatar_breakout"] = {"id": "MinAtar/Breakout", "time_limit": BREAKOUT_TIME_LIMIT, "obs": [10, 10, 4],
                               "actions": {"discrete": Environment("breakout").num_actions()}}
    (HERE / "specs.json").write_text("{\n" + ",\n".join(f' {json.dumps(k)}: {dump(v)}' for k, v in out.items()) + "\n}\n")


def main():
    specs()
    for k, make in enumerate((cartpole, mountain_car, mountain_car_continuous, pendulum, acrobot, minatar_breakout)):
        make(np.random.default_rng(1_000 + k))


if __name__ == "__main__":
    main()
