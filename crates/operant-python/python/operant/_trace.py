"""Symbolic values of a world while its rules are recorded: each represents one number in every environment."""

from __future__ import annotations

import contextlib
import operator
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from operant import _core

if TYPE_CHECKING:
    from operant._outside import Script

# Errors name the line that calls into these.
_PACKAGES = tuple(os.path.dirname(os.path.abspath(file)) + os.sep for file in (__file__, np.__file__))

# The numbers of a Uint.
ANY = (0, 2**32 - 1)

# How errors name the kinds.
_NAMES = {"float": "a Float", "uint": "a Uint", "int": "an Int", "mask": "a Bool", "byte": "a Byte"}


class TraceError(TypeError):
    """The rules of a world do something that cannot be recorded.

    Attributes:
        place: File and line of the rule, with which the message begins.
        what: The rest of the message.
    """

    def __init__(self, place: str, what: str) -> None:
        super().__init__(place, what)
        self.place, self.what = place, what

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


class MissingError(TraceError, AttributeError):
    """An unknown attribute; `hasattr` and `getattr` with a default work."""


def fail(what: str, kind: type[TraceError] = TraceError) -> NoReturn:
    """Raises a TraceError at the innermost line outside this package and NumPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and os.path.abspath(frame.f_code.co_filename).startswith(_PACKAGES):
        frame = frame.f_back
    raise kind(f"{frame.f_code.co_filename}:{frame.f_lineno}", what) from None


def missing(owner: str, name: str, known: Iterable[str], instead: Mapping[str, str]) -> NoReturn:
    """The error for an unknown attribute: what to use instead of this name, the nearest one, or all."""
    if name.startswith("_"):
        raise AttributeError(name)
    known = list(known)
    others = f"; it has {', '.join(known)}" if known else "; use operators and operant.math"
    hint = f"; use {instead[name]}" if name in instead else _core.did_you_mean(name, known) or others
    fail(f"{owner} has no {name}{hint}", MissingError)


class Body:
    """The body that is being recorded: the rule itself, or the rule of a `when` or of a loop."""

    def __init__(self, is_loop: bool = False) -> None:
        self.is_loop = is_loop


class Recording:
    """A rule that is being recorded.

    Attributes:
        core: The recorder.
        bodies: The bodies that are open, innermost last.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.core = _core.Recorder()
        self.bodies = [Body()]
        self._script = script

    def note(self, step: _core.Arg | float) -> None:
        """Adds a value, or a number of Python before it is rounded, to the script."""
        if self._script is not None:
            self._script.add(repr(step) if isinstance(step, (int, float)) else self.core.shown(step))

    @contextlib.contextmanager
    def body(self, *, is_loop: bool = False) -> Iterator[None]:
        """Records the operations inside the `with` block into a separate body."""
        self.bodies.append(Body(is_loop))
        try:
            yield
        finally:
            self.bodies.pop()


class _Open(threading.local):
    """The active recordings of this thread, innermost last."""

    def __init__(self) -> None:
        self.recordings: list[Recording] = []


_open = _Open()


@contextlib.contextmanager
def begin(script: Script | None = None) -> Iterator[Recording]:
    """Begins a recording; `recording()` finds it."""
    _open.recordings.append(Recording(script))
    try:
        yield _open.recordings[-1]
    finally:
        _open.recordings.pop()


def recording() -> Recording:
    """The recording that is in progress."""
    if not _open.recordings:
        fail("operant.math and recorded values can be used only while the rules of a world are recorded")
    return _open.recordings[-1]


def _unknown(python: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(self: Value, *_: Any) -> NoReturn:
        fail(
            f"{python} needs a concrete value, but {_NAMES[self.kind]} is symbolic while the world is recorded: its value can "
            f"differ between environments; use {instead}"
        )

    return refuse


def _single(python: str) -> Callable[..., NoReturn]:
    def refuse(self: Value, *_: Any) -> NoReturn:
        fail(f"{python}: {_NAMES[self.kind]} is one number in each environment, not a list; a field such as operant.Uint[4] is an array")

    return refuse


class Value:
    """A number of every environment: a Float (real), Uint or Int (32 bits, wrapping), or Bool.

    Python's operators record what they compute: `+ - *`, `/` between Floats, `//` and `%` between Floats and of a Uint or an action by a
    constant, `& | ^ ~ << >>` on whole numbers, `& | ^ ~` on Bools, and comparisons, which give Bools. Python numbers are
    converted to the kind of the other operand.
    """

    __slots__ = ("_arg", "_body", "_recording", "kind", "span")

    def __init__(self, kind: str, arg: _core.Arg, span: tuple[int, int] = ANY) -> None:
        self._recording = recording()
        self._body = self._recording.bodies[-1]
        self.kind, self._arg = kind, arg
        # Of a Uint: the least and the greatest number that it would be if arithmetic did not wrap.
        self.span = span
        self._recording.note(arg)

    @property
    def arg(self) -> _core.Arg:
        """The value as an argument of the current recording."""
        now = recording()
        if self._recording is not now:
            fail("this value was recorded by another call; keep numbers in the state's fields, not on self")
        if self._body not in now.bodies:
            fail(
                "this value was computed inside a rule of operant.math.when or repeat, where not every environment computes it; "
                "return it from the rule"
            )
        return self._arg

    __bool__ = _unknown("`if`, `while`, `and`, `or` or `not`", "operant.math.where(condition, a, b), or & | ~")
    __int__ = _unknown("int()", "operant.math.to_int or to_uint")
    __float__ = _unknown("float(), or a function of Python's math module,", "operant.math (sin, exp, sqrt, ..)")
    __index__ = _unknown("range() or an index of a Python list", "operant.math.repeat, or operant.math.table(list)[index]")
    __iter__ = _single("iterating")
    __len__ = _single("len()")
    __getitem__ = _single("an index")
    __hash__ = _unknown("a key of a dictionary or an element of a set", "operant.math.table or where")
    __array__ = _unknown("a NumPy function", "operant.math")
    __round__ = _unknown("round()", "operant.math.round")
    __floor__ = _unknown("math.floor", "operant.math.floor")
    __ceil__ = _unknown("math.ceil", "-operant.math.floor(-x)")
    __trunc__ = _unknown("math.trunc", "operant.math.to_int")

    def __getattr__(self, name: str) -> NoReturn:
        missing(_NAMES[self.kind], name, (), _METHODS)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        """NumPy's hook for its operators, if one of its numbers is on the left side, and for its functions."""
        if function not in _OPERATORS or method != "__call__" or settings:
            fail(f"a NumPy function such as {function.__name__} cannot be recorded; use the function of operant.math")
        a, b = map(plain, inputs)
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            fail("a NumPy array cannot be combined with a recorded value; use its elements one by one, or operant.math.table(array)[index]")
        return _OPERATORS[function](a, b)

    def __repr__(self) -> str:
        known = self._arg.value
        return f"<{_NAMES[self.kind][2:].strip()}{'' if known is None else f' {known}'}>"

    def _apply(self, operation: str, kind: str, *others: Value) -> Value:
        return Value(kind, recording().core.scalar(operation, [self.arg, *(other.arg for other in others)]))

    def _binary(self, other: Any, sign: str, by_kind: dict[str, str], result: str | None = None, swap: bool = False) -> Any:
        if isinstance(other, _arrays.Array):
            return other.mapped(lambda item: self._binary(item, sign, by_kind, result, swap))
        a, b = pair(self, other)
        if a.kind not in by_kind:
            fail(f"{sign} is not defined for {_NAMES[a.kind]}{_REMEDIES.get((sign, a.kind), '')}")
        if isinstance(a, Natural) and isinstance(b, Natural) and sign != "-":
            made = a.unsigned._binary(b.unsigned, sign, by_kind, result, swap)
            return Natural(made) if made.kind == "uint" else made
        if swap:
            a, b = b, a
        made = a._apply(by_kind[a.kind], result or a.kind, b)
        if made.kind == "uint" and sign in _numbers.SPANS:
            low, high = _numbers.SPANS[sign](*a.span, *b.span)
            made.span = max(low, -_numbers.MOST), min(high, _numbers.MOST)
        return made

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

    def __floordiv__(self, other: Any) -> Value:
        if self.kind == "uint":
            divisor = _division.divisor(other, "//")
            _numbers.refuse_below_zero(self, "//")
            made = _division.by_constant(self, divisor)
            made.span = (self.span[0] // divisor, self.span[1] // divisor)
            return made
        return _division.of_floats(*self._floats(other, "//"))[0]

    def __rfloordiv__(self, other: Any) -> Value:
        if self.kind == "uint":
            return as_value(other, "uint") // self
        return _division.of_floats(*reversed(self._floats(other, "//")))[0]

    def __mod__(self, other: Any) -> Any:
        if self.kind == "uint":
            divisor = _division.divisor(other, "%")
            if divisor & (divisor - 1) == 0:
                # Wrapping changes no low bit.
                return self & (divisor - 1)
            _numbers.refuse_below_zero(self, "%")
            made = self - _division.by_constant(self, divisor) * divisor
            made.span = (0, min(self.span[1], divisor - 1))
            return made
        return _division.of_floats(*self._floats(other, "%"))[1]

    def __rmod__(self, other: Any) -> Any:
        if self.kind == "uint":
            return as_value(other, "uint") % self
        return _division.of_floats(*reversed(self._floats(other, "%")))[1]

    def _floats(self, other: Any, sign: str) -> tuple[Value, Value]:
        """This Float and another one."""
        a, b = pair(self, other)
        if a.kind != "float":
            fail(f"{sign} is not defined for {_NAMES[a.kind]}{_REMEDIES.get((sign, a.kind), '')}")
        return a, b

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return other // self, other % self

    def __pow__(self, other: Any) -> Any:
        return _powers.power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _powers.power_of_number(other, self)

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
        return as_value(other, "uint") << self

    def __rrshift__(self, other: Any) -> Value:
        return as_value(other, "uint") >> self

    def _shift(self, amount: Any, sign: str, name: str) -> Value:
        if self.kind not in ("uint", "int"):
            fail(f"{sign} is not defined for {_NAMES[self.kind]}")
        by = as_value(amount, "uint")
        known = by.arg.value
        if known is not None:
            if known > 31:
                fail(f"{sign} {known}: numbers have 32 bits, so a shift is at most 31")
            made = self._apply(("Uint" if self.kind == "uint" else "Int") + name, self.kind, by)
            if name == "Shr" and self.kind == "uint" and self.span[0] >= 0:
                made.span = (self.span[0] >> int(known), self.span[1] >> int(known))
            return made
        if self.kind == "int":
            fail(f"{sign} of an Int takes a constant; if x is not negative, use operant.math.to_uint(x) {sign} n")
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
        fail(f"abs is not defined for {_NAMES[self.kind]}, which has no sign")

    def __lt__(self, other: Any) -> Any:
        _numbers.refuse_never(self, "<", other)
        return self._binary(other, "<", _LT, "mask")

    def __gt__(self, other: Any) -> Any:
        _numbers.refuse_never(self, ">", other)
        return self._binary(other, ">", _LT, "mask", swap=True)

    def __le__(self, other: Any) -> Any:
        _numbers.refuse_never(self, "<=", other)
        if self.kind == "float":
            return self._binary(other, "<=", _LE, "mask")
        return ~self._binary(other, "<=", _LT, "mask", swap=True)

    def __ge__(self, other: Any) -> Any:
        _numbers.refuse_never(self, ">=", other)
        if self.kind == "float":
            return self._binary(other, ">=", _LE, "mask", swap=True)
        return ~self._binary(other, ">=", _LT, "mask")

    def __eq__(self, other: object) -> Any:
        _numbers.refuse_never(self, "==", other)
        if self.kind == "mask":
            return ~self._binary(other, "==", _XOR)
        return self._binary(other, "==", _EQ, "mask")

    def __ne__(self, other: object) -> Any:
        _numbers.refuse_never(self, "!=", other)
        if self.kind == "mask":
            return self._binary(other, "!=", _XOR)
        return ~self._binary(other, "!=", _EQ, "mask")


class Natural(Value):
    """An Int that is never negative, such as an action: with a Uint it computes as one, and what is subtracted from it makes it an Int."""

    __slots__ = ("choices", "unsigned")

    def __init__(self, unsigned: Value, choices: int | None = None) -> None:
        super().__init__("int", unsigned._arg)
        self.unsigned = unsigned
        # Of an action: how many there are.
        self.choices = choices
        if choices is not None:
            unsigned.span = (0, choices - 1)

    @property
    def arg(self) -> _core.Arg:
        return self.unsigned._apply("UintToInt", "int")._arg

    def __floordiv__(self, other: Any) -> Value:
        return Natural(self.unsigned // other)

    def __mod__(self, other: Any) -> Any:
        return Natural(self.unsigned % other)

    def _shift(self, amount: Any, sign: str, name: str) -> Value:
        return Natural(self.unsigned._shift(amount, sign, name))

    def __abs__(self) -> Value:
        return self



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

_OPERATORS: dict[Any, Callable[..., Any]] = {
    np.add: operator.add,
    np.subtract: operator.sub,
    np.multiply: operator.mul,
    np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv,
    np.remainder: operator.mod,
    np.divmod: divmod,
    np.power: operator.pow,
    np.bitwise_and: operator.and_,
    np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor,
    np.left_shift: operator.lshift,
    np.right_shift: operator.rshift,
    np.less: operator.lt,
    np.less_equal: operator.le,
    np.greater: operator.gt,
    np.greater_equal: operator.ge,
    np.equal: operator.eq,
    np.not_equal: operator.ne,
}

# Methods of NumPy's numbers, and what rules use.
_METHODS = {
    "clip": "operant.math.clip(x, low, high)",
    "astype": "operant.math.to_float, to_int or to_uint",
    **{"round": "operant.math.round(x)", "sum": "operant.math.sum(list), or +", "item": "the value itself"},
}

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


def plain(number: Any) -> Any:
    """Converts a NumPy number to a Python number; returns anything else unchanged."""
    is_numpy = isinstance(number, np.generic) or (isinstance(number, np.ndarray) and number.ndim == 0)
    return number.item() if is_numpy else number


def constant(kind: str, number: Any) -> Value:
    """A number of Python as a value of a kind."""
    number = plain(number)
    is_bool = isinstance(number, bool)
    if kind == "mask":
        if not is_bool:
            fail(f"a Bool is expected, got {number!r}; compare it, as in x != 0")
    elif is_bool or not isinstance(number, (int, float)):
        fail(f"{_NAMES[kind]} is expected, got {number!r}")
    elif kind == "float":
        number = _real(number)
        recording().note(number)
    elif isinstance(number, float):
        fail(
            f"{number!r} is a real number where {_NAMES[kind]} is expected; convert the whole number first, as in "
            f"operant.math.to_float(a) * {number!r}, or make the field an operant.Float"
        )
    else:
        low, high = (0, 2**32) if kind == "uint" else (-(2**31), 2**31)
        if not low <= number < high:
            fail(f"{number!r} does not fit {_NAMES[kind]}, which goes from {low} to {high - 1}")
    return Value(kind, _core.Arg.literal(kind, number), (number, number) if kind == "uint" else ANY)


def _real(number: float) -> float:
    try:
        return float(number)
    except OverflowError:
        fail("a whole number of more than 300 digits does not fit a Float")


def as_value(value: Any, kind: str) -> Value:
    """A value of a kind: a recorded one, or a Python number."""
    if not isinstance(value, Value):
        if isinstance(value, _arrays.Array):
            fail(f"{_NAMES[kind]} is expected, got an array; index it")
        return constant(kind, value)
    if isinstance(value, Natural) and kind == "uint":
        return value.unsigned
    if value.kind != kind:
        fail(f"{_NAMES[kind]} is expected, got {_NAMES[value.kind]}{_conversion(value.kind, kind)}")
    return value


def _conversion(kind: str, to: str) -> str:
    if to == "mask":
        return "; compare it, as in x != 0"
    return f"; convert it with operant.math.to_{to}"


def common_kind(numbers: Sequence[Any]) -> str:
    """The kind of several numbers: the kind of the first recorded one, otherwise one that can represent all of them."""
    for number in numbers:
        if isinstance(number, Value):
            return number.kind
    kinds = [_kind_of(plain(number)) for number in numbers]
    return next((kind for kind in ("float", "int") if kind in kinds), kinds[0])


def _kind_of(number: Any) -> str:
    if isinstance(number, bool):
        return "mask"
    if isinstance(number, float):
        return "float"
    if isinstance(number, int):
        return "uint" if number >= 0 else "int"
    fail(f"a number is expected, got {number!r}")


def _mixed(a: str, b: str) -> str:
    """A hint for combining two values of these kinds."""
    if "mask" in (a, b):
        return "convert the Bool with operant.math.to_float, to_int or to_uint, or compare the other value, as in x != 0"
    return "convert one of them with operant.math.to_float, to_int or to_uint"


def pair(a: Any, b: Any) -> tuple[Value, Value]:
    """Two values of one kind."""
    if isinstance(a, Natural) or isinstance(b, Natural):
        if "uint" in (getattr(a, "kind", None), getattr(b, "kind", None)):
            return as_value(a, "uint"), as_value(b, "uint")
        a, b = (Natural(constant("uint", it)) if type(plain(it)) is int and it >= 0 else it for it in (a, b))
    if isinstance(a, Value) and isinstance(b, Value) and a.kind != b.kind:
        fail(f"{_NAMES[a.kind]} and {_NAMES[b.kind]} do not mix; {_mixed(a.kind, b.kind)}")
    kind = common_kind([a, b])
    return as_value(a, kind), as_value(b, kind)


def select(mask: Value, yes: Any, no: Any) -> Value:
    """The number `yes` where `mask` holds, `no` elsewhere."""
    yes, no = pair(yes, no)
    if isinstance(yes, Natural) and isinstance(no, Natural):
        return Natural(select(mask, yes.unsigned, no.unsigned))
    name = {"float": "Float", "uint": "Uint", "int": "Int", "mask": "Mask"}[yes.kind]
    made = mask._apply(f"{name}Select", yes.kind, yes, no)
    made.span = (min(yes.span[0], no.span[0]), max(yes.span[1], no.span[1]))
    return made


# At the end, because they use what is above.
from operant import _arrays, _division, _numbers, _powers  # noqa: E402
