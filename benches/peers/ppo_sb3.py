"""Stable-Baselines3's PPO with the hyperparameters that RL Baselines3 Zoo publishes for a task, on the CPU.

Measures its speed on CartPole-v1 for the driver, or trains until a task is solved (`--solve`).
"""

import argparse
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize
from torch import nn

from worker import (
    EVALUATION_EPISODES,
    SOLVED_AT,
    Attempts,
    Candidate,
    Step,
    protocol,
    report_solved,
    serve,
    thread_counts,
    versions,
)

EVAL_STEPS = 2560
"""Environment steps between attempts to count as solved."""
STEPS_PER_CALL = 1024


def falling(start: float) -> Callable[[float], float]:
    """A value that falls linearly to zero with the share of training that is left."""
    return lambda remaining: start * remaining


WIDE = {
    "log_std_init": -2,
    "ortho_init": False,
    "activation_fn": nn.ReLU,
    "net_arch": {"pi": [256, 256], "vf": [256, 256]},
}
OF_ZOO: dict[str, dict[str, Any]] = {
    "CartPole-v1": {
        "n_envs": 8,
        "n_timesteps": 100_000,
        "n_steps": 32,
        "batch_size": 256,
        "n_epochs": 20,
        "gamma": 0.98,
        "gae_lambda": 0.8,
        "ent_coef": 0.0,
        "learning_rate": falling(1e-3),
        "clip_range": falling(0.2),
    },
    "Acrobot-v1": {
        "normalize": True,
        "n_envs": 16,
        "n_timesteps": 1_000_000,
        "n_steps": 256,
        "gae_lambda": 0.94,
        "n_epochs": 4,
        "ent_coef": 0.0,
    },
    "Pendulum-v1": {
        "n_envs": 4,
        "n_timesteps": 100_000,
        "n_steps": 1024,
        "gamma": 0.9,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 1e-3,
        "use_sde": True,
        "sde_sample_freq": 4,
    },
    "MountainCarContinuous-v0": {
        "normalize": True,
        "n_timesteps": 20_000,
        "batch_size": 256,
        "n_steps": 8,
        "gamma": 0.9999,
        "learning_rate": 7.77e-05,
        "ent_coef": 0.00429,
        "clip_range": 0.1,
        "n_epochs": 10,
        "gae_lambda": 0.9,
        "max_grad_norm": 5,
        "vf_coef": 0.19,
        "use_sde": True,
        "policy_kwargs": {"log_std_init": -3.29, "ortho_init": False},
    },
    "InvertedPendulum-v5": {
        "normalize": True,
        "batch_size": 64,
        "n_steps": 32,
        "gamma": 0.999,
        "learning_rate": 0.000222425,
        "ent_coef": 1.37976e-07,
        "clip_range": 0.4,
        "n_epochs": 5,
        "gae_lambda": 0.9,
        "max_grad_norm": 0.3,
        "vf_coef": 0.19816,
    },
    "InvertedDoublePendulum-v5": {
        "normalize": True,
        "batch_size": 512,
        "n_steps": 128,
        "gamma": 0.98,
        "learning_rate": 0.000155454,
        "ent_coef": 1.05057e-06,
        "clip_range": 0.4,
        "n_epochs": 10,
        "gae_lambda": 0.8,
        "vf_coef": 0.695929,
    },
    "Reacher-v5": {
        "normalize": True,
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.9,
        "learning_rate": 0.000104019,
        "ent_coef": 7.52585e-08,
        "clip_range": 0.3,
        "n_epochs": 5,
        "gae_lambda": 1.0,
        "max_grad_norm": 0.9,
        "vf_coef": 0.950368,
    },
    "Swimmer-v5": {
        "normalize": True,
        "n_envs": 4,
        "n_steps": 1024,
        "batch_size": 256,
        "gamma": 0.9999,
        "learning_rate": 6e-4,
        "gae_lambda": 0.98,
    },
    "Ant-v5": {"normalize": True},
    "HalfCheetah-v5": {
        "normalize": True,
        "batch_size": 64,
        "n_steps": 512,
        "gamma": 0.98,
        "learning_rate": 2.0633e-05,
        "ent_coef": 0.000401762,
        "clip_range": 0.1,
        "n_epochs": 20,
        "gae_lambda": 0.92,
        "max_grad_norm": 0.8,
        "vf_coef": 0.58096,
        "policy_kwargs": WIDE,
    },
    "Hopper-v5": {
        "normalize": True,
        "batch_size": 32,
        "n_steps": 512,
        "gamma": 0.999,
        "learning_rate": 9.80828e-05,
        "ent_coef": 0.00229519,
        "n_epochs": 5,
        "gae_lambda": 0.99,
        "max_grad_norm": 0.7,
        "vf_coef": 0.835671,
        "policy_kwargs": WIDE,
    },
    "Walker2d-v5": {
        "normalize": True,
        "batch_size": 32,
        "n_steps": 512,
        "learning_rate": 5.05041e-05,
        "ent_coef": 0.000585045,
        "clip_range": 0.1,
        "n_epochs": 20,
        "max_grad_norm": 1,
        "vf_coef": 0.871923,
    },
    "MiniGrid-FourRooms-v0": {
        "normalize": True,
        "n_envs": 8,
        "n_timesteps": 5_000_000,
        "n_steps": 512,
        "n_epochs": 10,
        "ent_coef": 0.0,
        "learning_rate": 2.5e-4,
    },
}
"""`hyperparams/ppo.yml` of RL Baselines3 Zoo at commit 208b6fd, less what equals the library's defaults.

Where it is not said, there is one environment and a million steps. Its MuJoCo tasks are of versions 2 to 4.
"""


def wrapped(env: str) -> gymnasium.Env:
    """An environment with the wrapper that rl-zoo gives it."""
    if not env.startswith("MiniGrid"):
        return gymnasium.make(env)
    from minigrid.wrappers import FlatObsWrapper

    return FlatObsWrapper(gymnasium.make(env))


def learner(env: str, seed: int) -> tuple[PPO, int]:
    """PPO as rl-zoo sets it up for a task, and the steps that it trains for."""
    zoo = dict(OF_ZOO[env])
    steps, normalize = zoo.pop("n_timesteps", 1_000_000), zoo.pop("normalize", False)
    envs = make_vec_env(lambda: wrapped(env), n_envs=zoo.pop("n_envs", 1), seed=seed)
    if normalize:
        envs = VecNormalize(envs, gamma=zoo.get("gamma", 0.99))
    return PPO("MlpPolicy", envs, seed=seed, device="cpu", **zoo), steps


class Evaluation:
    """Greedy episodes, all side by side for speed, with the statistics by which training normalises."""

    def __init__(self, env: str) -> None:
        self.envs: list[gymnasium.Env] = []
        self.vectorised = None
        if "vector_entry_point" in vars(spec := gymnasium.spec(env)) and spec.vector_entry_point:
            mode = "vector_entry_point"
            self.vectorised = gymnasium.make_vec(env, num_envs=EVALUATION_EPISODES, vectorization_mode=mode)
        else:
            self.envs = [wrapped(env) for _ in range(EVALUATION_EPISODES)]

    def mean(self, model: PPO, seed: int) -> float:
        """Mean return of the episodes from this seed on."""
        return self._together(model, seed) if self.vectorised else self._one_by_one(model, seed)

    def _act(self, model: PPO, obs: np.ndarray) -> np.ndarray:
        normalised = model.get_vec_normalize_env()
        obs = normalised.normalize_obs(obs) if normalised else obs
        return model.predict(obs, deterministic=True)[0]

    def _together(self, model: PPO, seed: int) -> float:
        obs, _ = self.vectorised.reset(seed=seed)
        returns, running = np.zeros(EVALUATION_EPISODES), np.ones(EVALUATION_EPISODES, dtype=bool)
        while running.any():
            obs, reward, terminated, truncated, _ = self.vectorised.step(self._act(model, obs))
            returns[running] += reward[running]
            running &= ~(terminated | truncated)
        return float(returns.mean())

    def _one_by_one(self, model: PPO, seed: int) -> float:
        running, returns = list(self.envs), 0.0
        obs = [env.reset(seed=seed + index)[0] for index, env in enumerate(running)]
        while running:
            steps = [
                env.step(action) for env, action in zip(running, self._act(model, np.stack(obs)), strict=True)
            ]
            returns += float(sum(step[1] for step in steps))
            alive = [not (step[2] or step[3]) for step in steps]
            running = [env for env, lives in zip(running, alive, strict=True) if lives]
            obs = [step[0] for step, lives in zip(steps, alive, strict=True) if lives]
        return returns / len(self.envs)


class UntilSolved(BaseCallback):
    """Evaluates when the training mean suggests it, and ends the training once the task is solved."""

    def __init__(self, env: str, solved_at: float, interval: int, most_seconds: float) -> None:
        super().__init__()
        self.env, self.solved_at, self.most_seconds = env, solved_at, most_seconds
        self.attempts = Attempts(interval, solved_at)
        self.evaluation: Evaluation | None = None
        self.update = 0
        self.mean: float | None = None
        self.solved = False

    def _on_step(self) -> bool:
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self.attempts.finished(ended)
        return not self.solved and time.process_time() < self.most_seconds

    def _on_rollout_start(self) -> None:
        """Every update but the first has just ended here: the time to evaluate what it gave."""
        if self.attempts.due(self.update):
            self.evaluate(1000 + self.update)
        self.update += 1

    def evaluate(self, seed: int) -> None:
        """Notes the mean of an evaluation, and whether it solves the task."""
        self.evaluation = self.evaluation or Evaluation(self.env)
        self.mean = self.evaluation.mean(self.model, seed)
        self.solved = self.mean >= self.solved_at


def solve(arguments: argparse.Namespace) -> None:
    """Trains until the task is solved, or rl-zoo's steps or the CPU seconds are used up, and reports."""
    send = protocol()
    torch.set_num_threads(arguments.threads)
    model, steps = learner(arguments.env, arguments.seed)
    interval = max(1, round(arguments.eval_steps / (model.n_steps * model.n_envs)))
    callback = UntilSolved(arguments.env, arguments.solved_at, interval, arguments.most_seconds)
    model.learn(steps, callback=callback)
    if not callback.solved:
        callback.evaluate(1000)
    used = [name for name in ("minigrid", "mujoco") if name in sys.modules]
    packages = versions("stable-baselines3", "torch", "gymnasium", *used)
    report_solved(send, callback.solved, callback.mean, model.num_timesteps, packages)


def prepare(threads: int) -> Step:
    """A training that continues for some updates at each call, on the requested number of threads."""
    model, _ = learner("CartPole-v1", seed=0)

    def step() -> int:
        torch.set_num_threads(threads)
        model.learn(STEPS_PER_CALL)
        return STEPS_PER_CALL

    return step


def main() -> None:
    """Solves with one thread, which suits so small a network, or serves the faster of one and all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solve", action="store_true")
    parser.add_argument("--env", choices=OF_ZOO, default="CartPole-v1")
    parser.add_argument("--solved-at", type=float, default=SOLVED_AT)
    parser.add_argument("--eval-steps", type=int, default=EVAL_STEPS)
    parser.add_argument("--most-seconds", type=float, default=math.inf, help="CPU seconds of training")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.solve:
        solve(arguments)
        return
    candidates = [
        Candidate({"threads": threads}, lambda threads=threads: prepare(threads))
        for threads in thread_counts()
    ]
    serve(versions("stable-baselines3", "torch", "gymnasium"), candidates)


if __name__ == "__main__":
    main()
