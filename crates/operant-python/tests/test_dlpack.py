"""Arrays over DLPack: NumPy and JAX use the engine's memory where it is."""

import jax
import numpy as np
import pytest
from jax.dlpack import from_dlpack

import operant

# JAX computes before a call returns, so that it reads no array after the engine has overwritten it.
jax.config.update("jax_cpu_enable_async_dispatch", False)


@pytest.mark.parametrize("num_envs", [1, 3, 8, 250])
def test_jax_reads_every_array_where_it_is(num_envs):
    envs = operant.make_vec("CartPole-v1", num_envs, seed=1, copy=False, reward_dtype="float32", final_obs="dense")
    obs, _ = envs.reset()
    seen = 0
    for _ in range(100):
        view = from_dlpack(obs, copy=False)
        assert view.unsafe_buffer_pointer() == obs.ctypes.data
        right = jax.numpy.where(view[:, 2] > 0, 0, 1)
        np.testing.assert_array_equal(right, np.where(obs[:, 2] > 0, 0, 1))
        # JAX's actions, too, are read where they are.
        actions = np.from_dlpack(right)
        assert actions.ctypes.data == right.unsafe_buffer_pointer()
        obs, *others, info = envs.step(actions)
        if info:
            others += [info["final_obs"], info["_final_obs"], *info["episode"].values()]
        for array in others:
            shared = from_dlpack(array, copy=False)
            assert shared.unsafe_buffer_pointer() == array.ctypes.data
            np.testing.assert_array_equal(shared, array)
            seen += 1
    assert seen > 3 * 100


def test_jax_reads_a_horizon_where_it_is():
    envs = operant.make_vec("CartPole-v1", 7, seed=1)
    envs.reset()
    for played in (envs.rollout(lambda obs: np.zeros(7, int), 20), envs.rollout(None, 20)):
        for name in ("observations", "obs", "terminated", "ended", "returns", "lengths"):
            assert from_dlpack(played[name], copy=False).unsafe_buffer_pointer() == played[name].ctypes.data


def test_numpy_shares_memory_both_ways():
    envs = operant.make_vec("cartpole", 4, seed=1, copy=False)
    obs, _ = envs.reset()
    shared = np.from_dlpack(obs)
    assert shared.ctypes.data == obs.ctypes.data
    obs[0, 0] = 5
    assert shared[0, 0] == 5
