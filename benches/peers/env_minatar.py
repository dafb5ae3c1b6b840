"""A game of the MinAtar package alone: one environment in plain Python, random actions."""

import argparse
import random

from minatar import Environment

from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 512


def prepare(name: str) -> Step:
    """A game without sticky actions, on each side."""
    game = Environment(name, sticky_action_prob=0.0)
    game.seed(0)
    game.reset()
    generator = random.Random(0)
    actions = [generator.randrange(game.num_actions()) for _ in range(STEPS_PER_CALL)]

    def step() -> int:
        for action in actions:
            _, ended = game.act(action)
            if ended:
                game.reset()
            game.state()
        return STEPS_PER_CALL

    return step


def main() -> None:
    """Serves one environment: the package has no vectorised form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="breakout")
    name = parser.parse_args().env
    serve(versions("MinAtar", "numpy"), [Candidate({"envs": 1}, lambda: prepare(name))])


if __name__ == "__main__":
    main()
