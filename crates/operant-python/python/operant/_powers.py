"""x ** y and om.pow for the rules of a world."""

from __future__ import annotations

from typing import Any

from operant import _arrays
from operant._trace import _NAMES, Value, as_value, constant, fail, plain, recording, select

# Products of at most this many factors are multiplied one after the other, and larger halves are computed with exp and log.
_FACTORS = 16


def power(x: Value, exponent: Any) -> Any:
    """`x ** exponent`."""
    if isinstance(exponent, _arrays.Array):
        return exponent.mapped(lambda item: power(x, item))
    if isinstance(exponent, Value) and exponent.arg.value is not None and exponent.kind != "mask":
        exponent = exponent.arg.value
    exponent = plain(exponent)
    is_number = isinstance(exponent, (int, float)) and not isinstance(exponent, bool)
    if x.kind != "float":
        if not (is_number and 0 <= exponent < 2**31 and exponent == int(exponent)):
            fail(f"** of {_NAMES[x.kind]} takes a whole constant from 0 to {2**31 - 1}; otherwise convert both sides with operant.math.to_float")
        return _whole(x, int(exponent))
    if not is_number:
        return _of_floats(x, as_value(exponent, "float"))
    if -(2**31) < exponent < 0 and exponent % 0.5 == 0:
        return 1.0 / power(x, -exponent)
    if 0 <= exponent < 2**31 and exponent == int(exponent):
        return _whole(x, int(exponent))
    if 0 < exponent < _FACTORS and exponent % 1 == 0.5:
        root = x._apply("FloatSqrt", "float")
        return root if exponent < 1 else _whole(x, int(exponent)) * root
    return _of_floats(x, constant("float", exponent))


def power_of_number(number: Any, exponent: Value) -> Any:
    """`number ** exponent`, for a number that is known while recording."""
    if exponent.kind != "float":
        fail("** takes a constant power of whole numbers; use 1 << n, or convert n with operant.math.to_float")
    base = as_value(number, "float")
    known = base.arg.value
    if known is not None and not known >= 0:
        fail(f"{number!r} ** x is no real number for most x; a base is at least 0")
    return _of_floats(base, exponent)


def _whole(x: Value, exponent: int) -> Any:
    """A product of x; a large one by squaring."""
    if x.kind == "mask":
        return x * x
    if exponent == 0:
        return constant(x.kind, 1)
    if exponent <= _FACTORS:
        product = x
        for _ in range(exponent - 1):
            product = product * x
        return product
    half = _whole(x, exponent // 2)
    return half * half * x if exponent % 2 else half * half


def _of_floats(x: Value, y: Value) -> Value:
    core = recording().core
    log = Value("float", core.function("log", x.arg))
    return select(y == 0, 1.0, Value("float", core.function("exp", (y * log).arg)))
