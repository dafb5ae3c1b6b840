"""`policy.save` and `operant.load`: what a saved policy keeps, and what takes it."""

import json
import os
import pickle
import resource
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
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
        with pytest.raises(ValueError, match="is there and is not a saved policy|is the place of a checkpoint"):
            run.policy.save(path)
    Path("file").touch()
    with pytest.raises(ValueError, match="is there and is not"):
        run.policy.save("file")
    with pytest.raises(OSError, match="file"):
        run.policy.save("file/best")
    assert not list(Path("notes").iterdir())


def test_a_stranger_s_program_is_one_in_a_saved_policy_too(place):
    run = short("gym:FrozenLake-v1", env_options={"workers": 1})
    run.policy.save("own")
    operant.Policy.new("gym:FrozenLake-v1").save("new")
    (Path(run.dir) / "env.mark").unlink()
    operant.load(run.dir).save("theirs")
    operant.load("theirs").save("again")
    assert [place.run("eval", name, "--episodes", "1")[0] for name in ("own", "new")] == [0, 0]
    for name in ("theirs", "again"):
        code, _, err = place.run("eval", name, "--episodes", "1")
        assert code == 2 and "--trust" in err
    assert place.run("eval", "theirs", "--episodes", "1", "--trust")[0] == 0
    operant.load("theirs").save("again")
    assert place.run("eval", "again", "--episodes", "1")[0] == 0


def test_a_policy_that_is_not_saved_makes_no_key(place, tmp_path):
    keys = lambda: list(tmp_path.rglob("trust.key"))
    policy = operant.Policy.new("gym:FrozenLake-v1")
    assert not keys()
    policy.save("new")
    assert len(keys()) == 1 and Path("new/env.mark").exists()


def test_only_whole_saved_policies_are_replaced(place, monkeypatch):
    run = short("cartpole")
    policy = run.policy
    shutil.copytree(policy.path, "copy")
    policy.save("noted")
    Path("noted/notes").touch()
    Path("nowhere").symlink_to("missing")
    for path in ("copy", "noted", "nowhere", policy.path.with_name("step_000000000001")):
        with pytest.raises(ValueError, match="is there and is not a saved policy|is the place of a checkpoint"):
            policy.save(path)
    # A link stays, and another folder of this name is none of a run.
    policy.save("checkpoints/best")
    Path("link").symlink_to("checkpoints/best")
    for path in ("link", "checkpoints/best"):
        policy.save(path)
    assert Path("link").is_symlink() and operant.load("link").run == operant.load("checkpoints/best").run == "best"
    monkeypatch.chdir(policy.path.parent)
    with pytest.raises(ValueError, match="place of a checkpoint"):
        policy.save(policy.path.name)


def test_a_policy_is_saved_whole_or_not_at_all(place):
    policy = short("cartpole").policy
    policy.save("best")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError, match="cannot write .*best"):
            policy.save("best")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(policy.save, 64 * ["best"]))
    assert operant.load("best").env_steps == policy.env_steps
    assert not [path for path in os.listdir() if "best" in path and path != "best"]


def test_what_commands_say_about_a_saved_policy(place):
    short("cartpole", name="a").policy.save("runs/best")
    assert place.run("eval", "runs/best", "--episodes", "1")[1].startswith("policy best (cartpole) at 512 steps")
    code, _, err = place.run("eval", "runs/best", "--set", "env.hide=velocity")
    assert code == 2 and "the saved policy does not fit the environment: actor.0, critic.0 (4 -> 2 inputs)" in err
    for command in (["show"], ["train", "--resume"], ["export", "--onnx", "x"], ["rm"], ["eval", "--all"]):
        code, _, err = place.run(*command, "best")
        assert code == 2 and "is a saved policy or a checkpoint, not a run" in err and "operant eval runs/best" in err, (command, err)
    code, _, err = place.run("train", "cartpole", "--name", "best", "--steps", "512")
    assert code == 2 and "a saved policy named best exists already" in err and "--resume" not in err
    assert "best" not in place.run("runs")[1] and "no run" in place.run("monitor", "--once", "best")[2]
