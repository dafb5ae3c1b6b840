"""The package's Craftax-Classic alone: random actions inside one jit, a JSON object a measurement on stdout.

    target/peers-venv/craftax/bin/python benches/peers/craftax_jax.py [--reset]
    target/peers-venv/craftax/bin/python benches/peers/craftax_jax.py --episodes 1024

Without `--reset` nothing is generated: a step costs the same whether the player lives or not. `--reset` is
the package's standard environment, which makes a world for each environment in each step. XLA drops
unused observations. The first worlds are made one per call: batched, JAX 0.10.2 makes some of them wrongly on
CPUs. `--episodes` prints the mean return and length of that many episodes instead.
"""

import argparse
import datetime
import json
import os
import platform
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax_env import make_craftax_env_from_name

from machine import Load, processor
from worker import usable_cores, versions


def play(environment: Any, num_envs: int, horizon: int, observe: bool) -> Callable[..., Any]:
    """A jitted horizon of random play: `(key, state) -> (key, state, rewards and ends (horizon, N))`."""
    parameters = environment.default_params
    step = jax.vmap(environment.step, in_axes=(0, 0, 0, None))

    def body(carry: Any, _: None) -> Any:
        key, state = carry
        key, action_key, step_key = jax.random.split(key, 3)
        actions = jax.random.randint(action_key, (num_envs,), 0, environment.num_actions)
        seen, state, reward, done, _ = step(jax.random.split(step_key, num_envs), state, actions, parameters)
        return (key, state), (reward, done, seen.sum() if observe else 0.0)

    def run(key: Any, state: Any) -> Any:
        (key, state), outcomes = jax.lax.scan(body, (key, state), None, horizon)
        return key, state, outcomes

    return jax.jit(run, donate_argnums=(0, 1))


def worlds(environment: Any, num_envs: int) -> Any:
    """First states, one world for each environment."""
    reset = jax.jit(lambda key: environment.reset(key, environment.default_params)[1])
    states = [reset(key) for key in jax.random.split(jax.random.key(0), num_envs)]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def measure(environment: Any, num_envs: int, horizon: int, observe: bool, seconds: float) -> dict[str, Any]:
    """Steps, and the seconds that they took by the wall and of all cores together."""
    run, load = play(environment, num_envs, horizon, observe), Load()
    key, state = jax.random.key(1), worlds(environment, num_envs)
    # The first call's result has other types than a reset's, and compiles a second time.
    for _ in range(2):
        key, state, _ = jax.block_until_ready(run(key, state))
    steps, wall, cpu = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        key, state, _ = jax.block_until_ready(run(key, state))
        steps += num_envs * horizon
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "envs": num_envs,
        "observations": observe,
        "steps": steps,
        "wall_seconds": round(wall, 3),
        "cpu_seconds": round(cpu, 3),
        "steps_per_second": round(steps / wall),
        "steps_per_cpu_second": round(steps / cpu),
        "load_average_before": load.average,
        "stolen_share": load.since()["stolen_share"],
    }


def returns(environment: Any, count: int, horizon: int) -> dict[str, Any]:
    """Mean return and length of the first episodes of `count` environments, with standard errors."""
    run = play(environment, count, horizon, False)
    key, state = jax.random.key(1), worlds(environment, count)
    runs, sums = np.ones(count, dtype=bool), np.zeros((2, count))
    while runs.any():
        key, state, (rewards, ends, _) = run(key, state)
        for reward, end in zip(np.asarray(rewards), np.asarray(ends), strict=True):
            sums += runs * np.stack([reward, np.ones(count)])
            runs &= ~end
    figures: dict[str, Any] = {"episodes": count}
    for name, values in zip(("return", "length"), sums, strict=True):
        figures[name] = round(float(values.mean()), 3)
        figures[f"{name}_error"] = round(float(values.std()) / count**0.5, 3)
    return figures


def main() -> None:
    """Measures with and without observations, or the returns of episodes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--reset", action="store_true")
    parser.add_argument("--episodes", type=int)
    arguments = parser.parse_args()
    environment = make_craftax_env_from_name("Craftax-Classic-Symbolic-v1", auto_reset=arguments.reset)
    facts = {
        "env": "Craftax-Classic-Symbolic-v1",
        "auto_reset": arguments.reset,
        "device": jax.devices()[0].device_kind,
        "processor": processor(),
        "cores": usable_cores(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "versions": versions("craftax", "jax", "jaxlib"),
        "date": datetime.date.today().isoformat(),
        "nice": os.nice(0),
    }
    if arguments.episodes:
        print(json.dumps(facts | returns(environment, arguments.episodes, arguments.horizon)))
        return
    for observe in (False, True):
        measured = measure(environment, arguments.envs, arguments.horizon, observe, arguments.seconds)
        print(json.dumps(facts | measured), flush=True)


if __name__ == "__main__":
    main()
