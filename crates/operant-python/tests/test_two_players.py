"""Games of two players."""

import gymnasium
import numpy as np
import pytest

import operant


@operant.world(
    observation_space=gymnasium.spaces.Discrete(22),
    action_space=gymnasium.spaces.Discrete(3),
    action_names=["one", "two", "three"],
    max_episode_steps=30,
    players=2,
    preset={"total_timesteps": 200_000, "num_envs": 64, "num_steps": 32, "learning_rate": 2e-3, "ent_coef": 0.05},
)
class Nim:
    """Who takes the last of at most 21 stones wins; a move takes one to three."""

    stones: operant.Uint
    player: operant.Uint

    def reset(self, draws):
        return self.State(stones=21 - draws.integer(4), player=0)

    def step(self, s, action, draws):
        s.stones = s.stones - operant.math.to_uint(action) - 1
        is_over = s.stones == 0
        reward = operant.math.where(is_over, operant.math.where(s.player == 0, 1.0, -1.0), 0.0)
        s.player = 1 - s.player
        return s, reward, is_over

    def observe(self, s):
        return [s.stones]

    def legal(self, s):
        return [s.stones >= taken for taken in (1, 2, 3)]


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


def test_a_world_may_be_a_game(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = operant.train(Nim, name="nim", seed=1)
    policy = run.policy
    # The player who leaves a multiple of four wins.
    stones = np.array([n for n in range(1, 22) if n % 4])
    mask = np.stack([stones >= taken for taken in (1, 2, 3)], axis=1).astype(np.int8)
    np.testing.assert_array_equal(policy(stones, action_mask=mask), stones % 4 - 1)
    envs = operant.make_vec(Nim, num_envs=4)
    stones, info = envs.reset(seed=1)
    stones, _, _, _, info = envs.step(np.zeros(4, int))
    assert envs.players == 2 and info["player"].tolist() == [1] * 4
    against = operant.make_vec(Nim, num_envs=32, opponent="minimax:3")
    stones, info = against.reset(seed=1)
    won = []
    for _ in range(40):
        stones, reward, terminated, _, info = against.step(policy(stones, action_mask=info["action_mask"]))
        won += reward[terminated].tolist()
    assert len(won) > 100 and np.mean(won) > 0
    for wrong in (0, 9, True, "2"):
        with pytest.raises(ValueError, match="players: expected 1 to 8"):
            operant.world(players=wrong)(type("Game", (), {}))


@operant.world(
    observation_space=gymnasium.spaces.Discrete(8), action_space=gymnasium.spaces.Discrete(2), max_episode_steps=8, players=2, preset={}
)
class Miscounted:
    """The player to move is counted, and not taken modulo two."""

    player: operant.Uint

    def reset(self, draws):
        return self.State(player=0)

    def step(self, s, action, draws):
        s.player = s.player + 1
        return s, 0.0, s.player == 7

    def observe(self, s):
        return [s.player]


def test_a_collector_refuses_a_player_beyond_the_last():
    collector = operant.Collector(Miscounted, num_envs=3, num_steps=4, hidden=[4], seed=1)
    with pytest.raises(ValueError, match="player 2 is to move, of 2 players; let the `player` of a state be below `players`"):
        collector.collect()


@pytest.mark.parametrize("game", ["leduc_poker", "capture_the_flag"])
def test_a_collector_computes_the_advantages_of_each_player(game):
    steps, num_envs, gamma, gae_lambda = 40, 37, 0.9, 0.8
    settings = {"num_envs": num_envs, "num_steps": steps, "gamma": gamma, "gae_lambda": gae_lambda, "hidden": [8]}
    collector = operant.Collector(game, seed=3, threads=2, **settings)
    one_by_one = operant.make_vec(game, num_envs, seed=3)
    _, info = one_by_one.reset(seed=3)
    for _ in range(2):
        batch = collector.collect()
        for t in range(steps):
            np.testing.assert_array_equal(batch["player"][t], info["player"])
            *_, info = one_by_one.step(batch["actions"][t])
        np.testing.assert_array_equal(batch["next_player"], info["player"])
        ended, movers = batch["ended"], np.vstack([batch["player"], batch["next_player"]])
        side = 1.0 - 2.0 * (movers % 2)
        assert (ended.any() or game == "capture_the_flag") and {0, 1} <= set(np.unique(movers))
        for env in range(num_envs):
            for t in reversed(range(steps)):
                reward, step = 0.0, t
                while True:
                    reward += side[t, env] * batch["rewards"][step, env]
                    if ended[step, env] or step + 1 == steps or movers[step + 1, env] == movers[t, env]:
                        break
                    step += 1
                if ended[step, env]:
                    value, later = 0.0, 0.0
                elif step + 1 == steps:
                    value, later = side[t, env] * side[steps, env] * batch["next_values"][env], 0.0
                else:
                    value, later = batch["values"][step + 1, env], batch["advantages"][step + 1, env]
                expected = reward + gamma * value - batch["values"][t, env] + gamma * gae_lambda * later
                assert abs(batch["advantages"][t, env] - expected) < 1e-5
    played = one_by_one.rollout(None, 20)
    assert played["player"].shape == (20, num_envs) and "player" not in operant.make_vec("cartpole", 3, seed=1).reset()[1]


def test_each_side_has_a_memory_of_its_own(tmp_path):
    settings = {"core": "mingru", "hidden": [16], "num_envs": 16, "num_steps": 32}
    run = operant.train("connect_four", run_dir=tmp_path, total_timesteps=2048, progress=False, **settings)
    states = np.zeros((2, 20, run.policy.state_size), np.float32)
    envs, played = operant.make_vec("connect_four", num_envs=20), operant.make_vec("connect_four", num_envs=20)
    obs, info = envs.reset(seed=1)
    played.reset(seed=1)
    steps = played.rollout(run.policy, 40, deterministic=True)
    for step in range(40):
        mover, rows = info["player"], np.arange(20)
        before = states[mover, rows]
        actions, after = run.policy.predict(obs, before, action_mask=info["action_mask"])
        states[mover, rows] = after
        assert (actions == steps["actions"][step]).all(), step
        obs, _, terminated, truncated, info = envs.step(actions)
        states[:, terminated | truncated] = 0
    assert steps["terminated"].any() and (states[0] != states[1]).any()
