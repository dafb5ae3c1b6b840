"""The preset atari against Gymnasium's wrappers, and a training with it."""

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers import AtariPreprocessing, FrameStackObservation
from test_gym import place, short  # noqa: F401

from operant import _atari, _gym

gymnasium.register_envs(ale_py)


def ours(id, evaluation, **arguments):
    return _atari.make(lambda **more: gymnasium.make(id, **more), arguments, evaluation)


@pytest.mark.parametrize(("id", "starts"), [
    ("ALE/Pong-v5", [1, 2]), ("PongNoFrameskip-v4", [1, 2]), ("ALE/Breakout-v5", [1, 2]), ("ALE/MsPacman-v5", []),
])  # fmt: skip
def test_frames_scores_and_ends_are_those_of_gymnasium(id, starts, monkeypatch):
    # One no-op always, as both draw more from random numbers of their own.
    monkeypatch.setattr(_atari, "NO_OPS", 1)
    env = ours(id, True)
    inner = AtariPreprocessing(gymnasium.make(id, frameskip=1, max_episode_steps=10**9), noop_max=1)
    reference = FrameStackObservation(inner, 4)
    actions = np.random.default_rng(1)
    for seed in (3, 4):
        obs, _ = env.reset(seed=seed)
        reference.reset(seed=seed)
        for action in starts:
            reference.step(action)
        assert (obs[:, :, :1] == obs).all() and obs.shape == (84, 84, 4) and obs.dtype == np.uint8
        for step in range(300):
            action = actions.integers(env.action_space.n)
            obs, reward, terminated, truncated, _ = env.step(action)
            expected, *results, _ = reference.step(action)
            assert [reward, terminated, truncated] == results
            assert env.operant_game == {"reward": reward, "over": terminated or truncated}
            if terminated or truncated:
                break
            if step >= 3:
                np.testing.assert_array_equal(obs, np.moveaxis(expected, 0, -1))


def test_a_lost_life_ends_an_episode_and_the_game_goes_on():
    env = ours("ALE/Breakout-v5", False)
    actions = np.random.default_rng(4)
    lives, score, rewards, episodes = [], 0.0, 0.0, 0
    env.reset(seed=4)
    while True:
        _, reward, terminated, truncated, _ = env.step(actions.integers(env.action_space.n))
        score += env.operant_game["reward"]
        rewards += reward
        assert reward in (-1, 0, 1) and not truncated
        if terminated:
            episodes += 1
            lives.append(env.unwrapped.ale.lives())
            if env.operant_game["over"]:
                break
            env.reset()
            assert env.unwrapped.ale.lives() == lives[-1], "the game goes on"
    assert lives == [4, 3, 2, 1, 0] and episodes == 5 and score >= rewards > 0
    env.reset()
    assert env.unwrapped.ale.lives() == 5, "a game that is over is followed by another"


def test_rewards_are_signs_of_scores():
    env = ours("ALE/MsPacman-v5", False)
    actions = np.random.default_rng(1)
    env.reset(seed=1)
    seen = {(env.step(actions.integers(9))[1], env.operant_game["reward"]) for _ in range(200)}
    assert {(0.0, 0.0), (1.0, 10.0)} <= seen


def test_other_arguments_and_spaces():
    env = ours("ALE/Pong-v5", False, repeat_action_probability=0.0, full_action_space=True)
    assert env.action_space.n == 18 and env.max_episode_steps == 27_000
    with pytest.raises(ValueError, match="frameskip: the preset atari sets it"):
        ours("ALE/Pong-v5", False, frameskip=4)
    description, notes = _gym.describe("gym:ALE/Pong-v5?preset=atari")
    assert description["atari"] and not notes and description["spec"]["time_limit"] == 27_000
    assert description["spec"]["obs"] == {"bytes": {"shape": [84, 84, 4]}}


@pytest.mark.long
def test_the_preset_trains(place):  # noqa: F811
    sizes = {"num_envs": 2, "num_steps": 8, "num_minibatches": 1, "update_epochs": 1, "total_timesteps": 32}
    # A game of Freeway has 2,048 decisions, and a point needs a crossing.
    run = short("gym:ALE/Freeway-v5?mode=0", preset="atari", **sizes, options={"max_episode_steps": 20})
    config = run.result["config"]
    assert config["conv"] == [[32, 8, 4], [64, 4, 2], [64, 3, 1]] and config["hidden"] == [512]
    assert run.result["env_steps"] == 32 and run.result["eval_return_mean"] == 0
    code, _, err = place.run("train", "cartpole", "--preset", "atari")
    assert code == 2 and "cartpole is not a Gymnasium environment" in err
    code, _, err = place.run("train", "gym:CartPole-v1", "--preset", "atari")
    assert code == 2 and "it is not an Atari game" in err
