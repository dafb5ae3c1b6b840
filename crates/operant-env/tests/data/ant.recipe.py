"""Gymnasium's Ant-v5."""

from bodies import STEP_NOISE, Body, collect, cover, forced, play_long, tolerances

# Observations have moments and forces of contacts, up to 1.
SEED, REFERENCE = 3_008, tolerances(f32=0.0005, f32_obs=0.002)


def environment():
    return Body("Ant-v5")


def cases(c, rng, states=120):
    collect(c, rng, states)
    play_long(c, rng, steps=25, count=6)
    cover(c, rng, forced, patience=1_500)
