"""Observations of every kind: spaces, dtypes, and each item as the state says it, in every way to step."""

import copy
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete
from gymnasium.utils.env_checker import check_env, data_equivalence
from gymnasium.vector.utils import iterate

import operant

if "test_parts" not in operant.envs.names():
    pytest.skip("this package was built without its test environments", allow_module_level=True)

MODES = ["same_step", "next_step", "disabled"]
CELLS = np.broadcast_to(np.array([10, 5, 2], np.uint8), (3, 3, 3))
SPACES = {
    "test_index": Discrete(500),
    "test_hand": MultiDiscrete([32, 11, 2]),
    "test_cells": Box(np.zeros((3, 4, 3), np.uint8), np.broadcast_to(np.array([10, 5, 2], np.uint8), (3, 4, 3)), dtype=np.uint8),
    "test_vocabulary": Box(0, 999, (2, 5), np.uint16),
    "test_image": Box(0, 255, (5, 6, 3), np.uint8),
    "test_numbers": Dict({"speed": Box(-2, 2, (2,), np.float32), "position": Box(-2, 2, (3,), np.float32)}),
    "test_symbols": Dict({"image": Box(np.zeros_like(CELLS), CELLS, dtype=np.uint8), "flags": Box(0, 1, (5, 7), np.bool_)}),
    "test_masked": Box(0, 1, (8, 5), np.bool_),
    "test_parts": Dict({
        "image": Box(np.zeros_like(CELLS), CELLS, dtype=np.uint8),
        "direction": Discrete(4),
        "mission": MultiDiscrete([300, 7]),
        "flags": Box(0, 1, (5, 7), np.bool_),
        "speed": Box(-2, 2, (2,), np.float32),
        "picture": Box(0, 255, (2, 3), np.uint8),
    }),
}


def items(state, shape, bounds, first):
    """What the environments show of their states, from item number `first` on; without bounds, numbers from 1 to 2."""
    count = int(np.prod(shape))
    number = np.arange(first, first + count, dtype=np.uint64) * 0x9E3779B9 & 0xFFFFFFFF
    mixed = (state[:, None].astype(np.uint64) ^ number) * 0x85EBCA6B & 0xFFFFFFFF
    mixed ^= mixed >> np.uint64(13)
    if bounds is None:
        return (1 + (mixed >> np.uint64(9)) / 2**23).reshape(-1, *shape)
    return (mixed * np.resize(np.array(bounds, np.uint64), count) >> np.uint64(32)).reshape(-1, *shape)


def shown(spec, state, first=0):
    """The observations of states, `(N)`, as the engine's specification has them."""
    kind, *rest = spec
    if kind == "parts":
        found = {}
        for name, part in rest[0]:
            found[name] = shown(part, state, first)
            first += int(np.prod(found[name].shape[1:]))
        return found
    shape = [len(rest[0])] if kind == "box" else rest[0]
    bounds = {"box": None, "binary": [2], "bytes": [256]}[kind] if kind != "index" else rest[1]
    dtype = {"box": "f4", "binary": "?", "bytes": "u1"}[kind] if kind != "index" else rest[2]
    return items(state, shape, bounds, first).astype(dtype)


def expected(envs):
    state = envs.get_state()
    return shown(envs._core.spec()["obs"], state["words"].reshape(envs.num_envs, -1)[:, 0])


def same(a, b):
    return data_equivalence(a, b, exact=True)


def rows(obs, chosen):
    return {name: array[chosen] for name, array in obs.items()} if isinstance(obs, dict) else obs[chosen]


@pytest.mark.parametrize("name", SPACES)
def test_the_spaces(name):
    envs = operant.make_vec(name, 3)
    assert envs.single_observation_space == SPACES[name]
    assert envs.observation_space == gymnasium.vector.utils.batch_space(SPACES[name], 3)
    env = operant.make(name)
    assert env.observation_space == SPACES[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # What the check says of bounds of any box.
        warnings.filterwarnings("ignore", message=".*(max|min)imum value|.*render_modes|.*different from the unwrapped")
        check_env(env, skip_render_check=True)


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("settings", [{}, {"copy": False, "final_obs": "dense"}])
def test_every_item_is_that_of_the_state(name, mode, settings):
    """Of 70 environments in tiles of 64 and 6, on two threads."""
    envs = operant.make_vec(name, 70, seed=1, autoreset_mode=mode, threads=2, **settings)
    obs, _ = envs.reset()
    assert same(obs, expected(envs))
    rng, ends = np.random.default_rng(0), 0
    for _ in range(40):
        last = envs.get_state()["words"].reshape(70, -1)[:, 0]
        actions = rng.integers(4, size=70)
        obs, _, terminated, truncated, info = envs.step(actions)
        assert obs in envs.observation_space and same(obs, expected(envs))
        done = terminated | truncated
        ends += done.sum()
        if mode != "same_step" or not done.any():
            continue
        # The state before the reset.
        after = (last * np.uint32(1664525) + actions.astype(np.uint32) + np.uint32(1013904223)).astype(np.uint32)
        final = shown(envs._core.spec()["obs"], after)
        if settings:
            assert same(rows(info["final_obs"], done), rows(final, done))
        else:
            assert all((found is not None) == is_done for found, is_done in zip(info["final_obs"], done, strict=True))
            each = list(iterate(envs.observation_space, final))
            assert all(same(info["final_obs"][row], each[row]) for row in np.flatnonzero(done))
    assert ends > 50


@pytest.mark.parametrize("name", SPACES)
def test_one_environment_is_the_first_of_many(name):
    env, envs = operant.make(name), operant.make_vec(name, 1, autoreset_mode="disabled")
    (one, _), (many, _) = env.reset(seed=3), envs.reset(seed=3)
    for action in [0, 3, 1, 2, 2]:
        assert one in env.observation_space and same(one, next(iterate(envs.observation_space, many)))
        kept = copy.deepcopy(one)
        before, (one, *_), (many, *_) = one, env.step(action), envs.step([action])
        assert same(before, kept), "each observation is the caller's"


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("mode", MODES)
def test_horizons_are_steps(name, mode):
    one, many, played = (operant.make_vec(name, 37, seed=2, autoreset_mode=mode) for _ in range(3))
    first, _ = one.reset()
    many.reset(), played.reset()
    actions = np.random.default_rng(1).integers(4, size=(33, 37))
    horizon, script = many.step_many(actions), iter(actions)
    seen = []
    rollout = played.rollout(lambda obs: seen.append(copy.deepcopy(obs)) or next(script), 33)
    for step, action in enumerate(actions):
        assert same(rows(rollout["observations"], step), first) and same(seen[step], first)
        first, _, terminated, truncated, info = one.step(action)
        assert same(rows(horizon["obs"], step), first) and same(rows(rollout["obs"], step), first)
        done = terminated | truncated
        if mode == "same_step" and done.any():
            final = list(iterate(one.observation_space, rows(horizon["final_obs"], step)))
            assert all(same(info["final_obs"][row], final[row]) for row in np.flatnonzero(done))
    again = played.rollout(None, 33, out=rollout)
    assert all(np.shares_memory(a, b) for a, b in zip(arrays(again["observations"]), arrays(rollout["observations"]), strict=True))


def arrays(obs):
    return list(obs.values()) if isinstance(obs, dict) else [obs]


@pytest.mark.parametrize("name", SPACES)
def test_views_out_and_the_asynchronous_pair(name):
    envs, plain = (operant.make_vec(name, 5, seed=1, copy=copied) for copied in (False, True))
    (first, _), _ = envs.reset(), plain.reset()
    second = envs.step([0] * 5)[0]
    assert same(second, plain.step([0] * 5)[0])
    third = envs.step([1] * 5)[0]
    assert all(np.shares_memory(a, b) for a, b in zip(arrays(first), arrays(third), strict=True))
    assert not any(np.shares_memory(a, b) for a, b in zip(arrays(second), arrays(third), strict=True))
    assert same(third, plain.step([1] * 5)[0])
    envs.send([2] * 5)
    assert same(envs.recv()[0], plain.step([2] * 5)[0])
    out = {"obs": copy.deepcopy(first)}
    obs = envs.step([3] * 5, out=out)[0]
    assert obs is out["obs"] and same(obs, plain.step([3] * 5)[0])
    assert same(obs, expected(envs))


def test_out_has_all_parts():
    envs = operant.make_vec("test_parts", 2, seed=1)
    obs, _ = envs.reset()
    before = envs.get_state()["words"]
    for bad, says in [
        (obs["image"], r"out\['obs'\]: expected a dictionary of direction, flags, .*got ndarray"),
        ({**obs, "extra": 1}, "got direction, .*extra"),
        ({**obs, "image": obs["image"].astype(int)}, r"out\['obs'\]\['image'\]: expected an array of uint8 \(2, 3, 3, 3\), got int64"),
    ]:
        with pytest.raises(ValueError, match=says):
            envs.step([0, 0], out={"obs": bad})
    np.testing.assert_array_equal(envs.get_state()["words"], before)


def test_a_word_as_an_option_changes_the_space():
    bits = operant.make_vec("test_cells", 4, seed=1, view="bits")
    assert bits.single_observation_space == Box(0, 1, (3, 4, 24), np.bool_)
    obs, _ = bits.reset()
    assert same(obs, expected(bits)) and operant.make("test_cells", view="bits").reset()[0].dtype == np.bool_
    assert gymnasium.make("operant/TestCells-v0", view="bits").observation_space == bits.single_observation_space
    assert same(operant.make_vec("test_cells", 4, seed=1, view="indices").reset()[0], operant.make_vec("test_cells", 4, seed=1).reset()[0])
    with pytest.raises(ValueError, match='expected options'):
        operant.make_vec("test_cells", 4).set_state(bits.get_state())
    for bad, error, says in [
        ("pixels", ValueError, 'view` = "pixels" is not an allowed value; give "indices" or "bits"'),
        (1, ValueError, "must be a word or a path"),
        (None, TypeError, "view: expected a number, a word or a path, got None"),
        (["bits"], TypeError, "view: expected a number, a word or a path"),
    ]:
        with pytest.raises(error, match=says):
            operant.make_vec("test_cells", 4, view=bad)
    with pytest.raises(ValueError, match="is not a number"):
        operant.make("MinAtar/Breakout-v0", sticky_action_prob="often")
    described = {spec["name"]: spec for spec in operant.envs.specs()}["test_cells"]["options"]
    assert described == {"view": ("indices", ["indices", "bits"], "what is seen of the cells")}


@pytest.mark.parametrize("name", ["test_index", "test_cells", "test_image", "test_parts"])
def test_a_gpu_takes_real_numbers_and_bits(name):
    with pytest.raises(ValueError, match=f'device cuda cannot be used: the observations of {name} .*device="cpu"'):
        operant.make_vec(name, 4, device="cuda")
