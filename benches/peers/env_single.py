"""One environment of a Python package alone with random actions: packages that have no vectorised form."""

import argparse
import importlib

import gymnasium

from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 512


def prepare(name: str) -> Step:
    """An environment as its package makes it, without a wrapper but the time limit."""
    env = gymnasium.make(name, disable_env_checker=True)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(STEPS_PER_CALL)]

    def step() -> int:
        for action in actions:
            *_, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()
        return STEPS_PER_CALL

    return step


def main() -> None:
    """Serves one environment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", required=True)
    parser.add_argument("--package", default="gymnasium", help="imported first: it registers the environment")
    arguments = parser.parse_args()
    importlib.import_module(arguments.package)
    packages = dict.fromkeys((arguments.package, "gymnasium", "numpy"))
    serve(versions(*packages), [Candidate({"envs": 1}, lambda: prepare(arguments.env))])


if __name__ == "__main__":
    main()
