"""PPO in PyTorch on an Atari game as CleanRL's ppo_atari.py writes it, on the CPU.

8 environments x 128 steps, 4 minibatches, 4 epochs, learning rate 2.5e-4 falling to zero over 10 M steps;
three convolutions and 512 units that policy and value share. Prints steps and scores of finished games after
each update.
"""

import argparse
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import (
    AtariPreprocessing,
    FrameStackObservation,
    RecordEpisodeStatistics,
    TransformReward,
)
from torch import nn

from ppo_torch import Ppo, Settings, initialised, layer
from worker import protocol, versions

SETTINGS = Settings(num_envs=8, total_timesteps=10_000_000, clip_coef=0.1)
"""Those that differ from CleanRL's for CartPole."""
FRAMES = 4


class EpisodicLife(gymnasium.Wrapper):
    """The loss of a life ends an episode; the next one begins in the same game, until that is over."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.lives = 0
        self.over = True

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        self.over = terminated or truncated
        lives = self.unwrapped.ale.lives()
        # Some games have no lives left for a few frames before they are over.
        lost, self.lives = 0 < lives < self.lives, lives
        return obs, reward, terminated or lost, truncated, info

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        if not self.over:
            obs, _, terminated, truncated, info = self.env.step(0)
            self.over = terminated or truncated
        if self.over:
            obs, info = self.env.reset(**options)
        self.lives, self.over = self.unwrapped.ale.lives(), False
        return obs, info


class FireReset(gymnasium.Wrapper):
    """An episode begins with FIRE and the action after it, without which some games wait."""

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(**options)
        for action in (1, 2):
            obs, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                obs, info = self.env.reset(**options)
        return obs, info


def game(name: str) -> gymnasium.Env:
    """One game: the wrappers of CleanRL, in its order.

    AtariPreprocessing plays the no-ops of a reset, skips frames, and makes the maximum of two grey and small.
    It does not read the observation of the emulator, which is grey because that is the cheapest.
    """
    env = AtariPreprocessing(gymnasium.make(f"ale_py:{name}", frameskip=1, obs_type="grayscale"))
    env = EpisodicLife(RecordEpisodeStatistics(env))
    if "FIRE" in env.unwrapped.get_action_meanings():
        env = FireReset(env)
    return FrameStackObservation(TransformReward(env, np.sign), FRAMES)


class Scaled(nn.Module):
    """Bytes as numbers from 0 to 1."""

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        """Any shape."""
        return obs / 255.0


class AtariPpo(Ppo):
    """A network with a shared trunk, and games."""

    def __init__(self, settings: Settings, name: str) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        self.envs = SyncVectorEnv(
            [lambda: game(name)] * settings.num_envs, autoreset_mode=AutoresetMode.SAME_STEP
        )
        self.trunk = nn.Sequential(
            Scaled(),
            *(initialised(nn.Conv2d(FRAMES, 32, 8, 4)), nn.ReLU()),
            *(initialised(nn.Conv2d(32, 64, 4, 2)), nn.ReLU()),
            *(initialised(nn.Conv2d(64, 64, 3, 1)), nn.ReLU()),
            *(nn.Flatten(), layer(64 * 7 * 7, 512), nn.ReLU()),
        )
        self.policy_head = layer(512, int(self.envs.single_action_space.n), 0.01)
        self.value_head = layer(512, 1, 1.0)
        self.value = nn.Sequential(self.trunk, self.value_head)
        self.parameters = [*self.value.parameters(), *self.policy_head.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, eps=1e-5)
        self.obs = torch.from_numpy(self.envs.reset(seed=settings.seed)[0])
        self.done = torch.zeros(settings.num_envs)
        self.resets_late = False
        self.update = 0
        self.returns: list[float] = []
        """Scores of the games that ended since they were last reported."""

    def heads(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and values."""
        hidden = self.trunk(obs)
        return self.policy_head(hidden), self.value_head(hidden).flatten()

    def finished(self, info: dict[str, Any]) -> None:
        """Keeps the scores of games that ended."""
        final = info.get("final_info", {})
        if "episode" in final:
            self.returns += final["episode"]["r"][final["_episode"]].tolist()


def main() -> None:
    """Trains to the end, or until it is killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="PongNoFrameskip-v4")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    send = protocol()
    send({"versions": versions("torch", "gymnasium", "ale-py", "numpy", "opencv-python-headless")})
    ppo, steps = AtariPpo(replace(SETTINGS, seed=arguments.seed), arguments.env), 0
    while ppo.update < ppo.settings.updates:
        steps += ppo.step()
        send({"steps": steps, "returns": ppo.returns})
        ppo.returns = []


if __name__ == "__main__":
    main()
