"""Trains many agents at once in JAX as PureJaxRL does: one jit, with `vmap` over the agents' random keys.

The agents are those of ppo_jax.py. At the end each plays 100 greedy episodes. Times and mean returns go to
stdout as JSON.
"""

import argparse
import time
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ppo_jax import Carry, Ppo, Settings
from worker import protocol, versions


def main() -> None:
    """Compiles, trains and evaluates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=64)
    for field in fields(Settings):
        parser.add_argument(
            "--" + field.name.replace("_", "-"), type=type(field.default), default=field.default
        )
    arguments = vars(parser.parse_args())
    agents = arguments.pop("agents")
    send, ppo = protocol(), Ppo(Settings(**arguments))

    def train(key: jax.Array) -> Carry:
        def update(carry: Carry, _: Any) -> Any:
            return ppo._update(carry)[0], None

        return jax.lax.scan(update, ppo._start(key), None, ppo.settings.updates)[0]

    def evaluate(carry: Carry) -> jax.Array:
        return ppo._evaluate(carry.parameters, carry.key)

    keys = jax.vmap(jax.random.key)(jnp.arange(1, agents + 1))
    began = time.perf_counter()
    compiled = jax.jit(jax.vmap(train)).lower(keys).compile()
    compile_s, began = time.perf_counter() - began, time.perf_counter()
    carry = jax.block_until_ready(compiled(keys))
    train_s, began = time.perf_counter() - began, time.perf_counter()
    means = np.asarray(jax.jit(jax.vmap(evaluate))(carry)).tolist()
    evaluate_s = time.perf_counter() - began
    send(
        {
            "compile_s": compile_s,
            "train_s": train_s,
            "evaluate_s": evaluate_s,
            "means": means,
            "versions": versions("jax", "jaxlib"),
        }
    )


if __name__ == "__main__":
    main()
