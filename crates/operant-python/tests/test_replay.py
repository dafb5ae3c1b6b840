"""`operant.Replay`: what is added comes back, runs begin with it, and those of runs are read where they are."""

import gym_envs
import gymnasium
import numpy as np
import pytest

import operant

SMALL = {"eval_episodes": 2, "ring": False, "progress": False, "hidden": [16], "batch_size": 32, "num_steps": 50}


def steps(count, seed=0):
    """Steps of Pendulum-v1 with random actions, in which an episode is cut off after 200 and every fourth one terminates after 150."""
    env, draws = gymnasium.make("Pendulum-v1"), np.random.default_rng(seed)
    rows, episode, step = [], 0, 0
    obs, _ = env.reset(seed=seed)
    for _ in range(count):
        action = draws.uniform(-2, 2, 1).astype(np.float32)
        after, reward, _, truncated, _ = env.step(action)
        step += 1
        terminated = episode % 4 == 3 and step == 150
        rows.append((obs, action, reward, after, terminated, truncated and not terminated))
        obs = after
        if terminated or truncated:
            (obs, _), episode, step = env.reset(), episode + 1, 0
    return [np.stack(column) for column in zip(*rows, strict=True)]


def same(found, expected):
    """Whether transitions are those of arrays; a terminated one has no next observation, and actions are rounded."""
    obs, action, reward, after, terminated, truncated = expected
    after = np.where(terminated[:, None], obs, after)
    np.testing.assert_allclose(found.action, action, atol=1e-6)
    assert found.action.dtype == np.float32 and np.array_equal(found.reward, reward.astype(np.float32))
    for got, want in zip((found.obs, found.next_obs, found.terminated, found.truncated), (obs, after, terminated, truncated), strict=True):
        assert np.array_equal(got, want)


def test_what_is_added_comes_back_in_any_order_and_pieces():
    data = steps(1000)
    whole = operant.Replay("pendulum")
    whole.add(*data)
    assert len(whole) == 1000
    same(whole.transitions(), data)
    pieces = operant.Replay("pendulum")
    for first, end in ((0, 1), (1, 300), (300, 301), (301, 1000)):
        pieces.add(*(column[first:end] for column in data))
    # Steps that go on where others ended share a row.
    assert np.array_equal(pieces.rows, whole.rows) and np.array_equal(pieces._heads, whole._heads) and whole._heads[0] == 1000 + 4 + 1
    same(pieces.transitions(), data)
    order = np.random.default_rng(1).permutation(1000)
    mixed = operant.Replay("pendulum")
    mixed.add(*(column[order] for column in data))
    same(mixed.transitions(), [column[order] for column in data])
    same(mixed.transitions([3, 5, -1]), [column[order[[3, 5, -1]]] for column in data])


def test_environments_that_step_at_a_time_have_rings_of_their_own():
    several = [steps(120, seed) for seed in range(3)]
    data = [np.stack(columns, 1) for columns in zip(*several, strict=True)]
    one, many = operant.Replay("pendulum", num_envs=3), operant.Replay("pendulum", num_envs=3)
    many.add(*data)
    for step in range(120):
        one.add(*(column[step] for column in data))
    for replay in (one, many):
        same(replay.transitions(), [np.concatenate(columns) for columns in zip(*several, strict=True)])
    assert np.array_equal(one._heads, [121] * 3) and np.array_equal(one.rows, many.rows)


def test_a_full_replay_keeps_the_newest():
    data = steps(500)
    replay = operant.Replay("pendulum", 100)
    for first in range(0, 500, 70):
        replay.add(*(column[first : first + 70] for column in data))
    # 100 rows, the last observation among them, and that of the episode that ended with step 400.
    same(replay.transitions(), [column[-len(replay) :] for column in data])
    assert len(replay) in (98, 99)
    other = operant.Replay("pendulum", 100)
    other.add(*data)
    same(other.transitions(), [column[-len(other) :] for column in data])


def test_arrays_are_views_that_cannot_be_written():
    data = steps(300)
    replay = operant.Replay("pendulum")
    replay.add(*data)
    for array in (replay.obs, replay.action, replay.reward):
        assert np.shares_memory(array, replay._words) and not array.flags.writeable
    assert np.array_equal(replay.obs[replay.rows], data[0]) and np.array_equal(replay.obs[replay.next_rows], data[3])
    np.testing.assert_allclose(2 * replay.action[replay.rows], data[1], atol=1e-6)
    assert replay.truncated.sum() == data[5].sum() == 1 and len(replay.terminated) == len(replay.obs)
    batch = replay.sample(64, seed=3)
    assert batch.obs.shape == (64, 3) and batch.action.shape == (64, 1) and batch.obs.flags.writeable
    assert np.array_equal(batch.obs, replay.sample(64, seed=3).obs) and not np.array_equal(batch.obs, replay.sample(64, seed=4).obs)


def test_spaces_of_gymnasium_and_parts_come_back():
    env = gym_envs.Walk("parts", "reals")
    seen = [env.reset(seed=0)[0]] + [env.step(np.array([0.25, sign], np.float32))[0] for sign in (0.5, 0.5, -1, -1, -1, 0.5)]
    obs, after = ({"a": tuple(np.stack([row["a"][k] for row in rows]) for k in (0, 1)), "c": np.stack([row["c"] for row in rows]),
                   "b": {key: np.stack([row["b"][key] for row in rows]) for key in "uv"}} for rows in (seen[:-1], seen[1:]))  # fmt: skip
    space, ends = env.action_space, np.arange(6) == 5
    action = np.linspace(space.low, space.high, 6).astype(np.float32)
    replay = operant.Replay(f"{gym_envs.__file__}:Walk?obs=parts&act=reals", 20)
    replay.add(obs, action, np.arange(6), after, ~ends & False, ends)
    found = replay.transitions()
    np.testing.assert_allclose(found.action, action, atol=1e-6)
    for got, want in ((found.obs, obs), (found.next_obs, after)):
        pairs = [(got["c"], want["c"]), *zip(got["a"], want["a"], strict=True), *((got["b"][key], want["b"][key]) for key in "uv")]
        for one, other in pairs:
            assert np.array_equal(one, other), (one, other)
    assert found.truncated.tolist() == ends.tolist() and not found.terminated.any() and replay._heads[0] == 7


def test_choices_and_bits_come_back_and_begin_a_run(tmp_path):
    envs = operant.make_vec("MinAtar/Breakout-v1", num_envs=4, seed=1, autoreset_mode="same_step", final_obs="dense")
    replay, draws, kept = operant.Replay("minatar_breakout", num_envs=4), np.random.default_rng(0), []
    obs, _ = envs.reset()
    for _ in range(100):
        action = draws.integers(envs.single_action_space.n, size=4)
        after, reward, terminated, truncated, info = envs.step(action)
        ended = terminated | truncated
        last = np.where(ended[:, None, None, None], info["final_obs"], after) if ended.any() else after
        kept.append((obs, action, reward, last, terminated, truncated))
        replay.add(*kept[-1])
        obs = after
    found, columns = replay.transitions(), [np.stack(column, 1).reshape(400, *column[0].shape[1:]) for column in zip(*kept, strict=True)]
    assert found.obs.dtype == np.bool_ and found.action.dtype == np.int64 and columns[4].any()
    columns[3] = np.where(columns[4][:, None, None, None], columns[0], columns[3])
    for got, want in zip(found[:6], columns, strict=True):
        assert np.array_equal(got, want)
    settings = {"algorithm": "dqn", "learning_starts": 400, "num_envs": 8, "total_timesteps": 400, "priority_exponent": 0.5}
    run = operant.train("minatar_breakout", replay=replay, run_dir=tmp_path, checkpoint_replay=True, **SMALL, **settings)
    assert run.metrics()["minibatches"][0] > 0 and len(run.replay) > 700
    assert run.replay.sample(9, 1).obs.shape == (9, *envs.single_observation_space.shape)


@pytest.fixture(scope="module")
def replay():
    replay = operant.Replay("pendulum")
    replay.add(*steps(1000))
    return replay


def test_a_run_begins_with_it_and_keeps_its_own(replay, tmp_path):
    def train(name, **settings):
        return operant.train(
            "pendulum",
            algorithm="sac",
            name=name,
            run_dir=tmp_path,
            **{**SMALL, "replay": replay, "num_envs": 2, "total_timesteps": 400, "learning_starts": 1000, "checkpoint_replay": True, **settings},
        )

    run = train("a")
    rows = run.metrics()
    # Of the 1,000 that are needed all are there, so that it learns from the first step on.
    assert rows["minibatches"].tolist() == [100] * 4 and np.isfinite(rows["td_loss"]).all()
    again = train("b", threads=2)
    assert np.array_equal(rows["td_loss"], again.metrics()["td_loss"])
    assert train("c", learning_starts=1100).metrics()["minibatches"].tolist() == [0, 100, 100, 100]
    # Its replay has what it was given, and its own steps, of which the last ones ended an episode.
    assert len(run.replay) == 1000 + 400
    stored, given = run.replay.transitions(), replay.transitions()
    whole = [{b"".join(part.tobytes() for part in row) for row in zip(*of[:6], strict=True)} for of in (given, stored)]
    assert len(whole[0]) == 1000 and whole[0] < whole[1]
    assert isinstance(run.replay._words, np.memmap) and run.replay.sample(5, 1).obs.shape == (5, 3)
    # A resumed run has the bits of one that was not stopped.
    half = train("d", total_timesteps=200)
    half = operant.resume(half, total_timesteps=400, progress=False)
    assert np.array_equal(half.metrics()["td_loss"], rows["td_loss"])
    # And one can begin with the replay of another, to which more is added.
    other = run.replay
    other.add(*(np.stack([column, column], 1) for column in steps(10, 5)))
    assert len(other) == 1420
    begun = train("e", replay=other, learning_starts=1420, total_timesteps=100)
    # The newest step of each environment has no next observation yet.
    assert begun.metrics()["minibatches"].tolist() == [100] and len(begun.replay) == 1420 + 100 - 2


def legal_steps(count):
    """Random legal steps of 2048, one environment, with the legal actions before and after each."""
    env, draw = operant.make("game_2048"), np.random.default_rng(1)
    rows, (obs, info) = [], env.reset(seed=1)
    for _ in range(count):
        legal = info["action_mask"].astype(bool)
        action = draw.choice(np.flatnonzero(legal))
        after, reward, terminated, truncated, info = env.step(action)
        rows.append((obs, action, reward, after, terminated, truncated, legal, info["action_mask"].astype(bool)))
        obs = after
        if terminated or truncated:
            obs, info = env.reset()
    return [np.stack(column) for column in zip(*rows, strict=True)]


def test_legal_actions_are_kept_and_a_run_learns_from_them(tmp_path):
    data = legal_steps(600)
    order = np.random.default_rng(2).permutation(600)
    assert not data[6].all() and data[4].any()
    for columns in (data, [column[order] for column in data]):
        replay = operant.Replay("game_2048")
        replay.add(*columns)
        found = replay.transitions()
        ended = columns[4]
        assert np.array_equal(found.action_mask, columns[6]) and np.array_equal(found.action, columns[1])
        assert np.array_equal(found.next_action_mask[~ended], columns[7][~ended])
    pieces = operant.Replay("game_2048")
    for first in range(0, 600, 100):
        # Without those of the next observation, the step that goes on has them.
        pieces.add(*(column[first : first + 100] for column in data[:7]))
    found = pieces.transitions()
    assert np.array_equal(found.next_action_mask[:-1][~data[4][:-1]], data[7][:-1][~data[4][:-1]]) and found.next_action_mask[-1].all()
    run = operant.train("game_2048", algorithm="dqn", replay=replay, run_dir=tmp_path, **{**SMALL, "learning_starts": 500, "total_timesteps": 100})
    assert np.isfinite(run.metrics()["td_loss"]).all()
    illegal = [column.copy() for column in data]
    row = int(np.flatnonzero(~data[6].all(1))[0])
    illegal[1][row] = np.flatnonzero(~data[6][row])[0]
    count = len(pieces)
    for columns, match in (
        (illegal, "action: that of row .* is illegal by action_mask"),
        (data[:6], "action_mask: game_2048 has illegal actions"),
        ([*data[:6], np.zeros((600, 4), bool)], "action_mask: the action mask allows no action in row 0"),
        ([*data[:7], data[6][:5]], r"next_action_mask: expected shape \(600, \.\.\.\)"),
        ([*data[:6], data[6][:, :3]], "action_mask: the action mask has the shape"),
    ):
        with pytest.raises(ValueError, match=match):
            pieces.add(*columns)
    assert len(pieces) == count
    with pytest.raises(ValueError, match="action_mask: all actions of pendulum are legal"):
        operant.Replay("pendulum").add(*steps(5), np.ones((5, 1), bool))


def test_what_does_not_fit_is_one_error(replay, tmp_path):
    def refused(match, env="pendulum", error=ValueError, **settings):
        with pytest.raises(error, match=match):
            operant.train(env, **{"algorithm": "sac", "replay": replay, "run_dir": tmp_path, **SMALL, **settings})

    refused(r"(?s)buffer_size.* takes 1005 rows.* at least 1005", buffer_size=1000, learning_starts=100)
    refused("the replay is of pendulum", env="hopper")
    refused("expected an operant.Replay", error=TypeError, replay=[1, 2])
    refused("the given replay is empty", replay=operant.Replay("pendulum"))
    with pytest.raises(ValueError, match="does not use a replay"):
        operant.train("pendulum", replay=replay, run_dir=tmp_path)
    assert not list(tmp_path.iterdir()), "nothing was written"
    with pytest.raises(ValueError, match="capacity: expected"):
        operant.Replay("pendulum", 0)
    with pytest.raises(ValueError, match="no replay: train .* checkpoint_replay"):
        run = operant.train("pendulum", algorithm="sac", total_timesteps=100, learning_starts=50, run_dir=tmp_path, **SMALL)
        print(run.replay)


@pytest.mark.parametrize(
    ("column", "value", "error", "match"),
    [
        (0, np.zeros((5, 4)), ValueError, r"obs: expected shape \(3,\) or \(N, 3\)"),
        (0, np.full((5, 3), np.nan), ValueError, "obs: expected finite numbers, got NaN"),
        (0, np.full((5, 3), "x"), TypeError, "obs: expected numbers"),
        (1, np.full((5, 1), 2.5), ValueError, "action: expected numbers from -2 to 2, got 2.5 in row 0, component 0"),
        (1, np.full((5, 1), np.inf), ValueError, "action: row 0 has inf"),
        (1, np.zeros((4, 1)), ValueError, r"action: expected shape \(5, \.\.\.\)"),
        (2, np.array([0, 1, np.nan, 2, 3]), ValueError, "reward: expected finite numbers, got nan in row 2"),
        (2, np.zeros((5, 1)), ValueError, r"reward: expected shape \(T,\)"),
        (3, np.zeros((5, 4)), ValueError, r"next_obs: expected shape \(3,\)"),
        (4, np.full(5, 2), ValueError, "terminated: expected booleans"),
        (5, np.zeros(4, bool), ValueError, r"truncated: expected shape \(5,\)"),
    ],
)
def test_wrong_arrays_are_named_and_add_nothing(column, value, error, match):
    replay, data = operant.Replay("pendulum"), steps(5)
    data[column] = value
    with pytest.raises(error, match=match):
        replay.add(*data)
    assert len(replay) == 0 and not replay._words.any()


def test_a_data_set_in_minaris_form_begins_a_run(tmp_path):
    """The example of docs/python.md, with the keys of its file."""
    observations, actions, rewards, after, terminations, truncations = steps(400)
    np.savez(
        tmp_path / "data.npz", observations=observations, actions=actions, rewards=rewards, next_observations=after,
        terminals=terminations, timeouts=truncations,
    )  # fmt: skip
    data = np.load(tmp_path / "data.npz")
    replay = operant.Replay("Pendulum-v1")
    replay.add(*(data[key] for key in ("observations", "actions", "rewards", "next_observations", "terminals", "timeouts")))
    run = operant.train(
        "pendulum", algorithm="sac", replay=replay, learning_starts=300, total_timesteps=50, run_dir=tmp_path / "runs", **SMALL
    )
    assert run.metrics()["minibatches"].tolist() == [50]
