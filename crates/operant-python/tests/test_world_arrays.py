"""Arrays of worlds: rows and columns, arithmetic of elements against NumPy, and large arrays of every kind."""

import json
import math
import re

import gymnasium
import numpy as np
import pytest
from test_world_functions import assert_same_one_by_one
from test_world_math import RNG, assert_computes
from test_world_mistakes import made, step_of

import operant
from operant import math as om

spaces = gymnasium.spaces
F, U32 = np.float32, np.uint32
X, Y, Z = RNG.standard_normal((3, 60)).astype(F)
N = RNG.integers(0, 2**32, 60, dtype=U32)


def arrays_of(size, x, y, make):
    """Two arrays whose elements differ."""
    return make([x * F(k + 1) for k in range(size)]), make([y - F(k) for k in range(size)])


@pytest.mark.parametrize("size", [3, 40])
def test_arithmetic_of_elements(size):
    def numbers(x, y, make, where, minimum, maximum):
        a, b = arrays_of(size, x, y, make)
        c = np.arange(size).astype(F)
        return {
            "+": a + b, "-": a - b, "*": a * b, "/": a / b, "-a": -a, "abs": abs(a), "a + x": a + x, "x - a": x - a, "x * a": x * a, "2 / a": F(2) / a,
            "a + 1": a + F(1), "NumPy": a * c, "NumPy first": c - a, "**": a**2, "where": where(a < b, a, b), "where number": where(a >= b, a, F(0)),
            "minimum": minimum(a, b), "maximum": maximum(a, F(0.5)), "== 0": where((a == b) | (a != x), F(1), F(2)), "not": where(~(a > y), F(1), F(2)),
        }  # fmt: skip

    def rule(x, y):
        found = numbers(x, y, om.array, om.where, om.minimum, om.maximum)
        assert all(array.shape == (size,) and array.kind == "float" for array in found.values())
        return {f"{name}[{k}]": value for name, array in found.items() for k, value in ((0, array[0]), (1, array[1]), (size - 1, array[-1]))}

    def expected(x, y):
        def where(condition, a, b):
            return np.where(condition, a, b)

        def column(values):
            return np.stack(values, axis=1)

        # An axis of its own for elements: NumPy's numbers of each environment are columns.
        a, b = arrays_of(size, x, y, column)
        x, y, c = x[:, None], y[:, None], np.arange(size).astype(F)
        found = {
            "+": a + b, "-": a - b, "*": a * b, "/": a / b, "-a": -a, "abs": abs(a), "a + x": a + x, "x - a": x - a, "x * a": x * a, "2 / a": F(2) / a,
            "a + 1": a + F(1), "NumPy": a * c, "NumPy first": c - a, "**": a * a, "where": where(a < b, a, b), "where number": where(a >= b, a, F(0)),
            "minimum": where(a < b, a, b), "maximum": where(a > F(0.5), a, F(0.5)), "== 0": where((a == b) | (a != x), F(1), F(2)),
            "not": where(a <= y, F(1), F(2)),
        }  # fmt: skip
        return {f"{name}[{k}]": array[:, k] for name, array in found.items() for k in (0, 1, size - 1)}

    assert_computes(rule, expected, x=X, y=Y)


def test_sums_and_products():
    def rule(x, y, z, n):
        a, b = om.array([x, y, z]), om.array([y, z, 2.0])
        whole, grid = om.array([n, n >> 8, 5]), om.array([[x, y], [z, 1.0]])
        return {
            "sum": np.sum(a), "om.sum": om.sum([x, y, z]), "whole": whole.sum(), "count": om.sum(a > 0), "grid": grid.sum(), "dot": om.dot(a, b),
            "dot of a list": om.dot([x, y], [3, 4.0]), "dot of whole": om.dot(whole, whole), "rows": om.sum([om.dot(row, [x, y]) for row in grid]),
            "any": om.any(a > 1), "all": om.all(a > -1), "any of rows": om.any(grid == 1.0),
        }  # fmt: skip

    def fused(a, b, c):
        return (a.astype(np.float64) * np.float64(b) + c.astype(np.float64)).astype(F)

    def expected(x, y, z, n):
        count = ((x > 0).astype(U32) + (y > 0) + (z > 0)).astype(U32)
        first = fused(y, y, x * x)
        return {
            "sum": x + y + z, "om.sum": x + y + z, "whole": n + (n >> U32(8)) + U32(5), "count": count, "grid": x + y + z + F(1),
            "dot": fused(z, F(2), fused(y, z, x * y)), "dot of a list": fused(y, F(4), x * F(3)),
            "dot of whole": n * n + (n >> U32(8)) * (n >> U32(8)) + U32(25), "rows": first + fused(np.ones(len(x), F), y, z * x),
            "any": (x > 1) | (y > 1) | (z > 1), "all": (x > -1) & (y > -1) & (z > -1), "any of rows": np.ones(len(x), bool),
        }  # fmt: skip

    assert_computes(rule, expected, x=X, y=Y, z=Z, n=N)


def test_functions_of_elements():
    def rule(x, y):
        a = om.array([[x, y], [1.5, x * 3]])
        found = {
            "sqrt": om.sqrt(abs(a)), "floor": om.floor(a), "clip": om.clip(a, -0.5, high=y), "to_int": om.to_float(om.to_int(a * 10)), "fma": om.fma(a, x, a),
            "pow": om.pow(abs(a), 0.5), "pow of": om.pow(2.0, a) - 2.0**a, "sin": om.sin(a) - om.array([[om.sin(v) for v in row] for row in a]),
            "atan2": om.atan2(a, 2.0) - om.array([[om.atan2(v, 2.0) for v in row] for row in a]),
            "whole": om.to_float(om.to_uint(abs(a)) % 3 + (om.to_uint(abs(a)) << 2) // 3), "mod": a % 0.7 - om.array([[v % 0.7 for v in row] for row in a]),
        }  # fmt: skip
        assert all(array.shape == (2, 2) for array in found.values())
        return {name: array[1, 1] for name, array in found.items()}

    def expected(x, y):
        a = x * F(3)
        whole = np.abs(a).astype(U32)
        low = np.where(F(-0.5) > a, F(-0.5), a)
        zero = np.zeros(len(x), F)
        return {
            "sqrt": np.sqrt(np.abs(a)), "floor": np.floor(a), "clip": np.where(y < low, y, low), "to_int": np.trunc(a * F(10)) + F(0),
            "fma": (a.astype(np.float64) * x + a).astype(F), "pow": np.sqrt(np.abs(a)), "pow of": zero, "sin": zero, "atan2": zero,
            "whole": (whole % U32(3) + (whole << U32(2)) // U32(3)).astype(F), "mod": zero,
        }  # fmt: skip

    assert_computes(rule, expected, x=X, y=Y)


@pytest.mark.parametrize("shape", [(2, 3), (6, 7)])
def test_rows_and_columns(shape):
    """Elements at indices of each environment, in registers and in memory; past an end they are the last of the row or column."""
    rows, columns = shape
    i, j = (column.reshape(-1).astype(U32) for column in np.meshgrid([*range(rows + 2), 2**32 - 1], [*range(columns + 2), 2**31]))
    flag = np.arange(len(i)) % 3 > 0

    def rule(i, j, flag):
        grid = om.array([[i * 100 + j * 10 + (columns * r + c) for c in range(columns)] for r in range(rows)])
        copy = grid.copy()
        copy[i, j] = 7
        copy.put((i, 1), 11, where=flag)
        copy[0, j] = copy[0, j] + 1
        copy[-1, -1] = copy[rows - 1, columns - 1] + 3
        inside = om.when(flag, lambda array, n: (written(array, n), n), grid, i)[0]
        loop = om.repeat(rows, lambda k, array: written(array.copy(), k), grid)
        assert grid.shape == shape and len(grid) == rows and [len(row) for row in grid] == [columns] * rows
        return {
            "read": grid[i, j], "row": grid[1, j], "column": grid[i, om.to_int(j)], "modulo": grid[i % rows, j % columns], "written": weighted(copy),
            "inside": weighted(inside), "loop": weighted(loop), "chosen": weighted(om.where(flag, grid, copy)), "sum": grid.sum(),
        }  # fmt: skip

    def written(array, k):
        array[k, 1] = 5
        return array

    def weighted(grid):
        return sum(value * (k + 3) for k, value in enumerate(value for row in grid for value in row))

    def expected(i, j, flag):
        found = {name: [] for name in ("read", "row", "column", "modulo", "written", "inside", "loop", "chosen", "sum")}
        for a, b, is_set in zip(i.tolist(), j.tolist(), flag.tolist(), strict=True):
            grid = np.array([[a * 100 + b * 10 + columns * r + c for c in range(columns)] for r in range(rows)], object)
            copy, inside, loop = grid.copy(), grid.copy(), grid.copy()
            if a < rows and b < columns:
                copy[a, b] = 7
            if a < rows and is_set:
                copy[a, 1] = inside[a, 1] = 5
                copy[a, 1] = 11
            if b < columns:
                copy[0, b] += 1
            copy[-1, -1] += 3
            loop[:, 1] = 5
            clamped = grid[min(a, rows - 1), min(b, columns - 1)]
            values = [clamped, grid[1, min(b, columns - 1)], clamped, grid[a % rows, b % columns], weighted(copy), weighted(inside), weighted(loop)]
            values += [weighted(grid if is_set else copy), grid.sum()]
            for name, value in zip(found, values, strict=True):
                found[name].append(value % 2**32)
        return {name: np.array(values, U32) for name, values in found.items()}

    assert_computes(rule, expected, i=i, j=j, flag=flag)
    assert_same_one_by_one(rule, i=i, j=j, flag=flag)


class Board:
    """Arrays of rows and columns, and large ones of every kind, in a state."""

    small: operant.Float[2, 3]
    reals: operant.Float[5, 8]
    signs: operant.Int[40]
    flags: operant.Bool[6, 6]
    words: operant.Uint[8, 8]

    observation_space = spaces.Box(-np.inf, np.inf, (6 + 40 + 40 + 36 + 64,))
    action_space = spaces.Discrete(36)
    max_episode_steps = 100

    def reset(self, draws):
        zeros = np.zeros((2, 3))
        return self.State(small=zeros, reals=np.arange(40).reshape(5, 8) / 4, signs=[-k for k in range(40)], flags=[[False] * 6] * 6, words=np.eye(8, dtype=int))

    def step(self, s, action, draws):
        row, column = action // 8, action % 8
        s.small[action % 2, action % 3] = -1.5
        s.reals[row, column] = s.reals[row, column] * -2.0
        s.signs[action] = s.signs[action] * 3 - 1
        s.flags[action // 6, action % 6] = True
        s.words[column, row] = s.words[column, row] + 10
        s.small = s.small + 0.25
        return s, s.reals[row, column], s.flags[5, 5]

    def observe(self, s):
        return [s.small, s.reals, om.to_float(s.signs), om.to_float(s.flags), om.to_float(s.words)]


def test_arrays_of_a_state():
    envs = operant.make_vec(operant.world(Board), 35, seed=1)
    envs.reset()
    small, reals = np.zeros((35, 2, 3), F), np.tile((np.arange(40).reshape(5, 8) / 4).astype(F), (35, 1, 1))
    signs, flags, words = np.tile(-np.arange(40), (35, 1)), np.zeros((35, 6, 6)), np.tile(np.eye(8), (35, 1, 1))
    env = np.arange(35)
    for turn in range(3):
        actions = (env * (turn + 1)) % 35
        small[env, actions % 2, actions % 3] = -1.5
        small += F(0.25)
        reals[env, actions // 8, actions % 8] *= -2
        signs[env, actions] = signs[env, actions] * 3 - 1
        flags[env, actions // 6, actions % 6] = 1
        words[env, actions % 8, actions // 8] += 10
        obs, rewards, terminated, *_ = envs.step(actions)
        np.testing.assert_array_equal(obs, np.concatenate([array.reshape(35, -1) for array in (small, reals, signs, flags, words)], axis=1).astype(F))
        np.testing.assert_array_equal(rewards, reals[env, actions // 8, actions % 8])
        assert not terminated.any()


def counting(kind, size):
    """A world that counts in an array: with every kind of access, by constant and recorded index, inside of rules and past the end."""

    class Counting:
        cells: kind[size]
        rows: kind[3, 7]
        seen: operant.Uint

        observation_space = spaces.Box(0, np.inf, (size + 21 + 1,))
        action_space = spaces.Discrete(size)
        max_episode_steps = 50

        def reset(self, draws):
            return self.State(cells=[k % 256 for k in range(size)], rows=[[9] * 7] * 3, seen=draws.integer(200))

        def step(self, s, action, draws):
            s.cells[action] = s.cells[action] + 1 & 255
            s.cells[-1] = s.cells[0] + s.cells[action + 1] & 255
            s.cells.put(action * 2, s.seen & 255, where=action > 2)
            s.rows[action % 3, action] = draws.integer(256)
            s.rows = om.where(s.seen > 100, s.rows, s.rows + 1 & 255)
            s.cells = om.when(action == 1, lambda cells: cells, s.cells)

            def turn(index, cells, seen):
                cells[index + action] = seen & 255
                return cells, seen + cells[size - 1 - index]

            s.cells, s.seen = om.repeat(3, turn, s.cells, s.seen)
            return s, om.to_float(s.cells[s.seen % 64]), s.cells[5] == 77

        def observe(self, s):
            return [om.to_float(s.cells), om.to_float(s.rows), om.to_float(s.seen)]

    return operant.world(Counting)


@pytest.mark.parametrize("size", [6, 45, 300])
def test_bytes_are_like_numbers_below_256(size):
    bytes_, plain = (operant.make_vec(counting(kind, size), 48, seed=3) for kind in (operant.Byte, operant.Uint))
    np.testing.assert_array_equal(bytes_.reset()[0], plain.reset()[0])
    for _ in range(60):
        actions = RNG.integers(0, size, 48)
        for ours, theirs in zip(bytes_.step(actions)[:4], plain.step(actions)[:4], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_bytes_take_a_quarter_of_the_words_and_the_lowest_bits():
    class Wide:
        cells: operant.Byte[10]
        observation_space, action_space, max_episode_steps = spaces.Box(0, 255, (10,)), spaces.Discrete(10), 9

        def reset(self, draws):
            return self.State(cells=[0] * 10)

        def step(self, s, action, draws):
            s.cells[action] = 0x1234
            return s, 0.0, om.any(s.cells > 255)

        def observe(self, s):
            return om.to_float(s.cells)

    world = operant.world(Wide)
    assert [leaf["name"] for leaf in json.loads(operant._world.recorded(world).content)["state"]] == ["cells[0]", "cells[1]", "cells[2]"]
    envs = operant.make_vec(world, 10, seed=1)
    envs.reset()
    obs, _, terminated, *_ = envs.step(np.arange(10))
    np.testing.assert_array_equal(obs, np.eye(10, dtype=F) * 0x34)
    assert not terminated.any()
    with pytest.raises(TypeError, match=r"n: use an array of bytes, such as operant.Byte\[400\]"):
        operant.world(type("One", (), {"__annotations__": {"n": operant.Byte}, "reset": None}))


def test_files_name_the_numbers_of_arrays_row_by_row(tmp_path):
    operant.world(Board).save(tmp_path / "board.world")
    world = operant.load_world(tmp_path / "board.world")
    leaves = json.loads(world.content)["state"]
    assert [leaf["name"] for leaf in leaves[:7]] == [*(f"small[{k}]" for k in range(6)), "reals[0]"]
    assert {leaf["kind"] for leaf in leaves[:6]} == {"float"} and {leaf["kind"] for leaf in leaves[6:]} == {"uint"}
    assert len(leaves) == math.prod(Board.observation_space.shape)
    envs, others = operant.make_vec(world, 4, seed=1), operant.make_vec(Board, 4, seed=1)
    np.testing.assert_array_equal(envs.reset()[0], others.reset()[0])


def test_large_arrays_of_floats_keep_every_bit():
    values = np.array([0.0, -0.0, 1e-45, np.inf, -np.inf, 3.4e38, 0.1, -1.0] * 6, F)
    index = np.arange(len(values), dtype=U32)

    def rule(index, x):
        array = om.array([float(value) for value in values])
        copy = array.copy()
        copy[index] = x
        return {"read": array[index], "written": copy[index], "next": copy[index + 1]}

    def expected(index, x):
        return {"read": values[index], "written": x, "next": values[np.minimum(index + 1, len(values) - 1)]}

    x = RNG.standard_normal(len(values)).astype(F)
    wanted = expected(index, x)
    wanted["next"][-1] = x[-1]
    assert_computes(rule, lambda index, x: wanted, index=index, x=x)


# fmt: off
@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda s, a, d: s.few.nothing, "an array has no nothing; it has put, copy, sum, kind, shape, size"),
        (lambda s, a, d: s.grid[1], r"an array of 2 x 3 takes two indices, as in a\[i, j\]; `for row in a` gives its rows"),
        (lambda s, a, d: s.grid[0, :], r"a slice is an index of an array of one dimension; this one is 2 x 3"),
        (lambda s, a, d: s.grid[2, 0], "index 2 is outside an array of 2 x 3"),
        (lambda s, a, d: s.grid[0, -4], "index -4 is outside an array of 2 x 3"),
        (lambda s, a, d: s.grid[0, s.x], r"a Uint is expected, got a Float; convert it with operant\.math\.to_uint"),
        (lambda s, a, d: s.grid.put((0, 3), 1.0), "index 3 is outside an array of 2 x 3"),
        (lambda s, a, d: s.few[0, 1], "an array of 4 takes one index"),
        (lambda s, a, d: setattr(s, "grid", [0.0] * 6), "2 x 3 values are expected, got 6 rows"),
        (lambda s, a, d: setattr(s, "grid", [[0.0] * 3, [0.0] * 2]), "3 values are expected, got 2"),
        (lambda s, a, d: setattr(s, "grid", [0.0, 1.0]), "3 values are expected, got 0.0"),
        (lambda s, a, d: setattr(s, "grid", om.array([0.0] * 6)), r"an array of 2 x 3 is expected \(a Float each\), got one of 6 \(a Float each\)"),
        (lambda s, a, d: 1 if s.few == s.few else 2, r"`if`, .* of an array; use operant\.math\.any\(a\)"),
        (lambda s, a, d: s.few + s.many, "arrays of 4 and 40 do not combine: both have the same shape, or one is a number"),
        (lambda s, a, d: s.few + [1, 2, 3], "4 values are expected, got 3"),
        (lambda s, a, d: s.few * s.x, r"a Uint and a Float do not mix; convert one of them with operant\.math\.to_float"),
        (lambda s, a, d: s.few / s.few, r"/ is not defined for a Uint; use // or >> with a constant, or operant\.math\.to_float"),
        (lambda s, a, d: s.x % s.few, "a Float is expected, got an array; index it"),
        (lambda s, a, d: om.maximum(s.few, s.grid), "arrays of 4 and 2 x 3 do not combine"),
        (lambda s, a, d: om.where(s.b, s.few, s.many), "arrays of 4 and 40 do not combine"),
        (lambda s, a, d: om.where(s.few, s.few, 0), "a Bool is expected, got a Uint; compare it"),
        (lambda s, a, d: om.dot(s.few, s.many), "dot takes two arrays of the same length, got 4 and 40"),
        (lambda s, a, d: om.dot(s.grid, s.grid), r"dot takes two arrays of one dimension; .*\[operant\.math\.dot\(row, b\) for row in a\]"),
        (lambda s, a, d: om.dot(s.x, s.few), "iterating: a Float is one number"),
        (lambda s, a, d: om.sum([]), "the sum of no numbers"),
        (lambda s, a, d: om.sum(s.x), "iterating: a Float is one number"),
        (lambda s, a, d: om.matmul(s.grid, s.grid), "operant.math has no matmul; use .*dot"),
        (lambda s, a, d: om.array([]), "an array has at least one value"),
        (lambda s, a, d: om.array([[], []]), "a row has at least one value"),
        (lambda s, a, d: om.array([[1, 2], [s.n]]), "2 values are expected, got 1"),
        (lambda s, a, d: s.grid.sum(axis=1), r"sum adds all elements; of each row: \[operant\.math\.sum\(row\) for row in a\]"),
    ],
)
def test_mistakes(compute, says):
    place = re.escape(f"{__file__}:{compute.__code__.co_firstlineno}: ")
    with pytest.raises(operant.TraceError, match=f"^{place}.*{says}"):
        operant.make_vec(made(step=step_of(compute)))
# fmt: on
