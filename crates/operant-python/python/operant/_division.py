"""Quotients and remainders of recorded values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operant import _core
from operant._trace import Value, constant, fail, plain, recording, select

# Bits of a quotient that one turn of a long division finds, and the turns that the largest quotient of two Floats needs.
_QUOTIENT_BITS, _TURNS = 23, 13


def of_floats(x: Value, y: Value) -> tuple[Value, Value]:
    """`x // y` and `x % y` of Floats, as Python has them: the remainder is exact and has the sign of y."""
    a, b = abs(x), abs(y)
    quotient = a / b
    whole = _floor(quotient)
    # Below 2^24 the rounded quotient is at most one too large, and its product with b leaves an exact rest.
    rest = _rest(a, b, whole)
    whole = select(rest < 0, whole - 1, whole)
    rest = select(rest < 0, rest + b, rest)
    rest = select(a < b, a, _long_rest(a, b, quotient >= 2.0**24, rest))
    whole = select(a < b, 0.0, whole)
    differ = (x._apply("FloatToBits", "uint") ^ y._apply("FloatToBits", "uint")) >= 1 << 31
    has_rest = rest > 0
    # Rounding could make it b, of which this is the number below; infinity stays, as in Python.
    below = b * (1 - 2.0**-24)
    size = select(differ & has_rest, select(b - rest < b, b - rest, below), rest)
    whole = select(differ, -select(has_rest, whole + 1, whole), whole)
    # As NumPy: an infinite x gives no number, a y of 0 an infinite one.
    whole = select((a == float("inf")) & (b > 0), float("nan"), whole)
    return whole, select(y < 0, -size, size)


def _rest(a: Value, b: Value, times: Value) -> Value:
    return (-times)._apply("FloatMulAdd", "float", b, a)


def _long_rest(a: Value, b: Value, is_long: Value, rest: Value) -> Value:
    """The rest of a division whose quotient has more than 24 bits, where one is: found from the highest bits on; elsewhere `rest`."""
    now = recording()
    known = is_long.arg.value
    if known is False:
        return rest

    def turn(index: _core.Arg, carried: Sequence[_core.Arg]) -> list[_core.Arg]:
        with now.body(is_loop=True):
            left, scaled, at = Value("float", carried[0]), b, Value("uint", index)
            for factor in range(3):
                # 2^(23 k) for k = 12 .. 0 as a product of three numbers.
                bits = [max(0, min(127, _QUOTIENT_BITS * k - 127 * factor)) for k in reversed(range(_TURNS))]
                power = now.core.look_up("float", [2.0**n for n in bits], at.arg)
                scaled = scaled * Value("float", power)
            after = _rest(left, scaled, _floor(left / scaled))
            after = select(after < 0, after + scaled, after)
            return [select(left < scaled, left, after).arg]

    def long() -> list[_core.Arg]:
        with now.body():
            return now.core.repeat(_TURNS, [a.arg], ["rest"], turn)

    return Value("float", long()[0] if known else now.core.when(is_long.arg, [rest.arg], ["rest"], long)[0])


def _floor(value: Value) -> Value:
    return value._apply("FloatFloor", "float")


def divisor(divisor: Any, sign: str) -> int:
    if isinstance(divisor, Value):
        known = divisor.arg.value
        if known is None:
            fail(f"{sign} of a Uint takes a constant; otherwise convert both sides with operant.math.to_float")
        divisor = known
    divisor = plain(divisor)
    if isinstance(divisor, bool) or not isinstance(divisor, int) or not 1 <= divisor < 2**32:
        fail(f"{sign} of a Uint takes a constant from 1 to {2**32 - 1}, got {divisor!r}")
    return divisor


def by_constant(number: Value, divisor: int) -> Value:
    """Exact division by a constant: by a shift, or by a multiplication (Granlund and Montgomery, 1994)."""
    bits = (divisor - 1).bit_length()
    if divisor == 1 << bits:
        return number >> bits if bits else number
    factor = constant("uint", (2**32 * (2**bits - divisor)) // divisor + 1)
    high = factor._apply("UintMulHigh", "uint", number)
    quotient: Value = (high + ((number - high) >> 1)) >> (bits - 1)
    return quotient
