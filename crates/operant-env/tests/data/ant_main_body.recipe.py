"""Gymnasium's Ant-v5 with another main body, its contact forces clipped elsewhere, and its position observed."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_208, recipe("ant").REFERENCE


def environment():
    return Body(
        "Ant-v5",
        env="ant",
        main_body=3,
        contact_force_range=(-0.5, 2.0),
        exclude_current_positions_from_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states)
    play_long(c, rng, steps=20, count=2)
