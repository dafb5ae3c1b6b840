"""Trains CartPole with the engine, plays the policy in Gymnasium's own CartPole, and exports it as ONNX."""

import gymnasium
import numpy as np

import operant

run = operant.train("cartpole", seed=1)
assert run.result is not None
print(f"solved after {run.result['solved_at_s']:.2f} s; greedy return {run.result['eval_return_mean']:.0f}")

envs = gymnasium.make_vec("CartPole-v1", num_envs=16, vectorization_mode="sync")
obs, _ = envs.reset(seed=1)
returns, playing = np.zeros(16), np.ones(16, bool)
while playing.any():
    obs, rewards, terminated, truncated, _ = envs.step(run.policy(obs))
    returns += np.where(playing, rewards, 0)
    playing &= ~(terminated | truncated)
print(f"in Gymnasium: mean return {returns.mean():.1f} over 16 episodes")

run.policy.export_onnx(run.dir / "policy.onnx")
raise SystemExit(0 if returns.mean() >= 475 else "it did not learn")
