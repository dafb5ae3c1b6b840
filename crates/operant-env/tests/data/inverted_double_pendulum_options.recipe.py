"""Gymnasium's InvertedDoublePendulum-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, near_upright, play_long
from reference import recipe

SEED, REFERENCE = 3_105, recipe("inverted_double_pendulum").REFERENCE


def environment():
    return Body(
        "InvertedDoublePendulum-v5",
        env="inverted_double_pendulum",
        frame_skip=3,
        healthy_reward=7.5,
    )


def cases(c, rng, states=40):
    collect(c, rng, states, near_upright, constrained=0.4)
    play_long(c, rng, steps=15, count=4, hold=1)
