"""Worlds: environments whose rules are written in Python, recorded once, and run without Python."""

from __future__ import annotations

import contextlib
import copy
import inspect
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from operant import _arrays, _core, _outside, _trace
from operant._arrays import Array, FieldType, Packed, flattened
from operant._draws import Draws
from operant._trace import Natural, TraceError, Value, as_value, fail, recording
from operant.math import to_float
from operant.shapes import Shape

#: The version of files.
_VERSION = 1
#: The longest time limit.
_MOST_STEPS = 2**32 - 3
#: The most players of a game.
_MOST_PLAYERS = 8
#: What worlds and fields are called.
_NAME = re.compile("[a-z][a-z0-9_]{0,63}")


def world(
    cls: type | None = None,
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
    ahead: bool = False,
    players: int = 1,
    hidden: bool = False,
    simultaneous: bool = False,
) -> Any:
    """Turns a class into a world: an environment whose rules are recorded once, then stepped in bulk on CPUs and GPUs.

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

    The annotated fields are the state: `operant.Float`, `Uint`, `Int` and `Bool`, arrays of them such as `operant.Uint[4]` and
    `operant.Float[4, 5]`, and arrays of bytes such as `operant.Byte[400]`.
    The class has these methods, and `self.State(field=value, ...)` makes a state:

    - `reset(self, draws)` returns the initial state of an episode.
    - `step(self, s, action, draws)` returns the state after a step, the reward (a Float) and whether the episode terminated (a Bool).
      `action` is an Int from 0 on for Discrete, a list of such Ints for MultiDiscrete, and a list of Floats for Box.
    - `observe(self, s)` returns the numbers of the observation, in the space's order; for a Dict, a dictionary of them. A whole number
      above the bounds of its space is clipped to the largest allowed value.
    - `legal(self, s)`, if choices can be illegal, returns a Bool for every choice.
    - `metrics(self, s, reward, terminated)`, if the world measures episodes, returns a dictionary of up to 32 numbers of an episode that
      ended with this state and reward, such as `{"success": terminated}`. Their means over episodes are metrics of the run. A list of
      names, after all numbers, stands for the score of those rates: exp(mean of ln(1 + rate in percent)) - 1, as in Crafter.
    - `draw(self, s)`, for `operant play` and the monitor, returns a list of `operant.shapes`.

    The methods run once, on values that stand for the numbers of every environment (`operant.math` has their functions), and must not
    depend on them: there is no `if` on a value, but `operant.math.where`. A TraceError names the line that does.

    Args:
        name: The environment's name; by default the class's in snake_case.
        observation_space: A Gymnasium space: Box of float32, which becomes flat, MultiBinary or Box of bool, Discrete, MultiDiscrete,
            Box of uint8, or a Dict of these. The class may have it as an attribute instead, as it may the next two.
        action_space: Discrete, MultiDiscrete or Box.
        max_episode_steps: Steps after which an episode is truncated. Required, because an evaluation plays whole episodes.
        summary: One line for lists; by default the first line of the class's documentation.
        action_names: Names of the actions; `operant play` maps the arrow keys to those named left, right, up and down.
        obs_names: What the numbers of an observation mean.
        view: Lower left and upper right corner of what `draw` shows.
        fps: Playback speed, in steps per second.
        preset: Default training settings, as keywords of `operant.train` or as TOML.
        ahead: Makes the first states of the next episodes ahead of time, many at once. This pays if `reset` takes as long as dozens of
            steps; it takes the memory of a second state, and changes which random numbers a reset draws.
        players: 2 to 8 make it a game of two sides (docs/two-players.md), with a field `player: operant.Uint`, the number of the player to move.
            Observations, legal choices and actions are those of that player, and rewards those of players 0, 2, ...
        hidden: Whether the players of a game see different things, such as their own cards: searches do not play it then.
        simultaneous: Whether the players choose at once: they still move in turn, the state keeps what they chose, which the others do not see, and the game goes on
            with the last player's choice. Searches do not play it, and `operant.pettingzoo.parallel_env` takes all choices of a step together.
    """
    if cls is None:
        given = {key: value for key, value in locals().items() if key != "cls"}
        return lambda cls: world(cls, **given)
    if not isinstance(cls, type):
        raise TypeError(f"operant.world decorates a class, not {cls!r}; write @operant.world(...) above `class`")
    if not (math.isfinite(fps) and fps > 0):
        raise ValueError(f"{cls.__name__}: fps: expected a number above 0, got {fps!r}")
    first_line = (inspect.getdoc(cls) or "").strip().split("\n")[0].rstrip(".")
    spec = {
        "name": name or re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", cls.__name__).lower(),
        "summary": " ".join((summary or first_line or cls.__name__).split()),
        "obs_names": list(obs_names),
        "action_names": list(action_names),
        "fps": float(fps),
    }
    if isinstance(players, bool) or not isinstance(players, int) or not 1 <= players <= _MOST_PLAYERS:
        raise ValueError(f"{cls.__name__}: players: expected 1 to {_MOST_PLAYERS}, got {players!r}")
    of_game = {"hidden": hidden, "simultaneous": simultaneous}
    for key, value in of_game.items():
        if not isinstance(value, bool) or (value and players == 1):
            raise ValueError(f"{cls.__name__}: {key}: expected True or False of a game with players, got {value!r}")
    if players > 1:
        spec |= {"players": players, **of_game}
    own = {"observation_space": observation_space, "action_space": action_space, "max_episode_steps": max_episode_steps}
    for attribute in ("save", "emit", "State"):
        present = vars(cls).get(attribute)
        is_ours = isinstance(present, _OfClass) or (isinstance(present, type) and issubclass(present, State))
        if present is not None and not is_ours:
            raise TypeError(f"{cls.__name__}: @operant.world adds {attribute} to the class; rename your {attribute}")
    cls._operant = _Declaration(cls, spec, own, view, preset, ahead)  # type: ignore[attr-defined]
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

    def __init__(self, content: bytes, *, is_file: bool = True) -> None:
        self._core = _core.World(content, is_file=is_file)
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
    text = _core.read_world(os.fspath(path))
    try:
        return World(text)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def save(world: Any, path: str | os.PathLike[str]) -> None:
    """Records the world and writes it to a file, for `operant train ./FILE`."""
    _core.write_output(os.fspath(path), recorded(world).content)


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


def recorded(env: Any, name: str | None = None) -> World:
    """The world of a class with `@operant.world`, of an object of it, or itself; a class or an object may get another name."""
    if isinstance(env, World):
        return env
    declaration = getattr(env, "_operant", None)
    if declaration is None:
        raise TypeError(f"a world is expected: a class with @operant.world, or what operant.load_world returns; got {env!r}")
    if name is not None:
        declaration = copy.copy(declaration)
        declaration._spec = {**declaration._spec, "name": name}
    instance = env() if isinstance(env, type) else env
    content = declaration.record(instance)
    try:
        return World(content, is_file=False)
    except ValueError as error:
        raise ValueError(f"{type(instance).__name__}: {error}") from None


def registered(env: Any) -> _core.World:
    """The engine's object for a world. This also registers the world by its name in this process."""
    world = recorded(env)
    _core.add_world(world._core)
    return world._core


class State:
    """The state of a world: its fields are attributes. Each world has its own class, `self.State`."""

    _fields: dict[str, FieldType]

    def __init__(self, /, **values: Any) -> None:
        missing = [name for name in self._fields if name not in values]
        if missing:
            fail(f"the state has no {', '.join(missing)}; give every field: State({', '.join(f'{name}=..' for name in self._fields)})")
        for name, value in values.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if field is None:
            fail(f"the state has no field {name}; it has {', '.join(self._fields)}. Annotate it in the class: `{name}: operant.Float`")
        # Assigned inside a rule, it belongs to that rule.
        if field.shape is None:
            value = Value(field.kind, as_value(value, field.kind).arg)
        else:
            value = Array.of(field.kind, field.shape, value).here()
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fail(f"the state has no field {name}; it has {', '.join(self._fields)}")

    def replace(self, **changes: Any) -> State:
        """A copy with other values of some fields."""
        return type(self)(**{**{name: getattr(self, name) for name in self._fields}, **changes})

    def copy(self) -> State:
        """A copy; assigning to one of them does not change the other."""
        return self.replace()

    def __repr__(self) -> str:
        return f"State({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


_KINDS = (_arrays.Float, _arrays.Uint, _arrays.Int, _arrays.Bool)


def _fields(cls: type) -> dict[str, FieldType]:
    """The annotated fields of a class and its bases."""
    fields: dict[str, FieldType] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in inspect.get_annotations(base, eval_str=True).items():
            if annotation is _arrays.Byte:
                raise TypeError(f"{cls.__name__}: {name}: use an array of bytes, such as operant.Byte[400], or operant.Uint for one number")
            if annotation in _KINDS:
                fields[name] = FieldType(annotation.kind)
            elif isinstance(annotation, FieldType):
                fields[name] = annotation
    return fields


class _Declaration:
    """The description of a world from its class."""

    def __init__(self, cls: type, spec: dict[str, Any], own: dict[str, Any], view: Any, preset: Any, ahead: bool) -> None:
        self._cls, self._spec, self._own, self._view, self._preset = cls, spec, own, view, preset
        self._head = {"ahead": True} if ahead else {}
        fields = _fields(cls)
        if not fields:
            raise TypeError(f"{cls.__name__}: the state has no fields; annotate them in the class, such as `x: operant.Float`")
        for name in fields:
            if not _NAME.fullmatch(name) or name in ("copy", "replace"):
                raise ValueError(
                    f"{cls.__name__}: a field cannot be called {name}; names have a-z, 0-9 and _, and copy and replace are methods"
                )
        if not _NAME.fullmatch(spec["name"]):
            raise ValueError(
                f"{cls.__name__}: name: expected a-z, 0-9 and _, starting with a letter, at most 64 of them, got {spec['name']!r}"
            )
        for method in ("reset", "step", "observe"):
            if not callable(getattr(cls, method, None)):
                raise TypeError(f"{cls.__name__}: the method {method} is missing")
        self.fields = fields
        self.state: type[State] = type("State", (State,), {"_fields": fields})

    def _setting(self, world: Any, name: str) -> Any:
        value = self._own[name]
        return getattr(world, name, None) if value is None else value

    def record(self, world: Any) -> bytes:
        """The text of a file: the rules of an object of the class, recorded twice to find numbers that are not the same each time."""
        with _outside.ONE_AT_A_TIME:
            script = _outside.Script()
            content = self._recorded(world, script, _outside.refused)
            script.compare()
            with _outside.other_chance():
                if self._recorded(world, script) != content:
                    fail_in(type(world), "step", f"or another rule: {_outside.UNSTEADY}; they {_outside.DRAWN}")
        return content

    def _recorded(
        self, world: Any, script: _outside.Script, watch: _outside.Watch = lambda *_: contextlib.nullcontext()
    ) -> bytes:
        cls = type(world)
        added = [name for name in _fields(cls) if name not in self.fields]
        if added:
            raise TypeError(f"{cls.__name__}: the class adds the field {added[0]} to {self._cls.__name__}; put @operant.world above it, too")
        spaces = []
        for name in ("observation_space", "action_space"):
            space = self._setting(world, name)
            if space is None:
                raise TypeError(f"{cls.__name__}: {name} is missing; give it to @operant.world, or as an attribute")
            spaces.append(space)
        obs, actions = (
            _obs_space(spaces[0], f"{cls.__name__}: observation_space"),
            _action_space(spaces[1], f"{cls.__name__}: action_space"),
        )
        limit = self._setting(world, "max_episode_steps")
        if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or not 1 <= limit <= _MOST_STEPS:
            raise ValueError(
                f"{cls.__name__}: max_episode_steps: expected a whole number from 1 to {_MOST_STEPS}, got {limit!r}; "
                "evaluations play whole episodes, so each has to end"
            )
        spec = {**self._spec, "obs": obs, "actions": actions, "time_limit": int(limit)}
        if self._preset is not None:
            spec["preset"] = self._preset if isinstance(self._preset, str) else _toml(self._preset)
        is_several = type(spaces[1]).__name__ == "MultiDiscrete"

        def function(method: str, rule: Callable[[_core.Recorder], _Results]) -> str:
            with watch(world, method), _trace.begin(script) as recording:
                return recording.core.finish(rule(recording.core))

        functions = {
            "reset": function("reset", lambda recorder: self._reset(world, recorder)),
            "step": function("step", lambda recorder: self._step(world, recorder, actions, is_several)),
            "observe": function("observe", lambda recorder: self._observe(world, recorder, obs)),
        }
        if callable(getattr(world, "legal", None)):
            functions["legal"] = function("legal", lambda recorder: self._legal(world, recorder, actions))
        if callable(getattr(world, "metrics", None)):
            metrics: list[dict[str, Any]] = []
            functions["metrics"] = function("metrics", lambda recorder: self._metrics(world, recorder, metrics))
            spec["metrics"] = metrics
        if callable(getattr(world, "draw", None)):
            outlines: list[Any] = []
            numbers = function("draw", lambda recorder: self._draw(world, recorder, outlines))
            low, high = self._view
            drawing = {"low": list(map(float, low)), "high": list(map(float, high)), "shapes": outlines}
            functions["draw"] = json.dumps(drawing)[:-1] + f', "numbers": {numbers}}}'
        head = {"operant_world": _VERSION, "spec": spec, "state": list(self._leaves()), **self._head}
        body = "".join(f', "{name}": {text}' for name, text in functions.items())
        return (json.dumps(head)[:-1] + body + "}").encode()

    def _leaves(self) -> Iterator[dict[str, str]]:
        for name, field in self.fields.items():
            names = [name] if field.shape is None else [f"{name}[{k}]" for k in range(field.words)]
            # A memory has words, the bits of other numbers.
            yield from ({"name": leaf, "kind": "uint" if field.is_memory else field.kind} for leaf in names)

    def _given_state(self, recorder: _core.Recorder) -> State:
        """The state as parameters."""
        values: dict[str, Any] = {}
        for name, field in self.fields.items():
            if field.shape is None:
                values[name] = Value(field.kind, recorder.parameter(f"state.{name}", field.kind))
            elif field.is_memory:
                values[name] = Array(field.kind, field.shape, memory=recorder.parameter(f"state.{name}", "uint", field.words))
            else:
                leaves = (recorder.parameter(f"state.{name}[{k}]", field.kind) for k in range(field.words))
                values[name] = Array.from_args(field.kind, field.shape, leaves)
        return self.state(**values)

    def _returned_state(self, cls: type, method: str, state: Any) -> _Results:
        """The state as results."""
        if isinstance(state, Mapping):
            state = self.state(**state)
        if not isinstance(state, self.state):
            fail_in(cls, method, f"returns {state!r}; it returns a state: self.State({', '.join(f'{n}=..' for n in self.fields)})")
        results: _Results = []
        for name, field in self.fields.items():
            value = getattr(state, name)
            try:
                args = value.args if isinstance(value, Array) else [value.arg]
            except TraceError as error:
                fail_in(cls, method, f"returns a state whose {name} cannot be used here: {error.what}")
            is_one = field.shape is None or field.is_memory
            results.extend((f"next.{name}" if is_one else f"next.{name}[{k}]", arg) for k, arg in enumerate(args))
        return results

    def _reset(self, world: Any, recorder: _core.Recorder) -> _Results:
        return self._returned_state(type(world), "reset", _called(world, "reset", Draws(recorder.draws(), is_reserved=False)))

    def _step(self, world: Any, recorder: _core.Recorder, actions: dict[str, Any], is_several: bool) -> _Results:
        state = self._given_state(recorder)
        kind, size = ("uint", len(actions["discrete"])) if "discrete" in actions else ("float", len(actions["box"]["low"]))
        components: list[Value] = [Value(kind, recorder.parameter(f"action[{k}]", kind)) for k in range(size)]
        if kind == "uint":
            # A difference of actions can be negative.
            components = [Natural(action, choices) for action, choices in zip(components, actions["discrete"], strict=True)]
        action: Any = components if is_several or kind == "float" else components[0]
        returned = _called(world, "step", state, action, Draws(recorder.draws(), is_reserved=False))
        cls = type(world)
        if not isinstance(returned, tuple) or len(returned) != 3:
            fail_in(cls, "step", f"returns {returned!r}; it returns a state, the reward and whether the episode terminated")
        after, reward, terminated = returned
        results = self._returned_state(cls, "step", after)
        results.append(("reward", _checked(cls, "step", "the reward", reward, "float")))
        results.append(("terminated", _checked(cls, "step", "terminated", terminated, "mask")))
        return results

    def _observe(self, world: Any, recorder: _core.Recorder, space: dict[str, Any]) -> _Results:
        cls, observed = type(world), _called(world, "observe", self._given_state(recorder))
        parts = space.get("parts", [(None, space)])
        as_words = not all("box" in part for _, part in parts)
        words: list[_core.Arg] = []
        if "parts" in space and (not isinstance(observed, Mapping) or set(observed) != {name for name, _ in parts}):
            keys = ", ".join(str(name) for name, _ in parts)
            fail_in(cls, "observe", f"returns {observed!r}; for this Dict it returns a dictionary with {keys}")
        for name, part in parts:
            values = observed if name is None else observed[name]
            label = "the observation" if name is None else f"the observation's {name}"
            words.extend(_obs_words(cls, label, part, values, as_words))
        return [(f"obs[{k}]", word) for k, word in enumerate(words)]

    def _legal(self, world: Any, recorder: _core.Recorder, actions: dict[str, Any]) -> _Results:
        cls = type(world)
        if "discrete" not in actions:
            fail_in(cls, "legal", "is for Discrete and MultiDiscrete actions")
        masks = _flattened(cls, "legal", "", _called(world, "legal", self._given_state(recorder)))
        count = sum(actions["discrete"])
        if len(masks) != count:
            fail_in(cls, "legal", f"returns {len(masks)} values; there are {count} choices")
        return [(f"legal[{k}]", _checked(cls, "legal", f"choice {k}", mask, "mask")) for k, mask in enumerate(masks)]

    def _metrics(self, world: Any, recorder: _core.Recorder, metrics: list[dict[str, Any]]) -> _Results:
        cls = type(world)
        reward = Value("float", recorder.parameter("reward", "float"))
        terminated = Value("mask", recorder.parameter("terminated", "mask"))
        measured = _called(world, "metrics", self._given_state(recorder), reward, terminated)
        if not isinstance(measured, Mapping) or not measured or not all(isinstance(name, str) for name in measured):
            fail_in(cls, "metrics", f'returns {measured!r}; it returns a dictionary of numbers, such as {{"success": ..}}')
        numbers = []
        for name, value in measured.items():
            if isinstance(value, list):
                metrics.append({"name": name, "help": f"Score of the rates of {', '.join(map(str, value))}.", "score_of": value})
                continue
            metrics.append({"name": name})
            number = to_float(value) if isinstance(value, Value) else value
            numbers.append(_checked(cls, "metrics", name, number, "float"))
        return [(f"metrics[{k}]", number) for k, number in enumerate(numbers)]

    def _draw(self, world: Any, recorder: _core.Recorder, outlines: list[Any]) -> _Results:
        cls, shapes = type(world), _called(world, "draw", self._given_state(recorder))
        if not isinstance(shapes, (list, tuple)) or not all(isinstance(shape, Shape) for shape in shapes):
            fail_in(cls, "draw", f"returns {shapes!r}; it returns a list of operant.shapes")
        numbers: list[_core.Arg] = []
        for shape in shapes:
            outlines.append(shape.outline)
            is_there = Value("mask", _checked(cls, "draw", "the `where` of a shape", shape.where, "mask"))
            numbers.append(_trace.select(is_there, 1.0, 0.0).arg)
            numbers.extend(_checked(cls, "draw", "a coordinate", number, "float") for number in shape.coordinates)
        return [(f"draw[{k}]", number) for k, number in enumerate(numbers)]


# The parameters of rules.
_PARAMETERS = {
    "reset": "self, draws",
    "step": "self, s, action, draws",
    "observe": "self, s",
    "legal": "self, s",
    "draw": "self, s",
    "metrics": "self, s, reward, terminated",
}


def _called(world: Any, method: str, *arguments: Any) -> Any:
    """What a rule returns."""
    rule = getattr(world, method)
    try:
        inspect.signature(rule).bind(*arguments)
    except TypeError:
        names = ", ".join(["self", *map(str, inspect.signature(rule).parameters.values())])
        fail_in(type(world), method, f"has the parameters ({names}); declare it as def {method}({_PARAMETERS[method]})")
    return rule(*arguments)


#: Names and values of a function's results.
_Results = list[tuple[str, _core.Arg]]


def fail_in(cls: type, method: str, what: str) -> NoReturn:
    """Raises a TraceError at a method."""
    code = inspect.unwrap(getattr(cls, method)).__code__
    raise TraceError(f"{code.co_filename}:{code.co_firstlineno}", f"{method} {what}") from None


def _checked(cls: type, method: str, label: str, value: Any, kind: str) -> _core.Arg:
    """A value that a method returned."""
    try:
        return as_value(value, kind).arg
    except TraceError as error:
        fail_in(cls, method, f"returns {value!r} for {label}: {error.what}")


def _flattened(cls: type, method: str, label: str, values: Any) -> list[Any]:
    """The numbers that a method returned."""
    try:
        return flattened(values)
    except TraceError as error:
        fail_in(cls, method, f"returns {values!r}{label}: {error.what}")


def _obs_words(cls: type, label: str, space: dict[str, Any], values: Any, as_words: bool) -> list[_core.Arg]:
    """The words of an observation, or of a part."""
    (kind, of) = next(iter(space.items()))
    size = len(of["low"]) if kind == "box" else math.prod(of["shape"])
    below = [] if kind != "index" else [of["below"][k % len(of["below"])] for k in range(size)]
    per_word = {"box": 1, "binary": 32, "bytes": 4}.get(kind, 4 if all(bound <= 256 for bound in below) else 2)
    if isinstance(values, Packed):
        if kind == "box":
            fail_in(cls, "observe", f"returns operant.math.packed for {label}; a Box of floats cannot be packed")
        count = -(-size // per_word)
        if len(values.words) != count:
            fail_in(cls, "observe", f"returns {len(values.words)} packed words for {label}; expected {count}")
        packed = [Value("uint", _checked(cls, "observe", label, word, "uint")) for word in values.words]
        if kind != "index" and size % per_word:
            # Values past the end are not inputs of the network.
            packed[-1] = packed[-1] & ((1 << 32 // per_word * (size % per_word)) - 1)
        if kind != "index":
            return [word.arg for word in packed]
        bits = 32 // per_word
        values = [(packed[k // per_word] >> bits * (k % per_word)) & ((1 << bits) - 1) for k in range(size)]
    numbers = _flattened(cls, "observe", f" for {label}", values)
    if len(numbers) != size:
        fail_in(cls, "observe", f"returns {len(numbers)} numbers for {label}; its space has {size}")
    if kind == "box":
        args = [_checked(cls, "observe", label, number, "float") for number in numbers]
        return [recording().core.scalar("FloatToBits", [arg]) for arg in args] if as_words else args
    words = []
    for first in range(0, size, per_word):
        word: Any = None
        for k, number in enumerate(numbers[first : first + per_word]):
            if kind == "binary":
                is_set = Value("mask", _checked(cls, "observe", label, number, "mask"))
                item = _trace.select(is_set, 1 << k, 0)
            else:
                item = Value("uint", _checked(cls, "observe", label, number, "uint"))
                # A larger value would select another input of the network, or overwrite its neighbour's bits.
                most = 255 if kind == "bytes" else below[first + k] - 1
                item = _trace.select(item < most, item, most) << 32 // per_word * k
            word = item if word is None else word | item
        words.append(word.arg)
    return words


def _box_bounds(space: Any) -> dict[str, Any]:
    def number(bound: Any) -> float | str:
        # The shortest decimal of its precision: 4.8 for the float32 next to it.
        return float(str(bound)) if math.isfinite(bound) else "inf" if bound > 0 else "-inf"

    return {name: [number(bound) for bound in getattr(space, name).reshape(-1)] for name in ("low", "high")}


def _obs_space(space: Any, where: str) -> dict[str, Any]:
    """Converts a Gymnasium space to the engine's."""
    kind = type(space).__name__
    if kind == "Dict":
        if any(type(part).__name__ == "Dict" for part in space.spaces.values()):
            raise TypeError(f"{where}: nested Dict spaces are not supported; move the inner parts to the outer Dict")
        return {"parts": [[name, _obs_space(part, f"{where}, {name}")] for name, part in space.spaces.items()]}
    if kind == "Discrete":
        if space.start != 0:
            raise ValueError(f"{where}: a Discrete space must have start=0, got {space.start}")
        return {"index": {"shape": [], "below": [int(space.n)]}}
    if kind == "MultiDiscrete":
        if np.any(np.asarray(getattr(space, "start", 0)) != 0):
            raise ValueError(f"{where}: a MultiDiscrete space must have start=0")
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
        raise ValueError(f"{where}: a Box of {space.dtype} must have low=0")
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
        value = _trace.plain(value)
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, (str, os.PathLike)):
            return json.dumps(os.fspath(value), ensure_ascii=False)
        if isinstance(value, (list, tuple, np.ndarray)):
            return f"[{', '.join(map(text, value))}]"
        if isinstance(value, (int, float)):
            return repr(value)
        raise TypeError(f"preset: expected a number, text or list, got {value!r}")

    lines = [f"{key} = {text(value)}\n" for key, value in settings.items() if not isinstance(value, Mapping)]
    tables = [f"\n[{key}]\n{_toml(value)}" for key, value in settings.items() if isinstance(value, Mapping)]
    return "".join([*lines, *tables])
