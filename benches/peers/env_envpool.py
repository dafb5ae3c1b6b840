"""An environment of EnvPool alone: random actions, auto-reset, all cores, in lock-step and asynchronously."""

import argparse

import envpool
import numpy as np

from random_actions import BATCHES, random_actions
from worker import Candidate, Step, serve, usable_cores, versions

STEPS_PER_CALL = 8


def prepare(name: str, num_envs: int, batch: int, threads: int | None = None) -> Step:
    """A pool that steps `batch` of its environments at a time; all of them: lock-step."""
    threads = threads or usable_cores()
    pool = envpool.make_gymnasium(name, num_envs=num_envs, batch_size=batch, num_threads=threads, seed=0)
    actions = random_actions(pool.action_space, batch)
    if actions.dtype.kind == "i":
        actions = actions.astype(np.int32)
    if batch == num_envs:
        pool.reset()
    else:
        pool.async_reset()

    def lock_step() -> int:
        for index in range(STEPS_PER_CALL):
            pool.step(actions[index % BATCHES])
        return STEPS_PER_CALL * batch

    def asynchronous() -> int:
        for index in range(STEPS_PER_CALL):
            *_, info = pool.recv()
            pool.send(actions[index % BATCHES], info["env_id"])
        return STEPS_PER_CALL * batch

    return lock_step if batch == num_envs else asynchronous


def main() -> None:
    """Serves the fastest of three ways to use the library."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--envs", type=int, default=8192)
    arguments = parser.parse_args()
    name, envs = arguments.env, arguments.envs
    shapes = [(envs, envs), (envs, envs // 2), (1024, 1024)]
    candidates = [
        Candidate({"envs": size, "batch": batch}, lambda size=size, batch=batch: prepare(name, size, batch))
        for size, batch in shapes
    ]
    serve(versions("envpool", "numpy"), candidates)


if __name__ == "__main__":
    main()
