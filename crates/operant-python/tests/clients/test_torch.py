"""PyTorch over DLPack, and TorchRL's wrapper."""

import gymnasium
import numpy as np
import pytest
import torch
from torchrl.envs import GymWrapper
from torchrl.envs.utils import check_env_specs

import operant


def test_torch_shares_memory_both_ways():
    envs = operant.make_vec("CartPole-v1", 5, seed=1, copy=False, reward_dtype="float32", final_obs="dense")
    obs, _ = envs.reset()
    for _ in range(50):
        view = torch.from_dlpack(obs)
        assert view.data_ptr() == obs.ctypes.data and view.dtype == torch.float32
        actions = (view[:, 2] < 0).long()
        given = np.from_dlpack(actions)
        assert given.ctypes.data == actions.data_ptr()
        obs, *others, info = envs.step(given)
        for array in others:
            assert torch.from_dlpack(array).data_ptr() == array.ctypes.data


@pytest.mark.parametrize("id", ["operant/CartPole-v1", "operant/Pendulum-v1"])
def test_torchrl_wraps_one_environment(id):
    env = GymWrapper(gymnasium.make(id, max_episode_steps=10))
    check_env_specs(env)
    played = env.rollout(30)
    ends = played["next", "done"][:, 0]
    assert len(ends) <= 10 and ends[-1] and not ends[:-1].any()


@pytest.mark.parametrize("mode", ["same_step", "disabled"])
def test_torchrl_wraps_a_vector(mode):
    """A TorchRL rollout over ends has the lengths and the last observations of the episodes that the engine reports."""
    envs = operant.make_vec("Pendulum-v1", 4, seed=1, autoreset_mode=mode, max_episode_steps=12)
    wrapped = GymWrapper(envs)
    assert wrapped.batch_size == (4,)
    check_env_specs(wrapped)
    played = wrapped.rollout(40, break_when_any_done=False)
    ends = played["next", "truncated"][..., 0]
    np.testing.assert_array_equal(torch.nonzero(ends[0])[:, 0], [11, 23, 35])
    assert (ends == ends[0]).all() and not played["next", "terminated"].any()
    # The rules are continuous: a reset is a jump, and what is reported as next at an end is none.
    steps = (played["next", "observation"] - played["observation"]).abs().amax(-1)
    jumps = (played["observation"][:, 1:] - played["next", "observation"][:, :-1]).abs().amax(-1)
    assert torch.isfinite(steps).all()
    np.testing.assert_array_equal(jumps > 0, ends[:, :-1])


def test_torchrl_refuses_the_mode_that_it_does_not_know():
    with pytest.raises(Exception, match="autoreset_mode"):
        GymWrapper(operant.make_vec("CartPole-v1", 4, autoreset_mode="next_step"))
