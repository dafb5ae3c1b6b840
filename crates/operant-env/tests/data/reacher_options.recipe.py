"""Gymnasium's Reacher-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_106, recipe("reacher").REFERENCE


def environment():
    return Body(
        "Reacher-v5",
        env="reacher",
        frame_skip=3,
        reward_dist_weight=0.5,
        reward_control_weight=0.2,
    )


def cases(c, rng, states=40):
    collect(c, rng, states, constrained=0.4)
    play_long(c, rng, steps=50, count=2, ends=(False, True))
