"""Shared code of the recipes of toy text: a driver of Gymnasium that records what is drawn, and cases over all states."""

import gymnasium
import numpy as np
from reference import Gym

# Rules in whole numbers, equal on every lane.
EXACT = {"tolerance": {"step": 0.0, "end": 0.0, "reward": 0.0, "f32": 0.0}, "angles": []}


class Recorder:
    """NumPy's generator that records what it drew: uniforms, and the positions of choices in their lists."""

    def __init__(self, seed):
        self.generator, self.drawn = np.random.default_rng(seed), []

    def random(self):
        self.drawn.append(float(self.generator.random()))
        return self.drawn[-1]

    def choice(self, values):
        value = self.generator.choice(values)
        self.drawn.append(list(values).index(value))
        return value


class ToyText(Gym):
    """A toy-text environment with options. The state is the package's number of a state; a subclass may say otherwise."""

    seed = 0  # of what is drawn after `start`

    def __init__(self, id, options=None, env=None, time_limit=None):
        self.spec, self.options, self.name = gymnasium.spec(id), options or {}, env
        self.time_limit = self.spec.max_episode_steps or time_limit
        self.inner = gymnasium.make(id, disable_env_checker=True, **self.options).unwrapped

    def facts(self):
        """Id, options, time limit and spaces; the name of operant's environment where several references are of one."""
        space = self.inner.observation_space
        return {
            **({"env": self.name} if self.name else {}),
            "id": self.spec.id,
            "options": {name: float(value) for name, value in self.options.items()},
            "time_limit": self.time_limit,
            "obs": [len(space)] if hasattr(space, "spaces") else [],
            "actions": {"discrete": int(self.inner.action_space.n)},
        }

    def start(self, state):
        self.reset_state(self.seed)
        self.set(state)
        self.steps = 0

    def set(self, state):
        self.inner.s = state[0]

    def state(self):
        return [int(self.inner.s)]

    def step(self, action):
        self.random.drawn = []
        obs, reward, terminated, _, _ = self.inner.step(action)
        self.draws, self.steps = self.random.drawn, self.steps + 1
        return [int(x) for x in np.atleast_1d(obs)], float(reward), bool(terminated), self.steps >= self.time_limit

    def reset_state(self, seed):
        self.inner.reset(seed=seed)
        self.random = self.inner._np_random = Recorder(seed)
        self.inner.reset()
        self.steps = 0
        return self.state()


def away(c, edges):
    """Whether no uniform that the case just added drew is so near an edge that float32 could decide otherwise."""
    return all(abs(u - edge) > 1e-6 for draws in c.cases[-1]["draws"] for u in draws for edge in edges)


def tabular(c, rng, states, edges, episodes=6):
    """Every action from every state, and episodes of random actions, of which some are long."""
    env = c.env
    actions = range(int(env.inner.action_space.n))
    for state in states:
        for action in actions:
            env.seed += 1
            c.single(state, action)
            assert away(c, edges)
    kinds = {True: 0, False: 0}
    for _ in range(40):
        env.seed += 1
        plays = [int(a) for a in rng.integers(0, len(actions), env.time_limit)]
        if min(kinds.values()) < episodes and c.episode(env.reset_state(env.seed), plays):
            kinds[c.expected[-1]["terminated"][-1]] += 1
            assert away(c, edges)
