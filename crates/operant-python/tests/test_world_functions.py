"""Angles, powers and normal draws of worlds against NumPy in double precision: the largest errors, and the numbers that are special."""

import gymnasium
import numpy as np
import pytest
from test_world_math import FLOAT_EDGES, RNG, assert_computes, computed

import operant
from operant import math as om

spaces = gymnasium.spaces
F = np.float32


def ulps(found, exact):
    """The largest error in units of the last place of a float32."""
    finite = np.isfinite(exact)
    assert np.array_equal(np.isfinite(found), finite)
    return np.max(np.abs(found[finite].astype(np.float64) - exact[finite]) / np.spacing(np.abs(exact[finite]).astype(F)))


def assert_same_one_by_one(rule, **inputs):
    """That an environment alone computes the bits that it computes among others."""
    rows = range(0, len(next(iter(inputs.values()))), 997)
    wide = computed(rule, **inputs)
    for row in rows:
        alone = computed(rule, **{name: array[row : row + 1] for name, array in inputs.items()})
        for name, array in alone.items():
            assert array.view(np.uint32)[0] == wide[name].view(np.uint32)[row], (name, row)


def directions():
    """Points in all quadrants, near the axes and the diagonals, small and large."""
    turn = np.concatenate([np.linspace(-np.pi, np.pi, 4001), (np.arange(-8, 9)[:, None] * np.pi / 8 + np.linspace(-1e-6, 1e-6, 41)).ravel()])
    size = 10.0 ** RNG.uniform(-30, 30, len(turn))
    x, y = (size * np.cos(turn)).astype(F), (size * np.sin(turn)).astype(F)
    other = (RNG.standard_normal((2, 2000)) * 10.0 ** RNG.integers(-20, 20, (2, 2000))).astype(F)
    return np.concatenate([x, other[0]]), np.concatenate([y, other[1]])


def test_angles_of_points():
    x, y = directions()
    found = computed(lambda x, y: {"atan2": om.atan2(y, x)}, x=x, y=y)["atan2"]
    assert ulps(found, np.arctan2(y.astype(np.float64), x.astype(np.float64))) < 2.5
    assert_same_one_by_one(lambda x, y: {"atan2": om.atan2(y, x)}, x=x, y=y)


def test_angles_of_zeros_infinities_and_nan_are_those_of_numpy():
    edges = np.array([0.0, -0.0, 1.0, -1.0, 1e-40, np.inf, -np.inf, np.nan], F)
    x, y = (column.reshape(-1) for column in np.meshgrid(edges, edges))
    found = computed(lambda x, y: {"atan2": om.atan2(y, x), "atan": om.atan(y)}, x=x, y=y)
    for name, exact in (("atan2", np.arctan2(y, x)), ("atan", np.arctan(y))):
        np.testing.assert_allclose(found[name], exact, rtol=2.5e-7)
        is_number = ~np.isnan(exact)
        np.testing.assert_array_equal(np.signbit(found[name])[is_number], np.signbit(exact)[is_number])


def test_inverse_functions():
    x = np.concatenate([np.linspace(-1, 1, 4001), 1 - 2.0 ** -np.arange(1, 25), 10.0 ** -np.arange(1, 30)]).astype(F)
    wide = x.astype(np.float64)
    found = computed(lambda x: {"atan": om.atan(x * 40), "asin": om.asin(x), "acos": om.acos(x)}, x=x)
    assert ulps(found["atan"], np.arctan((x * F(40)).astype(np.float64))) < 2.5
    assert ulps(found["asin"], np.arcsin(wide)) < 4
    assert ulps(found["acos"], np.arccos(wide)) < 4
    outside = computed(lambda x: {"asin": om.asin(x), "acos": om.acos(x)}, x=np.array([1.001, -1.001, 5, np.nan], F))
    assert np.isnan(outside["asin"]).all() and np.isnan(outside["acos"]).all()


def test_whole_powers_are_products():
    x = np.concatenate([FLOAT_EDGES, RNG.standard_normal(200).astype(F)])
    assert_computes(
        lambda x: {"1": x**1, "3": x**3, "3.0": x**3.0, "-1": x**-1, "-2": x**-2.0, "0": x * 0 + x**0, "17": x**17},
        lambda x: {"1": x, "3": x * x * x, "3.0": x * x * x, "-1": 1 / x, "-2": 1 / (x * x), "0": x * 0 + F(1), "17": squared(x)},
        x=x,
    )
    u = np.array([0, 1, 2, 3, 1000, 2**31, 2**32 - 1], np.uint32)
    wraps = np.array([pow(int(number), 21, 2**32) for number in u], np.uint32)
    assert_computes(lambda u: {"21": u**21, "0": u**0 + u * 0}, lambda u: {"21": wraps, "0": np.ones(7, np.uint32)}, u=u)


def squared(x):
    """The 17th power, from the eighth."""
    eighth = x
    for _ in range(7):
        eighth = eighth * x
    return eighth * eighth * x


def test_roots_and_halves():
    x = np.concatenate([[0, 1, 4, np.inf, -1, np.nan], 10.0 ** RNG.uniform(-8, 8, 500)]).astype(F)
    assert_computes(
        lambda x: {"0.5": x**0.5, "1.5": x**1.5, "-0.5": x**-0.5},
        lambda x: {"0.5": np.sqrt(x), "1.5": x * np.sqrt(x), "-0.5": 1 / np.sqrt(x)},
        x=x,
    )


def test_real_powers():
    """The error grows with the logarithm of the result, because the logarithm of x is rounded."""
    x, y = (10.0 ** RNG.uniform(-6, 6, 4000)).astype(F), RNG.uniform(-5, 5, 4000).astype(F)
    rules = {"values": lambda x, y: x**y, "pow": om.pow, "constant": lambda x, y: x**0.3, "of a constant": lambda x, y: 2.5**y}
    found = computed(lambda x, y: {name: rule(x, y) for name, rule in rules.items()}, x=x, y=y)
    wide = {"x": x.astype(np.float64), "y": y.astype(np.float64)}
    exact = {"values": wide["x"] ** wide["y"], "constant": wide["x"] ** np.float64(F(0.3)), "of a constant": 2.5 ** wide["y"]}
    np.testing.assert_array_equal(found["pow"], found["values"])
    for name, numbers in exact.items():
        error = np.abs(found[name] / numbers - 1)
        assert np.max(error / (2 + np.abs(np.log(numbers)))) < 1.2e-7, name
    assert_same_one_by_one(lambda x, y: {"values": x**y}, x=x, y=y)


def test_powers_of_numbers_that_are_not_above_zero():
    x = np.array([0, 0, 0, -0.0, -2, -2, 1, np.inf, 0.5], F)
    y = np.array([2.5, -1, 0, 0.7, 2, 0.5, 1e30, 2, np.inf], F)
    wanted = [0, np.inf, 1, 0, np.nan, np.nan, 1, np.inf, 0]
    np.testing.assert_array_equal(computed(lambda x, y: {"power": x**y}, x=x, y=y)["power"], np.array(wanted, F))


class Normal:
    """Normal draws outside of rules, in a rare case and in a loop."""

    seen: operant.Float[5]

    observation_space = spaces.Box(-100, 100, (5,))
    action_space = spaces.Discrete(2)
    max_episode_steps = 100

    def reset(self, draws):
        own, turns = draws.reserve(2), draws.turns(2, 2)
        rare = om.when(draws.bits() < 2**31, lambda x: own.normal(3.0, 0.5), -50.0)
        loop = om.repeat(2, lambda k, a, b: (b, turns[k].normal()), 0.0, 0.0)
        return self.State(seen=[draws.normal(), draws.normal(10.0, std=2), rare, *loop])

    def step(self, s, action, draws):
        return self.reset(draws), 0.0, False

    def observe(self, s):
        return s.seen


def normal_numbers(count, seed=7):
    envs = operant.make_vec(operant.world(Normal), count, seed=seed)
    return np.concatenate([envs.reset()[0], *(envs.step(np.zeros(count, np.int64))[0] for _ in range(50))]).astype(np.float64)


def test_normal_draws():
    first, shifted, rare, *loop = normal_numbers(4000).T
    rare = rare[rare != -50]
    assert abs(len(rare) / len(first) - 0.5) < 0.01
    for numbers, mean, std in [(first, 0, 1), (shifted, 10, 2), (rare, 3, 0.5), (loop[0], 0, 1), (loop[1], 0, 1)]:
        standard = (numbers - mean) / std
        # Bounds of about four standard errors.
        assert abs(standard.mean()) < 0.012 and abs(standard.var() - 1) < 0.018
        assert abs(np.mean(standard**3)) < 0.035 and abs(np.mean(standard**4) - 3) < 0.12
        assert abs(np.mean(np.abs(standard) > 1.959964) - 0.05) < 0.0035 and 3.5 < np.abs(standard).max() < 5.8
    for a, b in [(first, shifted), (first, loop[0]), (loop[0], loop[1])]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.01


def test_normal_draws_are_those_of_the_environment_alone():
    many, few = normal_numbers(300).reshape(51, 300, 5), normal_numbers(3).reshape(51, 3, 5)
    np.testing.assert_array_equal(many[:, :3], few)


def test_a_normal_draw_is_that_of_two_uniform_ones():
    class Both(Normal):
        is_normal = True

        def reset(self, draws):
            if self.is_normal:
                return self.State(seen=[draws.normal(), *[draws.uniform()] * 4])
            a, b = draws.uniform(), draws.uniform()
            return self.State(seen=[om.sqrt(-2 * om.log(1 - a)) * om.cos(b * 6.283185307179586), *[draws.uniform()] * 4])

    class Uniform(Both):
        is_normal = False

    obs = [operant.make_vec(operant.world(cls), 500, seed=3).reset()[0] for cls in (Both, Uniform)]
    np.testing.assert_array_equal(*obs)


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda s, d: d.normal(std=-1.0), "normal: expected a finite std of at least 0, got -1.0"),
        (lambda s, d: d.normal(0, 1, size=3), r"draws\.normal draws one number; write \[draws\.normal"),
        (lambda s, d: d.standard_normal(), r"`draws` has no standard_normal; use draws\.normal\(\)"),
        (lambda s, d: d.reserve(1).normal(), "more draws than were reserved"),
        (lambda s, d: om.when(s.x > 0, lambda x: d.normal(), s.x), r"draws\.reserve\(count\)"),
        (lambda s, d: om.arctan2(s.x, s.x), r"operant\.math has no arctan2; use operant\.math\.atan2\(y, x\)"),
        (lambda s, d: om.atan2(s.n, s.x), r"a Float is expected, got a Uint; convert it with operant\.math\.to_float"),
        (lambda s, d: s.n**0.5, r"\*\* of a Uint takes a whole constant from 0 to 2147483647; .*to_float"),
        (lambda s, d: s.n**-1, r"\*\* of a Uint takes a whole constant from 0 to"),
        (lambda s, d: s.n ** float("inf"), r"\*\* of a Uint takes a whole constant from 0 to"),
        (lambda s, d: s.n ** 2**40, r"\*\* of a Uint takes a whole constant from 0 to"),
        (lambda s, d: s.n**s.n, r"\*\* of a Uint takes a whole constant from 0 to"),
        (lambda s, d: s.x**s.n, r"a Float is expected, got a Uint; convert it with operant\.math\.to_float"),
        (lambda s, d: (-2.0) ** s.x, r"-2\.0 \*\* x is no real number for most x; a base is at least 0"),
        (lambda s, d: 2**s.n, r"\*\* takes a constant power of whole numbers; use 1 << n, or .*to_float"),
        (lambda s, d: s.x**"2", "a Float is expected, got '2'"),
    ],
)  # fmt: skip
def test_mistakes(compute, says):
    class Wrong(Normal):
        x: operant.Float
        n: operant.Uint

        def reset(self, draws):
            return self.State(seen=[0.0] * 5, x=0.0, n=1)

        def step(self, s, action, draws):
            compute(s, draws)
            return s, 0.0, False

    place = f"{compute.__code__.co_filename}:{compute.__code__.co_firstlineno}: "
    with pytest.raises(operant.TraceError, match=says) as raised:
        operant.make_vec(operant.world(Wrong))
    assert str(raised.value).startswith(place)
