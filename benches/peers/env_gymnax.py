"""gymnax's CartPole and MinAtar Breakout alone: random actions and auto-reset inside one jit.

No observation is requested, as in operant's own random play: XLA drops what nobody reads.
"""

import argparse
from typing import Any

import gymnax
import jax

from worker import Candidate, Step, serve, versions


def roll(environment: Any, parameters: Any, num_envs: int, horizon: int) -> Any:
    """A jitted horizon of random play: `(key, state) -> (key, state, rewards, ends)`."""
    step = jax.vmap(environment.step, in_axes=(0, 0, 0, None))
    sample = jax.vmap(environment.action_space(parameters).sample)

    def body(carry: Any, _: None) -> Any:
        key, state = carry
        key, action_key, step_key = jax.random.split(key, 3)
        actions = sample(jax.random.split(action_key, num_envs))
        _, state, reward, terminated, truncated, _ = step(
            jax.random.split(step_key, num_envs), state, actions, parameters
        )
        return (key, state), (reward.sum(), (terminated | truncated).sum())

    def horizon_of(key: Any, state: Any) -> Any:
        (key, state), (rewards, ends) = jax.lax.scan(body, (key, state), None, horizon)
        return key, state, rewards.sum(), ends.sum()

    return jax.jit(horizon_of, donate_argnums=(0, 1))


def prepare(name: str, num_envs: int, horizon: int, generator: str) -> Step:
    """A compiled rollout and the state from which it continues."""
    environment, parameters = gymnax.make(name)
    key = jax.random.key(0, impl=generator)
    reset = jax.jit(jax.vmap(environment.reset, in_axes=(0, None)))
    _, state = reset(jax.random.split(key, num_envs), parameters)
    compiled = roll(environment, parameters, num_envs, horizon)
    carry = [key, state]

    def step() -> int:
        carry[0], carry[1], *sums = compiled(carry[0], carry[1])
        jax.block_until_ready(sums)
        return num_envs * horizon

    return step


def main() -> None:
    """Serves the faster of JAX's default random numbers and its quicker ones."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--horizon", type=int, default=128)
    arguments = parser.parse_args()
    candidates = [
        Candidate(
            {"envs": envs, "generator": generator},
            lambda envs=envs, generator=generator: prepare(arguments.env, envs, arguments.horizon, generator),
        )
        for envs, generator in (
            (arguments.envs, "threefry2x32"),
            (arguments.envs, "rbg"),
            (1024, "threefry2x32"),
        )
    ]
    serve(versions("gymnax", "jax"), candidates)


if __name__ == "__main__":
    main()
