"""Random actions for many environments, drawn beforehand, so that a peer does not pay for sampling."""

from typing import Any

import numpy as np

BATCHES = 16


def random_actions(space: Any, num_envs: int) -> np.ndarray:
    """Actions of one environment's space, Discrete or Box, in the shape (BATCHES, num_envs, ...)."""
    generator = np.random.default_rng(0)
    if hasattr(space, "n"):
        return generator.integers(0, space.n, (BATCHES, num_envs))
    size = (BATCHES, num_envs, *space.shape)
    return generator.uniform(space.low, space.high, size).astype(space.dtype)
