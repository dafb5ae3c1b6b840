"""What the rules of worlds compute: every operator and function against NumPy, in environments with their own numbers."""

import math
import operator
from fractions import Fraction

import gymnasium
import numpy as np
import pytest

import operant
from operant import _trace
from operant import math as om

spaces = gymnasium.spaces
KINDS = {"float32": operant.Float, "uint32": operant.Uint, "int32": operant.Int, "bool": operant.Bool}
DTYPES = {"float": np.float32, "uint": np.uint32, "int": np.int32, "mask": np.bool_}


def word_of(value):
    """The bits of a value as a Uint."""
    if value.kind == "float":
        return value._apply("FloatToBits", "uint")
    return om.to_uint(value)


def value_of(word, kind):
    """The value with these bits."""
    if kind == "float":
        return word._apply("FloatFromBits", "float")
    return word if kind == "uint" else om.to_int(word) if kind == "int" else word != 0


def computed(rule, **inputs):
    """What `rule(**values)`, a dictionary of values, is in as many environments as the inputs have numbers.

    Actions bring the numbers as halves of words, which the state keeps; observations return the results as halves of words.
    """
    kinds = {name: KINDS[array.dtype.name].kind for name, array in inputs.items()}

    def results(s):
        return rule(**{name: value_of(getattr(s, name), kind) for name, kind in kinds.items()})

    with _trace.begin() as recording:
        parameters = {name: _trace.Value(kind, recording.core.parameter(name, kind)) for name, kind in kinds.items()}
        found = {name: value.kind for name, value in rule(**parameters).items()}

    class Computes:
        observation_space = spaces.MultiDiscrete([65_536] * 2 * len(found))
        action_space = spaces.MultiDiscrete([65_536] * 2 * len(inputs))
        max_episode_steps = 2

        def reset(self, draws):
            return self.State(**dict.fromkeys(inputs, 0))

        def step(self, s, action, draws):
            words = [low | (high << 16) for low, high in zip(action[::2], action[1::2], strict=True)]
            return self.State(**dict(zip(inputs, words, strict=True))), 0.0, False

        def observe(self, s):
            return [half for value in results(s).values() for half in (word_of(value) & 0xFFFF, word_of(value) >> 16)]

    Computes.__annotations__ = dict.fromkeys(inputs, operant.Uint)
    words = np.stack([array.view(np.uint32) if array.itemsize == 4 else array.astype(np.uint32) for array in inputs.values()], axis=1)
    envs = operant.make_vec(operant.world(Computes), len(words), seed=1)
    envs.reset()
    obs = envs.step(np.stack([words & 0xFFFF, words >> 16], axis=2).reshape(len(words), -1).astype(np.int64))[0]
    halves = obs.astype(np.uint32).reshape(len(words), len(found), 2)
    bits = np.ascontiguousarray((halves[..., 0] | (halves[..., 1] << 16)).T)
    return {
        name: column != 0 if kind == "mask" else column.view(DTYPES[kind]) for (name, kind), column in zip(found.items(), bits, strict=True)
    }


def assert_computes(rule, expected, **inputs):
    """That the results have the bits of NumPy's; which NaN it is does not matter."""
    found = computed(rule, **inputs)
    with np.errstate(all="ignore"):
        wanted = expected(**inputs)
    assert list(found) == list(wanted)
    for name, array in wanted.items():
        array = np.broadcast_to(array, found[name].shape)
        assert array.dtype == found[name].dtype, f"{name}: {array.dtype}, not {found[name].dtype}"
        if array.dtype == np.float32:
            both = np.isnan(array) & np.isnan(found[name])
            array, found[name] = np.where(both, np.float32(0), array), np.where(both, np.float32(0), found[name])
            np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(array), name)
        np.testing.assert_array_equal(found[name], array, name)


def both(rule):
    """The same function for values and for NumPy's numbers."""
    return rule, rule


def crossed(edges, count, rng_numbers):
    """Two columns: every pair of edges, and random numbers."""
    a, b = (column.reshape(-1) for column in np.meshgrid(edges, edges))
    random = rng_numbers.reshape(2, count)
    return np.concatenate([a, random[0]]), np.concatenate([b, random[1]])


RNG = np.random.default_rng(5)
FLOAT_EDGES = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        0.5,
        1.5,
        2.5,
        -2.5,
        1e-40,
        -3e38,
        3e38,
        2147483520,
        2147483648,
        -2147483648,
        4294967296,
        np.inf,
        -np.inf,
        np.nan,
        0.1,
    ],
    np.float32,
)
X, Y = crossed(FLOAT_EDGES, 200, (RNG.standard_normal(400) * 10.0 ** RNG.integers(-6, 6, 400)).astype(np.float32))
UINT_EDGES = np.array([0, 1, 2, 3, 7, 10, 31, 32, 33, 640, 641, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF], np.uint32)
U, V = crossed(UINT_EDGES, 200, RNG.integers(0, 2**32, 400, dtype=np.uint32))
INT_EDGES = np.array([0, 1, -1, 2, -7, 100, 2**31 - 1, -(2**31), -(2**31) + 1], np.int32)
I, J = crossed(INT_EDGES, 200, RNG.integers(-(2**31), 2**31, 400, dtype=np.int32))
P, Q = (column.reshape(-1) for column in np.meshgrid([False, True], [False, True]))


def test_floats():
    f = np.float32
    assert_computes(
        *both(
            lambda x, y: {
                "add": x + y, "sub": x - y, "mul": x * y, "div": x / y, "neg": -x, "pos": +x, "abs": abs(x),
                "add number": x + 0.1, "number add": 1 + x, "number sub": 1.5 - x, "sub number": x - 3, "number div": 1.0 / x,
                "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "eq": x == y, "ne": x != y,
                "lt number": x < 0.5, "number lt": 0.5 < x, "square": x * x, "of NumPy": f(0.1) * x,
            }
        ),
        x=X,
        y=Y,
    )  # fmt: skip
    assert_computes(
        lambda x, y: {
            "pow": x**3, "sqrt": om.sqrt(x), "floor": om.floor(x), "round": om.round(x), "builtin": abs(-x),
            "minimum": om.minimum(x, y), "maximum": om.maximum(x, y), "minimum number": om.minimum(1, x),
            "clip": om.clip(x, -1, 2.5), "where": om.where(x < y, x, 7), "where numbers": om.where(x < y, 1.5, 2),
            "to_float": om.to_float(x), "to_int": om.to_int(x), "to_uint": om.to_uint(x), "constant": om.to_float(3) + x * 0,
        },
        lambda x, y: {
            "pow": x * x * x, "sqrt": np.sqrt(x), "floor": np.floor(x), "round": np.rint(x), "builtin": abs(x),
            "minimum": np.where(x < y, x, y), "maximum": np.where(x > y, x, y), "minimum number": np.where(f(1) < x, f(1), x),
            "clip": np.where(np.isnan(x), x, np.clip(x, f(-1), f(2.5))), "where": np.where(x < y, x, f(7)),
            "where numbers": np.where(x < y, f(1.5), f(2)),
            "to_float": x, "to_int": whole(x), "to_uint": whole(x).view(np.uint32), "constant": f(3) + x * f(0),
        },
        x=X,
        y=Y,
    )  # fmt: skip


def nearest(exact):
    """The float32 next to a Fraction; of two the even one."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda number: (abs(Fraction(float(number)) - exact), number.view(np.uint32) & 1))


def test_remainders_and_quotients_of_floats_are_those_of_python():
    wide = (RNG.standard_normal(4000) * 10.0 ** RNG.integers(-42, 38, 4000)).astype(np.float32).reshape(2, -1)
    near = np.array([[1e9, 7.0], [62.831852, 6.2831853], [28.8, 0.1], [-1e-9, 6.2831855], [3e38, 1e-45], [180, 0.1]], np.float32).T
    x, y = (np.concatenate(columns) for columns in zip((X, Y), wide, near, strict=True))
    found = computed(
        lambda x, y: {"//": x // y, "%": x % y, "divmod": divmod(x, y)[1], "7.5 //": 7.5 // x, "7.5 %": 7.5 % x, "// 0.1": x // 0.1, "% 6.28": x % 6.28},
        x=x,
        y=y,
    )  # fmt: skip
    f = np.float32
    of = {"//": (x, y), "%": (x, y), "divmod": (x, y), "7.5 //": (f(7.5), x), "7.5 %": (f(7.5), x), "// 0.1": (x, f(0.1)), "% 6.28": (x, f(6.28))}
    checked = 0
    for name, (a, b) in of.items():
        a, b = np.broadcast_arrays(a, b)
        with np.errstate(all="ignore"):
            special = ~np.isfinite(a) | ~np.isfinite(b) | (b == 0)
            theirs = np.floor_divide(a, b) if "//" in name else np.remainder(a, b)
        np.testing.assert_array_equal(found[name][special], theirs[special], name)
        for one, other, ours in zip(a[~special], b[~special], found[name][~special], strict=True):
            exact_a, exact_b = Fraction(float(one)), Fraction(float(other))
            quotient = exact_a // exact_b
            if "//" in name:
                slack = abs(quotient) / 2**23 if abs(quotient) >= 2**24 else 0
                is_near = abs(quotient) > 3e38 if np.isinf(ours) else abs(Fraction(float(ours)) - quotient) <= slack
                assert is_near, (one, other, ours)
                assert quotient or np.signbit(ours) == (np.signbit(one) != np.signbit(other))
            else:
                rest = nearest(exact_a - quotient * exact_b)
                assert ours == (np.nextafter(other, f(0)) if rest == other else rest), (one, other, ours)
                assert abs(ours) < abs(other) and np.signbit(ours) == np.signbit(other), (one, other, ours)
            checked += 1
    assert checked > 10_000


def whole(x):
    """A float without its fraction, within the range of int32, and 0 for NaN."""
    return np.clip(np.trunc(np.nan_to_num(x.astype(np.float64), nan=0)), -(2**31), 2**31 - 1).astype(np.int64).astype(np.int32)


def test_fused_multiply_add_rounds_once():
    x, y, z = ((RNG.standard_normal(500) * 10.0 ** RNG.integers(-3, 3, 500)).astype(np.float32) for _ in range(3))
    # Products that nearly cancel show a second rounding.
    z[:250] = -(x * y)[:250]

    def expected(x, y, z):
        exact = [Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)) for a, b, c in zip(x, y, z, strict=True)]
        return {"fma": np.array([nearest(number) for number in exact], np.float32), "number": x * np.float32(2) + np.float32(1)}

    assert_computes(lambda x, y, z: {"fma": om.fma(x, y, z), "number": om.fma(x, 2, 1)}, expected, x=x, y=y, z=z)
    assert np.any(expected(x, y, z)["fma"] != x * y + z)


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "log", "tanh"])
def test_functions(name):
    x = np.concatenate([np.linspace(-30, 30, 2001), [0, -0.0, np.nan, 1e-30]]).astype(np.float32)
    x = np.abs(x) if name == "log" else x
    found = computed(lambda x: {"f": getattr(om, name)(x), "sine": om.sin_cos(x)[0], "cosine": om.sin_cos(x)[1]}, x=x)
    with np.errstate(divide="ignore"):
        wide = x.astype(np.float64)
        np.testing.assert_allclose(found["f"], getattr(np, name)(wide).astype(np.float32), rtol=2e-6, atol=2e-7)
        np.testing.assert_allclose(found["sine"], np.sin(wide), atol=2e-7)
        np.testing.assert_allclose(found["cosine"], np.cos(wide), atol=2e-7)


def test_unsigned_integers():
    u32 = np.uint32
    assert_computes(
        *both(
            lambda u, v: {
                "add": u + v, "sub": u - v, "mul": u * v, "and": u & v, "or": u | v, "xor": u ^ v, "not": ~u, "pos": +u,
                "add number": u + 5, "number sub": 5 - u, "sub number": u - 5, "mul number": 3 * u, "number and": 0xFF & u,
                "lt": u < v, "le": u <= v, "gt": u > v, "ge": u >= v, "eq": u == v, "ne": u != v, "lt number": u < 7, "number ge": 7 >= u,
                "shl 0": u << 0, "shl 1": u << 1, "shl 31": u << 31, "shr 1": u >> 1, "shr 31": u >> 31, "of NumPy": u32(7) + u,
            }
        ),
        u=U,
        v=V,
    )  # fmt: skip
    assert_computes(
        lambda u, v: {
            "shl": u << v, "shr": u >> v, "number shl": 5 << v, "number shr": 0xFFFFFFFF >> v, "pow": u**3,
            "minimum": om.minimum(u, v), "maximum": om.maximum(u, 7), "clip": om.clip(u, 2, 100), "where": om.where(u < v, u, 9),
            "to_float": om.to_float(u), "to_int": om.to_int(u), "to_uint": om.to_uint(u), "count_ones": om.count_ones(u),
            "constants": om.to_uint(7) // 2 + 9 // om.to_uint(4) + 9 % om.to_uint(4) + u,
        },
        lambda u, v: {
            "shl": u << (v & u32(31)), "shr": u >> (v & u32(31)), "number shl": u32(5) << (v & u32(31)),
            "number shr": u32(0xFFFFFFFF) >> (v & u32(31)), "pow": u * u * u,
            "minimum": np.minimum(u, v), "maximum": np.maximum(u, u32(7)), "clip": np.clip(u, u32(2), u32(100)),
            "where": np.where(u < v, u, u32(9)),
            "to_float": u.astype(np.float32), "to_int": u.view(np.int32), "to_uint": u,
            "count_ones": np.array([int(number).bit_count() for number in u], u32), "constants": u + u32(6),
        },
        u=U,
        v=V,
    )  # fmt: skip


DIVISORS = [1, 2, 3, 5, 7, 10, 64, 100, 641, 1000, 65_537, 2**31 - 1, 2**31, 2**31 + 1, 2**32 - 2, 2**32 - 1]


def test_division_by_constants():
    edges = [(k * d + e) % 2**32 for d in DIVISORS for k in (0, 1, 2, (2**32 - 1) // d) for e in (-1, 0, 1)]
    u = np.concatenate([np.array(edges, np.uint32), U])

    def divided(u, divisor=lambda d: d):
        quotients = {f"// {d}": u // divisor(d) for d in DIVISORS}
        return quotients | {f"% {d}": u % divisor(d) for d in DIVISORS}

    assert_computes(divided, lambda u: divided(u, np.uint32), u=u)
    assert_computes(lambda u: divided(u, om.to_uint), lambda u: divided(u, np.uint32), u=u)
    assert_computes(lambda u: {"divmod": divmod(u, 7)[0]}, lambda u: {"divmod": u // np.uint32(7)}, u=u)


def test_signed_integers():
    i32 = np.int32
    assert_computes(
        *both(
            lambda i, j: {
                "add": i + j, "sub": i - j, "mul": i * j, "and": i & j, "or": i | j, "xor": i ^ j, "not": ~i, "neg": -i, "abs": abs(i),
                "add number": i + -5, "number sub": -5 - i, "mul number": -3 * i,
                "lt": i < j, "le": i <= j, "gt": i > j, "ge": i >= j, "eq": i == j, "ne": i != j, "lt number": i < -7,
                "shl 0": i << 0, "shl 3": i << 3, "shl 31": i << 31, "shr 0": i >> 0, "shr 1": i >> 1, "shr 31": i >> 31,
            }
        ),
        i=I,
        j=J,
    )  # fmt: skip
    assert_computes(
        lambda i, j: {
            "minimum": om.minimum(i, j), "maximum": om.maximum(i, -7), "clip": om.clip(i, -2, 100), "where": om.where(i < j, -1, 9),
            "to_float": om.to_float(i), "to_int": om.to_int(i), "to_uint": om.to_uint(i), "constant": om.to_int(-3.7) + om.to_int(True) + i,
        },
        lambda i, j: {
            "minimum": np.minimum(i, j), "maximum": np.maximum(i, i32(-7)), "clip": np.clip(i, i32(-2), i32(100)),
            "where": np.where(i < j, i32(-1), i32(9)),
            "to_float": i.astype(np.float32), "to_int": i, "to_uint": i.view(np.uint32), "constant": i + i32(-2),
        },
        i=I,
        j=J,
    )  # fmt: skip


def test_truth_values():
    assert_computes(
        lambda p, q: {
            "and": p & q, "or": p | q, "xor": p ^ q, "not": ~p, "eq": p == q, "ne": p != q, "and constant": p & True,
            "or constant": False | p, "eq constant": operator.eq(p, True), "where": om.where(p, q, True), "any": om.any([p, q, False]),
            "all": om.all([p, q]),
            "any of none": om.any([]) | p & ~p, "all of none": om.all([]) & (p | ~p),
            "to_float": om.to_float(p), "to_int": om.to_int(p), "to_uint": om.to_uint(p), "where of a constant": om.where(True, p, q),
        },
        lambda p, q: {
            "and": p & q, "or": p | q, "xor": p ^ q, "not": ~p, "eq": p == q, "ne": p != q, "and constant": p, "or constant": p,
            "eq constant": p, "where": np.where(p, q, True), "any": p | q, "all": p & q,
            "any of none": np.zeros(4, bool), "all of none": np.ones(4, bool),
            "to_float": p.astype(np.float32), "to_int": p.astype(np.int32), "to_uint": p.astype(np.uint32), "where of a constant": p,
        },
        p=P,
        q=Q,
    )  # fmt: skip


def test_tables_give_the_last_entry_past_their_end():
    whole, real = [5, 0, 2**32 - 1, 9, 7], np.array([0.1, -2.5, np.inf])

    def at(table, u):
        return table[np.minimum(u, len(table) - 1)]

    assert_computes(
        lambda u, i: {
            "whole": om.table(whole)[u], "real": om.table(real)[u], "one": om.table([4])[u], "by an Int": om.table(whole)[i],
            "by a number": om.table(whole)[3] + u * 0, "past the end": om.table(whole)[99] + u * 0,
        },
        lambda u, i: {
            "whole": at(np.array(whole, np.uint32), u), "real": at(real.astype(np.float32), u), "one": np.full(len(u), 4, np.uint32),
            "by an Int": at(np.array(whole, np.uint32), i.view(np.uint32)),
            "by a number": np.full(len(u), 9, np.uint32), "past the end": np.full(len(u), 7, np.uint32),
        },
        u=U,
        i=np.resize(I, len(U)),
    )  # fmt: skip
    assert len(om.table(whole)) == 5


@pytest.mark.parametrize("size", [1, 5, 32, 33, 40])
def test_arrays(size):
    """Elements at indices of each environment, in arrays of registers (up to 32) and of memory."""
    index = np.concatenate([np.arange(size + 3), [2**32 - 1, 2**31]]).astype(np.uint32)
    other = np.random.default_rng(size).permutation(index)
    flag = np.arange(len(index)) % 3 > 0

    def rule(index, other, flag):
        first = om.array([index * (k + 1) for k in range(size)])
        read = first[index]
        copy = first.copy()
        copy.put(index, other, where=flag)
        copy[other] = 77
        copy[size - 1] = 11
        copy[-size] = copy[-size] + 5
        chosen = om.where(flag, first, copy)
        cold = om.when(flag, lambda array, n: (with_one(array, n), n + 1), first, index)[0]
        summed = om.repeat(size, lambda k, array, total: (with_one(array.copy(), k), total + array[k]), first, om.to_uint(0))
        return {
            "read": read, "by an Int": first[om.to_int(index)], "written": copy[other], "last": copy[-1], "sum": total_of(copy),
            "chosen": total_of(chosen), "cold": total_of(cold), "loop": summed[1] + total_of(summed[0]), "first": total_of(first),
            "slice": total_of(copy[1:]) + index * 0,
        }  # fmt: skip

    def with_one(array, n):
        array[n] = 1
        return array

    def total_of(array):
        return sum(item * (k + 3) for k, item in enumerate(array))

    def expected(index, other, flag):
        keys = ["read", "by an Int", "written", "last", "sum", "chosen", "cold", "loop", "first", "slice"]
        rows = []
        for at, value, is_set in zip(index.tolist(), other.tolist(), flag.tolist(), strict=True):
            first = [at * (k + 1) for k in range(size)]
            copy = list(first)
            for position, number, writes in ((at, value, is_set), (value, 77, True), (size - 1, 11, True)):
                if writes and position < size:
                    copy[position] = number
            copy[0] += 5
            cold = [1 if is_set and k == at else item for k, item in enumerate(first)]
            read = first[min(at, size - 1)]
            loop = sum(first) + total_of([1] * size)
            written = copy[min(value, size - 1)]
            rows.append([read, read, written, copy[-1], total_of(copy), total_of(first if is_set else copy), total_of(cold), loop,
                         total_of(first), total_of(copy[1:])])  # fmt: skip
        columns = (np.array(rows, object) % 2**32).astype(np.uint32).T
        return dict(zip(keys, columns, strict=True))

    assert_computes(rule, expected, index=index, other=other, flag=flag)


def test_arrays_of_other_kinds():
    index = np.arange(6, dtype=np.uint32)
    x = np.linspace(-1, 1, 6).astype(np.float32)

    def rule(index, x):
        reals, signs, flags = om.array([x, x * 2, 0.5]), om.array([om.to_int(x * 10), -1, 2]), om.array([x > 0, False, True])
        reals[index], signs[index], flags[index] = 9, -9, x < 0
        return {"real": reals[1] + reals[index], "sign": signs[0] * signs[index], "flag": flags[2] ^ flags[index]}

    def expected(index, x):
        rows = []
        for at, number in zip(index.tolist(), x, strict=True):
            reals, signs, flags = (
                [number, number * np.float32(2), np.float32(0.5)],
                [int(number * np.float32(10)), -1, 2],
                [number > 0, False, True],
            )
            if at < 3:
                reals[at], signs[at], flags[at] = np.float32(9), -9, number < 0
            last = min(at, 2)
            rows.append((reals[1] + reals[last], signs[0] * signs[last], flags[2] ^ flags[last]))
        real, sign, flag = zip(*rows, strict=True)
        return {"real": np.array(real, np.float32), "sign": np.array(sign, np.int32), "flag": np.array(flag, np.bool_)}

    assert_computes(rule, expected, index=index, x=x)


def test_cold_paths_and_loops():
    u, x = np.arange(40, dtype=np.uint32), np.linspace(-2, 2, 40).astype(np.float32)

    def collatz(n, steps):
        return om.where(n % 2 == 0, n // 2, 3 * n + 1), steps + 1

    def rule(u, x):
        a, b = om.when(u % 5 == 0, lambda a, b: (a * 2, b + 1), x, u)
        nested = om.when(u > 10, lambda n: om.when(u > 20, lambda m: m + 100, n + 10), u)
        three = om.repeat(3, lambda k, total: total + om.to_float(k) * x, 0.0)
        outer = om.repeat(3, lambda i, n: om.repeat(4, lambda j, m: m + i * j, n), u)
        n, steps = om.repeat_while(200, lambda n, steps: n > 1, lambda k, n, steps: collatz(n, steps), u, om.to_uint(0))
        few = om.repeat_while(3, lambda n: n > 1, lambda k, n: n - 1, u)
        cold = om.repeat(4, lambda k, n: om.when(k == u, lambda m: m + 1000, n), u)
        known = om.when(True, lambda n: n + 1, u), om.when(False, lambda n: n + 1, u), om.repeat(0, lambda k, n: n + 1, u)
        return {
            "a": a, "b": b, "nested": nested, "three": three, "outer": outer, "n": n, "steps": steps, "few": few, "cold": cold,
            "known": known[0] + known[1] * 2 + known[2] * 3,
        }  # fmt: skip

    def expected(u, x):
        steps, ends = np.zeros(40, np.uint32), u.copy()
        for k in range(40):
            while ends[k] > 1:
                ends[k] = ends[k] // 2 if ends[k] % 2 == 0 else 3 * ends[k] + 1
                steps[k] += 1
        three = np.float32(0) + np.float32(0) * x + np.float32(1) * x + np.float32(2) * x
        known = (u + 1) + u * 2 + u * 3
        return {
            "a": np.where(u % 5 == 0, x * 2, x), "b": np.where(u % 5 == 0, u + 1, u),
            "nested": np.where(u > 20, u + 110, np.where(u > 10, u + 10, u)), "three": three, "outer": u + np.uint32(18),
            "n": ends, "steps": steps, "few": np.where(u > 3, u - 3, np.minimum(u, 1)), "cold": np.where(u < 4, u + 1000, u),
            "known": known,
        }  # fmt: skip

    assert_computes(rule, expected, u=u, x=x)


def test_a_rule_that_is_known_to_run_leaves_the_arrays_of_its_caller():
    def rule(u):
        array = om.array([u, u])

        def write(inner):
            inner[0] = 7
            return inner

        return {"before": array[0], "after": om.when(True, write, array)[0], "kept": array[0]}

    u = np.arange(4, dtype=np.uint32)
    assert_computes(rule, lambda u: {"before": u, "after": np.full(4, 7, np.uint32), "kept": u}, u=u)


def test_names_do_not_change_values():
    assert_computes(lambda u: {"u": om.named("twice", u * 2)}, lambda u: {"u": u * np.uint32(2)}, u=U)

    @operant.world(observation_space=spaces.Box(-1, 1, (1,)), action_space=spaces.Discrete(2), max_episode_steps=10)
    class Named:
        x: operant.Float

        def reset(self, draws):
            return self.State(x=0)

        def step(self, s, action, draws):
            s.x = om.named("half_of_x", s.x * 0.5)
            return s, 0.0, False

        def observe(self, s):
            return s.x

    assert "half_of_x" in Named.emit() == Named().emit()


class Drawn:
    """Random numbers of every kind."""

    u: operant.Float
    between: operant.Float
    die: operant.Uint
    shifted: operant.Uint
    each: operant.Uint
    bits: operant.Uint
    cold: operant.Float
    warm: operant.Float
    turns: operant.Float[5]
    after: operant.Float

    observation_space = spaces.Dict(real=spaces.Box(-10, 10, (10,)), whole=spaces.MultiDiscrete([65_536] * 5))
    action_space = spaces.Discrete(2)
    max_episode_steps = 100

    def __init__(self, uses=True):
        self.uses = uses

    def drawn(self, draws, count):
        own, others, turns = draws.reserve(3), draws.reserve(1), draws.turns(5, 2)

        def throw(k, array):
            here = turns[k]
            here.uniform()
            array[k] = here.uniform(0, 2)
            return array

        return self.State(
            u=draws.uniform(),
            between=draws.uniform(-3, 5),
            die=draws.integer(6),
            shifted=draws.integer(10, 13),
            each=draws.integer(count),
            bits=draws.bits(),
            cold=om.when(count > 2, lambda x: x + own.uniform() + own.uniform() if self.uses else x, 0.0),
            warm=others.uniform(),
            turns=om.repeat(5, throw, om.array([0.0] * 5)),
            after=draws.uniform(),
        )

    def reset(self, draws):
        return self.drawn(draws, om.to_uint(3))

    def step(self, s, action, draws):
        return self.drawn(draws, s.die), 0.0, False

    def observe(self, s):
        return {
            "real": [s.u, s.between, s.cold, s.warm, s.after, *s.turns],
            "whole": [s.die, s.shifted, s.each, s.bits & 0xFFFF, s.bits >> 16],
        }


def drawn(seed=1, **settings):
    envs = operant.make_vec(operant.world(Drawn)(**settings), 500, seed=seed)
    envs.reset()
    steps = [envs.step(np.full(500, k % 2))[0] for k in range(20)]
    return {name: np.concatenate([step[name] for step in steps]).astype(np.float64) for name in ("real", "whole")}


def test_draws():
    found = drawn()
    u, between, cold, warm, after, *turns = found["real"].T
    die, shifted, each, low, high = found["whole"].T
    for numbers, least, most in [(u, 0, 1), (between, -3, 5), (warm, 0, 1), (after, 0, 1), *((turn, 0, 2) for turn in turns)]:
        assert least <= numbers.min() < least + 0.01 * (most - least) and most - 0.01 * (most - least) < numbers.max() < most
        assert abs(numbers.mean() - (least + most) / 2) < 0.03 * (most - least)
    assert set(die) == set(range(6)) and set(shifted) == {10, 11, 12} and set(each) == set(range(5))
    assert all(abs(np.mean(die == face) - 1 / 6) < 0.02 for face in range(6))
    for halves in (low, high):
        assert all(0.45 < np.mean(halves.astype(int) >> bit & 1) < 0.55 for bit in range(16))
    # No two of them are the same numbers.
    for a, b in [(u, warm), (u, after), (warm, after), (turns[0], turns[1]), (turns[0] / 2, u)]:
        assert abs(np.corrcoef(a, b)[0, 1]) < 0.05
    assert 0 < np.mean(cold == 0) < 1 and 1 < cold.max() < 2


def test_draws_depend_on_the_seed_and_not_on_how_many_of_the_reserved_are_used():
    first, again, other, unused = drawn(), drawn(), drawn(seed=2), drawn(uses=False)
    np.testing.assert_array_equal(first["real"], again["real"])
    assert not np.array_equal(first["real"], other["real"])
    kept = [0, 1, 3, 4, 5, 6, 7, 8, 9]
    np.testing.assert_array_equal(first["real"][:, kept], unused["real"][:, kept])
    assert np.all(unused["real"][:, 2] == 0)


def test_constants_of_python_and_numpy():
    assert_computes(
        lambda x, u: {
            "pi": x * 0 + math.pi, "large": x * 0 + 1e40, "NumPy": x * 0 + np.float64(0.1), "array": x * 0 + np.array(0.25),
            "whole": u * 0 + np.int64(7), "shift": (u * 0 + 1) << np.uint8(3), "flag": (u < 9) & np.bool_(True),
        },
        lambda x, u: {
            "pi": np.full(len(x), math.pi, np.float32), "large": np.full(len(x), np.inf, np.float32),
            "NumPy": np.full(len(x), 0.1, np.float32), "array": np.full(len(x), 0.25, np.float32),
            "whole": np.full(len(x), 7, np.uint32), "shift": np.full(len(x), 8, np.uint32),
            "flag": np.ones(len(x), bool),
        },
        x=np.arange(5, dtype=np.float32),
        u=np.arange(5, dtype=np.uint32),
    )  # fmt: skip


def test_actions_are_signed():
    """Differences of actions are negative, and with a Uint they are one."""

    def results(a, b, n, where, to_float):
        return [
            to_float(a - 1), to_float(1 - a), to_float(-a), to_float(a % 2 - 1), to_float(a // 2), to_float(a * 3 - b), to_float(a + b),
            to_float(abs(a - 3)), to_float((a - 2) * (a - 2)), to_float(n + a), to_float(n * b), to_float(a << 2), to_float(1 << a), to_float(a & 1),
            to_float(a >> 1), where(a - 2 < 0, 1.0, 2.0), where(a == 4, 1.0, 2.0), where(a < b, 1.0, 2.0), where(a <= n, 1.0, 2.0),
            to_float(where(a > 2, a, 0)), to_float(where(a > 2, a, n)), to_float(where(a > 2, a, -5)), to_float(a | 8), to_float(a ^ b),
        ]  # fmt: skip

    count = len(results(0, 0, 0, lambda c, x, y: x if c else y, float))

    @operant.world(observation_space=spaces.Box(-99, 99, (count + 3,)), action_space=spaces.MultiDiscrete([5, 4]), max_episode_steps=9)
    class SignedActions:
        seen: operant.Float[24]
        last: operant.Uint
        cells: operant.Uint[5]

        def reset(self, draws):
            return self.State(seen=[0.0] * count, last=7, cells=[0, 1, 4, 9, 16])

        def step(self, s, action, draws):
            a, b = action
            s.seen = results(a, b, s.last * 0 + 7, om.where, om.to_float)
            s.last = om.minimum(a, b)
            s.cells[a] = a
            return s, om.to_float(om.table([1.5, 2.5, 3.5, 4.5, 5.5])[a]), False

        def observe(self, s):
            return [*s.seen, om.to_float(s.last), om.to_float(s.cells[4]), om.to_float(om.clip(s.last, 1, 2) - 1)]

    assert count == 24
    pairs = [(a, b) for a in range(5) for b in range(4)]
    envs = operant.make_vec(SignedActions, len(pairs), threads=1)
    envs.reset(seed=1)
    obs, rewards, *_ = envs.step(np.array(pairs))
    for (a, b), row, reward in zip(pairs, obs, rewards, strict=True):
        ours = results(a, b, 7, lambda c, x, y: x if c else y, float)
        assert row.tolist() == [*ours, min(a, b), 4 if a == 4 else 16, max(1, min(2, min(a, b))) - 1], (a, b)
        assert reward == a + 1.5


def test_differences_that_cannot_be_negative_become_floats():
    def rule(u):
        top = om.minimum(u, 9)
        return {
            "from the top": om.to_float(9 - top), "one below": om.to_float(om.maximum(u, 1) - 1), "added first": om.to_float((top + 4) % 5),
            "wrapping": om.to_float((u - 1) % 8), "masked": om.to_float(15 - (u & 15)), "shifted": om.to_float(15 - (u >> 28)),
            "of a Bool": om.to_float(1 - om.to_uint(u < 5)), "as an Int": om.to_float(om.to_int(top - 5)), "modulo": om.to_float(6 - u % 7),
        }  # fmt: skip

    def expected(u):
        u = u.astype(np.int64)
        top = np.minimum(u, 9)
        of = [9 - top, np.maximum(u, 1) - 1, (top + 4) % 5, (u - 1) % 8, 15 - u % 16, 15 - u // 2**28, 1 - (u < 5), top - 5, 6 - u % 7]
        return dict(zip(rule_names, (array.astype(np.float32) for array in of), strict=True))

    rule_names = ["from the top", "one below", "added first", "wrapping", "masked", "shifted", "of a Bool", "as an Int", "modulo"]
    assert_computes(rule, expected, u=U)


def test_sine_and_cosine_of_large_numbers_are_no_numbers():
    x = np.array([1e6, 2.0**20, -(2.0**20), 1.0000001 * 2**20, 1e7, 1e8, -1e30, np.inf, np.nan], np.float32)
    found = computed(lambda x: {"sin": om.sin(x), "cos": om.cos(x), "both": om.sin_cos(x)[0]}, x=x)
    for name, exact in (("sin", np.sin), ("cos", np.cos), ("both", np.sin)):
        np.testing.assert_allclose(found[name][:3], exact(x[:3].astype(np.float64)), atol=1.2e-7)
        assert np.isnan(found[name][3:]).all()
