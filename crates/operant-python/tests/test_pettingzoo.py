"""Games as PettingZoo environments."""

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from pettingzoo.test import api_test, parallel_api_test, seed_test

import operant
import operant.pettingzoo


@pytest.mark.parametrize("game", ["connect_four", "go_9x9", "kuhn_poker", "leduc_poker", "two_player_pong", "capture_the_flag"])
def test_pettingzoo_accepts_them(game):
    api_test(operant.pettingzoo.env(game), num_cycles=200)
    seed_test(lambda: operant.pettingzoo.env(game), num_cycles=50)
    parallel_api_test(operant.pettingzoo.parallel_env(game), num_cycles=200)


def test_both_sides_see_the_game_from_their_own_side():
    env = operant.pettingzoo.env("connect_four", render_mode="rgb_array")
    env.reset(seed=3)
    assert env.agents == ["player_0", "player_1"] and env.agent_selection == "player_0"
    for move in (3, 3, 2, 3, 1, 3):
        env.step(move)
    own, others = env.observe("player_0"), env.observe("player_1")
    np.testing.assert_array_equal(own["observation"], others["observation"][..., ::-1])
    assert own["action_mask"].tolist() == [1] * 7 and not others["action_mask"].any()
    # The fourth stone in the bottom row.
    env.step(0)
    assert env.rewards == {"player_0": 1, "player_1": -1} and all(env.terminations.values())
    assert env.observe("player_0")["observation"][..., 0].sum() == 4
    assert env.render().shape[2] == 3
    ended = []
    for agent in env.agent_iter():
        _, reward, terminated, truncated, _ = env.last()
        assert terminated and not truncated
        ended.append((agent, reward))
        env.step(None)
    assert sorted(ended) == [("player_0", 1), ("player_1", -1)] and not env.agents
    env.reset(seed=3)
    with pytest.raises(ValueError, match="component 0"):
        env.step(9)
    assert env.agent_selection == "player_0"


def test_a_limit_truncates_a_game():
    env = operant.pettingzoo.env("connect_four", max_episode_steps=3)
    env.reset(seed=1)
    for move in (0, 1, 2):
        env.step(move)
    assert all(env.truncations.values()) and not any(env.terminations.values())


def test_players_choose_at_once():
    games = operant.pettingzoo.parallel_env("capture_the_flag", max_episode_steps=4 * 30)
    seen, _ = games.reset(seed=2)
    assert list(seen) == [f"player_{k}" for k in range(4)] and all(view.shape == (7, 10, 5) for view in seen.values())
    with pytest.raises(ValueError, match="player_1: expected an action"):
        games.step({"player_0": 1})
    forward = dict.fromkeys(games.agents, 2)
    for step in range(1, 30):
        before = {agent: np.argwhere(view[..., 0]) for agent, view in seen.items()}
        seen, rewards, terminated, truncated, _ = games.step(forward)
        if step < 4:
            # Each is one column further to the right in its own view, whatever its side.
            for agent, view in seen.items():
                np.testing.assert_array_equal(np.argwhere(view[..., 0]), before[agent] + [[0, 1]])
        assert not any(terminated.values()) and not any(rewards.values()) and not any(truncated.values())
    *_, truncated, _ = games.step(forward)
    assert all(truncated.values()) and not games.agents


def test_points_are_for_one_side():
    court = operant.pettingzoo.parallel_env("two_player_pong")
    court.reset(seed=4)
    played = []
    while court.agents:
        seen, rewards, terminated, *_ = court.step({"player_0": 1, "player_1": 2})
        assert rewards["player_0"] == 0.0 - rewards["player_1"]
        assert seen["player_0"][0] == -seen["player_1"][0] and seen["player_0"][5] == seen["player_1"][7]
        played.append(rewards["player_0"])
    assert all(terminated.values()) and max(played.count(1.0), played.count(-1.0)) == 21


def test_what_is_no_game_is_refused():
    with pytest.raises(ValueError, match="one player"):
        operant.pettingzoo.env("cartpole")
    with pytest.raises(ValueError, match="opponent: every side has its agent"):
        operant.pettingzoo.env("connect_four", opponent="random")
    with pytest.raises(ValueError, match="num_envs"):
        operant.pettingzoo.env("connect_four", num_envs=2)


def test_calls_before_a_reset_and_of_strangers_are_refused():
    env = operant.pettingzoo.env("connect_four")
    for call in (lambda: env.step(0), lambda: env.observe("player_0")):
        with pytest.raises(ResetNeeded):
            call()
    env.reset(seed=1)
    with pytest.raises(ValueError, match="player_7"):
        env.observe("player_7")
    env.observe("player_0")["observation"][:] = True
    assert not env.observe("player_0")["observation"].any(), "what is given away is a copy"


def test_vector_environments_say_who_moves():
    envs = operant.make_vec("connect_four", num_envs=3, copy=False)
    _, info = envs.reset(seed=1)
    assert envs.players == 2 and info["player"].tolist() == [0, 0, 0]
    *_, info = envs.step(np.array([0, 1, 2]))
    assert info["player"].tolist() == [1, 1, 1]
    assert "player" not in operant.make_vec("connect_four", num_envs=3, opponent="random").reset(seed=1)[1]
