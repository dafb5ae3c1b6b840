"""PPO with an auxiliary loss in PyTorch, on rollouts of the engine: the policy's features also predict the next observation."""

import argparse
import time

import torch
from torch import Tensor, nn

import operant

parser = argparse.ArgumentParser()
parser.add_argument("--updates", type=int, default=40)
parser.add_argument("--auxiliary", type=float, default=0.1, help="weight of the prediction")
args = parser.parse_args()

torch.manual_seed(1)
torch.set_num_threads(2)
collector = operant.Collector("cartpole", num_envs=64, num_steps=128, gamma=0.98, gae_lambda=0.8, seed=1, hidden=[64, 64])
module = collector.policy.to_torch()

# The sums of the policy's last hidden layer.
features: dict[str, Tensor] = {}
module.get_submodule("actor.1").register_forward_hook(lambda _, __, sums: features.update(actor=sums.tanh()))
predict = nn.Linear(64 + 2, 4)
optimizer = torch.optim.Adam([*module.parameters(), *predict.parameters()], lr=2.5e-3, eps=1e-5)
collecting = 0.0

for update in range(args.updates):
    begin = time.perf_counter()
    rollout = collector.collect()
    collecting += time.perf_counter() - begin
    batch = {name: torch.from_numpy(array) for name, array in rollout.flat().items()}
    # The next observation is known where the episode goes on and the rollout does too.
    following = torch.from_numpy(rollout["observations"]).roll(-1, 0).flatten(0, 1)
    known = ~batch["ended"]
    known[-collector.num_envs :] = False
    for minibatch in torch.randperm(len(known)).chunk(4) + torch.randperm(len(known)).chunk(4):
        part = {name: array[minibatch] for name, array in batch.items()}
        (distribution,), (_, value) = module.distribution(part["observations"]), module(part["observations"])
        advantages = part["advantages"]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (distribution.log_prob(part["actions"]) - part["logprobs"]).exp()
        policy_loss = -torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages).mean()
        value_loss = (value - part["returns"]).square().mean()
        actions = nn.functional.one_hot(part["actions"], 2).float()
        predicted = part["observations"] + predict(torch.cat([features["actor"], actions], 1))
        wrong = (predicted - following[minibatch]).square().mean(1)[known[minibatch]]
        loss = policy_loss + 0.5 * value_loss - 0.01 * distribution.entropy().mean() + args.auxiliary * wrong.mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 0.5)
        optimizer.step()
    collector.load(module)

lengths = rollout["episode_lengths"]
mean = float(lengths[lengths > 0].mean()) if (lengths > 0).any() else 0.0
steps = args.updates * rollout["rewards"].size
print(f"{steps} steps, {steps / collecting / 1e6:.1f} M a second while collecting; last episodes {mean:.0f} steps; prediction {wrong.mean():.2e}")
envs = operant.make_vec("CartPole-v1", 100, seed=7)
envs.reset()
played = envs.rollout(collector.policy, 500, deterministic=True)
first = [row[row > 0][0] for row in played["returns"].T]
print(f"greedy return {sum(first) / len(first):.1f} over 100 episodes")
raise SystemExit(0 if sum(first) / len(first) >= 475 else "it did not learn")
