"""Vector environments: N environments that one call steps."""

from __future__ import annotations

import inspect
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from typing import Any, Literal, NamedTuple

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.vector import AutoresetMode
from gymnasium.vector import VectorEnv as GymnasiumVectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from operant import _core, _spaces
from operant._policy import Policy
from operant._register import asked, refuse_others
from operant._world import World, recorded

Array = NDArray[Any]
# An array `(N, ...)`, or one for each part of the observations. Any: which of them is known from the environment.
Obs = Any
Step = tuple[Obs, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
AutoresetName = Literal["same_step", "next_step", "disabled"]

_MODES: dict[str, AutoresetMode] = {
    "same_step": AutoresetMode.SAME_STEP,
    "next_step": AutoresetMode.NEXT_STEP,
    "disabled": AutoresetMode.DISABLED,
}

_NO_LIMIT = 2**32 - 1

RENDER_MODES = ["rgb_array"]


# Alignment in bytes; JAX does not share memory with another alignment.
_ALIGNMENT = 64


class _Set(NamedTuple):
    """One set of outputs: NumPy's arrays, and the engine's views of them."""

    arrays: dict[str, Array]
    buffers: _core.Buffers


class Horizon(dict[str, Any]):
    """Arrays `(T, N, ...)` of several steps by name; `rollout` can write over them. Observations of parts are dictionaries of them."""

    arrays: dict[str, Array]


class VectorEnv(GymnasiumVectorEnv[Obs, Array, Array]):
    """N environments of one kind that one call steps: a `gymnasium.vector.VectorEnv`. `make_vec` makes one.

    Observations are arrays `(N, ...)`, or a dictionary of one for each part: float32 for real numbers, bool for bits, uint8 for
    bytes, and for indices uint8 or uint16, or int64 where one index has the space Discrete, or several have MultiDiscrete.

    Args:
        id: "CartPole-v1", "cartpole" or "operant/CartPole-v1"; `operant.envs.names()` lists them. Or a world: a class with
            `@operant.world`, or what `operant.load_world` returns.
        num_envs: N.
        threads: Threads that step; 0 for all CPUs that the process may use. It changes the time, never a result.
        seed: Seed of the first reset; random for none.
        autoreset_mode: "same_step", "next_step" or "disabled", as in Gymnasium.
        copy: False returns the environment's own arrays, which is faster. Each is overwritten two calls later.
        reward_dtype: float64 as Gymnasium's vectors give, or float32, which is faster.
        final_obs: In same-step mode, `info["final_obs"]` is an object array as in Gymnasium ("object"), or an array
            `(N, ...)` that is valid where an episode ended ("dense"), which is faster.
        episode_stats: Whether `info["episode"]` has the return and length of each episode that ended. Gymnasium's
            RecordEpisodeStatistics writes the same key, so it needs False.
        max_episode_steps: Steps after which an episode is truncated: None for the environment's own limit, -1 for no limit.
        render_mode: "rgb_array" for `render`.
        check: Whether a step raises RuntimeError where the environment returns a reward that is not finite, an observation outside
            its space, or a mask without a legal action; the error shows the state before. `operant.check_world` plays so.
        **options: The environment's own options, such as `sticky_action_prob`: numbers, words or paths.

    Attributes:
        num_envs: N.
        threads: Threads that step.
        copy: Whether `step` returns copies.
        name: The environment's name, such as "cartpole".
        max_episode_steps: Steps after which an episode is truncated, or None.
        autoreset_mode: When an episode that ended is followed by the next.
        has_mask: Whether `info["action_mask"]` says which actions are legal.
        players: 1, or those of a game; `info["player"]` then has the number of the player to move, `(N,)`.
        simultaneous: Whether the players of a game choose at once: the environment goes on with the last player's move.
        player_word: Which of the words of a state of a game has that number.

    Raises:
        ValueError: There is no such environment or option, or a value is out of range.
        MemoryError: They need more memory than is available.
    """

    def __init__(
        self,
        id: str | World | type,
        num_envs: int = 1,
        *,
        threads: int = 0,
        seed: int | None = None,
        autoreset_mode: AutoresetName | AutoresetMode = "same_step",
        copy: bool = True,
        reward_dtype: Any = np.float64,
        final_obs: Literal["object", "dense"] = "object",
        episode_stats: bool = True,
        max_episode_steps: int | None = None,
        render_mode: Literal["rgb_array"] | None = None,
        check: bool = False,
        **options: float | str,
    ) -> None:
        mode, mode_name = checked_mode(autoreset_mode)
        if final_obs not in ("object", "dense"):
            raise ValueError(f"final_obs: expected 'object' or 'dense', got {final_obs!r}")
        if np.dtype(reward_dtype) not in (np.float32, np.float64):
            raise ValueError(f"reward_dtype: expected float32 or float64, got {reward_dtype!r}")
        for label, value in (("num_envs", num_envs), ("threads", threads)):
            if not isinstance(value, (int, np.integer)) or value < 0:
                raise ValueError(f"{label}: expected a whole number that is not negative, got {value!r}")
        seed = checked_seed(seed)
        check_render_mode(render_mode)
        # A world is sent to other processes whole.
        refuse_others(id)
        check_keywords(type(self), options)
        self._world = None if isinstance(id, str) else recorded(id)
        self._core = _core.Environments(
            asked(self._world or id),
            int(num_envs),
            threads=int(threads),
            seed=seed,
            autoreset=mode_name,
            time_limit=_time_limit(max_episode_steps),
            options=option_values(options),
            check=check,
        )
        if render_mode is not None:
            self._core.check_picture()
        self.render_mode = render_mode
        self._check = check
        spec = self._core.spec()
        self.name: str = spec["name"]
        self.num_envs = int(num_envs)
        limit: int = spec["time_limit"]
        # Environments without a limit have a limit that no episode reaches.
        self.max_episode_steps = None if limit >= _NO_LIMIT - 1 else limit
        self.metadata = {"autoreset_mode": mode, "render_modes": RENDER_MODES, "render_fps": spec["fps"]}
        self.single_observation_space = _spaces.observation_space(spec)
        self.single_action_space = _spaces.action_space(spec)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._choices, self.threads = self._core.sizes()
        self.has_mask = self._choices > 0
        self.players, self.simultaneous, self.player_word = self._core.players()
        # In the order of the space, which sorts them.
        parts = getattr(self.single_observation_space, "spaces", None)
        self._parts: list[str] | None = None if parts is None else list(parts)
        self._is_box = spec["actions"][0] == "box"
        self._dtype = np.dtype(reward_dtype)
        self._sets = [self._new_set(), self._new_set()]
        self._turn = 0
        self.autoreset_mode = mode
        self._mode_name = mode_name
        self._final_obs = final_obs
        self._episode_stats = episode_stats
        self._options = option_values(options)
        self._threads_asked = int(threads)
        self._process = os.getpid()
        self._out: _Set | None = None
        self._worker: futures.ThreadPoolExecutor | None = None
        self._pending: futures.Future[Step] | None = None
        self._is_fresh, self._is_reset = True, False
        self.copy = copy
        super().reset(seed=seed)  # only for `np_random`

    # --- Gymnasium's interface

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Obs, dict[str, Any]]:
        """Starts new episodes and returns `(observations, info)`.

        Args:
            seed: One seed numbers the environments as `operant train` does, so environment i plays the same game there.
                A list gives environment i the game of `num_envs=1` with that seed. Without a seed, further episodes begin.
            options: `{"reset_mask": mask}` with a bool array of N restarts only where it is true; one seed then counts as
                the list `seed, seed + 1, ...`, as in Gymnasium.
        """
        self._check_usable()
        mask = reset_mask(options, self.num_envs)
        into = self._next_set()
        if seed is not None and mask is not None and isinstance(seed, (int, np.integer)):
            # Numbered as Gymnasium's vectors do; operant itself numbers all environments.
            seed = [int(seed) + i for i in range(self.num_envs)]
        if isinstance(seed, (Sequence, np.ndarray)) and not isinstance(seed, str):
            if len(seed) != self.num_envs:
                raise ValueError(f"seed: expected {self.num_envs} seeds, got {len(seed)}")
            self._core.restart(into.buffers, mask, [checked_seed(one) for one in seed])
        elif seed is not None:
            checked = checked_seed(seed)
            super().reset(seed=checked)
            self._core.reseed(checked, into.buffers)
        elif self._is_fresh:
            if mask is not None:
                raise ResetNeeded("reset_mask: expected a first reset of all environments, got one of some")
            self._core.observe(into.buffers)
        else:
            self._core.restart(into.buffers, mask)
        self._is_fresh, self._is_reset = False, True
        info: dict[str, Any] = {}
        self._add_mask(info, into)
        return self._given_obs(into), info

    def step(self, actions: Any, *, out: Mapping[str, Array] | None = None) -> Step:
        """Steps every environment.

        Args:
            actions: `(N,)` integers for one discrete component, `(N, A)` for several, `(N, A)` floats for a box.
                int64, int32, uint8, float32 and float64 are read in place where C-contiguous.
            out: Arrays to write into instead of the environment's own: any of `obs`, `rewards`, `terminated`,
                `truncated`, of the shapes and dtypes that `step` returns; `obs` of parts is a dictionary of all of them.

        Returns:
            observations `(N, ...)`, rewards `(N,)`, terminated `(N,)`, truncated `(N,)`, info.

        Raises:
            ValueError: An action of wrong shape or value. Nothing was stepped.
            TypeError: Actions of a wrong dtype. Nothing was stepped.
        """
        self._check_steppable()
        if out is not None:
            into = self._set_of(out)
            ended = self._core.step(actions, into.buffers)
            *results, info = self._results(into, ended, copy=self.copy)
            given = (out.get(name) for name in ("obs", "rewards", "terminated", "truncated"))
            obs, rewards, terminated, truncated = (
                own if theirs is None else theirs for own, theirs in zip(results, given, strict=True)
            )
            return obs, rewards, terminated, truncated, info
        into = self._next_set()
        ended = self._core.step(actions, into.buffers)
        if self.copy or ended or self._choices or self.players > 1:
            return self._results(into, ended, copy=self.copy)
        arrays = into.arrays
        obs = arrays["obs"] if self._parts is None else self._obs(arrays)
        return obs, arrays["rewards"], arrays["terminated"], arrays["truncated"], {}

    def render(self) -> tuple[NDArray[np.uint8], ...] | None:
        """A picture of each environment, uint8 `(height, width, 3)`, as a film of `operant play --record` shows it; None without
        `render_mode`."""
        if self.render_mode is None:
            return None
        self._check_steppable()
        return tuple(self._core.render(number) for number in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Frees the environments."""
        if self._worker is not None:
            self._worker.shutdown()
        del self._core
        self._sets, self._out = [], None

    # --- Beyond it

    def async_step(self, actions: Any) -> None:
        """Begins a step on another thread; `wait` returns its results. Until then the actions must not change."""
        self._check_steppable()
        if self._worker is None:
            self._worker = futures.ThreadPoolExecutor(1, thread_name_prefix="operant")
        into = self._next_set()
        core, copy = self._core, self.copy

        def work() -> Step:
            return self._results(into, core.step(actions, into.buffers), copy=copy)

        self._pending = self._worker.submit(work)

    def wait(self, timeout: float | None = None) -> Step:
        """The results of the step that `async_step` began.

        Raises:
            TimeoutError: It takes longer than `timeout` seconds; it continues, and `wait` may be called again.
        """
        if self._pending is None:
            raise RuntimeError("wait: no step was begun; call async_step first")
        if not futures.wait([self._pending], timeout).done:
            raise TimeoutError(f"wait: the step takes longer than {timeout} s")
        done, self._pending = self._pending, None
        return done.result()

    send = async_step
    recv = wait

    def step_many(self, actions: Any) -> dict[str, Any]:
        """Steps `T` times with given actions, `(T, N)` or `(T, N, A)`, in one call.

        Returns:
            `obs` `(T, N, ...)`, `rewards`, `terminated`, `truncated` and `ended` (either) `(T, N)`; `returns` and `lengths`
            of the episodes that ended, else 0; and in same-step mode `final_obs`, valid where an episode ended.
        """
        self._check_steppable()
        if np.ndim(actions) < 2:
            raise ValueError(f"actions: expected shape (T, {self.num_envs}, ...), got {np.shape(actions)}")
        steps = len(actions)
        many = self._horizon(steps)
        self._core.step_many(actions, steps, self._after(many))
        given = self._given_horizon(many)
        return {name: array for name, array in given.items() if name not in ("actions", "observations")}

    def rollout(
        self,
        policy: Policy | Callable[[Obs], Any] | None,
        steps: int,
        *,
        deterministic: bool = False,
        out: Horizon | None = None,
    ) -> Horizon:
        """Plays `steps` steps.

        Args:
            policy: A trained policy, which acts inside the engine at the speed of `operant train`; a function from
                observations `(N, ...)` to actions; or None for uniformly random actions.
            steps: T.
            deterministic: Whether a trained policy takes its most probable actions; it draws them otherwise.
            out: What an earlier `rollout` of as many steps returned, to write over; new arrays cost time.

        Returns:
            As `step_many`, and `actions` and `observations` `(T, N, ...)`, on which they were chosen.
            In a game of several players also `player` `(T, N)`, who chose them.
        """
        self._check_steppable()
        if not isinstance(steps, (int, np.integer)) or steps < 1:
            raise ValueError(f"steps: expected a whole number of at least 1, got {steps!r}")
        if policy is not None and not callable(policy):
            raise TypeError(f"policy: expected a Policy, a function or None, got {policy!r}; operant.load loads a policy")
        many = self._horizon(int(steps), out)
        if isinstance(policy, Policy):
            self._play(policy, many, deterministic)
            return self._given_horizon(many)
        actions = many["actions"]
        self._observe(many)
        if policy is None:
            actions[:] = self._random_actions(self.np_random, steps)
            self._core.step_many(actions, steps, self._after(many))
        else:
            for step in range(steps):
                taken = np.asarray(policy(self._obs({name: array[step] for name, array in many.items()})))
                into = {name: array[step + _is_seen(name)] for name, array in many.items()}
                self._core.step(taken, self._core.buffers(into, self.num_envs))
                actions[step] = taken
        return self._given_horizon(many)

    def get_state(self) -> dict[str, Any]:
        """The complete state of the environments, which can be pickled; `set_state` continues from it bit for bit."""
        self._check_usable()
        words, seed, seeds, step = self._core.get_state()
        return {
            "env": self.name,
            "options": dict(self._options),
            "num_envs": self.num_envs,
            "autoreset_mode": self._mode_name,
            "max_episode_steps": self.max_episode_steps,
            "words": words,
            "seed": seed,
            "seeds": seeds,
            "step": step,
            "is_reset": self._is_reset,
        }

    def set_state(self, state: Mapping[str, Any]) -> tuple[Obs, dict[str, Any]]:
        """Continues from what `get_state` returned, and returns the observations there.

        Raises:
            ValueError: It is the state of other environments.
        """
        self._check_usable()
        own = {
            "env": self.name,
            "options": self._options,
            "num_envs": self.num_envs,
            "autoreset_mode": self._mode_name,
            "max_episode_steps": self.max_episode_steps,
        }
        if missing := {*own, "words", "seed", "seeds", "step", "is_reset"} - set(state):
            raise ValueError(f"state: expected what get_state returned, got one without {', '.join(sorted(missing))}")
        for key, value in own.items():
            if state[key] != value:
                raise ValueError(f"state: expected {key} = {value!r}, got {state[key]!r}")
        into = self._next_set()
        self._core.set_state(state["words"], state["seed"], state["seeds"], state["step"], into.buffers)
        self._is_fresh, self._is_reset = not state["is_reset"], state["is_reset"]
        info: dict[str, Any] = {}
        self._add_mask(info, into)
        return self._given_obs(into), info

    def __enter__(self) -> VectorEnv:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        settings = {
            "check": self._check,
            "autoreset_mode": self._mode_name,
            "copy": self.copy,
            "reward_dtype": self._dtype.str,
            "final_obs": self._final_obs,
            "episode_stats": self._episode_stats,
            "max_episode_steps": self.max_episode_steps or -1,
            "render_mode": self.render_mode,
            **self._options,
        }
        rest = {
            "state": self.get_state(),
            "_np_random": self._np_random,
            "_np_random_seed": self._np_random_seed,
            "action_space": self.action_space,
            "spec": self.spec,
        }
        return _unpickled, (self._kind(), self.num_envs, self._threads_asked, settings), rest

    def __setstate__(self, rest: dict[str, Any]) -> None:
        self.set_state(rest.pop("state"))
        self.__dict__.update(rest)

    def _kind(self) -> Any:
        """The arguments with which `_unpickled` makes an object of this class."""
        return self._world or self.name

    def __repr__(self) -> str:
        return f"operant.VectorEnv({self.name!r}, num_envs={self.num_envs}, autoreset_mode={self._mode_name!r})"

    # --- Inside

    def _new_set(self, given: Mapping[str, Any] | None = None) -> _Set:
        n = self.num_envs
        spaces: dict[str, Any] = {}
        for name in ("obs", "final_obs"):
            spaces |= self._flat(name, self.single_observation_space)
        arrays = {name: zeros((n, *space.shape), space.dtype) for name, space in spaces.items()}
        arrays |= {
            "rewards": zeros((n,), self._dtype),
            "terminated": zeros((n,), np.bool_),
            "truncated": zeros((n,), np.bool_),
            "ended": zeros((n,), np.bool_),
            "returns": zeros((n,), np.float32),
            "lengths": zeros((n,), np.int32),
            "mask": zeros((n, self._choices), np.int8),
            "player": zeros((n if self.players > 1 else 0,), np.uint32),
        }
        for name, array in (given or {}).items():
            own, label = arrays[name], "out" + "".join(f"[{key!r}]" for key in name.split(".", 1))
            if not isinstance(array, np.ndarray) or array.dtype != own.dtype or array.shape != own.shape:
                shown = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
                raise ValueError(f"{label}: expected an array of {own.dtype} {own.shape}, got {shown}")
            if not array.flags.writeable or not array.flags.c_contiguous:
                kind = "strided" if array.flags.writeable else "read-only"
                raise ValueError(f"{label}: expected a C-contiguous array that can be written, got a {kind} one")
            if any(np.shares_memory(array, other) for other in arrays.values()):
                raise ValueError(f"{label}: expected memory of its own, got that of another array")
            arrays[name] = array
        return _Set(arrays, self._core.buffers(arrays, n))

    def _set_of(self, out: Mapping[str, Any]) -> _Set:
        """The caller's arrays as a set, kept for the next step."""
        given, last = self._flat_out(out), self._out
        if last is None or any(last.arrays.get(name) is not array for name, array in given.items()):
            last = self._out = self._new_set(given)
        return last

    def _flat_out(self, out: Mapping[str, Any]) -> dict[str, Any]:
        """The caller's arrays under our names."""
        if not isinstance(out, Mapping):
            raise TypeError(f"out: expected a dictionary of arrays, got {type(out).__name__}")
        if unknown := [name for name in out if name not in ("obs", "rewards", "terminated", "truncated")]:
            raise ValueError(f"out: expected obs, rewards, terminated or truncated, got {unknown[0]!r}")
        given = dict(out)
        if "obs" in out and self._parts is not None:
            obs = given.pop("obs")
            if not isinstance(obs, Mapping) or set(obs) != set(self._parts):
                raise ValueError(f"out['obs']: expected a dictionary of {', '.join(self._parts)}, got {_names(obs)}")
            given |= self._flat("obs", obs)
        return given

    def _flat(self, name: str, obs: Any) -> dict[str, Any]:
        """A value per array of the observations, by array name: "obs", or for parts "obs.image" and so on."""
        if self._parts is None:
            return {name: obs}
        return {f"{name}.{part}": obs[part] for part in self._parts}

    def _obs(self, arrays: Mapping[str, Array], name: str = "obs") -> Obs:
        """The observations from arrays by their names."""
        if self._parts is None:
            return arrays[name]
        return {part: arrays[f"{name}.{part}"] for part in self._parts}

    def _play(
        self, policy: Policy, many: Mapping[str, Array], deterministic: bool, judged: dict[str, Array] | None = None
    ) -> None:
        """Plays a rollout under a policy, which writes what else it computes to the arrays `judged`."""
        self._observe(many)
        policy._rollout(self._core, len(many["rewards"]), self._after(many), many["actions"], deterministic, judged)

    def _observe(self, many: Mapping[str, Array]) -> None:
        """Writes the current observations and masks to the first rows."""
        self._core.observe(self._core.buffers({name: array[0] for name, array in many.items()}, self.num_envs))

    def _after(self, many: Mapping[str, Array]) -> _core.Buffers:
        """The outputs of a rollout's steps."""
        arrays = {name: array[1:] if _is_seen(name) else array for name, array in many.items()}
        return self._core.buffers(arrays, len(many["rewards"]) * self.num_envs)

    def _horizon(self, steps: int, out: Horizon | None = None) -> dict[str, Array]:
        """Arrays of a rollout. Observations and masks have one row more than there are steps: the current ones come first."""
        like, space = self._sets[0].arrays, self.action_space
        shapes = {name: ((steps + _is_seen(name), *array.shape), array.dtype) for name, array in like.items()}
        shapes["actions"] = ((steps, *(space.shape or ())), np.dtype(np.float32 if self._is_box else np.int64))
        if out is None:
            return {name: zeros(shape, dtype) for name, (shape, dtype) in shapes.items()}
        if not isinstance(out, Horizon):
            raise TypeError(f"out: expected what rollout returned, got {type(out).__name__}")
        many = out.arrays
        if {name: (array.shape, array.dtype) for name, array in many.items()} != shapes:
            raise ValueError(f"out: expected what rollout returned for {steps} steps of these environments")
        return many

    def _given_horizon(self, many: dict[str, Array]) -> Horizon:
        """A rollout in the form that the caller receives."""
        obs = {name: array for name, array in many.items() if _is_obs(name)}
        given = Horizon({name: array for name, array in many.items() if "obs" not in name})
        given["obs"] = self._obs({name: _aligned(array[1:]) for name, array in obs.items()})
        given["observations"] = self._obs({name: array[:-1] for name, array in obs.items()})
        given.arrays = many
        given["mask"] = many["mask"][1:]
        if self._choices == 0:
            del given["mask"]
        given["player"] = many["player"][:-1]
        if self.players == 1:
            del given["player"]
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            given["final_obs"] = self._obs(many, "final_obs")
        return given

    def _random_actions(self, rng: np.random.Generator, steps: int) -> Array:
        space: Any = self.single_action_space
        if hasattr(space, "n"):
            return rng.integers(space.n, size=(steps, self.num_envs))
        if hasattr(space, "nvec"):
            return rng.integers(space.nvec, size=(steps, self.num_envs, len(space.nvec)))
        size = (steps, self.num_envs, *space.shape)
        return rng.uniform(space.low, space.high, size).astype(np.float32)

    def _next_set(self) -> _Set:
        self._turn ^= 1
        return self._sets[self._turn]

    def _given(self, obs: Obs) -> Obs:
        return _copied(obs) if self.copy else obs

    def _given_obs(self, into: _Set) -> Obs:
        return self._given(self._obs(into.arrays))

    def _results(self, into: _Set, ended: int, *, copy: bool) -> Step:
        arrays = into.arrays
        info: dict[str, Any] = {}
        self._add_mask(info, into)
        if ended:
            self._add_ends(info, arrays)
        obs, rewards, terminated, truncated = (
            self._obs(arrays),
            arrays["rewards"],
            arrays["terminated"],
            arrays["truncated"],
        )
        if copy:
            return _copied(obs), rewards.copy(), terminated.copy(), truncated.copy(), info
        return obs, rewards, terminated, truncated, info

    def _add_mask(self, info: dict[str, Any], into: _Set) -> None:
        if self._choices:
            info["action_mask"] = self._given(into.arrays["mask"])
        if self.players > 1:
            info["player"] = self._given(into.arrays["player"])

    def _add_ends(self, info: dict[str, Any], arrays: dict[str, Array]) -> None:
        """The entries of `info` for ended episodes, as in Gymnasium's vector environments."""
        ends = self._given(arrays["ended"])
        episode = {}
        if self._episode_stats:
            returns, lengths = self._given(arrays["returns"]), self._given(arrays["lengths"])
            episode = {"episode": {"r": returns, "l": lengths}, "_episode": ends}
            info.update(episode)
        if self.autoreset_mode is not AutoresetMode.SAME_STEP:
            return
        if self._final_obs == "dense":
            info["final_obs"] = self._given(self._obs(arrays, "final_obs"))
        else:
            final = np.empty(self.num_envs, object)  # of None
            rows = np.flatnonzero(ends)
            final[rows] = np.fromiter(rows_of(self._obs(arrays, "final_obs"), rows), object, len(rows))
            info["final_obs"] = final
        info["_final_obs"] = ends
        info["final_info"], info["_final_info"] = episode, ends

    def _check_usable(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError("expected an open environment, got one that is closed; make another")
        if self._pending is not None:
            raise RuntimeError("a step is under way; call wait first")
        if self.threads > 1 and os.getpid() != self._process:
            raise RuntimeError(
                "this environment was made before a fork, and its threads exist only in the process that made it; make it "
                "after the fork, or with threads=1"
            )

    def _check_steppable(self) -> None:
        if not self._is_reset or self.closed or self._pending is not None or self.threads > 1:
            self._check_usable()
            if not self._is_reset:
                raise ResetNeeded("expected reset before the first step")


def zeros(shape: tuple[int, ...], dtype: Any) -> Array:
    """Zeros at an aligned address."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + _ALIGNMENT - 1, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    made: Array = memory[start : start + size].view(dtype).reshape(shape)
    return made


def _aligned(array: Array) -> Array:
    """The array, or a copy if its memory is not aligned for sharing."""
    if array.ctypes.data % _ALIGNMENT == 0:
        return array
    copy = zeros(array.shape, array.dtype)
    copy[:] = array
    return copy


def _is_obs(name: str) -> bool:
    """Whether an array of this name has observations."""
    return name == "obs" or name.startswith("obs.")


def _is_seen(name: str) -> bool:
    """Whether an array of this name has what a policy acts on: observations, masks, or whose turn it is."""
    return _is_obs(name) or name in ("mask", "player")


def _copied(obs: Obs) -> Obs:
    return {name: array.copy() for name, array in obs.items()} if isinstance(obs, dict) else obs.copy()


def _names(obs: Any) -> str:
    """The keys of a dictionary, or the type of any other value."""
    return ", ".join(map(str, obs)) if isinstance(obs, Mapping) else type(obs).__name__


def rows_of(obs: Obs, rows: NDArray[np.intp]) -> Iterator[Obs]:
    """Each of these observations as one environment returns it: views of a copy."""
    if not isinstance(obs, dict):
        return iter(obs.take(rows, axis=0))
    taken = {name: array.take(rows, axis=0) for name, array in obs.items()}
    return ({name: array[row] for name, array in taken.items()} for row in range(len(rows)))


def check_keywords(cls: type, options: Mapping[str, Any]) -> None:
    """An error for what is no option of any environment, but nearly a keyword of the class."""
    known = {name for spec in _core.specs() for name in spec["options"]} if options else set()
    keywords = [name for name in inspect.signature(cls).parameters if name != "options"]
    for name in options:
        if name not in known and (hint := _core.did_you_mean(name, keywords)):
            raise TypeError(f"there is no option {name}{hint}")


def option_values(options: Mapping[str, Any]) -> dict[str, float | str]:
    """Options as the engine takes them."""
    values: dict[str, float | str] = {}
    for name, value in options.items():
        if not isinstance(value, (str, os.PathLike, int, float, np.number, np.bool_)):
            hint = "; options are keywords: **{...}" if isinstance(value, Mapping) else ""
            raise TypeError(f"{name}: expected a number, a word or a path, got {value!r}{hint}")
        values[name] = os.fspath(value) if isinstance(value, os.PathLike) else value  # type: ignore[assignment]
    return values


def checked_mode(given: AutoresetName | AutoresetMode) -> tuple[AutoresetMode, str]:
    """A mode and its name."""
    mode = given if isinstance(given, AutoresetMode) else _MODES.get(given)
    if mode is None:
        raise ValueError(f"autoreset_mode: expected one of {', '.join(_MODES)}, got {given!r}")
    return mode, next(key for key, value in _MODES.items() if value is mode)


def checked_seed(seed: object) -> int:
    """A seed from 0 to 2^64 - 1; a random one for None."""
    if seed is None:
        return secrets.randbits(63)
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**64:
        raise ValueError(f"seed: expected a whole number from 0 to 2^64 - 1, got {seed!r}")
    return int(seed)


def _time_limit(max_episode_steps: int | None) -> int | None:
    """The engine's number for it."""
    limit = max_episode_steps
    if limit is None or limit == -1:
        return None if limit is None else _NO_LIMIT
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or not 0 < limit < _NO_LIMIT:
        raise ValueError(f"max_episode_steps: expected a whole number from 1 to {_NO_LIMIT - 1}, or -1 for no limit, got {limit!r}")
    return int(limit)


def reset_mask(options: Mapping[str, Any] | None, num_envs: int) -> NDArray[np.bool_] | None:
    if options is None:
        return None
    if not isinstance(options, Mapping):
        raise TypeError(f"options: expected a dictionary, got {type(options).__name__}")
    if unknown := set(options) - {"reset_mask"}:
        raise ValueError(f"options: expected reset_mask, got {', '.join(sorted(map(str, unknown)))}")
    if "reset_mask" not in options:
        return None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"options['reset_mask']: expected an array of bool, got {getattr(mask, 'dtype', type(mask))}")
    if mask.shape != (num_envs,):
        raise ValueError(f"options['reset_mask']: expected shape ({num_envs},), got {mask.shape}")
    if not mask.any():
        raise ValueError("options['reset_mask']: expected at least one true value, got none")
    return mask


def _unpickled(kind: Any, num_envs: int, threads: int, settings: dict[str, Any]) -> VectorEnv:
    """A world, or an environment by its name or its class in `operant.envs`."""
    if not isinstance(kind, str) or not kind.startswith("class "):
        return VectorEnv(kind, num_envs, threads=threads, **settings)
    from operant import envs

    made: VectorEnv = getattr(envs, kind.removeprefix("class "))(num_envs, threads, **settings)
    return made


def _registered(
    name: str,
    num_envs: int = 1,
    autoreset_mode: AutoresetName | AutoresetMode = "next_step",
    episode_stats: bool = False,
    **kwargs: Any,
) -> VectorEnv:
    """The entry point of `gymnasium.make_vec`, with the defaults of Gymnasium's own vectors."""
    from operant._device import make_vec

    made: VectorEnv = make_vec(name, num_envs, autoreset_mode=autoreset_mode, episode_stats=episode_stats, **kwargs)
    return made


def check_render_mode(render_mode: str | None) -> None:
    """Pictures are arrays; nothing opens a window."""
    if render_mode not in (None, *RENDER_MODES):
        raise ValueError(
            f"render_mode: expected 'rgb_array' or None, got {render_mode!r}; `operant play` shows episodes in a terminal, and "
            "gymnasium.wrappers.HumanRendering in a window"
        )
