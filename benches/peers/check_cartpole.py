"""Checks the CartPole in cartpole_jax.py against Gymnasium's, step by step over whole episodes.

target/peers-venv/gymnax/bin/python benches/peers/check_cartpole.py
"""

import sys

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np

import cartpole_jax

EPISODES = 200
TOLERANCE = 1e-5
"""Of one step from an identical state: Gymnasium computes in double precision."""


def differences(seed: int) -> list[str]:
    """What differs in one episode of random play, each of its steps begun from Gymnasium's own state."""
    env = gymnasium.make("CartPole-v1").unwrapped
    env.reset(seed=seed)
    generator, found = np.random.default_rng(seed), []
    for number in range(cartpole_jax.TIME_LIMIT):
        state = jnp.asarray(np.array(env.state, np.float32))[None]
        action = int(generator.integers(2))
        obs, _, terminated, _, _ = env.step(action)
        after = np.asarray(cartpole_jax.advance(state, jnp.asarray([action])))[0]
        if np.abs(after - obs).max() > TOLERANCE:
            found.append(f"seed {seed}, step {number}: {after}, not {obs}")
        before = cartpole_jax.State(state, jnp.asarray([number]))
        done = bool(cartpole_jax.step(jax.random.key(0), before, jnp.asarray([action]))[1].done[0])
        if done != (terminated or number + 1 == cartpole_jax.TIME_LIMIT):
            found.append(f"seed {seed}, step {number}: done is {done}")
        if terminated:
            break
    return found


def main() -> int:
    """Prints every difference; the exit code is 1 if there is one."""
    found = [difference for seed in range(EPISODES) for difference in differences(seed)]
    print("\n".join(found) or f"{EPISODES} episodes alike")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
