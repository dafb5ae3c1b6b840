"""operant.fit: behaviour cloning."""

import numpy as np
import pytest
import test_train

import operant

place = test_train.place


def observations(rng, count):
    return rng.uniform(-1, 1, (count, 4)).astype(np.float32) * np.array([2.4, 2, 0.2, 2], np.float32)


def expert(obs):
    """Pushes in the direction in which the pole falls."""
    return (obs[:, 2] + 0.3 * obs[:, 3] > 0).astype(np.int64)


def loss_of(policy, obs, actions, mask=None):
    logits = policy.evaluate(obs)[0].astype(np.float64)
    if mask is not None:
        logits[mask == 0] = -np.inf
    logits -= logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(obs)), actions]))


def mean_length(policy):
    """Of episodes from fresh states, up to 500 steps."""
    envs = operant.make_vec("cartpole", num_envs=64, seed=11)
    obs, _ = envs.reset()
    lengths, playing = np.zeros(64), np.ones(64, bool)
    for _ in range(500):
        obs, _, terminated, truncated, _ = envs.step(policy(obs))
        lengths += playing
        playing &= ~(terminated | truncated)
    return lengths.mean()


def test_a_policy_learns_to_act_like_an_expert(place):
    rng = np.random.default_rng(5)
    obs = observations(rng, 5000)
    policy = operant.Policy.new("cartpole", seed=3)
    before, arrays = loss_of(policy, obs, expert(obs)), policy.state_dict()
    losses = operant.fit(policy, obs, expert(obs), epochs=20, learning_rate=3e-3)
    assert len(losses) == 20 and before > 0.6 and losses[-1] < 0.1
    assert mean_length(policy) > 400 > 100 > mean_length(operant.Policy.new("cartpole", seed=3))
    # Values are not fitted.
    for name, array in policy.state_dict().items():
        assert np.array_equal(array, arrays[name]) == name.startswith(("critic", "value")), name
    run = operant.train("cartpole", init_from=policy, total_timesteps=8192, eval_episodes=20)
    assert run.result["eval_return_mean"] > 300


def test_the_loss_is_the_likelihood_and_threads_do_not_matter():
    rng = np.random.default_rng(6)
    obs = observations(rng, 333)
    fitted = []
    for threads in (1, 2):
        policy = operant.Policy.new("cartpole", seed=3, threads=threads)
        before = loss_of(policy, obs, expert(obs))
        seen = []
        losses = operant.fit(policy, obs, expert(obs), epochs=3, batch_size=500, on_epoch=seen.append)
        assert losses[0] == pytest.approx(before, rel=1e-5) and seen == losses.tolist()
        assert losses[2] > loss_of(policy, obs, expert(obs))
        fitted.append(policy.state_dict())
    for name, array in fitted[0].items():
        np.testing.assert_array_equal(array, fitted[1][name], name)
    stopped = operant.fit(operant.Policy.new("cartpole", seed=3), obs, expert(obs), epochs=9, on_epoch=lambda loss: False)
    assert len(stopped) == 1


def test_continuous_actions_have_a_mean_and_a_deviation():
    rng = np.random.default_rng(7)
    obs = rng.uniform(-1, 1, (4000, 3)).astype(np.float32)
    actions = (1.5 * obs[:, :1] + rng.normal(0, 0.1, (4000, 1))).astype(np.float32)
    policy = operant.Policy.new("pendulum", seed=3)
    losses = operant.fit(policy, obs, actions, epochs=60, learning_rate=5e-3, batch_size=500)
    # The entropy of the noise, ln(0.1 sqrt(2 pi e)), is the least possible mean.
    assert losses[0] > 0.5 and -0.884 - 0.1 < losses[-1] < -0.4
    means = policy.evaluate(obs)[0]
    assert np.abs(means - 1.5 * obs[:, :1]).mean() < 0.1


def test_masks_and_binary_observations():
    envs = operant.make_vec("game_2048", num_envs=64, seed=2)
    obs, info = envs.reset()
    mask = info["action_mask"]
    actions = np.array([int(np.argmax(row)) for row in mask])
    policy = operant.Policy.new("game_2048", seed=3)
    before = loss_of(policy, obs, actions, mask)
    losses = operant.fit(policy, obs, actions, action_mask=mask, epochs=50, batch_size=64)
    assert losses[0] == pytest.approx(before, rel=1e-4) and losses[-1] < 0.5 * losses[0]
    forbidden = mask.copy()
    forbidden[5, :] = 1
    forbidden[5, actions[5]] = 0
    with pytest.raises(ValueError, match="the action of row 5 is illegal"):
        operant.fit(policy, obs, actions, action_mask=forbidden)


@pytest.mark.parametrize(("wrong", "says"), [
    ({"actions": np.zeros(9, np.int64)}, r"actions: expected shape \(10,\), got \(9,\)"),
    ({"actions": np.full(10, 2)}, "row 0 has 2, which is not in the space"),
    ({"actions": np.zeros(10)}, "expected whole numbers, got float64"),
    ({"obs": np.full((10, 4), np.nan, np.float32)}, "expected finite numbers"),
    ({"obs": np.zeros(4, np.float32)}, "expected several observations"),
    ({"epochs": 0}, "epochs: expected a whole number from 1"),
    ({"learning_rate": 0}, "learning_rate: expected a number above 0"),
    ({"learning_rate": 1e38}, "the loss of epoch 2 is not finite"),
])  # fmt: skip
def test_mistakes_change_nothing(wrong, says):
    policy = operant.Policy.new("cartpole", seed=3)
    before = policy.state_dict()
    given = {"obs": np.zeros((10, 4), np.float32), "actions": np.zeros(10, np.int64), **wrong}
    with pytest.raises((ValueError, TypeError), match=says):
        operant.fit(policy, given.pop("obs"), given.pop("actions"), **given)
    for name, array in policy.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_policies_that_cannot_be_fitted_are_named():
    obs, actions = np.zeros((4, 4), np.float32), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="a policy with memory"):
        operant.fit(operant.Policy.new("cartpole", core="gru"), obs, actions)
    with pytest.raises(ValueError, match="values of actions"):
        operant.fit(operant.Policy.new("cartpole", algorithm="pqn"), obs, actions)


def test_a_callback_that_raises_leaves_the_policy():
    policy = operant.Policy.new("cartpole", seed=3)
    before = policy.state_dict()
    with pytest.raises(ZeroDivisionError):
        operant.fit(policy, np.zeros((4, 4), np.float32), np.zeros(4, np.int64), on_epoch=lambda loss: 1 / 0)
    assert all(np.array_equal(array, before[name]) for name, array in policy.state_dict().items())
