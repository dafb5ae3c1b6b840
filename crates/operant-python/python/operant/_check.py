"""Checks of an environment's rules by random play."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete

from operant._vector import VectorEnv
from operant._world import World


def check_world(
    id: str | World | type, *, num_envs: int = 64, steps: int = 1000, seed: int = 0, **options: Any
) -> None:
    """Plays uniformly random legal actions and checks what the environment returns: that rewards are finite, observations lie in
    their space, and some action is legal. Recording checks how a world's rules are written; this checks what they compute.

    Args:
        id: As of `make_vec`.
        num_envs: Environments that play.
        steps: Steps of each.
        seed: Of the environments and of the actions.
        **options: The environment's own options.

    Raises:
        RuntimeError: The first fault, with the environment, the step, the seed, the action and the state before it.
    """
    rng = np.random.default_rng(seed)
    envs = VectorEnv(id, num_envs, seed=seed, check=True, **options)
    try:
        _, info = envs.reset()
        for _ in range(steps):
            mask = info.get("action_mask")
            actions = envs._random_actions(rng, 1)[0] if mask is None else _legal(envs.single_action_space, mask, rng)
            *_, info = envs.step(actions)
    finally:
        envs.close()


def _legal(space: Any, mask: np.ndarray[Any, np.dtype[np.int8]], rng: np.random.Generator) -> Any:
    """A legal choice of each component, uniformly."""
    scores = np.where(mask == 1, rng.random(mask.shape), -1.0)
    if isinstance(space, Discrete):
        return scores.argmax(1)
    assert isinstance(space, MultiDiscrete)
    parts = np.split(scores, np.cumsum(space.nvec)[:-1], axis=1)
    return np.stack([part.argmax(1) for part in parts], 1)
