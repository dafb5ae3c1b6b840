"""Solves CartPole with the cross-entropy method in NumPy: 1,024 linear policies at a time, one for each environment."""

import time

import numpy as np

import operant

POPULATION, ELITE, STEPS = 1024, 64, 500

rng = np.random.default_rng(1)
envs = operant.make_vec("CartPole-v1", POPULATION, seed=1, copy=False, episode_stats=False, final_obs="dense")
mean, std = np.zeros(4), np.ones(4)
started = time.perf_counter()

for generation in range(1, 21):
    weights = (mean + std * rng.standard_normal((POPULATION, 4))).astype(np.float32)
    returns, alive = np.zeros(POPULATION), np.ones(POPULATION, bool)
    obs, _ = envs.reset()
    for step in range(STEPS):
        right = np.einsum("ij,ij->i", obs, weights) > 0
        obs, rewards, terminated, truncated, _ = envs.step(right.astype(np.uint8))
        # Only the first episode of each policy counts.
        returns += rewards * alive
        alive &= ~(terminated | truncated)
        if not alive.any():
            break
    elite = weights[np.argsort(returns)[-ELITE:]]
    mean, std = elite.mean(0), elite.std(0) + 0.01
    print(f"generation {generation}: mean return {returns.mean():.1f}, best {returns.max():.0f}")
    if returns.mean() >= 475:
        print(f"solved after {time.perf_counter() - started:.2f} s")
        break
