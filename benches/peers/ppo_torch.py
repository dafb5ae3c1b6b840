"""PPO in PyTorch as CleanRL writes it: one file, Gymnasium environments, separate tanh networks (64-64).

`--vector sync` steps CartPole as CleanRL does, an environment at a time; `--vector numpy` takes Gymnasium's
own vectorised CartPole, the only one that keeps up with thousands of environments. Measures its speed for
the driver, or trains until a task is solved (`--solve`).
"""

import argparse
import math
import time
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

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

SPACES = {"CartPole-v1": (4, 2), "Acrobot-v1": (6, 3)}
"""Features of an observation, and actions."""


@dataclass(frozen=True)
class Settings:
    """Hyperparameters, with CleanRL's names and default values."""

    seed: int = 1
    total_timesteps: int = 500_000
    num_envs: int = 4
    num_steps: int = 128
    num_minibatches: int = 4
    update_epochs: int = 4
    learning_rate: float = 2.5e-4
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    ent_coef: float = 0.01
    vf_coef: float = 0.5
    max_grad_norm: float = 0.5
    vector: str = "sync"
    env: str = "CartPole-v1"
    hidden: str = "64,64"
    """Widths of the hidden layers."""

    @property
    def widths(self) -> list[int]:
        """Widths of the hidden layers, as numbers."""
        return [int(width) for width in self.hidden.split(",")]

    @property
    def updates(self) -> int:
        """Updates of the whole training, over which the learning rate falls to zero."""
        return max(1, self.total_timesteps // (self.num_envs * self.num_steps))


class Samples(NamedTuple):
    """A rollout, time-major or flattened."""

    obs: torch.Tensor
    action: torch.Tensor
    logprob: torch.Tensor
    value: torch.Tensor
    advantage: torch.Tensor


def initialised(module: nn.Linear | nn.Conv2d, gain: float = 2**0.5) -> nn.Module:
    """The layer with orthogonal weights and biases of zero."""
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


def layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Module:
    """A linear layer, orthogonally initialised."""
    return initialised(nn.Linear(inputs, outputs), gain)


def network(widths: list[int], outputs: int, last_gain: float) -> nn.Sequential:
    """Fully connected tanh layers and an output layer; `widths` begins with the number of features."""
    modules: list[nn.Module] = []
    for inputs, width in pairwise(widths):
        modules += [layer(inputs, width), nn.Tanh()]
    return nn.Sequential(*modules, layer(widths[-1], outputs, last_gain))


def environments(settings: Settings) -> gymnasium.vector.VectorEnv:
    """The task, vectorised in the asked way."""
    if settings.vector == "numpy":
        return gymnasium.make_vec(
            settings.env, num_envs=settings.num_envs, vectorization_mode="vector_entry_point"
        )
    same_step = gymnasium.vector.AutoresetMode.SAME_STEP
    makers = [lambda: gymnasium.make(settings.env)] * settings.num_envs
    return gymnasium.vector.SyncVectorEnv(makers, autoreset_mode=same_step)


class Ppo:
    """Networks, optimizer and environments in the middle of training."""

    def __init__(self, settings: Settings) -> None:
        torch.manual_seed(settings.seed)
        self.settings = settings
        features, actions = SPACES[settings.env]
        self.policy = network([features, *settings.widths], actions, 0.01)
        self.value = network([features, *settings.widths], 1, 1.0)
        self.parameters = [*self.policy.parameters(), *self.value.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=settings.learning_rate, eps=1e-5)
        self.envs = environments(settings)
        self.obs = torch.from_numpy(self.envs.reset(seed=settings.seed)[0])
        self.done = torch.zeros(settings.num_envs)
        self.resets_late = settings.vector == "numpy"
        """Whether the step after an episode's end is a reset that no policy acted in."""
        self.update = 0

    def heads(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and values."""
        return self.policy(obs), self.value(obs).flatten()

    def finished(self, info: dict[str, Any]) -> None:
        """Receives the info of each step. The speed of training does not depend on it."""

    def rollout(self) -> tuple[Samples, torch.Tensor]:
        """A horizon of every environment, and which of its samples the policy acted in."""
        steps, envs = self.settings.num_steps, self.settings.num_envs
        obs = torch.zeros(steps, *self.obs.shape, dtype=self.obs.dtype)
        rewards = torch.zeros(steps, envs)
        actions = torch.zeros(steps, envs, dtype=torch.int64)
        logprobs, values, dones = torch.zeros(steps, envs), torch.zeros(steps, envs), torch.zeros(steps, envs)
        for step in range(steps):
            obs[step], dones[step] = self.obs, self.done
            with torch.no_grad():
                logits, values[step] = self.heads(self.obs)
                choice = Categorical(logits=logits)
                action = choice.sample()
                logprobs[step] = choice.log_prob(action)
            actions[step] = action
            after, reward, terminated, truncated, info = self.envs.step(action.numpy())
            self.finished(info)
            rewards[step] = torch.from_numpy(np.asarray(reward))
            self.obs = torch.from_numpy(after)
            self.done = torch.from_numpy((terminated | truncated).astype(np.float32))
        advantages = self.advantages(rewards, values, dones)
        acted = dones == 0 if self.resets_late else torch.ones_like(dones, dtype=torch.bool)
        return Samples(obs, actions, logprobs, values, advantages), acted

    def advantages(self, rewards: torch.Tensor, values: torch.Tensor, dones: torch.Tensor) -> torch.Tensor:
        """Generalised advantage estimates; as in CleanRL a time limit ends an episode like a fall."""
        settings, advantages = self.settings, torch.zeros_like(rewards)
        with torch.no_grad():
            next_value, alive, last = (
                self.value(self.obs).flatten(),
                1.0 - self.done,
                torch.zeros(settings.num_envs),
            )
        for step in reversed(range(settings.num_steps)):
            delta = rewards[step] + settings.gamma * next_value * alive - values[step]
            last = delta + settings.gamma * settings.gae_lambda * alive * last
            advantages[step], next_value, alive = last, values[step], 1.0 - dones[step]
        return advantages

    def loss(self, samples: Samples) -> torch.Tensor:
        """PPO's loss over a minibatch, with clipped value loss."""
        settings = self.settings
        logits, value = self.heads(samples.obs)
        choice = Categorical(logits=logits)
        ratio = (choice.log_prob(samples.action) - samples.logprob).exp()
        advantage = (samples.advantage - samples.advantage.mean()) / (samples.advantage.std() + 1e-8)
        clipped = ratio.clamp(1 - settings.clip_coef, 1 + settings.clip_coef)
        policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
        returns = samples.advantage + samples.value
        moved = samples.value + (value - samples.value).clamp(-settings.clip_coef, settings.clip_coef)
        value_loss = 0.5 * torch.max((value - returns) ** 2, (moved - returns) ** 2).mean()
        return policy_loss - settings.ent_coef * choice.entropy().mean() + settings.vf_coef * value_loss

    def step(self) -> int:
        """One update; returns its environment steps."""
        settings = self.settings
        remaining = max(0.0, 1.0 - self.update / settings.updates)
        self.optimizer.param_groups[0]["lr"] = settings.learning_rate * remaining
        samples, acted = self.rollout()
        samples = Samples(*(tensor.flatten(0, 1) for tensor in samples))
        usable = acted.flatten().nonzero().flatten()
        for _ in range(settings.update_epochs):
            shuffled = usable[torch.randperm(len(usable))]
            for chosen in shuffled.tensor_split(settings.num_minibatches):
                self.optimizer.zero_grad()
                self.loss(Samples(*(tensor[chosen] for tensor in samples))).backward()
                nn.utils.clip_grad_norm_(self.parameters, settings.max_grad_norm)
                self.optimizer.step()
        self.update += 1
        return settings.num_envs * settings.num_steps


class Counted(Ppo):
    """A training that notes the returns of its episodes."""

    def __init__(self, settings: Settings, attempts: Attempts) -> None:
        super().__init__(settings)
        self.attempts = attempts
        self.envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(self.envs)
        self.obs = torch.from_numpy(self.envs.reset(seed=settings.seed)[0])

    def finished(self, info: dict[str, Any]) -> None:
        """Passes on the returns of episodes that ended in this step."""
        if "episode" in info:
            self.attempts.finished(info["episode"]["r"][info["_episode"]].tolist())

    def evaluate(self, seed: int) -> float:
        """Mean return of greedy episodes, all side by side."""
        envs = environments(replace(self.settings, num_envs=EVALUATION_EPISODES, vector="sync"))
        obs, _ = envs.reset(seed=seed)
        returns, running = np.zeros(EVALUATION_EPISODES), np.ones(EVALUATION_EPISODES, dtype=bool)
        while running.any():
            with torch.no_grad():
                action = self.policy(torch.from_numpy(obs)).argmax(1).numpy()
            obs, reward, terminated, truncated, _ = envs.step(action)
            returns[running] += reward[running]
            running &= ~(terminated | truncated)
        return float(returns.mean())


def solve(settings: Settings, options: argparse.Namespace) -> None:
    """Trains on one thread until the task is solved, or CleanRL's steps are used up, and reports."""
    send = protocol()
    torch.set_num_threads(1)
    interval = max(1, round(options.eval_steps / (settings.num_envs * settings.num_steps)))
    attempts = Attempts(interval, options.solved_at)
    ppo, steps, mean = Counted(settings, attempts), 0, None
    while ppo.update < settings.updates and time.process_time() < options.most_seconds:
        steps += ppo.step()
        if attempts.due(ppo.update):
            mean = ppo.evaluate(1000 + ppo.update)
            if mean >= options.solved_at:
                break
    else:
        mean = ppo.evaluate(1000)
    report_solved(send, mean >= options.solved_at, mean, steps, versions("torch", "gymnasium", "numpy"))


def prepare(settings: Settings, threads: int) -> Step:
    """A training that runs on the requested number of threads."""
    ppo = Ppo(settings)

    def step() -> int:
        torch.set_num_threads(threads)
        return ppo.step()

    return step


def candidate(settings: Settings, threads: int) -> Candidate:
    """A number of threads, tried on an eighth of the environments with minibatches of the same size."""
    share = 8 if settings.num_minibatches % 8 == 0 else 1
    smaller = replace(
        settings, num_envs=settings.num_envs // share, num_minibatches=settings.num_minibatches // share
    )
    return Candidate(
        {"threads": threads}, lambda: prepare(settings, threads), lambda: prepare(smaller, threads)
    )


def main() -> None:
    """Solves, or serves the faster of one thread and all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    for field in fields(Settings):
        parser.add_argument(
            "--" + field.name.replace("_", "-"), type=type(field.default), default=field.default
        )
    parser.add_argument("--solve", action="store_true")
    parser.add_argument("--solved-at", type=float, default=SOLVED_AT)
    parser.add_argument("--eval-steps", type=int, default=5_000)
    parser.add_argument("--most-seconds", type=float, default=math.inf, help="CPU seconds of training")
    options = parser.parse_args()
    settings = Settings(**{field.name: getattr(options, field.name) for field in fields(Settings)})
    if options.solve:
        solve(settings, options)
        return
    serve(
        versions("torch", "gymnasium", "numpy"), [candidate(settings, threads) for threads in thread_counts()]
    )


if __name__ == "__main__":
    main()
