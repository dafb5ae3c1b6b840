"""One environment, with Gymnasium's interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from operant._vector import RENDER_MODES, Obs, VectorEnv
from operant._world import World

Array = NDArray[Any]


class Env(gymnasium.Env[Obs, Any]):
    """One environment; see `make`."""

    metadata: dict[str, Any] = {"render_modes": RENDER_MODES}

    def __init__(
        self, id: str | World | type, *, seed: int | None = None, vector: VectorEnv | None = None, **options: Any
    ) -> None:
        self._vector = vector or VectorEnv(
            id, 1, threads=1, seed=seed, autoreset_mode="disabled", copy=False, episode_stats=False, **options
        )
        self.metadata = {"render_modes": RENDER_MODES, "render_fps": self._vector.metadata["render_fps"]}
        self.render_mode = self._vector.render_mode
        self.observation_space = self._vector.single_observation_space
        self.action_space = self._vector.single_action_space
        self._is_discrete = isinstance(self.action_space, gymnasium.spaces.Discrete)
        # Both sets of outputs are the same here, because the results are copied.
        arrays, buffers = self._vector._sets[0]
        self._core, self._buffers = self._vector._core, buffers
        self._obs, self._mask = _reader(self._vector._obs(arrays)), arrays["mask"][0]
        self._rewards, self._terminated, self._truncated = arrays["rewards"], arrays["terminated"], arrays["truncated"]
        self._has_mask = self._vector._choices > 0
        self._is_reset = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Obs, dict[str, Any]]:
        """Starts an episode; the same seed starts the same one."""
        if options:
            raise ValueError(f"options: expected none, got {', '.join(map(str, options))}")
        super().reset(seed=seed)
        self._vector._turn = 1  # so that set 0 is next
        self._vector.reset(seed=seed)
        self._is_reset = True
        return self._obs(), self._info()

    def step(self, action: Any) -> tuple[Obs, float, bool, bool, dict[str, Any]]:
        """Steps once: observation, reward, terminated, truncated, info."""
        if not self._is_reset:
            self._vector._check_usable()
            raise ResetNeeded("expected reset before the first step")
        if self._is_discrete:
            try:
                self._core.step_one(action, self._buffers)
            except TypeError:
                raise TypeError(f"action: expected a whole number, got {action!r}; nothing was stepped") from None
        else:
            self._core.step(np.asarray(action)[None], self._buffers)
        return (
            self._obs(),
            self._rewards.item(),
            self._terminated.item(),
            self._truncated.item(),
            self._info(),
        )

    def render(self) -> NDArray[np.uint8] | None:
        """A picture of the state, uint8 `(height, width, 3)`, as a film of `operant play --record` shows it; None without `render_mode`."""
        if self.render_mode is None:
            return None
        if not self._is_reset:
            self._vector._check_usable()
            raise ResetNeeded("expected reset before the first picture")
        return self._core.render(0)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._vector, self._is_reset, self._np_random)

    def close(self) -> None:
        """Frees the environment."""
        if not self._vector.closed:
            self._is_reset = False
            del self._core
            self._vector.close()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self._mask.copy()} if self._has_mask else {}


def _reader(obs: Obs) -> Callable[[], Obs]:
    """Copies the first observation of these arrays, at each call."""
    if isinstance(obs, dict):
        parts = {name: _reader(array) for name, array in obs.items()}
        return lambda: {name: read() for name, read in parts.items()}
    # A single index is a number, of which there is no view.
    read: Callable[[], Obs] = obs[0].copy if obs.ndim > 1 else lambda: obs[0]
    return read


def _unpickled(vector: VectorEnv, is_reset: bool, rng: np.random.Generator | None) -> Env:
    env = Env(vector._kind(), vector=vector)
    env._is_reset, env._np_random = is_reset, rng
    return env


def make(
    id: str | World | type,
    *,
    seed: int | None = None,
    max_episode_steps: int | None = None,
    render_mode: Literal["rgb_array"] | None = None,
    **options: float | str,
) -> Env:
    """One environment: a `gymnasium.Env`.

    Args:
        id: "CartPole-v1", "cartpole" or "operant/CartPole-v1"; `operant.envs.names()` lists them. Or a world: a class with
            `@operant.world`, or what `operant.load_world` returns.
        seed: Seed of the first reset; random for none.
        max_episode_steps: Steps after which an episode is truncated: None for the environment's own limit, -1 for no limit.
        render_mode: "rgb_array" for `render` and Gymnasium's `RecordVideo`.
        **options: The environment's own options: numbers, words or paths.

    Raises:
        ValueError: There is no such environment or option, or a value is out of range.
    """
    own: dict[str, Any] = dict(options)
    return Env(id, seed=seed, max_episode_steps=max_episode_steps, render_mode=render_mode, **own)


def _registered(name: str, **kwargs: Any) -> Env:
    """The entry point of `gymnasium.make`. Its TimeLimit wrapper truncates, at `max_episode_steps` of the id or of the caller."""
    return make(name, max_episode_steps=-1, **kwargs)


# From the modes Gymnasium makes "human" and "rgb_array_list".
_registered.metadata = Env.metadata  # type: ignore[attr-defined]
