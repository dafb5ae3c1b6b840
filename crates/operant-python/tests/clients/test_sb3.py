"""`operant.sb3.VecEnv` keeps the contract of Stable-Baselines3; that it learns is shown by examples/sb3_cartpole.py."""

import gymnasium
import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack, VecMonitor, VecNormalize
from stable_baselines3.common.vec_env import VecEnv as Sb3VecEnv

import operant

N = 6


@pytest.mark.parametrize("limit", [None, 15])
def test_it_returns_what_a_dummy_vec_env_returns(limit):
    """Until each environment's second episode, which begins otherwise: the single one's is numbered by itself."""
    id = "operant/CartPole-v1"
    ours = operant.sb3.VecEnv(id, N, max_episode_steps=limit)
    theirs = DummyVecEnv([lambda: Monitor(gymnasium.make(id, max_episode_steps=limit))] * N)
    assert isinstance(ours, Sb3VecEnv) and ours.num_envs == N
    assert ours.observation_space == theirs.observation_space and ours.action_space == theirs.action_space
    assert list(ours.seed(5)) == list(theirs.seed(5)) == [5, 6, 7, 8, 9, 10]
    obs, other = ours.reset(), theirs.reset()
    np.testing.assert_array_equal(obs, other)
    first, truncations, rng = np.ones(N, bool), 0, np.random.default_rng(0)
    while first.any():
        actions = rng.integers(2, size=N)
        ours.step_async(actions), theirs.step_async(actions)
        (obs, rewards, dones, infos), (other, *others, other_infos) = ours.step_wait(), theirs.step_wait()
        for one, two in zip((obs, rewards, dones), (other, *others), strict=True):
            assert (one.dtype, one.shape) == (two.dtype, two.shape)
            still = first & ~dones if one is obs else first
            np.testing.assert_array_equal(one[still], two[still])
        assert type(infos) is list and len(infos) == N
        for env in np.flatnonzero(first):
            if not dones[env]:
                assert infos[env] == {}
                continue
            np.testing.assert_array_equal(infos[env].pop("terminal_observation"), other_infos[env].pop("terminal_observation"))
            assert infos[env]["episode"].pop("t") >= 0 and other_infos[env]["episode"].pop("t") >= 0
            assert infos[env] == other_infos[env]
            truncations += infos[env]["TimeLimit.truncated"]
        first &= ~dones
    assert (truncations > 0) == (limit is not None)


def test_seeds_and_resets():
    envs = operant.sb3.VecEnv("CartPole-v1", N, seed=3)
    np.testing.assert_array_equal(envs.reset(), operant.make_vec("CartPole-v1", N, seed=3).reset()[0])
    envs.seed(8)
    first = envs.reset()
    np.testing.assert_array_equal(first[2], operant.make("CartPole-v1").reset(seed=10)[0])
    assert not np.array_equal(envs.reset(), first), "a seed counts for one reset"
    envs.seed(8)
    np.testing.assert_array_equal(envs.reset(), first)
    envs.set_options({"low": 1})
    with pytest.raises(ValueError, match="options: expected none"):
        envs.reset()


def test_results_are_the_callers_own():
    envs = operant.sb3.VecEnv("CartPole-v1", N, seed=3)
    envs.reset()
    obs, *_, infos = envs.step(np.ones(N, int))
    kept = obs.copy()
    infos[0]["mark"] = 1
    for _ in range(5):
        assert "mark" not in envs.step(np.ones(N, int))[3][0]
    np.testing.assert_array_equal(obs, kept)


def test_attributes_can_be_read_and_not_set():
    envs = operant.sb3.VecEnv("CartPole-v1", N)
    assert envs.render_mode is None and envs.get_attr("render_mode", [0, 2]) == [None, None]
    assert envs.get_attr("action_space", 1) == [gymnasium.spaces.Discrete(2)]
    assert envs.get_attr("max_episode_steps") == [500] * N
    assert envs.has_attr("observation_space") and not envs.has_attr("gravity")
    assert envs.env_is_wrapped(Monitor) == [True] * N
    assert envs.env_is_wrapped(gymnasium.wrappers.TimeLimit, [1]) == [False]
    for call in (
        lambda: envs.get_attr("gravity"),
        lambda: envs.set_attr("gravity", 1.0),
        lambda: envs.env_method("render"),
    ):
        with pytest.raises(AttributeError, match="gravity|render"):
            call()


def test_misuse_is_named():
    envs = operant.sb3.VecEnv("CartPole-v1", N)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.ones(N, int))
    envs.reset()
    with pytest.raises(RuntimeError, match="step_async first"):
        envs.step_wait()
    with pytest.raises(ValueError, match="environment 0.*from 0 to 1, got 2"):
        envs.step(np.full(N, 2))
    envs.close()
    envs.close()
    with pytest.raises(gymnasium.error.ClosedEnvironmentError):
        envs.reset()
    with pytest.raises(ValueError, match="gravity"):
        operant.sb3.VecEnv("CartPole-v1", N, gravity=1.0)
    with pytest.raises(TypeError, match="autoreset_mode"):
        operant.sb3.VecEnv("CartPole-v1", N, autoreset_mode="disabled")


@pytest.mark.filterwarnings("ignore:The environment is already wrapped")
@pytest.mark.parametrize(
    "id",
    ["Pendulum-v1", "MinAtar/Breakout-v0", "Acrobot-v1"]
    # Environments of the tests, one for each kind of observation.
    + [name for name in operant.envs.names() if name.startswith("test_") and name not in ("test_masked", "test_image")],
)
def test_ppo_runs_on_every_kind_of_space(id):
    envs = VecNormalize(VecMonitor(operant.sb3.VecEnv(id, N)), norm_obs=id == "Pendulum-v1")
    if id == "Acrobot-v1":
        envs = VecFrameStack(envs, 2)
    kind = "MultiInputPolicy" if isinstance(envs.observation_space, gymnasium.spaces.Dict) else "MlpPolicy"
    model = PPO(kind, envs, n_steps=128, batch_size=128, n_epochs=1, seed=1, device="cpu").learn(N * 256)
    assert model.num_timesteps == N * 256
    # Pendulum's episodes have 200 steps, and Breakout's random ones fewer.
    assert len(model.ep_info_buffer) > 0 or id == "Acrobot-v1"
