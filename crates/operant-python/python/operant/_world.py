"""Worlds: environments whose rules are written in Python, recorded once, and run without Python."""

from __future__ import annotations

import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from operant import _core, _trace
from operant._trace import Array, Draws, FieldType, Packed, Value, as_value, fail, flattened, recorder_of
from operant.shapes import Shape

C = TypeVar("C", bound=type)

#: The version of files.
_VERSION = 1
#: An episode that no limit ends.
_NO_LIMIT = 2**32 - 2


def world(
    cls: C | None = None,
    /,
    *,
    name: str | None = None,
    observation_space: Any = None,
    action_space: Any = None,
    max_episode_steps: int | None = None,
    summary: str | None = None,
    action_names: Sequence[str] = (),
    obs_names: Sequence[str] = (),
    view: tuple[tuple[float, float], tuple[float, float]] = ((0.0, 0.0), (1.0, 1.0)),
    fps: float = 15.0,
    preset: Mapping[str, Any] | str | None = None,
) -> Any:
    """Makes a class a world: an environment whose rules are recorded once, then stepped in bulk on CPUs and GPUs.

        @operant.world(
            observation_space=gymnasium.spaces.Box(-10, 10, (1,)),
            action_space=gymnasium.spaces.Discrete(2),
            max_episode_steps=100,
        )
        class Walk:
            x: operant.Float

            def reset(self, draws):
                return self.State(x=draws.uniform(-1, 1))

            def step(self, s, action, draws):
                s.x = s.x + operant.math.where(action == 1, 0.5, -0.5)
                return s, -abs(s.x), abs(s.x) > 10

            def observe(self, s):
                return [s.x]

        operant.train(Walk)

    The annotated fields are the state: `operant.Float`, `Uint`, `Int` and `Bool`, and small arrays of them such as `operant.Uint[4]`.
    The class has these methods, and `self.State(field=value, ...)` makes a state:

    - `reset(self, draws)` returns a first state.
    - `step(self, s, action, draws)` returns the state after a step, the reward (a Float) and whether the episode terminated (a Bool).
      `action` is a Uint for Discrete, a list of Uints for MultiDiscrete, and a list of Floats for Box.
    - `observe(self, s)` returns the numbers of the observation, in the space's order; for a Dict, a dictionary of them.
    - `legal(self, s)`, if choices can be illegal, returns a Bool for every choice.
    - `draw(self, s)`, for `operant play` and the monitor, returns a list of `operant.shapes`.

    The methods run once, on values that stand for the numbers of every environment (`operant.math` has their functions), and must not
    depend on them: there is no `if` on a value, but `operant.math.where`. A TraceError names the line that does.

    Args:
        name: The environment's name; by default the class's in snake_case.
        observation_space: A Gymnasium space: Box of float32, MultiBinary or Box of bool, Discrete, MultiDiscrete, Box of uint8, or a
            Dict of these. The class may have it as an attribute instead, as it may the next two.
        action_space: Discrete, MultiDiscrete or Box.
        max_episode_steps: Steps after which an episode is truncated; None for no limit.
        summary: One line for lists; by default the first line of the class's documentation.
        action_names: What the choices are called; `operant play` gives the arrow keys to left, right, up and down.
        obs_names: What the numbers of an observation mean.
        view: Lower left and upper right corner of what `draw` shows.
        fps: Steps a second at which a person likes to watch it.
        preset: Settings that it is trained with unless others are given, as keywords of `operant.train`, or as TOML.
    """
    if cls is None:
        given = {key: value for key, value in locals().items() if key != "cls"}
        return lambda cls: world(cls, **given)
    if not isinstance(cls, type):
        raise TypeError(f"operant.world decorates a class, not {cls!r}; write @operant.world(...) above `class`")
    first_line = (inspect.getdoc(cls) or "").strip().split("\n")[0].rstrip(".")
    spec = {
        "name": name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower(),
        "summary": summary or first_line or cls.__name__,
        "obs_names": list(obs_names),
        "action_names": list(action_names),
        "fps": float(fps),
    }
    own = {"observation_space": observation_space, "action_space": action_space, "max_episode_steps": max_episode_steps}
    cls._operant = _Declaration(cls, spec, own, view, preset)  # type: ignore[attr-defined]
    cls.State = cls._operant.state  # type: ignore[attr-defined]
    for method in (save, emit):
        setattr(cls, method.__name__, _OfClass(method))
    return cls


class World:
    """A recorded world. `operant.load_world` reads one from a file; `operant.train`, `make_vec` and `make` take it, and a class with
    `@operant.world`.

    Attributes:
        name: The environment's name.
        content: The text of a file.
    """

    def __init__(self, content: bytes) -> None:
        self._core = _core.World(content)
        self.content = content
        self.name: str = self._core.spec()["name"]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes it to a file for `operant train ./FILE`, by convention NAME.world."""
        save(self, path)

    def emit(self) -> str:
        """Its rules as CUDA C++."""
        return self._core.emit()

    def __reduce__(self) -> tuple[Any, ...]:
        return World, (self.content,)

    def __repr__(self) -> str:
        return f"<operant.World {self.name}>"


def load_world(path: str | os.PathLike[str]) -> World:
    """Reads a world that `save` wrote. Files hold numbers and names of operations, no code, and are checked.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is not a world, or damaged.
    """
    text = Path(path).read_bytes()
    try:
        return World(text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def save(world: Any, path: str | os.PathLike[str]) -> None:
    """Records the world and writes it to a file, for `operant train ./FILE`."""
    content = recorded(world).content
    partial = Path(f"{os.fspath(path)}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def emit(world: Any) -> str:
    """The rules as CUDA C++."""
    return recorded(world).emit()


class _OfClass:
    """A function of a world that its class has, and its objects."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.__doc__ = function.__doc__

    def __get__(self, instance: Any, owner: type) -> Callable[..., Any]:
        of = owner if instance is None else instance
        return lambda *args, **kwargs: self._function(of, *args, **kwargs)


def is_world(env: Any) -> bool:
    """Whether `operant.train` and the like take it as a world."""
    return isinstance(env, World) or hasattr(env, "_operant")


def recorded(env: Any) -> World:
    """The world of a class with `@operant.world`, of an object of it, or itself."""
    if isinstance(env, World):
        return env
    declaration = getattr(env, "_operant", None)
    if declaration is None:
        raise TypeError(f"a world is expected: a class with @operant.world, or what operant.load_world returns; got {env!r}")
    instance = env() if isinstance(env, type) else env
    return World(declaration.record(instance))


def registered(env: Any) -> str:
    """The name under which this process finds a world from now on."""
    world = recorded(env)
    _core.add_world(world._core)
    return world.name


class State:
    """The state of a world: its fields are attributes. Each world has a class of its own, `self.State`."""

    _fields: dict[str, FieldType]

    def __init__(self, /, **values: Any) -> None:
        recorder = recorder_of(values.values())
        object.__setattr__(self, "_recorder", recorder)
        missing = [name for name in self._fields if name not in values]
        if missing:
            fail(f"the state has no {', '.join(missing)}; give every field: State({', '.join(f'{name}=..' for name in self._fields)})")
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if field is None:
            fail(f"the state has no field {name}; it has {', '.join(self._fields)}. Annotate it in the class, such as `{name}: operant.Float`")
        recorder = self._recorder
        if field.size is None:
            value = as_value(recorder, value, field.kind)
        else:
            value = Array.of(recorder, field.kind, field.size, value)
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fail(f"the state has no field {name}; it has {', '.join(self._fields)}")

    def replace(self, **changes: Any) -> State:
        """A copy with other values of some fields."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changes})

    def copy(self) -> State:
        """A copy; assigning to one of them leaves the other as it is."""
        return self.replace()

    def __repr__(self) -> str:
        return f"State({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


_KINDS = (_trace.Float, _trace.Uint, _trace.Int, _trace.Bool)


class _Declaration:
    """What a class says about its world."""

    def __init__(self, cls: type, spec: dict[str, Any], own: dict[str, Any], view: Any, preset: Any) -> None:
        self._cls, self._spec, self._own, self._view, self._preset = cls, spec, own, view, preset
        fields: dict[str, FieldType] = {}
        for base in reversed(cls.__mro__):
            for name, annotation in inspect.get_annotations(base, eval_str=True).items():
                if annotation in _KINDS:
                    fields[name] = FieldType(annotation.kind)
                elif isinstance(annotation, FieldType):
                    fields[name] = annotation
        if not fields:
            raise TypeError(f"{cls.__name__}: the state has no fields; annotate them in the class, such as `x: operant.Float`")
        for method in ("reset", "step", "observe"):
            if not callable(getattr(cls, method, None)):
                raise TypeError(f"{cls.__name__}: the method {method} is missing")
        self.fields = fields
        self.state: type[State] = type("State", (State,), {"_fields": fields})

    def _setting(self, world: Any, name: str) -> Any:
        value = self._own[name]
        return getattr(world, name, None) if value is None else value

    def record(self, world: Any) -> bytes:
        """The text of a file: the rules of an object of the class, recorded."""
        where = self._cls.__name__
        spaces = []
        for name in ("observation_space", "action_space"):
            space = self._setting(world, name)
            if space is None:
                raise TypeError(f"{where}: {name} is missing; give it to @operant.world, or as an attribute")
            spaces.append(space)
        obs, actions = _obs_space(spaces[0], f"{where}: observation_space"), _action_space(spaces[1], f"{where}: action_space")
        limit = self._setting(world, "max_episode_steps")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or not 1 <= limit < _NO_LIMIT):
            raise ValueError(f"{where}: max_episode_steps: expected a whole number from 1 to {_NO_LIMIT - 1}, got {limit!r}")
        spec = {**self._spec, "obs": obs, "actions": actions, "time_limit": _NO_LIMIT if limit is None else int(limit)}
        if self._preset is not None:
            spec["preset"] = self._preset if isinstance(self._preset, str) else _toml(self._preset)
        functions = {
            "reset": self._function(lambda recorder: self._reset(world, recorder)),
            "step": self._function(lambda recorder: self._step(world, recorder, actions)),
            "observe": self._function(lambda recorder: self._observe(world, recorder, obs)),
        }
        if callable(getattr(world, "legal", None)):
            functions["legal"] = self._function(lambda recorder: self._legal(world, recorder, actions))
        if callable(getattr(world, "draw", None)):
            outlines: list[Any] = []
            numbers = self._function(lambda recorder: self._draw(world, recorder, outlines))
            low, high = self._view
            drawing = {"low": list(map(float, low)), "high": list(map(float, high)), "shapes": outlines}
            functions["draw"] = json.dumps(drawing)[:-1] + f', "numbers": {numbers}}}'
        head = {"operant_world": _VERSION, "spec": spec, "state": list(self._leaves())}
        body = "".join(f', "{name}": {text}' for name, text in functions.items())
        return (json.dumps(head)[:-1] + body + "}").encode()

    def _leaves(self) -> Iterator[dict[str, str]]:
        for name, field in self.fields.items():
            names = [name] if field.size is None else [f"{name}[{k}]" for k in range(field.size)]
            yield from ({"name": leaf, "kind": field.kind} for leaf in names)

    def _function(self, rule: Callable[[_core.Recorder], list[tuple[str, _core.Arg]]]) -> str:
        recorder = _core.Recorder()
        _trace._current.append(recorder)
        try:
            return recorder.finish(rule(recorder))
        finally:
            _trace._current.pop()

    def _given_state(self, recorder: _core.Recorder) -> State:
        """The state as parameters."""
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            if field.size is None:
                values[name] = Value(recorder, field.kind, recorder.parameter(f"state.{name}", field.kind))
            elif _trace.is_memory(field.kind, field.size):
                memory = recorder.parameter(f"state.{name}", field.kind, field.size)
                values[name] = Array(recorder, field.kind, None, (memory, field.size))
            else:
                leaves = [recorder.parameter(f"state.{name}[{k}]", field.kind) for k in range(field.size)]
                values[name] = Array(recorder, field.kind, [Value(recorder, field.kind, leaf) for leaf in leaves])
        return self.state(**values)

    def _returned_state(self, state: Any, method: str) -> list[tuple[str, _core.Arg]]:
        """The state as results."""
        if isinstance(state, Mapping):
            state = self.state(**state)
        if not isinstance(state, self.state):
            fail_in(self._cls, method, f"returns {state!r}; it returns a state: self.State({', '.join(f'{n}=..' for n in self.fields)})")
        results = []
        for name in self.fields:
            value = getattr(state, name)
            if isinstance(value, Value):
                results.append((f"next.{name}", value._arg))
            elif value._items is None:
                results.append((f"next.{name}", value._memory))
            else:
                results.extend((f"next.{name}[{k}]", item._arg) for k, item in enumerate(value._items))
        return results

    def _reset(self, world: Any, recorder: _core.Recorder) -> list[tuple[str, _core.Arg]]:
        return self._returned_state(world.reset(Draws(recorder, recorder.draws())), "reset")

    def _step(self, world: Any, recorder: _core.Recorder, actions: dict[str, Any]) -> list[tuple[str, _core.Arg]]:
        state = self._given_state(recorder)
        kind, size = ("uint", len(actions["discrete"])) if "discrete" in actions else ("float", len(actions["box"]["low"]))
        components = [Value(recorder, kind, recorder.parameter(f"action[{k}]", kind)) for k in range(size)]
        action: Any = components[0] if kind == "uint" and size == 1 and not actions.get("several") else components
        returned = world.step(state, action, Draws(recorder, recorder.draws()))
        if not isinstance(returned, tuple) or len(returned) != 3:
            fail_in(self._cls, "step", f"returns {returned!r}; it returns a state, the reward and whether the episode terminated")
        after, reward, terminated = returned
        results = self._returned_state(after, "step")
        results.append(("reward", _checked(self._cls, "step", "the reward", recorder, reward, "float")))
        results.append(("terminated", _checked(self._cls, "step", "whether it terminated", recorder, terminated, "mask")))
        return results

    def _observe(self, world: Any, recorder: _core.Recorder, space: dict[str, Any]) -> list[tuple[str, _core.Arg]]:
        observed = world.observe(self._given_state(recorder))
        parts = space["parts"] if "parts" in space else [(None, space)]
        as_words = not all("box" in part for _, part in parts)
        words: list[_core.Arg] = []
        if "parts" in space and (not isinstance(observed, Mapping) or set(observed) != {name for name, _ in parts}):
            keys = ", ".join(str(name) for name, _ in parts)
            fail_in(self._cls, "observe", f"returns {observed!r}; for this Dict it returns a dictionary with {keys}")
        for name, part in parts:
            values = observed if name is None else observed[name]
            label = "the observation" if name is None else f"the observation's {name}"
            words.extend(_obs_words(self._cls, label, recorder, part, values, as_words))
        return [(f"obs[{k}]", word) for k, word in enumerate(words)]

    def _legal(self, world: Any, recorder: _core.Recorder, actions: dict[str, Any]) -> list[tuple[str, _core.Arg]]:
        if "discrete" not in actions:
            fail_in(self._cls, "legal", "is for Discrete and MultiDiscrete actions")
        masks = flattened(world.legal(self._given_state(recorder)))
        count = sum(actions["discrete"])
        if len(masks) != count:
            fail_in(self._cls, "legal", f"returns {len(masks)} values; there are {count} choices")
        return [(f"legal[{k}]", _checked(self._cls, "legal", f"choice {k}", recorder, mask, "mask")) for k, mask in enumerate(masks)]

    def _draw(self, world: Any, recorder: _core.Recorder, outlines: list[Any]) -> list[tuple[str, _core.Arg]]:
        shapes = world.draw(self._given_state(recorder))
        numbers = []
        for shape in shapes:
            if not isinstance(shape, Shape):
                fail_in(self._cls, "draw", f"returns {shape!r}; it returns a list of operant.shapes")
            outlines.append(shape.outline)
            is_there = as_value(recorder, shape.where, "mask")
            numbers.append(_trace.select(is_there, 1.0, 0.0))
            for number in shape.coordinates:
                if isinstance(number, Value) and number.kind in ("uint", "int"):
                    number = number._apply("FloatFromUint" if number.kind == "uint" else "FloatFromInt", "float")
                numbers.append(as_value(recorder, number, "float"))
        return [(f"draw[{k}]", number._arg) for k, number in enumerate(numbers)]


def fail_in(cls: type, method: str, what: str) -> Any:
    """Raises a TraceError at a method."""
    code = inspect.unwrap(getattr(cls, method)).__code__
    raise _trace.TraceError(f"{code.co_filename}:{code.co_firstlineno}: {method} {what}") from None


def _checked(cls: type, method: str, label: str, recorder: _core.Recorder, value: Any, kind: str) -> _core.Arg:
    """A value that a method returned."""
    if isinstance(value, int) and not isinstance(value, bool) and kind == "float":
        value = float(value)
    try:
        return as_value(recorder, value, kind)._arg
    except _trace.TraceError as error:
        fail_in(cls, method, f"returns for {label} {value!r}: {str(error).split(': ', 1)[1]}")


def _obs_words(cls: type, label: str, recorder: _core.Recorder, space: dict[str, Any], values: Any, as_words: bool) -> list[_core.Arg]:
    """The words of an observation, or of a part."""
    (kind, of) = next(iter(space.items()))
    size = len(of["low"]) if kind == "box" else math.prod(of["shape"])
    below = [] if kind != "index" else [of["below"][k % len(of["below"])] for k in range(size)]
    per_word = {"box": 1, "binary": 32, "bytes": 4}.get(kind, 4 if all(bound <= 256 for bound in below) else 2)
    if isinstance(values, Packed):
        if kind == "box":
            fail_in(cls, "observe", f"returns {label} packed; real numbers are not packed")
        count = -(-size // per_word)
        if len(values.words) != count:
            fail_in(cls, "observe", f"returns {label} in {len(values.words)} words; it has {count}")
        return [_checked(cls, "observe", label, recorder, word, "uint") for word in values.words]
    numbers = flattened(values)
    if len(numbers) != size:
        fail_in(cls, "observe", f"returns {len(numbers)} numbers for {label}; its space has {size}")
    if kind == "box":
        args = [_checked(cls, "observe", label, recorder, number, "float") for number in numbers]
        return [recorder.scalar("FloatToBits", [arg]) for arg in args] if as_words else args
    bits = 32 // per_word
    words = []
    for first in range(0, size, per_word):
        word: Any = None
        for k, number in enumerate(numbers[first : first + per_word]):
            if kind == "binary":
                is_set = Value(recorder, "mask", _checked(cls, "observe", label, recorder, number, "mask"))
                item = _trace.select(is_set, 1 << k, 0)
            else:
                item = Value(recorder, "uint", _checked(cls, "observe", label, recorder, number, "uint")) << bits * k
            word = item if word is None else word | item
        words.append(word._arg)
    return words


def _box_bounds(space: Any) -> dict[str, Any]:
    def number(bound: Any) -> float | str:
        # The shortest decimal of its precision: 4.8 for the float32 next to it.
        return float(str(bound)) if math.isfinite(bound) else "inf" if bound > 0 else "-inf"

    return {name: [number(bound) for bound in getattr(space, name).reshape(-1)] for name in ("low", "high")}


def _obs_space(space: Any, where: str) -> dict[str, Any]:
    """A space of Gymnasium as the engine has it."""
    kind = type(space).__name__
    if kind == "Dict":
        return {"parts": [[name, _obs_space(part, f"{where}, {name}")] for name, part in space.spaces.items()]}
    if kind == "Discrete":
        if space.start != 0:
            raise ValueError(f"{where}: a Discrete space starts at 0 here, this one at {space.start}")
        return {"index": {"shape": [], "below": [int(space.n)]}}
    if kind == "MultiDiscrete":
        if np.any(np.asarray(getattr(space, "start", 0)) != 0):
            raise ValueError(f"{where}: a MultiDiscrete space starts at 0 here")
        return {"index": {"shape": list(space.nvec.shape), "below": [int(n) for n in space.nvec.reshape(-1)]}}
    if kind == "MultiBinary":
        return {"binary": {"shape": list(space.shape)}}
    if kind == "Box":
        shape = list(space.shape)
        if space.dtype == np.bool_ or (space.dtype == np.uint8 and np.all(space.high == 1) and np.all(space.low == 0)):
            return {"binary": {"shape": shape}}
        if np.issubdtype(space.dtype, np.floating):
            return {"box": _box_bounds(space)}
        if np.all(space.low == 0):
            if space.dtype == np.uint8 and np.all(space.high == 255):
                return {"bytes": {"shape": shape}}
            return {"index": {"shape": shape, "below": [int(high) + 1 for high in space.high.reshape(-1)]}}
        raise ValueError(f"{where}: a Box of {space.dtype} starts at 0 here")
    raise TypeError(f"{where}: expected a Box, Discrete, MultiDiscrete, MultiBinary or Dict of Gymnasium, got {space!r}")


def _action_space(space: Any, where: str) -> dict[str, Any]:
    kind = type(space).__name__
    if kind == "Discrete" and space.start == 0:
        return {"discrete": [int(space.n)]}
    if kind == "MultiDiscrete" and not np.any(np.asarray(getattr(space, "start", 0)) != 0):
        return {"discrete": [int(n) for n in space.nvec.reshape(-1)]}
    if kind == "Box" and np.issubdtype(space.dtype, np.floating):
        return {"box": _box_bounds(space)}
    raise TypeError(f"{where}: expected a Discrete or MultiDiscrete space from 0, or a Box of floats, got {space!r}")


def _toml(settings: Mapping[str, Any]) -> str:
    """Settings as TOML."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, str):
            return json.dumps(value)
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, float):
            return repr(value) if "e" not in repr(value) or "." in repr(value) else repr(value).replace("e", ".0e")
        return str(value)

    lines = [f"{key} = {text(value)}\n" for key, value in settings.items() if not isinstance(value, Mapping)]
    tables = [f"\n[{key}]\n{_toml(value)}" for key, value in settings.items() if isinstance(value, Mapping)]
    return "".join([*lines, *tables])
