"""Stable-Baselines3's PPO on an Atari game with the hyperparameters that rl-zoo publishes, on the CPU.

8 environments x 128 steps, minibatches of 256, 4 epochs, learning rate 2.5e-4 and clip range 0.1 both falling
to zero over 10 M steps, 4 stacked frames. Prints steps and scores of finished games after each update.
"""

import argparse
from collections.abc import Callable
from typing import Any

from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

from worker import protocol, versions

TOTAL_TIMESTEPS = 10_000_000
VECTORS = {"subproc": SubprocVecEnv, "dummy": DummyVecEnv}


def falling(start: float) -> Callable[[float], float]:
    """A value that falls linearly to zero with the share of training that is left."""
    return lambda remaining: start * remaining


def learner(name: str, vector: str, seed: int) -> PPO:
    """PPO as rl-zoo sets it up for Atari."""
    envs = make_atari_env(
        f"ale_py:{name}", n_envs=8, seed=seed, env_kwargs={"frameskip": 1}, vec_env_cls=VECTORS[vector]
    )
    return PPO(
        "CnnPolicy",
        VecFrameStack(envs, n_stack=4),
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        learning_rate=falling(2.5e-4),
        clip_range=falling(0.1),
        ent_coef=0.01,
        vf_coef=0.5,
        seed=seed,
        device="cpu",
    )


class Reports(BaseCallback):
    """Sends steps and the scores of finished games."""

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self.send = send
        self.returns: list[float] = []

    def _on_step(self) -> bool:
        self.returns += [info["episode"]["r"] for info in self.locals["infos"] if "episode" in info]
        return True

    def _on_rollout_start(self) -> None:
        """Every update but the first has just ended here."""
        self.send({"steps": self.num_timesteps, "returns": self.returns})
        self.returns = []


def main() -> None:
    """Trains to the end, or until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--vector", choices=tuple(VECTORS), default="subproc")
    arguments = parser.parse_args()
    send = protocol()
    packages = ("stable-baselines3", "torch", "gymnasium", "ale-py", "numpy", "opencv-python-headless")
    send({"versions": versions(*packages)})
    learner(arguments.env, arguments.vector, arguments.seed).learn(TOTAL_TIMESTEPS, callback=Reports(send))


if __name__ == "__main__":
    main()
