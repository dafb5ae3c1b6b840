"""A worker process: steps some environments of a group for the trainer that started it (`python -m operant._worker ARGUMENT`).

Standard input is the memory that both share. ARGUMENT has, as JSON, the rows of this process and the place of the group's task in the
memory; the task describes how to make the environments and the layout of the memory (operant-gym's worker.rs and layout.rs)."""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operant import _core, _gym, _register

# What to do with a row.
STEP, RESET = 1, 2


# Marks the row of a failure that would repeat in a new process (operant-gym's worker.rs).
FINAL = 1 << 31


class Failed(Exception):
    """An environment failed: its row, with FINAL or not, and the message for the user."""


class Rows:
    """The environments of this process or thread, and their rows in the shared memory. `maker` makes those of a thread."""

    def __init__(self, task: dict[str, Any], words: NDArray[np.uint32], maker: Callable[[], Any] | None = None) -> None:
        layout = task["layout"]
        rows, width, masks = layout["rows"], layout["words"], layout["mask_words"]

        def array(first: int, *shape: int) -> NDArray[np.uint32]:
            return words[first : first + int(np.prod(shape))].reshape(shape)

        self.task = task
        self.maker = maker
        self.orders = array(layout["orders"], rows)
        self.seeds = array(layout["seeds"], rows)
        self.actions = array(layout["actions"], rows, layout["components"]).view(np.float32)
        self.obs = array(layout["obs"], 2, rows, width)
        self.final_obs = array(layout["final_obs"], rows, width)
        self.legal = array(layout["legal"], rows, masks)
        self.rewards = array(layout["rewards"], rows, 2).view(np.float64)[:, 0]
        self.ends = array(layout["ends"], rows)
        self.returns = array(layout["returns"], rows, 2).view(np.float64)[:, 0]
        self.lengths = array(layout["lengths"], rows)
        self.metrics = array(layout["metrics"], rows, len(task["metrics"])).view(np.float32)
        # The `info` of the first episode that ended without some of the metrics; empty once its keys were left.
        self.lacking: list[Any] | None = None
        self.envs: dict[int, EnvSlot] = {}

    def turn(self, parity: int) -> None:
        """One turn of all rows of this process."""
        obs = self.obs[parity]
        for row in range(self.task["first"], self.task["end"]):
            try:
                env = self.envs.get(row)
                if self.orders[row] == STEP and env is not None:
                    env.step(obs[row])
                else:
                    if env is None:
                        env = self.envs[row] = EnvSlot(self, row)
                    env.reset(int(self.seeds[row]), obs[row])
            except Exception as error:
                is_final = isinstance(error, _gym.Contradiction)
                raise Failed(row + 1 + (FINAL if is_final else 0), str(error) if is_final else shown(error)) from error

    def close(self) -> None:
        for env in self.envs.values():
            env.env.close()


class EnvSlot:
    """An environment and the state of its current episode."""

    def __init__(self, rows: Rows, row: int) -> None:
        task = rows.task
        self.env = env = rows.maker() if rows.maker else _gym.make(task["make"], evaluation=task["evaluation"])
        if rows.maker and any(_unwrapped(slot.env) is _unwrapped(env) for slot in rows.envs.values()):
            raise _gym.Contradiction("the function returned the same environment twice; return a new one from each call")
        self.rows, self.row = rows, row
        self.limit = task["time_limit"]
        self.actions = _gym.actions(env.action_space)
        spaces = _gym.own_spaces(env)
        self.masked, self.space = task["masked"], spaces["action"]
        # The true score and end of a game, where the policy sees clipped rewards and lost lives.
        self.game = env if hasattr(env, "operant_game") else None
        self.episodic_return, self.length, self.seed = 0.0, 0, 0
        parts = _gym.parts(env.observation_space)
        for space, now, then in [
            ("observation_space", _gym.obs_spec(parts), task["obs"]),
            ("action_space", [self.actions.spec, self.actions.starts], [task["actions"], task["starts"]]),
            # Earlier versions of operant did not write the own spaces.
            ("observation_space", spaces["observation"], (task["spaces"] or spaces)["observation"]),
            ("action_space", spaces["action"], (task["spaces"] or spaces)["action"]),
        ]:
            if now != then:
                raise _gym.Contradiction(f"{space}: {getattr(env, space)} is not the space that the run was started with")
        first, self.parts = 0, []
        for part in parts:
            self.parts.append((part.path, slice(first, first + part.words), part.write))
            first += part.words

    def write(self, obs: Any, words: NDArray[np.uint32]) -> None:
        for path, place, write in self.parts:
            value = obs
            for key in path:
                value = value[key]
            write(value, words[place])

    def begin(self, seed: int | None, words: NDArray[np.uint32]) -> None:
        obs, info = _gym.reset(self.env, seed)
        self.write(obs, words)
        self.mask(info)

    def mask(self, info: Any) -> None:
        if not self.masked:
            if self.actions.choices and isinstance(info, dict) and info.get("action_mask") is not None:
                raise _gym.Contradiction('info["action_mask"] is there, but the first reset gave none; return it from every reset, too')
            return
        mask = _gym.mask_of(self.env, info)
        if mask is None:
            raise ValueError(
                'no action mask (info["action_mask"] or action_masks()), although the first reset gave one; return it from every reset '
                "and step, with 1 everywhere where all actions are legal"
            )
        _gym.mask_words(mask, self.space, self.rows.legal[self.row])

    def reset(self, seed: int, words: NDArray[np.uint32]) -> None:
        self.episodic_return, self.length = 0.0, 0
        # What a failed step left.
        self.rows.rewards[self.row] = self.rows.ends[self.row] = self.rows.lengths[self.row] = 0
        self.begin(seed, words)

    def step(self, words: NDArray[np.uint32]) -> None:
        rows, row = self.rows, self.row
        result = self.env.step(self.actions.read(rows.actions[row]))
        if not isinstance(result, tuple) or len(result) != 5:
            got = f"{len(result)} values" if isinstance(result, tuple) else type(result).__name__
            raise ValueError(f"step() returned {got}, not (observation, reward, terminated, truncated, info); {_gym.PORT}")
        obs, reward, terminated, truncated, info = result
        reward = float(reward.item() if isinstance(reward, np.ndarray) else reward)
        self.length += 1
        whole = True
        if self.game is None:
            self.episodic_return += reward
        else:
            self.episodic_return += self.game.operant_game["reward"]
            whole = self.game.operant_game["over"] or truncated
        if self.length >= self.limit and not terminated:
            truncated = whole = True
        rows.rewards[row] = reward
        if not (terminated or truncated):
            rows.ends[row], rows.lengths[row] = 0, self.length
            self.write(obs, words)
            self.mask(info)
            return
        rows.ends[row] = (1 if terminated else 0) | (2 if truncated else 0)
        self.write(obs, rows.final_obs[row])
        rows.returns[row] = self.episodic_return
        rows.lengths[row] = self.length if whole else 0
        for index, key in enumerate(rows.task["metrics"]):
            rows.metrics[row, index] = measured(info, key)
        if whole and rows.lacking is None and np.isnan(rows.metrics[row]).any():
            rows.lacking = [info]
        if whole:
            self.episodic_return, self.length = 0.0, 0
            if self.game is not None:
                self.game.operant_game["over"] = True
        self.begin(None, words)


def _unwrapped(env: Any) -> Any:
    return getattr(env, "unwrapped", env)


def measured(info: Any, key: str) -> float:
    """A number of the episode that ended; NaN if `info` does not have it."""
    value = info.get(key) if isinstance(info, dict) else None
    if value is None:
        return float("nan")
    try:
        number = float(value.item() if isinstance(value, np.ndarray) else value)
        # Beyond single precision it is no number here.
        return number if abs(number) < np.finfo(np.float32).max else float("nan")
    except (TypeError, ValueError, OverflowError):
        raise _gym.Contradiction(f"info[{key!r}] is {value!r}, not a number; env.metrics names keys of numbers and truth values") from None


def shown(error: BaseException) -> str:
    """The message and the traceback, without the frames of this package."""
    own = os.path.dirname(os.path.abspath(__file__))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith((own + os.sep, "<frozen"))]
    lines = [f"{type(error).__name__}: {error}".rstrip(": ")]
    lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}: {frame.line or ''}".rstrip(": ") for frame in frames]
    return "\n".join(lines)


def main(text: str) -> None:
    argument = json.loads(text)
    # On these the trainer saves first, and then ends this process. Processes that environments start do not ignore them.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            _core.WorkerChannel.survive(number)
    memory = mmap.mmap(0, 0)
    channel = _core.WorkerChannel(argument["parent"])
    # Environments read nothing from the memory.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    # The trainer shows what is printed, line by line.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    # A thread that is bound to a core starts this process; it may use those of the trainer.
    os.sched_setaffinity(0, os.sched_getaffinity(argument["parent"]))
    words = np.frombuffer(memory, dtype=np.uint32)
    task = task_of(words, text)
    _register.is_importing = True
    _gym.import_from(task["directory"])
    rows, code = Rows(task, words), 0
    try:
        work(rows, words, channel)
        rows.close()
    except SystemExit as error:
        # The trainer shows the code.
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
    finally:
        # An environment may have started threads that do not end.
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def task_of(words: NDArray[np.uint32], argument: str) -> dict[str, Any]:
    """The task of a worker: its argument, and what all workers of its group need."""
    own: dict[str, Any] = json.loads(argument)
    first, size = own["task"]
    of_group: dict[str, Any] = json.loads(words[first:].tobytes()[:size])
    return own | of_group


def work(rows: Rows, words: NDArray[np.uint32], channel: _core.WorkerChannel) -> None:
    """Steps the environments, turn by turn, until the trainer ends it or an environment fails."""
    control = rows.task["control"]
    turn = int(words[control["done"]])
    while True:
        turn = channel.wait(control["turn"], turn)
        if words[control["close"]]:
            break
        try:
            rows.turn(turn & 1)
        except Failed as failed:
            row, message = failed.args
            leave(words, rows.task, "text_bytes", message)
            words[control["failed"]] = row
            channel.post(control["done"])
            break
        if rows.lacking:
            leave(words, rows.task, "keys_bytes", keys_instead(rows.lacking.pop(), rows.task["metrics"]))
        channel.post(control["done"])


def keys_instead(info: Any, metrics: list[str]) -> str:
    """A line for each metric (operant-gym's keys.rs): some keys of `info`, the most similar first; empty for a metric that is one."""
    import difflib

    keys = [str(key) for key in info] if isinstance(info, dict) else []
    lines = []
    for metric in metrics:
        similar = sorted(keys, key=lambda key: -difflib.SequenceMatcher(None, metric, key).ratio())
        lines.append("" if metric in keys else ", ".join(map(repr, similar[:8])) or "no keys")
    return "\n".join(lines)


def leave(words: NDArray[np.uint32], task: dict[str, Any], length: str, message: str) -> None:
    """Leaves a text, and its length in a word of the worker: its beginning and its end, if it is too long."""
    control, most = task["control"], task["text_bytes"]
    text = message.encode(errors="replace")
    if len(text) > most:
        text = text[: most // 2 - 8] + b"\n  ...\n" + text[-(most // 2) + 8 :]
    words[control["text"] :].view(np.uint8)[: len(text)] = np.frombuffer(text, np.uint8)
    words[control[length]] = len(text)


if __name__ == "__main__":
    main(sys.argv[1])
