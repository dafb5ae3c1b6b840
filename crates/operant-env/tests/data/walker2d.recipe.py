"""Gymnasium's Walker2d-v5."""

from bodies import STEP_NOISE, Body, collect, cover, play_long, tolerances

SEED, REFERENCE = 3_003, tolerances(f32=0.002)


def environment():
    return Body("Walker2d-v5")


def cases(c, rng, states=120):
    collect(c, rng, states)
    play_long(c, rng, steps=100, count=2)
    cover(c, rng)
