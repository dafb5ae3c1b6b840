"""atan2, atan, asin and acos for the rules of a world."""

from __future__ import annotations

from operant._trace import Value, constant, select

# atan(t) = t + t^3 q(t^2) up to tan(pi / 8), the error relative to atan(t) below 7e-10.
_Q = [-0.060829822, 0.105958246, -0.14243826, 0.19998488, -0.33333316]
_TAN_OF_EIGHTH = 0.41421357
# pi / 4, rounded, and what that lacks.
_QUARTER, _REST = 0.7853981852531433, -2.1855694143368964e-08


def angle(y: Value, x: Value) -> Value:
    """The angle of (x, y) from -pi to pi."""
    high, wide = abs(y), abs(x)
    is_steep = high > wide
    small, large = select(is_steep, wide, high), select(is_steep, high, wide)
    # The angle of (large, small), from 0 to pi / 4, as a small one above 0 or below pi / 4.
    is_some = large != 0
    is_near = (small >= large * _TAN_OF_EIGHTH) & is_some
    over = select(small == large, 0.0, small - large)
    below = select(is_some, large, 1.0)
    tangent = select(is_near, over, small) / select(is_near, small + large, below)
    square = tangent * tangent
    polynomial = constant("float", _Q[0])
    for coefficient in _Q[1:]:
        polynomial = _fused(polynomial, square, constant("float", coefficient))
    rest = _fused(tangent * square, polynomial, tangent)
    # Mirrored at the diagonal and at the vertical axis, which begins at the sign of x, also of -0.0.
    quarters = select(is_near, 1.0, 0.0)
    quarters, rest = select(is_steep, 2.0 - quarters, quarters), select(is_steep, -rest, rest)
    is_left = (_bits(x) >> 31) == 1
    quarters, rest = select(is_left, 4.0 - quarters, quarters), select(is_left, -rest, rest)
    size = _fused(quarters, constant("float", _QUARTER), _fused(quarters, constant("float", _REST), rest))
    signed: Value = _bits(size) | (_bits(y) & (1 << 31))
    return signed._apply("FloatFromBits", "float")


def _bits(x: Value) -> Value:
    return x._apply("FloatToBits", "uint")


def _fused(a: Value, b: Value, c: Value) -> Value:
    return a._apply("FloatMulAdd", "float", b, c)
