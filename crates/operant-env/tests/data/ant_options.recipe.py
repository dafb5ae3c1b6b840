"""Gymnasium's Ant-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, play_long
from reference import recipe

SEED, REFERENCE = 3_108, recipe("ant").REFERENCE


def environment():
    return Body(
        "Ant-v5",
        env="ant",
        frame_skip=3,
        forward_reward_weight=1.5,
        ctrl_cost_weight=0.2,
        contact_cost_weight=0.002,
        healthy_reward=0.75,
        terminate_when_unhealthy=False,
        healthy_z_range=(0.3, 0.8),
        contact_force_range=(-0.5, 2.0),
        exclude_current_positions_from_observation=False,
        include_cfrc_ext_in_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states)
    play_long(c, rng, steps=20, count=2)
