"""Worlds written in Python: observation and action spaces, packed observations, and masks."""

import gymnasium
import numpy as np
import pytest
import test_train
from gymnasium.utils.env_checker import data_equivalence
from test_world import short

import operant
from operant import math as om

spaces = gymnasium.spaces
place = test_train.place


def observed(space, observe, count=9, seed=2):
    """Observations of a world with eight random words in its state."""

    class Observed:
        w: operant.Uint[8]

        observation_space = space
        action_space = spaces.Discrete(2)
        max_episode_steps = 10

        def reset(self, draws):
            return self.State(w=[draws.bits() for _ in range(8)])

        def step(self, s, action, draws):
            return self.reset(draws), 0.0, False

    Observed.observe = lambda self, s: observe(s)
    return operant.make_vec(operant.world(Observed), count, seed=seed)


def words_of(envs):
    """The state's words, as integers `(N, 8)`."""
    halves = observed(spaces.MultiDiscrete([65_536] * 16), lambda s: [half for w in s.w for half in (w & 0xFFFF, w >> 16)], envs.num_envs)
    obs = halves.reset()[0].astype(np.uint64)
    return (obs[:, ::2] | obs[:, 1::2] << np.uint64(16)).astype(np.int64)


def bits_of(words, count):
    """The first bits of words, the lowest first."""
    return ((words[:, :, None] >> np.arange(32)) & 1).reshape(len(words), -1)[:, :count] != 0


def bytes_of(words, count):
    return ((words[:, :, None] >> np.arange(0, 32, 8)) & 0xFF).reshape(len(words), -1)[:, :count]


def flags(s, count):
    return [(s.w[k // 32] >> (k % 32)) & 1 != 0 for k in range(count)]


def small(s, count, most):
    return [(s.w[k // 4] >> (k % 4 * 8)) & most for k in range(count)]


def columns(words, *numbers):
    """These numbers for each environment: columns, or one number for all."""
    return np.stack([np.broadcast_to(number, len(words)) for number in numbers], axis=1)


# A space, what a world observes, the same in NumPy from the words of the states, and the dtype of the observations.
SPACES = [
    (spaces.Box(-1, 1, (3,)), lambda s: [om.to_float(w >> 8) / 2**24 for w in s.w[:3]], lambda w: (w[:, :3] >> 8) / 2**24, np.float32),
    (spaces.Box(-np.inf, np.inf, (2,)), lambda s: [om.to_float(s.w[0] & 7), 0.5], lambda w: columns(w, w[:, 0] & 7, 0.5), np.float32),
    (spaces.Box(-9, 9, (1,), np.float64), lambda s: om.to_float(s.w[0] & 7), lambda w: w[:, :1] & 7, np.float32),
    (spaces.MultiBinary(37), lambda s: flags(s, 37), lambda w: bits_of(w, 37), np.bool_),
    (spaces.MultiBinary((3, 5)), lambda s: flags(s, 15), lambda w: bits_of(w, 15), np.bool_),
    (spaces.Box(0, 1, (8, 8), np.bool_), lambda s: [flags(s, 64)[k : k + 8] for k in range(0, 64, 8)], lambda w: bits_of(w, 64), np.bool_),
    (spaces.Box(0, 1, (40,), np.uint8), lambda s: flags(s, 40), lambda w: bits_of(w, 40), np.bool_),
    (spaces.Discrete(5), lambda s: s.w[0] % 5, lambda w: w[:, 0] % 5, np.int64),
    (spaces.Discrete(1000), lambda s: s.w[0] % 1000, lambda w: w[:, 0] % 1000, np.int64),
    (spaces.MultiDiscrete([3, 4, 5]), lambda s: [s.w[k] % (3 + k) for k in range(3)], lambda w: w[:, :3] % np.arange(3, 6), np.int64),
    (spaces.MultiDiscrete([3, 1000]), lambda s: [s.w[0] % 3, s.w[1] % 1000], lambda w: w[:, :2] % [3, 1000], np.int64),
    (spaces.MultiDiscrete([[3, 4], [5, 6]]), lambda s: [[s.w[0] % 3, 1], [2, 5]], lambda w: columns(w, w[:, 0] % 3, 1, 2, 5), np.uint8),
    (spaces.Box(0, 255, (3, 3), np.uint8), lambda s: small(s, 9, 255), lambda w: bytes_of(w, 9), np.uint8),
    (spaces.Box(0, 15, (2, 3), np.uint8), lambda s: small(s, 6, 15), lambda w: bytes_of(w, 6) & 15, np.uint8),
    (spaces.Box(0, 999, (3,), np.uint16), lambda s: [w % 1000 for w in s.w[:3]], lambda w: w[:, :3] % 1000, np.uint16),
]


@pytest.mark.parametrize(("space", "observe", "expected", "dtype"), SPACES, ids=[str(row[0]) for row in SPACES])
def test_spaces(space, observe, expected, dtype):
    envs = observed(space, observe)
    obs, _ = envs.reset()
    assert obs in envs.observation_space and obs.dtype == dtype and envs.single_observation_space.shape == space.shape
    np.testing.assert_array_equal(obs, expected(words_of(envs)).astype(dtype).reshape(obs.shape))


def test_parts():
    names = ["real", "flags", "bytes", "kind", "kinds"]
    rows = dict(zip(names, (SPACES[k] for k in (0, 3, 12, 7, 10)), strict=True))
    envs = observed(spaces.Dict({name: row[0] for name, row in rows.items()}), lambda s: {name: row[1](s) for name, row in rows.items()})
    obs, _ = envs.reset()
    assert obs in envs.observation_space and list(envs.single_observation_space.spaces) == sorted(names)
    for name, (_, _, expected, dtype) in rows.items():
        np.testing.assert_array_equal(obs[name], expected(words_of(envs)).astype(dtype).reshape(obs[name].shape), name)
    # Parts that are all real numbers.
    real = SPACES[0]
    envs = observed(spaces.Dict(a=real[0], b=real[0]), lambda s: {"b": real[1](s), "a": [0.5, 1, 2]})
    obs, _ = envs.reset()
    np.testing.assert_array_equal(obs["b"], real[2](words_of(envs)).astype(np.float32))
    np.testing.assert_array_equal(obs["a"], np.tile(np.float32([0.5, 1, 2]), (9, 1)))


def test_arrays_and_nested_lists_are_observations():
    envs = observed(spaces.MultiDiscrete([65_536] * 8), lambda s: om.array([w >> 16 for w in s.w]))
    np.testing.assert_array_equal(envs.reset()[0], words_of(envs) >> 16)
    envs = observed(spaces.MultiBinary(6), lambda s: [(True, s.w[0] != 0), np.array([[False, True]]), [np.bool_(False), [True]]])
    np.testing.assert_array_equal(envs.reset()[0], np.tile([True, True, False, True, False, True], (9, 1)))


@pytest.mark.parametrize(
    ("space", "unpacked", "packed"),
    [
        (spaces.MultiBinary(37), lambda s: flags(s, 37), lambda s: s.w[:2]),
        (spaces.MultiBinary((8, 8)), lambda s: flags(s, 64), lambda s: s.w[:2]),
        (spaces.Box(0, 255, (5,), np.uint8), lambda s: small(s, 5, 255), lambda s: [s.w[0], s.w[1] & 0xFF]),
        (spaces.Box(0, 255, (8,), np.uint8), lambda s: small(s, 8, 255), lambda s: s.w[:2]),
        (spaces.MultiDiscrete([256] * 5), lambda s: small(s, 5, 255), lambda s: s.w[:2]),
        (spaces.MultiDiscrete([65_536] * 2), lambda s: [s.w[0] & 0xFFFF, s.w[0] >> 16], lambda s: s.w[:1]),
        (spaces.MultiDiscrete([16] * 4), lambda s: small(s, 4, 15), lambda s: [s.w[0] & 0x0F0F0F0F]),
    ],
)
def test_packed_observations_equal_unpacked_ones(space, unpacked, packed):
    for wrap in (
        lambda space, rule: (space, rule),
        lambda space, rule: (spaces.Dict(a=space, b=space), lambda s: {"a": rule(s), "b": rule(s)}),
    ):
        plain = observed(*wrap(space, unpacked))
        words = observed(*wrap(space, lambda s: om.packed(packed(s))))
        assert data_equivalence(plain.reset()[0], words.reset()[0], exact=True)


@pytest.mark.parametrize("packed", [False, True])
def test_numbers_past_the_end_of_their_space_are_its_greatest(packed):
    """They would be inputs of a network that there are not."""
    space = spaces.MultiDiscrete([3, 200])
    rule = (lambda s: om.packed([s.w[0]])) if packed else (lambda s: [s.w[0] & 0xFF, (s.w[0] >> 8) & 0xFF])
    envs = observed(space, rule)
    np.testing.assert_array_equal(envs.reset()[0], np.minimum(bytes_of(words_of(envs), 2), [2, 199]))


def test_numbers_past_their_end_train():
    @operant.world(observation_space=spaces.MultiDiscrete([3, 200]), action_space=spaces.Discrete(2), max_episode_steps=10)
    class Past:
        n: operant.Uint

        def reset(self, draws):
            return self.State(n=draws.bits())

        def step(self, s, action, draws):
            return self.reset(draws), om.to_float(action), False

        def observe(self, s):
            return [s.n, s.n]

    @operant.world(observation_space=spaces.MultiBinary(5), action_space=spaces.Discrete(2), max_episode_steps=10)
    class PastBits(Past):
        def observe(self, s):
            return om.packed([s.n])

    for number, (world, settings) in enumerate([(Past, {}), (Past, {"encoder": "embed"}), (PastBits, {})]):
        assert short(world, name=f"past_{number}", total_timesteps=2048, **settings).state == "finished"
    envs = observed(spaces.Box(0, 255, (2,), np.uint8), lambda s: [s.w[0], 300])
    np.testing.assert_array_equal(envs.reset()[0], np.column_stack([np.minimum(words_of(envs)[:, 0], 255), np.full(9, 255)]))


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([3, 4]),
        spaces.MultiDiscrete([3]),
        spaces.Box(-2, np.array([2, 3]), (2,)),
        spaces.Box(-1, 1, (1,)),
        spaces.Discrete(7),
    ],
)
def test_actions(space):
    """A rule gets a number of a Discrete space, and a list of any other."""
    size = 1 if isinstance(space, spaces.Discrete) else space.shape[0]

    class Acts:
        action_space, observation_space = space, spaces.Box(-10, 10, (size,))
        max_episode_steps = 10
        seen: operant.Float[size]

        def reset(self, draws):
            return self.State(seen=[0] * size)

        def step(self, s, action, draws):
            assert isinstance(action, list) != isinstance(space, spaces.Discrete)
            actions = action if isinstance(action, list) else [action]
            s.seen = [om.to_float(component) for component in actions]
            return s, 0.0, False

        def observe(self, s):
            return s.seen

    envs = operant.make_vec(operant.world(Acts), 50, seed=1)
    envs.reset()
    envs.action_space.seed(1)
    actions = envs.action_space.sample()
    np.testing.assert_array_equal(envs.step(actions)[0], actions.reshape(50, size).astype(np.float32))


@operant.world(observation_space=spaces.Box(0, 3, (1,)), action_space=spaces.MultiDiscrete([4, 2]), max_episode_steps=8)
class Masked:
    """An illegal choice costs a thousand."""

    n: operant.Uint

    def reset(self, draws):
        return self.State(n=draws.integer(4))

    def may(self, s):
        return [[s.n != k for k in range(4)], [True, s.n >= 2]]

    def legal(self, s):
        return self.may(s)

    def step(self, s, action, draws):
        first, second = action
        first_is_legal = om.any([(first == k) & legal for k, legal in enumerate(self.may(s)[0])])
        is_legal = first_is_legal & ((second == 0) | self.may(s)[1][1])
        s.n = draws.integer(4)
        return s, om.where(is_legal, 1.0, -1000.0), False

    def observe(self, s):
        return om.to_float(s.n)


def test_legal_choices_are_masks_and_are_respected():
    envs = operant.make_vec(Masked, 16, seed=1)
    obs, info = envs.reset()
    for _ in range(20):
        n = obs[:, 0].astype(int)
        np.testing.assert_array_equal(info["action_mask"], np.column_stack([n[:, None] != np.arange(4), n < 4, n >= 2]))
        obs, rewards, _, _, info = envs.step(np.column_stack([(n + 1) % 4, n // 2]))
        assert (rewards == 1).all()
    assert (envs.step(np.column_stack([obs[:, 0].astype(int), np.zeros(16, int)]))[1] == -1000).all()
    run = short(Masked)
    returns = run.metrics()["episodic_return"]
    assert len(returns) == 4 and (returns == 8).all() and run.result["eval_return_mean"] == 8
    played = operant.make_vec(Masked, 16, seed=2)
    played.reset()
    assert (played.rollout(run.policy, 50)["rewards"] == 1).all()
    with pytest.raises(ValueError, match="action_mask: masked has illegal actions"):
        run.policy(obs)


# --- `python -m operant._record`


def test_a_constant_state_and_an_index_past_the_end():
    @operant.world(name="past_the_end", observation_space=spaces.Box(0, 9, (1,)), action_space=spaces.Discrete(2), max_episode_steps=5)
    class Past:
        at: operant.Uint

        def reset(self, draws):
            return self.State(at=0)

        def step(self, s, action, draws):
            s.at = action
            return s, 0.0, False

        def observe(self, s):
            cells = om.array([om.to_uint(3)] * 40)
            cells[s.at - 1] = 7  # of nothing at first: 0 - 1 is past the end
            return [om.to_float(cells[0])]

    envs = operant.make_vec(Past, 2, seed=1)
    assert envs.reset()[0].tolist() == [[3], [3]]
    assert envs.step(np.array([1, 0]))[0].tolist() == [[7], [3]]


def test_packed_bytes_past_the_end_are_not_seen():
    @operant.world(
        name="packed_bytes", observation_space=spaces.Box(0, 255, (5,), np.uint8), action_space=spaces.Discrete(2), max_episode_steps=5
    )
    class Bytes:
        bits: operant.Uint

        def reset(self, draws):
            return self.State(bits=draws.bits())

        def step(self, s, action, draws):
            s.bits = draws.bits()
            return s, 0.0, False

        def observe(self, s):
            return om.packed([s.bits, s.bits])

    envs = operant.make_vec(Bytes, 16, seed=1)
    obs, _ = envs.reset()
    for _ in range(10):
        assert (obs[:, 4] == obs[:, 0]).all()
        obs = envs.step(np.zeros(16, np.int64))[0]
