"""Gymnasium's vectorised CartPole alone: random actions, auto-reset, on the one core that NumPy uses."""

import argparse

import gymnasium
import numpy as np

from worker import Candidate, Step, serve, versions

BATCHES = 16
"""Batches of random actions drawn beforehand: the peer does not pay for its sampling."""
STEPS_PER_CALL = 32


def prepare(num_envs: int) -> Step:
    """The environment that Gymnasium vectorises with NumPy, which is far faster than its SyncVectorEnv."""
    env = gymnasium.make_vec("CartPole-v1", num_envs=num_envs, vectorization_mode="vector_entry_point")
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, 2, (BATCHES, num_envs))

    def step() -> int:
        for index in range(STEPS_PER_CALL):
            env.step(actions[index % BATCHES])
        return STEPS_PER_CALL * num_envs

    return step


def main() -> None:
    """Serves the faster of the asked number of environments and the number that suits NumPy's caches."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8192)
    arguments = parser.parse_args()
    sizes = dict.fromkeys((arguments.envs, 1024))
    candidates = [Candidate({"envs": size}, lambda size=size: prepare(size)) for size in sizes]
    serve(versions("gymnasium", "numpy"), candidates)


if __name__ == "__main__":
    main()
