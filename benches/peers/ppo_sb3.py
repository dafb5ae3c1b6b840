"""Stable-Baselines3's PPO on CartPole-v1 with the hyperparameters that rl-zoo publishes for it, on the CPU.

8 environments x 32 steps, minibatches of 256, 20 epochs, gamma 0.98, lambda 0.8, no entropy bonus, learning
rate 1e-3 and clip range 0.2 both falling to zero over 100 k steps; separate 64-64 tanh networks, the
library's default. Measures its speed for the driver, or trains until CartPole is solved (`--solve`).
"""

import argparse
from collections.abc import Callable

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

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

TOTAL_TIMESTEPS = 100_000
NUM_ENVS = 8
NUM_STEPS = 32
TIME_LIMIT = 500
EVAL_INTERVAL = 10
"""Updates between attempts to count as solved."""
STEPS_PER_CALL = 4 * NUM_ENVS * NUM_STEPS


def falling(start: float) -> Callable[[float], float]:
    """A value that falls linearly to zero with the share of training that is left."""
    return lambda remaining: start * remaining


def learner(seed: int) -> PPO:
    """PPO as rl-zoo sets it up for CartPole-v1."""
    return PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=NUM_ENVS, seed=seed),
        n_steps=NUM_STEPS,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=falling(1e-3),
        clip_range=falling(0.2),
        seed=seed,
        device="cpu",
    )


def greedy_mean(model: PPO, seed: int) -> float:
    """Mean return of greedy episodes, all side by side in Gymnasium's vectorised CartPole for speed."""
    envs = gymnasium.make_vec(
        "CartPole-v1", num_envs=EVALUATION_EPISODES, vectorization_mode="vector_entry_point"
    )
    obs, _ = envs.reset(seed=seed)
    lengths, running = np.zeros(EVALUATION_EPISODES), np.ones(EVALUATION_EPISODES, dtype=bool)
    for _ in range(TIME_LIMIT):
        action, _ = model.predict(obs, deterministic=True)
        obs, _, terminated, truncated, _ = envs.step(action)
        lengths[running] += 1.0
        running &= ~(terminated | truncated)
        if not running.any():
            break
    return float(lengths.mean())


class UntilSolved(BaseCallback):
    """Evaluates when the training mean suggests it, and ends the training once CartPole is solved."""

    def __init__(self) -> None:
        super().__init__()
        self.attempts = Attempts(EVAL_INTERVAL)
        self.update = 0
        self.mean: float | None = None

    def _on_step(self) -> bool:
        ended = [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        self.attempts.finished(ended)
        return self.mean is None

    def _on_rollout_start(self) -> None:
        """Every update but the first has just ended here: the time to evaluate what it gave."""
        if self.attempts.due(self.update):
            found = greedy_mean(self.model, 1000 + self.update)
            self.mean = found if found >= SOLVED_AT else None
        self.update += 1


def solve(seed: int, threads: int) -> None:
    """Trains until CartPole is solved or rl-zoo's steps are used up, and reports to the driver."""
    send = protocol()
    torch.set_num_threads(threads)
    model, callback = learner(seed), UntilSolved()
    model.learn(TOTAL_TIMESTEPS, callback=callback)
    if callback.mean is None:
        found = greedy_mean(model, 1000)
        callback.mean = found if found >= SOLVED_AT else None
    report_solved(
        send, callback.mean, model.num_timesteps, versions("stable-baselines3", "torch", "gymnasium")
    )


def prepare(threads: int) -> Step:
    """A training that continues for some updates at each call, on the requested number of threads."""
    model = learner(seed=0)

    def step() -> int:
        torch.set_num_threads(threads)
        model.learn(STEPS_PER_CALL)
        return STEPS_PER_CALL

    return step


def main() -> None:
    """Solves with one thread, which suits so small a network, or serves the faster of one and all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--solve", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    if arguments.solve:
        solve(arguments.seed, arguments.threads)
        return
    candidates = [
        Candidate({"threads": threads}, lambda threads=threads: prepare(threads))
        for threads in thread_counts()
    ]
    serve(versions("stable-baselines3", "torch", "gymnasium"), candidates)


if __name__ == "__main__":
    main()
