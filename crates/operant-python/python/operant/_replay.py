"""Transitions for algorithms with a replay: `operant.Replay`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from operant import _core, _translate
from operant._policy import Policy

if TYPE_CHECKING:
    from operant._train import Run
    from operant._world import World

Array = NDArray[Any]

# How a row ends, with the engine's numbers: the episode continues in the next row; it terminated; it was truncated, and the next row has its
# final observation; the row is such an observation and not a step; the episode continued, but its next step is not in the next row.
_GOES_ON, _TERMINATED, _TRUNCATED, _FINAL, _CUT = range(5)

# Rows of each environment that are allocated first if there is no capacity.
_FIRST_ROWS = 1025

# Steps that are written at once.
_MOST_STEPS = 1 << 16


class Transitions(NamedTuple):
    """Steps: arrays `(n, ...)`, or dictionaries and tuples of such arrays."""

    #: Observations before the steps.
    obs: Any
    #: Actions as the environment takes them.
    action: Any
    reward: NDArray[np.float32]
    #: Observations after the steps. A termination has no next observation, so there this repeats `obs`.
    next_obs: Any
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    #: `(n, choices)`: the legal actions in `obs`; None where all are legal.
    action_mask: NDArray[np.bool_] | None = None
    #: Those in `next_obs`; all where they are not known.
    next_action_mask: NDArray[np.bool_] | None = None


class Replay:
    """Transitions of an environment, stored as a run with a replay stores them. They can come from any source, and a run can begin with them.

        replay = operant.Replay("pendulum")
        replay.add(obs, action, reward, next_obs, terminated, truncated)    # arrays (T, ...): steps one after the other
        run = operant.train("pendulum", algorithm="sac", replay=replay, checkpoint_replay=True)
        batch = run.replay.sample(256, seed=1)                              # what it stored itself

    Each environment has a ring of rows. A row has an observation, the action, the reward and how it ends; the observation after a step is that
    of the next row. If the next step added does not continue it, a row with only that observation follows.

    Args:
        env: The environment, as for `operant.train`. Real actions need finite bounds.
        capacity: The most rows, final observations included; after that new rows overwrite the oldest. With None the replay grows.
        num_envs: Environments that are stepped together.
        env_options: The environment's own options.

    Attributes:
        env: The environment's name.
        num_envs: Environments that are stepped together.

    Raises:
        ValueError: The environment or an argument cannot be used.
    """

    def __init__(
        self,
        env: str | World | type | Callable[[], Any],
        capacity: int | None = None,
        *,
        num_envs: int = 1,
        env_options: Mapping[str, float | str] | None = None,
    ) -> None:
        num_envs = _positive("num_envs", num_envs)
        self._grows = capacity is None
        rows = _FIRST_ROWS
        if capacity is not None:
            rows = -(-_positive("capacity", capacity) // num_envs) + 1
            if rows < 3:
                raise ValueError(f"capacity: expected at least 2 rows for each of {num_envs} environments, got {capacity}")
        made: Any = env
        policy = Policy.new(made, env_options=env_options)
        self._begin(policy)
        self._words = np.zeros((num_envs, rows, self._stride), np.uint32)
        self._heads = np.zeros(num_envs, np.uint64)

    @classmethod
    def load(cls, run: str | os.PathLike[str] | Run, *, run_dir: str | os.PathLike[str] | None = None) -> Replay:
        """The replay of a run's checkpoint. Its rows are mapped from the file and not copied; `add` changes only the copy in memory, not the file. If
        the run's replay was full, this one keeps its size, and new rows overwrite the oldest. Otherwise it grows.

        Args:
            run: A run, its name or its directory for its latest checkpoint, "NAME@STEP", or the directory of a checkpoint.
            run_dir: The directory that holds the runs, if `run` is a name; by default ./runs.

        Raises:
            ValueError: The run was trained without `checkpoint_replay=True`, or the file is damaged.
        """
        return cls._of(Policy(run, run_dir=run_dir))

    @classmethod
    def _of(cls, policy: Policy) -> Replay:
        path, heads, shape, first = _core.find_replay(policy._core)
        replay = cls.__new__(cls)
        replay._begin(policy)
        # One that is not full has no row whose place was taken.
        replay._grows = max(heads, default=0) <= shape[1]
        replay._words = np.memmap(path, np.uint32, "c", first, tuple(shape)) if shape[1] else np.zeros(shape, np.uint32)
        replay._heads = np.array(heads, np.uint64)
        return replay

    def _begin(self, policy: Policy) -> None:
        layout = _core.replay_layout(policy._core)
        # Choices are kept as they are.
        low, high = (np.asarray(layout.get(name, [])) for name in ("low", "high"))
        if not (np.isfinite(low) & np.isfinite(high)).all():
            raise ValueError(f"env: the actions of {policy.env} have no finite bounds, but a replay needs them: it stores actions scaled to [-1, 1]")
        self.env = policy.env
        self._policy, self._low, self._high = policy, low, high
        self._mask, self._action, self._reward, self._end, self._stride = (
            layout[name] for name in ("mask", "action", "reward", "end", "stride")
        )
        self._parts: list[tuple[int, int, int]] = layout["parts"]
        self._found: tuple[Array, Array] | None = None

    @property
    def num_envs(self) -> int:
        return len(self._heads)

    def add(
        self,
        obs: Any,
        action: Any,
        reward: Any,
        next_obs: Any,
        terminated: Any,
        truncated: Any,
        action_mask: Any | None = None,
        next_action_mask: Any | None = None,
    ) -> None:
        """Adds steps: T consecutive ones, `(T, ...)`; with N environments one of each, `(N, ...)`, or T of each, `(T, N, ...)`.

        A step continues the previous one if that did not end the episode and its `next_obs` equals this step's `obs`. Such a step takes one row.
        Steps can be in any other order, but then take two rows each.

        Args:
            obs: Observations before the steps, as the environment gives them.
            action: Actions as the environment takes them, within their bounds.
            reward: Rewards.
            next_obs: Observations after the steps; at the end of an episode its final one.
            terminated: Whether the episode terminated.
            truncated: Whether it was truncated, for example by a time limit.
            action_mask: The legal actions in `obs`, as for `operant.Policy`; only for environments with illegal actions, which need it.
            next_action_mask: Those in `next_obs`. By default they are those of the step that continues it, or all.

        Raises:
            ValueError: A shape is wrong, a number is not finite, or an action is outside of its bounds or illegal; nothing was added.
            TypeError: A dtype is wrong.
        """
        lead, n = np.shape(reward), self.num_envs
        steps = "(T,)" if n == 1 else f"({n},) or (T, {n})"
        if len(lead) not in ((1,) if n == 1 else (1, 2)) or (n > 1 and lead[-1] != n):
            raise ValueError(f"reward: expected shape {steps}, got {lead}")
        count = int(np.prod(lead))
        if not count:
            return
        rewards = _numbers("reward", reward, lead).astype(np.float32).reshape(-1)
        if not np.isfinite(rewards).all():
            at = int(np.isfinite(rewards).argmin())
            raise ValueError(f"reward: expected finite numbers, got {rewards[at]} in row {at}")
        flags = [_flags(name, value, lead).reshape(-1) for name, value in (("terminated", terminated), ("truncated", truncated))]
        ends = np.where(flags[0], _TERMINATED, np.where(flags[1], _TRUNCATED, _GOES_ON)).astype(np.uint32)
        rows = np.zeros((count, self._stride), np.uint32)
        rows[:, : self._mask] = self._packed("obs", obs, lead)
        actions = self._scaled(action, lead)
        rows[:, self._mask : self._action] = self._legal("action_mask", action_mask, lead, actions)
        rows[:, self._action : self._reward] = actions.view(np.uint32)
        rows[:, self._reward], rows[:, self._end] = rewards.view(np.uint32), ends
        after = np.full((count, self._action), -1, np.int32).view(np.uint32)
        after[:, : self._mask] = self._packed("next_obs", next_obs, lead)
        if next_action_mask is not None:
            after[:, self._mask :] = self._legal("next_action_mask", next_action_mask, lead, ended=flags[0])
        most = min(_MOST_STEPS, (self._words.shape[1] - 1) // 2 if not self._grows else _MOST_STEPS)
        rows, after = rows.reshape(-1, n, self._stride), after.reshape(-1, n, self._action)
        for first in range(0, len(rows), most):
            self._write(rows[first : first + most], after[first : first + most])
        self._found = None

    def _write(self, rows: NDArray[np.uint32], after: NDArray[np.uint32]) -> None:
        """Writes `(T, N)` rows, and rows with the observations after them where none of them follows."""
        obs, ends = rows[:, :, : self._mask], rows[:, :, self._end]
        envs = np.arange(self.num_envs)
        self._reopen(obs[0])
        follows = np.zeros(ends.shape, np.bool_)
        follows[:-1] = (ends[:-1] == _GOES_ON) & (after[:-1, :, : self._mask] == obs[1:]).all(-1)
        ends[(ends == _GOES_ON) & ~follows] = _CUT
        has_final = ~follows & (ends != _TERMINATED)
        # Where each row is, past the head of its environment.
        places = np.cumsum(1 + has_final, 0) - has_final - 1
        taken = places[-1] + has_final[-1] + 1
        if self._grows:
            self._grow(int((self._heads + taken.astype(np.uint64)).max()))
        length = self._words.shape[1]
        slots = (self._heads.astype(np.int64) + places) % length
        self._words[np.broadcast_to(envs, slots.shape), slots] = rows
        final = np.nonzero(has_final)
        at = (final[1], (slots[final] + 1) % length)
        self._words[at] = 0
        self._words[(*at, slice(0, self._action))] = after[final]
        self._words[(*at, self._end)] = _FINAL
        self._heads += taken.astype(np.uint64)

    def _reopen(self, obs: NDArray[np.uint32]) -> None:
        """Takes back the rows of last observations that the steps with these observations continue; a replay of a run is closed first."""
        length, envs = self._words.shape[1], np.arange(self.num_envs)
        heads = self._heads.astype(np.int64)
        last, before = (heads - 1) % length, (heads - 2) % length
        # The newest step of a run's own replay has no next observation: it becomes the one of the step before.
        newest = envs[(heads > 0) & (self._words[envs, last, self._end] == _GOES_ON)]
        self._words[newest, last[newest], self._end] = _FINAL
        goes_on = newest[(heads[newest] > 1) & (self._words[newest, before[newest], self._end] == _GOES_ON)]
        self._words[goes_on, before[goes_on], self._end] = _CUT
        is_open = (heads > 1) & (self._words[envs, before, self._end] == _CUT)
        is_open &= (self._words[envs, last, : self._mask] == obs).all(-1)
        self._words[envs[is_open], before[is_open], self._end] = _GOES_ON
        self._heads -= is_open.astype(np.uint64)

    def _grow(self, rows: int) -> None:
        """Makes room for this many rows of each environment."""
        length = self._words.shape[1]
        if rows > length:
            words = np.zeros((self.num_envs, max(rows, 2 * length), self._stride), np.uint32)
            words[:, :length] = self._words
            self._words = words

    def _packed(self, name: str, obs: Any, lead: tuple[int, ...]) -> NDArray[np.uint32]:
        """Observations in words."""
        with _named("obs", name):
            given = _translate.taken_apart(self._policy._obs_space, obs, "obs")
            arrays = (_flat("obs", array, lead) for array in given)
            batch, count, is_one = self._policy._batch(_translate.put_together(self._policy._obs_space, arrays))
            if is_one or count != np.prod(lead):
                raise ValueError(f"obs: expected an observation for each of {int(np.prod(lead))} steps, got one of shape {np.shape(obs)}")
            return _core.packed(self._policy._core, batch).reshape(count, self._mask)

    def _legal(
        self, name: str, mask: Any | None, lead: tuple[int, ...], actions: NDArray[np.float32] | None = None, ended: NDArray[np.bool_] | None = None
    ) -> NDArray[np.uint32]:
        """The legal actions in words, a bit each. None of the choices `actions` may be illegal; in rows that have `ended` all may be."""
        count = int(np.prod(lead))

        def rows(array: Any) -> Any:
            if isinstance(array, Mapping):
                return {key: rows(inner) for key, inner in array.items()}
            if isinstance(array, tuple):
                return tuple(rows(inner) for inner in array)
            flat = _flat("action_mask", array, lead)
            return flat if ended is None or flat.ndim != 2 else np.where(ended[:, None], True, flat)

        with _named("action_mask", name):
            legal = self._policy._mask(None if mask is None else rows(mask), count)
        if legal is None:
            return np.zeros((count, 0), np.uint32)
        if actions is not None:
            first = np.cumsum([0, *self._policy.metadata["action_sizes"][:-1]])
            is_legal = np.take_along_axis(legal, first + actions.astype(np.int64), 1).all(1)
            if not is_legal.all():
                raise ValueError(f"action: that of row {int(is_legal.argmin())} is illegal by action_mask")
        words = np.zeros((count, 4 * (self._action - self._mask)), np.uint8)
        bits = np.packbits(legal.view(np.bool_), axis=1, bitorder="little")
        words[:, : bits.shape[1]] = bits
        return words.view(np.uint32)

    def _scaled(self, action: Any, lead: tuple[int, ...]) -> NDArray[np.float32]:
        """Real actions within -1 and 1, and choices."""
        space, count = self._policy._action_space, int(np.prod(lead))
        with _named("actions", "action"):
            given = _translate.taken_apart(space, action, "actions")
            flat = _translate.put_together(space, (_flat("actions", array, lead) for array in given))
            numbers = _translate.engine_actions(space, flat, count).reshape(count, -1).astype(np.float64)
            if not len(self._low):
                return numbers.astype(np.float32)
            low, high = (bound.astype(np.float32).astype(np.float64) for bound in (self._low, self._high))
            outside = (numbers < low) | (numbers > high)
            if outside.any():
                row, component = np.argwhere(outside)[0].tolist()
                raise ValueError(
                    f"actions: expected numbers from {low[component]:g} to {high[component]:g}, got {numbers[row, component]:g} in row {row}, "
                    f"component {component}"
                )
            share: NDArray[np.float64] = (numbers - low) / np.where(high > low, high - low, 1)
            return (2 * share - 1).astype(np.float32)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def rows(self) -> NDArray[np.int64]:
        """The rows of steps in the arrays below, one environment after the other, oldest first. The newest step of an environment in a run's
        replay is not among them: its next observation is not known."""
        return self._transitions()[0]

    @property
    def next_rows(self) -> NDArray[np.int64]:
        """For each of `rows` the row with the observation after it; where the episode terminated, the row itself."""
        return self._transitions()[1]

    @property
    def obs(self) -> Any:
        """The observation of each row, final ones included: `(rows, ...)`. A read-only view, except for bits, which are
        unpacked into a copy."""
        return _translate.put_together(self._policy._obs_space, map(_fixed, self._arrays_of(self._flat)))

    @property
    def action(self) -> NDArray[np.float32]:
        """A read-only view of the action of each row, flat: the index of a choice, or a real scaled from its bounds to [-1, 1]. `sample` and
        `transitions` return the environment's own actions."""
        return _fixed(self._flat[:, self._action : self._reward].view(np.float32))

    @property
    def reward(self) -> NDArray[np.float32]:
        """A read-only view of the reward of each row."""
        return _fixed(self._flat[:, self._reward].view(np.float32))

    @property
    def terminated(self) -> NDArray[np.bool_]:
        """Whether the episode terminated with each row."""
        return _fixed(self._flat[:, self._end] == _TERMINATED)

    @property
    def truncated(self) -> NDArray[np.bool_]:
        """Whether the episode was truncated after each row."""
        return _fixed(self._flat[:, self._end] == _TRUNCATED)

    def transitions(self, index: Any = slice(None)) -> Transitions:
        """Copies steps, by their positions in `rows`; all by default, oldest first."""
        rows, next_rows = (found[index] for found in self._transitions())
        words, ends = self._flat[rows], self._flat[rows, self._end]
        numbers = np.ascontiguousarray(words[:, self._action : self._reward]).view(np.float32)
        action = numbers
        if len(self._low):
            middle, half = 0.5 * (self._low + self._high), 0.5 * (self._high - self._low)
            action = np.clip((middle + half * numbers).astype(np.float32), self._low.astype(np.float32), self._high.astype(np.float32))
        return Transitions(
            self._obs_of(words),
            _translate.own_actions(self._policy._action_space, action),
            words[:, self._reward].view(np.float32).copy(),
            self._obs_of(self._flat[next_rows]),
            ends == _TERMINATED,
            ends == _TRUNCATED,
            self._legal_of(words),
            self._legal_of(self._flat[next_rows]),
        )

    def sample(self, batch_size: int, seed: int | None = None) -> Transitions:
        """Samples steps uniformly, with replacement; the same seed gives the same steps."""
        if not len(self):
            raise ValueError("sample: the replay is empty")
        chosen = np.random.default_rng(seed).integers(len(self), size=_positive("batch_size", batch_size))
        return self.transitions(chosen)

    def _given(self) -> tuple[_core.Policy, NDArray[np.uint64], NDArray[np.uint32]]:
        return self._policy._core, self._heads, np.asarray(self._words.reshape(-1))

    @property
    def _flat(self) -> NDArray[np.uint32]:
        return self._words.reshape(-1, self._stride)

    def _transitions(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self._found is None:
            length, found = self._words.shape[1], []
            for env, head in enumerate(self._heads.tolist()):
                # Once a ring is full, the place of the oldest row may have been taken.
                window = head if head <= length else length - 1
                slots = env * length + np.arange(head - window, head, dtype=np.int64) % length
                ends = self._flat[slots, self._end]
                is_step = ends != _FINAL
                is_step[-1:] &= ends[-1:] == _TERMINATED
                following = np.where(ends == _TERMINATED, slots, np.roll(slots, -1))
                found.append(np.stack([slots[is_step], following[is_step]]))
            rows, next_rows = np.concatenate(found, 1)
            self._found = _fixed(rows), _fixed(next_rows)
        return self._found

    def _obs_of(self, words: NDArray[np.uint32]) -> Any:
        """A copy of the observations of rows."""
        return _translate.put_together(self._policy._obs_space, map(np.ascontiguousarray, self._arrays_of(words)))

    def _legal_of(self, words: NDArray[np.uint32]) -> NDArray[np.bool_] | None:
        """The legal actions of rows; None where all are legal."""
        if self._mask == self._action:
            return None
        bits = np.ascontiguousarray(words[:, self._mask : self._action]).view(np.uint8)
        return np.unpackbits(bits, axis=1, count=sum(self._policy.metadata["action_sizes"]), bitorder="little").view(np.bool_)

    def _arrays_of(self, words: NDArray[np.uint32]) -> Iterator[Array]:
        """Views of the arrays of observations in rows, in order."""
        for (first, count, bits), part in zip(self._parts, self._policy._parts, strict=True):
            own = words[:, first : first + count]
            if bits == 1:
                numbers: Array = np.unpackbits(own.view(np.uint8), axis=1, count=part.size, bitorder="little").view(np.bool_)
            else:
                numbers = own.view({8: np.uint8, 16: np.uint16, 32: np.float32}[bits])[:, : part.size]
            if part.first is not None:
                numbers = numbers + part.first.reshape(-1)
            yield numbers.reshape(len(words), *part.shape)

    def __repr__(self) -> str:
        return f"operant.Replay({self.env!r}, num_envs={self.num_envs}): {len(self)} transitions"


class _named:
    """Gives errors the name of the argument that they are about."""

    def __init__(self, label: str, name: str) -> None:
        self.label, self.name = label, name

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, (TypeError, ValueError)) and str(error).startswith(self.label) and self.label != self.name:
            raise type(error)(self.name + str(error).removeprefix(self.label)) from None


def _positive(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name}: expected a whole number from 1, got {value!r}")
    return int(value)


def _fixed(array: Array) -> Array:
    """An array that cannot be written."""
    array.flags.writeable = False
    return array


def _flat(name: str, value: Any, lead: tuple[int, ...]) -> Array:
    """`(steps, ...)` of `(*lead, ...)`."""
    array = np.asarray(value)
    if array.shape[: len(lead)] != lead:
        raise ValueError(f"{name}: expected shape {str((*lead, ...)).replace('Ellipsis', '...')}, as reward has, got {array.shape}")
    return array.reshape(-1, *array.shape[len(lead) :])


def _numbers(name: str, value: Any, lead: tuple[int, ...]) -> Array:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name}: expected numbers, got dtype {array.dtype}")
    if array.shape != lead:
        raise ValueError(f"{name}: expected shape {lead}, as reward has, got {array.shape}")
    return array


def _flags(name: str, value: Any, lead: tuple[int, ...]) -> NDArray[np.bool_]:
    array = _numbers(name, value, lead)
    if array.dtype != np.bool_ and not np.isin(array, (0, 1)).all():
        raise ValueError(f"{name}: expected booleans, or 0 and 1, got other numbers")
    return array.astype(np.bool_)
