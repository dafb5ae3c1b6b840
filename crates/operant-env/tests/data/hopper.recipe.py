"""Gymnasium's Hopper-v5."""

from bodies import STEP_NOISE, Body, collect, cover, folded, play_long, tolerances

SEED, REFERENCE = 3_002, tolerances(f32=0.002)


def environment():
    return Body("Hopper-v5")


def cases(c, rng, states=120):
    collect(c, rng, states, folded)
    play_long(c, rng, steps=100, count=2)
    cover(c, rng, folded)
