"""The random numbers of a world's rules while they are recorded."""

from __future__ import annotations

import math
from typing import Any, NoReturn

import numpy as np

from operant import _core
from operant._trace import Value, as_value, fail, missing, plain, recording

# Draws that a call has.
_MOST_DRAWS = 2**26


# Names of NumPy and Python, and what to write.
_INSTEAD = {
    **dict.fromkeys(("standard_normal", "randn"), "draws.normal()"),
    **dict.fromkeys(("gauss", "normalvariate"), "draws.normal(mean, std)"),
    **dict.fromkeys(("random", "rand"), "draws.uniform()"),
    **dict.fromkeys(("integers", "randint", "randrange"), "draws.integer(low, high), which excludes high, or draws.integer(n)"),
    "choice": "operant.math.table(numbers)[draws.integer(len(numbers))]",
    "exponential": "-operant.math.log(1.0 - draws.uniform())",
    **dict.fromkeys(("bernoulli", "binomial"), "draws.uniform() < p"),
}


def refuse_size(size: object, method: str) -> None:
    """Refuses the `size` of NumPy's generators."""
    if size is not None:
        fail(f"draws.{method} draws one number; write [draws.{method}(...) for _ in range(n)]")


class Draws:
    """The random numbers of a call. They depend on the seed, the environment and the step alone.

    Inside `operant.math.when` draw from `reserve`, and inside `operant.math.repeat` from `turns`, both called outside.
    """

    def __init__(self, draws: _core.Draws, *, is_reserved: bool = True) -> None:
        self._recording = recording()
        self._draws = draws
        self._made = self._recording.bodies[-1]
        # The body that draws from it. Reserved draws belong to the first body that uses them.
        self._used = None if is_reserved else self._made

    def __getattr__(self, name: str) -> NoReturn:
        missing("`draws`", name, ("uniform", "integer", "normal", "bits", "reserve", "turns"), _INSTEAD)

    def _draw(self, method: str, *args: Any) -> Any:
        now = recording()
        if self._recording is not now:
            fail("these draws belong to another call; use the argument `draws` of the method that is being recorded")
        body = now.bodies[-1]
        if self._used is None and self._made in now.bodies:
            inside = now.bodies[now.bodies.index(self._made) + 1 :]
            self._used = None if any(inner.is_loop for inner in inside) else body
        if self._used is not body:
            fail(
                "inside operant.math.when, draw from draws.reserve(count), one reservation for each `when`; inside repeat, draw from "
                "draws.turns(turns, count)[index]; call reserve or turns before when or repeat"
            )
        try:
            return getattr(self._draws, method)(now.core, *args)
        except ValueError as error:
            fail(f"{error}; reserve more")

    def uniform(self, low: float = 0.0, high: float = 1.0, size: None = None) -> Value:
        """A Float, uniform in [low, high). Rounding can, very rarely, return `high`; `uniform()` never returns 1.0."""
        refuse_size(size, "uniform")
        for bound in (low, high):
            if isinstance(bound, (bool, Value)) or not isinstance(bound, (int, float, np.integer, np.floating)):
                fail(f"uniform takes constants, got {bound!r}; scale what it draws: low + (high - low) * draws.uniform()")
        if not (np.isfinite(low) and np.isfinite(high) and low <= high):
            fail(f"uniform draws from {low} to {high}, which is empty or infinite")
        if (low, high) == (0, 1):
            return Value("float", self._draw("unit"))
        return Value("float", self._draw("between", float(low), float(high)))

    def integer(self, low: Any, high: Any = None, size: None = None) -> Value:
        """A Uint, uniform in 0 .. low - 1, or with two arguments in low .. high - 1, as NumPy's `integers`. With one argument it
        may be a Uint, another one in each environment."""
        refuse_size(size, "integer")
        if high is None:
            low, high = 0, low
        if isinstance(high, Value):
            if isinstance(low, Value) or low != 0:
                fail("integer takes one Uint: its upper end; add the lower end to what it draws")
            return Value("uint", self._draw("below_each", as_value(high, "uint").arg))
        for bound in (low, high):
            if isinstance(bound, (bool, Value)) or not isinstance(bound, (int, np.integer)):
                fail(f"integer takes whole numbers, got {bound!r}")
        if not 0 <= low < high <= 2**32 - 1:
            fail(f"integer: expected 0 <= low < high <= {2**32 - 1}, got low {low} and high {high}")
        drawn = Value("uint", self._draw("below", int(high - low)), (0, int(high - low) - 1))
        return drawn + int(low) if low else drawn

    def normal(self, mean: Any = 0.0, std: Any = 1.0, size: None = None) -> Value:
        """A Float of a normal distribution (Box and Muller), within 5.8 `std` of the mean. It counts as two draws. `mean` and `std` may be
        Floats."""
        refuse_size(size, "normal")
        mean, std = as_value(mean, "float"), as_value(std, "float")
        if std.arg.value is not None and not 0 <= std.arg.value < float("inf"):
            fail(f"normal: expected a finite std of at least 0, got {std.arg.value}")
        # Not 0, whose logarithm is infinite.
        above_zero, turn = 1.0 - self.uniform(), self.uniform()
        core = recording().core
        log = Value("float", core.function("log", above_zero.arg))
        cosine = Value("float", core.function("cos", (turn * (2.0 * math.pi)).arg))
        standard: Value = (log * -2.0)._apply("FloatSqrt", "float") * cosine
        return standard._apply("FloatMulAdd", "float", std, mean)

    def bits(self) -> Value:
        """A Uint of 32 random bits."""
        return Value("uint", self._draw("bits"))

    def reserve(self, count: int) -> Draws:
        """The next `count` draws, for a rule of `operant.math.when`."""
        return Draws(self._draw("reserve", _count("reserve", count)))

    def turns(self, turns: int, count: int) -> Turns:
        """`count` draws for each iteration of `operant.math.repeat`."""
        return Turns(self._draw("turns", _count("turns", turns), _count("turns", count)))


def _count(name: str, count: Any) -> int:
    count = plain(count)
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_DRAWS:
        fail(f"{name}: expected constant integers from 1 to {_MOST_DRAWS}, got {count!r}")
    return count


class Turns:
    """The draws of a loop; see `Draws.turns`."""

    def __init__(self, turns: _core.Turns) -> None:
        self._recording = recording()
        self._turns = turns

    def __getitem__(self, index: Any) -> Draws:
        """The draws of the turn `index`."""
        now = recording()
        if self._recording is not now:
            fail("these draws belong to another call; use the argument `draws` of the method that is being recorded")
        return Draws(self._turns.turn(now.core, as_value(index, "uint").arg))
