"""Arithmetic for the rules of worlds: see `operant.world`. Every function gives the same bits on CPUs and GPUs.

Arguments are Floats, Uints, Ints, Bools, or numbers of Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from operant import _trace
from operant._trace import Array, Packed, Value, fail

__all__ = [
    "all",
    "any",
    "array",
    "clip",
    "cos",
    "count_ones",
    "exp",
    "floor",
    "fma",
    "log",
    "maximum",
    "minimum",
    "named",
    "packed",
    "repeat",
    "repeat_while",
    "round",
    "sin",
    "sin_cos",
    "sqrt",
    "table",
    "tan",
    "tanh",
    "to_float",
    "to_int",
    "to_uint",
    "when",
    "where",
]


def _float(x: Any) -> Value:
    return _trace.as_value(_trace.recorder_of([x]), x, "float")


def where(condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, `no` elsewhere; both are computed. Arrays are chosen whole."""
    mask = _trace.as_value(_trace.recorder_of([condition, yes, no]), condition, "mask")
    return _trace.select(mask, yes, no)


def minimum(a: Any, b: Any) -> Value:
    """The smaller one: `a if a < b else b`."""
    a, b = _both(a, b)
    return _trace.select(a < b, a, b)


def maximum(a: Any, b: Any) -> Value:
    """The larger one: `a if a > b else b`."""
    a, b = _both(a, b)
    return _trace.select(a > b, a, b)


def _both(a: Any, b: Any) -> tuple[Value, Value]:
    if not isinstance(a, Value) and not isinstance(b, Value):
        a = _trace.constant(_trace.recorder_of([]), _trace.kind_of(a), a)
    return _trace.pair(a, b)


def clip(x: Any, low: Any, high: Any) -> Value:
    """`x` kept in `low .. high`; NaN stays NaN."""
    return minimum(high, maximum(low, x))


def sqrt(x: Any) -> Value:
    """Square root, correctly rounded."""
    return _float(x)._apply("FloatSqrt", "float")


def floor(x: Any) -> Value:
    """Greatest whole number not above, as a Float."""
    return _float(x)._apply("FloatFloor", "float")


def round(x: Any) -> Value:
    """Nearest whole number as a Float; halves go to the even one."""
    return _float(x)._apply("FloatRound", "float")


def _function(name: str, x: Any) -> Value:
    x = _float(x)
    return Value(x._recorder, "float", x._recorder.function(name, x._arg))


def sin(x: Any) -> Value:
    """Sine."""
    return _function("sin", x)


def cos(x: Any) -> Value:
    """Cosine."""
    return _function("cos", x)


def sin_cos(x: Any) -> tuple[Value, Value]:
    """Sine and cosine, for little more than the cost of one."""
    x = _float(x)
    sine, cosine = x._recorder.sin_cos(x._arg)
    return Value(x._recorder, "float", sine), Value(x._recorder, "float", cosine)


def tan(x: Any) -> Value:
    """Tangent."""
    sine, cosine = sin_cos(x)
    return sine / cosine


def exp(x: Any) -> Value:
    """e to the power of x."""
    return _function("exp", x)


def log(x: Any) -> Value:
    """Natural logarithm."""
    return _function("log", x)


def tanh(x: Any) -> Value:
    """Hyperbolic tangent."""
    return _function("tanh", x)


def fma(a: Any, b: Any, c: Any) -> Value:
    """a * b + c, rounded once: faster and more exact than the two operators."""
    recorder = _trace.recorder_of([a, b, c])
    first, second, third = (_trace.as_value(recorder, x, "float") for x in (a, b, c))
    return first._apply("FloatMulAdd", "float", second, third)


def to_float(x: Any) -> Value:
    """A whole number as a Float; a Bool as 1.0 or 0.0."""
    if not isinstance(x, Value):
        return _float(x)
    if x.kind == "mask":
        return _trace.select(x, 1.0, 0.0)
    return {"float": lambda: x, "uint": lambda: x._apply("FloatFromUint", "float"), "int": lambda: x._apply("FloatFromInt", "float")}[x.kind]()


def to_int(x: Any) -> Value:
    """A Float without its fraction, within the range of an Int and 0 for NaN; a Uint by its bits; a Bool as 1 or 0."""
    if not isinstance(x, Value):
        return _trace.constant(_trace.recorder_of([]), "int", x)
    if x.kind == "mask":
        return _trace.select(x, 1, 0)._apply("UintToInt", "int")
    return x if x.kind == "int" else x._apply("FloatToInt" if x.kind == "float" else "UintToInt", "int")


def to_uint(x: Any) -> Value:
    """The bits of `to_int(x)`: a whole number that is not negative keeps its value."""
    if not isinstance(x, Value):
        return _trace.constant(_trace.recorder_of([]), "uint", x)
    if x.kind == "mask":
        return _trace.select(x, 1, 0)
    return x if x.kind == "uint" else to_int(x)._apply("IntToUint", "uint")


def count_ones(x: Any) -> Value:
    """How many bits of a Uint are set."""
    x = _trace.as_value(_trace.recorder_of([x]), x, "uint")
    return Value(x._recorder, "uint", x._recorder.count_ones(x._arg))


def any(conditions: Sequence[Any]) -> Value:
    """Whether one of several conditions holds in an environment."""
    return _joined(conditions, lambda a, b: a | b, False)


def all(conditions: Sequence[Any]) -> Value:
    """Whether all of several conditions hold in an environment."""
    return _joined(conditions, lambda a, b: a & b, True)


def _joined(conditions: Sequence[Any], join: Callable[[Value, Value], Value], start: bool) -> Value:
    conditions = list(conditions)
    recorder = _trace.recorder_of(conditions)
    joined = _trace.constant(recorder, "mask", start)
    for condition in conditions:
        joined = join(joined, _trace.as_value(recorder, condition, "mask"))
    return joined


class Table:
    """Constants that a Uint selects; see `table`."""

    def __init__(self, kind: str, entries: list[Any]) -> None:
        self._kind, self._entries = kind, entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Value:
        recorder = _trace.recorder_of([index])
        if isinstance(index, Value) and index.kind == "int":
            index = to_uint(index)
        at = _trace.as_value(recorder, index, "uint")
        return Value(recorder, self._kind, recorder.look_up(self._kind, self._entries, at._arg))


def table(entries: Any) -> Table:
    """A table of constants: `table(entries)[index]`. Past the end it gives the last entry. Entries are whole numbers that are not
    negative, or real numbers."""
    numbers = [number for number in np.asarray(entries).reshape(-1).tolist()]
    if not numbers:
        fail("a table has at least one entry")
    is_real = not np.issubdtype(np.asarray(entries).dtype, np.integer)
    if is_real:
        return Table("float", [float(number) for number in numbers])
    for number in numbers:
        if not 0 <= number < 2**32:
            fail(f"a table of whole numbers has entries from 0 to {2**32 - 1}, got {number}")
    return Table("uint", numbers)


def array(values: Sequence[Any]) -> Array:
    """An array of these values, as the field `Uint[n]` has one."""
    values = list(values)
    recorder = _trace.recorder_of(values)
    kinds = {value.kind for value in values if isinstance(value, Value)} or {_trace.kind_of(values[0])}
    return Array.of(recorder, kinds.pop(), len(values), values)


def packed(words: Sequence[Any]) -> Packed:
    """An observation of bits, indices or bytes as Uints: 32 bits a word, or four bytes, the first in the lowest bits. It is faster
    than one value for each of them."""
    return Packed(words)


def named(name: str, value: Value) -> Value:
    """Names a value in emitted CUDA."""
    value._recorder.name(value._arg, name)
    return value


_Values = Any


def when(condition: Any, rule: Callable[..., _Values], *values: Any) -> Any:
    """`rule(*values)` where the condition holds, and the values elsewhere. The rule costs nothing while no environment needs it,
    so use it for what is rare. It returns as many values, of the same kinds."""
    recorder = _trace.recorder_of([condition, *values])
    mask = _trace.as_value(recorder, condition, "mask")
    known = mask._arg.value
    if known is not None:
        return rule(*values) if known else _returned(list(values))
    form = _Form(recorder, values)
    args = recorder.when(mask._arg, form.args, form.names, lambda: form.results(rule(*form.fresh(form.args))))
    return _returned(form.fresh(args))


def repeat(count: int, rule: Callable[..., _Values], *values: Any) -> Any:
    """`values = rule(index, *values)`, `count` times. The index is a Uint."""
    if isinstance(count, Value) or not isinstance(count, (int, np.integer)) or count < 0:
        fail(f"repeat takes a number of turns that is known while the world is recorded, got {count!r}; use repeat_while to end early")
    recorder = _trace.recorder_of(values)
    form = _Form(recorder, values)
    args = recorder.repeat(
        int(count),
        form.args,
        form.names,
        lambda index, carried: form.results(rule(Value(recorder, "uint", index), *form.fresh(carried))),
    )
    return _returned(form.fresh(args))


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

    def __init__(self, recorder: Any, values: Sequence[Any]) -> None:
        if not values:
            fail("give the values that the rule changes")
        self._recorder = recorder
        self._values: list[Any] = []
        for value in values:
            if isinstance(value, Array):
                self._values.append(value.copy())
            else:
                self._values.append(_trace.as_value(recorder, value, _trace.kind_of(value)))
        self.args = [arg for value in self._values for arg in _args(value)]
        self.names = [f"value_{k}" for k in range(len(self.args))]

    def fresh(self, args: Sequence[Any]) -> list[Any]:
        """The values that these arguments are."""
        rest = iter(args)
        fresh: list[Any] = []
        for value in self._values:
            if isinstance(value, Value):
                fresh.append(Value(self._recorder, value.kind, next(rest)))
            elif value._items is None:
                fresh.append(Array(self._recorder, value.kind, None, (next(rest), value.size)))
            else:
                items = [Value(self._recorder, value.kind, next(rest)) for _ in value._items]
                fresh.append(Array(self._recorder, value.kind, items))
        return fresh

    def results(self, results: Any) -> list[Any]:
        """The arguments of what a rule returned."""
        given = list(results) if isinstance(results, (tuple, list)) else [results]
        if len(given) != len(self._values):
            fail(f"the rule was given {len(self._values)} values and returned {len(given)}; it returns as many as it is given")
        args = []
        for result, value in zip(given, self._values, strict=True):
            if isinstance(value, Array):
                args.extend(_args(Array.of(self._recorder, value.kind, value.size, result)))
            else:
                args.append(_trace.as_value(self._recorder, result, value.kind)._arg)
        return args


def _args(value: Any) -> list[Any]:
    if isinstance(value, Value):
        return [value._arg]
    return [value._memory] if value._items is None else [item._arg for item in value._items]
