"""Environments with spaces and masks of all kinds, which workers import as `echo_envs:Class`."""

from __future__ import annotations

import copy
import os
import pickle
import zlib
from typing import Any

import gymnasium
import numpy as np
from gym_envs import Steady, box, flat_action
from gymnasium import spaces

ECHOES: list[tuple[Any, Any]] = [
    (spaces.Discrete(6, start=1), spaces.Discrete(3, start=-1)),
    (spaces.Dict({"joint-pos": spaces.Discrete(4, start=-7), "battery level": box(2, dtype=np.float64)}), spaces.MultiDiscrete([3, 4], start=[-1, 7])),
    (spaces.Tuple((spaces.Discrete(3, start=2), spaces.Dict(b=spaces.MultiBinary((2, 3))))), spaces.Tuple((spaces.Discrete(3), spaces.Discrete(2, start=1), spaces.MultiBinary(2)))),
    (spaces.Discrete(5), spaces.Discrete(5)),
    (spaces.MultiDiscrete([3, 4], start=[1, 2]), spaces.MultiDiscrete([[2, 3], [4, 2]], np.int32)),
    (spaces.MultiDiscrete([[3, 400], [2, 5]], np.int32, start=[[0, 9], [-3, 1]]), spaces.MultiBinary((2, 2))),
    (spaces.MultiBinary((2, 3)), spaces.MultiBinary(3)),
    (box(3, 2), box(2, 2)),
    (spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Box(5, 10, (1,), np.float64)),
    (spaces.Box(-1000, 1000, (1,), np.int64), spaces.Box(np.array([-np.inf, 0.1]), np.array([3, np.inf]), dtype=np.float64)),
    (spaces.Box(0, 3, (4,), np.uint8), spaces.Box(-0.1, 0.1, (2,), np.float16)),
    (spaces.Box(0, 1, (5,), np.uint8), box()),
    (box(), spaces.Dict(steer=spaces.Discrete(3), brake=spaces.Discrete(2, start=1))),
    (spaces.Dict({"action": spaces.Discrete(3), "value": box(2), "pose_one_hot": spaces.Discrete(2), "pose": spaces.Discrete(3)}), spaces.Dict(force=box(2), lift=spaces.Box(0, 0.1, (1, 2), np.float64))),
    (spaces.Dict({"位置": spaces.Discrete(3), "速度": box(2)}), spaces.Dict(arm=spaces.Tuple([spaces.MultiDiscrete([2, 3], start=[4, 0])]), hand=spaces.Discrete(2, start=9))),
    (spaces.Dict(f=spaces.Box(-1, 1, (1,), np.float16), u=spaces.Box(0, 65535, (2,), np.uint16), i=spaces.Box(-128, 127, (1, 1), np.int8), b=box(2, dtype=np.bool_, low=0, high=1)), spaces.MultiDiscrete([2, 3], start=[5, 0])),
]  # fmt: skip


class Echoes(Steady):
    """Random observations; appends each one with its mask and the action that was taken to a file."""

    def __init__(self, number: int, log: str) -> None:
        super().__init__(6)
        self.observation_space, self.action_space = ECHOES[number]
        self.log, self.number, self.masked = log, number, number in (0, 2, 15)
        self.last: Any = None

    def seen(self, action: Any) -> Any:
        if self.last is not None:
            with open(self.log, "ab") as file:
                pickle.dump((*self.last, action), file)
        self.last = self.observation_space.sample(), self.mask() if self.masked else None
        return self.last[0]

    def mask(self) -> Any:
        """As the environment of each space might give it."""
        bit = int(self.np_random.integers(2))
        tuple_of = (np.array([1, 0, 1]), [True, bit == 0], [[1, 0], [bit, 1]])
        return {0: np.eye(3, dtype=np.int8)[bit], 2: tuple_of, 15: np.array([1, 1, 0, 1, bit], np.bool_)}[self.number]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        if seed is not None:
            self.observation_space.seed(seed)
        self.last = None
        return *Steady.reset(self)[:1], {"action_mask": self.last[1]} if self.masked else {}

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        result = super().step(action)
        return *result[:4], {"action_mask": self.last[1]} if self.masked else {}


class Judged(Echoes):
    """The same observations and masks in every episode, and rewards that depend on each number of an action."""

    def __init__(self, number: int) -> None:
        super().__init__(number, os.devnull)
        self.observation_space = copy.deepcopy(self.observation_space)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=7)

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, _, *rest = super().step(action)
        return obs, zlib.crc32(repr(flat_action(self.action_space, action).tolist()).encode()) % 1024 / 1024, *rest


class Keyword(Steady):
    """An argument of any kind."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Masks(Steady):
    """Action masks of a kind."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        combined = {"joint": [2, 2], "padded": [2, 3]}
        self.action_space = spaces.MultiDiscrete(combined[kind]) if kind in combined else spaces.Discrete(4)

    def info(self) -> dict[str, Any]:
        masks = {
            "additive": np.array([0, -1e9, 0, -1e9]),
            "joint": np.array([[0, 1], [1, 0]]),
            "padded": np.array([[1, 1, 0], [1, 0, 1]]),
            "late": np.array([1, 0, 1, 0]) if self.t else None,
            "none_legal": np.full(4, self.t != 3),
            "at_the_end": np.full(4, self.t != self.length),
            "board": np.eye(2, dtype=np.int8),
        }
        return {"action_mask": mask} if (mask := masks[self.kind]) is not None else {}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        return super().reset(seed=seed)[0], self.info()

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self.kind == "board" and action not in (0, 3):
            raise RuntimeError(f"{action} is illegal")
        return *super().step(action)[:4], self.info()
