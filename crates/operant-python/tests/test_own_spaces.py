"""What a policy takes and gives is what the environment gives and takes: in every space, and in every way out of the engine."""

import pickle
from pathlib import Path
from urllib.parse import urlencode

import echo_envs
import gym_envs
import gymnasium
import numpy as np
import pytest
import test_gym
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from test_gym import QUICK, short

import operant
from operant import _gym, _register, _translate

place = test_gym.place
# The others run in `cargo xtask test --all`.
FEW = (0, 1, 2)
NUMBERS = [pytest.param(k, marks=() if k in FEW else pytest.mark.long) for k in range(len(echo_envs.ECHOES))]


def played(number):
    """A short run with these spaces, and what its environments showed and were given in an evaluation: observations, masks, actions."""
    log = Path("log").absolute()
    run = short(f"echo_envs:Echoes?{urlencode({'number': number, 'log': str(log)})}", options={"restarts": 0}, total_timesteps=256)
    log.unlink()
    run.eval(2)
    records = []
    with log.open("rb") as file:
        while file.peek(1):
            records.append(pickle.load(file))
    assert len(records) >= 12
    return run, records[:40]


def stacked(space, items):
    """Several values as a vector environment gives them."""
    return concatenate(space, items, create_empty_array(space, len(items)))


def assert_same(ours, theirs, *, exact=True):
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs)
        pairs = [(ours[key], theirs[key]) for key in theirs]
    elif isinstance(theirs, tuple):
        assert isinstance(ours, tuple) and len(ours) == len(theirs)
        pairs = list(zip(ours, theirs, strict=True))
    else:
        assert np.shape(ours) == np.shape(theirs) and np.asarray(ours).dtype == np.asarray(theirs).dtype
        return np.testing.assert_allclose(np.float64(ours), np.float64(theirs), rtol=0, atol=0 if exact else 2e-3)
    for one, other in pairs:
        assert_same(one, other, exact=exact)


@pytest.mark.parametrize("number", NUMBERS)
def test_actions_are_those_of_the_engine_in_every_way_out(number):
    obs_space, action_space = echo_envs.ECHOES[number]
    run, records = played(number)
    policy = run.policy
    masked = policy.metadata["action_mask"]
    assert masked == (number in (0, 2, 15))
    for obs, mask, action in records:
        given = {"action_mask": mask} if masked else {}
        ours = policy(obs, **given)
        assert ours in action_space and type(ours) is type(action)
        assert_same(ours, action)
        assert policy(obs, deterministic=False, **given) in action_space
        assert policy.predict(obs, **given)[1] is None and policy.evaluate(obs)[0].ndim == 1
    many = stacked(obs_space, [obs for obs, _, _ in records])
    masks = np.stack([_translate.legal_choices(policy.metadata["spaces"]["action"], mask) for _, mask, _ in records]) if masked else None
    actions = policy(many, action_mask=masks)
    assert policy(many, action_mask=masks, deterministic=False) in batch_space(action_space, len(records))
    assert actions in batch_space(action_space, len(records))
    for ours, (_, _, action) in zip(iterate(batch_space(action_space, len(records)), actions), records, strict=True):
        np.testing.assert_equal(ours, action)
    outputs, values = policy.evaluate(many)
    assert len(outputs) == len(values) == len(records)
    in_onnx(policy, many, masks, actions)
    with_files(policy)


def in_onnx(policy, many, masks, actions):
    """The exported model computes the same from the same arrays."""
    import onnx
    import onnxruntime

    policy.export_onnx("policy.onnx")
    model = onnx.load("policy.onnx")
    onnx.checker.check_model(model, full_check=True)
    names = [*(it.name for it in model.graph.input), *(it.name for it in model.graph.initializer)]
    names += [name for node in model.graph.node for name in node.output]
    assert len(names) == len(set(names)), "a name is assigned twice"
    session = onnxruntime.InferenceSession("policy.onnx")
    spaces = policy.metadata["spaces"]
    arrays = list(_translate.taken_apart(spaces["observation"], many, "obs")) + ([masks] if masks is not None else [])
    feed = dict(zip([it.name for it in session.get_inputs()], arrays, strict=True))
    found = dict(zip([it.name for it in session.get_outputs()], session.run(None, feed), strict=True))
    theirs = [found[name] for name in found if name.split(".")[0] == "action"]
    assert_same(tuple(theirs), tuple(_translate.taken_apart(spaces["action"], actions, "actions")), exact=False)
    np.testing.assert_allclose(found["value"], policy.evaluate(many)[1], atol=1e-4)


def with_files(policy):
    """Files describe the spaces."""
    from safetensors import safe_open

    policy.export_safetensors("policy.safetensors")
    with safe_open("policy.safetensors", "numpy") as file:
        assert file.metadata()["operant"] == policy._core.metadata()
    paths = [part["path"] for part in policy.metadata["observation"]]
    assert len(paths) == len(_translate.arrays_of(policy.metadata["spaces"]["observation"]))
    again = operant.load(policy.path)
    assert again.metadata == policy.metadata


def test_observations_outside_of_the_space_are_refused():
    policy = played(0)[0].policy
    mask = [1, 0, 0]
    for obs in (0, 7, -1, np.array([1, 7])):
        with pytest.raises(ValueError, match="obs: expected whole numbers from 1 to 6, got (0|7|-1)"):
            policy(obs, action_mask=mask)
    with pytest.raises(TypeError, match="integers"):
        policy(1.0, action_mask=mask)


@pytest.mark.parametrize(
    ("mask", "says"),
    [
        (None, "has illegal actions; give"),
        ([0, 0, 0], "the action mask allows no action: let at least one be legal"),
        ([0.0, -1e9, 0.0], "contains -1000000000.0; it is 1 where a choice is legal and 0 elsewhere. Of a mask that is added to logits"),
        ([1, 2, 0], "contains 2"),
        ([1, 0], r"has the shape \(2,\); expected \(3,\)"),
        (np.ones((2, 3)), r"expected shape \(1, 3\), got \(2, 3\)"),
    ],
)
def test_masks_that_are_none(mask, says, shared):
    with pytest.raises(ValueError, match=f"action_mask: .*{says}"):
        shared(1, action_mask=mask)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A policy whose actions can be illegal, of a run of its own."""
    with pytest.MonkeyPatch.context() as patch:
        directory = tmp_path_factory.mktemp("shared")
        patch.chdir(directory)
        patch.setenv("PYTHONPATH", str(test_gym.TESTS), prepend=":")
        yield played(0)[0].policy


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("additive", "contains -1000000000.0; it is 1 where a choice is legal"),
        ("joint", r"has the shape \(2, 2\); expected \(4,\): the choices of the components \(2 \+ 2\) one after the other.*combinations"),
        ("padded", r"has the shape \(2, 3\); expected \(5,\)"),
        ("late", r'info\["action_mask"\] is there, but the first reset gave none; return it from every reset, too'),
        ("none_legal", "the action mask allows no action: let at least one be legal, or end the episode there"),
    ],
)
def test_masks_of_environments_that_are_none(kind, says):
    with pytest.raises((RuntimeError, ValueError), match=says):
        short(f"echo_envs:Masks?kind={kind}", options={"restarts": 0 if kind == "none_legal" else 16})


@pytest.mark.parametrize("kind", ["at_the_end", "board"])
def test_masks_of_environments_that_are_some(kind):
    assert short(f"echo_envs:Masks?kind={kind}", options={"restarts": 0}).state == "finished"


def test_a_run_of_an_earlier_version_is_warned_about():
    run = operant.train("gym_envs:Steady", env_options={"workers": 1}, **QUICK)
    path = run.dir / "env.world"
    text = path.read_text()
    before, _, after = text.partition('"spaces":')
    path.write_text(before + after[after.index('"atari"') :])
    with pytest.warns(UserWarning, match="an earlier version trained it and did not write the environment's own spaces"):
        assert operant.load(run.dir)(np.zeros(3, np.float32)) in range(3)


# --- Vector environments that are trained


def test_wrappers_are_refused_and_limits_kept():
    spec = gymnasium.wrappers.ClipAction(gymnasium.make("Pendulum-v1")).spec
    for wrapped in ({"id": "CartPole-v1", "wrappers": [gym_envs.Masker]}, {"id": spec}):
        with pytest.raises(ValueError, match="the wrappers of .* cannot be given to worker processes; give a function"):
            short(gymnasium.make_vec(num_envs=2, vectorization_mode="sync", **wrapped))
    limited = gymnasium.wrappers.TimeLimit(gymnasium.make("CartPole-v1"), 7).spec
    for envs in (gymnasium.make_vec(limited, num_envs=2), gymnasium.make_vec("CartPole-v1", num_envs=2, max_episode_steps=7)):
        assert _register.of_vector(envs).name == "gym:CartPole-v1?max_episode_steps=7"


def of_keyword(value):
    gymnasium.register("operant_tests/Keyword-v0", entry_point="echo_envs:Keyword")
    try:
        envs = gymnasium.make_vec("operant_tests/Keyword-v0", num_envs=2, vectorization_mode="sync", value=value)
        return _gym.parse(_register.of_vector(envs).name).arguments["value"]
    finally:
        del gymnasium.registry["operant_tests/Keyword-v0"]


@pytest.mark.parametrize("value", ["2", "true", "null", "a b&c=d?", '"q"', "[1]", "é", "", 2, 2.5, 1e300, True, None, [1, "2"], {"a": {"b": [True]}}])
def test_arguments_of_vector_environments_arrive_as_they_are(value):
    assert repr(of_keyword(value)) == repr(value)


@pytest.mark.parametrize("value", [(1, 2), [(1,)], {1: 2}, b"x", {3}, np.zeros(2), print])
def test_arguments_that_cannot_be_carried_are_refused(value):
    with pytest.raises(ValueError, match="env: the argument value of operant_tests/Keyword-v0 .*; give a function at the top of a module"):
        of_keyword(value)


def test_vector_environments_of_the_engine_keep_their_options():
    envs = gymnasium.make_vec("operant/MinAtar-Breakout-v0", num_envs=16, sticky_action_prob=0.5, threads=1, copy=False)
    assert _register.of_vector(envs) == ("minatar_breakout", 16, {"sticky_action_prob": 0.5})
    run = operant.train(envs, **{key: value for key, value in QUICK.items() if key != "num_envs"})
    assert run.policy.env_options["sticky_action_prob"] == 0.5
    with pytest.raises(ValueError, match="max_episode_steps=7 of operant/CartPole-v1 cannot be trained"):
        operant.train(gymnasium.make_vec("operant/CartPole-v1", num_envs=4, max_episode_steps=7))
