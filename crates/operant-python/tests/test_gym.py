"""Gymnasium environments in worker processes: spaces, training, faults, and what is left behind."""

import _thread
import contextlib
import fcntl
import importlib.util
import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
import traceback
import warnings
from pathlib import Path

import gym_envs
import gymnasium
import numpy as np
import pytest
from test_command import SMALL, Place
from test_train import weights

import operant
from operant import _core, _gym, _worker

spaces = gymnasium.spaces
TESTS = Path(__file__).parent
QUICK = {"seed": 1, "num_envs": 4, "num_steps": 32, "num_minibatches": 2, "total_timesteps": 512, "eval_episodes": 2}
QUICK |= {"threads": 1, "ring": False, "tensorboard": False, "progress": False}
ONE = ["--steps", "512", "--seed", "1", "--name", "x", "--set", "eval_episodes=2", *SMALL]
# Metrics of training that do not depend on time.
LEARNED = ["update", "env_steps", "episodes", "episodic_return", "episodic_return_min", "episodic_return_max"]
LEARNED += ["episodic_return_std", "episodic_length", "eval_return", "eval_return_std", "learning_rate", "policy_loss"]
LEARNED += ["value_loss", "entropy", "approx_kl", "clipfrac", "explained_variance", "grad_norm", "nonfinite_updates"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    """A working directory of its own, in which nothing runs at the end. Every process imports the modules of the tests."""
    for name in [name for name in os.environ if name.startswith("OPERANT_") and name != "OPERANT_ISA"]:
        monkeypatch.delenv(name)
    path = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("OPERANT_RING_DIR", str(tmp_path / "rings"))
    (tmp_path / "rings").mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    yield Place([sys.executable, "-m", "operant"], tmp_path)
    until(lambda: not workers(tmp_path), "the worker processes end")


def workers(place):
    """Worker processes of runs in a directory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            words = Path("/proc", pid, "cmdline").read_bytes().decode(errors="replace")
            if "operant._worker" in words and str(place) in words:
                found.append(int(pid))
    return found


def until(condition, what):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def short(env, workers=1, preset=None, options=None, **settings):
    options = {"workers": workers, **(options or {})}
    return operant.train(env, preset=preset, env_options=options, **{**QUICK, **settings})


def calls(log):
    """The calls of a log by environment, in order."""
    found = {}
    for line in Path(log).read_text().splitlines():
        call = json.loads(line)
        found.setdefault(call["env"], []).append(call)
    return found


def learned(run):
    """What a run computed, as text."""
    metrics = run.metrics()
    result = [run.result[name] for name in ("env_steps", "updates", "eval_return_mean", "eval_return_std", "eval_distinct")]
    return [metrics[name].tolist() for name in LEARNED].__repr__(), result


# --- Spaces


def unpacked(spec, words):
    """The numbers of an observation, as the engine reads them from its words (`ObsSpace` in operant-env)."""
    if "parts" in spec:
        counts = [count_of_words(part) for _, part in spec["parts"]]
        own = np.split(words, np.cumsum(counts)[:-1])
        return np.concatenate([unpacked(part, own) for (_, part), own in zip(spec["parts"], own, strict=True)])
    ((kind, space),) = spec.items()
    if kind == "box":
        return words.view(np.float32).astype(np.float64)
    bits = {"binary": 1, "bytes": 8, "index": 8 if max(space.get("below", [0])) <= 256 else 16}[kind]
    fields = (words[:, None] >> np.arange(0, 32, bits, dtype=np.uint32)) & ((1 << bits) - 1)
    return fields.ravel()[: int(np.prod(space["shape"]))].astype(np.float64)


def count_of_words(spec):
    ((kind, space),) = spec.items()
    if kind == "box":
        return len(space["low"])
    per_word = {"binary": 32, "bytes": 4, "index": 4 if max(space.get("below", [0])) <= 256 else 2}[kind]
    return -(-int(np.prod(space["shape"])) // per_word)


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


def box(*shape, dtype=np.float32, low=-2, high=2):
    return spaces.Box(low, high, shape, dtype)


OBSERVATIONS = [
    (box(3), {"box": {"low": [-2.0] * 3, "high": [2.0] * 3}}),
    (box(2, 2, dtype=np.float64, low=-np.inf, high=np.inf), {"box": {"low": ["-inf"] * 4, "high": ["inf"] * 4}}),
    (box(), {"box": {"low": [-2.0], "high": [2.0]}}),
    (box(3, dtype=np.int64), {"box": {"low": [-2.0] * 3, "high": [2.0] * 3}}),
    (box(2, dtype=np.uint16, low=0, high=60_000), {"box": {"low": [0.0] * 2, "high": [60_000.0] * 2}}),
    (box(dtype=np.uint8, low=0, high=255), {"box": {"low": [0.0], "high": [255.0]}}),
    (box(5, 3, 3, dtype=np.uint8, low=0, high=255), {"bytes": {"shape": [5, 3, 3]}}),
    (box(5, dtype=np.uint8, low=3, high=9), {"bytes": {"shape": [5]}}),
    (box(5, 7, dtype=np.uint8, low=0, high=1), {"binary": {"shape": [5, 7]}}),
    (box(33, dtype=np.bool_, low=0, high=1), {"binary": {"shape": [33]}}),
    (spaces.MultiBinary(70), {"binary": {"shape": [70]}}),
    (spaces.MultiBinary((3, 4)), {"binary": {"shape": [3, 4]}}),
    (spaces.Discrete(5), {"index": {"shape": [], "below": [5]}}),
    (spaces.Discrete(5, start=-7), {"index": {"shape": [], "below": [5]}}),
    (spaces.Discrete(256), {"index": {"shape": [], "below": [256]}}),
    (spaces.Discrete(65_536, start=3), {"index": {"shape": [], "below": [65_536]}}),
    (spaces.MultiDiscrete([7] * 6), {"index": {"shape": [6], "below": [7]}}),
    (spaces.MultiDiscrete([[3, 257], [5, 6]]), {"index": {"shape": [2, 2], "below": [3, 257, 5, 6]}}),
    (spaces.MultiDiscrete([3, 4], np.int8, start=[-1, 5]), {"index": {"shape": [2], "below": [3, 4]}}),
]


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
    space = spaces.Dict(
        {
            "b": spaces.Tuple([spaces.Discrete(300), spaces.Dict({"x y": spaces.MultiBinary(5)})]),
            "a": spaces.Dict({"z": box(2), "y": box(3, 2, dtype=np.uint8, low=0, high=255)}),
        }
    )
    parts = _gym.parts(space)
    assert [part.name for part in parts] == ["a_y", "a_z", "b_0", "b_1_x_y"]
    assert [part.words for part in parts] == [2, 2, 1, 1]
    space.seed(1)
    obs = space.sample()
    flat = [obs["a"]["y"].ravel(), np.float32(obs["a"]["z"]), [obs["b"][0]], obs["b"][1]["x y"]]
    spec = _gym.obs_spec(parts)
    assert [name for name, _ in spec["parts"]] == [part.name for part in parts]
    np.testing.assert_array_equal(unpacked(spec, written(space, obs)), np.concatenate(flat))
    assert len(_gym.obs_spec(_gym.parts(spaces.Tuple([box(2)])))["parts"]) == 1


@pytest.mark.parametrize(
    ("space", "obs", "says"),
    [
        (box(3), np.zeros(4), r"has the shape \(3,\), but an observation had the shape \(4,\)"),
        (box(3), np.zeros((1, 3)), r"shape \(1, 3\)"),
        (box(3), None, r"shape \(\)"),
        (box(), None, "elements of type object"),
        (box(2), ["a", "b"], "elements of type <U1"),
        (box(2, dtype=np.uint8, low=0, high=255), np.int64([0, 256]), "that are not bytes"),
        (box(2, dtype=np.uint8, low=0, high=255), np.zeros(2), "that are not bytes"),
        (box(2, dtype=np.bool_, low=0, high=1), [0, 2], "from 0 to 2, not 0 and 1"),
        (spaces.Discrete(3), 3, r"observation 3 is not in Discrete\(3\)"),
        (spaces.Discrete(3), -1, "is not in"),
        (spaces.Discrete(3), 1.0, "of type float64, not whole numbers"),
        (spaces.Discrete(3), [1], r"shape \(1,\)"),
        (spaces.MultiDiscrete([3, 4]), [2, 4], "is not in"),
        (spaces.Dict(a=spaces.Dict(b=box(3))), {"a": {"b": np.zeros(2)}}, r"^observation_space\['a'\]\['b'\] has"),
    ],
)
def test_observations_outside_their_space(space, obs, says):
    with pytest.raises((ValueError, TypeError), match=says):
        written(space, obs)


@pytest.mark.xfail(strict=True, reason="bits are checked by their least and greatest elements only")
@pytest.mark.parametrize("obs", [[0.0, 0.5], [0.0, np.nan]])
def test_bits_between_0_and_1(obs):
    with pytest.raises(ValueError, match="not 0 and 1"):
        written(spaces.MultiBinary(2), obs)


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (spaces.Text(3), "observation_space: Text is not supported; .* wrap the environment"),
        (spaces.Graph(box(2), None), "Graph is not supported"),
        (spaces.Sequence(box(2)), "Sequence is not supported"),
        (spaces.Dict(a=spaces.Tuple([box(2), spaces.Text(3)])), r"observation_space\['a'\]\[1\]: Text"),
        (spaces.Discrete(65_537), "observation_space: .* more than 65536 values"),
        (spaces.MultiDiscrete([3, 65_537]), "more than 65536 values"),
        (spaces.Dict(), "has no arrays"),
        (box(0), "has no numbers"),
    ],
)
def test_observation_spaces_that_are_not_supported(space, says):
    with pytest.raises(ValueError, match=says):
        _gym.parts(space)


ACTIONS = [
    (spaces.Discrete(3), {"discrete": [3]}),
    (spaces.Discrete(3, start=-5), {"discrete": [3]}),
    (spaces.MultiDiscrete([3, 4]), {"discrete": [3, 4]}),
    (spaces.MultiDiscrete([[3, 4, 5], [6, 7, 8]], np.int16), {"discrete": [3, 4, 5, 6, 7, 8]}),
    (spaces.MultiDiscrete([3, 4], start=[-1, 10]), {"discrete": [3, 4]}),
    (spaces.MultiBinary((2, 2)), {"discrete": [2] * 4}),
    (box(2, 2), {"box": {"low": [-2.0] * 4, "high": [2.0] * 4}}),
    (box(dtype=np.float64), {"box": {"low": [-2.0], "high": [2.0]}}),
    (spaces.Box(np.float32([-1, -np.inf]), np.float32([np.inf, 2])), {"box": {"low": [-1.0, "-inf"], "high": ["inf", 2.0]}}),
    (spaces.Dict(b=spaces.Discrete(2, start=1), a=spaces.MultiDiscrete([3, 4])), {"discrete": [3, 4, 2]}),
    (
        spaces.Tuple([box(2), spaces.Dict(x=box(1, low=0, dtype=np.float64))]),
        {"box": {"low": [-2.0, -2.0, 0.0], "high": [2.0] * 3}},
    ),
]


def flat_action(space, action):
    """The engine's numbers of an action."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        keys = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        return np.concatenate([flat_action(space[key], action[key]) for key in keys])
    return np.float32(action - getattr(space, "start", 0)).reshape(-1)


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
        action = np.int64(action) if isinstance(space, spaces.Discrete) else action
        numbers = flat_action(space, action)
        assert len(numbers) == actions.components
        found = actions.read(numbers)
        assert_same(found, action)
        # The memory of the numbers is reused by the next step.
        numbers[:] = 0
        assert_same(found, action)


@pytest.mark.xfail(strict=True, reason="actions of Discrete spaces are int64 whatever the dtype of the space")
def test_the_dtype_of_a_discrete_action():
    assert _gym.actions(spaces.Discrete(3, dtype=np.int32)).read(np.float32([1])).dtype == np.int32


@pytest.mark.xfail(strict=True, reason="a bound in double precision, rounded to single precision, can be outside the box")
def test_actions_at_bounds_in_double_precision_are_inside():
    space = box(2, dtype=np.float64, low=-0.1, high=0.1)
    assert _gym.actions(space).read(np.float32([-0.1, 0.1])) in space


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (box(2, dtype=np.int32), "action_space: .* has whole numbers in a Box; use Discrete or MultiDiscrete"),
        (spaces.Text(3), "action_space: Text is not supported"),
        (spaces.Dict(a=spaces.Text(3)), r"action_space\['a'\]: Text is not supported"),
        (spaces.Sequence(box(2)), "Sequence is not supported"),
        (spaces.Dict(a=box(2), b=spaces.Discrete(2)), "choices and real numbers; a policy has one of the two"),
        (spaces.Tuple([spaces.Dict(a=box(2), b=spaces.Discrete(2))]), r"action_space\[0\]: .* choices and real numbers"),
        (spaces.Tuple([]), "has no actions"),
    ],
)
def test_action_spaces_that_are_not_supported(space, says):
    with pytest.raises(ValueError, match=says):
        _gym.actions(space)


def test_masks_are_packed():
    for mask, bits in [
        (np.int8([1, 0, 1]), [1, 0, 1]),
        ([True, False, False], [1, 0, 0]),
        ((np.array([True, False]), np.array([False, True, True])), [1, 0, 0, 1, 1]),
        ({"a": [0, 1], "b": np.ones(40)}, [0, 1] + [1] * 40),
        (np.eye(2), [1, 0, 0, 1]),
    ]:
        words = np.full(-(-len(bits) // 32), 2**32 - 1, np.uint32)
        _gym.mask_words(mask, len(bits), words)
        assert unpacked({"binary": {"shape": [len(words) * 32]}}, words).tolist()[: len(bits)] == bits
        assert sum(word.bit_count() for word in words.tolist()) == sum(bits)
    with pytest.raises(ValueError, match="mask has 2 elements; the policy has 3 choices"):
        _gym.mask_words([1, 1], 3, np.zeros(1, np.uint32))
    with pytest.raises(ValueError, match="allows no action"):
        _gym.mask_words([0, 0, 0], 3, np.zeros(1, np.uint32))


def test_masks_come_from_the_info_or_a_method():
    env = gym_envs.MaskedByMethod()
    env.reset()
    assert _gym.mask_of(env, {}).tolist() == [True, False, False, True, False, False, False]
    assert _gym.mask_of(gymnasium.wrappers.TimeLimit(env, 5), None).sum() == 2
    assert _gym.mask_of(env, {"action_mask": [1]}) == [1]
    assert _gym.mask_of(gym_envs.Steady(), {}) is None and _gym.mask_of(gym_envs.Steady(), {"action_mask": None}) is None


@pytest.mark.xfail(strict=True, reason="action_masks() of wrappers, as of sb3-contrib's ActionMasker, is not found")
def test_masks_come_from_a_wrapper():
    class Masker(gymnasium.Wrapper):
        def action_masks(self):
            return [1, 0, 1]

    assert _gym.mask_of(gymnasium.wrappers.TimeLimit(Masker(gym_envs.Steady()), 5), {}) == [1, 0, 1]


# --- Training


@pytest.mark.parametrize(
    ("name", "inner", "length"),
    [
        ("cartpole_v1", "inner=CartPole-v1", None),
        ("pendulum_v1", "inner=Pendulum-v1", 200),
        ("frozenlake_v1", "inner=FrozenLake-v1&is_slippery=false", None),
        ("image", "inner=Image&length=5", 5),
        ("grid", "inner=Grid", 10),
        ("masked_method", "inner=MaskedByMethod", 10),
        ("walk_parts", "inner=Walk&obs=parts&act=named", None),
    ],
)
def test_environments_train(place, name, inner, length):
    log = place.path / "log"
    run = short(f"gym_envs:logged?log={log}&{inner}", 2, seed=7, eval_episodes=20, total_timesteps=1280, num_envs=5)
    assert run.state == "finished" and run.result["env_steps"] == 1280 and run.result["eval_episodes"] == 20
    assert np.isfinite(run.result["eval_return_mean"]) and (run.metrics()["nonfinite_updates"] == 0).all()
    logs = calls(log).values()
    training = [log for log in logs if log[0]["seed"] < 1000]
    # Exactly as many environments as there are, with the seeds that Gymnasium's vector environments give.
    assert sorted(log[0]["seed"] for log in training if len(log) > 1) == [7, 8, 9, 10, 11]
    assert [sum(call["call"] == "step" for call in log) for log in training if len(log) > 1] == [256] * 5
    assert sum(log[0]["seed"] >= 1000 for log in logs) >= 16
    for log in logs:
        assert log[0]["call"] == "reset"
        for call, after in zip(log, log[1:], strict=False):
            # An episode that ended, and only that, is followed by a reset, which continues the random numbers.
            is_reset = after["call"] == "reset"
            assert call["call"] == "reset" and not is_reset or call.get("ended", False) == is_reset
            assert not is_reset or after["seed"] is None
    if length:
        assert run.metrics()["episodic_length"][-1] == length


WALKS = [
    ("reals", "choice", {"norm_obs": True}, 5, 1),
    ("index", "choice", {"masked": True}, 40, 3),
    ("bits", "pair", {}, 5, 2),
    ("bytes", "reals", {}, 17, 2),
    ("indices", "pair", {"shared_trunk": True}, 5, 5),
    ("parts", "named", {"threads": 2}, 40, 2),
]


@pytest.mark.parametrize(("obs", "act", "more", "count", "workers"), WALKS, ids=[f"{row[0]}-{row[1]}" for row in WALKS])
def test_training_equals_that_of_a_world_with_the_same_rules(obs, act, more, count, workers):
    """Observations, final ones too, actions, masks, rewards, ends, truncations and statistics: all of it changes the result."""
    more = dict(more)
    masked = more.pop("masked", False)
    steps = {"num_envs": count, "total_timesteps": 128 * count, "norm_obs": False, "eval_episodes": 20, **more}
    gym = short(f"gym_envs:Walk?obs={obs}&act={act}&masked={json.dumps(masked)}", workers, name="gym", **steps)
    same = {key: value for key, value in gym.result["config"].items() if key not in ("env", "environment")}
    world = (gym_envs.MaskedWalkWorld if masked else gym_envs.WalkWorld)(obs, act)
    twin = operant.train(world, **{**same, "name": "world", "progress": False})
    assert learned(gym) == learned(twin) and weights(gym) == weights(twin)
    lengths = gym.metrics()["episodic_length"]
    assert (lengths > 0).all() and (lengths <= gym_envs.WALK_LIMIT).all()


@pytest.mark.parametrize(("obs", "act", "masked"), [("parts", "named", False), ("bytes", "reals", False), ("reals", "choice", True)])
def test_the_policy_outside_acts_as_inside(place, obs, act, masked):
    """What the workers observed and did in an evaluation is what `operant.load(RUN)` computes."""
    log = place.path / "log"
    run = short(f"gym_envs:logged?log={log}&inner=Walk&obs={obs}&act={act}&masked={json.dumps(masked)}")
    log.unlink()
    assert run.eval(3)["eval_episodes"] == 3
    pairs = [pair for log in calls(log).values() for pair in zip(log, log[1:], strict=False) if pair[1]["call"] == "step"]
    assert len(pairs) > 20
    for before, after in pairs:
        seen, mask = before["obs"], before["info"].get("action_mask")
        if obs == "parts":
            (reals, index), (bits, image) = seen["a"], seen["b"].values()
            seen = {"a_0": reals, "a_1": index, "b_u": bits, "b_v": image, "c": seen["c"]}
        action = run.policy(seen, **({"action_mask": mask} if masked else {}))
        done = after["action"]
        np.testing.assert_allclose(action, [done["a"] + 1, *done["b"]] if act == "named" else done, atol=1e-6)


@pytest.mark.parametrize(
    ("env", "name", "length"),
    [
        (gym_envs.Steady, "steady", 10),
        (gym_envs.make_steady, "make_steady", 5),
        ("gym_envs:Steady?length=3", "steady", 3),
        ("gym:CartPole-v1", "cartpole_v1", None),
        (f"{TESTS}/gym_envs.py:Steady", "steady", 10),
    ],
)
def test_classes_functions_and_names(env, name, length):
    run = short(env)
    assert run.result["env"] == name and run.state == "finished"
    assert length is None or (run.metrics()["episodic_length"] == length).all()
    assert run.eval(2)["eval_return_mean"] == run.result["eval_return_mean"]


def test_the_command_prints_only_its_result(place):
    (place.path / "own_envs.py").write_text("from gym_envs import Steady as Own\n")
    for name, env in [("a", "own_envs:Own?length=4"), ("b", "own_envs.py:Own"), ("c", "gym:FrozenLake-v1?is_slippery=false")]:
        code, out, err = place.run("train", env, "--json", *ONE, "--name", name)
        assert code == 0 and "warning" not in err, err
        assert json.loads(out)["env_steps"] == 512 and out.count("\n") == 1
    code, out, err = place.run("eval", "a", "--json", "--episodes", "7")
    assert code == 0 and json.loads(out)["eval_length_mean"] == 4, err
    kept = json.loads((place.path / "runs/b/env.world").read_text())
    assert kept["operant_gym"] == 1 and kept["make"] == f"{place.path}/own_envs.py:Own"
    assert kept["directory"] == str(place.path) and kept["spec"]["name"] == "own"


@pytest.mark.xfail(strict=True, reason="the error of play gives no remedy")
def test_play_says_what_to_do_instead(place):
    short("gym_envs:Steady", name="x")
    code, _, err = place.run("play", "x", "--record", "x.gif")
    assert code != 0 and "remedy" in err, err


def test_episodes_are_truncated_by_the_option():
    run = short("gym_envs:Steady", options={"max_episode_steps": 4})
    assert (run.metrics()["episodic_length"] == 4).all() and run.result["eval_return_mean"] == 4


@pytest.mark.xfail(strict=True, reason="an environment without a limit keeps 10,000 steps where the option asks for more")
def test_the_option_extends_a_limit_that_the_environment_does_not_have():
    steps = {"num_envs": 1, "num_steps": 2048, "total_timesteps": 12_288, "eval_episodes": 1, "update_epochs": 1}
    run = short("gym_envs:Unlimited", options={"max_episode_steps": 12_000}, **steps)
    assert run.result["eval_return_mean"] == 12_000


@pytest.mark.xfail(strict=True, reason="what the recording process says on stderr is shown only if it fails")
def test_an_environment_without_a_limit_is_noted(place):
    code, _, err = place.run("train", "gym_envs:Unlimited", *ONE[2:], "--steps", "128", "--set", "env.max_episode_steps=20")
    assert code == 0 and "no time limit" in err and "env.max_episode_steps" in err, err


@pytest.mark.xfail(strict=True, reason="masks in a dictionary are taken in its order instead of the order of the space")
def test_masks_are_found_by_name():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert short("gym_envs:MaskedByName").state == "finished"


@pytest.mark.xfail(strict=True, reason="actions are not clipped to bounds in double precision")
def test_environments_that_check_bounds_in_double_precision():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert short("gym_envs:Precise").state == "finished"


def test_the_same_seed_gives_the_same_run():
    first = learned(short("gym:CartPole-v1", 1, name="first"))
    assert first == learned(short("gym:CartPole-v1", 1, name="again"))
    assert first == learned(short("gym:CartPole-v1", 3, name="three", threads=2))
    assert first != learned(short("gym:CartPole-v1", 1, name="other", seed=2))


def test_seeds_are_those_that_environments_take(place):
    short(f"gym_envs:logged?log={place.path}/log", seed=2**31 - 2)
    seeds = {log[0]["seed"] for log in calls("log").values()}
    assert {2**31 - 2, 2**31 - 1, 0, 1} <= seeds and max(seeds) < 2**31


# --- Resuming


def test_a_resumed_run_begins_new_episodes_with_new_seeds(place):
    seeds, log = [], place.path / "log"
    run = short(f"gym_envs:logged?log={log}", 2)
    for total in (512, 1024, 1536):
        if total > 512:
            log.unlink()
            run = operant.resume(run, total_timesteps=total)
        assert run.result["env_steps"] == run.policy.env_steps == total
        for calls_of_one in calls(log).values():
            # A reset that a step follows.
            begun = [a["seed"] for a, b in zip(calls_of_one, calls_of_one[1:], strict=False) if b["call"] == "step"]
            seeds += [seed for seed in begun if seed is not None]
        assert (run.dir / "operant.log").read_text().count("new episodes begin") == (total - 512) // 512
    # Four environments at each start. The final evaluations have the same seeds.
    assert len(set(seeds)) >= 3 * 4 + 2 and {1, 2, 3, 4} <= set(seeds) and seeds.count(1) == 1
    assert run.metrics()["env_steps"].tolist() == [128.0 * k for k in range(1, 13)]


OWN = "from gym_envs import Steady\nclass Own(Steady):\n    pass\n"


def test_a_run_resumes_in_another_directory(place, monkeypatch):
    for name in ("here", "there"):
        (place.path / name).mkdir()
    monkeypatch.chdir("here")
    Path("own_envs.py").write_text(OWN)
    run = short("own_envs:Own")
    monkeypatch.chdir("../there")
    assert operant.resume(run.dir, total_timesteps=1024).result["env_steps"] == 1024
    assert run.eval(2)["eval_return_mean"] == 10


@pytest.mark.xfail(strict=True, reason="the working directory comes before that of the run")
def test_a_resumed_run_imports_from_its_own_directory(place, monkeypatch):
    for name, length in [("here", 10), ("there", 3)]:
        (place.path / name).mkdir()
        (place.path / name / "own_envs.py").write_text(OWN.replace("pass", f"def __init__(self): super().__init__({length})"))
    monkeypatch.chdir("here")
    run = short("own_envs:Own")
    monkeypatch.chdir("../there")
    assert run.eval(2)["eval_return_mean"] == 10


@pytest.mark.xfail(strict=True, reason="the working directory is read after the environment was made")
def test_the_directory_of_a_run_is_that_in_which_it_was_started(place):
    run = short("gym_envs:Movable")
    assert json.loads((run.dir / "env.world").read_text())["directory"] == str(place.path)


def test_a_class_whose_observations_changed_is_refused(place):
    file = place.path / "own_envs.py"
    file.write_text(OWN)
    run = short("own_envs.py:Own")
    file.write_text("import gymnasium\n" + OWN.replace("pass", "observation_space = gymnasium.spaces.Box(0, 1, (4,))"))
    with pytest.raises(RuntimeError, match="is not the space that the run was started with"):
        operant.resume(run, total_timesteps=1024)


@pytest.mark.xfail(strict=True, reason="workers compare only the number of words of an observation")
def test_a_class_whose_actions_changed_is_refused(place):
    file = place.path / "own_envs.py"
    file.write_text(OWN)
    run = short("own_envs.py:Own")
    file.write_text("import gymnasium\n" + OWN.replace("pass", "action_space = gymnasium.spaces.Discrete(2, start=5)"))
    with pytest.raises(RuntimeError, match="is not the space that the run was started with"):
        operant.resume(run, total_timesteps=1024)


# --- Faults


def fault(name, **arguments):
    return "gym_envs:Faulty?" + "&".join(f"{key}={value}" for key, value in {"fault": name, **arguments}.items())


def line_of(function):
    """How a traceback names the first line of a function of gym_envs."""
    return f"{gym_envs.__file__}:{inspect.getsourcelines(function)[1] + 1} in {function.__name__}: "


ONCE = [
    ("stuck", "step", "RuntimeError: the gripper is stuck\n  " + line_of(gym_envs.stuck) + 'raise RuntimeError("the grip'),
    ("stuck", "reset", "RuntimeError: the gripper is stuck\n  " + line_of(gym_envs.stuck)),
    ("wordy", "step", line_of(gym_envs.wordy)),
    ("quits", "step", "ended with exit code 3"),
    ("quits", "reset", "ended with exit code 3"),
    ("leaves", "step", "ended with exit code 9"),
    ("kills_itself", "step", "killed by signal 9"),
    ("aborts", "step", "killed by signal 6"),
    ("interrupts", "step", "the worker process "),
    ("nan_reward", "step", "its reward is NaN"),
    ("inf_reward", "step", "its reward is -inf"),
    ("no_reward", "step", "TypeError: "),
    ("nan_obs", "step", "element 1 of its observation is NaN"),
    ("nan_obs", "reset", "element 1 of its observation is NaN"),
    ("huge_obs", "step", "element 2 of its observation is inf"),
    ("wide_obs", "step", "an observation had the shape (4,)"),
    ("text_obs", "step", "an observation had elements of type <U1"),
    ("no_obs", "step", "an observation had the shape ()"),
    ("far_obs", "step", "the observation 6 is not in Discrete(6)"),
    ("real_obs", "reset", "of type float64, not whole numbers"),
    ("no_mask", "step", 'info has no "action_mask"'),
    ("empty_mask", "step", "the action mask allows no action"),
    ("wide_mask", "step", "the action mask has 4 elements; the policy has 3 choices"),
    ("four_values", "step", "step() returned 4 values, not (observation, reward, terminated, truncated, info)"),
    ("no_values", "step", "step() returned NoneType"),
    ("only_obs", "reset", "reset() returned ndarray, not (observation, info)"),
]
# Of a process that ends, nobody knows in which of its environments.
UNKNOWN = ("quits", "leaves", "kills_itself", "aborts", "interrupts")


@pytest.mark.parametrize(("name", "call", "says"), ONCE, ids=[f"{row[0]}-{row[1]}" for row in ONCE])
def test_a_fault_costs_the_episodes_of_its_process(place, name, call, says):
    code, out, err = place.run("train", fault(name, call=call, at=3), "--json", *ONE, "--set", "env.workers=2")
    assert code == 0, err
    assert_restarted_once(err, says, name in UNKNOWN)
    assert_whole(place, json.loads(out))


def assert_restarted_once(err, says, unknown=False):
    (warning,) = re.findall(r"warning: faulty: (.*?)\nthe worker process is replaced", err, re.DOTALL)
    where, what = warning.split(": ", 1)
    assert where == ("environments 2 to 3" if unknown else "environment 2 (seed 3)") and says in what
    assert re.findall("restarts so far: .*", err) == ["restarts so far: 1 of 16"]


def assert_whole(place, result):
    """All statistics are of whole episodes."""
    assert (result["env_steps"], result["eval_return_mean"], result["eval_return_std"]) == (512, 10, 0)
    metrics = operant.Run(place.path / "runs/x").metrics()
    assert (metrics["nonfinite_updates"] == 0).all()
    for name in ("episodic_return_min", "episodic_return_max", "episodic_length"):
        assert (metrics[name] == 10).all(), name


@pytest.mark.parametrize(
    ("name", "says"),
    [
        pytest.param("huge_reward", "its reward is", marks=pytest.mark.xfail(
            strict=True, reason="a reward is checked in double precision and used in single precision")),
        pytest.param("unprintable", "of the gripper", marks=pytest.mark.xfail(
            strict=True, reason="a message that is no UTF-8 ends the worker process, and is lost")),
    ],
)  # fmt: skip
def test_faults_at_the_limits(place, name, says):
    test_a_fault_costs_the_episodes_of_its_process(place, name, "step", says)


def test_long_messages_keep_their_beginning_and_end():
    words = np.zeros(5000, np.uint32)
    task = {"control": {"text": 10, "text_bytes": 1, "failed": 2}, "text_bytes": 4096 * 4}
    for text in ("short", "first " + "ä" * 50_000 + " last"):
        _worker.fail(words, task, 3, text)
        left = words[10:].view(np.uint8)[: words[1]].tobytes().decode(errors="replace")
        assert words[2] == 3 and len(left.encode(errors="replace")) < 4096 * 4 + 16
        assert left.startswith(text[:5]) and left.endswith(text[-5:])


@pytest.mark.xfail(strict=True, reason="directories whose names begin like that of the package are left out of tracebacks")
def test_tracebacks_name_packages_beside_this_one():
    own = os.path.dirname(_worker.__file__)
    code = compile("def step():\n    raise ValueError('stuck')\nstep()", f"{own}_games/env.py", "exec")
    try:
        exec(code, {})
    except ValueError as error:
        assert len(traceback.extract_tb(error.__traceback__)) == 3
        assert f"{own}_games/env.py:2 in step" in _worker.shown(error)


@pytest.mark.parametrize("call", ["step", "reset"])
def test_an_environment_that_hangs_once_is_replaced(place, call):
    # Processes start within this time, too.
    slow = ["--set", "env.workers=2", "--set", "env.timeout=5"]
    code, out, err = place.run("train", fault("hangs", at=3, call=call), "--json", *ONE, *slow)
    assert code == 0, err
    assert_restarted_once(err, "no answer within 5 s (env.timeout)", True)
    assert_whole(place, json.loads(out))


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("stuck", "the gripper is stuck\n  " + line_of(gym_envs.stuck)),
        ("leaves", "ended with exit code 9"),
        ("nan_reward", "its reward is NaN"),
        ("hangs", "no answer within 5 s (env.timeout)"),
    ],
)
def test_too_many_faults_end_the_run_with_a_checkpoint(place, name, says):
    some = ["--set", "env.workers=1", "--set", "env.restarts=1", "--set", "env.timeout=5"]
    code, out, err = place.run("train", fault(name, after=150), *ONE, *some)
    assert (code, out) == (1, ""), err
    assert err.count("restarts so far: 1 of 1") == 1 and "it was failure 2; after 1 the run ends" in err
    error = err[err.index("error: ") :]
    assert says in error and "`operant train --resume x`" in error and "Traceback" not in error
    (checkpoint,) = (place.path / "runs/x/checkpoints").glob("step_*")
    run = operant.Run(place.path / "runs/x")
    assert run.state == "failed" and run.policy.env_steps == 128 and str(checkpoint.name) in error


def test_a_failed_run_continues_once_the_environment_is_repaired(place):
    env = f"gym_envs:Repaired?file={place.path}/repaired&after=300"
    with pytest.raises(RuntimeError, match=r"(?s)the gripper is stuck.*gym_envs.py:\d+ in step.*operant\.resume"):
        short(env, options={"restarts": 0})
    (run,) = operant.runs()
    assert run.state == "failed" and run.policy.env_steps == 256
    (place.path / "repaired").touch()
    assert operant.resume(run).result["env_steps"] == 512 and run.state == "finished"


def test_a_failed_evaluation_leaves_a_checkpoint(place):
    some = ["--set", "env.restarts=2", "--set", "env.workers=1"]
    code, _, err = place.run("train", fault("stuck", beyond=10_000), *ONE, *some)
    assert code == 1 and "of an evaluation: RuntimeError: the gripper is stuck" in err, err
    assert err.count("the worker process is replaced") == 2 and "`operant train --resume x`" in err
    assert operant.load("x").env_steps == 512


@pytest.mark.parametrize(
    "call", ["step", pytest.param("reset", marks=pytest.mark.xfail(
        strict=True, reason="the first failure of a new worker ends the run, also in an evaluation"))]
)  # fmt: skip
def test_a_fault_in_an_evaluation_is_replayed(place, call):
    env = fault("stuck", beyond=10_000, call=call, marker=place.path / "marker")
    code, out, err = place.run("train", env, "--json", *ONE, "--set", "eval_episodes=100", "--set", "env.workers=1")
    assert (place.path / "marker").exists() and code == 0, err
    assert "of an evaluation" in err and "restarts so far: 1 of 16" in err and "restarts so far: 2" not in err
    result = json.loads(out)
    # An episode without steps would lower the mean.
    assert (result["eval_episodes"], result["eval_return_mean"], result["eval_return_std"]) == (100, 10, 0)


@pytest.mark.parametrize(
    ("how", "more"),
    [
        ("prints", []),
        ("closes", []),
        ("thread", []),
        ("ignores", []),
        ("numpy", []),
        ("close_raises", []),
        ("close_hangs", []),
        pytest.param("closes_stdout", [], marks=pytest.mark.xfail(
            strict=True, reason="a worker whose stdout was closed ends with a traceback")),
    ],
)  # fmt: skip
def test_odd_environments_are_no_failures(place, how, more):
    code, out, err = place.run("train", f"gym_envs:Odd?how={how}", "--json", *ONE, "--set", "env.workers=2", *more)
    assert code == 0 and "warning" not in err and "Traceback" not in err, err
    assert_whole(place, json.loads(out))
    assert not workers(place.path) and "odd text" not in out
    assert how != "prints" or "odd text of a step" in err and "odd text of another kind" in err


@pytest.mark.parametrize(
    ("where", "code", "says"),
    [
        ("init", 2, "RuntimeError: no display for the gripper"),
        ("reset", 2, "RuntimeError: no display for the gripper"),
        ("no_tuple", 2, "reset() returned ndarray, not (observation, info)"),
        ("exit", 2, "no license for the gripper"),
        ("worker_init", 1, "environment 0 (seed 1): RuntimeError: no display for the gripper"),
        ("worker_reset", 1, "environment 0 (seed 1): RuntimeError: no display for the gripper"),
    ],
)
def test_environments_that_fail_at_once_leave_nothing(place, where, code, says):
    found, out, err = place.run("train", f"gym_envs:Broken?where={where}", *ONE, "--set", "env.workers=2")
    assert (found, out) == (code, "") and says in err and "Traceback" not in err, err
    assert err.count("error: ") == 1 and "restarts" not in err
    assert where in ("no_tuple", "exit") or f"{gym_envs.__file__}:" in err
    assert not list(place.path.glob("runs/*"))


# --- Ends


def started(place, env, *args):
    """The command with an endless run, in a process group of its own, as a shell starts it."""
    endless = ["--steps", "1e12", "--name", "x", *SMALL, "--set", "env.workers=2"]
    return place.start("train", env, *endless, *args, start_new_session=True)


@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_ctrl_c_saves_a_checkpoint_and_ends_the_workers(place, send):
    with started(place, "gym_envs:Steady") as process:
        while "env_steps" not in process.stderr.readline():
            assert process.poll() is None
        assert len(workers(place.path)) == 2
        send(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 75 and "warning" not in err and "Traceback" not in err, err
    assert not workers(place.path) and operant.load("x").env_steps > 0


def test_ctrl_c_and_exceptions_in_python_end_the_workers(place):
    def interrupt(record):
        assert len(workers(place.path)) == 2
        _thread.interrupt_main()

    with pytest.raises(KeyboardInterrupt):
        short("gym_envs:Steady", 2, total_timesteps=10**9, on_update=interrupt)
    assert not workers(place.path) and operant.runs()[0].state == "preempted"
    with pytest.raises(ZeroDivisionError):
        short("gym_envs:Steady", 2, total_timesteps=10**9, on_update=lambda record: 1 / 0)
    assert not workers(place.path)


@pytest.mark.parametrize(
    ("call", "signals", "code"),
    [
        ("init", [signal.SIGINT], 130),
        ("step", [signal.SIGINT, signal.SIGINT], 130),
        ("init", [signal.SIGKILL], -9),
        ("step", [signal.SIGKILL], -9),
    ],
)
def test_workers_that_wait_end_with_the_trainer(place, call, signals, code):
    marker = place.path / "marker"
    with started(place, f"gym_envs:Waiting?marker={marker}&call={call}") as process:
        until(marker.exists, "a worker waits")
        for number in signals:
            process.send_signal(number)
            while len(signals) > 1 and "another signal ends it" not in process.stderr.readline():
                assert process.poll() is None
            signals = signals[:1]
        _, err = process.communicate(timeout=60)
    assert process.returncode == code and "Traceback" not in err, err
    assert call == "step" or not list(place.path.glob("runs/*"))


def test_ctrl_c_while_an_environment_hangs_ends_after_its_timeout(place):
    marker = place.path / "marker"
    env = fault("hangs", after=1, marker=marker)
    with started(place, env, "--set", "env.timeout=5") as process:
        until(marker.exists, "a worker hangs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode == 75 and "restarts so far: 1 of 16" in err, err
    assert operant.load("x").env_steps == 128


@pytest.fixture
def import_waits(place, monkeypatch):
    """Worker processes wait before their first import until a file exists."""
    code = "import os, sys, time\nif 'operant._worker' in sys.orig_argv:\n    open('waits', 'w').close()\n"
    (place.path / "site").mkdir()
    (place.path / "site/sitecustomize.py").write_text(
        code + "    while not os.path.exists('go'):\n        time.sleep(0.01)\n"
    )
    place.env["PYTHONPATH"] = f"{place.path}/site{os.pathsep}{place.env['PYTHONPATH']}"
    yield
    (place.path / "go").touch()


def test_workers_that_start_end_with_a_trainer_that_was_killed(place, import_waits):
    with started(place, "gym_envs:Steady") as process:
        until((place.path / "waits").exists, "a worker starts")
        process.kill()
    (place.path / "go").touch()
    until(lambda: not workers(place.path), "workers without a trainer end")


@pytest.mark.xfail(strict=True, reason="workers ignore Ctrl-C only once they have imported their modules")
def test_ctrl_c_while_workers_import_prints_no_traceback(place, import_waits):
    with started(place, "gym_envs:Steady") as process:
        until((place.path / "waits").exists, "a worker starts")
        os.killpg(process.pid, signal.SIGINT)
        (place.path / "go").touch()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err, err


# --- Errors before the start


HAS_ALE = importlib.util.find_spec("ale_py") is not None


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("gym:CartPol-v1", ["CartPol", "Did you mean: `CartPole`"]),
        ("gym:CartPole-v7", ["v7", "v1"]),
        pytest.param("gym:ALE/Pong-v5", ["ale_py", "operant-rl[atari]"], marks=pytest.mark.skipif(HAS_ALE, reason="has ale_py")),
        ("gym:CartPole-v1?gravity=3", ["unexpected keyword argument 'gravity'"]),
        ("gym:CartPole-v1?gravity", ["gravity"]),
        ("absent_module:Own", ["there is no module absent_module", "path/to/file.py:Class"]),
        ("absent_file.py:Own", ["there is no file absent_file.py"]),
        ("gym_envs:Absent", ["gym_envs has no Absent"]),
        ("gym_envs:NUMBER", ["gym_envs:NUMBER is neither a world nor a Gymnasium environment", "gymnasium.Env"]),
        ("gym_envs:Other", ["is neither a world nor a Gymnasium environment"]),
        ("gym_envs:Partial", ["Partial has no observation_space"]),
        ("gym_envs:Duck", ["Duck has no observation_space: it is no Gymnasium environment"]),
        ("gym_envs:first_time?marker=x", ["bool has no observation_space: it is no Gymnasium environment"]),
        ("gym_envs:Faulty", ["missing 1 required positional argument: 'fault'"]),
        ("gym_envs:Steady?preset=doom", ["there is no preset doom", "atari"]),
        ("gym_envs:WalkWorld?obs=reals", ["gym_envs:WalkWorld is a world", "leave out ?obs=reals"]),
        pytest.param("gym_envs:Steady?preset=atari", ["is no Atari game"], marks=pytest.mark.xfail(
            strict=True, reason="arguments of Atari games are given before the environment is looked at")),
        pytest.param("gym_envs:reserved", ["observation_space['action_mask']"], marks=pytest.mark.xfail(
            strict=True, reason="names of parts are checked where the space is no longer known")),
    ],
)  # fmt: skip
def test_names_that_are_no_environments(place, env, says):
    code, out, err = place.run("train", env, *ONE)
    assert (code, out) == (2, "") and "Traceback" not in err, err
    assert err.count("error: ") == 1 and all(text in err for text in says), err
    assert not list(place.path.glob("runs/*"))


def test_python_says_the_same():
    for env, says in [("gym:CartPol-v1", "Did you mean: `CartPole`"), ("gym_envs:Absent", "gym_envs has no Absent")]:
        with pytest.raises(ValueError, match=says):
            short(env)
    with pytest.raises(ValueError, match="preset: 'atari' is for Gymnasium environments"):
        short(gym_envs.WalkWorld("reals", "choice"), preset="atari")
    with pytest.raises(ValueError, match="there is no preset doom"):
        short("gym:CartPole-v1", preset="doom")
    for wrong in (3, gym_envs.Steady(), gym_envs.Other):
        with pytest.raises(TypeError, match="env: expected the name of an environment"):
            short(wrong)
    assert not Path("runs").exists()


@pytest.mark.xfail(strict=True, reason="a preset becomes part of the name of a built-in environment")
def test_a_preset_of_a_built_in_environment_is_refused():
    with pytest.raises(ValueError, match="preset: .*is for Gymnasium environments"):
        short("cartpole", preset="atari")


def test_classes_that_workers_cannot_import():
    class Local(gym_envs.Steady):
        pass

    for local in (Local, lambda: gym_envs.Steady()):
        with pytest.raises(ValueError, match="cannot be imported by the worker processes.*at the top of a module or a file"):
            short(local)
    notebook = type("Cell", (gym_envs.Steady,), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="not in a function or a notebook"):
        short(notebook)


SCRIPT = """
import operant
from gym_envs import Steady
class Own(Steady):
    pass
"""
TRAINS = f"print(operant.train(Own, env_options={{'workers': 1}}, **{QUICK}).result['env_steps'])"


def test_a_script_trains_its_own_class(place):
    (place.path / "script.py").write_text(f"{SCRIPT}\nif __name__ == '__main__':\n    {TRAINS}\n")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "512\n"), done.stderr


@pytest.mark.xfail(strict=True, reason="each process that imports the script trains again, in yet another process")
def test_a_script_without_a_guard_is_an_error(place):
    depth = "import sys\nprint('starts', flush=True, file=open('starts', 'a'))\n"
    depth += "if len(open('starts').readlines()) > 3:\n    sys.exit('too deep')\n"
    (place.path / "script.py").write_text(f"{depth}{SCRIPT}\n{TRAINS}\n")
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "too deep" not in done.stderr and "__main__" in done.stderr, done.stderr


@pytest.mark.xfail(strict=True, reason="other processes do not look in the directory of the script")
def test_a_class_of_a_module_beside_the_script(place):
    (place.path / "code").mkdir()
    (place.path / "code/own_envs.py").write_text(OWN)
    script = f"import operant\nfrom own_envs import Own\n{TRAINS}\n"
    (place.path / "code/script.py").write_text(script)
    done = subprocess.run([sys.executable, "code/script.py"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "512\n"), done.stderr


# --- The channel


@pytest.mark.parametrize(
    ("stdin", "says"),
    [
        ("/dev/null", "standard input is not memory of a trainer: "),
        (__file__, "standard input is not memory of a trainer: "),
        ("&-", "standard input is not memory of a trainer: "),
        ("memory", "standard input is not memory of a trainer: the file can shrink"),
    ],
)
def test_a_channel_needs_the_memory_of_a_trainer(stdin, says):
    code = "import os; from operant import _core; _core.WorkerChannel(os.getppid())"
    how = {"capture_output": True, "text": True, "check": False}
    if stdin == "memory":
        with open(os.memfd_create("unsealed"), "wb") as memory:
            memory.truncate(64)
            done = subprocess.run([sys.executable, "-c", code], stdin=memory, **how)
    else:
        done = subprocess.run(["sh", "-c", f'exec "$0" -c "$1" <{stdin}', sys.executable, code], **how)
    assert done.returncode == 1 and f"OSError: {says}" in done.stderr.splitlines()[-1], done.stderr


def test_a_channel_waits_and_posts():
    code = """
import mmap, os, sys
from operant import _core
memory = mmap.mmap(0, 0)
channel = _core.WorkerChannel(int(sys.argv[1]))
try:
    channel.wait(16, 0)
except IndexError as error:
    print(error)
channel.post(3)
channel.post(3)
print(channel.wait(3, 1))
"""
    with open(os.memfd_create("sealed", os.MFD_ALLOW_SEALING), "r+b") as memory:
        memory.truncate(64)
        # F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, 7)
        how = {"stdin": memory, "capture_output": True, "text": True, "check": False}
        done = subprocess.run([sys.executable, "-c", code, str(os.getpid())], **how)
        assert (done.returncode, done.stdout) == (0, "there is no word 16\n2\n"), done.stderr
        done = subprocess.run([sys.executable, "-c", code, "1"], **how)
        assert done.returncode != 0 and "the trainer has ended" in done.stderr


def test_the_core_of_the_tests_has_the_channel():
    assert _core.WorkerChannel.__doc__ == "The shared memory, by standard input."
