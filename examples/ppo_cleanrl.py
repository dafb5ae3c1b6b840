"""PPO in one file with PyTorch, in the style of CleanRL: learns CartPole on any id of `gymnasium.make_vec`.

    python examples/ppo_cleanrl.py --env-id CartPole-v1            # Gymnasium's own environments
    python examples/ppo_cleanrl.py --env-id operant/CartPole-v1    # operant's: nothing but the id changes

Both reset in the step after an episode's end, Gymnasium's default. So the observation after an ended episode is its last one, of
which a truncated episode takes the value, and the step that follows is no transition: the loss leaves it out.
"""

import argparse
import time
from collections import deque

import gymnasium
import numpy as np
import torch
from torch import nn

import operant  # noqa: F401  registers the ids of operant/


def parse_args():
    parser = argparse.ArgumentParser(description="PPO on a vector environment of Gymnasium")
    parser.add_argument("--env-id", default="operant/CartPole-v1")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--num-envs", type=int, default=16, help="N")
    parser.add_argument("--num-steps", type=int, default=64, help="T: steps of a rollout in each environment")
    parser.add_argument("--total-timesteps", type=int, default=120_000)
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="at the start; it falls to 0")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--minibatches", type=int, default=4)
    parser.add_argument("--gamma", type=float, default=0.99)
    parser.add_argument("--gae-lambda", type=float, default=0.95)
    parser.add_argument("--clip", type=float, default=0.2)
    parser.add_argument("--entropy", type=float, default=0.005, help="coefficient of the entropy bonus")
    parser.add_argument("--value", type=float, default=0.5, help="coefficient of the value loss")
    parser.add_argument("--max-grad-norm", type=float, default=0.5)
    parser.add_argument("--learned", type=float, default=450.0, help="mean return of the last 100 episodes that counts as learned")
    return parser.parse_args()


def layer(inputs, outputs, gain=2**0.5):
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, gain)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    """A policy over discrete actions, and a value."""

    def __init__(self, inputs, actions, hidden=64):
        super().__init__()

        def network(outputs, gain):
            return nn.Sequential(
                layer(inputs, hidden), nn.Tanh(), layer(hidden, hidden), nn.Tanh(), layer(hidden, outputs, gain)
            )

        self.actor = network(actions, 0.01)
        self.critic = network(1, 1.0)

    def policy(self, obs):
        return torch.distributions.Categorical(logits=self.actor(obs))

    def value(self, obs):
        return self.critic(obs).squeeze(-1)


class Rollout:
    """T steps of N environments: `(T, N, ...)`, and `(T + 1, N, ...)` observations."""

    def __init__(self, steps, envs, obs_shape):
        self.obs = torch.zeros((steps + 1, envs, *obs_shape))
        self.actions = torch.zeros((steps, envs), dtype=torch.int64)
        self.log_probs, self.rewards, self.terminated, self.ended = (torch.zeros((steps, envs)) for _ in range(4))
        # Whether it is a transition, not a reset.
        self.valid = torch.zeros((steps, envs), dtype=torch.bool)

    @torch.no_grad()
    def collect(self, envs, agent, obs, after_end, returns):
        """Plays T steps from `obs`; `after_end` says where the last step ended an episode."""
        for t in range(len(self.actions)):
            self.obs[t] = torch.as_tensor(obs)
            policy = agent.policy(self.obs[t])
            action = policy.sample()
            self.actions[t], self.log_probs[t] = action, policy.log_prob(action)
            obs, reward, terminated, truncated, info = envs.step(action.numpy())
            self.rewards[t], self.terminated[t] = torch.as_tensor(reward), torch.as_tensor(terminated)
            self.valid[t] = torch.as_tensor(~after_end)
            after_end = terminated | truncated
            self.ended[t] = torch.as_tensor(after_end)
            if "episode" in info:
                returns.extend(info["episode"]["r"][info["_episode"]].tolist())
        self.obs[-1] = torch.as_tensor(obs)
        return obs, after_end

    @torch.no_grad()
    def advantages(self, agent, gamma, gae_lambda):
        """Generalized advantage estimates and the values they are relative to, `(T, N)`."""
        values = agent.value(self.obs)
        # A terminated episode has no value after its end; a truncated one has that of its last observation.
        deltas = self.rewards + gamma * values[1:] * (1 - self.terminated) - values[:-1]
        advantages, running = torch.zeros_like(deltas), torch.zeros_like(deltas[0])
        for t in reversed(range(len(deltas))):
            running = deltas[t] + gamma * gae_lambda * (1 - self.ended[t]) * running
            advantages[t] = running
        return advantages, values[:-1]


def update(agent, optimizer, rollout, args):
    advantages, values = rollout.advantages(agent, args.gamma, args.gae_lambda)
    valid = rollout.valid
    obs, actions, old_log_probs = rollout.obs[:-1][valid], rollout.actions[valid], rollout.log_probs[valid]
    advantages, targets = advantages[valid], (advantages + values)[valid]
    for _ in range(args.epochs):
        for rows in torch.randperm(len(obs)).chunk(args.minibatches):
            policy = agent.policy(obs[rows])
            ratio = (policy.log_prob(actions[rows]) - old_log_probs[rows]).exp()
            advantage = advantages[rows]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            clipped = ratio.clamp(1 - args.clip, 1 + args.clip)
            policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
            value_loss = 0.5 * (agent.value(obs[rows]) - targets[rows]).square().mean()
            loss = policy_loss + args.value * value_loss - args.entropy * policy.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
            optimizer.step()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    envs = gymnasium.make_vec(args.env_id, num_envs=args.num_envs)
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs)
    obs_shape = envs.single_observation_space.shape
    agent = Agent(int(np.prod(obs_shape)), int(envs.single_action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    rollout = Rollout(args.num_steps, args.num_envs, obs_shape)
    updates = args.total_timesteps // (args.num_envs * args.num_steps)
    obs, _ = envs.reset(seed=args.seed)
    after_end, returns = np.zeros(args.num_envs, bool), deque(maxlen=100)
    started = time.perf_counter()
    for index in range(updates):
        optimizer.param_groups[0]["lr"] = args.learning_rate * (1 - index / updates)
        obs, after_end = rollout.collect(envs, agent, obs, after_end, returns)
        update(agent, optimizer, rollout, args)
        if (index + 1) % 20 == 0:
            steps = (index + 1) * args.num_envs * args.num_steps
            rate = steps / (time.perf_counter() - started)
            print(f"{steps} steps: mean return {np.mean(returns):.1f}, {rate:.0f} steps/s", flush=True)
    envs.close()
    result = f"{args.env_id}: mean return of the last {len(returns)} episodes {np.mean(returns):.1f}"
    if np.mean(returns) < args.learned:
        raise SystemExit(f"{result}: below {args.learned:.0f}, not learned")
    print(f"{result}: learned")


if __name__ == "__main__":
    main()
