"""A policy as a PyTorch module: the same outputs, names and distributions."""

import numpy as np
import pytest
import torch

import operant

SETTINGS = {
    "cartpole": {},
    "pendulum": {"norm_obs": True, "activation": "relu", "value_bins": 9, "clip_vloss": False},
    "acrobot": {"shared_trunk": True, "residual_blocks": 2, "hidden": [12, 20]},
    "minatar_breakout": {"hidden": [64], "num_envs": 16},
    "minatar_asterix": {"conv": [[8, 3, 1]], "hidden": [32], "num_envs": 16},
    "minigrid_fetch_5x5_n2": {"conv": [[8, 3, 1], [4, 2, 2]], "activation": "relu", "num_envs": 16},
    "minigrid_empty_8x8": {"encoder": "embed", "conv": [[8, 3, 1]], "layer_norm": True, "num_envs": 16},
    "frozen_lake": {"encoder": "embed_mean", "embed_width": 9, "layer_norm": True, "num_envs": 16},
}
# Environments of the tests, one for each kind of observation.
SETTINGS |= {
    name: {"norm_obs": name == "test_numbers"}
    for name in operant.envs.names() if name.startswith("test_") and name != "test_masked"
}


def observations(policy, count):
    """Random observations as the environment gives them, and as tensors."""
    envs = operant.make_vec(policy.env, count, seed=0)
    obs, _ = envs.reset()
    if policy.env in ("cartpole", "pendulum", "acrobot"):
        obs = np.random.default_rng(0).normal(size=obs.shape).astype(np.float32)
    if isinstance(obs, dict):
        return obs, {name: torch.from_numpy(array) for name, array in obs.items()}
    return obs, torch.from_numpy(obs)


@pytest.mark.parametrize("core", ["mingru", "gru", "lstm"])
@pytest.mark.parametrize("shared_trunk", [True, False])
def test_a_module_with_memory_remembers_what_the_policy_does(core, shared_trunk, tmp_path):
    run = operant.train(
        "minatar_asterix", run_dir=tmp_path, ring=False, seed=1, total_timesteps=4096, eval_episodes=1, num_envs=16,
        num_steps=64, progress=False, core=core, core_layers=2, hidden=[20, 12], conv=[[4, 3, 2]], shared_trunk=shared_trunk,
    )
    policy, module = run.policy, run.policy.to_torch()
    assert set(module.state_dict()) == set(policy.state_dict())
    obs, tensors = observations(policy, 20)
    ours = theirs = None
    for _ in range(3):
        with torch.no_grad():
            outputs, values, _ = module(tensors, theirs)
        expected, expected_values = policy.evaluate(obs, ours)
        np.testing.assert_allclose(outputs, expected, atol=1e-5)
        np.testing.assert_allclose(values, expected_values, atol=1e-5)
        actions, ours = policy.predict(obs, ours)
        chosen, theirs = module.act(tensors, state=theirs)
        np.testing.assert_array_equal(actions, chosen)
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("settings", [{"encoder": "embed"}, {"shared_trunk": False, "encoder": "auto", "layer_norm": True}])
def test_a_pointer_head_scores_candidates(settings, tmp_path):
    run = operant.train(
        "prover", run_dir=tmp_path, ring=False, seed=1, total_timesteps=1024, eval_episodes=1, num_envs=16, num_steps=32,
        progress=False, hidden=[12, 9], **settings,
    )
    policy, module = run.policy, run.policy.to_torch()
    obs, tensors = observations(policy, 50)
    with torch.no_grad():
        outputs, values = module(tensors)
    legal = np.ones(outputs.shape, bool)
    ours, our_values = policy.evaluate(obs)
    np.testing.assert_allclose(outputs, ours, atol=1e-5 * np.abs(ours).max())
    np.testing.assert_allclose(values, our_values, atol=1e-5 * np.abs(our_values).max())
    np.testing.assert_array_equal(module.act(tensors, torch.from_numpy(legal)), policy(obs, action_mask=legal))


# Policies of real actions.
REALS = [
    {"log_std": "network", "log_std_init": -1.0, "shared_trunk": True},
    {"action_distribution": "tanh"},
    {"action_distribution": "tanh", "log_std": "network", "core": "gru"},
    {"action_distribution": "beta", "shared_trunk": True},
]


@pytest.mark.parametrize("settings", REALS)
def test_a_collector_s_log_probabilities_are_those_of_the_module(settings):
    made = operant.Collector("pendulum", num_envs=20, num_steps=5, seed=3, hidden=[12], **settings)
    got, module = made.collect(), made.policy.to_torch()
    state = torch.from_numpy(got["states"]) if "states" in got else None
    with torch.no_grad():
        distribution, = module.distribution(torch.from_numpy(got["observations"][0]), state=state)
        logprobs = distribution.log_prob(torch.from_numpy(got["actions"][0])).sum(1)
    np.testing.assert_allclose(logprobs, got["logprobs"][0], rtol=1e-4, atol=1e-4)


# Policies with critics of actions.
CRITICS = [{"algorithm": name, "hidden": [12, 9], "learning_starts": 500, "batch_size": 32, "num_envs": 4} for name in ("sac", "td3")]
CRITICS.append(CRITICS[0] | {"value_bins": 11})


@pytest.mark.parametrize("settings", CRITICS)
def test_a_policy_leaves_its_critics_behind(settings, tmp_path):
    run = operant.train("pendulum", run_dir=tmp_path, ring=False, seed=1, total_timesteps=1500, eval_episodes=1, progress=False, **settings)
    policy, module = run.policy, run.policy.to_torch()
    assert {name for name in policy.state_dict() if not name.startswith(("critics", "log_alpha"))} == set(module.state_dict())
    obs, tensors = observations(policy, 200)
    with torch.no_grad():
        outputs, values = module(tensors)
    np.testing.assert_allclose(outputs, policy.evaluate(obs)[0], atol=1e-5)
    assert values.isnan().all()
    np.testing.assert_allclose(module.act(tensors), policy(obs), atol=1e-5)
    # Many draws at one observation have the same mean and deviation.
    one = np.repeat(obs[:1], 20_000, 0)
    ours, theirs = policy(one, deterministic=False), module.act(torch.from_numpy(one), deterministic=False).numpy()
    assert ours.std() > 0
    np.testing.assert_allclose([theirs.mean(), theirs.std()], [ours.mean(), ours.std()], atol=0.05 * ours.std())


# Networks of action values.
PQN = {"algorithm": "pqn", "num_envs": 16, "hidden": [32, 20]}
DQN = {"algorithm": "dqn", "num_envs": 16, "hidden": [32, 21], "dueling": True, "learning_starts": 500, "batch_size": 32}


@pytest.mark.parametrize(("env", "settings"), [*SETTINGS.items(), ("acrobot", PQN), ("test_parts", PQN), ("acrobot", DQN), ("acrobot", DQN | {"dueling": False, "value_bins": 11}), ("test_parts", DQN), *(("pendulum", reals) for reals in REALS if "core" not in reals)])
def test_the_module_computes_what_the_policy_does(env, settings, tmp_path):
    run = operant.train(
        env, run_dir=tmp_path, ring=False, seed=1, total_timesteps=4096, eval_episodes=1, num_steps=64,
        progress=False, **settings,
    )
    policy, module = run.policy, run.policy.to_torch()
    assert set(module.state_dict()) == set(policy.state_dict())
    for name, array in policy.state_dict().items():
        np.testing.assert_array_equal(module.state_dict()[name].numpy(), array)
    obs, tensors = observations(policy, 200)
    with torch.no_grad():
        outputs, values = module(tensors)
        actions = module.act(tensors)
    ours, our_values = policy.evaluate(obs)
    np.testing.assert_allclose(outputs, ours, atol=1e-5 * np.abs(ours).max())
    np.testing.assert_allclose(values, our_values, atol=1e-5 * np.abs(our_values).max())
    np.testing.assert_allclose(actions, policy(obs), atol=1e-5)
    assert actions.shape == policy(obs).shape
    module.act(tensors, deterministic=False)
    # It trains: every parameter that the loss reaches gets a gradient.
    outputs, values = module(tensors)
    (outputs.square().mean() + values.square().mean()).backward()
    assert all(p.grad is not None for name, p in module.named_parameters() if name != "log_std")
    torch.save(module.state_dict(), tmp_path / "module.pt")
    module.load_state_dict(torch.load(tmp_path / "module.pt"))
