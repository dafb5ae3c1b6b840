"""What the rules of a world may read but not change: everything outside of the state. Rules run only while they are recorded, so a
change would be one constant for all environments and steps."""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import inspect
import random
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePath
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NamedTuple, NoReturn

import numpy as np

from operant import _trace

# Packages whose functions and objects keep nothing of a world.
_OTHERS = ("operant", "numpy", "gymnasium", "builtins")

# Directories of installed packages.
_SITES = {"site-packages", "dist-packages"}


class Outside(NamedTuple):
    """What a rule can reach by name, as it is now."""

    functions: list[FunctionType]
    #: Contents by the name of a thing; equal if nothing changed.
    contents: dict[str, Any]
    #: Keeps objects alive that are compared by their identity.
    values: list[Any]


#: What surrounds the recording of a rule.
Watch = Callable[[Any, str], contextlib.AbstractContextManager[None]]


@contextlib.contextmanager
def refused(world: Any, method: str) -> Iterator[None]:
    """Inside, a rule runs; afterwards an error at the line in which it changed something outside of the state."""
    before = _seen(world, method)
    yield
    after = _seen(world, method)
    for name in dict.fromkeys([*before.contents, *after.contents]):
        if before.contents.get(name, _ABSENT) != after.contents.get(name, _ABSENT):
            _refuse(method, name, after.functions)


def _seen(world: Any, method: str) -> Outside:
    """What the rule `method` of a world reads: attributes, globals, and names of the functions around it."""
    cls = type(world)
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        found |= {f"{base.__name__}.{name}": value for name, value in vars(base).items() if not _is_code(name, value)}
    found |= {f"self.{name}": value for name, value in _attributes(world).items()}
    home = cls.__module__.partition(".")[0]
    functions = [plain for plain in [_function_of(getattr(world, method), home)] if plain]
    for function in functions:  # which grows
        names = [name for code in _codes(function) for name in code.co_names]
        named = {name: function.__globals__[name] for name in names if name in function.__globals__}
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not assigned yet
                named[name] = cell.cell_contents
        for name, module in [pair for pair in named.items() if isinstance(pair[1], ModuleType) and not _is_installed(pair[1], home)]:
            inside = {attribute: vars(module)[attribute] for attribute in names if attribute in vars(module)}
            found |= {f"{name}.{attribute}": value for attribute, value in inside.items() if not _is_library(value)}
        found |= {name: value for name, value in named.items() if _function_of(value, home) is None}
        if any(_draws(value, names) for value in named.values()):
            # A choice that one number makes may be the same in two recordings.
            found |= {"random": random.getstate(), "np.random": np.random.get_state()}
        called = [*named.values(), *(inspect.getattr_static(cls, name, None) for name in names)]
        functions += [inner for inner in dict.fromkeys(_function_of(it, home) for it in called) if inner and inner not in functions]
    own = {function.__module__ for function in functions}
    values: list[Any] = []
    seen: set[int] = set()
    return Outside(functions, {name: _content(value, own, values, seen) for name, value in found.items()}, values)


def _refuse(method: str, name: str, functions: list[FunctionType]) -> NoReturn:
    last = name.rpartition(".")[2]
    what = (
        f"{method} changes {name}, which is not in the state. Rules run only while they are recorded: {name} would be one constant for all "
        f"environments and steps; make it a field (`{last}: operant.Float` in the class) and assign s.{last}, or compute it in __init__ if it "
        "never changes"
    )
    if last == "random":
        what = f"{method} draws from {name}. Rules run only while they are recorded: its numbers {DRAWN}"
    raise _trace.TraceError(_place(functions, last), what) from None


def _place(functions: list[FunctionType], name: str) -> str:
    """Where a name is assigned, or else the first place where it is mentioned."""
    if not functions:
        return "the rules"
    mentioned = f"{functions[0].__code__.co_filename}:{functions[0].__code__.co_firstlineno}"
    is_found = False
    for code in (code for function in functions for code in _codes(function)):
        lines = [(first, line) for first, _, line in code.co_lines() if line is not None]
        for instruction in dis.get_instructions(code):
            if instruction.argval != name:
                continue
            place = f"{code.co_filename}:{max((first, line) for first, line in lines if first <= instruction.offset)[1]}"
            if instruction.opname.startswith(("STORE_", "DELETE_")):
                return place
            mentioned, is_found = (mentioned, True) if is_found else (place, True)
    return mentioned


_ABSENT = object()


def _function_of(value: Any, home: str) -> FunctionType | None:
    """A function of the user's, also of a method of a class or a property."""
    for attribute in ("__func__", "fget", "func", "__wrapped__"):
        value = getattr(value, attribute, value) if not isinstance(value, type) else value
    return value if isinstance(value, FunctionType) and not _is_installed(value, home) else None


def _is_installed(of: FunctionType | ModuleType, home: str) -> bool:
    """Whether a function or module is of Python's library or of an installed package, whose caches are not of a world; but the package of the
    world itself, `home`, is the user's."""
    file, name = (getattr(of, "__file__", None), of.__name__) if isinstance(of, ModuleType) else (of.__code__.co_filename, of.__module__)
    package = name.partition(".")[0]
    is_package = package != home and not _SITES.isdisjoint(PurePath(file or "").parts)
    return is_package or package in _OTHERS or package in sys.stdlib_module_names - {"__main__"}


def _draws(value: Any, names: list[str]) -> bool:
    """Whether a function that uses this value can draw from the generators that programs share."""
    of = type(getattr(value, "__self__", None))
    return value is random or value is np.random or (value is np and "random" in names) or of in (random.Random, np.random.RandomState)


def _is_code(name: str, value: Any) -> bool:
    return name.startswith("__") or name in ("_operant", "State") or callable(value) or hasattr(value, "__get__")


def _is_library(value: Any) -> bool:
    # Modules inside a package may be imported when they are first used.
    return callable(value) or isinstance(value, ModuleType)


def _is_cached(cls: type, name: str) -> bool:
    return isinstance(inspect.getattr_static(cls, name, None), functools.cached_property)


def _codes(function: FunctionType) -> Iterator[CodeType]:
    """The code of a function and of those inside it."""
    inside = [function.__code__]
    for code in inside:  # which grows
        yield code
        inside += [it for it in code.co_consts if isinstance(it, CodeType)]


def _attributes(value: Any) -> dict[str, Any]:
    slots = [name for base in type(value).__mro__ for name in getattr(base, "__slots__", ()) if hasattr(value, name)]
    found = {name: getattr(value, name) for name in slots if name not in ("__dict__", "__weakref__")} | getattr(value, "__dict__", {})
    return {name: it for name, it in found.items() if not _is_cached(type(value), name)}


def _content(value: Any, own: set[str], values: list[Any], seen: set[int]) -> Any:
    """Numbers, texts and containers by what they hold, random number generators by their state, other objects by their identity."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes, np.generic)):
        return type(value), repr(value)
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.shape, value.dtype.str, hashlib.blake2b(value.tobytes()).digest()
    if isinstance(value, np.random.Generator):
        value = value.bit_generator.state
    elif isinstance(value, np.random.RandomState):
        value = value.get_state()
    elif isinstance(value, random.Random):
        value = value.getstate()
    values.append(value)
    if id(value) in seen:
        return id(value)
    seen.add(id(value))
    if isinstance(value, Mapping):
        return [(_content(key, own, values, seen), _content(item, own, values, seen)) for key, item in value.items()]
    if isinstance(value, (list, tuple, deque, set, frozenset, np.ndarray)):
        return type(value), [_content(item, own, values, seen) for item in value]
    kind = value if isinstance(value, type) else type(value)
    if (kind.__module__ in own or kind is SimpleNamespace) and not isinstance(value, FunctionType):
        inside = {name: it for name, it in vars(value).items() if not _is_code(name, it)} if kind is value else _attributes(value)
        return id(value), [(name, _content(item, own, values, seen)) for name, item in inside.items()]
    return id(value)


class Script:
    """What rules compute, step by step, when they are recorded, to be compared with another recording."""

    def __init__(self) -> None:
        self._steps: list[str] = []
        self._next: int | None = None

    def compare(self) -> None:
        """From now on the steps are those of another recording."""
        self._next = 0

    def add(self, step: str) -> None:
        """A step; an error in the line of a rule if it is not that of the recording before."""
        if self._next is None:
            self._steps.append(step)
            return
        before = self._steps[self._next] if self._next < len(self._steps) else "nothing"
        self._next += 1
        if step != before:
            _trace.fail(f"{UNSTEADY} (first {before[:60]}, then {step[:60]}); they {DRAWN}")


UNSTEADY = "the rules compute something else each time that they are recorded"
DRAWN = (
    "would be one constant for all environments and steps: draw from the argument `draws`, keep what changes in a field, and compute constants "
    "in __init__"
)


#: One recording at a time: the generators of `random` and `numpy.random` are those of all threads.
ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def other_chance() -> Iterator[None]:
    """Inside, `random` and `numpy.random` give other numbers than before; afterwards they continue as if nothing had been drawn."""
    before, numpy_before = random.getstate(), np.random.get_state()
    random.seed(repr(before))
    np.random.seed(random.getrandbits(32))
    try:
        yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)
