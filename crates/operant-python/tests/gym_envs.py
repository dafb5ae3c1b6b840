"""Environments of test_gym.py, well-behaved and faulty, which workers import as `gym_envs:Class`; and its spaces."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import operant
from operant import math as om

IS_WORKER = "_worker" in sys.argv[0]


def first_time(marker: str) -> bool:
    """Whether no process has asked before for this file."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        return True
    return False


class Steady(gymnasium.Env):
    """Episodes of `length` steps with a reward of 1 each. It observes the episode's number, the step and the action."""

    max_episode_steps: int | None = 1000
    observation_space: Any = spaces.Box(0, np.inf, (3,), np.float32)
    action_space: Any = spaces.Discrete(3)

    def __init__(self, length: int = 10) -> None:
        self.length = length
        self.episode, self.t, self.is_over = -1, 0, True

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.episode, self.t, self.is_over = self.episode + 1, 0, False
        return self.seen(0), {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self.is_over:
            raise RuntimeError("a step after the end of an episode")
        if action not in self.action_space:
            raise RuntimeError(f"{action!r} is not in {self.action_space}")
        self.t += 1
        self.is_over = self.t == self.length
        return self.seen(action), 1.0, self.is_over, False, {}

    def seen(self, action: Any) -> Any:
        return np.array([self.episode, self.t, np.sum(action)], np.float32)


def make_steady(length: int = 5) -> Steady:
    """A function that makes an environment."""
    return Steady(length)


class Scored(Steady):
    """It reports numbers of an episode where it ends."""

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, reward, terminated, truncated, info = super().step(action)
        if terminated:
            info |= {"is_success": True, "score": np.float32(self.t + 0.5), "word": "high"}
        return obs, reward, terminated, truncated, info


class OldReset(Steady):
    """The interface of gym before 0.26."""

    def reset(self) -> Any:  # type: ignore[override]
        return super().reset()[0]


class Agents:
    """As PettingZoo has environments."""

    possible_agents = ("a", "b")

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    action_space = observation_space

    def reset(self, seed: int | None = None, options: Any = None) -> Any:
        return dict.fromkeys(self.possible_agents, 0), {}

    def step(self, actions: Any) -> Any:
        raise NotImplementedError


def make_vector() -> Any:
    """Several environments in one."""
    return gymnasium.vector.SyncVectorEnv([Steady] * 2)


class Unlimited(Steady):
    """No time limit of its own, and no end."""

    max_episode_steps = None

    def __init__(self) -> None:
        super().__init__(-1)


class Image(Steady):
    """Images that the convolutions take, and a direction."""

    picture = spaces.Box(0, 255, (40, 36, 3), np.uint8)
    observation_space = spaces.Dict(image=picture, direction=spaces.Discrete(4, start=1))

    def seen(self, action: Any) -> Any:
        return {"image": np.full((40, 36, 3), 20 * self.t, np.uint8), "direction": 1 + self.t % 4}


class Grid(Steady):
    """Two components of an action, which are masked, as info["action_mask"] has them."""

    action_space = spaces.MultiDiscrete([3, 4])

    def __init__(self, named: str = "info") -> None:
        super().__init__()
        self.named = named

    def legal(self) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(3) == self.t % 3, np.arange(4) <= self.t % 4

    def info(self) -> dict[str, Any]:
        return {"action_mask": self.legal()} if self.named == "info" else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)[0], self.info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if not all(legal[one] for legal, one in zip(self.legal(), action, strict=True)):
            raise RuntimeError(f"{action} is illegal at step {self.t}")
        return *super().step(action)[:4], self.info()


class MaskedByMethod(Grid):
    """As sb3-contrib expects it."""

    def __init__(self) -> None:
        super().__init__("method")

    def action_masks(self) -> np.ndarray:
        return np.concatenate(self.legal())


class HalfMasked(Grid):
    """No choice of the second component is legal in the fourth step."""

    def legal(self) -> tuple[np.ndarray, np.ndarray]:
        return super().legal()[0], np.full(4, self.t != 3)


class MaskedByName(Grid):
    """A dictionary of actions, and one of masks, whose keys are in another order."""

    action_space = spaces.Dict(column=spaces.Discrete(4), row=spaces.Discrete(3))

    def info(self) -> dict[str, Any]:
        row, column = self.legal()
        return {"action_mask": {"row": row, "column": column}}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if not (self.legal()[0][action["row"]] and self.legal()[1][action["column"]]):
            raise RuntimeError(f"{action} is illegal at step {self.t}")
        return *Steady.step(self, action)[:4], self.info()

    def seen(self, action: Any) -> Any:
        return np.array([self.episode, self.t, 0], np.float32)


def reserved_part() -> Steady:
    """Observations that hold the legal actions, as of PettingZoo."""
    env = Steady()
    env.observation_space = spaces.Dict(action_mask=spaces.MultiBinary(3), observation=Steady.observation_space)
    return env


class Named(Steady):
    """Observations and actions of nested spaces."""

    flags = spaces.Dict(a=spaces.Discrete(9), b=spaces.MultiBinary(9))
    observation_space = spaces.Tuple([flags, Steady.observation_space])
    action_space = spaces.Dict(x=spaces.Discrete(3, start=-1), y=spaces.Tuple([spaces.MultiDiscrete([2, 3])]))

    def seen(self, action: Any) -> Any:
        return {"a": self.t % 9, "b": np.arange(9) < self.t}, np.array([self.episode, self.t, 0], np.float32)


class Movable(Steady):
    """An environment that changes the working directory."""

    def __init__(self) -> None:
        super().__init__()
        os.chdir("/")


class Masker(gymnasium.Wrapper):
    """Names the legal actions, as sb3-contrib's ActionMasker does."""

    def action_masks(self) -> list[int]:
        return [1, 0, 1]


class Log(gymnasium.Wrapper):
    """Appends a line of JSON to a file for each call."""

    count = 0

    def __init__(self, env: Any, path: str) -> None:
        super().__init__(env)
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.id, Log.count = f"{os.getpid()}.{Log.count}", Log.count + 1

    def write(self, **values: Any) -> None:
        os.write(self.file, (json.dumps({"env": self.id, **values}, default=np.ndarray.tolist) + "\n").encode())

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed)
        self.write(call="reset", seed=seed, obs=numbers(obs), info=numbers(info))
        return obs, info

    def step(self, action: Any) -> Any:
        obs, reward, terminated, truncated, info = self.env.step(action)
        assert action in self.action_space, action
        ended = bool(terminated or truncated)
        self.write(call="step", action=numbers(action), obs=numbers(obs), info=numbers(info), ended=ended)
        return obs, reward, terminated, truncated, info


def numbers(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): numbers(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [numbers(inner) for inner in value]
    return np.asarray(value).tolist()


def calls(log: Any) -> dict[str, list[dict[str, Any]]]:
    """The calls of a log by environment, in order."""
    found: dict[str, list[dict[str, Any]]] = {}
    with open(log) as file:
        for call in map(json.loads, file):
            found.setdefault(call["env"], []).append(call)
    return found


def logged(log: str, inner: str = "Steady", **arguments: Any) -> Log:
    """An environment of this module or of Gymnasium, logged."""
    return Log(globals()[inner](**arguments) if inner in globals() else gymnasium.make(inner, **arguments), log)


# --- The same rules as a Gymnasium environment and as a world: their training has the same results.

WALK_OBSERVATIONS: dict[str, Any] = {
    "reals": spaces.Box(-np.inf, np.inf, (3,), np.float32),
    "index": spaces.Discrete(7),
    "bits": spaces.MultiBinary(40),
    "bytes": spaces.Box(0, 255, (2, 3), np.uint8),
    "indices": spaces.MultiDiscrete([7, 300]),
}
WALK_ACTIONS: dict[str, Any] = {
    "choice": spaces.Discrete(3),
    "pair": spaces.MultiDiscrete([3, 2]),
    "reals": spaces.Box(np.float32([-1, -2]), np.float32([1, 0.5])),
}
# The names of the flattened parts of all of them.
WALK_PARTS = {"a_0": "reals", "a_1": "index", "b_u": "bits", "b_v": "bytes", "c": "indices"}
WALK_LIMIT = 9


def walk_seen(p: Any, n: Any, y: Any, real: Any) -> dict[str, Any]:
    """What is observed of the place 0 to 6, the number of the step, and a real number."""
    return {
        "reals": [real(p) - 3.0, real(n) * 0.5, y],
        "index": p,
        "bits": [p > k % 7 for k in range(40)],
        "bytes": [[p * 40, n, 255], [p + n, 7, n * n]],
        "indices": [p, n * 20 + p],
    }


def walk_legal(n: Any) -> list[Any]:
    return [n % 3 != 1, n >= 0, n % 3 != 2]


class Walk(gymnasium.Env):
    """Walks from the middle of seven places until it leaves them."""

    max_episode_steps = WALK_LIMIT

    def __init__(self, obs: str = "reals", act: str = "choice", masked: bool = False) -> None:
        space = WALK_OBSERVATIONS
        self.obs, self.act, self.masked = obs, act, masked
        a, b = spaces.Tuple((space["reals"], space["index"])), spaces.Dict(u=space["bits"], v=space["bytes"])
        self.observation_space: Any = spaces.Dict(a=a, b=b, c=space["indices"]) if obs == "parts" else space[obs]
        named = spaces.Dict(a=spaces.Discrete(3, start=-1), b=spaces.Tuple([spaces.Discrete(2)]))
        self.action_space: Any = named if act == "named" else WALK_ACTIONS[act]

    def seen(self) -> tuple[Any, dict[str, Any]]:
        values = walk_seen(self.p, self.n, float(self.y), float)
        arrays = {name: np.asarray(values[name], space.dtype) for name, space in WALK_OBSERVATIONS.items()}
        info = {"action_mask": np.array(walk_legal(self.n), np.int8)} if self.masked else {}
        if self.obs == "parts":
            nested = {"a": (arrays["reals"], arrays["index"]), "b": {"u": arrays["bits"], "v": arrays["bytes"]}}
            return {**nested, "c": arrays["indices"]}, info
        return arrays[self.obs], info

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.p, self.n, self.y = 3, 0, np.float32(0)
        return self.seen()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        assert action in self.action_space, action
        if self.act == "reals":
            self.p, self.y = self.p + (1 if action[1] > -0.5 else -1), self.y + action[0]
        elif self.act == "choice":
            assert not self.masked or walk_legal(self.n)[action]
            self.p += int(action) - 1
        else:
            move, lift = (action["a"] + 1, action["b"][0]) if self.act == "named" else action
            self.p, self.y = self.p + int(move) - 1, self.y + np.float32(0.5 * int(lift))
        self.n += 1
        obs, info = self.seen()
        return obs, self.p * 0.25, self.p in (0, 6), False, info


@operant.world(max_episode_steps=WALK_LIMIT)
class WalkWorld:
    """As `Walk`."""

    p: operant.Uint
    n: operant.Uint
    y: operant.Float

    def __init__(self, obs: str, act: str) -> None:
        self.obs = obs
        parts = {part: WALK_OBSERVATIONS[name] for part, name in WALK_PARTS.items()}
        self.observation_space: Any = spaces.Dict(parts) if obs == "parts" else WALK_OBSERVATIONS[obs]
        self.action_space: Any = WALK_ACTIONS["pair" if act == "named" else act]

    def reset(self, draws: Any) -> Any:
        return self.State(p=3, n=0, y=0.0)  # type: ignore[attr-defined]

    def step(self, s: Any, action: Any, draws: Any) -> Any:
        if isinstance(self.action_space, spaces.Box):
            s.p, s.y = om.where(action[1] > -0.5, s.p + 1, s.p - 1), s.y + action[0]
        elif isinstance(self.action_space, spaces.Discrete):
            s.p = s.p + action - 1
        else:
            s.p, s.y = s.p + action[0] - 1, s.y + om.to_float(action[1]) * 0.5
        s.n = s.n + 1
        return s, om.to_float(s.p) * 0.25, (s.p == 0) | (s.p == 6)

    def observe(self, s: Any) -> Any:
        seen = walk_seen(s.p, s.n, s.y, om.to_float)
        return {part: seen[name] for part, name in WALK_PARTS.items()} if self.obs == "parts" else seen[self.obs]


@operant.world(max_episode_steps=WALK_LIMIT)
class MaskedWalkWorld(WalkWorld):
    def legal(self, s: Any) -> Any:
        return walk_legal(s.n)


# --- Spaces, and the engine's specification of each


def box(*shape: int, dtype: Any = np.float32, low: float = -2, high: float = 2) -> spaces.Box:
    return spaces.Box(low, high, shape, dtype)


def count_of_words(spec: dict[str, Any]) -> int:
    """Words of an observation without parts."""
    ((kind, space),) = spec.items()
    if kind == "box":
        return len(space["low"])
    per_word = {"binary": 32, "bytes": 4, "index": 4 if max(space.get("below", [0])) <= 256 else 2}[kind]
    return -(-int(np.prod(space["shape"])) // per_word)


def unpacked(spec: dict[str, Any], words: np.ndarray) -> np.ndarray:
    """The numbers of an observation, as the engine reads them from its words (`ObsSpace` in operant-env)."""
    if "parts" in spec:
        ends = np.cumsum([count_of_words(part) for _, part in spec["parts"]])
        own = np.split(words, ends[:-1])
        return np.concatenate([unpacked(part, own) for (_, part), own in zip(spec["parts"], own, strict=True)])
    ((kind, space),) = spec.items()
    if kind == "box":
        return words.view(np.float32).astype(np.float64)
    bits = {"binary": 1, "bytes": 8, "index": 8 if max(space.get("below", [0])) <= 256 else 16}[kind]
    fields = (words[:, None] >> np.arange(0, 32, bits, dtype=np.uint32)) & ((1 << bits) - 1)
    return fields.ravel()[: int(np.prod(space["shape"]))].astype(np.float64)


OBSERVATIONS: list[tuple[Any, dict[str, Any]]] = [
    (box(3), {"box": {"low": [-2.0] * 3, "high": [2.0] * 3}}),
    (box(2, 2, dtype=np.float64, low=-np.inf, high=np.inf), {"box": {"low": ["-inf"] * 4, "high": ["inf"] * 4}}),
    (box(), {"box": {"low": [-2.0], "high": [2.0]}}),
    (box(3, dtype=np.int64), {"box": {"low": [-2.0] * 3, "high": [2.0] * 3}}),
    (box(2, dtype=np.uint16, low=0, high=60_000), {"box": {"low": [0.0] * 2, "high": [60_000.0] * 2}}),
    (box(dtype=np.uint8, low=0, high=255), {"box": {"low": [0.0], "high": [255.0]}}),
    (box(5, 3, 3, dtype=np.uint8, low=0, high=255), {"bytes": {"shape": [5, 3, 3]}}),
    (box(5, dtype=np.uint8, low=3, high=9), {"bytes": {"shape": [5]}}),
    (box(5, 7, dtype=np.uint8, low=0, high=1), {"binary": {"shape": [5, 7]}}),
    (box(33, dtype=np.bool_, low=0, high=1), {"binary": {"shape": [33]}}),
    (spaces.MultiBinary(70), {"binary": {"shape": [70]}}),
    (spaces.MultiBinary((3, 4)), {"binary": {"shape": [3, 4]}}),
    (spaces.Discrete(5), {"index": {"shape": [], "below": [5]}}),
    (spaces.Discrete(5, start=-7), {"index": {"shape": [], "below": [5]}}),
    (spaces.Discrete(256), {"index": {"shape": [], "below": [256]}}),
    (spaces.Discrete(65_536, start=3), {"index": {"shape": [], "below": [65_536]}}),
    (spaces.MultiDiscrete([7] * 6), {"index": {"shape": [6], "below": [7]}}),
    (spaces.MultiDiscrete([[3, 257], [5, 6]]), {"index": {"shape": [2, 2], "below": [3, 257, 5, 6]}}),
    (spaces.MultiDiscrete([3, 4], np.int8, start=[-1, 5]), {"index": {"shape": [2], "below": [3, 4]}}),
]
ACTIONS: list[tuple[Any, dict[str, Any]]] = [
    (spaces.Discrete(3), {"discrete": [3]}),
    (spaces.Discrete(3, start=-5), {"discrete": [3]}),
    (spaces.MultiDiscrete([3, 4]), {"discrete": [3, 4]}),
    (spaces.MultiDiscrete([[3, 4, 5], [6, 7, 8]], np.int16), {"discrete": [3, 4, 5, 6, 7, 8]}),
    (spaces.MultiDiscrete([3, 4], start=[-1, 10]), {"discrete": [3, 4]}),
    (spaces.MultiBinary((2, 2)), {"discrete": [2] * 4}),
    (box(2, 2), {"box": {"low": [-2.0] * 4, "high": [2.0] * 4}}),
    (box(dtype=np.float64), {"box": {"low": [-2.0], "high": [2.0]}}),
    (
        spaces.Box(np.float32([-1, -np.inf]), np.float32([np.inf, 2])),
        {"box": {"low": [-1.0, "-inf"], "high": ["inf", 2.0]}},
    ),
    (spaces.Dict(b=spaces.Discrete(2, start=1), a=spaces.MultiDiscrete([3, 4])), {"discrete": [2, 3, 4]}),
    (
        spaces.Tuple([box(2), spaces.Dict(x=box(1, low=0, dtype=np.float64))]),
        {"box": {"low": [-2.0, -2.0, 0.0], "high": [2.0] * 3}},
    ),
]

BYTES, BITS = box(2, dtype=np.uint8, low=0, high=255), box(2, dtype=np.bool_, low=0, high=1)
# Observations outside their space, spaces that are not supported, and what the errors say.
OUTSIDE: list[tuple[Any, Any, str]] = [
    (box(3), np.zeros(4), r"has the shape \(3,\), but an observation had the shape \(4,\)"),
    (box(3), np.zeros((1, 3)), r"shape \(1, 3\)"),
    (box(3), None, r"shape \(\)"),
    (box(), None, "elements of type object"),
    (box(2), ["a", "b"], "elements of type <U1"),
    (BYTES, np.int64([0, 256]), "that are not bytes"),
    (BYTES, np.zeros(2), "that are not bytes"),
    (BITS, [0, 2], "from 0 to 2, not 0 and 1"),
    (spaces.Discrete(3), 3, r"observation 3 is not in Discrete\(3\)"),
    (spaces.Discrete(3), -1, "is not in"),
    (spaces.Discrete(3), 1.0, "of type float64, not whole numbers"),
    (spaces.Discrete(3), [1], r"shape \(1,\)"),
    (spaces.MultiDiscrete([3, 4]), [2, 4], "is not in"),
    (spaces.Dict(a=spaces.Dict(b=box(3))), {"a": {"b": np.zeros(2)}}, r"^observation_space\['a'\]\['b'\] has"),
]
UNSUPPORTED_OBSERVATIONS: list[tuple[Any, str]] = [
    (spaces.Text(3), "observation_space: Text is not supported; .* wrap the environment"),
    (spaces.Graph(box(2), None), "Graph is not supported"),
    (spaces.Sequence(box(2)), "Sequence is not supported"),
    (spaces.Dict(a=spaces.Tuple([box(2), spaces.Text(3)])), r"observation_space\['a'\]\[1\]: Text"),
    (spaces.Discrete(65_537), "observation_space: .* more than 65536 values"),
    (spaces.MultiDiscrete([3, 65_537]), "more than 65536 values"),
    (spaces.Dict(), "has no arrays"),
    (box(0), "has no numbers"),
]
UNSUPPORTED_ACTIONS: list[tuple[Any, str]] = [
    (box(2, dtype=np.int32), "action_space: .* has a Box of integers, which is not supported; use Discrete or MultiDiscrete"),
    (spaces.Text(3), "action_space: Text is not supported"),
    (spaces.Dict(a=spaces.Text(3)), r"action_space\['a'\]: Text is not supported"),
    (spaces.Sequence(box(2)), "Sequence is not supported"),
    (spaces.Dict(a=box(2), b=spaces.Discrete(2)), "mixes discrete and continuous actions; a policy has one kind"),
    (spaces.Tuple([spaces.Dict(a=box(2), b=spaces.Discrete(2))]), r"action_space\[0\]: .* mixes discrete and continuous actions"),
    (spaces.Tuple([]), "has no actions"),
]


def flat_action(space: Any, action: Any) -> np.ndarray:
    """The engine's numbers of an action."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        keys = space.spaces if isinstance(space, spaces.Dict) else range(len(space.spaces))
        return np.concatenate([flat_action(space[key], action[key]) for key in keys])
    return np.float32(action - getattr(space, "start", 0)).reshape(-1)


# --- Faults


def stuck(env: Any, result: Any) -> Any:
    raise RuntimeError("the gripper is stuck")


def wordy(env: Any, result: Any) -> Any:
    raise RuntimeError("first words" + 100_000 * " ä" + " last words")


def unprintable(env: Any, result: Any) -> Any:
    raise RuntimeError("no file \udcff of the gripper")


def quits(env: Any, result: Any) -> Any:
    sys.exit(3)


def leaves(env: Any, result: Any) -> Any:
    os._exit(9)


def kills_itself(env: Any, result: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def aborts(env: Any, result: Any) -> Any:
    os.abort()


def interrupts(env: Any, result: Any) -> Any:
    raise KeyboardInterrupt


def hangs(env: Any, result: Any) -> Any:
    threading.Event().wait()


def replaced(place: int, value: Any) -> Callable[[Any, Any], Any]:
    """A fault that returns something else in one place."""
    return lambda env, result: (*result[:place], value, *result[place + 1 :])


# What each fault does, and what the warning about it says.
FAULTS: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "stuck": (stuck, "RuntimeError: the gripper is stuck"),
    "wordy": (wordy, "RuntimeError: first words"),
    "unprintable": (unprintable, "RuntimeError: no file"),
    "quits": (quits, "the worker process ended with exit code 3"),
    "leaves": (leaves, "the worker process ended with exit code 9"),
    "kills_itself": (kills_itself, "the worker process was killed by signal 9"),
    "aborts": (aborts, "the worker process was killed by signal 6"),
    "interrupts": (interrupts, "the worker process "),
    "hangs": (hangs, "no answer within 5 s (env.timeout)"),
    "nan_reward": (replaced(1, float("nan")), "its reward is NaN"),
    "inf_reward": (replaced(1, np.float32("-inf")), "its reward is -inf"),
    "huge_reward": (replaced(1, 1e39), "its reward is "),
    "no_reward": (replaced(1, None), "TypeError: float"),
    "nan_obs": (replaced(0, np.array([0, np.nan, 0], np.float32)), "its observation contains NaN (number 1)"),
    "huge_obs": (replaced(0, np.array([0, 0, 1e39])), "its observation contains inf (number 2)"),
    "wide_obs": (replaced(0, np.zeros(4, np.float32)), "an observation had the shape (4,)"),
    "text_obs": (replaced(0, np.array(["a", "b", "c"])), "an observation had elements of type <U1"),
    "no_obs": (replaced(0, None), "an observation had the shape ()"),
    "far_obs": (replaced(0, 6), "the observation 6 is not in Discrete(6)"),
    "real_obs": (replaced(0, 2.5), "an observation had elements of type float64, not whole numbers"),
    "no_mask": (replaced(4, {}), 'no action mask (info["action_mask"] or action_masks())'),
    "empty_mask": (replaced(4, {"action_mask": np.zeros(3, np.int8)}), "the action mask allows no action"),
    "wide_mask": (replaced(4, {"action_mask": np.ones(4, np.int8)}), "the action mask has the shape (4,); expected (3,)"),
    "four_values": (lambda env, result: result[:4], "step() returned 4 values, not (observation, reward, terminated,"),
    "no_values": (lambda env, result: None, "step() returned NoneType, not (observation"),
    "only_obs": (lambda env, result: result[0], "reset() returned ndarray, not (observation, info)"),
}


class Faulty(Steady):
    """A fault of this name.

    With `at`, it happens in step `after` or in the second reset of the environment whose first seed that is. With
    `beyond`, it happens in every call of environments with a larger first seed, as those of evaluations have. Else it
    happens in every step from the `after`-th of a process on. A marker is a file that it makes: it happens only once.
    """

    steps = 0

    def __init__(
        self, fault: str, at: int = -1, beyond: int = -1, after: int = 7, call: str = "step", marker: str = ""
    ) -> None:
        super().__init__()
        self.fault, self.at, self.after, self.call, self.marker, self.beyond = fault, at, after, call, marker, beyond
        self.first_seed, self.is_masked = -1, "mask" in fault
        if fault in ("far_obs", "real_obs"):
            self.observation_space = spaces.Discrete(6)

    def seen(self, action: Any) -> Any:
        return self.t % 6 if isinstance(self.observation_space, spaces.Discrete) else super().seen(action)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        if self.first_seed < 0 and seed is not None:
            self.first_seed = seed
        obs, info = super().reset(seed=seed)
        return self.result("reset", (obs, {"action_mask": np.ones(3, np.int8)} if self.is_masked else info))

    def step(self, action: Any) -> Any:
        Faulty.steps += 1
        obs, *rest, info = super().step(action)
        return self.result("step", (obs, *rest, {"action_mask": np.ones(3, np.int8)} if self.is_masked else info))

    def result(self, call: str, result: Any) -> Any:
        due = call == self.call and IS_WORKER
        if self.at >= 0:
            due = due and self.first_seed == self.at and (self.t == self.after if call == "step" else self.episode == 1)
        elif self.beyond >= 0:
            due = due and self.first_seed > self.beyond
        else:
            due = due and Faulty.steps >= self.after
        due = due and (not self.marker or first_time(self.marker))
        return FAULTS[self.fault][0](self, result) if due else result


class Broken(Steady):
    """Faulty at once, in the constructor or in the first reset, everywhere or in workers only. `close` fails, too."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where
        if where == "init" or where == "worker_init" and IS_WORKER:
            raise RuntimeError("no display for the gripper")
        if where == "exit":
            sys.exit("no license for the gripper")

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        if self.where in ("reset", "reset_and_close") or self.where == "worker_reset" and IS_WORKER:
            raise RuntimeError("no display for the gripper")
        return super().reset(seed=seed)[0] if self.where == "no_tuple" else super().reset(seed=seed)

    def close(self) -> None:
        if self.where == "reset_and_close":
            raise AttributeError("the gripper has no window")


class Threaded(Steady):
    """Leaves a thread that makes a file once the main thread has ended, and then waits forever."""

    def __init__(self, marker: str) -> None:
        super().__init__()
        self.marker = marker
        threading.Thread(target=self.wait).start()

    def wait(self) -> None:
        threading.main_thread().join()
        first_time(self.marker)
        threading.Event().wait()


class Odd(Steady):
    """Unusual, but no failure."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        if not IS_WORKER:
            print("odd text of the constructor")
        elif how == "closes":
            os.closerange(0, 2)
        elif how == "closes_stdout":
            sys.stdout.close()
        elif how == "thread":
            threading.Thread(target=threading.Event().wait).start()
        elif how == "ignores":
            for number in set(signal.valid_signals()) - {signal.SIGKILL, signal.SIGSTOP}:
                with contextlib.suppress(OSError):
                    signal.signal(number, signal.SIG_IGN)

    def step(self, action: Any) -> Any:
        if self.how == "prints":
            print("odd text of a step " * 500)
            os.write(1, b"odd text of another kind\n")
        obs, reward, *ends, info = super().step(action)
        if self.how == "numpy":
            return obs, np.float32(reward), *map(np.bool_, ends), None
        return obs, int(reward), *ends, info

    def close(self) -> None:
        if self.how == "close_raises" and IS_WORKER:
            raise RuntimeError("the window has gone")
        if self.how == "close_hangs" and IS_WORKER:
            threading.Event().wait()


class Owner(Steady):
    """Has a process of its own, which ends with `close`, is `left`, ignores SIGTERM, or is forked. It writes what happened to a log."""

    def __init__(self, log: str, how: str) -> None:
        super().__init__()
        self.log, self.how = log, how
        if how == "forked":
            self.pid = os.fork()
            if self.pid == 0:
                signal.pause()
                os._exit(0)
        else:
            deaf = "trap '' TERM; " if how == "deaf" else ""
            self.pid = subprocess.Popen(["sh", "-c", f"{deaf}exec sleep 300"]).pid
        self.write(self.pid)

    def write(self, what: Any) -> None:
        with open(self.log, "a") as log:
            log.write(f"{what}\n")

    def close(self) -> None:
        if self.how in ("ended", "forked"):
            os.kill(self.pid, signal.SIGTERM)
            os.waitpid(self.pid, 0)
            self.write("closed")


class Waiting(Steady):
    """Makes a file, and waits forever: in a worker's constructor, in a step, or while its spaces are read."""

    def __init__(self, marker: str, call: str) -> None:
        super().__init__()
        self.marker, self.call = marker, call
        self.wait("init")

    def wait(self, call: str) -> None:
        if IS_WORKER and call == self.call or self.call == "record":
            first_time(self.marker)
            threading.Event().wait()

    def step(self, action: Any) -> Any:
        self.wait("step")
        return super().step(action)


class Repaired(Steady):
    """Raises from the `after`-th step of a process on, until there is a file."""

    steps = 0

    def __init__(self, file: str, after: int) -> None:
        super().__init__()
        self.file, self.after = file, after

    def step(self, action: Any) -> Any:
        Repaired.steps += 1
        if Repaired.steps >= self.after and not os.path.exists(self.file):
            raise RuntimeError("the gripper is stuck")
        return super().step(action)


class Expired(Steady):
    """Raises from the 300th step of the first process on, and in every step of later ones."""

    steps = 0

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file

    def step(self, action: Any) -> Any:
        Expired.steps += 1
        if Expired.steps >= 300:
            first_time(self.file)
        if os.path.exists(self.file):
            raise RuntimeError("the license has expired")
        return super().step(action)


class Other:
    """A class that is no environment."""


class Partial(gymnasium.Env):
    """An environment without spaces."""


class Duck:
    """As an environment, except its spaces, and without a base class."""

    def reset(self, seed: int | None = None) -> tuple[Any, dict[str, Any]]:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), 0.0, True, False, {}


NUMBER = 3


class Wide(Steady):
    """A box whose bounds do not fit into a command-line argument."""

    observation_space = spaces.Box(-np.inf, np.inf, (20_000,), np.float32)

    def seen(self, action: Any) -> Any:
        return np.full(20_000, self.t, np.float32)
