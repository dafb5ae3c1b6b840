"""Toy text against Gymnasium where a recorded reference has no column for it: the action mask of Taxi."""

import gymnasium
import numpy as np

import operant


def test_taxi_masks_what_gymnasium_masks_in_every_state():
    envs = operant.make_vec("taxi", 512, seed=1)
    theirs = gymnasium.make("Taxi-v4").unwrapped
    rng = np.random.default_rng(1)
    obs, info = envs.reset()
    seen = {}
    for _ in range(200):
        masks = info["action_mask"]
        seen.update(zip(obs.tolist(), masks.tolist(), strict=True))
        # Any legal action; at an end the next step begins an episode.
        actions = np.array([rng.choice(np.flatnonzero(mask)) for mask in masks])
        obs, _, _, _, info = envs.step(actions)
    # Of the 500 numbers 404 can occur: the passenger is at the destination only when an episode ends.
    assert len(seen) >= 400
    for state, mask in seen.items():
        assert mask == theirs.action_mask(state).tolist(), state
