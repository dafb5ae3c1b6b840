"""Gymnasium environments for the engine: their names, their construction, and the conversion of their spaces."""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from operant import _translate

# Steps after which an episode of an environment without its own limit is truncated: an evaluation plays whole episodes.
UNLIMITED = 10_000

# Seconds that an environment has to close.
CLOSING = 2.0

# Bytes below this are more likely categories than brightnesses.
FEW_BYTES = 32

# The largest index that the engine has a feature for.
MOST_CHOICES = 1 << 16

Words = NDArray[np.uint32]


class Parsed(NamedTuple):
    """A name such as `gym:LunarLander-v3?continuous=true`."""

    target: str
    arguments: dict[str, Any]
    preset: str | None


def parse(name: str) -> Parsed:
    """Splits a name into what makes the environment, its keyword arguments, and the preprocessing."""
    target, _, query = name.partition("?")
    arguments: dict[str, Any] = {}
    for key, value in parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)):
        arguments[key] = argument(value)
    preset = arguments.pop("preset", None)
    if preset not in (None, "atari"):
        raise ValueError(f"unknown preset {preset}; available: atari")
    return Parsed(target, arguments, preset)


def argument(text: str) -> Any:
    """The value of an argument: JSON, or else a text as it is."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_gym(name: str) -> bool:
    """Whether a name is a Gymnasium id."""
    return name.startswith("gym:")


def make(name: str, *, evaluation: bool = False) -> Any:
    """The environment of a name, with the preprocessing of its preset."""
    import gymnasium

    target, arguments, preset = parse(name)
    if is_gym(target):
        id = target.removeprefix("gym:")
        def maker(**arguments: Any) -> Any:
            try:
                return gymnasium.make(_registered(id), **arguments)
            except (gymnasium.error.NameNotFound, gymnasium.error.NamespaceNotFound) as error:
                raise ValueError(
                    f"{error} Worker processes do not run your script: for an environment that a module registers, write gym:MODULE:{id}, or "
                    "give its class, or a function at the top of a module that makes it"
                ) from None

    else:
        from operant import _record

        maker = _record.object_named(target)
    if preset == "atari":
        from operant import _atari

        return _atari.make(maker, arguments, evaluation)
    return maker(**arguments)


def _registered(id: str) -> str:
    """The id. Packages that register environments with Gymnasium only when they are imported are imported."""
    import gymnasium

    namespace = id.partition("/")[0] if "/" in id else ""
    if namespace == "ALE" or re.search(r"(NoFrameskip|Deterministic)-v[04]$", id):
        import ale_py

        # Its banner for each environment.
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        if id not in gymnasium.registry:
            gymnasium.register_envs(ale_py)
    return id


class Part(NamedTuple):
    """One array of an observation: its position in the environment's value, and its conversion to words."""

    path: tuple[Any, ...]
    space: Any
    name: str
    # The engine's space, as it is written in files.
    spec: dict[str, Any]
    words: int
    # Writes a value into the words of the part.
    write: Callable[[Any, Words], None]


def parts(space: Any) -> list[Part]:
    """The arrays of an observation, in order. Nested dictionaries and tuples are flattened: their names are joined by `_`."""
    from gymnasium import spaces

    found: list[Part] = []

    def visit(space: Any, path: tuple[Any, ...]) -> None:
        if isinstance(space, spaces.Dict):
            for key, inner in space.items():
                visit(inner, (*path, key))
        elif isinstance(space, spaces.Tuple):
            for index, inner in enumerate(space.spaces):
                visit(inner, (*path, index))
        else:
            found.append(_part(space, path))

    visit(space, ())
    if not found:
        raise ValueError(f"observation_space: {space} has no arrays")
    if isinstance(space, spaces.Dict) and "action_mask" in space.spaces:
        raise ValueError('observation_space: an action mask is no observation; return it as info["action_mask"]')
    # Keys that differ in other characters only.
    names: set[str] = set()
    for k, part in enumerate(found):
        others = (f"{part.name}_{number}" for number in range(2, len(found) + 2))
        name = part.name if part.name not in names else next(other for other in others if other not in names)
        names.add(name)
        found[k] = part._replace(name=name)
    return found


def own_space(space: Any, where: str, *, is_action: bool = False) -> dict[str, Any]:
    """The environment's own space, as `_translate` has it."""
    from gymnasium import spaces

    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        items = list(space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces))
        for key, _ in items:
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise ValueError(f"{where}: the key {key!r} is neither a text nor a whole number")
        inner = [own_space(one, f"{where}[{key!r}]", is_action=is_action) for key, one in items]
        if isinstance(space, spaces.Tuple):
            return {"type": "Tuple", "spaces": inner}
        return {"type": "Dict", "spaces": [[key, one] for (key, _), one in zip(items, inner, strict=True)]}
    shape = list(space.shape or ())
    size = int(np.prod(shape, dtype=np.int64))
    of: dict[str, Any] = {"type": next(name for name in _ARRAYS if isinstance(space, getattr(spaces, name)))}
    of |= {"shape": shape, "dtype": str(np.dtype(space.dtype))}
    if of["type"] in ("Discrete", "MultiDiscrete"):
        of["n"] = np.ravel(space.n if of["type"] == "Discrete" else space.nvec).astype(np.int64).tolist()
        start = np.broadcast_to(getattr(space, "start", 0), shape).ravel().astype(np.int64).tolist()
        if any(start):
            of["start"] = start
    elif of["type"] == "MultiBinary" and is_action:
        of["n"] = [2] * size
    elif is_action:
        of |= {name: [_bound(x) for x in np.ravel(getattr(space, name)).astype(np.float64)] for name in ("low", "high")}
    return of


#: The spaces of arrays, the more special ones first.
_ARRAYS = ("Discrete", "MultiDiscrete", "MultiBinary", "Box")


def obs_spec(parts: Sequence[Part]) -> dict[str, Any]:
    """The engine's observation space."""
    if len(parts) == 1 and not parts[0].path:
        return parts[0].spec
    return {"parts": [[part.name, part.spec] for part in parts]}


def _part(space: Any, path: tuple[Any, ...]) -> Part:
    from gymnasium import spaces

    name = "_".join(re.sub(r"[^A-Za-z0-9_]", "_", str(key)) for key in path)
    shape = tuple(getattr(space, "shape", None) or ())
    where = f"observation_space{''.join(f'[{key!r}]' for key in path)}"
    if isinstance(space, spaces.Box):
        if space.dtype == np.uint8 and bool(np.all(space.low == 0)) and bool(np.all(space.high == 1)) or space.dtype == np.bool_:
            return _bits(space, path, name, shape)
        if space.dtype == np.uint8 and len(shape) > 0:
            size = int(np.prod(shape))
            return Part(path, space, name, {"bytes": {"shape": list(shape)}}, -(-size // 4), _write_bytes(where, shape, size))
        low, high = (np.broadcast_to(bound, shape).astype(np.float64).ravel() for bound in (space.low, space.high))
        if low.size == 0:
            raise ValueError(f"{where}: {space} has no numbers")
        spec = {"box": {"low": [_bound(x) for x in low], "high": [_bound(x) for x in high]}}
        return Part(path, space, name, spec, low.size, _write_floats(where, shape, low.size))
    if isinstance(space, spaces.Discrete):
        return _indices(space, path, name, where, (), np.asarray([int(space.n)]), np.asarray(int(space.start)))
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = np.asarray(space.nvec), np.asarray(getattr(space, "start", 0))
        return _indices(space, path, name, where, shape, nvec.ravel(), np.broadcast_to(start, shape))
    if isinstance(space, spaces.MultiBinary):
        return _bits(space, path, name, shape)
    raise ValueError(
        f"{where}: {type(space).__name__} is not supported; supported: Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple "
        "of these: wrap the environment in gymnasium.wrappers.TransformObservation"
    )


def _bound(bound: float) -> float | str:
    return float(bound) if np.isfinite(bound) else "inf" if bound > 0 else "-inf"


def _checked(where: str, value: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(value)
    if array.shape != shape:
        raise ValueError(f"{where} has the shape {shape}, but an observation had the shape {array.shape}")
    return array


def _write_floats(where: str, shape: tuple[int, ...], size: int) -> Callable[[Any, Words], None]:
    def write(value: Any, words: Words) -> None:
        array = _checked(where, value, shape)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{where}: an observation had elements of type {array.dtype}")
        words.view(np.float32)[:] = array.reshape(size)

    return write


def _write_bytes(where: str, shape: tuple[int, ...], size: int) -> Callable[[Any, Words], None]:
    def write(value: Any, words: Words) -> None:
        array = _checked(where, value, shape)
        if array.dtype != np.uint8:
            if array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
                raise ValueError(f"{where}: an observation had elements of type {array.dtype} that are not bytes")
            array = array.astype(np.uint8)
        words.view(np.uint8)[:size] = array.reshape(size)

    return write


def _bits(space: Any, path: tuple[Any, ...], name: str, shape: tuple[int, ...]) -> Part:
    where = f"observation_space{''.join(f'[{key!r}]' for key in path)}"
    size = int(np.prod(shape))
    if size == 0:
        raise ValueError(f"{where}: {space} has no numbers")

    def write(value: Any, words: Words) -> None:
        bits = _checked(where, value, shape).reshape(size)
        if bits.dtype != np.bool_ and ((bits != 0) & (bits != 1)).any():
            raise ValueError(f"{where}: an observation had elements from {bits.min()} to {bits.max()}, not 0 and 1")
        packed = np.packbits(bits.astype(bool), bitorder="little")
        words.view(np.uint8)[: packed.size] = packed

    return Part(path, space, name, {"binary": {"shape": list(shape)}}, -(-size // 32), write)


def _indices(
    space: Any, path: tuple[Any, ...], name: str, where: str, shape: tuple[int, ...], below: NDArray[Any], start: NDArray[Any]
) -> Part:
    if below.size == 0 or below.max() > MOST_CHOICES:
        raise ValueError(f"{where}: {space} has more than {MOST_CHOICES} values of an index; wrap the environment so that it has fewer")
    kind: Any = np.uint8 if below.max() <= 256 else np.uint16
    per_word = 4 // np.dtype(kind).itemsize
    size = below.size

    def write(value: Any, words: Words) -> None:
        indices = (_checked(where, value, shape) - start).reshape(size)
        if indices.dtype.kind not in "iu":
            raise TypeError(f"{where}: an observation had elements of type {indices.dtype}, not whole numbers")
        if (indices < 0).any() or (indices >= below).any():
            raise ValueError(f"{where}: the observation {value} is not in {space}")
        words.view(kind)[:size] = indices

    bounds = [int(below[0])] if (below == below[0]).all() else [int(bound) for bound in below]
    return Part(path, space, name, {"index": {"shape": list(shape), "below": bounds}}, -(-size // per_word), write)


class Actions(NamedTuple):
    """An action space in the engine's terms."""

    spec: dict[str, Any]
    components: int
    # The environment's action, from the engine's numbers.
    read: Callable[[NDArray[np.float32]], Any]
    # Choices of each component; empty for real numbers.
    choices: list[int]
    # The environment's number of the first choice of each component.
    starts: list[int]


def actions(space: Any, where: str = "action_space") -> Actions:
    """Converts the engine's actions to the environment's."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        kind: Any = np.dtype(space.dtype).type
        return _discrete([int(space.n)], lambda numbers: kind(int(numbers[0]) + start), where, [start])
    if isinstance(space, spaces.MultiDiscrete):
        shape, first = space.shape, np.asarray(getattr(space, "start", 0))
        read = lambda numbers: numbers.astype(space.dtype).reshape(shape) + first.astype(space.dtype)  # noqa: E731
        starts = [int(start) for start in np.broadcast_to(first, shape).ravel()]
        return _discrete([int(n) for n in np.asarray(space.nvec).ravel()], read, where, starts)
    if isinstance(space, spaces.MultiBinary):
        shape = tuple(space.shape)
        size = int(np.prod(shape))
        return _discrete([2] * size, lambda numbers: numbers.astype(space.dtype).reshape(shape), where, [0] * size)
    if isinstance(space, spaces.Box):
        if space.dtype is not None and space.dtype.kind != "f":
            raise ValueError(f"{where}: {space} has a Box of integers, which is not supported; use Discrete or MultiDiscrete")
        low, high = (np.broadcast_to(bound, space.shape).astype(np.float64).ravel() for bound in (space.low, space.high))
        spec = {"box": {"low": [_bound(x) for x in low], "high": [_bound(x) for x in high]}}
        if space.dtype == np.float32:
            return Actions(spec, low.size, lambda numbers: numbers.reshape(space.shape).copy(), [], [])

        def read_box(numbers: NDArray[np.float32]) -> Any:
            # A bound rounded to single precision may be outside the space.
            return np.asarray(np.clip(numbers.astype(space.dtype).reshape(space.shape), space.low, space.high))

        return Actions(spec, low.size, read_box, [], [])
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return _composed(space, where)
    raise ValueError(
        f"{where}: {type(space).__name__} is not supported; supported: Box, Discrete, MultiDiscrete, MultiBinary, and Dict and Tuple of these"
    )


def _discrete(
    choices: list[int], read: Callable[[NDArray[np.float32]], Any], where: str, starts: list[int]
) -> Actions:
    if not choices:
        raise ValueError(f"{where}: an action has no components")
    return Actions({"discrete": choices}, len(choices), read, choices, starts)


def _composed(space: Any, where: str) -> Actions:
    from gymnasium import spaces

    is_dict = isinstance(space, spaces.Dict)
    keys = list(space.spaces) if is_dict else list(range(len(space.spaces)))
    inner = [actions(space[key], f"{where}[{key!r}]") for key in keys]
    if not inner:
        raise ValueError(f"{where}: {space} has no actions")
    ends = np.cumsum([one.components for one in inner]).tolist()
    starts = [0, *ends[:-1]]

    def read(numbers: NDArray[np.float32]) -> Any:
        values = [one.read(numbers[first:end]) for one, first, end in zip(inner, starts, ends, strict=True)]
        return dict(zip(keys, values, strict=True)) if is_dict else tuple(values)

    kinds = {"discrete" if one.choices else "box" for one in inner}
    if kinds == {"discrete"}:
        choices = [n for one in inner for n in one.choices]
        return Actions({"discrete": choices}, len(choices), read, choices, [n for one in inner for n in one.starts])
    if kinds == {"box"}:
        low, high = ([x for one in inner for x in one.spec["box"][bound]] for bound in ("low", "high"))
        return Actions({"box": {"low": low, "high": high}}, len(low), read, [], [])
    raise ValueError(f"{where}: {space} mixes discrete and continuous actions; a policy has one kind")


def mask_of(env: Any, info: Any) -> Any:
    """The legal actions as the environment names them: `info["action_mask"]`, or `action_masks()` as in sb3-contrib; or None."""
    if isinstance(info, dict) and info.get("action_mask") is not None:
        return info["action_mask"]
    while env is not None:
        method = getattr(env, "action_masks", None)
        if callable(method):
            return method()
        # From wrapper to wrapper inwards.
        env = getattr(env, "env", None)
    return None


class Contradiction(ValueError):
    """The environment does what its first reset said it would not, so that a new worker process cannot help."""


def mask_words(mask: Any, space: dict[str, Any], words: Words) -> None:
    """Packs the legal choices of all components of an action space, one after the other."""
    legal = _translate.legal_choices(space, mask)
    if legal.ndim == 2:
        if len(legal) != 1:
            raise ValueError(f"the action mask has {len(legal)} rows; one environment has one mask")
        legal = legal[0]
    packed = np.packbits(legal, bitorder="little")
    words[:] = 0
    words.view(np.uint8)[: packed.size] = packed


def own_spaces(env: Any) -> dict[str, Any]:
    """The environment's own spaces."""
    return {
        "observation": own_space(env.observation_space, "observation_space"),
        "action": own_space(env.action_space, "action_space", is_action=True),
    }


def describe(name: str, maker: Callable[[], Any] | None = None) -> tuple[dict[str, Any], list[str]]:
    """The environment's description for the engine, and notes for the user. Makes the environment once, and resets it. `maker` makes one that
    only this process has; its name is that of its id or class."""
    from operant import _core

    target, _, preset = parse(name)
    directory = os.getcwd()
    if target.rpartition(":")[0].endswith(".py"):
        path, _, attribute = target.rpartition(":")
        name = f"{os.path.abspath(path)}:{attribute}{name[len(target) :]}"
    env = make(name) if maker is None else maker()
    try:
        _check_interface(env)
        if maker is not None:
            target = name = f"here:{_own_id(env)}"
        obs, acts = parts(env.observation_space), actions(env.action_space)
        spaces = own_spaces(env)
        mask = mask_of(env, reset(env, 0)[1]) if acts.choices else None
        if mask is not None:
            _translate.legal_choices(spaces["action"], mask)
        own_limit, notes = _limit(env), [note for part in obs for note in _note(part)]
        limit = own_limit or UNLIMITED
        if own_limit is None:
            notes.append(f"{target} has no time limit; the default is {limit} steps (option env.max_episode_steps)")
        id = target.removeprefix("gym:") if is_gym(target) else target.rpartition(":")[2]
        spec = {
            "name": _name(id, _core),
            "summary": f"Gymnasium environment {id}",
            "obs": obs_spec(obs),
            "actions": acts.spec,
            "time_limit": limit,
        }
    finally:
        closer = threading.Thread(target=_close, args=(env,), daemon=True)
        closer.start()
        closer.join(CLOSING)
    description = {
        "operant_gym": 1,
        "make": name,
        "directory": directory,
        "masked": mask is not None,
        "starts": acts.starts,
        "limited": own_limit is not None,
        "spaces": spaces,
        "atari": preset == "atari",
        "spec": spec,
    }
    return description, notes


def _own_id(env: Any) -> str:
    """The id of an environment that a function made, or its class."""
    spec = getattr(env, "spec", None)
    return str(spec.id) if spec is not None else type(getattr(env, "unwrapped", env)).__name__


#: What environments of gym before 0.26 have to change.
PORT = "port it from the package gym to Gymnasium: https://gymnasium.farama.org/introduction/migration_guide"


def _check_interface(env: Any) -> None:
    """Refuses what has another interface than Gymnasium's environments."""
    import gymnasium

    name = type(env).__name__
    is_env = isinstance(env, gymnasium.Env)
    if (hasattr(env, "possible_agents") and not is_env) or callable(getattr(env, "observation_space", None)):
        raise ValueError(
            f"{name} has several agents (as in PettingZoo), and operant trains one: wrap {name} in a gymnasium.Env for one agent"
        )
    if hasattr(env, "single_observation_space") and not is_env:
        raise ValueError(f"{name} is a vector environment; pass the class or function that makes a single environment")
    for attribute in ("observation_space", "action_space", "reset", "step"):
        if getattr(env, attribute, None) is None:
            raise ValueError(f"{name} has no {attribute}: it is not a Gymnasium environment")
    for attribute in ("observation_space", "action_space"):
        space = type(getattr(env, attribute))
        if space.__module__.partition(".")[0] == "gym":
            raise ValueError(f"{attribute}: {space.__name__} is of the package gym; {PORT}")


def reset(env: Any, seed: int | None) -> tuple[Any, Any]:
    """The first observation of an episode and its info."""
    try:
        result = env.reset(seed=seed) if seed is not None else env.reset()
    except TypeError as error:
        if "unexpected keyword argument 'seed'" not in str(error):
            raise
        raise ValueError(f"{error}: write reset(self, *, seed=None, options=None), or {PORT}") from error
    if not isinstance(result, tuple) or len(result) != 2:
        raise ValueError(f"reset() returned {type(result).__name__}, not (observation, info); {PORT}")
    return result


def _note(part: Part) -> Iterator[str]:
    """What a user may not expect of how the policy sees a part."""
    most = int(part.space.high.max(initial=0)) if "bytes" in part.spec else 255
    if most < FEW_BYTES:
        where = f"observation_space{''.join(f'[{key!r}]' for key in part.path)}"
        yield f"{where}: numbers from 0 to {most} of type uint8 are divided by 255; a MultiDiscrete space one-hot encodes them"


def _close(env: Any) -> None:
    # Its error would hide the one before it.
    with contextlib.suppress(Exception):
        env.close()


def _name(id: str, core: Any) -> str:
    """The environment's name in the engine: `lunarlander_v3`."""
    name = re.sub(r"[^a-z0-9]+", "_", id.lower()).strip("_") or "environment"
    taken = {spec["name"] for spec in core.specs()}
    return f"gym_{name}" if name in taken else name


def _limit(env: Any) -> int | None:
    """Steps after which an environment truncates its episodes."""
    spec = getattr(env, "spec", None)
    of_env = getattr(env, "max_episode_steps", None) or getattr(getattr(env, "unwrapped", env), "max_episode_steps", None)
    limit = getattr(spec, "max_episode_steps", None) or of_env
    return int(limit) if isinstance(limit, (int, np.integer)) and not isinstance(limit, bool) and limit > 0 else None


def import_from(directory: str) -> None:
    """From now on modules are also searched in the directory in which the environment was named: last, so that a file there cannot replace
    a package of this Python."""
    sys.path.append(directory)
