"""Gymnasium's Walker2d-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_103, recipe("walker2d").REFERENCE


def environment():
    return Body(
        "Walker2d-v5",
        env="walker2d",
        frame_skip=3,
        forward_reward_weight=1.5,
        ctrl_cost_weight=0.01,
        healthy_reward=0.75,
        terminate_when_unhealthy=False,
        healthy_z_range=(0.5, 1.2),
        healthy_angle_range=(-0.6, 0.7),
        exclude_current_positions_from_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states)
    play_long(c, rng, steps=100, count=2)
