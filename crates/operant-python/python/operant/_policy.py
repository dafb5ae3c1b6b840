"""Trained policies: `operant.load` and what it returns."""

from __future__ import annotations

import json
import os
import secrets
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operant import _core, _translate
from operant._register import asked
from operant._signature import shows_settings

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from operant._settings import Settings
    from operant._torch import ActorCritic
    from operant._train import Run
    from operant._world import World

Array = NDArray[Any]

# More threads than any machine has; each takes memory for its stack.
_MAX_THREADS = 1024


class _Part(NamedTuple):
    """A part of the observations: the array that an environment gives for it; a space without parts is one."""

    label: str
    type: str
    shape: tuple[int, ...]
    # Numbers of an observation, and the first and the last value of indices where they are not from 0 on.
    size: int
    first: Array | None
    last: Array | None

    def rows(self, given: Any) -> tuple[Array, bool]:
        """Observations as `(N, numbers)` in a type that the engine accepts, and whether it was a single observation without N."""
        array = np.asarray(given)
        is_whole = self.type in ("index", "bytes")
        if array.dtype.kind not in ("iu" if is_whole else "fiub"):
            raise TypeError(f"{self.label}: expected {'integers' if is_whole else 'numbers'}, got dtype {array.dtype}")
        is_one = array.shape == self.shape
        if not is_one and (array.ndim != len(self.shape) + 1 or array.shape[1:] != self.shape):
            one, many = (str(shape).replace("'", "") for shape in (self.shape, ("N", *self.shape)))
            raise ValueError(f"{self.label}: expected shape {one} or {many}, got {array.shape}")
        if self.type == "binary" and array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
            raise ValueError(f"{self.label}: expected bits, 0 or 1, got other numbers")
        if self.first is not None and self.last is not None:
            array = array.astype(np.int64)
            outside = (array < self.first) | (array > self.last)
            if outside.any():
                at = np.unravel_index(int(outside.argmax()), array.shape)[array.ndim - len(self.shape) :]
                raise ValueError(f"{self.label}: expected whole numbers from {self.first[at]} to {self.last[at]}, got {array[outside][0]}")
            array = array - self.first
        dtype: Any = {"float": np.float32, "binary": np.bool_}.get(self.type, np.int64)
        if is_whole and array.dtype in (np.uint8, np.uint16):
            dtype = array.dtype
        with np.errstate(over="ignore"):
            # A number past the range of single precision is infinite.
            return np.ascontiguousarray(array, dtype).reshape(-1, self.size), is_one


def _labels(space: _translate.Space, label: str) -> list[str]:
    """What errors call the arrays of a space."""
    keys = _translate.keys_of(space)
    if keys is None:
        return [label]
    inner = zip(keys, _translate.spaces_in(space), strict=True)
    return [found for key, one in inner for found in _labels(one, f"{label}[{key!r}]")]


def _part(part: dict[str, Any], space: _translate.Space, label: str) -> _Part:
    """A part as metadata describe it, whose array has this space."""
    shape, first, last = tuple(space["shape"]), None, None
    if space.get("start"):
        first = np.array(space["start"], np.int64).reshape(shape)
        last = first + np.array(space["n"], np.int64).reshape(shape) - 1
    return _Part(label, part["type"], shape, _translate.size_of(space), first, last)


class Policy:
    """A trained policy: a function from observations to actions. `load` is another name of it.

        policy = operant.load("runs/x")
        actions = policy(obs)

    Observations are normalised and actions clipped as in training. A pickled policy is the path of its checkpoint, which must
    still exist when it is loaded again, and the arrays of `load_state_dict`, if it was called.

    Args:
        run: A run, its name or its directory for its latest checkpoint, "NAME@STEP" for its checkpoint at that step, the directory of a
            checkpoint, or what `save` wrote.
        run_dir: The directory that holds the runs, if `run` is a name; by default ./runs.
        seed: Seed of the draws of `deterministic=False`; random for none.
        threads: Threads that share the rows of large batches; 0 for all CPUs that the process may use. No result depends on it.

    Attributes:
        env: The environment's name.
        run: The run's name; of a saved policy the name of its directory.
        path: The checkpoint's directory.
        env_steps: Environment steps that it had trained for.
        env_options: The environment's options, as it was trained.

    Raises:
        ValueError: There is no such run, or it has no checkpoint that can be read.
    """

    def __init__(
        self,
        run: str | os.PathLike[str] | Run,
        *,
        run_dir: str | os.PathLike[str] | None = None,
        seed: int | None = None,
        threads: int = 0,
    ) -> None:
        threads = _checked("threads", threads, _MAX_THREADS)
        # A run has its directory there.
        path: Any = getattr(run, "dir", run)
        core = _core.Policy(
            os.fspath(path), run_dir=None if run_dir is None else os.fspath(run_dir), threads=threads
        )
        self._begin(core, secrets.randbits(63) if seed is None else seed, threads)

    @classmethod
    @shows_settings
    def new(
        cls,
        env: str | World | type,
        *,
        env_options: Mapping[str, float | str] | None = None,
        **settings: Unpack[Settings],
    ) -> Policy:
        """The policy with which `operant.train(env, **settings)` begins. It does not normalise observations, belongs to no run and cannot be
        pickled.

            policy = operant.Policy.new("cartpole", hidden=[128, 128], seed=1)

        Args:
            env: The environment, as for `operant.train`.
            env_options: The environment's own options.
            **settings: Those of the network, and `seed` of the weights and of the draws of `deterministic=False`; others change nothing.

        Raises:
            ValueError: A setting cannot be used.
        """
        given, options = of_rollouts(settings), as_options(env_options)
        core, policy = _core.Policy.untrained(asked(env), given, options), cls.__new__(cls)
        policy._begin(core, core.info()["seed"], settings.get("threads", 0))
        return policy

    def _begin(self, core: _core.Policy, seed: int, threads: int) -> None:
        self._core = core
        seed = _checked("seed", seed, 2**64 - 1)
        info = core.info()
        self.env: str = info["env"]
        self.run: str = info["run"]
        self.path = Path(os.path.abspath(info["path"])) if info["path"] else Path()
        self.env_steps: int = info["env_steps"]
        self.env_options: dict[str, float | str] = info["env_options"]
        for warning in info["warnings"]:
            warnings.warn(warning, stacklevel=2)
        self._seed, self._threads, self._draws = seed, threads, 0
        self._obs_space, self._action_space = _translate.spaces_of(self.metadata)
        arrays = zip(_translate.arrays_of(self._obs_space), _labels(self._obs_space, "obs"), strict=True)
        self._parts = [_part(part, *array) for part, array in zip(self.metadata["observation"], arrays, strict=True)]

    @property
    def state_size(self) -> int:
        """Numbers that a policy with memory carries from step to step of an episode; 0 without memory."""
        return self._core.states

    def __call__(
        self, obs: Any, *, deterministic: bool = True, action_mask: Any | None = None
    ) -> Any:
        """Chooses actions. A policy with memory needs `predict`.

        Args:
            obs: One observation as the environment gives it, or several as a vector environment does: `(N, ...)`, or dictionaries and
                tuples of such arrays.
            deterministic: True returns the most probable action (the mean of a continuous one); False draws from the policy.
            action_mask: `(N, choices)`, 1 where a choice is legal and 0 elsewhere, or an array for each component as the environment gives
                it: `info["action_mask"]` of environments that have it.

        Returns:
            Actions as the environment takes them: int64 `(N,)` of a Discrete space or `(N, components)` of a MultiDiscrete one, float32
            `(N, A)` within the bounds of a Box, or dictionaries and tuples of arrays; without N for one observation. A Gymnasium environment's
            have the shape, type and first number of its space.

        Raises:
            ValueError: A shape is wrong, an observation has NaN, an infinity or an index out of bounds, or an action mask is missing.
            TypeError: A dtype is wrong.
        """
        if self.state_size:
            raise ValueError("this policy has memory: actions, state = policy.predict(obs, state)")
        return self.predict(obs, deterministic=deterministic, action_mask=action_mask)[0]

    def predict(
        self,
        obs: Any,
        state: Any | None = None,
        episode_start: Any | None = None,
        *,
        deterministic: bool = True,
        action_mask: Any | None = None,
    ) -> tuple[Any, NDArray[np.float32] | None]:
        """Chooses actions, and advances the state of a policy with memory by one step.

            state, ended = None, None
            for _ in range(1000):
                actions, state = policy.predict(obs, state, episode_start=ended)
                obs, _, terminated, truncated, _ = envs.step(actions)
                ended = terminated | truncated

        Args:
            obs: As for a call.
            state: What the last call returned, `(N, state_size)`; None begins all episodes.
            episode_start: `(N,)`, true where the observation is the first of an episode, which begins without memory. With next-step resets
                that is one step after the end.
            deterministic: As for a call.
            action_mask: As for a call.

        Returns:
            The actions, as of a call, and the state after the step, float32 `(N, state_size)`; None without memory. Without N for
            one observation.

        Raises:
            ValueError, TypeError: As for a call; or the state has another shape.
        """
        batch, count, is_one = self._batch(obs)
        mask = self._mask(action_mask, count)
        states = self._states(state, episode_start, count)
        draw = None if deterministic else self._draw(1)
        components = sum(map(_translate.size_of, _translate.arrays_of(self._action_space)))
        numbers = self._core.act(batch, mask, draw, states.reshape(-1)).reshape(count, components)
        actions = _translate.own_actions(self._action_space, numbers)
        after = states if self.state_size else None
        if not is_one:
            return actions, after
        return _translate.row_of(self._action_space, actions, 0), None if after is None else after[0]

    def evaluate(self, obs: Any, state: Any | None = None, episode_start: Any | None = None) -> tuple[Array, Array]:
        """What the network computes: float32 logits of discrete actions, means of continuous ones or action values, `(N, A)`, and
        values `(N,)`; `(N, 2 A)` with `log_std = "network"` or `action_distribution = "beta"`, which docs/ppo.md describes; without N for one observation. `state` and `episode_start` as for `predict`."""
        batch, count, is_one = self._batch(obs)
        outputs, values = self._core.evaluate(batch, self._states(state, episode_start, count).reshape(-1))
        outputs = outputs.reshape(count, self.metadata["outputs"])
        return (outputs[0], values[0]) if is_one else (outputs, values)

    def seed(self, seed: int) -> None:
        """Restarts the random draws of `deterministic=False` with this seed."""
        self._seed, self._draws = _checked("seed", seed, 2**64 - 1), 0

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Spaces and network, as exported files hold them."""
        metadata: dict[str, Any] = json.loads(self._core.metadata())
        return metadata

    def state_dict(self) -> dict[str, NDArray[np.float32]]:
        """Every array that computes an action, under the names of `to_torch().state_dict()`. Weights are `(outputs, inputs)`."""
        return {name: values.reshape(shape) for name, shape, values in self._core.tensors()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replaces every array that computes an action; the policy then acts with them, and `operant.train(env, init_from=policy)` begins
        with them.

            module = policy.to_torch()                  # train it, for example on demonstrations
            policy.load_state_dict(module.state_dict())

        Args:
            state: An array for each name of `state_dict()`: NumPy arrays, or tensors of PyTorch on any device.

        Raises:
            ValueError: A name is missing or unknown, or an array has another shape or a number that is not finite; nothing was replaced.
        """
        arrays = {str(name): _array(value) for name, value in state.items()}
        self._core = self._core.with_tensors([(name, list(a.shape), a.reshape(-1)) for name, a in arrays.items()])

    def _fit(self, obs: Any, actions: Any, action_mask: Any | None, **settings: Any) -> NDArray[np.float64]:
        batch, count, is_one = self._batch(obs)
        if is_one or not count:
            raise ValueError("obs: expected several observations, (N, ...)")
        numbers = _translate.engine_actions(self._action_space, actions, count)
        self._core, losses = self._core.fitted(batch, numbers, self._mask(action_mask, count), **settings)
        return np.array(losses)

    def to_torch(self) -> ActorCritic:
        """The policy as a `torch.nn.Module`, with normalisation and bounds. Needs PyTorch."""
        try:
            from operant._torch import ActorCritic
        except ModuleNotFoundError as error:
            raise ImportError("to_torch needs PyTorch: pip install torch") from error
        return ActorCritic(self.metadata, self.state_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Saves the policy as a directory, which `operant.load(path)` and `init_from=path` take, and `operant eval` and `export`.

            policy.save("best")
            policy = operant.load("best")

        It has the files of a checkpoint, without the state of a training (docs/checkpoints.md). A saved policy of that path is replaced.

        Raises:
            ValueError: Something else is there.
            OSError: It cannot be written.
        """
        self._core.save(os.fspath(path))

    def export_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes an ONNX model with normalisation, bounds and masks; docs/checkpoints.md describes inputs and outputs.

        Raises:
            OSError: The file cannot be written.
        """
        self._core.export_onnx(os.fspath(path))

    def export_safetensors(self, path: str | os.PathLike[str]) -> None:
        """Writes `state_dict()` as a safetensors file, with `metadata` in its header.

        Raises:
            OSError: The file cannot be written.
        """
        self._core.export_safetensors(os.fspath(path))

    def export_c(self, path: str | os.PathLike[str], *, name: str = "policy", int8: bool = False) -> str | None:
        """Writes the policy as one C99 file that allocates nothing and calls no library, as `operant export --c` (docs/checkpoints.md).

            policy.export_c("policy.h")                  # struct policy, policy_reset, policy_act
            print(policy.export_c("policy.h", int8=True))

        Args:
            name: The word that names in the file begin with.
            int8: Store matrices as int8, a quarter of their size.

        Returns:
            What int8 costs, in words: how many actions change, and the mean return with and without it. None for floats.

        Raises:
            ValueError: `name` is not a name in C, or a weight is not finite.
            OSError: The file cannot be written.
        """
        return self._core.export_c(os.fspath(path), name, int8)

    def export_html(self, path: str | os.PathLike[str]) -> None:
        """Writes a web page in which the policy plays its environment, as `operant export --html` does (docs/play.md).

        Raises:
            ValueError: A page cannot play the environment, such as one of Gymnasium.
            OSError: The file cannot be written.
        """
        self._core.export_html(os.fspath(path))

    def _draw(self, steps: int) -> tuple[int, int]:
        """Seed and number of the next draw, of this many."""
        first = self._draws
        self._draws += steps
        return self._seed, first

    def _rollout(
        self,
        envs: _core.Environments,
        steps: int,
        to: _core.Buffers,
        actions: Array,
        deterministic: bool,
        judged: dict[str, Array] | None,
    ) -> None:
        """Acts in environments for some steps."""
        draw = None if deterministic else self._draw(steps)
        envs.rollout(self._core, steps, to, actions, draw, judged)

    def _batch(self, obs: Any) -> tuple[list[Array], int, bool]:
        """An array per part, the number of observations, and whether it was a single observation without N."""
        given = _translate.taken_apart(self._obs_space, obs, "obs")
        rows = [part.rows(value) for part, value in zip(self._parts, given, strict=True)]
        batch, counts = [array for array, _ in rows], {(len(array), is_one) for array, is_one in rows}
        if len(counts) > 1:
            found = ", ".join(f"{part.label} {len(array)}" for part, array in zip(self._parts, batch, strict=True))
            raise ValueError(f"obs: expected as many rows in each part, got {found}")
        return batch, *counts.pop()

    def _states(self, state: Any | None, start: Any | None, count: int) -> NDArray[np.float32]:
        """A copy of the states, zero where an episode begins."""
        shape = (count, self.state_size)
        if state is None:
            return np.zeros(shape, np.float32)
        if not self.state_size:
            raise ValueError("state: this policy has no memory; leave it out")
        states = np.array(state, np.float32, order="C")
        if states.shape != shape and not (count == 1 and states.shape == shape[1:]):
            raise ValueError(f"state: expected shape {shape}, got {states.shape}")
        states = states.reshape(shape)
        if start is not None:
            begins = np.asarray(start)
            if begins.size != count:
                raise ValueError(f"episode_start: expected shape ({count},), got {begins.shape}")
            states[begins.reshape(count).astype(np.bool_)] = 0
        return states

    def _mask(self, mask: Any | None, count: int) -> Array | None:
        choices = sum(self.metadata["action_sizes"])
        if mask is None:
            if self.metadata["action_mask"]:
                raise ValueError(f"action_mask: {self.env} has illegal actions; give info['action_mask']")
            return None
        if not self.metadata["action_mask"]:
            raise ValueError(f"action_mask: all actions of {self.env} are legal; leave it out")
        try:
            array = _translate.legal_choices(self._action_space, mask)
        except ValueError as error:
            raise ValueError(f"action_mask: {error}") from None
        if array.shape != (count, choices) and not (count == 1 and array.shape == (choices,)):
            raise ValueError(f"action_mask: expected shape ({count}, {choices}), got {array.shape}")
        return np.ascontiguousarray(array, np.int8).reshape(count, choices)

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.run:
            raise TypeError("a policy that Policy.new made belongs to no run and cannot be pickled; save(path) keeps it, or pickle its state_dict()")
        changed = self.state_dict() if self._core.is_changed else None
        return _unpickled, (os.fspath(self.path), self._seed, self._threads, self._draws, changed)

    def __repr__(self) -> str:
        if not self.run:
            return f"operant.Policy.new({self.env!r})"
        return f"operant.Policy({os.fspath(self.path)!r}{', changed' if self._core.is_changed else ''})"


def _unpickled(path: str, seed: int, threads: int, draws: int, changed: Mapping[str, Array] | None = None) -> Policy:
    policy = Policy(path, seed=seed, threads=threads)
    policy._draws = draws
    if changed is not None:
        policy.load_state_dict(changed)
    return policy


def _array(value: Any) -> NDArray[np.float32]:
    """An array, or a tensor of PyTorch, as the engine takes it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    return np.ascontiguousarray(value, np.float32)


def of_rollouts(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Settings without an update and without normalisation of observations, as TOML."""
    from operant._train import _text

    if settings.get("norm_obs"):
        raise ValueError("norm_obs: a new policy has no statistics of observations; leave it out")
    for name in settings:
        _core.check_setting(name)
    # The preset's updates may not fit these rollouts.
    settings = {"num_minibatches": 1, "sequence_length": 0, **settings, "norm_obs": False}
    return [(name, _text(name, value)) for name, value in settings.items()]


def as_options(env_options: Mapping[str, Any] | None) -> list[tuple[str, str]]:
    """Options of an environment as TOML."""
    from operant._train import _text

    return [(name, _text(name, value)) for name, value in (env_options or {}).items()]


def _checked(label: str, value: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value <= most:
        raise ValueError(f"{label}: expected a whole number from 0 to {most}, got {value!r}")
    return int(value)


def fit(
    policy: Policy,
    obs: Any,
    actions: Any,
    *,
    action_mask: Any | None = None,
    epochs: int = 10,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    max_grad_norm: float = 0.5,
    seed: int = 0,
    on_epoch: Callable[[float], object] | None = None,
) -> NDArray[np.float64]:
    """Fits a policy to actions that were taken at observations (behaviour cloning), by maximum likelihood with Adam.

        policy = operant.Policy.new("cartpole")
        operant.fit(policy, obs, actions, epochs=20)         # demonstrations: arrays of observations and of actions
        run = operant.train("cartpole", init_from=policy)    # continues from there

    Only the parts of the network that choose actions learn. The normalisation of observations stays, and values are not fitted. The result
    depends on the seed, and not on the number of threads.

    Args:
        policy: The policy, which is changed. It has no memory and was not trained with PQN.
        obs: Observations, `(N, ...)`, as for `policy(obs)`.
        actions: Actions as the environment takes them, `(N, ...)`.
        action_mask: `(N, choices)`, 1 where a choice was legal, for environments with illegal actions.
        epochs: Passes over the examples.
        batch_size: Examples of a minibatch.
        learning_rate: Step size of Adam.
        max_grad_norm: Norm to which gradients are clipped.
        seed: Seed of the order of examples.
        on_epoch: Called after each epoch with its mean loss; fitting ends where it returns False.

    Returns:
        The mean loss of each epoch, -ln of the probability (density) of an action, in nats.

    Raises:
        ValueError, TypeError: An argument cannot be used, or the loss became infinite; the policy is as it was.
    """
    for name, value in {"epochs": epochs, "batch_size": batch_size}.items():
        if _checked(name, value, 2**32 - 1) == 0:
            raise ValueError(f"{name}: expected a whole number from 1, got 0")
    for name, number in {"learning_rate": learning_rate, "max_grad_norm": max_grad_norm}.items():
        is_number = isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool)
        if not (is_number and 0 < number < float("inf")):
            raise ValueError(f"{name}: expected a number above 0, got {number!r}")
    return policy._fit(
        obs,
        actions,
        action_mask,
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=float(learning_rate),
        max_grad_norm=float(max_grad_norm),
        seed=_checked("seed", seed, 2**64 - 1),
        on_epoch=on_epoch,
    )


# One declaration: to load a policy is to make one of the class.
load = Policy
