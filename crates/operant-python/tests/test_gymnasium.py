"""Code that was written for Gymnasium runs on operant's environments, unchanged."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector.utils import iterate

import operant

IDS = sorted(id for id in gymnasium.registry if id.startswith("operant/"))
# Before other tests of this process train worlds of their own.
NAMES = set(operant.envs.names())


def test_every_environment_is_registered():
    assert {"operant/CartPole-v1", "operant/MinAtar-Breakout-v1", "operant/Pong-v0"} <= set(IDS)
    assert {gymnasium.spec(id).kwargs["name"] for id in IDS} == NAMES


@pytest.mark.parametrize("id", IDS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_own_checks_pass(id):
    check_env(gymnasium.make(id).unwrapped, skip_render_check=True)


@pytest.mark.parametrize("id", IDS)
def test_make_and_make_vec(id):
    env = gymnasium.make(id)
    obs, _ = env.reset(seed=3)
    assert data_equivalence(operant.make(id).reset(seed=3)[0], obs, exact=True)
    envs = gymnasium.make_vec(id, num_envs=3)
    assert isinstance(envs.unwrapped, operant.VectorEnv) and envs.spec.id == id
    batch, _ = envs.reset(seed=3)
    assert data_equivalence(next(iterate(envs.observation_space, batch)), obs, exact=True)
    for _ in range(50):
        action = env.action_space.sample()
        result = env.step(action)
        assert result[0] in env.observation_space and isinstance(result[1], float)
        assert type(result[2]) is bool and type(result[3]) is bool
        if result[2] or result[3]:
            env.reset()
    env.close()
    envs.close()


@pytest.mark.parametrize("order", ["import operant, gymnasium", "import gymnasium, operant"])
def test_the_order_of_imports_does_not_matter(order):
    code = f"{order}; print(gymnasium.make_vec('operant/CartPole-v1', num_envs=2).num_envs)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "2\n"
    code = "import gymnasium; print(gymnasium.make('operant:operant/CartPole-v1').spec.id)"
    assert "CartPole" in subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_importing_operant_imports_little():
    code = "import numpy, sys; import operant; print(*(m for m in ('gymnasium', 'torch', 'jax') if m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"


def test_environments_can_be_pickled_and_entered():
    env = operant.make("CartPole-v1")
    env.reset(seed=1)
    env.step(1)
    again = pickle.loads(pickle.dumps(env))
    for step in range(20):
        for one, other in zip(env.step(step % 2), again.step(step % 2), strict=True):
            np.testing.assert_array_equal(one, other)
    by_class = pickle.loads(pickle.dumps(operant.envs.CartPole(4)))
    assert type(by_class).__name__ == "CartPole" and by_class.action_space.n == 2
    with gymnasium.make_vec("operant/CartPole-v1", num_envs=2) as envs:
        envs.reset()
        assert copy.deepcopy(envs).spec == envs.spec
    assert envs.closed


def test_what_is_not_supported_is_refused():
    for limit in (0, -2, 1.5, 2**32 - 1):
        for make in (operant.make, operant.make_vec, gymnasium.make_vec):
            with pytest.raises(ValueError, match="max_episode_steps: expected a whole number"):
                make("operant/CartPole-v1", max_episode_steps=limit)
    env = operant.make("CartPole-v1")
    env.reset(seed=1)
    for bad, error in [([1], TypeError), (1.0, TypeError), (None, TypeError), (2, ValueError), (-1, ValueError)]:
        with pytest.raises(error, match="expected a whole number.*nothing was stepped"):
            env.step(bad)
    for options, error in [({"low": -0.1}, ValueError), ("x", (TypeError, ValueError))]:
        for made in (env, operant.make_vec("CartPole-v1", 2)):
            with pytest.raises(error, match="options"):
                made.reset(options=options)


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_episode_statistics_of_gymnasium_agree_with_ours(mode):
    ours = operant.make_vec("CartPole-v1", 8, seed=1, autoreset_mode=mode)
    wrapped = gymnasium.wrappers.vector.RecordEpisodeStatistics(
        gymnasium.make_vec("operant/CartPole-v1", num_envs=8, seed=1, autoreset_mode=mode)
    )
    ours.reset(seed=1), wrapped.reset(seed=1)
    rng, ends = np.random.default_rng(0), 0
    for _ in range(300):
        action = rng.integers(2, size=8)
        mine, theirs = ours.step(action)[4], wrapped.step(action)[4]
        assert ("episode" in mine) == ("episode" in theirs)
        if "episode" in mine:
            np.testing.assert_array_equal(mine["_episode"], theirs["_episode"])
            for key in ("r", "l"):
                np.testing.assert_allclose(mine["episode"][key], theirs["episode"][key])
            ends += mine["_episode"].sum()
    assert ends > 50


def test_wrappers_of_vectors():
    envs = gymnasium.make_vec("operant/Pendulum-v1", num_envs=4)
    envs = gymnasium.wrappers.vector.NormalizeObservation(envs)
    envs = gymnasium.wrappers.vector.NormalizeReward(envs)
    envs = gymnasium.wrappers.vector.ClipAction(envs)
    obs, _ = envs.reset(seed=1)
    for _ in range(250):
        obs, rewards, *_ = envs.step(np.full((4, 1), 9.0, np.float32))
        assert np.isfinite(obs).all() and np.isfinite(rewards).all()


def test_wrappers_of_one():
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make("operant/CartPole-v1"))
    env = gymnasium.wrappers.TimeLimit(env, 7)
    env.reset(seed=1)
    for step in range(7):
        *_, truncated, info = env.step(step % 2)
    assert truncated
    env = gymnasium.wrappers.NormalizeObservation(gymnasium.make("operant/Pendulum-v1"))
    env = gymnasium.wrappers.ClipAction(gymnasium.wrappers.RescaleAction(env, np.float32(-1), np.float32(1)))
    env.reset(seed=1)
    for _ in range(200):
        obs, _, terminated, truncated, _ = env.step(np.full(1, 9, np.float32))
        assert np.isfinite(obs).all() and not terminated
    assert truncated


def length_of(env):
    """Steps of an episode of Pendulum, which only a time limit ends; at most 300 are played."""
    env.reset(seed=1)
    for step in range(1, 301):
        *_, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape, np.float32))
        assert not np.any(terminated) and np.all(truncated) == np.any(truncated)
        if np.all(truncated):
            return step
    return None


@pytest.mark.parametrize(("given", "length"), [({}, 200), ({"max_episode_steps": 9}, 9), ({"max_episode_steps": -1}, None)])
def test_time_limits_are_those_of_gymnasium(given, length):
    """Also a longer one than an environment's own, which then counts no more: 250."""
    id = "operant/Pendulum-v1"
    assert gymnasium.spec(id).max_episode_steps == 200
    for given, length in [(given, length), ({"max_episode_steps": 250}, 250)]:
        assert length_of(gymnasium.make(id, **given)) == length
        assert length_of(operant.make(id, **given)) == length
        assert length_of(operant.make_vec(id, 3, **given)) == length
        for mode in (None, "sync", "vector_entry_point"):
            assert length_of(gymnasium.make_vec(id, 3, vectorization_mode=mode, **given)) == length
    envs = operant.make_vec(id, 3, **given)
    again = pickle.loads(pickle.dumps(envs))
    assert envs.max_episode_steps == again.max_episode_steps == 250 and length_of(again) == 250
    envs.reset()
    with pytest.raises(ValueError, match="max_episode_steps = 200, got 250"):
        operant.make_vec(id, 3).set_state(envs.get_state())


def test_the_older_packages_names():
    envs = operant.envs.CartPole(num_envs=16, workers=2)
    obs, info = envs.reset(seed=1)
    assert obs.shape == (16, 4) and envs.action_space.n == 2 and envs.observation_space.shape == (4,)
    obs, rewards, terminals, truncations, info = envs.step(np.zeros(16, int))
    assert operant.envs.MountainCar(4).reset()[0].shape == (4, 2)
    pendulum = operant.envs.Pendulum(4)
    assert pendulum.action_space.low == -2 and pendulum.action_space.high == 2
    with pytest.raises(AttributeError, match="CartPole"):
        operant.envs.CartPol


@pytest.mark.parametrize(("example", "result"), [("cem_cartpole.py", "solved"), ("jax_dlpack.py", "learned")])
@pytest.mark.long
def test_the_examples_solve_cartpole(example, result):
    path = Path(__file__).parents[3] / "examples" / example
    assert result in subprocess.run([sys.executable, path], capture_output=True, text=True, check=True).stdout
