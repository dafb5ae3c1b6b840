"""`operant.Collector`: what it hands out, against the policy and NumPy; and what it refuses."""

import inspect
import pickle

import gym_envs
import numpy as np
import pytest
from gymnasium.error import ClosedEnvironmentError

import operant

# Pendulum's episodes end by their time limit alone; t_maze has a policy with memory; game_2048 has masks.
CASES = {
    "cartpole": {"hidden": [16], "num_steps": 70},
    "pendulum": {"hidden": [16], "num_steps": 230},
    "t_maze": {"core": "gru", "core_width": 8, "hidden": [12], "num_steps": 90},
    "minatar_breakout": {"hidden": [16], "num_steps": 40},
    "game_2048": {"hidden": [16], "num_steps": 40},
}


def collector(env, **changed):
    settings = {"num_envs": 21, "seed": 3, "gamma": 0.99, "gae_lambda": 0.95}
    return operant.Collector(env, **{**settings, **CASES[env], **changed})


def kept(rollout):
    """A copy: the next rollout overwrites the arrays."""
    return {name: pickle.loads(pickle.dumps(array)) for name, array in rollout.items()}


def row(obs, t):
    return {name: array[t] for name, array in obs.items()} if isinstance(obs, dict) else obs[t]


@pytest.mark.parametrize("env", CASES)
def test_arrays_are_what_the_policy_and_the_environments_compute(env):
    made = collector(env, threads=2)
    policy, states, total, previous = made.policy, None, 0, None
    for _ in range(2):
        got = kept(made.collect())
        if previous is not None:
            np.testing.assert_allclose(previous["next_values"], got["values"][0], rtol=1e-5, atol=1e-5)
        previous = got
        steps, n = got["rewards"].shape
        assert (steps, n) == (CASES[env]["num_steps"], 21)
        if policy.state_size:
            states = got["states"]
            assert states.shape == (n, policy.state_size) and (states.any() or total == 0)
        for t in range(steps):
            outputs, values = policy.evaluate(row(got["observations"], t), states)
            np.testing.assert_allclose(got["values"][t], values, rtol=1e-5, atol=1e-5)
            if policy.state_size:
                states = policy.predict(row(got["observations"], t), states)[1]
                states[got["ended"][t]] = 0
            if "action_mask" in got:
                mask = got["action_mask"][t] != 0
                assert mask.any(1).all() and mask[np.arange(n), got["actions"][t]].all()
                outputs = np.where(mask, outputs, -1e8)
            if got["actions"].dtype == np.int64 and got["actions"].ndim == 2:
                logits = outputs.astype(np.float64)
                logits -= np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) + logits.max(1, keepdims=True)
                expected = logits[np.arange(n), got["actions"][t]]
            else:
                deviation = np.exp(policy.state_dict()["log_std"].astype(np.float64))
                z = (got["actions"][t] - outputs) / deviation
                expected = (-0.5 * z**2 - np.log(deviation) - 0.5 * np.log(2 * np.pi)).sum(1)
            np.testing.assert_allclose(got["logprobs"][t], expected, rtol=1e-4, atol=1e-5)
        total += got["ended"].sum()
        np.testing.assert_array_equal(got["ended"], got["terminated"] | got["truncated"])
        assert ((got["final_values"] != 0) <= (got["truncated"] & ~got["terminated"])).all()
        np.testing.assert_array_equal(got["episode_lengths"] != 0, got["ended"])
        # The formula of docs/ppo.md 16 and 17, in double precision.
        advantage, following = np.zeros(n), got["next_values"].astype(np.float64)
        for t in reversed(range(steps)):
            goes_on = 1.0 - got["ended"][t]
            delta = got["rewards"][t] + 0.99 * (goes_on * following + got["final_values"][t]) - got["values"][t]
            advantage = delta + 0.99 * 0.95 * goes_on * advantage
            np.testing.assert_allclose(got["advantages"][t], advantage, rtol=1e-3, atol=2e-3)
            following = got["values"][t].astype(np.float64)
        np.testing.assert_allclose(got["returns"], got["advantages"] + got["values"], rtol=1e-6)
    if env != "game_2048":
        assert total, "some episodes end"
    if env == "pendulum":
        assert got["final_values"].any() and np.abs(got["actions"]).max() > 0


def test_a_truncated_episode_takes_the_value_of_its_last_observation():
    made = collector("pendulum")
    dense = operant.make_vec("pendulum", 21, seed=3, final_obs="dense", reward_dtype=np.float32)
    dense.reset()
    got = kept(made.collect())
    played = dense.step_many(got["actions"].clip(-2, 2))
    np.testing.assert_array_equal(played["rewards"], got["rewards"])
    ended = got["truncated"]
    assert ended.sum() == 21
    expected = made.policy.evaluate(played["final_obs"][ended])[1]
    np.testing.assert_allclose(got["final_values"][ended], expected, rtol=1e-5, atol=1e-5)


def test_a_truncated_episode_takes_the_memory_before_the_reset():
    settings = {"core": "gru", "core_width": 8}
    made = collector("pendulum", **settings)
    dense = operant.make_vec("pendulum", 21, seed=3, final_obs="dense", reward_dtype=np.float32)
    dense.reset()
    got = kept(made.collect())
    played = dense.step_many(got["actions"].clip(-2, 2))
    states = got["states"]
    for t in range(len(got["rewards"])):
        states = made.policy.predict(got["observations"][t], states)[1]
        ended = got["ended"][t]
        if ended.any():
            expected = made.policy.evaluate(played["final_obs"][t][ended], states[ended])[1]
            np.testing.assert_allclose(got["final_values"][t][ended], expected, rtol=1e-4, atol=1e-4)
        states[ended] = 0
    assert got["ended"].any()


def test_what_a_notebook_shows_has_names_and_shapes_alone():
    made = collector("minatar_breakout")
    assert repr(made) == "operant.Collector('minatar_breakout', num_envs=21, num_steps=40)"
    assert "'actions': ('int64', (40, 21))" in repr(made.collect()) and "array" not in repr(made.collect())


def test_a_policy_of_a_run_normalises_observations(tmp_path):
    run = operant.train("pendulum", seed=2, norm_obs=True, hidden=[8], num_envs=16, num_steps=32, num_minibatches=4, total_timesteps=512, run_dir=tmp_path, ring=False, progress=False)
    made = operant.Collector("pendulum", run.policy, num_envs=21, num_steps=20, seed=3)
    got = made.collect()
    np.testing.assert_allclose(got["values"][7], run.policy.evaluate(got["observations"][7])[1], rtol=1e-5, atol=1e-5)
    made.close()
    with pytest.raises(ClosedEnvironmentError):
        made.collect()


@pytest.mark.parametrize("env", ["cartpole", "t_maze"])
def test_a_collector_plays_what_rollout_plays_whatever_the_threads(env):
    one, other = (collector(env, threads=threads) for threads in (1, 2))
    first, second = [kept(one.collect()) for _ in range(2)], [kept(other.collect()) for _ in range(2)]
    for a, b in zip(first, second, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
    envs = operant.make_vec(env, 21, seed=3)
    envs.reset()
    policy = operant.Policy.new(env, seed=3, **{k: v for k, v in CASES[env].items() if k != "num_steps"})
    for a in first:
        played = envs.rollout(policy, CASES[env]["num_steps"])
        for name in ("observations", "actions", "rewards", "ended"):
            np.testing.assert_array_equal(played[name], a[name], err_msg=name)


def test_new_weights_act_in_the_next_rollout_and_memory_continues():
    made = collector("t_maze")
    before = kept(made.collect())
    weights = {name: array * 1.5 for name, array in made.policy.state_dict().items()}
    made.load(weights)
    after = kept(made.collect())
    assert after["states"].any(), "the memory continues"
    values = made.policy.evaluate(after["observations"][0], after["states"])[1]
    np.testing.assert_allclose(after["values"][0], values, rtol=1e-5, atol=1e-5)
    for name, array in weights.items():
        np.testing.assert_array_equal(made.policy.state_dict()[name], array)
    with pytest.raises(ValueError):
        made.load({**weights, "policy.bias": np.zeros(99, np.float32)})
    with pytest.raises(ValueError):
        made.load({})
    assert before["states"].shape == after["states"].shape


def test_a_new_policy_begins_as_training_does(tmp_path):
    policy = operant.Policy.new("cartpole", seed=5, hidden=[8])
    run = operant.train("cartpole", seed=5, hidden=[8], total_timesteps=1, learning_rate=1e-30, run_dir=tmp_path, ring=False, progress=False)
    for name, array in run.policy.state_dict().items():
        np.testing.assert_allclose(policy.state_dict()[name], array, atol=1e-12, err_msg=name)
    other = operant.Policy.new("cartpole", seed=6, hidden=[8])
    begun = operant.train("cartpole", seed=5, init_from=other, total_timesteps=1, learning_rate=1e-30, run_dir=tmp_path, ring=False, progress=False)
    for name, array in begun.policy.state_dict().items():
        np.testing.assert_allclose(other.state_dict()[name], array, atol=1e-12, err_msg=name)
    assert begun.result["config"]["init_from"] == "a new policy" and begun.result["config"]["hidden"] == [8]
    assert policy.env_steps == 0 and policy.run == "" and "cartpole" in repr(policy)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(policy)


def test_pqn_has_values_and_no_log_probabilities():
    got = operant.Collector("cartpole", num_envs=16, num_steps=8, algorithm="pqn").collect()
    assert "logprobs" not in got and got["values"].any()


def test_flat_arrays_share_memory():
    made = collector("cartpole")
    got = made.collect()
    flat = got.flat()
    assert flat["observations"].shape == (70 * 21, 4) and flat["actions"].shape == (70 * 21,)
    assert np.shares_memory(flat["observations"], got["observations"]) and "next_values" not in flat
    first = got["rewards"]
    assert made.collect()["rewards"] is first, "arrays are written over"


@pytest.mark.parametrize(
    ("keywords", "kind", "says"),
    [
        ({"num_envs": 0}, ValueError, "num_envs"),
        ({"num_steps": 1.5}, ValueError, "num_steps"),
        ({"gamma": 1.5}, ValueError, "gamma"),
        ({"hiden": [3]}, TypeError, "hiden"),
        ({"norm_obs": True}, ValueError, "norm_obs"),
        ({"policy": "x"}, TypeError, "policy: expected a Policy"),
        ({"device": "cuda", "hidden": [3]}, ValueError, "device: a Collector does not use this setting: it collects on the CPU.*It takes num_envs, .*hidden"),
        ({"num_envs": 4, "learning_rate": 1e-3, "ent_coef": 0.1}, ValueError, "^learning_rate, ent_coef: a Collector does not use these settings"),
    ],
)
def test_what_a_collector_refuses(keywords, kind, says):
    with pytest.raises(kind, match=says):
        operant.Collector("cartpole", **keywords)


@pytest.mark.parametrize("env", ["gym:CartPole-v1", gym_envs.Steady, gym_envs.Steady(), lambda: gym_envs.Steady()])
def test_gymnasium_environments_are_refused_with_what_to_do(env):
    with pytest.raises(ValueError, match=r"^env: a Collector steps built-in environments and worlds, and .* is a Gymnasium environment; operant.train"):
        operant.Collector(env)


def test_only_settings_that_are_used_are_shown():
    shown = inspect.signature(operant.Collector).parameters
    assert {"num_envs", "gae_lambda", "hidden", "core"} <= set(shown) and not {"device", "learning_rate", "settings"} & set(shown)
    assert "gamma: Discount" in operant.Collector.__init__.__doc__ and "learning_rate:" not in operant.Collector.__init__.__doc__


def test_a_policy_of_another_environment_is_refused():
    policy = operant.Policy.new("cartpole")
    with pytest.raises(ValueError, match="spaces are not those"):
        operant.Collector("acrobot", policy)
    with pytest.raises(ValueError, match="hidden: the policy has settings of its own"):
        operant.Collector("cartpole", policy, hidden=[3])
