"""Gymnasium's HalfCheetah-v5."""

from bodies import STEP_NOISE, Body, collect, cover, forced, play_long, tolerances

SEED, REFERENCE = 3_001, tolerances(f32=0.002)


def environment():
    return Body("HalfCheetah-v5")


def cases(c, rng, states=120):
    collect(c, rng, states)
    play_long(c, rng, steps=25, count=6)
    cover(c, rng)
    cover(c, rng, forced, patience=600)
