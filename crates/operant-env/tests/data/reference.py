"""Shared code of the recipes: driving Gymnasium and MinAtar, cases, and the files that become of them (README.md)."""

import gzip
import importlib.util
import json
import math
import pathlib
import sys

import gymnasium
import minatar
import numpy as np
from gymnasium.wrappers import TimeLimit

HERE = pathlib.Path(__file__).parent


def recipe(name):
    """The recipe of an environment, as a module. It has

    SEED: of the generator that `cases` gets.
    STEP_NOISE: how far another implementation may be off after one step, relative; 0.0 for rules in whole numbers. An episode
        that amplifies this to more than a quarter of the tolerance at its end is not written.
    REFERENCE: what the tests may find different: in f64 states after one `step` and at the `end` of an episode, and rewards; in
        `f32` anything after one step, but observations in `f32_obs` if there is one. `angles` are the places in the state that are
        compared on the circle.
    environment(): the driver, a `Gym` or a `MinAtar`.
    cases(collection, rng): adds the cases.
    """
    spec = importlib.util.spec_from_file_location(f"recipe_{name}", HERE / f"{name}.recipe.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Gym:
    """A Gymnasium environment whose state can be set, with the time limit counted from there."""

    package = f"gymnasium {gymnasium.__version__}"
    draws = None  # what was drawn in the last step; only resets draw here

    def __init__(self, id):
        self.spec = gymnasium.spec(id)
        # Neither checkers nor order enforcement: actions outside the box must come through.
        self.inner = gymnasium.make(id, disable_env_checker=True).unwrapped
        self.env = TimeLimit(self.inner, self.spec.max_episode_steps)
        self.continuous = isinstance(self.inner.action_space, gymnasium.spaces.Box)

    def facts(self):
        """Id, options, time limit and spaces as the package declares them."""
        act = self.inner.action_space
        return {
            "id": self.spec.id,
            "options": {},
            "time_limit": self.spec.max_episode_steps,
            "obs": list(self.inner.observation_space.shape),
            "actions": {"box": [float(act.low[0]), float(act.high[0])]} if self.continuous else {"discrete": int(act.n)},
        }

    def start(self, state):
        self.env.reset(seed=0)
        self.set(state)

    def set(self, state):
        self.inner.state = np.array(state, dtype=np.float64)

    def state(self):
        return [float(x) for x in self.inner.state]

    def step(self, action):
        if self.continuous:
            action = np.array(action, dtype=np.float32)
        obs, reward, terminated, truncated, _ = self.env.step(action)
        assert obs.dtype == np.float32
        return [number32(x) for x in obs], float(reward), bool(terminated), bool(truncated)

    def reset_state(self, seed):
        self.env.reset(seed=seed)
        return self.state()


class Recorder:
    """NumPy's generator that records what it drew, in order."""

    def __init__(self, seed):
        self.generator, self.drawn = np.random.RandomState(seed), []

    def keep(self, values):
        self.drawn += np.ravel(values).tolist()
        return values

    def rand(self, *shape):
        return self.keep(self.generator.rand(*shape))

    def randint(self, *args, **bounds):
        return self.keep(self.generator.randint(*args, **bounds))

    def choice(self, values):
        return values[self.randint(len(values))]


class MinAtar:
    """A game of the MinAtar package behind the same calls. A recipe's subclass gives `get` and `set`, the public state
    from and to the attributes of `game`. The time limit is operant's own: the package has none."""

    package = "MinAtar 1.0.15"
    seed = 0  # of what is drawn after `start`

    def __init__(self, name, time_limit, sticky_action_prob, module=None, ramping=True, env=None):
        self.name, self.time_limit, self.sticky_action_prob = name, time_limit, sticky_action_prob
        self.module, self.ramping, self.of = module or name.lower(), ramping, env

    def facts(self):
        """Id, options, time limit and spaces; the name of operant's environment where several references are of one."""
        env = minatar.Environment(self.module)
        return {
            "id": f"MinAtar/{self.name}-v0",
            **({"env": self.of} if self.of else {}),
            "options": {"sticky_action_prob": self.sticky_action_prob, **({} if self.ramping else {"difficulty_ramping": 0})},
            "time_limit": self.time_limit,
            "obs": env.state_shape(),
            "actions": {"discrete": env.num_actions()},
        }

    @property
    def game(self):
        return self.env.env

    def reset(self, seed):
        # A new object, since the action executed last survives a reset.
        self.env = minatar.Environment(self.module, self.sticky_action_prob, self.ramping)
        self.env.random = self.game.random = self.random = Recorder(seed)
        self.env.reset()
        self.steps = 0

    def start(self, state):
        self.reset(self.seed)
        self.set(state)

    def state(self):
        return [int(x) for x in self.get()]

    def step(self, action):
        self.random.drawn.clear()
        reward, terminated = self.env.act(action)
        self.steps += 1
        # The package draws for sticky actions also when there are none.
        self.draws = self.random.drawn[0 if self.sticky_action_prob > 0 else 1 :]
        obs = [int(x) for x in self.env.state().flatten()]
        return obs, int(reward), bool(terminated), self.steps >= self.time_limit

    def reset_state(self, seed):
        self.reset(seed)
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


def write(name, rows, directory=HERE):
    """Writes NAME.jsonl.gz, whose bytes depend on the rows alone."""
    text = "".join(dump(row) + "\n" for row in rows)
    (directory / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))


def replay(env, state, actions, noise=0.0, rng=None):
    """The answer of `replay` to one case, and what each step drew; noise disturbs every state by that much, relatively,
    before its step."""
    env.start(state)
    out, draws = {"obs": [], "reward": [], "terminated": [], "truncated": [], "state": []}, []
    for action in actions:
        if noise:
            env.set([x * (1 + noise * rng.uniform(-1, 1)) for x in env.state()])
        obs, reward, terminated, truncated = env.step(action)
        draws.append(env.draws)
        for key, value in zip(out, (obs, reward, terminated, truncated, env.state())):
            out[key].append(value)
        if terminated or truncated:
            break
    return out, draws


def f32(values):
    """Rounded to float32, so that float32 lanes start from the same state."""
    return [float(np.float32(x)) for x in values]


class Collection:
    """The cases of one environment and what the reference answers."""

    def __init__(self, name):
        self.name, self.recipe = name, recipe(name)
        self.env = self.recipe.environment()
        self.cases, self.expected, self.long = [], [], []

    def gap(self, a, b):
        """Largest difference of two states; angles are compared on the circle."""
        gaps = [abs(x - y) for x, y in zip(a, b)]
        for angle in self.recipe.REFERENCE["angles"]:
            gaps[angle] = min(gaps[angle], 2 * math.pi - gaps[angle])
        return max(gaps)

    def judges_fairly(self, state, actions, expected):
        """Whether implementations that agree in one step must agree at the end of this episode."""
        if self.recipe.STEP_NOISE == 0.0:
            return True
        rng = np.random.default_rng(0)
        for _ in range(3):
            other, _ = replay(self.env, state, actions, self.recipe.STEP_NOISE, rng)
            if any(other[flag] != expected[flag] for flag in ("terminated", "truncated")):
                return False
            if self.gap(other["state"][-1], expected["state"][-1]) > self.recipe.REFERENCE["tolerance"]["end"] / 4:
                return False
        return True

    def case(self, state, actions, draws):
        """A line of input; what was drawn stands in it if anything ever was."""
        case = {"state": state, "actions": actions[: len(draws)]}
        return {**case, "draws": draws} if any(draws) else case

    def single(self, state, action, on_edge=False):
        """Adds one step. Unless it is on an edge by intent, float32's error must not move it over one."""
        out, draws = replay(self.env, state, [action])
        if self.recipe.STEP_NOISE > 0.0 and not on_edge:
            rng = np.random.default_rng(0)
            for _ in range(8):
                other, _ = replay(self.env, state, [action], 1e-6, rng)
                near = max(abs(a - b) for a, b in zip(out["state"][0], other["state"][0])) < 1e-2
                assert near and out["terminated"] == other["terminated"], f"{self.name} {state} is too near an edge"
        self.cases.append(self.case(state, [action], draws))
        self.expected.append(out)
        return out

    def episode(self, state, actions, expected=None):
        """Adds a whole episode; returns whether it ended as expected and is a valid test."""
        out, draws = replay(self.env, state, actions)
        ending = (out["terminated"][-1], out["truncated"][-1])
        if (expected is not None and ending != expected) or not (any(ending) or expected is None):
            return False
        if not self.judges_fairly(state, actions, out):
            return False
        self.cases.append(self.case(state, actions, draws))
        self.expected.append(out)
        return True

    def long_episode(self, state, actions, expected):
        """Adds an episode of which only the end is kept: a long one costs little so."""
        out, draws = replay(self.env, state, actions)
        if (out["terminated"][-1], out["truncated"][-1]) != expected or not self.judges_fairly(state, actions, out):
            return False
        self.long.append({
            **self.case(state, actions, draws), "steps": len(draws), "return": sum(out["reward"]),
            "terminated": expected[0], "truncated": expected[1], "final_obs": out["obs"][-1], "final_state": out["state"][-1],
        })
        return True

    def write(self, directory=HERE):
        reference = {"package": self.env.package, **self.env.facts(), **self.recipe.REFERENCE}
        (directory / f"{self.name}.reference.json").write_text(dump(reference) + "\n")
        for kind, rows in (("cases", self.cases), ("expected", self.expected), ("long", self.long)):
            write(f"{self.name}.{kind}", rows, directory)
        flags = [(e["terminated"][-1], e["truncated"][-1]) for e in self.expected]
        print(f"{self.name}: {len(self.cases)} cases, {sum(len(e['reward']) for e in self.expected)} steps, "
              f"{len(self.long)} long; terminated {sum(t for t, _ in flags)}, truncated {sum(t for _, t in flags)}, "
              f"both {sum(a and b for a, b in flags)}")


def first(tries, attempt):
    """The first try for which the attempt succeeds; the search is part of the recipe, so it must."""
    for i in range(tries):
        if attempt(i):
            return
    sys.exit(f"make_reference.py: no case of the required kind in {tries} tries")


def steady(c, rng, policy, seeds):
    """Adds whole episodes of a game of MinAtar: of random actions, and each that is longer than those before of the policies
    that `policy()` makes, one a seed. Returns the length of the longest."""
    env = c.env
    start = env.reset_state(1)
    for env.seed in (2, 3):
        first(20, lambda _: c.episode(start, [int(a) for a in rng.integers(0, 6, 400)], (True, False)))
    return longest(c, start, policy, seeds)


def longest(c, start, policy, seeds):
    """Adds each episode from `start` that is longer than those before; returns the length of the longest."""
    best = 0
    for c.env.seed in seeds:
        actions = rollout(c.env, start, policy(), c.env.time_limit)
        if len(actions) > best and c.long_episode(start, actions, (True, False)):
            best = len(actions)
    return best


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
