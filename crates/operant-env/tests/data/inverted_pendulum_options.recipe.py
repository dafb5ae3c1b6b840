"""Gymnasium's InvertedPendulum-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, near_upright, play_long
from reference import recipe

SEED, REFERENCE = 3_104, recipe("inverted_pendulum").REFERENCE


def environment():
    return Body(
        "InvertedPendulum-v5",
        env="inverted_pendulum",
        frame_skip=3,
    )


def cases(c, rng, states=40):
    collect(c, rng, states, near_upright)
    play_long(c, rng, steps=25, count=4, hold=2)
