"""Gymnasium's Hopper-v5 with other options."""

from bodies import STEP_NOISE, Body, collect, folded, play_long
from reference import recipe

SEED, REFERENCE = 3_102, recipe("hopper").REFERENCE


def environment():
    return Body(
        "Hopper-v5",
        env="hopper",
        frame_skip=3,
        forward_reward_weight=1.5,
        ctrl_cost_weight=0.01,
        healthy_reward=0.75,
        terminate_when_unhealthy=False,
        healthy_state_range=(-5.0, 6.0),
        healthy_z_range=(0.5, 1.2),
        healthy_angle_range=(-0.3, 0.4),
        exclude_current_positions_from_observation=False,
    )


def cases(c, rng, states=40):
    collect(c, rng, states, folded)
    play_long(c, rng, steps=100, count=2)
