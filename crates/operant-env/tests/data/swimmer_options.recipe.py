"""Gymnasium's Swimmer-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_107, recipe("swimmer").REFERENCE


def environment():
    return Body(
        "Swimmer-v5",
        env="swimmer",
        frame_skip=3,
        forward_reward_weight=1.5,
        ctrl_cost_weight=0.01,
        exclude_current_positions_from_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states, constrained=0.4)
    play_long(c, rng, steps=100, count=2)
