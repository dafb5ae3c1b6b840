"""Environments for Stable-Baselines3: `PPO("MlpPolicy", operant.sb3.VecEnv("CartPole-v1", num_envs=8))`."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from operant._vector import Obs, VectorEnv, rows_of

try:
    from stable_baselines3.common.monitor import Monitor  # type: ignore[import-not-found]
    from stable_baselines3.common.vec_env import VecEnv as Sb3VecEnv  # type: ignore[import-not-found]
except ImportError as error:
    raise ImportError(f"operant.sb3 needs Stable-Baselines3 (pip install stable-baselines3): {error}") from error


class VecEnv(Sb3VecEnv):  # type: ignore[misc]
    """N environments of one kind: a `stable_baselines3.common.vec_env.VecEnv`.

    Where an episode ends, `infos` has `terminal_observation`, `TimeLimit.truncated` and `episode` as of SB3's `Monitor`, so
    neither `Monitor` nor `VecMonitor` is needed.

    Args:
        id: "CartPole-v1", "cartpole" or "operant/CartPole-v1"; `operant.envs.names()` lists them.
        num_envs: N.
        **options: `threads`, `seed`, `max_episode_steps` and `render_mode` as of `operant.make_vec`, and the environment's own options.

    Raises:
        ValueError: There is no such environment or option, or a value is out of range.
    """

    def __init__(self, id: str, num_envs: int = 1, **options: Any) -> None:
        self._envs = VectorEnv(
            id,
            num_envs,
            # As Stable-Baselines3 expects; a caller who gives one of these gets an error.
            autoreset_mode="same_step",
            copy=True,
            reward_dtype=np.float32,
            final_obs="dense",
            episode_stats=True,
            **options,
        )
        self._actions: NDArray[Any] | None = None
        self._started = time.monotonic()
        self._known = {name: getattr(self._envs, name) for name in ("max_episode_steps", "name", "render_mode", "spec")}
        self._known["observation_space"] = self._envs.single_observation_space
        self._known["action_space"] = self._envs.single_action_space
        self.metadata = self._envs.metadata
        super().__init__(self._envs.num_envs, self._known["observation_space"], self._known["action_space"])

    def reset(self) -> Obs:
        """Starts new episodes; after `seed(s)`, environment i plays as `operant.make` does after `reset(seed=s + i)`."""
        if any(self._options):
            raise ValueError("options: expected none, since operant's environments take none at a reset")
        self._actions = None
        seeds = None if None in self._seeds else self._seeds
        obs, _ = self._envs.reset(seed=seeds)
        self._reset_seeds()
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Keeps the actions for `step_wait`."""
        self._actions = actions

    def step_wait(self) -> tuple[Obs, NDArray[Any], NDArray[np.bool_], list[dict[str, Any]]]:
        """Steps every environment: observations, rewards, dones, infos."""
        if self._actions is None:
            raise RuntimeError("step_wait: no step was begun; call step_async first")
        actions, self._actions = self._actions, None
        obs, rewards, terminated, truncated, info = self._envs.step(actions)
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        if "_final_obs" not in info:
            return obs, rewards, terminated, infos
        dones = info["_final_obs"]
        rows = np.flatnonzero(dones)
        elapsed = round(time.monotonic() - self._started, 6)
        ends = zip(
            rows.tolist(),
            rows_of(info["final_obs"], rows),
            (truncated & ~terminated)[rows].tolist(),
            info["episode"]["r"][rows].tolist(),
            info["episode"]["l"][rows].tolist(),
            strict=True,
        )
        for row, final_obs, is_truncated, total, length in ends:
            infos[row] = {
                "terminal_observation": final_obs,
                "TimeLimit.truncated": is_truncated,
                "episode": {"r": total, "l": length, "t": elapsed},
            }
        return obs, rewards, dones, infos

    def get_images(self) -> list[NDArray[np.uint8] | None]:
        """The pictures that `render` and `VecVideoRecorder` show."""
        return list(self._envs.render() or [None] * self.num_envs)

    def close(self) -> None:
        """Frees the environments."""
        self._envs.close()

    def get_attr(self, attr_name: str, indices: None | int | Iterable[int] = None) -> list[Any]:
        """The attribute of each environment, the same for all."""
        if attr_name not in self._known:
            raise AttributeError(f"operant's environments have no attribute {attr_name!r}; they have {', '.join(self._known)}")
        return [self._known[attr_name] for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: None | int | Iterable[int] = None) -> None:
        """Not supported: the rules of an environment are fixed when it is made."""
        raise AttributeError(f"{attr_name!r} cannot be set in operant's environments; give options when you make them")

    def env_method(
        self, method_name: str, *method_args: Any, indices: None | int | Iterable[int] = None, **method_kwargs: Any
    ) -> list[Any]:
        """Not supported: one call steps all environments, and there is no object for a single one."""
        raise AttributeError(f"operant's environments have no method {method_name!r} that is called one by one")

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: None | int | Iterable[int] = None
    ) -> list[bool]:
        """True for `Monitor`, whose `info["episode"]` they write themselves; Stable-Baselines3 queries no other wrapper."""
        return [wrapper_class is Monitor for _ in self._get_indices(indices)]
