"""Gymnasium's HalfCheetah-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_101, recipe("half_cheetah").REFERENCE


def environment():
    return Body(
        "HalfCheetah-v5",
        env="half_cheetah",
        frame_skip=3,
        forward_reward_weight=1.5,
        ctrl_cost_weight=0.25,
        exclude_current_positions_from_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states)
    play_long(c, rng, steps=20, count=2)
