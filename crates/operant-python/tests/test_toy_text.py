"""Toy text against Gymnasium where a recorded reference has no column for it: the action mask of Taxi, and Taxi without it."""

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


def test_taxi_without_its_mask_allows_everything_at_gymnasiums_price():
    envs = operant.make_vec("taxi", 512, seed=1, action_mask=0)
    theirs = gymnasium.make("Taxi-v4").unwrapped
    obs, info = envs.reset()
    assert info["action_mask"].all()
    illegal = np.array([not theirs.action_mask(state)[4] for state in obs])
    obs, rewards, _, _, info = envs.step(np.full(512, 4))
    assert info["action_mask"].all()
    assert illegal.any() and not illegal.all()
    np.testing.assert_array_equal(rewards, np.where(illegal, -10.0, -1.0))
