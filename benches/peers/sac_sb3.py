"""SAC of Stable-Baselines3 (PyTorch) or of SBX (the same in JAX) on Pendulum-v1: one environment, a minibatch for each step.

On one core, since JAX has no setting for one thread that it keeps to. Learning has begun when the driver measures.
"""

import argparse
import importlib
import os
import sys

import gymnasium

from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 250
PACKAGES = {"stable_baselines3": ("stable-baselines3", "torch"), "sbx": ("sbx-rl", "jax")}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--library", choices=PACKAGES, required=True)
    parser.add_argument("--hidden", type=int, nargs="+", default=[256, 256])
    parser.add_argument("--batch-size", type=int, default=256)
    arguments = parser.parse_args()
    # Before a library counts cores.
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    if arguments.library == "stable_baselines3":
        importlib.import_module("torch").set_num_threads(1)
    sac = importlib.import_module(arguments.library).SAC
    settings = {
        "batch_size": arguments.batch_size,
        "learning_starts": arguments.batch_size,
        "policy_kwargs": {"net_arch": arguments.hidden},
        "seed": 1,
    }

    def prepare() -> Step:
        model = sac("MlpPolicy", gymnasium.make("Pendulum-v1"), **settings)
        model.learn(2 * arguments.batch_size)

        def step() -> int:
            model.learn(STEPS_PER_CALL, reset_num_timesteps=False)
            return STEPS_PER_CALL

        return step

    print(f"{arguments.library} with {settings}", file=sys.stderr)
    shown = {"hidden": arguments.hidden, "batch_size": arguments.batch_size, "threads": 1}
    serve(versions(*PACKAGES[arguments.library]), [Candidate(shown, prepare)])


if __name__ == "__main__":
    main()
