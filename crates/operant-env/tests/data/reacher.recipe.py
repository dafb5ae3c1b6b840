"""Gymnasium's Reacher-v5."""

from bodies import STEP_NOISE, Body, collect, play_long, tolerances

SEED, REFERENCE = 3_006, tolerances(f32=0.001)


def environment():
    return Body("Reacher-v5")


def cases(c, rng, states=120):
    collect(c, rng, states, constrained=0.4)
    play_long(c, rng, steps=50, count=4, ends=(False, True))
