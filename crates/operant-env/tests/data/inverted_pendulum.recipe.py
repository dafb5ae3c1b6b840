"""Gymnasium's InvertedPendulum-v5."""

from bodies import STEP_NOISE, Body, collect, near_upright, play_long, tolerances

SEED, REFERENCE = 3_004, tolerances(f32=0.0002)


def environment():
    return Body("InvertedPendulum-v5")


def cases(c, rng, states=120):
    collect(c, rng, states, near_upright)
    play_long(c, rng, steps=25, count=4, hold=2)
