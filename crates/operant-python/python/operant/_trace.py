"""Values of a world while its rules are recorded: they stand for the numbers of every environment, and have none of their own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from operant import _core

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep

# How errors name the kinds.
_NAMES = {"float": "a Float", "uint": "a Uint", "int": "an Int", "mask": "a Bool"}

# Arrays of at most this length are kept in registers, where an index selects among all elements.
_REGISTERS = 32


class TraceError(TypeError):
    """The rules of a world do something that cannot be recorded. The message begins with the file and line of the rule."""


def fail(what: str) -> NoReturn:
    """Raises a TraceError at the innermost line outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGE):
        frame = frame.f_back
    raise TraceError(f"{frame.f_code.co_filename}:{frame.f_lineno}: {what}") from None


def _unknown(python: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Value, *_: Any) -> NoReturn:
        fail(
            f"{python} needs a number that is not known while the world is recorded: {_NAMES[self.kind]} has another value "
            f"in every environment; use {instead}"
        )

    return refuse


class Value:
    """A number of every environment: a Float (real), Uint or Int (32 bits, wrapping), or Bool.

    Python's operators record what they compute: `+ - *`, `/` between Floats, `//` and `%` between Floats and of a Uint by a
    constant, `& | ^ ~ << >>` on whole numbers, `& | ^ ~` on Bools, and comparisons, which give Bools. Numbers of Python take the
    kind of the other side.
    """

    __slots__ = ("_arg", "_recorder", "kind")

    kind: str
    __hash__ = None  # type: ignore[assignment]
    # NumPy leaves the operators to this class.
    __array_ufunc__ = None

    def __init__(self, recorder: _core.Recorder, kind: str, arg: _core.Arg) -> None:
        self._recorder, self.kind, self._arg = recorder, kind, arg

    __bool__ = _unknown("`if`, `while`, `and`, `or` or `not`", "operant.math.where(condition, a, b), or & | ~")
    __int__ = _unknown("int()", "operant.math.to_int or to_uint")
    __float__ = _unknown("float(), or a function of Python's math module,", "operant.math (sin, exp, sqrt, ..)")
    __index__ = _unknown("range() or an index of a Python list", "operant.math.repeat, or operant.math.table(list)[index]")
    __iter__ = _unknown("iterating", "an array field, such as operant.Uint[4]")
    __len__ = _unknown("len()", "an array field, whose length is known")
    __array__ = _unknown("a NumPy function", "operant.math")
    __round__ = _unknown("round()", "operant.math.round")
    __floor__ = _unknown("math.floor", "operant.math.floor")
    __ceil__ = _unknown("math.ceil", "-operant.math.floor(-x)")
    __trunc__ = _unknown("math.trunc", "operant.math.to_int")

    def __repr__(self) -> str:
        known = self._arg.value
        return f"<{_NAMES[self.kind][2:].strip()}{'' if known is None else f' {known}'}>"

    def _apply(self, operation: str, kind: str, *others: Value) -> Value:
        arg = self._recorder.scalar(operation, [self._arg, *(other._arg for other in others)])
        return Value(self._recorder, kind, arg)

    def _binary(self, other: Any, sign: str, by_kind: dict[str, str], result: str | None = None, swap: bool = False) -> Any:
        if isinstance(other, Array):
            return NotImplemented
        a, b = pair(self, other)
        if a.kind not in by_kind:
            fail(f"{sign} is not defined for {_NAMES[a.kind]}{_REMEDIES.get((sign, a.kind), '')}")
        if swap:
            a, b = b, a
        return a._apply(by_kind[a.kind], result or a.kind, b)

    def __add__(self, other: Any) -> Any:
        return self._binary(other, "+", _ADD)

    def __radd__(self, other: Any) -> Any:
        return self._binary(other, "+", _ADD, swap=True)

    def __sub__(self, other: Any) -> Any:
        return self._binary(other, "-", _SUB)

    def __rsub__(self, other: Any) -> Any:
        return self._binary(other, "-", _SUB, swap=True)

    def __mul__(self, other: Any) -> Any:
        return self._binary(other, "*", _MUL)

    def __rmul__(self, other: Any) -> Any:
        return self._binary(other, "*", _MUL, swap=True)

    def __truediv__(self, other: Any) -> Any:
        return self._binary(other, "/", _DIV)

    def __rtruediv__(self, other: Any) -> Any:
        return self._binary(other, "/", _DIV, swap=True)

    def __floordiv__(self, other: Any) -> Any:
        if self.kind == "uint":
            return _divide(self, _divisor(other, "//"))
        return _floor(self._binary(other, "//", _DIV))

    def __rfloordiv__(self, other: Any) -> Any:
        if self.kind == "uint":
            _divisor(self, "//")
        return _floor(self._binary(other, "//", _DIV, swap=True))

    def __mod__(self, other: Any) -> Any:
        if self.kind == "uint":
            divisor = _divisor(other, "%")
            if divisor & (divisor - 1) == 0:
                return self & (divisor - 1)
            return self - _divide(self, divisor) * divisor
        return self - _floor(self._binary(other, "%", _DIV)) * other

    def __rmod__(self, other: Any) -> Any:
        if self.kind == "uint":
            _divisor(self, "%")
        return other - _floor(self._binary(other, "%", _DIV, swap=True)) * self

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 1 <= other <= 16:
            power = self
            for _ in range(other - 1):
                power = power * self
            return power
        fail("** takes a whole power from 1 to 16; otherwise use operant.math.exp and log")

    def __and__(self, other: Any) -> Any:
        return self._binary(other, "&", _AND)

    __rand__ = __and__

    def __or__(self, other: Any) -> Any:
        return self._binary(other, "|", _OR)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Any:
        return self._binary(other, "^", _XOR)

    __rxor__ = __xor__

    def __invert__(self) -> Value:
        if self.kind == "float":
            fail("~ is not defined for a Float")
        return self._apply({"uint": "UintNot", "int": "IntNot", "mask": "MaskNot"}[self.kind], self.kind)

    def __lshift__(self, other: Any) -> Value:
        return self._shift(other, "<<", "Shl")

    def __rshift__(self, other: Any) -> Value:
        return self._shift(other, ">>", "Shr")

    def __rlshift__(self, other: Any) -> Value:
        return constant(self._recorder, "uint", other)._shift(self, "<<", "Shl")

    def _shift(self, amount: Any, sign: str, name: str) -> Value:
        if self.kind not in ("uint", "int"):
            fail(f"{sign} is not defined for {_NAMES[self.kind]}")
        by = as_value(self._recorder, amount, "uint")
        known = by._arg.value
        if known is not None:
            if known > 31:
                fail(f"{sign} {known}: numbers have 32 bits, so a shift is at most 31")
            return self._apply(("Uint" if self.kind == "uint" else "Int") + name, self.kind, by)
        if self.kind == "int":
            fail(f"an Int is shifted by a constant; use operant.math.to_uint(x) {sign} n")
        return self._apply(f"Uint{name}By", "uint", by)

    def __neg__(self) -> Value:
        if self.kind not in ("float", "int"):
            fail(f"- is not defined for {_NAMES[self.kind]}{_REMEDIES.get(('neg', self.kind), '')}")
        return self._apply("FloatNeg" if self.kind == "float" else "IntNeg", self.kind)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        if self.kind == "float":
            return self._apply("FloatAbs", "float")
        if self.kind == "int":
            return select(self < 0, -self, self)
        fail(f"abs is not defined for {_NAMES[self.kind]}")

    def __lt__(self, other: Any) -> Any:
        return self._binary(other, "<", _LT, "mask")

    def __gt__(self, other: Any) -> Any:
        return self._binary(other, ">", _LT, "mask", swap=True)

    def __le__(self, other: Any) -> Any:
        if self.kind == "float":
            return self._binary(other, "<=", _LE, "mask")
        return ~self._binary(other, "<=", _LT, "mask", swap=True)

    def __ge__(self, other: Any) -> Any:
        if self.kind == "float":
            return self._binary(other, ">=", _LE, "mask", swap=True)
        return ~self._binary(other, ">=", _LT, "mask")

    def __eq__(self, other: Any) -> Any:
        if self.kind == "mask":
            return ~self._binary(other, "==", _XOR)
        return self._binary(other, "==", _EQ, "mask")

    def __ne__(self, other: Any) -> Any:
        if self.kind == "mask":
            return self._binary(other, "!=", _XOR)
        return ~self._binary(other, "!=", _EQ, "mask")


_ADD = {"float": "FloatAdd", "uint": "UintAdd", "int": "IntAdd"}
_SUB = {"float": "FloatSub", "uint": "UintSub", "int": "IntSub"}
_MUL = {"float": "FloatMul", "uint": "UintMul", "int": "IntMul"}
_DIV = {"float": "FloatDiv"}
_AND = {"uint": "UintAnd", "int": "IntAnd", "mask": "MaskAnd"}
_OR = {"uint": "UintOr", "int": "IntOr", "mask": "MaskOr"}
_XOR = {"uint": "UintXor", "int": "IntXor", "mask": "MaskXor"}
_LT = {"float": "FloatLt", "uint": "UintLt", "int": "IntLt"}
_LE = {"float": "FloatLe"}
_EQ = {"float": "FloatEq", "uint": "UintEq", "int": "IntEq"}

_TO_FLOAT = "; convert it with operant.math.to_float first"
_TO_NUMBER = "; choose numbers with operant.math.where(condition, 1, 0)"
_REMEDIES = {
    ("/", "uint"): "; use // or >> with a constant, or operant.math.to_float",
    ("/", "int"): _TO_FLOAT,
    ("//", "int"): _TO_FLOAT,
    ("%", "int"): _TO_FLOAT,
    ("+", "mask"): _TO_NUMBER,
    ("-", "mask"): _TO_NUMBER,
    ("*", "mask"): _TO_NUMBER,
    ("neg", "uint"): "; convert it with operant.math.to_int first",
    ("neg", "mask"): "; use ~",
}


def constant(recorder: _core.Recorder, kind: str, number: Any) -> Value:
    """A number of Python as a value of a kind."""
    shown = repr(number) if not hasattr(number, "item") else repr(number.item())
    is_bool = isinstance(number, (bool, np.bool_))
    if kind == "mask":
        if not is_bool:
            fail(f"a Bool is expected, got {shown}; compare it, as in x != 0")
        return Value(recorder, kind, _core.Arg.literal(kind, bool(number)))
    if is_bool or not isinstance(number, (int, float, np.integer, np.floating)):
        fail(f"{_NAMES[kind]} is expected, got {shown}")
    if kind == "float":
        return Value(recorder, kind, _core.Arg.literal(kind, float(number)))
    if isinstance(number, (float, np.floating)):
        fail(f"{shown} is a real number where {_NAMES[kind]} is expected; convert the other side with operant.math.to_float")
    low, high = (0, 2**32) if kind == "uint" else (-(2**31), 2**31)
    if not low <= number < high:
        fail(f"{shown} does not fit {_NAMES[kind]}, which goes from {low} to {high - 1}")
    return Value(recorder, kind, _core.Arg.literal(kind, int(number)))


def as_value(recorder: _core.Recorder, value: Any, kind: str) -> Value:
    """A value of a kind: a recorded one, or a number of Python."""
    if not isinstance(value, Value):
        if isinstance(value, Array):
            fail(f"{_NAMES[kind]} is expected, got an array; index it")
        return constant(recorder, kind, value)
    if value._recorder is not recorder:
        fail("this value was recorded by another call; keep numbers in the state's fields, not on self")
    if value.kind != kind:
        fail(f"{_NAMES[kind]} is expected, got {_NAMES[value.kind]}{_conversion(value.kind, kind)}")
    return value


def _conversion(kind: str, to: str) -> str:
    if kind == "mask":
        return _TO_NUMBER
    if to == "mask":
        return "; compare it, as in x != 0"
    return f"; convert it with operant.math.to_{to}"


def pair(a: Any, b: Any) -> tuple[Value, Value]:
    """Two values of one kind, of which at least one is recorded."""
    if isinstance(a, Value) and isinstance(b, Value):
        if a._recorder is not b._recorder:
            fail("this value was recorded by another call; keep numbers in the state's fields, not on self")
        if a.kind != b.kind:
            fail(f"{_NAMES[a.kind]} and {_NAMES[b.kind]} do not mix{_conversion(b.kind, a.kind)}")
        return a, b
    if isinstance(a, Value):
        return a, as_value(a._recorder, b, a.kind)
    return as_value(b._recorder, a, b.kind), b


def kind_of(number: Any) -> str:
    """The kind that a number of Python has where nothing else decides."""
    if isinstance(number, Value):
        return number.kind
    if isinstance(number, (bool, np.bool_)):
        return "mask"
    if isinstance(number, (float, np.floating)):
        return "float"
    if isinstance(number, (int, np.integer)):
        return "uint" if number >= 0 else "int"
    fail(f"a number is expected, got {number!r}")


def select(mask: Value, yes: Any, no: Any) -> Any:
    """`yes` where `mask` holds, `no` elsewhere."""
    recorder = mask._recorder
    if isinstance(yes, Array) or isinstance(no, Array):
        if not (isinstance(yes, Array) and isinstance(no, Array) and (yes.kind, yes.size) == (no.kind, no.size)):
            fail("an array is chosen from two arrays of the same kind and length")
        return yes._chosen(mask, no)
    if isinstance(yes, Value) or isinstance(no, Value):
        yes, no = pair(yes, no)
    else:
        kinds = {kind_of(yes), kind_of(no)}
        kind = "float" if "float" in kinds else "int" if "int" in kinds else kinds.pop()
        yes, no = (constant(recorder, kind, number) for number in (yes, no))
    name = {"float": "Float", "uint": "Uint", "int": "Int", "mask": "Mask"}[yes.kind]
    return mask._apply(f"{name}Select", yes.kind, yes, no)


def _floor(value: Value) -> Value:
    return value._apply("FloatFloor", "float")


def _divisor(divisor: Any, sign: str) -> int:
    if isinstance(divisor, Value):
        known = divisor._arg.value
        if known is None:
            fail(f"{sign} of a Uint takes a constant; otherwise convert both sides with operant.math.to_float")
        divisor = known
    if isinstance(divisor, (bool, np.bool_)) or not isinstance(divisor, (int, np.integer)) or not 1 <= divisor < 2**32:
        fail(f"{sign} of a Uint takes a constant from 1 to {2**32 - 1}, got {divisor!r}")
    return int(divisor)


def _divide(number: Value, divisor: int) -> Value:
    """Exact division by a constant: by a shift, or by a multiplication (Granlund and Montgomery, 1994)."""
    bits = (divisor - 1).bit_length()
    if divisor == 1 << bits:
        return number >> bits if bits else number
    factor = constant(number._recorder, "uint", (2**32 * (2**bits - divisor)) // divisor + 1)
    high = factor._apply("UintMulHigh", "uint", number)
    return (high + ((number - high) >> 1)) >> (bits - 1)


class Array:
    """A small array of every environment. An index may be a number of Python or a Uint; past the end it reads the last element
    and writes nothing."""

    __slots__ = ("_items", "_memory", "_recorder", "kind", "size")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, recorder: _core.Recorder, kind: str, items: list[Value] | None, memory: tuple[_core.Arg, int] | None = None):
        self._recorder, self.kind = recorder, kind
        self._items = items
        self._memory, self.size = memory if memory is not None else (None, len(items or ()))

    @staticmethod
    def of(recorder: _core.Recorder, kind: str, size: int, values: Any) -> Array:
        """An array of `size` values."""
        if isinstance(values, Array):
            if (values.kind, values.size) != (kind, size):
                fail(f"an array of {size} is expected ({_NAMES[kind]} each), got one of {values.size} ({_NAMES[values.kind]} each)")
            return values.copy()
        if isinstance(values, (Value, str)) or not isinstance(values, (Iterable, np.ndarray)):
            fail(f"{size} values are expected, got {values!r}")
        items = [as_value(recorder, value, kind) for value in values]
        if len(items) != size:
            fail(f"{size} values are expected, got {len(items)}")
        if is_memory(kind, size):
            return Array(recorder, kind, None, (recorder.words([item._arg for item in items]), size))
        return Array(recorder, kind, items)

    def __len__(self) -> int:
        return self.size

    def __iter__(self) -> Iterator[Value]:
        return (self[index] for index in range(self.size))

    def __repr__(self) -> str:
        return f"<array of {self.size}, {_NAMES[self.kind]} each>"

    def copy(self) -> Array:
        items = None if self._items is None else list(self._items)
        return Array(self._recorder, self.kind, items, None if self._memory is None else (self._memory, self.size))

    def _position(self, index: int) -> int:
        if not -self.size <= index < self.size:
            fail(f"index {index} is outside an array of {self.size}")
        return index % self.size

    def _index(self, index: Any) -> Value:
        if isinstance(index, Value) and index.kind == "int":
            index = index._apply("IntToUint", "uint")
        return as_value(self._recorder, index, "uint")

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[k] for k in range(*index.indices(self.size))]
        if isinstance(index, (int, np.integer)) and not isinstance(index, bool):
            position = self._position(int(index))
            if self._items is not None:
                return self._items[position]
            index = position
        at = self._index(index)
        if self._memory is not None:
            return Value(self._recorder, self.kind, self._recorder.element(self._memory, at._arg))
        assert self._items is not None
        value = self._items[-1]
        for position, item in enumerate(self._items[:-1]):
            value = select(at == position, item, value)
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        self.put(index, value)

    def put(self, index: Any, value: Any, where: Any = True) -> None:
        """Writes `value` at `index`, where `where` holds."""
        item = as_value(self._recorder, value, self.kind)
        mask = as_value(self._recorder, where, "mask")
        is_known = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        position = self._position(int(index)) if is_known else -1
        at = self._index(position if is_known else index)
        if self._memory is not None:
            self._memory = self._recorder.store(self._memory, mask._arg, at._arg, item._arg)
            return
        assert self._items is not None
        for k, before in enumerate(self._items):
            if is_known:
                if k == position:
                    self._items[k] = select(mask, item, before)
            else:
                self._items[k] = select((at == k) & mask, item, before)

    def _chosen(self, mask: Value, no: Array) -> Array:
        if self._memory is not None:
            assert no._memory is not None
            return Array(self._recorder, self.kind, None, (self._recorder.choose(mask._arg, self._memory, no._memory), self.size))
        assert self._items is not None and no._items is not None
        return Array(self._recorder, self.kind, [select(mask, a, b) for a, b in zip(self._items, no._items, strict=True)])


def is_memory(kind: str, size: int) -> bool:
    """Whether an array is kept in memory, of which only the word at an index is read."""
    if size > _REGISTERS and kind != "uint":
        fail(f"an array of more than {_REGISTERS} elements is one of Uint; this one has {size}, {_NAMES[kind]} each")
    return size > _REGISTERS


class FieldType:
    """The type of a field of a state: a kind, or an array of `size` of a kind."""

    def __init__(self, kind: str, size: int | None = None) -> None:
        self.kind, self.size = kind, size


class _Kind(type):
    """Classes that name kinds: `Uint` is a number, `Uint[4]` an array of four."""

    kind: str

    def __getitem__(cls, size: int) -> Any:
        if isinstance(size, bool) or not isinstance(size, int) or not 1 <= size <= 65_536:
            raise TypeError(f"{cls.__name__}[size]: expected a size from 1 to 65536, got {size!r}")
        is_memory(cls.kind, size)
        return FieldType(cls.kind, size)


class Float(metaclass=_Kind):
    """A field that is a real number, in single precision; `Float[4]` is an array."""

    kind: ClassVar[str] = "float"


class Uint(metaclass=_Kind):
    """A field that is a whole number from 0 to 2**32 - 1; arithmetic wraps. `Uint[100]` is an array."""

    kind: ClassVar[str] = "uint"


class Int(metaclass=_Kind):
    """A field that is a whole number from -2**31 to 2**31 - 1; arithmetic wraps. `Int[4]` is an array."""

    kind: ClassVar[str] = "int"


class Bool(metaclass=_Kind):
    """A field that is true or false; `Bool[4]` is an array."""

    kind: ClassVar[str] = "mask"


class Draws:
    """The random numbers of a call. They depend on the seed, the environment and the step alone.

    Inside `operant.math.when` draw from `reserve`, and inside `operant.math.repeat` from `turns`, both called outside.
    """

    def __init__(self, recorder: _core.Recorder, draws: _core.Draws) -> None:
        self._recorder, self._draws = recorder, draws

    def _draw(self, method: str, *args: Any) -> Any:
        try:
            return getattr(self._draws, method)(self._recorder, *args)
        except ValueError as error:
            fail(str(error))

    def uniform(self, low: float = 0.0, high: float = 1.0) -> Value:
        """A Float, uniform in [low, high)."""
        if isinstance(low, Value) or isinstance(high, Value):
            fail("uniform takes constants; scale what it draws: low + (high - low) * draws.uniform()")
        if (low, high) == (0, 1):
            return Value(self._recorder, "float", self._draw("unit"))
        return Value(self._recorder, "float", self._draw("between", float(low), float(high)))

    def integer(self, low: Any, high: Any = None) -> Value:
        """A Uint, uniform in 0 .. low - 1, or with two arguments in low .. high - 1, as NumPy's `integers`. With one argument it
        may be a Uint, another one in each environment."""
        if high is None:
            low, high = 0, low
        if isinstance(high, Value):
            if low != 0 or isinstance(low, Value):
                fail("integer takes one Uint: its upper end; add the lower end to what it draws")
            count = as_value(self._recorder, high, "uint")
            return Value(self._recorder, "uint", self._draw("below_each", count._arg))
        for bound in (low, high):
            if isinstance(bound, (bool, Value)) or not isinstance(bound, (int, np.integer)):
                fail(f"integer takes whole numbers, got {bound!r}")
        if not 0 <= low < high <= 2**32 - 1:
            fail(f"integer draws from {low} .. {high} - 1, which is empty or not from 0 to {2**32 - 2}")
        drawn = Value(self._recorder, "uint", self._draw("below", int(high - low)))
        return drawn + int(low) if low else drawn

    def bits(self) -> Value:
        """A Uint of 32 random bits."""
        return Value(self._recorder, "uint", self._draw("bits"))

    def reserve(self, count: int) -> Draws:
        """The next `count` draws, for a rule of `operant.math.when`."""
        return Draws(self._recorder, self._draw("reserve", count))

    def turns(self, turns: int, count: int) -> Turns:
        """`count` draws for each of the turns of `operant.math.repeat`."""
        return Turns(self._recorder, self._draw("turns", turns, count))


class Turns:
    """The draws of a loop; see `Draws.turns`."""

    def __init__(self, recorder: _core.Recorder, turns: _core.Turns) -> None:
        self._recorder, self._turns = recorder, turns

    def __getitem__(self, index: Any) -> Draws:
        """The draws of the turn `index`."""
        at = as_value(self._recorder, index, "uint")
        return Draws(self._recorder, self._turns.turn(self._recorder, at._arg))


class Packed:
    """Words of an observation; see `operant.math.packed`."""

    def __init__(self, words: Sequence[Any]) -> None:
        self.words = list(words)


def flattened(values: Any) -> list[Any]:
    """The numbers of nested lists and arrays, in order."""
    if isinstance(values, (Value, bool, int, float, np.generic)):
        return [values]
    if isinstance(values, (list, tuple, Array, np.ndarray)):
        return [number for value in values for number in flattened(value)]
    fail(f"numbers are expected, got {values!r}")


# The recorder of the rule that is being recorded; `operant.math` needs it for values that have none.
_current: list[_core.Recorder] = []


def recorder_of(values: Iterable[Any]) -> _core.Recorder:
    """The recording that is in progress."""
    for value in values:
        if isinstance(value, (Value, Array)):
            return value._recorder
    if not _current:
        fail("operant.math works in the rules of a world, while they are recorded")
    return _current[-1]
