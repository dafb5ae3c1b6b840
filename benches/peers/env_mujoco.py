"""A MuJoCo task of Gymnasium on one thread with random actions and resets, in one of three ways, by CPU time.

`rollout`: 64 simulations in MuJoCo's own C, which computes neither observations nor rewards. `step`: one
environment of Gymnasium. `envpool`: 64 environments of EnvPool.
"""

import argparse
import time
from typing import Any

import gymnasium
import numpy as np

from random_actions import BATCHES, random_actions
from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 4
"""Environment steps after which simulations that have fallen are reset."""


def fallen(name: str, qpos: np.ndarray) -> np.ndarray:
    """Which simulations Gymnasium would end, from positions alone."""
    height, angle = qpos[:, 1], qpos[:, -1 if qpos.shape[1] < 3 else 2]
    rules = {
        "Hopper": lambda: (height <= 0.7) | (np.abs(angle) >= 0.2),
        "Walker2d": lambda: (height <= 0.8) | (height >= 2.0) | (np.abs(angle) >= 1.0),
        "InvertedPendulum": lambda: np.abs(angle) > 0.2,
        "InvertedDoublePendulum": lambda: np.cos(qpos[:, 1]) + np.cos(qpos[:, 1] + angle) <= 1 / 0.6,
        "Ant": lambda: (angle < 0.2) | (angle > 1.0),
    }
    rule = rules.get(name.split("-")[0])
    return rule() if rule else np.zeros(len(qpos), dtype=bool)


def starts(env: Any, count: int) -> np.ndarray:
    """States after resets: time, positions, velocities."""
    states = []
    for seed in range(count):
        env.reset(seed=seed)
        states.append(np.concatenate([[0.0], env.unwrapped.data.qpos, env.unwrapped.data.qvel]))
    return np.array(states)


def prepare_rollout(name: str, num_envs: int) -> Step:
    """Simulations side by side, each started again once it has fallen or has reached its time limit."""
    from mujoco import rollout

    env = gymnasium.make(name, disable_env_checker=True)
    body, limit = env.unwrapped, env.spec.max_episode_steps
    pool = starts(env, 8 * num_envs)
    states, drawn = pool[:num_envs].copy(), num_envs
    # Episodes do not end all at once.
    ages = np.random.default_rng(0).integers(0, limit, num_envs)
    actions = random_actions(body.action_space, num_envs).astype(np.float64)
    batches = [
        np.repeat(actions[np.arange(first, first + STEPS_PER_CALL) % BATCHES], body.frame_skip, axis=0)
        for first in range(0, BATCHES, STEPS_PER_CALL)
    ]
    controls = [np.ascontiguousarray(batch.swapaxes(0, 1)) for batch in batches]
    calls = 0

    def step() -> int:
        nonlocal ages, calls, drawn
        after, _ = rollout.rollout(body.model, body.data, states, controls[calls % len(controls)])
        calls, states[:], ages = calls + 1, after[:, -1], ages + STEPS_PER_CALL
        ended = np.flatnonzero(fallen(name, states[:, 1 : 1 + body.model.nq]) | (ages >= limit))
        states[ended], ages[ended] = pool[(drawn + np.arange(len(ended))) % len(pool)], 0
        drawn += len(ended)
        return STEPS_PER_CALL * num_envs

    return step


def prepare_step(name: str, num_envs: int) -> Step:
    """One environment as Gymnasium makes it."""
    from env_single import prepare

    del num_envs
    return prepare(name)


def prepare_envpool(name: str, num_envs: int) -> Step:
    """A pool of one thread."""
    from env_envpool import prepare

    return prepare(name, num_envs, num_envs, threads=1)


HOW = {
    "rollout": (prepare_rollout, ("mujoco", "gymnasium", "numpy")),
    "step": (prepare_step, ("gymnasium", "mujoco", "numpy")),
    "envpool": (prepare_envpool, ("envpool", "numpy")),
}


def main() -> None:
    """Serves one task in one of the three ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="HalfCheetah-v5")
    parser.add_argument("--how", choices=tuple(HOW), required=True)
    parser.add_argument("--envs", type=int, default=64)
    arguments = parser.parse_args()
    prepare, packages = HOW[arguments.how]
    envs = 1 if arguments.how == "step" else arguments.envs
    candidate = Candidate({"envs": envs}, lambda: prepare(arguments.env, envs))
    serve(versions(*packages), [candidate], clock=time.process_time)


if __name__ == "__main__":
    main()
