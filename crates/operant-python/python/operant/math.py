"""Arithmetic for the rules of worlds: see `operant.world`. Every function gives the same bits on CPUs and GPUs.

Arguments are Floats, Uints, Ints, Bools, or numbers of Python.
"""

from __future__ import annotations

import builtins
import functools
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, ParamSpec

import numpy as np

from operant import _angles, _arrays, _numbers
from operant._arrays import Array, Packed, each
from operant._trace import (
    Natural,
    Value,
    as_value,
    common_kind,
    constant,
    fail,
    missing,
    pair,
    plain,
    recording,
    select,
)

__all__ = [
    "acos",
    "all",
    "any",
    "array",
    "asin",
    "atan",
    "atan2",
    "clip",
    "cos",
    "count_ones",
    "dot",
    "exp",
    "floor",
    "fma",
    "log",
    "maximum",
    "minimum",
    "named",
    "packed",
    "pow",
    "repeat",
    "repeat_while",
    "round",
    "sin",
    "sin_cos",
    "sqrt",
    "sum",
    "table",
    "tan",
    "tanh",
    "to_float",
    "to_int",
    "to_uint",
    "when",
    "where",
]


# Names of Python's math and NumPy, and what to write.
_INSTEAD = {
    **dict.fromkeys(("max", "amax", "fmax"), "operant.math.maximum(a, b)"),
    **dict.fromkeys(("min", "amin", "fmin"), "operant.math.minimum(a, b)"),
    **dict.fromkeys(("abs", "fabs", "absolute"), "abs(x)"),
    **dict.fromkeys(("select", "if_", "cond", "ifelse"), "operant.math.where(condition, a, b)"),
    "clamp": "operant.math.clip(x, low, high)",
    **dict.fromkeys(("power", "square", "float_power"), "x ** y"),
    **dict.fromkeys(("mod", "fmod", "remainder"), "a % b"),
    **dict.fromkeys(("logical_and", "logical_or", "logical_not"), "a & b, a | b and ~a"),
    **dict.fromkeys(("float", "float32"), "operant.math.to_float(x)"),
    **dict.fromkeys(("int", "int32", "trunc"), "operant.math.to_int(x)"),
    "arctan2": "operant.math.atan2(y, x)",
    **{f"arc{name}": f"operant.math.a{name}(x)" for name in ("tan", "sin", "cos")},
    **dict.fromkeys(("matmul", "inner", "vdot"), "[operant.math.dot(row, b) for row in a]"),
    "mean": "operant.math.sum(a) / a.size, or / len(a) for a list",
    "ceil": "-operant.math.floor(-x)",
    "hypot": "operant.math.sqrt(x * x + y * y)",
    "sign": "operant.math.where(x < 0, -1.0, 1.0)",
    "pi": "math.pi of Python",
    "inf": "math.inf of Python",
}


def __getattr__(name: str) -> NoReturn:
    missing("operant.math", name, __all__, _INSTEAD)


_P = ParamSpec("_P")


def _elementwise(function: Callable[_P, Value]) -> Callable[_P, Any]:
    """The function, which of arrays computes each element."""

    @functools.wraps(function)
    def of_each(*args: _P.args, **kwargs: _P.kwargs) -> Any:
        names, count = list(kwargs), len(args)
        return each(lambda *all: function(*all[:count], **dict(zip(names, all[count:], strict=True))), *args, *kwargs.values())

    return of_each


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, `no` elsewhere; both are computed. Of arrays it chooses each element."""
    if isinstance(condition, Array):
        return Array.choose(condition, yes, no)
    mask = as_value(condition, "mask")
    is_array = isinstance(yes, Array) or isinstance(no, Array)
    return Array.choose(mask, yes, no) if is_array else select(mask, yes, no)


@_elementwise
def minimum(a: Any, b: Any) -> Value:
    """The smaller one: `a if a < b else b`."""
    return _chosen(a, b, operator.lt, min, "minimum")


@_elementwise
def maximum(a: Any, b: Any) -> Value:
    """The larger one: `a if a > b else b`."""
    return _chosen(a, b, operator.gt, max, "maximum")


def _chosen(a: Any, b: Any, compare: Callable[[Any, Any], Any], of: Callable[[int, int], int], name: str) -> Value:
    a, b = pair(a, b)
    if isinstance(a, Natural) and isinstance(b, Natural):
        return Natural(_chosen(a.unsigned, b.unsigned, compare, of, name))
    for value in (a, b):
        _numbers.refuse_below_zero(value, name)
    chosen = select(compare(a, b), a, b)
    chosen.span = (of(a.span[0], b.span[0]), of(a.span[1], b.span[1]))
    return chosen


@_elementwise
def clip(x: Any, low: Any, high: Any) -> Value:
    """`x` kept in `low .. high`; NaN stays NaN."""
    return _chosen(high, _chosen(low, x, operator.gt, max, "clip"), operator.lt, min, "clip")


@_elementwise
def sqrt(x: Any) -> Value:
    """Square root, correctly rounded."""
    return as_value(x, "float")._apply("FloatSqrt", "float")


@_elementwise
def floor(x: Any) -> Value:
    """The largest whole number not above x, as a Float."""
    return as_value(x, "float")._apply("FloatFloor", "float")


@_elementwise
def round(x: Any) -> Value:
    """Nearest whole number as a Float; halves go to the even one."""
    return as_value(x, "float")._apply("FloatRound", "float")


def _function(name: str, x: Any) -> Value:
    return Value("float", recording().core.function(name, as_value(x, "float").arg))


@_elementwise
def sin(x: Any) -> Value:
    """Sine; NaN beyond abs(x) = 2^20."""
    return _function("sin", x)


@_elementwise
def cos(x: Any) -> Value:
    """Cosine; NaN beyond abs(x) = 2^20."""
    return _function("cos", x)


def sin_cos(x: Any) -> tuple[Value, Value]:
    """Sine and cosine, for little more than the cost of one; NaN beyond abs(x) = 2^20."""
    sine, cosine = recording().core.sin_cos(as_value(x, "float").arg)
    return Value("float", sine), Value("float", cosine)


@_elementwise
def tan(x: Any) -> Any:
    """Tangent; NaN beyond abs(x) = 2^20."""
    sine, cosine = sin_cos(x)
    return sine / cosine


@_elementwise
def exp(x: Any) -> Value:
    """e to the power of x."""
    return _function("exp", x)


@_elementwise
def log(x: Any) -> Value:
    """Natural logarithm."""
    return _function("log", x)


@_elementwise
def tanh(x: Any) -> Value:
    """Hyperbolic tangent."""
    return _function("tanh", x)


@_elementwise
def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y) from -pi to pi, as NumPy's arctan2; abs(x) + abs(y) is below 3.4e38, or infinite."""
    return _angles.angle(as_value(y, "float"), as_value(x, "float"))


@_elementwise
def atan(x: Any) -> Any:
    """Inverse tangent."""
    return _angles.angle(as_value(x, "float"), constant("float", 1.0))


@_elementwise
def asin(x: Any) -> Any:
    """Inverse sine; NaN beyond abs(x) = 1."""
    x = as_value(x, "float")
    return _angles.angle(x, sqrt((1.0 - x) * (1.0 + x)))


@_elementwise
def acos(x: Any) -> Any:
    """Inverse cosine; NaN beyond abs(x) = 1."""
    x = as_value(x, "float")
    return _angles.angle(sqrt((1.0 - x) * (1.0 + x)), x)


def pow(x: Any, y: Any) -> Any:
    """`x ** y`. Whole powers that are constants are products, and halves such as 1.5 have a square root; other powers of Floats are
    exp(y * log(x)): 0 to a power above 0 is 0, and x < 0 gives NaN, for whole y too."""
    if not builtins.any(isinstance(value, (Value, Array)) for value in (x, y)):
        return constant("float", x) ** y
    return x**y


@_elementwise
def fma(a: Any, b: Any, c: Any) -> Value:
    """a * b + c, rounded once: faster and more exact than the two operators."""
    return as_value(a, "float")._apply("FloatMulAdd", "float", as_value(b, "float"), as_value(c, "float"))


def _any(x: Any) -> Value:
    return as_value(x, common_kind([x]))


@_elementwise
def to_float(x: Any) -> Value:
    """A whole number as a Float; a Bool as 1.0 or 0.0. A Uint that may have wrapped around below 0 is an error."""
    is_number = not isinstance(x, Value) and not isinstance(plain(x), bool)
    value = as_value(x, "float") if is_number else _any(x)
    if value.kind == "mask":
        return select(value, 1.0, 0.0)
    _numbers.refuse_below_zero(value, "to_float")
    return value if value.kind == "float" else value._apply("FloatFromUint" if value.kind == "uint" else "FloatFromInt", "float")


@_elementwise
def to_int(x: Any) -> Value:
    """A Float without its fraction, within the range of an Int and 0 for NaN; a Uint by its bits; a Bool as 1 or 0."""
    value = _any(x)
    if value.kind == "mask":
        value = select(value, 1, 0)
    return value if value.kind == "int" else value._apply("FloatToInt" if value.kind == "float" else "UintToInt", "int")


@_elementwise
def to_uint(x: Any) -> Value:
    """A Float is converted with `to_int` first, so at most 2147483647 is returned; a negative Int wraps (-1 becomes 4294967295);
    a Bool becomes 1 or 0."""
    value = _any(x)
    if isinstance(value, Natural):
        return value.unsigned
    if value.kind == "mask":
        return select(value, 1, 0)
    return value if value.kind == "uint" else to_int(value)._apply("IntToUint", "uint")


@_elementwise
def count_ones(x: Any) -> Value:
    """How many bits of a Uint are set."""
    return Value("uint", recording().core.count_ones(as_value(x, "uint").arg), (0, 32))


def any(conditions: Iterable[Any]) -> Value:
    """Whether one of several conditions holds in an environment."""
    return _joined(conditions, lambda a, b: a | b, False)


def all(conditions: Iterable[Any]) -> Value:
    """Whether all of several conditions hold in an environment."""
    return _joined(conditions, lambda a, b: a & b, True)


def _joined(conditions: Iterable[Any], join: Callable[[Value, Value], Value], start: bool) -> Value:
    joined = constant("mask", start)
    for condition in conditions.items if isinstance(conditions, Array) else conditions:
        joined = join(joined, as_value(condition, "mask"))
    return joined


class Table:
    """Constants that a Uint selects; see `table`."""

    def __init__(self, kind: str, entries: list[Any]) -> None:
        self._kind, self._entries = kind, entries
        # For the comparison of two recordings, before the entries are rounded.
        self._mark = float(hash(repr(entries)))

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Value:
        if isinstance(index, Value) and index.kind == "int":
            index = to_uint(index)
        recording().note(self._mark)
        found = recording().core.look_up(self._kind, self._entries, as_value(index, "uint").arg)
        return Value(self._kind, found) if self._kind == "float" else Value(self._kind, found, (min(self._entries), max(self._entries)))


def table(entries: Any) -> Table:
    """A table of constants: `table(entries)[index]`. Past the end it gives the last entry. Entries are non-negative integers
    or floats."""
    array = np.asarray(entries)
    if array.size == 0 or array.dtype.kind not in "iuf":
        fail(f"a table has numbers, at least one, got {entries!r}")
    numbers = array.reshape(-1).tolist()
    if array.dtype.kind == "f":
        return Table("float", numbers)
    for number in numbers:
        if not 0 <= number < 2**32:
            fail(f"a table of whole numbers has entries from 0 to {2**32 - 1}, got {number}")
    return Table("uint", numbers)


def array(values: Iterable[Any]) -> Array:
    """An array of these values, as the field `Uint[n]` has one, or of rows of them, as `Uint[m, n]` has one."""
    values = list(values)
    if not values:
        fail("an array has at least one value")
    is_of_rows = isinstance(values[0], (list, tuple, Array, np.ndarray))
    shape = (len(values), len(values[0])) if is_of_rows else (len(values),)
    numbers = [number for row in values for number in row] if is_of_rows else values
    if not numbers:
        fail("a row has at least one value")
    return Array.of(common_kind(numbers), shape, values)


def sum(values: Any) -> Value:
    """The sum of an array or a list, added in its order; of Bools how many hold."""
    return _arrays.total(_arrays.flattened(values if isinstance(values, (Array, np.ndarray)) else list(values)))


def dot(a: Any, b: Any) -> Value:
    """The sum of a[k] * b[k], added in this order; of Floats with `fma`. Of arrays or lists; also of a row of an array of rows and columns."""
    rows = [list(values) for values in (a, b)]
    if len(rows[0]) != len(rows[1]) or not rows[0]:
        fail(f"dot takes two arrays of the same length, got {len(rows[0])} and {len(rows[1])}")
    for row in rows:
        if builtins.any(isinstance(value, (list, tuple, np.ndarray)) for value in row):
            fail("dot takes two arrays of one dimension; for rows and columns: [operant.math.dot(row, b) for row in a]")
    (x, y), *rest = [pair(x, y) for x, y in zip(*rows, strict=True)]
    total: Value = x * y
    for x, y in rest:
        total = fma(x, y, total) if x.kind == "float" else x * y + total
    return total


def packed(words: Sequence[Any]) -> Packed:
    """An observation of bits, indices or bytes as Uints: 32 bits a word, or four bytes, the first in the lowest bits. It is faster
    than one value for each of them."""
    return Packed(words)


def named(name: str, value: Any) -> Value:
    """Names a value in emitted CUDA."""
    if not re.fullmatch("[a-z][a-z0-9_]*", name):
        fail(f"a name in CUDA is made of a-z, 0-9 and _, and starts with a letter, got {name!r}")
    named = _any(value)
    recording().core.name(named.arg, name)
    return named


_Values = Any


def when(condition: Any, rule: Callable[..., _Values], *values: Any) -> Any:
    """`rule(*values)` where the condition holds, and the values elsewhere. The rule costs nothing while no environment needs it,
    so use it for rare cases. It returns as many values, of the same kinds."""
    mask, form = as_value(condition, "mask"), _Form(values)
    known = mask.arg.value
    if known is not None:
        args = form.args if not known else form.results(rule(*form.fresh(form.args)))
        return _returned(form.fresh(args))
    now = recording()

    def body() -> list[Any]:
        with now.body():
            return form.results(rule(*form.fresh(form.args)))

    return _returned(form.fresh(now.core.when(mask.arg, form.args, form.names, body)))


def repeat(count: int, rule: Callable[..., _Values], *values: Any) -> Any:
    """`values = rule(index, *values)`, `count` times. The index is a Uint."""
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count < 2**32:
        fail(f"repeat takes a number of turns that is known while the world is recorded, got {count!r}; use repeat_while to end early")
    now, form = recording(), _Form(values)

    def body(index: Any, carried: Sequence[Any]) -> list[Any]:
        with now.body(is_loop=True):
            return form.results(rule(Value("uint", index), *form.fresh(carried)))

    return _returned(form.fresh(now.core.repeat(count, form.args, form.names, body)))


def repeat_while(most: int, condition: Callable[..., Any], rule: Callable[..., _Values], *values: Any) -> Any:
    """`values = rule(index, *values)` while `condition(*values)` holds in an environment, `most` times at most. On a CPU the loop
    ends when it holds in none."""

    def turn(index: Value, *carried: Any) -> Any:
        return when(condition(*carried), lambda *inner: rule(index, *inner), *carried)

    return repeat(most, turn, *values)


def _returned(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


class _Form:
    """Values and arrays as arguments of a recording, and back."""

    def __init__(self, values: Sequence[Any]) -> None:
        if not values:
            fail("give the values that the rule changes")
        self._values = [value.copy() if isinstance(value, Array) else _any(value) for value in values]
        self.args = [arg for value in self._values for arg in _args(value)]
        self.names = [f"value_{k}" for k in range(len(self.args))]

    def fresh(self, args: Iterable[Any]) -> list[Any]:
        """The values that these arguments are."""
        rest = iter(args)
        return [
            Array.from_args(value.kind, value.shape, rest) if isinstance(value, Array) else Value(value.kind, next(rest))
            for value in self._values
        ]

    def results(self, results: Any) -> list[Any]:
        """The arguments of what a rule returned."""
        given = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(given) != len(self._values):
            fail(f"the rule was given {len(self._values)} values and returned {len(given)}; it returns as many as it is given")
        args = []
        for result, value in zip(given, self._values, strict=True):
            if isinstance(value, Array):
                args.extend(Array.of(value.kind, value.shape, result).args)
            else:
                args.append(as_value(result, value.kind).arg)
        return args


def _args(value: Value | Array) -> list[Any]:
    return value.args if isinstance(value, Array) else [value.arg]
