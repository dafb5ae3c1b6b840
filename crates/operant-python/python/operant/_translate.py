"""Between an environment's own observations, actions and masks, and the flat arrays of the engine.

A space is described as runs and exported files hold it: `{"type": "Discrete", "shape": [], "dtype": "int64", "n": [6], "start": [1]}`, and so on
for the other spaces of Gymnasium; a Dict has `spaces`, pairs of a key and a space, and a Tuple a list of them. The engine has the arrays in
this order, each flat, with whole numbers from 0 on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Space = dict[str, Any]
Array = NDArray[Any]


def spaces_of(metadata: dict[str, Any]) -> tuple[Space, Space]:
    """The spaces of observations and actions of a policy with these metadata: the environment's own, or else the engine's."""
    if metadata.get("spaces"):
        return metadata["spaces"]["observation"], metadata["spaces"]["action"]
    parts = [{"type": "Box", "shape": part["shape"], "dtype": "float32"} for part in metadata["observation"]]
    names = [part.get("name") for part in metadata["observation"]]
    obs = parts[0] if names == [None] else {"type": "Dict", "spaces": list(zip(names, parts, strict=True))}
    sizes = metadata["action_sizes"]
    if metadata["action_type"] == "continuous":
        return obs, {"type": "Box", "shape": sizes, "dtype": "float32"}
    shape, kind = ([], "Discrete") if len(sizes) == 1 else ([len(sizes)], "MultiDiscrete")
    return obs, {"type": kind, "shape": shape, "dtype": "int64", "n": sizes}


def keys_of(space: Space) -> list[Any] | None:
    """The keys of a Dict or the positions of a Tuple; None for an array."""
    if space["type"] == "Dict":
        return [key for key, _ in space["spaces"]]
    return list(range(len(space["spaces"]))) if space["type"] == "Tuple" else None


def spaces_in(space: Space) -> list[Space]:
    """The spaces in a Dict or Tuple."""
    return [inner for _, inner in space["spaces"]] if space["type"] == "Dict" else list(space["spaces"])


def arrays_of(space: Space) -> list[Space]:
    """The spaces of all arrays, in order."""
    if keys_of(space) is None:
        return [space]
    return [array for inner in spaces_in(space) for array in arrays_of(inner)]


def taken_apart(space: Space, value: Any, label: str) -> Iterator[Any]:
    """The values of all arrays, in order.

    Raises:
        TypeError, ValueError: The value is not a dictionary or a tuple like the space.
    """
    keys = keys_of(space)
    if keys is None:
        yield value
        return
    is_dict = space["type"] == "Dict"
    if is_dict:
        names = ", ".join(map(str, keys))
        if not isinstance(value, Mapping):
            raise TypeError(f"{label}: expected a dictionary of {names}, got {type(value).__name__}")
        if set(value) != set(keys):
            raise ValueError(f"{label}: expected a dictionary of {names}, got {', '.join(map(str, value))}")
    elif not isinstance(value, (tuple, list)):
        raise TypeError(f"{label}: expected a tuple of {len(keys)}, got {type(value).__name__}")
    elif len(value) != len(keys):
        raise ValueError(f"{label}: expected a tuple of {len(keys)}, got one of {len(value)}")
    for key, inner in zip(keys, spaces_in(space), strict=True):
        yield from taken_apart(inner, value[key], f"{label}[{key!r}]")


def put_together(space: Space, values: Iterator[Any]) -> Any:
    """The inverse of `taken_apart`."""
    keys = keys_of(space)
    if keys is None:
        return next(values)
    inner = [put_together(one, values) for one in spaces_in(space)]
    return dict(zip(keys, inner, strict=True)) if space["type"] == "Dict" else tuple(inner)


def size_of(space: Space) -> int:
    """How many numbers an array has."""
    return int(np.prod(space["shape"], dtype=np.int64))


def bounds_of(space: Space) -> tuple[Array, Array]:
    """Least and greatest values of an array of actions."""
    low, high = (np.array(space[name], np.float64).astype(space["dtype"]).reshape(space["shape"]) for name in ("low", "high"))
    return low, high


def own_actions(space: Space, numbers: Array) -> Any:
    """Actions as the environment takes them, from the engine's numbers `(N, components)`."""
    first, values = 0, []
    for array in arrays_of(space):
        end = first + size_of(array)
        own = numbers[:, first:end]
        if array.get("start"):
            own = own + np.array(array["start"], np.int64)
        own = own.astype(array["dtype"]).reshape(len(numbers), *array["shape"])
        if array["type"] == "Box" and own.dtype != np.float32:
            # A bound rounded to single precision may be outside the space.
            own = np.clip(own, *bounds_of(array)).astype(own.dtype)
        values.append(own)
        first = end
    return put_together(space, iter(values))


def engine_actions(space: Space, actions: Any, count: int) -> NDArray[np.float32]:
    """The inverse of `own_actions`, flat.

    Raises:
        TypeError, ValueError: The actions are not `count` of the space.
    """
    columns = []
    for array, value in zip(arrays_of(space), taken_apart(space, actions, "actions"), strict=True):
        given, size = np.asarray(value), size_of(array)
        if given.shape != (count, *array["shape"]) and given.shape != (count, size):
            raise ValueError(f"actions: expected shape {(count, *array['shape'])}, got {given.shape}")
        given = given.reshape(count, size)
        if array["type"] != "Box":
            if given.dtype.kind not in "iub":
                raise TypeError(f"actions: expected whole numbers, got {given.dtype}")
            given = given.astype(np.int64) - np.array(array.get("start") or 0, np.int64).reshape(-1)
            is_wrong = (given < 0) | (given >= np.array(array["n"], np.int64).reshape(-1))
        else:
            given = given.astype(np.float32)
            is_wrong = ~np.isfinite(given)
        if is_wrong.any():
            row, component = np.argwhere(is_wrong)[0].tolist()
            raise ValueError(f"actions: row {row} has {np.asarray(value).reshape(count, size)[row, component]}, which is not in the space")
        columns.append(given.astype(np.float32))
    return np.concatenate(columns, axis=1).reshape(-1)


def row_of(space: Space, actions: Any, row: int) -> Any:
    """One of several actions: an index is a number of NumPy, any other one an array."""
    arrays = zip(arrays_of(space), taken_apart(space, actions, "actions"), strict=True)
    return put_together(space, (array[row] if one["type"] == "Discrete" else np.asarray(array[row]) for one, array in arrays))


def legal_choices(space: Space, mask: Any) -> NDArray[np.bool_]:
    """The legal choices of all components of an action one after the other, `(choices,)` or `(N, choices)`, from a mask as the environment gives it.

    Raises:
        ValueError: The mask has another shape, other values than 0 and 1, or a component without a legal choice.
    """
    legal = np.concatenate(list(_arrays_of_mask(space, mask, "")), axis=-1)
    counts = [n for array in arrays_of(space) for n in array["n"]]
    legal_of_each = np.add.reduceat(legal, np.cumsum([0, *counts[:-1]]), axis=-1, dtype=np.intp)
    if not legal_of_each.all():
        *row, component = np.argwhere(legal_of_each == 0)[0].tolist()
        where = (f" of component {component}" if len(counts) > 1 else "") + (f" in row {row[0]}" if row else "")
        raise ValueError(f"the action mask allows no action{where}: let at least one be legal, or end the episode there")
    return legal


def _arrays_of_mask(space: Space, mask: Any, label: str) -> Iterator[NDArray[np.bool_]]:
    """The masks of components or of several together, in order."""
    keys = keys_of(space)
    counts = [n for array in arrays_of(space) for n in array["n"]]
    is_list = isinstance(mask, (list, tuple))
    if keys is not None and (isinstance(mask, Mapping) or is_list and len(mask) == len(keys) and _has_arrays(mask)):
        for key, inner in zip(keys, spaces_in(space), strict=True):
            if isinstance(mask, Mapping) and key not in mask:
                raise ValueError(f"the action mask{label} has nothing for {key!r}")
            yield from _arrays_of_mask(inner, mask[key], f"{label}[{key!r}]")
    elif is_list and len(mask) == len(counts) and len(counts) > 1 and _has_arrays(mask):
        yield from (_legal(one, n, [n], f"{label} of component {k}") for k, (one, n) in enumerate(zip(mask, counts, strict=True)))
    else:
        yield _legal(mask, sum(counts), counts, label)


def _has_arrays(mask: Sequence[Any]) -> bool:
    return any(isinstance(one, Mapping) or np.ndim(one) > 0 for one in mask)


def _legal(mask: Any, size: int, counts: list[int], label: str) -> NDArray[np.bool_]:
    try:
        array = np.asarray(mask)
    except ValueError:
        raise ValueError(f"the action mask{label} has rows of different lengths; expected ({size},)") from None
    if array.size == size and len(counts) == 1 and array.shape[-1:] != (size,):
        # Such as a board.
        array = array.reshape(size)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        several = (
            f": the choices of the components ({' + '.join(map(str, counts))}) one after the other, or a list with an array for each; "
            "a mask of combinations cannot be used"
        )
        raise ValueError(f"the action mask{label} has the shape {array.shape}; expected ({size},){several if len(counts) > 1 else ''}")
    if array.dtype != np.bool_ and ((array != 0) & (array != 1)).any():
        other = array[(array != 0) & (array != 1)].flat[0]
        raise ValueError(
            f"the action mask{label} contains {other}; it is 1 where a choice is legal and 0 elsewhere. "
            "Of a mask that is added to logits, give mask == 0"
        )
    return array.astype(np.bool_)
