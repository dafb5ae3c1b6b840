"""What is known of whole numbers while rules are recorded, and the errors for those that would not be what the rules mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from operant._trace import ANY, Natural, Value, fail, plain

Span = tuple[int, int]

# Bounds of larger numbers say no more, and would grow with each product.
MOST = 2**64

# What operators make of the spans of their operands; others can make any number.
SPANS: dict[str, Callable[[int, int, int, int], Span]] = {
    "+": lambda a, b, c, d: (a + c, b + d),
    "-": lambda a, b, c, d: (a - d, b - c),
    "*": lambda a, b, c, d: (min(a * c, a * d, b * c), max(a * c, a * d, b * d)),
    "&": lambda a, b, c, d: (0, min(most for least, most in ((a, b), (c, d), ANY) if least >= 0)),
}


def refuse_below_zero(value: Value, does: str) -> None:
    """An error for a Uint that may have wrapped around below 0, where its size matters."""
    if value.kind == "uint" and value.span[0] < 0:
        fail(
            f"{does} of a Uint that may be {value.span[0]}: below 0 it wraps around, so -1 is {2**32 - 1}. Subtract after the conversion, "
            "as in operant.math.to_float(a) - operant.math.to_float(b), add before you subtract, as in (x + size - 1) % size, or, if "
            f"the number is right as an Int, convert it with operant.math.to_int first"
        )


def refuse_never(value: Value, sign: str, other: Any) -> None:
    """An error for a comparison with a constant that is the same for every number that the value can be."""
    number = _known(other)
    if number is None or value.kind not in ("uint", "int"):
        return
    choices = value.choices if isinstance(value, Natural) else None
    if choices is not None:
        # The actions for which it holds; a constant that no action has is never equal.
        holds = {"<": number > 0, ">": number < choices - 1, "<=": number >= 0, ">=": number < choices}
        if not holds.get(sign, number in range(choices)):
            fail(f"the action is from 0 to {choices - 1}: `{sign} {number}` is the same for all actions; compare it with an action of the space")
    if value.kind == "uint" and number == 0 and (sign == "<" or sign == ">=" and value.span[0] < 0):
        fail(
            f"a Uint is never below 0, so `{sign} 0` is the same for all numbers: 0 - 1 is {2**32 - 1}; use a field of operant.Int, or convert "
            "the numbers with operant.math.to_int before you subtract"
        )


def _known(number: Any) -> int | None:
    """A whole number that is known while recording."""
    number = number.arg.value if isinstance(number, Value) else plain(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None
