"""Arrays of recorded values, and the types of fields."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from operant import _core
from operant._trace import _NAMES, _OPERATORS, Natural, Value, as_value, common_kind, constant, fail, missing, plain, recording, select

# Arrays of at most this length are kept in registers, where an index selects among all elements.
_REGISTERS = 32

#: The length of an array, or the numbers of its rows and columns.
Shape = tuple[int, ...]


def is_memory(size: int) -> bool:
    """Whether an array is kept in memory, so that only the word at an index is read."""
    return size > _REGISTERS


def _to_word(item: Value) -> Value:
    """The word of a memory that keeps a value."""
    if item.kind == "mask":
        return select(item, 1, 0)
    return item if item.kind == "uint" else item._apply("FloatToBits" if item.kind == "float" else "IntToUint", "uint")


def _from_word(kind: str, word: Value) -> Value:
    if kind == "mask":
        return ~word._apply("UintEq", "mask", constant("uint", 0))
    return word if kind == "uint" else word._apply("FloatFromBits" if kind == "float" else "UintToInt", kind)


def _item(kind: str, value: Any) -> Value:
    """A value as an element of an array: of one of bytes, a Uint whose lowest eight bits count."""
    if kind != "byte":
        return as_value(value, kind)
    item = as_value(value, "uint")
    return item if _is_small(item, 256) else item & 255


def _byte_of(at: int | Value) -> tuple[Value, Value]:
    """The word of a byte, and by how many bits it is shifted there."""
    return as_value(at >> 2, "uint"), as_value((at & 3) << 3, "uint")


def _sizes(shape: Shape) -> str:
    return " x ".join(map(str, shape))


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, *others: each(function, self, *others)


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda self, other: each(function, other, self)


class Array:
    """An array with its own elements in each environment. An index may be a number of Python or a Uint; past the end it reads the last element
    and writes nothing. An array of rows and columns has two indices: `a[i, j]`.

    Operators compute with each element and that of another array of the same shape, or with one number for all elements.
    """

    __slots__ = ("_items", "_memory", "kind", "shape", "size")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, kind: str, shape: Shape, *, items: Sequence[Value] | None = None, memory: _core.Arg | None = None) -> None:
        self.kind, self.shape, self.size = kind, shape, math.prod(shape)
        # Either its elements, or a memory from which an index reads one word.
        self._items = None if items is None else list(items)
        self._memory = None if memory is None else Value("memory", memory)

    @staticmethod
    def of(kind: str, shape: Shape, values: Any) -> Array:
        """An array of these values, one after the other or row by row."""
        if isinstance(values, Array):
            if (kind, values.kind, values.shape) == ("byte", "uint", shape):
                return Array(kind, shape, items=[_item(kind, item) for item in values.items])._kept()
            if (values.kind, values.shape) != (kind, shape):
                fail(
                    f"an array of {_sizes(shape)} is expected ({_NAMES[kind]} each), got one of {_sizes(values.shape)} "
                    f"({_NAMES[values.kind]} each)"
                )
            return values.copy()
        return Array(kind, shape, items=[_item(kind, value) for value in _nested(values, shape)])._kept()

    @staticmethod
    def from_args(kind: str, shape: Shape, args: Iterator[_core.Arg]) -> Array:
        """The array that `args` gives, the next ones of this iterator."""
        if FieldType(kind, shape).is_memory:
            return Array(kind, shape, memory=next(args))
        return Array(kind, shape, items=[Value(kind, next(args)) for _ in range(math.prod(shape))])

    def _kept(self) -> Array:
        """The same array, in memory if it is large."""
        if self._memory is not None or not FieldType(self.kind, self.shape).is_memory:
            return self
        words = [_to_word(item) for item in self.items]
        if self.kind == "byte":
            shifted = [word << 8 * (k % 4) if k % 4 else word for k, word in enumerate(words)]
            words = [functools.reduce(operator.or_, shifted[k : k + 4]) for k in range(0, self.size, 4)]
        return Array(self.kind, self.shape, memory=recording().core.words([word.arg for word in words]))

    @property
    def args(self) -> list[_core.Arg]:
        """The array as arguments of the current recording: its memory, or its elements."""
        kept = self._kept()
        return [item.arg for item in kept.items] if kept._memory is None else [kept._memory.arg]

    @property
    def items(self) -> list[Value]:
        """All elements, row by row."""
        return self._items if self._items is not None else [self._read(k) for k in range(self.size)]

    def mapped(self, function: Callable[[Value], Any]) -> Array:
        """`function` of each element."""
        items = [function(item) for item in self.items]
        return Array(items[0].kind, self.shape, items=items)

    def sum(self, axis: None = None, dtype: None = None, out: None = None) -> Value:
        """The sum of all elements, added in their order; how many hold, of Bools. NumPy's `sum` calls it."""
        if (axis, dtype, out) != (None, None, None):
            fail("sum adds all elements; of each row: [operant.math.sum(row) for row in a]")
        return total(self.items)

    def __getattr__(self, name: str) -> NoReturn:
        instead = {"append": "a[k] = value, with the number of elements in a field", "dot": "operant.math.dot(a, b)"}
        missing("an array", name, ("put", "copy", "sum", "kind", "shape", "size"), instead)

    def __array_ufunc__(self, function: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        if function not in _OPERATORS or method != "__call__" or settings:
            fail(
                f"a NumPy function such as {function.__name__} cannot be recorded; compute with the elements of an array, or use "
                "operant.math (sum, dot, minimum, where, ..)"
            )
        return each(_OPERATORS[function], *inputs)

    def __bool__(self) -> NoReturn:
        fail("`if`, `and`, `or` or `not` of an array; use operant.math.any(a) or all(a), and where(condition, a, b), or & | ~")

    def __matmul__(self, _: Any) -> NoReturn:
        fail("@ cannot be recorded; use operant.math.dot(a, b), or [operant.math.dot(row, v) for row in a]")

    __rmatmul__ = __matmul__
    __add__, __radd__ = _elementwise(operator.add), _reflected(operator.add)
    __sub__, __rsub__ = _elementwise(operator.sub), _reflected(operator.sub)
    __mul__, __rmul__ = _elementwise(operator.mul), _reflected(operator.mul)
    __truediv__, __rtruediv__ = _elementwise(operator.truediv), _reflected(operator.truediv)
    __floordiv__, __rfloordiv__ = _elementwise(operator.floordiv), _reflected(operator.floordiv)
    __mod__, __rmod__ = _elementwise(operator.mod), _reflected(operator.mod)
    __pow__, __rpow__ = _elementwise(operator.pow), _reflected(operator.pow)
    __and__, __rand__ = _elementwise(operator.and_), _reflected(operator.and_)
    __or__, __ror__ = _elementwise(operator.or_), _reflected(operator.or_)
    __xor__, __rxor__ = _elementwise(operator.xor), _reflected(operator.xor)
    __lshift__, __rlshift__ = _elementwise(operator.lshift), _reflected(operator.lshift)
    __rshift__, __rrshift__ = _elementwise(operator.rshift), _reflected(operator.rshift)
    __lt__, __le__ = _elementwise(operator.lt), _elementwise(operator.le)
    __gt__, __ge__ = _elementwise(operator.gt), _elementwise(operator.ge)
    __eq__, __ne__ = _elementwise(operator.eq), _elementwise(operator.ne)
    __neg__, __pos__ = _elementwise(operator.neg), _elementwise(operator.pos)
    __abs__, __invert__ = _elementwise(operator.abs), _elementwise(operator.invert)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """Its elements, or its rows as tuples."""
        items, columns = self.items, self.shape[-1]
        return iter(items) if len(self.shape) == 1 else (tuple(items[k : k + columns]) for k in range(0, self.size, columns))

    def __repr__(self) -> str:
        return f"<array of {_sizes(self.shape)}, {_NAMES[self.kind]} each>"

    def copy(self) -> Array:
        """A copy; writing to one of them does not change the other."""
        copy = Array(self.kind, self.shape, items=self._items)
        copy._memory = self._memory
        return copy

    def here(self) -> Array:
        """A copy that was made in the rule that is being recorded."""
        return Array.from_args(self.kind, self.shape, iter(self.args))

    def _places(self, index: Any) -> list[int | Value]:
        """The index of each dimension."""
        indices = index if isinstance(index, tuple) else (index,)
        if len(indices) != len(self.shape):
            way = "two indices, as in a[i, j]; `for row in a` gives its rows" if len(self.shape) == 2 else "one index"
            fail(f"an array of {_sizes(self.shape)} takes {way}")
        return [_place(one, count, self.shape) for one, count in zip(indices, self.shape, strict=True)]

    def _at(self, places: list[int | Value]) -> int | Value:
        """Where an element is, row by row."""
        if len(places) == 1:
            return places[0]
        row, column = (_clamped(place, count) for place, count in zip(places, self.shape, strict=True))
        at: int | Value = row * self.shape[1] + column
        return at

    def _read(self, at: int | Value) -> Value:
        if self._items is not None and isinstance(at, int):
            return self._items[at]
        kept = self._kept()
        if kept._memory is not None and self.kind == "byte":
            word, shift = _byte_of(_clamped(at, self.size))
            byte: Value = (Value("uint", recording().core.element(kept._memory.arg, word.arg)) >> shift) & 255
            return byte
        if kept._memory is not None:
            return _from_word(self.kind, Value("uint", recording().core.element(kept._memory.arg, as_value(at, "uint").arg)))
        value = kept.items[-1]
        for k, item in enumerate(kept.items[:-1]):
            value = select(as_value(at == k, "mask"), item, value)
        return value

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice) and len(self.shape) == 1:
            return [self[k] for k in range(*index.indices(self.size))]
        return self._read(self._at(self._places(index)))

    def __setitem__(self, index: Any, value: Any) -> None:
        self.put(index, value)

    def put(self, index: Any, value: Any, where: Any = True) -> None:
        """Writes `value` at `index`, where `where` holds."""
        item, mask, places = _item(self.kind, value), as_value(where, "mask"), self._places(index)
        at = self._at(places)
        if self._items is not None and isinstance(at, int):
            self._items[at] = select(mask, item, self._items[at])
            return
        kept = self._kept()
        if len(self.shape) > 1:
            for place, count in zip(places, self.shape, strict=True):
                mask = mask if isinstance(place, int) or _is_small(place, count) else mask & (place < count)
        if kept._memory is not None:
            at, word = as_value(at, "uint"), _to_word(item)
            if self.kind == "byte":
                mask = mask if _is_small(at, self.size) else mask & (at < self.size)
                at, shift = _byte_of(at)
                others = Value("uint", recording().core.element(kept._memory.arg, at.arg)) & ~(constant("uint", 255) << shift)
                word = others | (word << shift)
            memory = recording().core.store(kept._memory.arg, mask.arg, at.arg, word.arg)
            self._items, self._memory = None, Value("memory", memory)
        else:
            self._items = [select((at == k) & mask, item, before) for k, before in enumerate(kept.items)]

    @staticmethod
    def choose(mask: Any, yes: Any, no: Any) -> Array:
        """The array `yes` where `mask` holds, `no` elsewhere; of arrays of Bools, each element."""
        if isinstance(mask, Value) and isinstance(yes, Array) and isinstance(no, Array) and (yes.kind, yes.shape) == (no.kind, no.shape):
            if yes._memory is not None and no._memory is not None:
                memory = recording().core.choose(mask.arg, yes._memory.arg, no._memory.arg)
                return Array(yes.kind, yes.shape, memory=memory)
        chosen: Array = each(lambda condition, a, b: select(as_value(condition, "mask"), a, b), mask, yes, no)
        return chosen


def _place(index: Any, count: int, shape: Shape) -> int | Value:
    """An index counted from the start: a number of Python, or a Uint."""
    index = plain(index)
    if isinstance(index, int) and not isinstance(index, bool):
        if not -count <= index < count:
            fail(f"index {index} is outside an array of {_sizes(shape)}")
        return index % count
    if isinstance(index, Value) and index.kind == "int" and not isinstance(index, Natural):
        index = index._apply("IntToUint", "uint")
    if isinstance(index, slice):
        fail(f"a slice is an index of an array of one dimension; this one is {_sizes(shape)}: [a[i, j] for j in range(..)]")
    return as_value(index, "uint")


def _clamped(place: int | Value, count: int) -> Any:
    return place if isinstance(place, int) or _is_small(place, count) else select(place < count, place, count - 1)


def _is_small(place: Value, count: int) -> bool:
    return 0 <= place.span[0] and place.span[1] < count


def _nested(values: Any, shape: Shape) -> list[Any]:
    """The values of a list, or of a list of rows, which have this shape."""
    if isinstance(values, (Value, str)) or not isinstance(values, (Iterable, np.ndarray)):
        fail(f"{_sizes(shape)} values are expected, got {values!r}")
    rows = list(values)
    if len(rows) != shape[0]:
        each_row = f" of {shape[1]}" if len(shape) == 2 else ""
        fail(f"{_sizes(shape)} values are expected, got {len(rows)}{' rows' if each_row else ''}")
    return rows if len(shape) == 1 else [value for row in rows for value in _nested(row, shape[1:])]


def each(function: Callable[..., Any], *values: Any) -> Any:
    """`function` of each element of arrays of the same shape, and of numbers, which are the same for all elements; without an array
    `function` of the numbers. Lists and NumPy arrays are constants of an array."""
    arrays = [value for value in values if isinstance(value, Array)]
    if not arrays:
        return function(*values)
    shape = arrays[0].shape
    for other in arrays[1:]:
        if other.shape != shape:
            fail(f"arrays of {_sizes(shape)} and {_sizes(other.shape)} do not combine: both have the same shape, or one is a number")
    columns = [_column(value, shape) for value in values]
    items = [function(*row) for row in zip(*columns, strict=True)]
    return Array(items[0].kind, shape, items=items)


def _column(value: Any, shape: Shape) -> list[Any]:
    value = plain(value)
    if isinstance(value, Array):
        return value.items
    return _nested(value, shape) if isinstance(value, (list, tuple, np.ndarray)) else [value] * math.prod(shape)


def total(items: Sequence[Any]) -> Value:
    """The sum of numbers, added in their order; how many hold, of Bools."""
    if not items:
        fail("the sum of no numbers; give at least one")
    kind = common_kind(items)
    values = [as_value(item, kind) for item in items]
    return functools.reduce(operator.add, [select(value, 1, 0) for value in values] if kind == "mask" else values)


class FieldType:
    """The type of a field of a state: a kind, or an array of a kind."""

    def __init__(self, kind: str, shape: Shape | None = None) -> None:
        self.kind, self.shape = kind, shape

    @property
    def words(self) -> int:
        """How many words it takes."""
        size = math.prod(self.shape or (1,))
        return -(-size // 4) if self.kind == "byte" else size

    @property
    def is_memory(self) -> bool:
        return self.kind == "byte" or (self.shape is not None and is_memory(self.words))


# The most elements of an array.
_MOST = 65_536


class _Kind(type):
    """Classes that name kinds: `Uint` is a number, `Uint[4]` an array of four, `Uint[4, 5]` one of four rows and five columns."""

    kind: str

    def __getitem__(cls, size: Any) -> Any:
        shape = size if isinstance(size, tuple) else (size,)
        if len(shape) > 2:
            raise TypeError(f"{cls.__name__}[rows, columns]: an array has one or two dimensions, got {len(shape)}")
        for one in shape:
            if isinstance(one, bool) or not isinstance(one, int) or not 1 <= one <= _MOST:
                raise TypeError(f"{cls.__name__}[size]: expected a size from 1 to {_MOST}, got {one!r}")
        if math.prod(shape) > _MOST:
            raise TypeError(f"{cls.__name__}[rows, columns]: an array has at most {_MOST} elements, got {_sizes(shape)}")
        return FieldType(cls.kind, shape)


class Float(metaclass=_Kind):
    """A field that is a real number, in single precision; `Float[4]` is an array, `Float[4, 5]` one of rows and columns."""

    kind: ClassVar[str] = "float"


class Uint(metaclass=_Kind):
    """A field that is a whole number from 0 to 2**32 - 1; arithmetic wraps. `Uint[100]` is an array, `Uint[8, 8]` one of rows and columns."""

    kind: ClassVar[str] = "uint"


class Int(metaclass=_Kind):
    """A field that is a whole number from -2**31 to 2**31 - 1; arithmetic wraps. `Int[4]` is an array, `Int[4, 5]` one of rows and columns."""

    kind: ClassVar[str] = "int"


class Bool(metaclass=_Kind):
    """A field that is true or false; `Bool[4]` is an array, `Bool[4, 5]` one of rows and columns."""

    kind: ClassVar[str] = "mask"


class Byte(metaclass=_Kind):
    """Arrays of whole numbers from 0 to 255, four per word: `Byte[400]`, or `Byte[20, 20]` for rows and columns. An element is read as a Uint;
    larger numbers are stored modulo 256."""

    kind: ClassVar[str] = "byte"


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
