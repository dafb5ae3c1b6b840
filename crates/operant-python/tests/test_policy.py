"""Trained policies: actions, arrays, exports and errors."""

import ctypes
import os
import pickle
import shutil
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from gymnasium.utils.env_checker import data_equivalence
from safetensors import safe_open

import operant

# Settings that make each network differ: normalisation, sharing, nonlinearity.
SETTINGS = {
    "cartpole": {},
    "pendulum": {"norm_obs": True, "activation": "relu"},
    "acrobot": {"shared_trunk": True},
    "minatar_breakout": {"hidden": [64], "num_envs": 16},
}
# Environments of the tests, one for each kind of observation.
KINDS = [name for name in operant.envs.names() if name.startswith("test_") and name != "test_masked"]
SETTINGS |= {name: {"norm_obs": name == "test_numbers"} for name in KINDS}


@pytest.fixture(scope="module")
def policies(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    trained = {}
    for env, settings in SETTINGS.items():
        run = operant.train(
            env, run_dir=place, ring=False, seed=1, total_timesteps=4096, eval_episodes=1, num_steps=64,
            progress=False, **settings,
        )
        trained[env] = run.policy
    return trained


def observations(policy, count, seed=0):
    """Random observations as the environment gives them."""
    space, rng = operant.make_vec(policy.env, 1).single_observation_space, np.random.default_rng(seed)
    found = {}
    for part in policy.metadata["observation"]:
        shape, kind = (count, *part["shape"]), part["type"]
        dtype = (space[part["name"]] if "name" in part else space).dtype
        if kind == "float":
            found[part.get("name")] = rng.normal(size=shape).astype(dtype)
        else:
            below = {"binary": [2], "bytes": [256]}.get(kind) or part["below"]
            bounds = np.resize(below, int(np.prod(part["shape"]))).reshape(part["shape"])
            found[part.get("name")] = rng.integers(bounds, size=shape).astype(dtype)
    return found.get(None, found)


def rows(obs, chosen):
    return {name: array[chosen] for name, array in obs.items()} if isinstance(obs, dict) else obs[chosen]


def features(policy, obs):
    """What the network sees, `(N, O)`."""
    found = []
    for part in policy.metadata["observation"]:
        array = obs[part["name"]] if "name" in part else obs
        array = array.reshape(len(array), -1)
        if part["type"] == "index":
            bounds = np.resize(part["below"], array.shape[1])
            array = np.concatenate([np.eye(below)[array[:, k]] for k, below in enumerate(bounds)], 1)
        found.append(array.astype(np.float64) / (255 if part["type"] == "bytes" else 1))
    return np.concatenate(found, 1)


def numpy_forward(policy, obs):
    """The network in double precision, from the arrays of state_dict."""
    arrays, meta = policy.state_dict(), policy.metadata
    x = features(policy, obs)
    if meta["clip_obs"] is not None:
        x = ((x - arrays["obs_norm.shift"]) * arrays["obs_norm.scale"]).clip(-meta["clip_obs"], meta["clip_obs"])
    activation = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[meta["activation"]]

    def run(trunk, head):
        y = x
        for k in range(len(meta["hidden"])):
            y = activation(y @ arrays[f"{trunk}.{k}.weight"].T + arrays[f"{trunk}.{k}.bias"])
        return y @ arrays[f"{head}.weight"].T + arrays[f"{head}.bias"]

    actor, critic = ("trunk", "trunk") if meta["shared_trunk"] else ("actor", "critic")
    return run(actor, "policy"), run(critic, "value")[:, 0]


@pytest.mark.parametrize("env", SETTINGS)
def test_outputs_are_those_of_the_arrays(policies, env):
    policy = policies[env]
    obs = observations(policy, 333)
    outputs, values = policy.evaluate(obs)
    for ours, theirs in zip((outputs, values), numpy_forward(policy, obs), strict=True):
        assert ours.dtype == np.float32
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())
    actions = policy(obs)
    if policy.metadata["action_type"] == "discrete":
        assert actions.dtype == np.int64
        np.testing.assert_array_equal(actions, outputs.argmax(1))
    else:
        low, high = policy.state_dict()["action_low"], policy.state_dict()["action_high"]
        np.testing.assert_array_equal(actions, outputs.clip(low, high))
    envs = operant.make_vec(policy.env, 333)
    assert actions in envs.action_space and actions[0] in envs.single_action_space


@pytest.mark.parametrize("env", SETTINGS)
def test_onnxruntime_agrees(policies, env, tmp_path):
    policy = policies[env]
    path = tmp_path / "policy.onnx"
    policy.export_onnx(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path)
    for count in (1, 70):
        obs = observations(policy, count)
        given = obs if isinstance(obs, dict) else {"obs": obs}
        types = {"tensor(float)": np.float32, "tensor(bool)": np.bool_, "tensor(uint8)": np.uint8, "tensor(int64)": np.int64}
        feed = {part.name: given[part.name].astype(types[part.type]) for part in session.get_inputs()}
        found = dict(zip([output.name for output in session.get_outputs()], session.run(None, feed)))
        outputs, values = policy.evaluate(obs)
        theirs = found["logits"] if "logits" in found else found["mean"]
        np.testing.assert_allclose(theirs, outputs, atol=1e-5 * np.abs(outputs).max())
        np.testing.assert_allclose(found["value"], values, atol=1e-5 * np.abs(values).max())
        np.testing.assert_allclose(found["action"], policy(obs), atol=1e-5)
        assert found["action"].dtype == policy(obs).dtype


DRIVER = """
#include "mine.h"
void act(const float *observations, long count, float *actions)
{
    struct mine mine;
    for (long row = 0; row < count; row++) {
        mine_reset(&mine);
        mine_act(&mine, observations + row * MINE_OBSERVATIONS, 0, actions + row * MINE_ACTIONS);
    }
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="there is no gcc")
def test_a_c_file_agrees(policies, tmp_path):
    policy = policies["cartpole"]
    assert policy.export_c(tmp_path / "mine.h", name="mine") is None
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run(["gcc", "-std=c99", "-O2", "-shared", "-fPIC", "driver.c", "-o", "driver.so"], cwd=tmp_path, check=True)
    obs, actions = observations(policy, 500), np.zeros(500, np.float32)
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (obs, actions)]
    ctypes.CDLL(str(tmp_path / "driver.so")).act(pointers[0], ctypes.c_long(500), pointers[1])
    np.testing.assert_array_equal(actions, policy(obs))
    floats = (tmp_path / "mine.h").stat().st_size
    loss = policy.export_c(tmp_path / "mine.h", int8=True)
    assert "the same action in" in loss and (tmp_path / "mine.h").stat().st_size < floats
    with pytest.raises(ValueError, match="not a name in C"):
        policy.export_c(tmp_path / "mine.h", name="2nd")


def test_a_web_page_has_the_policy(policies, tmp_path):
    policies["pendulum"].export_html(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "plays pendulum</title>" in page and 'id="player-runtime"' in page and "src=" not in page
    with pytest.raises(OSError, match="cannot be written"):
        policies["pendulum"].export_html(tmp_path / "absent" / "page.html")


@pytest.mark.parametrize("env", SETTINGS)
def test_safetensors_hold_the_state_dict(policies, env, tmp_path):
    policy = policies[env]
    path = tmp_path / "policy.safetensors"
    policy.export_safetensors(path)
    with safe_open(path, "numpy") as file:
        assert set(file.keys()) == set(policy.state_dict())
        for name, array in policy.state_dict().items():
            np.testing.assert_array_equal(file.get_tensor(name), array)
        assert policy.env in file.metadata()["operant"]


def test_one_observation_has_no_batch(policies):
    for env, policy in policies.items():
        obs = observations(policy, 3)
        np.testing.assert_array_equal(policy(rows(obs, 1)), policy(obs)[1])
        outputs, value = policy.evaluate(rows(obs, 1))
        assert outputs.ndim == 1 and np.ndim(value) == 0, env


def test_rows_depend_neither_on_their_number_nor_on_threads(policies):
    for policy in policies.values():
        obs = observations(policy, 5000)
        alone = operant.load(policy.path, threads=1, seed=1)
        np.testing.assert_array_equal(policy(obs), alone(obs))
        np.testing.assert_array_equal(policy(obs)[4000:4010], policy(rows(obs, slice(4000, 4010))))
        shared = operant.load(policy.path, threads=3, seed=1)
        np.testing.assert_array_equal(shared(obs, deterministic=False), alone(obs, deterministic=False))


def test_draws_follow_the_policy_and_the_seed(policies):
    policy = operant.load(policies["acrobot"].path, seed=5)
    obs = np.repeat(observations(policy, 1), 20_000, 0)
    logits = policy.evaluate(obs[0])[0].astype(np.float64)
    expected = np.exp(logits) / np.exp(logits).sum()
    first = policy(obs, deterministic=False)
    counts = np.bincount(first, minlength=3) / len(obs)
    np.testing.assert_allclose(counts, expected, atol=0.02)
    assert (policy(obs, deterministic=False) != first).any()
    policy.seed(5)
    np.testing.assert_array_equal(policy(obs, deterministic=False), first)
    continuous = operant.load(policies["pendulum"].path)
    low, high = continuous.state_dict()["action_low"], continuous.state_dict()["action_high"]
    drawn = continuous(observations(continuous, 1000), deterministic=False)
    assert (drawn >= low).all() and (drawn <= high).all() and drawn.std() > 0.1


def test_other_types_of_observations_are_converted(policies):
    policy = policies["cartpole"]
    obs = observations(policy, 4)
    np.testing.assert_array_equal(policy(obs.astype(np.float64)), policy(obs))
    np.testing.assert_array_equal(policy(obs.tolist()), policy(obs))
    np.testing.assert_array_equal(policy(np.asfortranarray(obs)), policy(obs))
    bits = policies["minatar_breakout"]
    seen = observations(bits, 4)
    np.testing.assert_array_equal(bits(seen.astype(np.uint8)), bits(seen))


def test_a_policy_pickles_with_its_draws(policies):
    policy = operant.load(policies["cartpole"].path, seed=2)
    obs = observations(policy, 100)
    policy(obs, deterministic=False)
    copy = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(copy(obs, deterministic=False), policy(obs, deterministic=False))


class Tensor:
    """An array as PyTorch has it: it must be detached and copied to the host first."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return SimpleNamespace(cpu=lambda: self.array)


@pytest.mark.parametrize("env", ["pendulum", "cartpole"])
def test_a_policy_acts_with_the_arrays_that_it_is_given(policies, env):
    policy, before = operant.load(policies[env].path), policies[env].state_dict()
    rng = np.random.default_rng(1)
    factors = {name: 1 if name.startswith("action_") else rng.uniform(0.5, 1.5, array.shape) for name, array in before.items()}
    changed = {name: (array * factors[name]).astype(np.float32) for name, array in before.items()}
    policy.load_state_dict({name: Tensor(array) for name, array in changed.items()})
    obs = observations(policy, 333)
    for copy in (policy, pickle.loads(pickle.dumps(policy))):
        assert repr(copy).endswith(", changed)")
        for name, array in copy.state_dict().items():
            np.testing.assert_array_equal(array, changed[name], name)
        np.testing.assert_array_equal(copy(obs), policy(obs))
    for ours, theirs in zip(policy.evaluate(obs), numpy_forward(policy, obs), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5 * np.abs(theirs).max())
    assert not np.array_equal(policy.evaluate(obs)[0], policies[env].evaluate(obs)[0])


def test_arrays_that_do_not_fit_are_refused(policies):
    policy = operant.load(policies["pendulum"].path)
    before = policy.state_dict()
    bias = before["policy.bias"]
    for change, says in [
        ({"policy.bias": None}, "policy.bias is missing"),
        ({"head.bias": bias}, "head.bias is not one of the policy's arrays"),
        ({"policy.bias": np.zeros(2)}, r"policy.bias: expected shape \[1\], got \[2\]"),
        ({"policy.bias": bias * np.nan}, "policy.bias: expected finite numbers, got NaN"),
        ({"action_low": before["action_low"] - 1}, "action_low: the bounds of actions are the environment's"),
        ({"obs_norm.scale": -before["obs_norm.scale"]}, "obs_norm.scale: expected reciprocals"),
    ]:
        given = {name: array for name, array in {**before, **change}.items() if array is not None}
        with pytest.raises(ValueError, match=says):
            policy.load_state_dict(given)
    assert all(np.array_equal(array, before[name]) for name, array in policy.state_dict().items())
    assert repr(policy).endswith("')")


def test_a_forked_child_acts(policies):
    # In its own process, where no other package has started threads.
    script = f"""
import os, numpy, operant
policy = operant.load({os.fspath(policies["cartpole"].path)!r}, threads=2)
obs = numpy.random.default_rng(0).normal(size=(5000, 4)).astype("f4")
expected = policy(obs)
child = os.fork()
if child == 0:
    os._exit(0 if (policy(obs) == expected).all() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.long
def test_a_good_policy_is_good_in_gymnasium(tmp_path):
    import gymnasium

    run = operant.train("cartpole", seed=1, run_dir=tmp_path, ring=False, progress=False)
    assert run.result["eval_return_mean"] == 500
    envs = gymnasium.make_vec("CartPole-v1", 20, vectorization_mode="sync")
    obs, _ = envs.reset(seed=1)
    returns, playing = np.zeros(20), np.ones(20, bool)
    while playing.any():
        obs, rewards, terminated, truncated, _ = envs.step(run.policy(obs))
        returns += rewards * playing
        playing &= ~(terminated | truncated)
    assert returns.mean() >= 475


@pytest.mark.parametrize("env", SETTINGS)
@pytest.mark.parametrize("mode", ["same_step", "next_step"])
@pytest.mark.parametrize("deterministic", [True, False])
def test_a_rollout_is_the_loop_in_one_call(policies, env, mode, deterministic):
    count, steps = 150, 40
    inside = operant.make_vec(env, count, seed=1, threads=2, autoreset_mode=mode)
    outside = operant.make_vec(env, count, seed=1, threads=1, autoreset_mode=mode)
    inside.reset(), outside.reset()
    policy, same = (operant.load(policies[env].path, seed=4) for _ in range(2))
    out = None
    for _ in range(2):
        whole = out = inside.rollout(policy, steps, deterministic=deterministic, out=out)
        loop = outside.rollout(lambda obs: same(obs, deterministic=deterministic), steps)
        assert set(whole) == set(loop) and ("final_obs" in whole) == (mode == "same_step")
        for name, array in whole.items():
            other = loop[name]
            if name == "final_obs":
                array, other = rows(array, whole["ended"]), rows(other, loop["ended"])
            assert data_equivalence(array, other, exact=True), name
    assert data_equivalence(rows(whole["obs"], slice(-1)), rows(whole["observations"], slice(1, None)), exact=True)
    assert whole["actions"].shape[:2] == (steps, count)
    actions, now = inside.action_space.sample(), [envs.get_state()["step"] for envs in (inside, outside)]
    assert now[0] == now[1]
    assert data_equivalence(inside.step(actions)[0], outside.step(actions)[0], exact=True)


def test_a_rollout_refuses_another_environments_policy(policies):
    envs = operant.make_vec("acrobot", 4, seed=1)
    envs.reset()
    before = envs.get_state()["words"]
    with pytest.raises(ValueError, match="trained in cartpole, whose spaces are not those of acrobot"):
        envs.rollout(policies["cartpole"], 5)
    np.testing.assert_array_equal(envs.get_state()["words"], before)
    with pytest.raises(ValueError, match="expected what rollout returned for 5 steps"):
        envs.rollout(None, 5, out=envs.rollout(None, 4))
    with pytest.raises(ValueError, match="steps: expected a whole number"):
        envs.rollout(None, 0)


@pytest.mark.parametrize(
    ("obs", "kind", "says"),
    [
        (np.zeros((3, 5)), ValueError, r"expected shape \(4,\) or \(N, 4\), got \(3, 5\)"),
        (np.zeros(3), ValueError, "expected shape"),
        (np.array([[0, 0, np.nan, 0]]), ValueError, "got NaN in row 0, feature 2"),
        (np.array([[0, -np.inf, 0, 0]]), ValueError, "got -inf in row 0, feature 1"),
        (np.array(["a"] * 4), TypeError, "expected numbers"),
        (np.zeros((2, 2, 4)), ValueError, "expected shape"),
    ],
)
def test_bad_observations(policies, obs, kind, says):
    with pytest.raises(kind, match=says):
        policies["cartpole"](obs)


def test_unseeded_policies_draw_differently(policies):
    one, other = (operant.load(policies["acrobot"].path) for _ in range(2))
    obs = observations(one, 1000)
    assert (one(obs, deterministic=False) != other(obs, deterministic=False)).any()
    with pytest.raises(ValueError, match="seed: expected"):
        one.seed(-1)
    with pytest.raises(ValueError, match="threads: expected a whole number from 0 to 1024"):
        operant.load(one.path, threads=10**6)


def test_bits_are_bits(policies):
    policy = policies["minatar_breakout"]
    for wrong in (0.3, np.nan, 2):
        with pytest.raises(ValueError, match="expected bits"):
            policy(np.full((1, 10, 10, 4), wrong))


WHOLE = {"image": np.zeros((2, 3, 3, 3), np.uint8), "flags": np.zeros((2, 5, 7), bool), "direction": np.zeros(2, int)}
WHOLE |= {"mission": np.zeros((2, 2), int), "speed": np.zeros((2, 2), "f4"), "picture": np.zeros((2, 2, 3), np.uint8)}


def changed(name, at, value):
    array = WHOLE[name].copy() if name == "speed" else WHOLE[name].astype(int)
    array[at] = value
    return {**WHOLE, name: array}


@pytest.mark.skipif(not KINDS, reason="this package was built without its test environments")
@pytest.mark.parametrize(
    ("env", "obs", "kind", "says"),
    [
        ("test_index", 500, ValueError, "obs: expected whole numbers from 0 to 499, got 500 in row 0, number 0"),
        ("test_index", [3, -1], ValueError, "got -1 in row 1"),
        ("test_index", [3.0], TypeError, "obs: expected integers, got dtype float64"),
        ("test_index", [[3]], ValueError, r"obs: expected shape \(\) or \(N,\), got \(1, 1\)"),
        ("test_hand", (31, 10, 2), ValueError, "from 0 to 1, got 2 in row 0, number 2"),
        ("test_cells", np.full((1, 3, 4, 3), 7, np.uint8), ValueError, "from 0 to 5, got 7 in row 0, number 1"),
        ("test_image", np.full((5, 6, 3), 256), ValueError, "from 0 to 255, got 256"),
        ("test_image", np.zeros((5, 6, 3)), TypeError, "expected integers"),
        ("test_vocabulary", np.full((2, 5), 2**32), ValueError, "from 0 to 999, got 4294967296"),
        ("test_parts", np.zeros(3), TypeError, "obs: expected a dictionary of image, direction, .*, got ndarray"),
        ("test_parts", {"image": 0}, ValueError, "expected a dictionary of image, direction, .*, got image"),
        ("test_parts", {**WHOLE, "direction": 0}, ValueError, r"as many rows in each part, got obs\['image'\] 2, obs\['direction'\] 1"),
        ("test_parts", changed("image", (1, 2, 2, 1), 6), ValueError, r"obs\['image'\]: .*from 0 to 5, got 6 in row 1, number 25"),
        ("test_parts", changed("speed", (1, 1), np.nan), ValueError, r"obs\['speed'\]: .*NaN in row 1, feature 1"),
        ("test_parts", changed("speed", (1, 1), np.inf), ValueError, r"obs\['speed'\]: .*inf in row 1, feature 1"),
        ("test_parts", changed("flags", (0, 0, 0), 2), ValueError, r"obs\['flags'\]: expected bits"),
        ("test_parts", changed("mission", (0, 1), 7), ValueError, r"obs\['mission'\]: .*from 0 to 6, got 7"),
    ],
)
def test_bad_observations_of_every_kind(policies, env, obs, kind, says):
    with pytest.raises(kind, match=says):
        policies[env](obs)


@pytest.mark.skipif(not KINDS, reason="this package was built without its test environments")
def test_whole_numbers_of_every_type_are_the_same(policies):
    for env in KINDS:
        obs = observations(policies[env], 50)
        wide = {name: of.astype(np.int64) if of.dtype.kind == "u" else of for name, of in parts(obs).items()}
        np.testing.assert_array_equal(policies[env](wide.get(None, wide)), policies[env](obs))
    assert policies["test_parts"](WHOLE).shape == (2,)


def parts(obs):
    return obs if isinstance(obs, dict) else {None: obs}


@pytest.mark.skipif(not KINDS, reason="this package was built without its test environments")
def test_a_word_is_an_option_of_training(tmp_path):
    run = operant.train(
        "test_cells", env_options={"view": "bits"}, run_dir=tmp_path, ring=False, seed=1, total_timesteps=4096,
        eval_episodes=1, num_steps=64, progress=False,
    )
    assert run.policy.env_options == {"view": "bits"}
    envs = operant.make_vec(run.policy.env, 5, seed=1, **run.policy.env_options)
    obs, _ = envs.reset()
    assert obs.dtype == np.bool_ and run.policy(obs) in envs.action_space
    with pytest.raises(ValueError, match='view.*"pixels"'):
        operant.train("test_cells", env_options={"view": "pixels"}, run_dir=tmp_path, ring=False, progress=False)


def test_bad_arguments(policies, tmp_path):
    policy = policies["cartpole"]
    with pytest.raises(ValueError, match="all actions of cartpole are legal"):
        policy(observations(policy, 2), action_mask=np.ones((2, 2)))
    with pytest.raises(OSError, match="cannot be written"):
        policy.export_onnx(tmp_path / "absent" / "p.onnx")
    assert policy(observations(policy, 0)).shape == (0,)
    outputs, values = policy.evaluate(observations(policy, 0))
    assert outputs.shape == (0, 2) and values.shape == (0,)
    envs = operant.make_vec("cartpole", 4, seed=1)
    envs.reset()
    with pytest.raises(TypeError, match="policy: expected a Policy, a function or None"):
        envs.rollout("mine", 5)
    for out in (3, {}, {"observations": 3}):
        with pytest.raises(TypeError, match="out: expected what rollout returned"):
            envs.rollout(policy, 5, out=out)


@pytest.fixture(scope="module", params=["mingru", "lstm"])
def remembering(request, tmp_path_factory):
    return operant.train(
        "cartpole_no_velocity", run_dir=tmp_path_factory.mktemp("runs"), ring=False, seed=1, total_timesteps=16384,
        eval_episodes=1, num_envs=16, num_steps=64, progress=False, core=request.param, hidden=[16],
    ).policy


def test_a_policy_with_memory_is_stepped_with_its_state(remembering):
    policy = remembering
    obs = observations(policy, 5)
    with pytest.raises(ValueError, match="policy.predict"):
        policy(obs)
    first, state = policy.predict(obs)
    assert state.shape == (5, policy.state_size) and state.dtype == np.float32 and state.any()
    kept = state.copy()
    _, after = policy.predict(obs, state)
    np.testing.assert_array_equal(state, kept)
    np.testing.assert_array_equal(policy.predict(obs, np.asfortranarray(state))[1], after)
    assert not np.array_equal(after, state)
    # An episode that starts knows nothing of the last one.
    again, restarted = policy.predict(obs, after, episode_start=[True] * 5)
    np.testing.assert_array_equal(again, first)
    np.testing.assert_array_equal(restarted, state)
    _, some = policy.predict(obs, state, episode_start=[True, False, False, False, True])
    np.testing.assert_array_equal(some[[0, 4]], state[[0, 4]])
    np.testing.assert_array_equal(some[1:4], after[1:4])
    action, one = policy.predict(obs[2], state[2])
    assert action == policy.predict(obs, state)[0][2]
    np.testing.assert_array_equal(one, after[2])
    outputs, _ = policy.evaluate(obs, state)
    np.testing.assert_array_equal(outputs.argmax(1), policy.predict(obs, state)[0])
    with pytest.raises(ValueError, match="state: expected shape"):
        policy.predict(obs, state[:4])
    with pytest.raises(ValueError, match="episode_start: expected shape"):
        policy.predict(obs, state, episode_start=[True])


def test_a_policy_without_memory_has_no_state(policies):
    policy = policies["cartpole"]
    obs = observations(policy, 3)
    actions, state = policy.predict(obs)
    assert state is None and policy.state_size == 0
    np.testing.assert_array_equal(actions, policy(obs))
    with pytest.raises(ValueError, match="no memory"):
        policy.predict(obs, np.zeros((3, 4)))


@pytest.mark.parametrize("mode", ["same_step", "next_step"])
def test_a_rollout_remembers_within_episodes_and_forgets_between_them(remembering, mode):
    def envs():
        made = operant.make_vec("cartpole_no_velocity", 37, seed=3, autoreset_mode=mode)
        obs, _ = made.reset()
        return made, obs

    one, _ = envs()
    # In parts: the memory continues.
    parts = [one.rollout(remembering, steps, deterministic=True) for steps in (7, 1, 600)]
    actions = np.concatenate([part["actions"] for part in parts])
    stepped, obs = envs()
    state, start, ended, episodes = None, np.zeros(37, bool), np.zeros(37, bool), 0
    for expected in actions:
        chosen, state = remembering.predict(obs, state, episode_start=start)
        # A step that only resets ignores its action.
        np.testing.assert_array_equal(chosen[~ended], expected[~ended])
        obs, _, terminated, truncated, _ = stepped.step(expected)
        over = terminated | truncated
        episodes += over.sum()
        start = over | ended if mode == "next_step" else over
        ended = over if mode == "next_step" else ended
    assert episodes >= 37


def test_rollouts_remember_across_steps_by_hand_and_partial_resets(remembering):
    """A pending reset is known after steps by hand, and a reset of some environments leaves the others' memory."""
    envs = operant.make_vec("cartpole_no_velocity", 16, seed=3, autoreset_mode="next_step")
    envs.reset()
    ended = np.zeros(16, bool)
    while not ended.any():
        _, _, terminated, truncated, _ = envs.step(np.ones(16, np.int64))
        ended = terminated | truncated
    part = envs.rollout(remembering, 3, deterministic=True)
    # The second step is the first of the new episodes: no memory of the last observation of the old ones.
    chosen, _ = remembering.predict(part["observations"][1][ended])
    np.testing.assert_array_equal(part["actions"][1][ended], chosen)

    envs = operant.make_vec("cartpole_no_velocity", 16, seed=3, autoreset_mode="disabled")
    envs.reset()
    first = envs.rollout(remembering, 5, deterministic=True)
    mask = np.arange(16) < 4
    envs.reset(options={"reset_mask": mask})
    second = envs.rollout(remembering, 1, deterministic=True)
    state = None
    for obs in first["observations"]:
        _, state = remembering.predict(obs, state)
    chosen, _ = remembering.predict(second["observations"][0], state, episode_start=mask)
    np.testing.assert_array_equal(second["actions"][0], chosen)
