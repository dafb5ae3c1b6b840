"""Gymnasium's Swimmer-v5."""

from bodies import STEP_NOISE, Body, collect, play_long, tolerances

SEED, REFERENCE = 3_007, tolerances(f32=0.0002)


def environment():
    return Body("Swimmer-v5")


def cases(c, rng, states=120):
    collect(c, rng, states, constrained=0.4)
    play_long(c, rng, steps=100, count=2)
