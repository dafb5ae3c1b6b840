"""Games of two players."""

import numpy as np
import pytest

import operant


def play(opponent, steps=200, **more):
    """Random legal moves in 16 games at once: the rewards of ended games."""
    envs = operant.make_vec("connect_four", num_envs=16, opponent=opponent, **more)
    rng = np.random.default_rng(1)
    _, info = envs.reset(seed=1)
    rewards = []
    for _ in range(steps):
        mask = info["action_mask"]
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in mask])
        _, reward, terminated, truncated, info = envs.step(actions)
        assert not truncated.any() and not reward[~terminated].any()
        rewards += reward[terminated].tolist()
    return np.array(rewards)


def test_an_opponent_makes_a_game_an_environment_of_one_player(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    even, weak = play("random"), play("minimax:2")
    assert len(even) > 100 and abs(even.mean()) < 0.4 and weak.mean() < -0.7
    run = operant.train("connect_four", name="own", num_envs=16, num_steps=32, total_timesteps=1024, eval_episodes=4)
    assert np.isfinite(play("own")).all()
    one = operant.train("connect_four", opponent="own", num_envs=16, num_steps=32, total_timesteps=1024, eval_episodes=4)
    assert -1 <= one.result["eval_return_mean"] <= 1 and -1 <= run.result["eval_return_mean"] <= 1
    with pytest.raises(ValueError, match="nobody"):
        operant.make_vec("connect_four", num_envs=2, opponent="nobody")
    with pytest.raises(ValueError, match="opponent"):
        operant.make_vec("cartpole", num_envs=2, opponent="random")


def test_without_an_opponent_the_player_to_move_sees_its_own_stones_first():
    envs = operant.make_vec("connect_four", num_envs=1)
    obs, _ = envs.reset(seed=1)
    assert obs.shape == (1, 6, 7, 2) and not obs.any()
    obs, *_ = envs.step(np.array([3]))
    np.testing.assert_array_equal(np.argwhere(obs[0]), [[5, 3, 1]])
    for move in (3, 2, 3, 1, 3):
        _, reward, terminated, *_ = envs.step(np.array([move]))
        assert not terminated[0]
    # The first player's fourth stone in the bottom row.
    _, reward, terminated, *_ = envs.step(np.array([0]))
    assert terminated[0] and reward[0] == 1
