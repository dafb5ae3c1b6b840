"""Vector environments on a GPU: observations, rewards and flags remain in its memory, and actions are read from it by DLPack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, overload

from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space

from operant import _core, _spaces
from operant._core import DeviceArray
from operant._register import asked, refuse_others
from operant._vector import AutoresetName, VectorEnv, check_keywords, checked_mode, checked_seed, option_values, reset_mask
from operant._world import World

Step = tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, dict[str, Any]]


class DeviceVectorEnv(GymnasiumVectorEnv[DeviceArray, Any, DeviceArray]):
    """N environments on a GPU that one call steps. `make_vec(..., device="cuda")` makes one.

    `step` takes any array with `__dlpack__` on the same GPU and returns `DeviceArray`s, which any library reads by DLPack or the CUDA
    array interface. It enqueues its work and does not wait. An array is overwritten two calls after the one that returned it.

    Args:
        id: As of `VectorEnv`.
        num_envs: N.
        device: "cuda", or "cuda:1" for another GPU than the driver's first.
        seed: As of `VectorEnv`: environment i plays the same game there.
        autoreset_mode: "same_step", "next_step" or "disabled", as in Gymnasium.
        episode_stats: Whether `info["episode"]` has returns and lengths, which are 0 where no episode ended.
        **options: The environment's own options.

    Attributes:
        num_envs: N.
        device: Such as "cuda:0".
        name: The environment's name, such as "cartpole".

    Raises:
        ValueError: There is no such environment, option or GPU, a value is out of range, or observations are indices, bytes or
            parts, which exist on the CPU only.
        MemoryError: They need more memory than the GPU has free.
    """

    def __init__(
        self,
        id: str | World | type,
        num_envs: int = 1,
        *,
        device: str = "cuda",
        seed: int | None = None,
        autoreset_mode: AutoresetName | AutoresetMode = "same_step",
        episode_stats: bool = True,
        **options: float | str,
    ) -> None:
        mode, mode_name = checked_mode(autoreset_mode)
        seed = checked_seed(seed)
        refuse_others(id)
        if options.pop("render_mode", None) is not None:
            raise ValueError('render_mode: environments on a GPU have no pictures; use device="cpu"')
        if "check" in options:
            raise ValueError('check: environments on a GPU are not checked; use device="cpu"')
        check_keywords(type(self), options)
        self._core = _core.DeviceEnvironments(
            asked(id), num_envs, device=device, autoreset=mode_name, options=option_values(options)
        )
        spec = self._core.spec()
        self.name: str = spec["name"]
        self.num_envs = int(num_envs)
        self.metadata = {"autoreset_mode": mode, "render_modes": []}
        self.single_observation_space = _spaces.observation_space(spec)
        self.single_action_space = _spaces.action_space(spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.device = self._core.device
        self._mode = mode
        self._episode_stats = episode_stats
        self._seed = seed
        self._is_reset = False
        super().reset(seed=seed)  # only for `np_random`

    @property
    def stream(self) -> int:
        """The handle of the CUDA stream that steps."""
        return self._core.stream

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[DeviceArray, dict[str, Any]]:
        """Starts new episodes and returns `(observations, info)`.

        Args:
            seed: One seed for all environments; without one, further episodes begin.
            options: `{"reset_mask": mask}` with a NumPy array of N bools restarts only where it is true.
        """
        self._check_open()
        mask = reset_mask(options, self.num_envs)
        if seed is not None and mask is not None:
            raise ValueError("seed: expected none with a reset_mask on a GPU, since its environments share one seed")
        if seed is not None or not self._is_reset:
            if mask is not None:
                raise ResetNeeded("reset_mask: expected a first reset of all environments, got one of some")
            if seed is not None:
                self._seed = checked_seed(seed)
                super().reset(seed=self._seed)
            arrays = self._core.reseed(self._seed)
        else:
            arrays = self._core.restart(None if mask is None else mask.tolist())
        self._is_reset = True
        return arrays["obs"], _of_state(arrays)

    def step(self, actions: Any) -> Step:
        """Enqueues a step of every environment.

        Args:
            actions: An array on the same GPU: `(N,)` int64 or int32 for one discrete component, `(N, A)` for several, `(N, A)`
                float32 for a box. It must not change before the work that reads the results.

        Returns:
            observations `(N, ...)`, rewards `(N,)`, terminated `(N,)`, truncated `(N,)`, info. In a game of several players
            `info["player"]` has the number of the player to move, `(N,)` int32.

        Raises:
            ValueError: Actions of another device or shape: nothing was stepped. Or an earlier step had an action that its
                environment does not take: the GPU stepped it as 0, which shows two calls later at the latest.
            TypeError: Actions of a wrong dtype, or no array. Nothing was stepped.
        """
        self._check_open()
        if not self._is_reset:
            raise ResetNeeded("expected reset before the first step")
        arrays = self._core.step(actions)
        info = _of_state(arrays)
        episode = {}
        if self._episode_stats:
            of_episodes = {"r": arrays["returns"], "l": arrays["lengths"]}
            episode = {"episode": of_episodes, "_episode": arrays["ended"]}
            info.update(episode)
        if self._mode is AutoresetMode.SAME_STEP:
            info["final_obs"], info["_final_obs"] = arrays["final_obs"], arrays["ended"]
            info["final_info"], info["_final_info"] = episode, arrays["ended"]
        return arrays["obs"], arrays["rewards"], arrays["terminated"], arrays["truncated"], info

    def synchronize(self) -> None:
        """Waits for all steps.

        Raises:
            ValueError: One of them had an action that its environment does not take.
        """
        self._check_open()
        self._core.synchronize()

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the environments; arrays that are still referenced remain valid."""
        del self._core

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("expected an open environment, got one that is closed; make another")


def _of_state(arrays: Mapping[str, DeviceArray]) -> dict[str, Any]:
    """What `info` has of the states of all environments."""
    return {key: arrays[name] for key, name in (("action_mask", "mask"), ("player", "player")) if name in arrays}


@overload
def make_vec(id: str | World | type, num_envs: int = 1, *, device: Literal["cpu"] = "cpu", **settings: Any) -> VectorEnv: ...
@overload
def make_vec(id: str | World | type, num_envs: int = 1, *, device: str, **settings: Any) -> Any: ...
def make_vec(id: str | World | type, num_envs: int = 1, *, device: str = "cpu", **settings: Any) -> Any:
    """Environments on a device: a `VectorEnv` on "cpu", a `DeviceVectorEnv` on "cuda" or "cuda:1".

    Args:
        id: "CartPole-v1", "cartpole" or "operant/CartPole-v1"; `operant.envs.names()` lists them. Or a world: a class with
            `@operant.world`, or what `operant.load_world` returns.
        num_envs: N.
        device: Where they step.
        **settings: Those of the class.
    """
    if device == "cpu":
        return VectorEnv(id, num_envs, **settings)
    return DeviceVectorEnv(id, num_envs, device=device, **settings)
