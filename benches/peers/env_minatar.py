"""The MinAtar package's Breakout alone: one environment in plain Python, random actions."""

import random

from minatar import Environment

from worker import Candidate, Step, serve, versions

STEPS_PER_CALL = 512


def prepare() -> Step:
    """A game without sticky actions, on each side."""
    game = Environment("breakout", sticky_action_prob=0.0)
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
    serve(versions("MinAtar", "numpy"), [Candidate({"envs": 1}, prepare)])


if __name__ == "__main__":
    main()
