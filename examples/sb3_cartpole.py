"""Stable-Baselines3's PPO and DQN on `operant.sb3.VecEnv`, with RL Zoo's settings for CartPole, judged by SB3's evaluate_policy.

    python examples/sb3_cartpole.py ppo
    python examples/sb3_cartpole.py dqn
"""

import sys

import gymnasium
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

import operant

SEED = 1
LEARNED = 475.0


def falling(start):
    """A schedule from `start` to 0."""
    return lambda remaining: remaining * start


def ppo():
    envs = operant.sb3.VecEnv("CartPole-v1", num_envs=8)
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=32,
        batch_size=256,
        n_epochs=20,
        gamma=0.98,
        gae_lambda=0.8,
        ent_coef=0.0,
        learning_rate=falling(0.001),
        clip_range=falling(0.2),
        seed=SEED,
        device="cpu",
    )
    return model.learn(100_000)


def dqn():
    envs = operant.sb3.VecEnv("CartPole-v1", num_envs=1)
    model = DQN(
        "MlpPolicy",
        envs,
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
        policy_kwargs={"net_arch": [256, 256]},
        seed=SEED,
        device="cpu",
    )
    return model.learn(50_000)


def main():
    algorithms = {"ppo": ppo, "dqn": dqn}
    name = sys.argv[1] if len(sys.argv) == 2 else "ppo"
    if name not in algorithms:
        raise SystemExit(f"expected ppo or dqn, got {name!r}")
    torch.set_num_threads(1)
    model = algorithms[name]()
    reported = sum(episode["r"] for episode in model.ep_info_buffer) / len(model.ep_info_buffer)
    print(f"{name}: mean return of the last {len(model.ep_info_buffer)} episodes of training {reported:.1f}")
    judges = {
        "operant": (operant.sb3.VecEnv("CartPole-v1", num_envs=10, seed=SEED), 100),
        "Gymnasium's own CartPole-v1": (Monitor(gymnasium.make("CartPole-v1")), 20),
    }
    for where, (judge, episodes) in judges.items():
        mean, std = evaluate_policy(model, judge, episodes)
        print(f"{name} on {where}: {mean:.1f} +- {std:.1f} over {episodes} episodes")
        if mean < LEARNED:
            raise SystemExit(f"{name} on {where}: below {LEARNED:.0f}, not learned")
    print(f"{name}: learned")


if __name__ == "__main__":
    main()
