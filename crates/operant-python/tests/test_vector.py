"""Vector environments: Gymnasium's contract, every mode, and what a step leaves alone when it refuses."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

import operant

NAMES = operant.envs.names()
MODES = ["same_step", "next_step", "disabled"]


def actions_for(envs, seed=0, steps=None):
    """Random actions of one step, or `(steps, N)`."""
    rng = np.random.default_rng(seed)
    made = envs._random_actions(rng, steps or 1)
    return made if steps else made[0]


def trajectory(envs, steps=300, seed=0):
    """Everything that `steps` steps of the same random actions return, and a fingerprint of the infos."""
    found = []
    for action in actions_for(envs, seed, steps):
        obs, rewards, terminated, truncated, info = envs.step(action)
        found.append((copy.deepcopy(obs), rewards.copy(), terminated.copy(), truncated.copy(), sorted(info)))
    return found


def assert_equal(a, b):
    for step, (one, other) in enumerate(zip(a, b, strict=True)):
        assert data_equivalence(one, other, exact=True), f"step {step}"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_results_are_of_the_spaces(name, mode):
    envs = operant.make_vec(name, 5, seed=3, autoreset_mode=mode)
    assert isinstance(envs, gymnasium.vector.VectorEnv)
    assert isinstance(envs.metadata["autoreset_mode"], AutoresetMode)
    obs, info = envs.reset()
    assert obs in envs.observation_space
    obs, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())
    assert obs in envs.observation_space
    assert all(one in envs.single_observation_space for one in iterate(envs.observation_space, obs))
    assert (rewards.dtype, rewards.shape) == (np.float64, (5,))
    assert terminated.dtype == truncated.dtype == np.bool_ and terminated.shape == truncated.shape == (5,)


def test_same_step_returns_the_next_episode_and_the_last_observation_apart():
    envs = operant.make_vec("CartPole-v1", 6, seed=1)
    dense = operant.make_vec("CartPole-v1", 6, seed=1, final_obs="dense")
    envs.reset(), dense.reset()
    lengths, ends = np.zeros(6, int), 0
    for action in actions_for(envs, steps=200):
        obs, rewards, terminated, truncated, info = envs.step(action)
        other = dense.step(action)[4]
        lengths += 1
        done = terminated | truncated
        if not done.any():
            assert info == {}
            continue
        ends += done.sum()
        assert info["final_obs"].dtype == object and info["final_obs"].shape == (6,)
        np.testing.assert_array_equal(info["_final_obs"], done)
        for i in range(6):
            if done[i]:
                # Beyond the limits of the rules, while the new episode begins near zero.
                assert info["final_obs"][i] in envs.single_observation_space
                assert abs(info["final_obs"][i][2]) > 0.2 or abs(info["final_obs"][i][0]) > 2.4
                assert np.abs(obs[i]).max() <= 0.05
                np.testing.assert_array_equal(other["final_obs"][i], info["final_obs"][i])
            else:
                assert info["final_obs"][i] is None
        np.testing.assert_array_equal(info["episode"]["l"], np.where(done, lengths, 0))
        np.testing.assert_array_equal(info["episode"]["r"], np.where(done, lengths, 0))
        np.testing.assert_array_equal(info["final_info"]["_episode"], done)
        lengths[done] = 0
    assert ends > 10


def test_next_step_returns_the_last_observation_and_then_ignores_an_action():
    envs = operant.make_vec("CartPole-v1", 6, seed=1, autoreset_mode="next_step")
    envs.reset()
    ended = np.zeros(6, bool)
    for action in actions_for(envs, steps=200):
        obs, rewards, terminated, truncated, info = envs.step(action)
        assert (rewards[ended] == 0).all() and not (terminated | truncated)[ended].any()
        assert np.abs(obs[ended]).max(initial=0) <= 0.05
        assert (rewards[~ended] == 1).all()
        assert "final_obs" not in info
        ended = terminated | truncated
        assert (np.abs(obs[ended][:, 2]) > 0.2).sum() + (np.abs(obs[ended][:, 0]) > 2.4).sum() >= ended.sum()


def test_without_autoreset_a_mask_restarts():
    envs = operant.make_vec("CartPole-v1", 6, seed=1, autoreset_mode="disabled")
    envs.reset()
    restarted = 0
    for action in actions_for(envs, steps=200):
        obs, _, terminated, truncated, _ = envs.step(action)
        done = terminated | truncated
        if done.any():
            again, _ = envs.reset(options={"reset_mask": done})
            assert np.abs(again[done]).max() <= 0.05
            np.testing.assert_array_equal(again[~done], obs[~done])
            restarted += done.sum()
    assert restarted > 10


def test_time_limits_truncate():
    envs = operant.make_vec("Pendulum-v1", 3, seed=1, episode_stats=False)
    envs.reset()
    for step in range(200):
        _, _, terminated, truncated, info = envs.step(np.zeros((3, 1), np.float32))
        assert not terminated.any() and truncated.all() == (step == 199)
    assert "episode" not in info and info["_final_obs"].all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_threads_and_buffers_change_no_bit(name, mode):
    def played(**settings):
        envs = operant.make_vec(name, 150, seed=7, autoreset_mode=mode, **settings)
        first, _ = envs.reset()
        return [(copy.deepcopy(first), 0, 0, 0, 0), *trajectory(envs, 60)]

    expected = played(threads=1)
    assert_equal(played(threads=3), expected)
    assert_equal(played(threads=2, copy=False, final_obs="dense"), expected)


def test_one_seed_numbers_the_environments_and_a_list_gives_each_its_own():
    many = operant.make_vec("cartpole", 4, seed=5)
    first, _ = many.reset()
    np.testing.assert_array_equal(operant.make_vec("cartpole", 9, seed=5).reset()[0][:4], first)
    np.testing.assert_array_equal(many.reset(seed=5)[0], first)
    assert not np.array_equal(many.reset()[0], first), "a reset without a seed starts other episodes"
    seeds = [11, 2**63, 3, 11]
    listed, _ = many.reset(seed=seeds)
    np.testing.assert_array_equal(listed[0], listed[3])
    steps = trajectory(many)
    alone = operant.make_vec("cartpole", 1)
    obs, _ = alone.reset(seed=2**63)
    np.testing.assert_array_equal(obs[0], listed[1])
    for action, (expected, *_) in zip(actions_for(many, steps=300), steps, strict=True):
        np.testing.assert_array_equal(alone.step(action[1:2])[0][0], expected[1])


def test_views_live_until_the_next_step_but_one_and_copies_for_ever():
    envs = operant.make_vec("cartpole", 4, seed=1, copy=False)
    envs.reset()
    action = np.ones(4, np.int64)
    first = envs.step(action)[0]
    kept = first.copy()
    second = envs.step(action)[0]
    np.testing.assert_array_equal(first, kept)
    assert not np.shares_memory(first, second)
    assert np.shares_memory(envs.step(action)[0], first)
    copying = operant.make_vec("cartpole", 4, seed=1)
    copying.reset()
    results = [copying.step(action)[0] for _ in range(4)]
    np.testing.assert_array_equal(results[0], kept)


def test_out_takes_the_callers_arrays():
    envs, plain = (operant.make_vec("cartpole", 4, seed=1, reward_dtype="float32") for _ in range(2))
    envs.reset(), plain.reset()
    out = {"obs": np.full((4, 4), 9, np.float32), "rewards": np.zeros(4, np.float32)}
    action = np.ones(4, np.int64)
    obs, rewards, *_ = envs.step(action, out=out)
    assert obs is out["obs"] and rewards is out["rewards"]
    kept = envs.step(action, out={"obs": out["obs"]})[1]
    assert not np.shares_memory(kept, envs.step(action, out={"obs": out["obs"]})[1]), "the others are copies"
    envs.reset(seed=1), plain.reset(seed=1)
    obs = envs.step(action, out=out)[0]
    np.testing.assert_array_equal(obs, plain.step(action)[0])
    read_only = np.zeros((4, 4), np.float32)
    read_only.flags.writeable = False
    for bad, part in [
        ({"obs": np.zeros((4, 4))}, "float64"),
        ({"obs": np.zeros((5, 4), np.float32)}, r"\(5, 4\)"),
        ({"obs": read_only}, "read-only"),
        ({"observations": out["obs"]}, "observations"),
        ({"obs": np.zeros((4, 8), np.float32)[:, ::2]}, "strided"),
        ({"rewards": out["obs"].reshape(-1)[:4], "obs": out["obs"]}, "memory of its own"),
    ]:
        with pytest.raises(ValueError, match=part):
            envs.step(action, out=bad)
    np.testing.assert_array_equal(envs.step(action)[0], plain.step(action)[0], "nothing was stepped")


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int16, "list", "strided"])
def test_discrete_actions_of_every_integer_type(dtype):
    envs, plain = (operant.make_vec("cartpole", 4, seed=1) for _ in range(2))
    envs.reset(), plain.reset()
    actions = np.array([0, 1, 1, 0])
    given = actions.tolist() if dtype == "list" else actions.astype(dtype) if dtype != "strided" else actions.repeat(2)[::2]
    np.testing.assert_array_equal(envs.step(given)[0], plain.step(actions)[0])


@pytest.mark.parametrize(
    ("name", "bad", "error", "part"),
    [
        ("cartpole", np.zeros(3, int), ValueError, r"expected shape \[4\], got \[3\]"),
        ("cartpole", np.zeros((4, 1), int), ValueError, r"got \[4, 1\]"),
        ("cartpole", np.array([0, 1, 2, 0]), ValueError, "environment 2.*from 0 to 1, got 2"),
        ("cartpole", np.array([0, -1, 0, 0]), ValueError, "environment 1.*got -1"),
        ("cartpole", np.zeros(4), TypeError, "expected integers, got dtype float64"),
        ("cartpole", np.zeros(4, bool), TypeError, "got dtype bool"),
        ("cartpole", "left", TypeError, "expected integers"),
        ("cartpole", None, TypeError, "got dtype object"),
        ("pendulum", np.zeros(4, np.float32), ValueError, r"expected shape \[4, 1\]"),
        ("pendulum", np.array([[0], [0], [np.nan], [0]]), ValueError, "environment 2.*finite"),
        ("pendulum", np.array([[0], [np.inf], [0], [0]], np.float32), ValueError, "environment 1.*got inf"),
        ("pendulum", np.array([[0], [0], [0], [1e39]]), ValueError, "environment 3.*finite"),
    ],
)
def test_bad_actions_step_nothing(name, bad, error, part):
    envs = operant.make_vec(name, 4, seed=1)
    envs.reset()
    before = envs.get_state()
    with pytest.raises(error, match=part):
        envs.step(bad)
    after = envs.get_state()
    np.testing.assert_array_equal(before.pop("words"), after.pop("words"))
    assert before == after


def test_any_byte_but_0_is_true_in_a_bool_of_numpy():
    wild = np.array([2, 0, 255, 0], np.uint8).view(bool)
    plain = np.array([True, False, True, False])
    ours, theirs = (operant.make_vec("minatar_breakout", 4, seed=3, copy=copy) for copy in (False, True))
    for envs, mask in [(ours, wild), (theirs, plain)]:
        envs.reset()
        envs.step(np.zeros(4, int))
        envs.reset(options={"reset_mask": mask})
    # What arrays had before is overwritten whole, as truth values.
    for _ in range(4):
        found, expected = (envs.step(np.zeros(4, int)) for envs in (ours, theirs))
        for place in (0, 2, 3):
            np.testing.assert_array_equal(found[place].view(np.uint8), expected[place].view(np.uint8))
            found[place].view(np.uint8)[:] = 7


def test_a_policy_takes_any_byte_but_0_as_true(tmp_path):
    run = operant.train("minatar_breakout", run_dir=tmp_path, ring=False, num_envs=16, num_steps=16, total_timesteps=256, eval_episodes=1, hidden=[8])
    obs, _ = operant.make_vec("minatar_breakout", 64, seed=1).reset()
    wild = (obs.view(np.uint8) * 254).view(bool)
    logits, expected = (run.policy.evaluate(of)[0] for of in (wild, obs))
    np.testing.assert_array_equal(logits, expected)


def test_misuse_is_named():
    envs = operant.make_vec("cartpole", 4)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(4, int))
    envs.reset()
    for mask, error in [
        (np.zeros(4, bool), ValueError),
        (np.ones(3, bool), ValueError),
        (np.ones(4, int), TypeError),
        ([True] * 4, TypeError),
    ]:
        with pytest.raises(error, match="reset_mask"):
            envs.reset(options={"reset_mask": mask})
    for seed in [-1, 2**64, 1.5, "one", [1, 2]]:
        with pytest.raises((ValueError, TypeError)):
            envs.reset(seed=seed)
    envs.close()
    envs.close()
    with pytest.raises(ClosedEnvironmentError):
        envs.step(np.zeros(4, int))
    with pytest.raises(ClosedEnvironmentError):
        envs.reset()
    for make in [
        lambda: operant.make_vec("cartpol"),
        lambda: operant.make_vec("cartpole", 0),
        lambda: operant.make_vec("cartpole", -1),
        lambda: operant.make_vec("cartpole", 2.5),
        lambda: operant.make_vec("cartpole", gravity=1.0),
        lambda: operant.make_vec("cartpole", autoreset_mode="never"),
        lambda: operant.make_vec("cartpole", reward_dtype="int8"),
        lambda: operant.make_vec("MinAtar/Breakout-v0", sticky_action_prob=2.0),
    ]:
        with pytest.raises(ValueError) as raised:
            make()
        assert "panicked" not in str(raised.value)
    with pytest.raises(MemoryError, match="MiB of memory, and"):
        operant.make_vec("MinAtar/Breakout-v0", 2**31)
    with pytest.raises(ValueError, match='did you mean "cartpole"'):
        operant.make_vec("cartpol")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("mode", MODES)
def test_a_state_continues_bit_for_bit(name, mode):
    envs = operant.make_vec(name, 20, seed=4, threads=2, autoreset_mode=mode)
    envs.reset(seed=list(range(20)))
    trajectory(envs, 40, seed=1)
    state = envs.get_state()
    again = pickle.loads(pickle.dumps(envs))
    other = operant.make_vec(name, 20, threads=1, autoreset_mode=mode)
    other.set_state(pickle.loads(pickle.dumps(state)))
    expected = trajectory(envs, 80, seed=2)
    assert_equal(trajectory(again, 80, seed=2), expected)
    assert_equal(trajectory(other, 80, seed=2), expected)
    with pytest.raises(ValueError, match="num_envs"):
        operant.make_vec(name, 21, autoreset_mode=mode).set_state(state)


def test_a_horizon_in_one_call_is_its_steps():
    one, many = (operant.make_vec("cartpole", 40, seed=2, autoreset_mode="next_step") for _ in range(2))
    one.reset(), many.reset()
    actions = actions_for(one, steps=50)
    horizon = many.step_many(actions)
    for step, action in enumerate(actions):
        obs, rewards, terminated, truncated, _ = one.step(action)
        for name, array in [("obs", obs), ("rewards", rewards), ("terminated", terminated), ("truncated", truncated)]:
            np.testing.assert_array_equal(horizon[name][step], array)
    with pytest.raises(ValueError, match="step 3: .*environment 7"):
        actions[3, 7] = 5
        many.step_many(actions)


def test_a_rollout_plays_a_policy():
    envs = operant.make_vec("cartpole", 8, seed=2)
    first, _ = envs.reset()
    played = envs.rollout(lambda obs: (obs[:, 2] > 0).astype(np.int64), 30)
    np.testing.assert_array_equal(played["observations"][0], first)
    np.testing.assert_array_equal(played["observations"][1:], played["obs"][:-1])
    np.testing.assert_array_equal(played["actions"], played["observations"][:, :, 2] > 0)
    assert envs.rollout(None, 30)["actions"].shape == (30, 8)


def test_a_step_overlaps_with_python():
    plain, envs = (operant.make_vec("cartpole", 64, seed=2) for _ in range(2))
    plain.reset(), envs.reset()
    actions = actions_for(plain)
    envs.async_step(actions)
    with pytest.raises(RuntimeError, match="under way"):
        envs.step(actions)
    np.testing.assert_array_equal(envs.wait()[0], plain.step(actions)[0])
    with pytest.raises(RuntimeError, match="async_step first"):
        envs.recv()
    envs.async_step(actions + 2)
    with pytest.raises(ValueError, match="from 0 to 1, got"):
        envs.wait()
    envs.send(actions)
    np.testing.assert_array_equal(envs.recv(timeout=60)[0], plain.step(actions)[0])


def test_near_keywords_and_environments_of_others_have_a_hint():
    for call, kind, says in [
        (lambda: operant.make_vec("cartpole", 4, sede=1), TypeError, 'no option sede .did you mean "seed"'),
        (lambda: operant.make_vec("cartpole", n_envs=4), TypeError, 'did you mean "num_envs"'),
        (lambda: operant.make("cartpole", sede=1), TypeError, 'did you mean "seed"'),
        (lambda: operant.make_vec("cartpole", 4, device="cuda", sed=1), TypeError, 'did you mean "seed"'),
        (lambda: operant.make_vec("cartpole", 4, gravity=1), ValueError, "has no option `gravity`; it has hide"),
        (lambda: operant.make_vec("cartpole", 4, env_kwargs={}), TypeError, r"options are keywords: \*\*{...}"),
        (lambda: operant.make_vec("gym:Ant-v5", 4), ValueError, r'gymnasium.make_vec\("Ant-v5", num_envs=N\).*operant.train\("gym:Ant-v5"\) trains'),
        (lambda: operant.make_vec("my.world", 4), ValueError, r'operant.load_world\("my.world"\)'),
        (lambda: operant.make_vec("module:Class", 4), ValueError, "import the class"),
        (lambda: operant.make_vec(gymnasium.make("CartPole-v1"), 4), TypeError, "gymnasium.vector.SyncVectorEnv"),
        (lambda: operant.make(gymnasium.Env), TypeError, "operant.train takes a class"),
    ]:
        with pytest.raises(kind, match=says):
            call()
