"""Algorithms other than PPO: training, policies, exports and errors."""

import numpy as np
import onnxruntime
import pytest

import operant


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = {"total_timesteps": 16384, "num_envs": 16, "eval_episodes": 5, "ring": False, "progress": False}
    return operant.train("cartpole", algorithm="pqn", seed=1, run_dir=tmp_path_factory.mktemp("runs"), **settings)


def test_pqn_trains_and_says_what_it_did(run):
    assert run.result["config"]["algorithm"] == "pqn" and run.result["config"]["layer_norm"] is True
    rows = (run.dir / "metrics.csv").read_text().splitlines()
    last = dict(zip(rows[0].split(","), rows[-1].split(","), strict=True))
    assert float(last["td_loss"]) >= 0 and 0 <= float(last["epsilon"]) < 0.1 and last["policy_loss"] == ""


def test_its_policy_takes_the_greatest_value_in_every_way_out(run, tmp_path):
    policy = run.policy
    names = set(policy.state_dict())
    assert {"trunk.0.weight", "trunk.0.norm.weight", "q.weight", "q.bias"} <= names and "value.weight" not in names
    obs = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    values, best = policy.evaluate(obs)
    assert np.array_equal(best, values.max(1)) and np.array_equal(policy(obs), values.argmax(1))
    policy.export_onnx(tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    outputs = dict(zip([output.name for output in session.get_outputs()], session.run(None, {"obs": obs}), strict=True))
    assert set(outputs) == {"action", "q_values", "value"}
    np.testing.assert_allclose(outputs["q_values"], values, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(outputs["value"], best, rtol=1e-4, atol=1e-4)


def test_sampled_actions_explore(run):
    obs = np.repeat(np.array([[0.0, 0.1, 0.02, -0.1]], np.float32), 4000, 0)
    policy = operant.load(run, seed=3)
    greedy, sampled = policy(obs), policy(obs, deterministic=False)
    # Half of the 5% of random actions are the greedy one.
    assert 0.01 < np.mean(sampled != greedy) < 0.05


def test_misfits_are_named(tmp_path):
    with pytest.raises(ValueError, match="clip_coef.*ppo"):
        operant.train("cartpole", algorithm="pqn", clip_coef=0.1, run_dir=tmp_path)
    with pytest.raises(ValueError, match="real numbers"):
        operant.train("pendulum", algorithm="pqn", run_dir=tmp_path)
    with pytest.raises(ValueError, match="ppo, pqn"):
        operant.train("cartpole", algorithm="a2c", run_dir=tmp_path)
