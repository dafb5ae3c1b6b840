"""What Gymnasium expects of a vector environment, compared with its own vectors of the same environments."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space

import operant

IDS = ["operant/CartPole-v1", "operant/Pendulum-v1", "operant/MountainCar-v0", "operant/MinAtar-Breakout-v0"]
# Those of the tests, one for each kind of observation; the one with action masks gives infos that Gymnasium has in another layout.
IDS += [id for id in gymnasium.registry if id.startswith("operant/Test") and "Masked" not in id]
MODES = list(AutoresetMode)
N = 5


def both(id, mode, **options):
    """operant's vector, and Gymnasium's of operant's single environments."""
    ours = gymnasium.make_vec(id, N, autoreset_mode=mode, **options)
    theirs = gymnasium.make_vec(id, N, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **options)
    assert isinstance(ours.unwrapped, operant.VectorEnv) and isinstance(theirs, SyncVectorEnv)
    return ours, theirs


def layout(value):
    """Dtypes and shapes of arrays, in dictionaries and arrays of objects too."""
    if isinstance(value, dict):
        return {key: layout(part) for key, part in value.items()}
    assert isinstance(value, np.ndarray)
    return value.dtype, value.shape, [type(part) for part in value] if value.dtype == object else None


def parts(obs):
    """The arrays of observations."""
    return list(obs.values()) if isinstance(obs, dict) else [obs]


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("mode", MODES)
def test_spaces_and_attributes_are_those_of_a_vector(id, mode):
    ours, theirs = both(id, mode)
    for name in ("single_observation_space", "single_action_space", "observation_space", "action_space", "num_envs"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert ours.observation_space == batch_space(ours.single_observation_space, N)
    assert ours.metadata["autoreset_mode"] is mode and ours.unwrapped is ours and ours.render_mode is None
    assert ours.spec.id == id and not ours.closed
    ours.action_space.seed(1), theirs.action_space.seed(1)
    np.testing.assert_array_equal(ours.action_space.sample(), theirs.action_space.sample())


@pytest.mark.parametrize("id", IDS)
@pytest.mark.parametrize("mode", MODES)
def test_an_episode_is_the_same_as_in_gymnasiums_own_vector(id, mode):
    """Up to the first end, whose step and infos have the same layout."""
    ours, theirs = both(id, mode, max_episode_steps=40)
    seeds = [7, 2**31, 7, 0, 3]
    (obs, info), (other, other_info) = ours.reset(seed=seeds), theirs.reset(seed=seeds)
    assert data_equivalence(obs, other, exact=True)
    assert layout(info) == layout(other_info)
    ours.action_space.seed(1)
    for step in range(40):
        actions = ours.action_space.sample()
        results, others = ours.step(actions), theirs.step(actions)
        ended = results[2] | results[3]
        for name, one, two in zip(("obs", "rewards", "terminated", "truncated"), results, others, strict=False):
            assert layout(one) == layout(two)
            # After an end in the same step there is another episode.
            rows = ~ended if name == "obs" and mode is AutoresetMode.SAME_STEP else slice(None)
            for ours_of, theirs_of in zip(parts(one), parts(two), strict=True):
                np.testing.assert_array_equal(ours_of[rows], theirs_of[rows], f"{name} of step {step}")
        if mode is AutoresetMode.SAME_STEP and ended.any():
            assert layout(results[4]) == layout(others[4])
            np.testing.assert_array_equal(results[4]["_final_obs"], others[4]["_final_obs"])
            for row in np.flatnonzero(ended):
                assert data_equivalence(results[4]["final_obs"][row], others[4]["final_obs"][row], exact=True)
        else:
            assert layout(results[4]) == layout(others[4]) == {}
        if ended.any():
            return
    pytest.fail("no episode ended")


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.DISABLED])
def test_after_an_end_it_goes_on_as_gymnasiums_own_vector(mode):
    """Ends, rewards and layouts of many episodes; Pendulum's all end by the limit, whatever the actions."""
    ours, theirs = both("operant/Pendulum-v1", mode, max_episode_steps=6)
    ours.reset(seed=1), theirs.reset(seed=1)
    ours.action_space.seed(1)
    ends = 0
    for _ in range(60):
        actions = ours.action_space.sample()
        results, others = ours.step(actions), theirs.step(actions)
        for one, two in zip(results[2:4], others[2:4], strict=True):
            np.testing.assert_array_equal(one, two)
        np.testing.assert_array_equal(results[1] == 0, others[1] == 0)
        assert layout(results[4]) == layout(others[4])
        ended = results[2] | results[3]
        ends += ended.sum()
        if mode is AutoresetMode.DISABLED and ended.any():
            for envs in (ours, theirs):
                obs, info = envs.reset(options={"reset_mask": ended})
                assert obs in envs.observation_space and layout(info) == {}
    assert ends > 5 * N


@pytest.mark.parametrize("id", IDS)
def test_seeds_repeat_and_differ(id):
    envs = gymnasium.make_vec(id, N)

    def played(**options):
        first, _ = envs.reset(**options)
        envs.action_space.seed(1)
        return [first, *(envs.step(envs.action_space.sample())[0] for _ in range(30))]

    one = played(seed=1)
    assert data_equivalence(played(seed=1), one, exact=True)
    assert not data_equivalence(played(seed=2), one) and not data_equivalence(played(), one)
    assert data_equivalence(played(seed=[1, 2, 3, 4, 5]), played(seed=np.arange(1, 6)), exact=True)
    assert envs.reset(seed=[None, 1, None, 1, 2])[0] in envs.observation_space
    envs.reset(seed=9)
    assert envs.np_random_seed == 9 and isinstance(envs.np_random, np.random.Generator)


def test_vectorization_modes():
    made = {mode: gymnasium.make_vec("operant/CartPole-v1", 3, vectorization_mode=mode) for mode in ("sync", "async")}
    made["vector_entry_point"] = gymnasium.make_vec("operant/CartPole-v1", 3)
    seeds = [4, 5, 6]
    first = [envs.reset(seed=seeds)[0] for envs in made.values()]
    for _ in range(5):
        first = [np.concatenate([obs, envs.step(np.ones(3, int))[0]]) for obs, envs in zip(first, made.values(), strict=True)]
    for other in first[1:]:
        np.testing.assert_array_equal(other, first[0])
    assert made["sync"].get_attr("spec")[0].max_episode_steps == 500
    assert made["async"].call("get_wrapper_attr", "action_space") == (made["sync"].single_action_space,) * 3
    for envs in made.values():
        envs.close()
        envs.close()
        assert envs.closed
    for options in ({"vector_kwargs": {"copy": False}}, {"wrappers": [lambda env: env]}):
        with pytest.raises(gymnasium.error.Error):
            gymnasium.make_vec("operant/CartPole-v1", **options)


def test_a_wrapper_sees_time_limits_and_can_be_undone():
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(gymnasium.make_vec("operant/CartPole-v1", 4, max_episode_steps=5))
    assert isinstance(envs.unwrapped, operant.VectorEnv)
    envs.reset(seed=1)
    for step in range(1, 30):
        *_, terminated, truncated, info = envs.step(np.arange(4) % 2)
        # Five steps, and one that resets.
        assert truncated.all() == (step % 6 == 5) and not terminated.any()
        if truncated.any():
            assert (info["episode"]["l"] == 5).all() and info["_episode"].all()
