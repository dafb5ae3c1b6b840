"""Gymnasium's spaces for the engine's specifications."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces


def observation_space(spec: dict[str, Any]) -> spaces.Space[Any]:
    """The space of one observation."""
    return _space(spec["obs"])


def _space(obs: tuple[Any, ...]) -> spaces.Space[Any]:
    """float32 for real numbers, bool for bits, uint8 for bytes, and for indices Discrete, MultiDiscrete or a box of small integers."""
    kind, *rest = obs
    if kind == "parts":
        return spaces.Dict({name: _space(part) for name, part in rest[0]})
    if kind == "index":
        shape, below, name = rest
        if not shape:
            return spaces.Discrete(below[0])
        # The bounds repeat over the indices.
        bounds = np.resize(np.array(below, np.int64), math.prod(shape)).reshape(shape)
        if name == "int64":
            return spaces.MultiDiscrete(bounds)
        dtype: Any = np.dtype(name)
        return spaces.Box(np.zeros(shape, dtype), (bounds - 1).astype(dtype), dtype=dtype)
    if kind in ("binary", "bytes"):
        most, dtype = (1, np.bool_) if kind == "binary" else (255, np.uint8)
        return spaces.Box(0, most, tuple(rest[0]), dtype)
    low, high = (np.array(bound, np.float32) for bound in rest)
    return spaces.Box(low, high, dtype=np.float32)


def action_space(spec: dict[str, Any]) -> spaces.Discrete | spaces.MultiDiscrete | spaces.Box:
    """The space of one action."""
    kind, *rest = spec["actions"]
    if kind == "discrete":
        choices = rest[0]
        return spaces.Discrete(choices[0]) if len(choices) == 1 else spaces.MultiDiscrete(choices)
    low, high = (np.array(bound, np.float32) for bound in rest)
    return spaces.Box(low, high, dtype=np.float32)
