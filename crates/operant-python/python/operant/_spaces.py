"""Gymnasium's spaces for the engine's specifications."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces


def observation_space(spec: dict[str, Any]) -> spaces.Box:
    """The space of one observation: float32 numbers, or bool for bits."""
    kind, *rest = spec["obs"]
    if kind == "binary":
        bits: Any = np.bool_
        return spaces.Box(0, 1, tuple(rest[0]), bits)
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
