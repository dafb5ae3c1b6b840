"""Gymnasium environments in worker processes: spaces, training, faults, and what is left behind."""

import contextlib
import fcntl
import inspect
import json
import logging
import os
import re
import subprocess
import sys
import time
import warnings
from pathlib import Path

import gym_envs
import gymnasium
import numpy as np
import pytest
from gym_envs import ACTIONS, FAULTS, OBSERVATIONS, OUTSIDE, UNSUPPORTED_ACTIONS, UNSUPPORTED_OBSERVATIONS
from gym_envs import box, calls, count_of_words, flat_action, unpacked
from test_command import SMALL, CommandRunner
from test_train import weights

import operant
from operant import _gym, _register, _worker

spaces = gymnasium.spaces
TESTS = Path(__file__).parent
QUICK = {"seed": 1, "num_envs": 4, "num_steps": 32, "num_minibatches": 2, "total_timesteps": 512, "eval_episodes": 1}
QUICK |= {"threads": 1, "ring": False, "tensorboard": False, "progress": False}
ONE = ["--steps", "512", "--seed", "1", "--set", "eval_episodes=1", *SMALL]
X = [*ONE, "--name", "x"]
# Metrics that depend on time and on the machine.
MEASURED = re.compile("time|sps|gpu|cpu|core|bytes|resident|env_wait|env_restarts")


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory of its own, in which nothing runs at the end. Every process can import gym_envs."""
    for name in [name for name in os.environ if name.startswith("OPERANT_") and name != "OPERANT_ISA"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("OPERANT_CACHE_DIR", raising=False)
    monkeypatch.setenv("OPERANT_RING_DIR", str(tmp_path / "rings"))
    (tmp_path / "rings").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    yield CommandRunner([sys.executable, "-m", "operant"], tmp_path)
    until(lambda: not workers(tmp_path), "the worker processes end")


def workers(place, module="operant._worker"):
    """Worker processes of runs in a directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
            # They have the working directory of their trainer.
            if module in words and Path(os.readlink(f"/proc/{pid}/cwd")).is_relative_to(place):
                found.append(int(pid))
    return found


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def short(env, workers=1, options=None, **settings):
    return operant.train(env, env_options={"workers": workers, **(options or {})}, **{**QUICK, **settings})


def learned(run):
    """What a run computed."""
    ends, metrics = ("env_steps", "updates", "eval_return_mean", "eval_return_std", "eval_distinct"), run.metrics()
    names = [name for name in metrics.dtype.names if not MEASURED.match(name)]
    return [run.result[name] for name in ends], {name: metrics[name].tobytes() for name in names}


# --- Spaces


def written(space, obs):
    """The words of an observation, as a worker writes them."""
    parts = _gym.parts(space)
    words, first = np.zeros(sum(part.words for part in parts), np.uint32), 0
    for part in parts:
        value = obs
        for key in part.path:
            value = value[key]
        part.write(value, words[first : first + part.words])
        first += part.words
    return words


@pytest.mark.parametrize(("space", "spec"), OBSERVATIONS, ids=[str(row[0]) for row in OBSERVATIONS])
def test_observations_have_the_words_that_the_engine_unpacks(space, spec):
    parts = _gym.parts(space)
    assert _gym.obs_spec(parts) == spec and parts[0].words == count_of_words(spec)
    space.seed(1)
    for _ in range(20):
        obs = space.sample()
        expected = np.float32(obs) if "box" in spec else np.int64(obs) - getattr(space, "start", 0)
        np.testing.assert_array_equal(unpacked(spec, written(space, obs)), expected.ravel())


def test_nested_spaces_are_flattened():
    inner = spaces.Tuple([spaces.Discrete(300), spaces.Dict({"x y": spaces.MultiBinary(5)})])
    image = box(3, 2, dtype=np.uint8, low=0, high=255)
    space = spaces.Dict({"b": inner, "a": spaces.Dict({"z": box(2), "y": image})})
    parts = _gym.parts(space)
    assert [(part.name, part.words) for part in parts] == [("a_y", 2), ("a_z", 2), ("b_0", 1), ("b_1_x_y", 1)]
    space.seed(1)
    obs, spec = space.sample(), _gym.obs_spec(parts)
    flat = [obs["a"]["y"].ravel(), np.float32(obs["a"]["z"]), [obs["b"][0]], obs["b"][1]["x y"]]
    assert [name for name, _ in spec["parts"]] == [part.name for part in parts]
    np.testing.assert_array_equal(unpacked(spec, written(space, obs)), np.concatenate(flat))
    equal = spaces.Dict({"a": spaces.Dict(b=spaces.Discrete(2)), "a_b": spaces.Discrete(2), "a b": spaces.Discrete(2), "é": box(2)})
    assert [part.name for part in _gym.parts(equal)] == ["a_b", "a_b_2", "a_b_3", "_"]


BETWEEN = [(spaces.MultiBinary(2), [0.0, bit], "not 0 and 1") for bit in (0.5, np.nan)]


@pytest.mark.parametrize(("space", "obs", "says"), [*OUTSIDE, *BETWEEN])
def test_observations_outside_their_space(space, obs, says):
    with pytest.raises((ValueError, TypeError), match=says):
        written(space, obs)


@pytest.mark.parametrize(("space", "says"), UNSUPPORTED_OBSERVATIONS)
def test_observation_spaces_that_are_not_supported(space, says):
    with pytest.raises(ValueError, match=says):
        _gym.parts(space)


def assert_same(found, expected):
    """Equal values of equal types."""
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        [assert_same(found[key], expected[key]) for key in expected]
    elif isinstance(expected, tuple):
        [assert_same(*pair) for pair in zip(found, expected, strict=True)]
    else:
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(np.float32(found), np.float32(expected))


@pytest.mark.parametrize(("space", "spec"), ACTIONS, ids=[str(row[0]) for row in ACTIONS])
def test_actions_are_read_as_the_environment_names_them(space, spec):
    actions = _gym.actions(space)
    assert actions.spec == spec
    space.seed(1)
    for _ in range(20):
        action = space.sample()
        numbers = flat_action(space, action)
        assert len(numbers) == actions.components
        found = actions.read(numbers)
        # The memory of the numbers is reused by the next step.
        numbers[:] = 0
        assert_same(found, action)


def test_the_dtype_of_a_discrete_action():
    assert _gym.actions(spaces.Discrete(3, dtype=np.int32)).read(np.float32([1])).dtype == np.int32


def test_actions_at_bounds_in_double_precision_are_inside():
    space = box(2, dtype=np.float64, low=-0.1, high=0.1)
    assert _gym.actions(space).read(np.float32([-0.1, 0.1])) in space


@pytest.mark.parametrize(("space", "says"), UNSUPPORTED_ACTIONS)
def test_action_spaces_that_are_not_supported(space, says):
    with pytest.raises(ValueError, match=says):
        _gym.actions(space)


@pytest.mark.parametrize(("space", "mask", "bits"), [
    (spaces.Discrete(3), np.int8([1, 0, 1]), [1, 0, 1]),
    (spaces.Discrete(3), [True, False, False], [1, 0, 0]),
    (spaces.MultiDiscrete([2, 3]), (np.array([True, False]), np.array([False, True, True])), [1, 0, 0, 1, 1]),
    (spaces.MultiDiscrete([2, 3]), np.array([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
    (spaces.Dict(a=spaces.Discrete(2), b=spaces.Discrete(40)), {"b": np.ones(40), "a": [0, 1]}, [0, 1] + [1] * 40),
    (spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([2, 1])]), ([1, 0], ([0, 1], [1])), [1, 0, 0, 1, 1]),
    (spaces.MultiBinary(2), list(np.eye(2)), [1, 0, 0, 1]),
    (spaces.Discrete(4), np.eye(2), [1, 0, 0, 1]),
])  # fmt: skip
def test_masks_are_packed(space, mask, bits):
    words = np.full(-(-len(bits) // 32), 2**32 - 1, np.uint32)
    _gym.mask_words(mask, _gym.own_space(space, "action_space", is_action=True), words)
    rest = [0] * (32 * len(words) - len(bits))
    assert unpacked({"binary": {"shape": [32 * len(words)]}}, words).tolist() == bits + rest


def test_masks_come_from_the_info_or_a_method():
    env = gym_envs.MaskedByMethod()
    env.reset()
    assert _gym.mask_of(gymnasium.wrappers.TimeLimit(env, 5), None).tolist() == [True, False, False, True] + [False] * 3
    assert _gym.mask_of(env, {"action_mask": [1]}) == [1]
    assert _gym.mask_of(gym_envs.Steady(), {"action_mask": None}) is None


def test_masks_come_from_a_wrapper():
    env = gymnasium.wrappers.TimeLimit(gym_envs.Masker(gym_envs.Steady()), 5)
    assert _gym.mask_of(env, {}) == [1, 0, 1]


# --- Training


@pytest.mark.parametrize(("name", "inner", "length"), [
    ("cartpole_v1", "inner=CartPole-v1", None),
    ("pendulum_v1", "inner=Pendulum-v1", 200),
    ("frozenlake_v1", "inner=FrozenLake-v1&is_slippery=false", None),
    ("image", "inner=Image&length=5", 5),
    ("grid", "inner=Grid", 10),
    ("masked_method", "inner=MaskedByMethod", 10),
    ("named", "inner=Named", 10),
])  # fmt: skip
def test_environments_train(place, name, inner, length):
    log = place.path / "log"
    steps = 64 if name == "image" else 256
    settings = {"seed": 7, "num_envs": 5, "total_timesteps": 5 * steps, "eval_episodes": 16}
    run = short(f"gym_envs:logged?log={log}&{inner}", 2, **settings)
    assert run.state == "finished" and run.result["env_steps"] == 5 * steps and run.result["eval_episodes"] == 16
    assert np.isfinite(run.result["eval_return_mean"]) and (run.metrics()["nonfinite_updates"] == 0).all()
    assert bool(run.result["config"]["conv"]) == (name == "image")
    logs = calls(log).values()
    # Exactly as many environments as there are, with the seeds that Gymnasium's vector environments give.
    training = [log for log in logs if log[0]["seed"] in range(7, 12)]
    assert sorted(log[0]["seed"] for log in training) == [7, 8, 9, 10, 11]
    assert [sum(call["call"] == "step" for call in log) for log in training] == [steps] * 5
    assert sum(log[0]["seed"] >= 1000 for log in logs) == 16
    for log in logs:
        # An episode that ended, and only that, is followed by a reset, which continues the random numbers.
        for call, after in zip(log, log[1:], strict=False):
            assert after["call"] == ("reset" if call.get("ended") else "step") and after.get("seed") is None
    lengths = run.metrics()["episodic_length"]
    assert length is None or np.nanmin(lengths) == np.nanmax(lengths) == length


def test_an_environment_with_many_numbers_trains():
    assert short("gym_envs:Wide", total_timesteps=128, num_steps=16).state == "finished"


@pytest.mark.parametrize(("obs", "act", "more", "count", "workers"), [
    ("reals", "choice", {"norm_obs": True}, 5, 1),
    ("index", "choice", {"masked": True}, 20, 3),
    ("bits", "pair", {}, 5, 2),
    ("bytes", "reals", {}, 17, 2),
    ("indices", "pair", {"shared_trunk": True}, 5, 5),
    ("parts", "named", {"threads": 2}, 40, 2),
])  # fmt: skip
def test_training_equals_that_of_a_world_with_the_same_rules(obs, act, more, count, workers):
    """Observations, final ones too, actions, masks, rewards, ends, truncations, statistics: all change the result."""
    masked = more.get("masked", False)
    more = {key: value for key, value in more.items() if key != "masked"}
    steps = {"num_envs": count, "total_timesteps": 128 * count, "norm_obs": False, "eval_episodes": 16, **more}
    gym = short(f"gym_envs:Walk?obs={obs}&act={act}&masked={json.dumps(masked)}", workers, name="gym", **steps)
    same = {key: value for key, value in gym.result["config"].items() if key not in ("env", "environment")}
    world = (gym_envs.MaskedWalkWorld if masked else gym_envs.WalkWorld)(obs, act)
    twin = operant.train(world, **{**same, "name": "world", "progress": False})
    assert learned(gym) == learned(twin) and weights(gym) == weights(twin)
    lengths = gym.metrics()["episodic_length"]
    assert (lengths > 0).all() and (lengths <= gym_envs.WALK_LIMIT).all()


@pytest.mark.parametrize(("env", "name", "length"), [
    (gym_envs.Steady, "steady", 10),
    (gym_envs.make_steady, "make_steady", 5),
    ("gym_envs:Steady?length=3", "steady", 3), ("gym:CartPole-v1", "cartpole_v1", None),
    (f"{TESTS}/gym_envs.py:Steady", "steady", 10),
])  # fmt: skip
def test_classes_functions_and_names(env, name, length):
    run = short(env)
    assert run.result["env"] == name and run.state == "finished"
    assert length is None or (run.metrics()["episodic_length"] == length).all()
    assert run.eval(1)["eval_return_mean"] == run.result["eval_return_mean"]


def test_the_command_prints_only_its_result(place):
    (place.path / "own_envs.py").write_text(OWN)
    for name, env in [("a", "own_envs:Own?length=4"), ("b", "own_envs.py:Own"), ("c", "gym:FrozenLake-v1")]:
        code, out, err = place.run("train", env, "--json", *ONE, "--name", name)
        assert code == 0 and "warning" not in err, err
        assert json.loads(out)["env_steps"] == 512 and out.count("\n") == 1
    code, out, err = place.run("eval", "a", "--json", "--episodes", "7")
    assert code == 0 and json.loads(out)["eval_length_mean"] == 4, err
    kept = json.loads((place.path / "runs/b/env.world").read_text())
    assert kept["operant_gym"] == 1 and kept["make"] == f"{place.path}/own_envs.py:Own"
    assert kept["directory"] == str(place.path) and kept["spec"]["name"] == "own"


@pytest.mark.long
def test_an_evaluation_makes_no_environments_of_training(place):
    run = short(f"gym_envs:logged?log={place.path}/log")
    Path("log").unlink()
    assert run.eval(2)["eval_return_mean"] == 10
    assert len(calls("log")) == 2


def test_play_says_what_to_do_instead(place):
    short("gym_envs:Steady", name="x")
    code, _, err = place.run("play", "x", "--record", "x.gif")
    assert code != 0 and "remedy" in err, err


@pytest.mark.parametrize(("env", "limit"), [("Steady", 4), ("Unlimited", 10_100)])
def test_episodes_are_truncated_by_the_option(env, limit):
    run = short(f"gym_envs:{env}", options={"max_episode_steps": limit}, num_envs=2, num_steps=256, eval_episodes=1)
    assert run.result["eval_return_mean"] == limit


def test_an_environment_without_a_limit_is_noted(place):
    code, _, err = place.run("train", "gym_envs:Unlimited", *X, "--set", "env.max_episode_steps=20")
    assert code == 0 and "no time limit" in err and "env.max_episode_steps" in err, err


def test_masks_are_found_by_name():
    assert short("gym_envs:MaskedByName", options={"restarts": 0}).state == "finished"


def test_vector_environments_name_their_environments():
    envs = gymnasium.make_vec("FrozenLake-v1", num_envs=6, is_slippery=False)
    assert _register.of_vector(envs) == ("gym:FrozenLake-v1?map_name=4x4&is_slippery=false", 6, {})
    settings = {key: value for key, value in QUICK.items() if key != "num_envs"}
    assert operant.train(envs, env_options={"workers": 1}, **settings).result["config"]["num_envs"] == 6
    with pytest.raises(ValueError, match="give a function that returns one environment"):
        short(gymnasium.vector.SyncVectorEnv([gym_envs.Steady] * 2))


@pytest.mark.parametrize(("arguments", "name"), [
    ({"max_episode_steps": 7}, "gym:CartPole-v1?max_episode_steps=7"),
    ({"max_episode_steps": 7, "vectorization_mode": "sync"}, "gym:CartPole-v1?max_episode_steps=7"),
    ({"vectorization_mode": "sync", "vector_kwargs": {"copy": False}}, "gym:CartPole-v1"),
])  # fmt: skip
def test_arguments_of_make_vec(arguments, name):
    assert _register.of_vector(gymnasium.make_vec("CartPole-v1", num_envs=2, **arguments))[0] == name


def test_wrappers_of_vector_environments_are_refused():
    with pytest.raises(ValueError, match="env: "):
        short(gymnasium.wrappers.vector.NormalizeObservation(gymnasium.make_vec("CartPole-v1", num_envs=2)))


def test_the_same_seed_gives_the_same_run():
    first = learned(short("gym:CartPole-v1", 1, name="first"))
    assert first == learned(short("gym:CartPole-v1", 1, name="again"))
    assert first == learned(short("gym:CartPole-v1", 3, name="three", threads=2))
    assert first != learned(short("gym:CartPole-v1", 1, name="other", seed=2))


def test_seeds_are_those_that_environments_take(place):
    short(f"gym_envs:logged?log={place.path}/log", seed=2**31 - 2)
    seeds = {log[0]["seed"] for log in calls("log").values()}
    assert {2**31 - 2, 2**31 - 1} <= seeds and max(seeds) < 2**31 and 1 not in seeds


# --- Resuming


def test_a_resumed_run_begins_new_episodes_with_new_seeds(place):
    seeds, log = [], place.path / "log"
    run = short(f"gym_envs:logged?log={log}", 2)
    for total in (512, 1024, 1536):
        if total > 512:
            log.unlink()
            run = operant.resume(run, total_timesteps=total)
        assert run.result["env_steps"] == run.policy.env_steps == total
        for own in calls(log).values():
            # A reset that a step follows.
            begun = [a.get("seed") for a, b in zip(own, own[1:], strict=False) if b["call"] == "step"]
            seeds += [seed for seed in begun if seed is not None]
        assert (run.dir / "operant.log").read_text().count("new episodes begin") == (total - 512) // 512
    # Four environments at each start. The episode of the final evaluation has the same seed each time.
    assert len(set(seeds)) == 3 * 4 + 1 and {1, 2, 3, 4} <= set(seeds) and seeds.count(1) == 1
    assert run.metrics()["env_steps"].tolist() == [128.0 * k for k in range(1, 13)]


OWN = "import gymnasium\nfrom gym_envs import Steady\nclass Own(Steady):\n    pass\n"


@pytest.mark.parametrize("has_other", [False, True])
def test_a_run_resumes_in_another_directory(place, monkeypatch, has_other):
    for name in ("here", "there"):
        (place.path / name).mkdir()
    Path("here/own_envs.py").write_text(OWN)
    if has_other:
        Path("there/own_envs.py").write_text(OWN.replace("pass", "def __init__(self): super().__init__(3)"))
    monkeypatch.chdir("here")
    run = short("own_envs:Own")
    monkeypatch.chdir("../there")
    assert operant.resume(run.dir, total_timesteps=1024).result["env_steps"] == 1024
    assert run.eval(2)["eval_return_mean"] == 10


def test_the_directory_of_a_run_is_that_in_which_it_was_started(place):
    run = short("gym_envs:Movable")
    assert json.loads((run.dir / "env.world").read_text())["directory"] == str(place.path)


def test_the_run_of_another_user_needs_trust(place, monkeypatch):
    run, more = short("gym_envs:Steady", name="x"), {"total_timesteps": 1024, "progress": False}
    assert run.eval(1)["eval_episodes"] == 1
    monkeypatch.setenv("XDG_CACHE_HOME", str(place.path / "other"))
    says = r'import and call "gym_envs:Steady", with modules from.*trust=True'
    with pytest.raises(ValueError, match=f"(?s){says}"):
        run.eval(1)
    with pytest.raises(ValueError, match=f"(?s){says}"):
        operant.resume(run, **more)
    # Weights are data.
    assert run.policy(np.zeros(run.policy.metadata["observation"][0]["shape"], np.float32)) is not None
    assert operant.resume(run, trust=True, **more).result["env_steps"] == 1024
    assert run.eval(1)["eval_episodes"] == 1


def test_modules_of_the_working_directory_replace_no_package(place):
    # The command itself, which searches the directory first here, imports neither.
    for name in ("numpy", "gymnasium"):
        (place.path / f"{name}.py").write_text("open('evil', 'w')\n")
    (place.path / "own_envs.py").write_text(OWN)
    code, _, err = place.run("train", "own_envs:Own", *X)
    assert code == 0 and not Path("evil").exists(), err


@pytest.mark.parametrize("changed", [
    "observation_space = gymnasium.spaces.Box(0, 1, (4,))",
    "action_space = gymnasium.spaces.Discrete(2, start=5)",
    "action_space = gymnasium.spaces.Discrete(4)",
])  # fmt: skip
def test_a_class_whose_spaces_changed_is_refused(place, changed):
    (place.path / "own_envs.py").write_text(OWN)
    run = short("own_envs.py:Own", options={"restarts": 0})
    (place.path / "own_envs.py").write_text(OWN.replace("pass", changed))
    with pytest.raises(RuntimeError, match="is not the space that the run was started with"):
        operant.resume(run, total_timesteps=1024)


# --- Faults


def fault(name, **arguments):
    return "gym_envs:Faulty?" + "&".join(f"{key}={value}" for key, value in {"fault": name, **arguments}.items())


def line_of(function):
    """How a traceback names the first line of a function of gym_envs."""
    return f"{gym_envs.__file__}:{inspect.getsourcelines(function)[1] + 1} in {function.__name__}: "


# Each fault in the 7th step of an environment; some in a reset, and some in the last step of an episode.
ONCE = [(name, "step", 7) for name in FAULTS if name not in ("hangs", "unprintable", "only_obs") and "_rew" not in name]
ONCE += [(name, "reset", 7) for name in ("stuck", "quits", "hangs", "nan_obs", "real_obs", "only_obs")]
ONCE += [("no_reward", "step", 10)]
ONCE += [(name, "step", 7) for name in ("nan_reward", "inf_reward", "huge_reward")]
ONCE += [("nan_obs", "step", 10)]
ONCE += [("unprintable", "step", 7)]
# If a process ends or hangs, the environment that caused it is unknown.
UNKNOWN = ("quits", "leaves", "kills_itself", "aborts", "interrupts", "hangs")


@pytest.mark.parametrize(("name", "call", "step"), ONCE)
def test_a_fault_costs_the_episodes_of_its_process(place, name, call, step):
    # Processes start within the timeout, too, so that it is not short.
    some = ["--set", "env.workers=2", "--set", "env.restarts=3", "--set", f"env.timeout={5 if name == 'hangs' else 60}"]
    code, out, err = place.run("train", fault(name, call=call, at=3, after=step), "--json", *X, *some)
    assert code == 0, err
    (warning,) = re.findall(r"warning: faulty: (.*?)\nthe worker process is restarted", err, re.DOTALL)
    where, says = warning.split(": ", 1)
    assert where == ("environments 2 to 3" if name in UNKNOWN else "environment 2 (seed 3)")
    function, message = FAULTS[name]
    assert message in says and ("RuntimeError" not in message or line_of(function) + "raise RuntimeError(" in says)
    assert re.findall(r"\((restart .*)\)", err) == ["restart 1 of 3"]
    assert_whole(place, json.loads(out))


def assert_whole(place, result):
    """All statistics are of whole episodes."""
    assert (result["env_steps"], result["eval_return_mean"], result["eval_return_std"]) == (512, 10, 0)
    metrics = operant.Run(place.path / "runs/x").metrics()
    assert (metrics["nonfinite_updates"] == 0).all()
    for name in ("episodic_return_min", "episodic_return_max", "episodic_length"):
        assert (metrics[name] == 10).all(), name


def test_a_mask_without_a_legal_choice_of_one_component_is_a_fault():
    with pytest.raises(RuntimeError, match="mask allows no"):
        short("gym_envs:HalfMasked", options={"restarts": 0})


def test_tracebacks_name_packages_beside_this_one():
    own = os.path.dirname(_worker.__file__)
    code = compile("def step():\n    raise ValueError('stuck')\nstep()", f"{own}_games/env.py", "exec")
    with pytest.raises(ValueError, match="stuck") as raised:
        exec(code, {})
    assert f"{own}_games/env.py:2 in step" in _worker.shown(raised.value)


@pytest.mark.parametrize(("name", "most"), [("stuck", 2), ("leaves", 1), ("nan_reward", 0)])
def test_too_many_faults_end_the_run_with_a_checkpoint(place, name, most):
    some = ["--set", "env.workers=1", "--set", f"env.restarts={most}"]
    code, out, err = place.run("train", fault(name, after=150), *X, *some)
    assert (code, out) == (1, ""), err
    assert re.findall(r"\((restart .*)\)", err) == [f"restart {k} of {most}" for k in range(1, most + 1)]
    assert f"failure {most + 1} exceeds the limit of {most} restarts (env.restarts)" in err
    error = err[err.index("error: ") :]
    function, message = FAULTS[name]
    assert message in error and (name != "stuck" or line_of(function) in error) and "Traceback" not in error
    assert "`operant train --resume x` continues" in error
    # Each process takes 149 steps before it fails, and an update has 128.
    run = operant.Run(place.path / "runs/x")
    assert run.state == "failed" and run.policy.env_steps == 149 * (most + 1) // 128 * 128


@pytest.mark.parametrize("name", ["stuck", "leaves"])
def test_a_fault_in_the_first_step_ends_the_run_at_once(name):
    function, message = FAULTS[name]
    with pytest.raises(RuntimeError) as raised, warnings.catch_warnings():
        warnings.simplefilter("error")
        short(fault(name, after=1), name="x")
    assert message in str(raised.value) and "no step had been completed, so the worker is not restarted" in str(raised.value)
    assert name != "stuck" or line_of(function) in str(raised.value)


def test_a_worker_that_fails_in_the_same_way_after_its_restart_ends_the_run():
    with pytest.warns(UserWarning, match="restart 1 of 16") as shown, pytest.raises(RuntimeError, match="failed as the one before"):
        short(f"gym_envs:Expired?file={os.getcwd()}/expired", name="x")
    assert len(shown) == 1 and operant.Run("runs/x").policy.env_steps > 0


def test_a_failed_run_continues_once_the_environment_is_repaired(place):
    env = f"gym_envs:Repaired?file={place.path}/repaired&after=300"
    with pytest.raises(RuntimeError, match=r"(?s)the gripper is stuck.*gym_envs.py:\d+ in step.*operant\.resume"):
        short(env, options={"restarts": 0})
    (run,) = operant.runs()
    assert run.state == "failed" and run.policy.env_steps == 256
    (place.path / "repaired").touch()
    assert operant.resume(run).result["env_steps"] == 512 and run.state == "finished"


def test_a_failed_evaluation_leaves_a_checkpoint(place):
    code, _, err = place.run("train", fault("stuck", beyond=10_000), *X, "--set", "env.workers=1")
    assert code == 1 and "of an evaluation: RuntimeError: the gripper is stuck" in err, err
    assert err.count("the worker process is restarted") == 1 and "`operant train --resume x`" in err
    assert "the restarted worker failed as the one before" in err
    assert operant.load("x").env_steps == 512


@pytest.mark.parametrize("call", ["step", "reset"])
def test_a_fault_in_an_evaluation_is_replayed(place, call):
    env = fault("stuck", beyond=10_000, call=call, marker=place.path / "marker")
    code, out, err = place.run("train", env, "--json", *X, "--set", "eval_episodes=100", "--set", "env.workers=1")
    assert (place.path / "marker").exists() and code == 0, err
    assert "of an evaluation" in err and "restart 1 of 16" in err and "restart 2" not in err
    result = json.loads(out)
    # An episode without steps would lower the mean.
    assert (result["eval_episodes"], result["eval_return_mean"], result["eval_return_std"]) == (100, 10, 0)


@pytest.mark.parametrize("how", [
    *("prints", "closes", "thread", "ignores", "numpy", "close_raises", "close_hangs"),
    "closes_stdout",
])  # fmt: skip
def test_odd_environments_are_no_failures(place, how):
    code, out, err = place.run("train", f"gym_envs:Odd?how={how}", "--json", *X, "--set", "env.workers=2")
    assert code == 0 and "warning" not in err and "Traceback" not in err, err
    assert_whole(place, json.loads(out))
    assert not workers(place.path) and "odd text" not in out
    assert how != "prints" or "odd text of a step" in err and "odd text of another kind" in err


@pytest.mark.parametrize(("where", "code", "says"), [
    ("init", 2, "RuntimeError: no display for the gripper"),
    ("reset", 2, "RuntimeError: no display for the gripper"),
    ("reset_and_close", 2, "no display"),
    ("no_tuple", 2, "reset() returned ndarray, not (observation, info)"),
    ("exit", 2, "no license for the gripper"),
    ("worker_init", 1, "environment 0 (seed 1): RuntimeError: no display for the gripper"),
    ("worker_reset", 1, "environment 0 (seed 1): RuntimeError: no display for the gripper"),
])  # fmt: skip
def test_environments_that_fail_at_once_leave_nothing(place, where, code, says):
    found, out, err = place.run("train", f"gym_envs:Broken?where={where}", *X, "--set", "env.workers=2")
    assert (found, out) == (code, "") and says in err and "Traceback" not in err, err
    assert err.count("error: ") == 1 and "restarts" not in err
    assert where in ("no_tuple", "exit") or f"{gym_envs.__file__}:" in err
    assert not list(place.path.glob("runs/*"))


def test_a_thread_does_not_keep_the_process_that_reads_the_spaces(place):
    marker = place.path / "marker"
    command = [sys.executable, "-m", "operant._record", f"gym_envs:Threaded?marker={marker}", "file"]
    with subprocess.Popen(command) as process:
        until(lambda: process.poll() is not None or marker.exists(), "the process or its main thread ends")
        code = process.poll()
        process.kill()
    assert code == 0 and Path("file").exists()


# --- Errors before the start


@pytest.mark.parametrize(("env", "says"), [
    ("gym:CartPol-v1", ["CartPol", "Did you mean: `CartPole`", "write gym:MODULE:CartPol-v1"]),
    ("gym:mine/Level-v0", ["mine", "write gym:MODULE:mine/Level-v0"]),
    ("gym_envs:OldReset", ["reset()", "'seed'", "write reset(self, *, seed=None, options=None)", _gym.PORT]),
    ("gym_envs:Broken?where=no_tuple", ["reset() returned ndarray, not (observation, info)", _gym.PORT]),
    ("gym_envs:Agents", ["Agents has several agents", "for one agent"]),
    ("gym_envs:make_vector", ["SyncVectorEnv is a vector environment"]),
    ("gym:CartPole-v7", ["v7", "v1"]), ("gym:CartPole-v1?gravity", ["gravity"]),
    ("gym:CartPole-v1?gravity=3", ["unexpected keyword argument 'gravity'"]),
    ("absent_module:Own", ["there is no module absent_module", "path/to/file.py:Class"]),
    ("absent_file.py:Own", ["there is no file absent_file.py"]),
    ("gym_envs:Absent", ["gym_envs has no Absent"]),
    ("gym_envs:NUMBER", ["gym_envs:NUMBER is neither a world nor a Gymnasium environment", "gymnasium.Env"]),
    ("gym_envs:Other", ["is neither a world nor a Gymnasium environment"]),
    ("gym_envs:Partial", ["Partial has no observation_space"]),
    ("gym_envs:Duck", ["Duck has no observation_space: it is not a Gymnasium environment"]),
    ("gym_envs:first_time?marker=x", ["bool has no observation_space: it is not a Gymnasium environment"]),
    ("gym_envs:Faulty", ["missing 1 required positional argument: 'fault'"]),
    ("gym_envs:Steady?preset=doom", ["unknown preset doom", "atari"]),
    ("gym_envs:Steady?preset=atari", ["it is not an Atari game; the preset atari is for ALE environments"]),
    ("gym_envs:WalkWorld?obs=reals", ["gym_envs:WalkWorld is a world", "leave out ?obs=reals"]),
    ("gym_envs:reserved_part", ["observation_space", "action_mask"]),
])  # fmt: skip
def test_names_that_are_no_environments(place, env, says):
    code, out, err = place.run("train", env, *X)
    assert (code, out) == (2, "") and "Traceback" not in err, err
    assert err.count("error: ") == 1 and all(text in err for text in says), err
    assert not list(place.path.glob("runs/*"))


@pytest.mark.parametrize(("module", "env", "says"), [
    ("ale_py", "gym:ALE/Pong-v5", "operant-rl[atari]"),
    ("Box2D", "gym:LunarLander-v3", "operant-rl[box2d]"),
    ("made_by_me", "own_envs:Own", "add its directory to PYTHONPATH"),
])  # fmt: skip
def test_a_missing_package_is_named(place, module, env, says):
    Path("own_envs.py").write_text("def Own():\n    import made_by_me\n")
    # As if it were not installed.
    Path("absent").mkdir()
    Path(f"absent/{module}.py").write_text(f"raise ModuleNotFoundError('No module named {module}', name='{module}')\n")
    place.env["PYTHONPATH"] = f"{place.path}/absent{os.pathsep}{place.env['PYTHONPATH']}"
    code, out, err = place.run("train", env, *X)
    assert (code, out) == (2, "") and f"needs the package {module}" in err and says in err, err


@pytest.mark.parametrize(("installed", "says"), [(True, "observation_space: Box is of the package gym"), (False, "No module named 'gym'")])
def test_environments_of_the_package_gym_are_refused(place, installed, says):
    if installed:
        Path("gym").mkdir()
        Path("gym/__init__.py").write_text("import gymnasium\nclass Env: pass\nclass Box(gymnasium.spaces.Box): pass\n")
    body = "observation_space = action_space = gym.Box(0, 1)\n    def reset(self): pass\n    def step(self, action): pass\n"
    Path("old.py").write_text(f"import gym\nclass Old(gym.Env):\n    {body}")
    code, out, err = place.run("train", "old.py:Old", *X)
    assert (code, out) == (2, "") and says in err and _gym.PORT in err and "Traceback" not in err, err


def test_bytes_that_are_few_are_noted():
    few, image = (_gym.parts(spaces.Box(0, most, (4,), np.uint8))[0] for most in (3, 255))
    (note,) = _gym._note(few)
    assert "from 0 to 3" in note and "MultiDiscrete" in note and not [*_gym._note(image)]


def test_python_says_the_same():
    with pytest.raises(ValueError, match="Did you mean: `CartPole`"):
        short("gym:CartPol-v1")
    with pytest.raises(ValueError, match="preset: 'atari' is for Gymnasium environments"):
        short(gym_envs.WalkWorld("reals", "choice"), preset="atari")
    for wrong in (3, gym_envs.Steady(), gym_envs.Other):
        with pytest.raises(TypeError, match="env: expected the name of an environment"):
            short(wrong)
    assert not Path("runs").exists()


def test_notes_about_an_environment_go_to_the_logger(capfd, caplog):
    with caplog.at_level(logging.INFO, logger="operant"):
        short("gym_envs:Unlimited", options={"max_episode_steps": 20})
    for says in ("recording gym_envs:Unlimited with ", "gym_envs:Unlimited: note: "):
        assert any(message.startswith(says) for message in caplog.messages), caplog.messages
    assert capfd.readouterr().err == ""


def test_a_preset_of_a_built_in_environment_is_refused():
    with pytest.raises(ValueError, match="preset: .*is for Gymnasium environments"):
        short("cartpole", preset="atari")


TRAINS = f"import operant\nprint(operant.train(Own, env_options={{'workers': 1}}, **{QUICK}).result['env_steps'])\n"


def script(text, directory="."):
    """Runs a file of the directory `code`, which has a module of an environment, too, from a directory."""
    Path("code").mkdir()
    Path("code/own_envs.py").write_text(OWN)
    Path("code/script.py").write_text(text)
    command = [sys.executable, os.path.abspath("code/script.py")]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("head", [OWN + "if __name__ == '__main__': ", "from own_envs import Own\n"])
def test_a_script_trains_a_class(head):
    done = script(head + TRAINS.replace("\n", "; ", 1))
    assert (done.returncode, done.stdout) == (0, "512\n"), done.stderr


def test_a_script_without_a_guard_is_an_error():
    depth = "import sys\nprint(1, flush=True, file=open('starts', 'a'))\n"
    depth += "if len(open('starts').read().split()) > 3: sys.exit('too deep')\n"
    done = script(depth + OWN + TRAINS, "code")
    assert done.returncode != 0 and "too deep" not in done.stderr and "__main__" in done.stderr, done.stderr


# --- The channel


@pytest.mark.parametrize(("stdin", "says"), [
    ("/dev/null", "standard input is not memory of a trainer: "),
    (__file__, "standard input is not memory of a trainer: "),
    ("&-", "standard input is not memory of a trainer: "),
    ("memory", "standard input is not memory of a trainer: the file can shrink"),
])  # fmt: skip
def test_a_channel_needs_the_memory_of_a_trainer(stdin, says):
    code = "import os; from operant import _core; _core.WorkerChannel(os.getppid())"
    with open(os.memfd_create("unsealed"), "wb") as memory:
        memory.truncate(64)
        redirected = f"/proc/{os.getpid()}/fd/{memory.fileno()}" if stdin == "memory" else stdin
        command = ["sh", "-c", f'exec "$0" -c "$1" <{redirected}', sys.executable, code]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and f"OSError: {says}" in done.stderr.splitlines()[-1], done.stderr


def test_a_channel_waits_and_posts():
    code = "import sys\nfrom operant import _core\nchannel = _core.WorkerChannel(int(sys.argv[1]))\n"
    code += "channel.post(3)\nchannel.post(3)\nprint(channel.wait(3, 1), flush=True)\nchannel.wait(16, 0)\n"
    with open(os.memfd_create("sealed", os.MFD_ALLOW_SEALING), "r+b") as memory:
        memory.truncate(64)
        # F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, 7)
        for parent, out, says in [(os.getpid(), "2\n", "there is no word 16"), (1, "", "the trainer has ended")]:
            command = [sys.executable, "-c", code, str(parent)]
            done = subprocess.run(command, stdin=memory, capture_output=True, text=True, check=False)
            assert done.returncode == 1 and done.stdout == out and says in done.stderr.splitlines()[-1], done.stderr
