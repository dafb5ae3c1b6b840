"""`policy.save` and `operant.load`: what a saved policy keeps, and what takes it."""

import json
import pickle
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import test_gym
from test_metrics import Flip

import operant

place = test_gym.place


def short(env, **settings):
    given = {"num_envs": 16, "num_steps": 32, "num_minibatches": 2, "total_timesteps": 512, "eval_episodes": 1, "ring": False, "progress": False}
    return operant.train(env, seed=2, **{**given, **settings})


def same(policy, obs):
    """A policy saved and loaded, which acts as the policy does."""
    policy.save("saved/best")
    loaded = operant.load("saved/best", seed=7)
    policy.seed(7)
    assert (loaded.env, loaded.env_steps, loaded.run) == (policy.env, policy.env_steps, "best")
    assert loaded.state_size == policy.state_size and loaded.env_options == policy.env_options
    for deterministic in (True, False):
        for one, other in zip(*(each.predict(obs, deterministic=deterministic) for each in (policy, loaded)), strict=True):
            np.testing.assert_array_equal(one, other)
    for name, array in policy.state_dict().items():
        np.testing.assert_array_equal(array, loaded.state_dict()[name])
    return loaded


@pytest.mark.parametrize(("env", "settings", "shape"), [
    ("pendulum", {"norm_obs": True}, 3), ("cartpole_no_velocity", {"core": "gru", "core_width": 8}, 2), ("cartpole", {"algorithm": "pqn"}, 4),
])  # fmt: skip
def test_a_saved_policy_acts_as_it_did(place, env, settings, shape):
    run = short(env, **settings)
    obs = np.random.default_rng(1).normal(size=(9, shape)).astype(np.float32)
    loaded = same(run.policy, obs)
    again = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(again.predict(obs)[0], loaded.predict(obs)[0])
    # Changed weights replace the saved policy; the statistics of observations stay those of the run.
    policy = run.policy
    policy.load_state_dict({name: array if name.startswith(("obs_norm", "action")) else 2 * array for name, array in policy.state_dict().items()})
    changed = same(policy, obs)
    assert any((array != loaded.state_dict()[name]).any() for name, array in changed.state_dict().items())
    begun = [short(env, init_from=weights, total_timesteps=1, learning_rate=1e-30).policy.state_dict() for weights in (policy, "saved/best")]
    for name, array in begun[0].items():
        np.testing.assert_array_equal(array, begun[1][name], err_msg=name)


def test_the_command_evaluates_a_saved_policy(place):
    run = short("cartpole", total_timesteps=2048)
    run.policy.save("best")
    code, out, err = place.run("eval", "best", "--episodes", "10", "--json")
    assert code == 0 and json.loads(out)["eval_return_mean"] == run.eval(10)["eval_return_mean"], err
    assert place.run("export", "best", "--onnx", "best.onnx")[0] == 0


def test_environments_of_ones_own_are_kept(place):
    obs = np.array([[1.0], [2.0]], np.float32)
    same(short(Flip).policy, obs)
    same(operant.Policy.new(Flip, hidden=[8]), obs)
    gym = same(short("gym:FrozenLake-v1", env_options={"workers": 1}).policy, np.array([3, 5]))
    assert gymnasium.make("FrozenLake-v1").action_space.contains(gym(3))


def test_other_things_are_not_replaced(place):
    run = short("cartpole")
    Path("notes").mkdir()
    for path in ("notes", run.dir, run.policy.path, "/"):
        with pytest.raises(ValueError, match="is there and is not a saved policy"):
            run.policy.save(path)
    Path("file").touch()
    with pytest.raises(ValueError, match="is there and is not"):
        run.policy.save("file")
    with pytest.raises(OSError, match="file"):
        run.policy.save("file/best")
    assert not list(Path("notes").iterdir())
