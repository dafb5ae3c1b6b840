"""operant's CartPole through Python: given actions, and every array written; on one thread."""

import argparse

import numpy as np

import operant
from worker import Candidate, Step, serve, versions

BATCHES = 16
"""Batches of random actions drawn beforehand, as for the other peers."""
STEPS_PER_CALL = 32

FAST = {"copy": False, "reward_dtype": "float32", "final_obs": "dense"}
MODES = {
    "next-step": {**FAST, "autoreset_mode": "next_step"},
    "same-step": FAST,
    "default": {},
}


def prepare(mode: str, num_envs: int) -> Step:
    """Environments in one of the modes."""
    envs = operant.make_vec("CartPole-v1", num_envs, threads=1, seed=0, **MODES[mode])
    envs.reset()
    actions = np.random.default_rng(0).integers(0, 2, (BATCHES, num_envs))

    def step() -> int:
        for index in range(STEPS_PER_CALL):
            envs.step(actions[index % BATCHES])
        return STEPS_PER_CALL * num_envs

    return step


def main() -> None:
    """Serves one mode at the asked number of environments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", type=int, default=8192)
    parser.add_argument("--mode", choices=MODES, default="default")
    arguments = parser.parse_args()
    settings = {"envs": arguments.envs, "mode": arguments.mode}
    serve(
        versions("gymnasium", "numpy"),
        [Candidate(settings, lambda: prepare(arguments.mode, arguments.envs))],
    )


if __name__ == "__main__":
    main()
