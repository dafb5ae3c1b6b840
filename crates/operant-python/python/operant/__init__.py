"""operant: reinforcement learning with PPO and PQN on CPUs and NVIDIA GPUs.

    import operant

    envs = operant.make_vec("CartPole-v1", num_envs=8192, seed=1)
    obs, info = envs.reset()
    obs, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())

    run = operant.train("cartpole", seed=1)
    actions = run.policy(obs)

`make_vec` gives a `gymnasium.vector.VectorEnv`, `make` a `gymnasium.Env`; `gymnasium.make_vec("operant/CartPole-v1")`
works too once this package is imported. Gymnasium is imported when an environment is made, not before. `python -m operant`
is the `operant` command.
"""

from __future__ import annotations

from operant import _isa

# Before the first import of `operant._core`, which is found there.
__path__.extend(_isa.directories(__path__[0]))

from operant import _after_gymnasium
from operant._core import build_info

# `typing` itself takes longer to import than the engine; checkers of types know the name.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from operant import envs as envs
    from operant import math as math
    from operant import shapes as shapes
    from operant import track as track
    from operant._arrays import Bool as Bool
    from operant._arrays import Byte as Byte
    from operant._arrays import Float as Float
    from operant._arrays import Int as Int
    from operant._arrays import Uint as Uint
    from operant._callbacks import Callback as Callback
    from operant._check import check_world as check_world
    from operant._collector import Collector as Collector
    from operant._collector import Rollout as Rollout
    from operant._core import DeviceArray as DeviceArray
    from operant._device import DeviceVectorEnv as DeviceVectorEnv
    from operant._device import make_vec as make_vec
    from operant._policy import Policy as Policy
    from operant._policy import fit as fit
    from operant._policy import load as load
    from operant._replay import Replay as Replay
    from operant._replay import Transitions as Transitions
    from operant._single import Env as Env
    from operant._single import make as make
    from operant._sweep import Sweep as Sweep
    from operant._sweep import sweep as sweep
    from operant._sweep import sweeps as sweeps
    from operant._trace import TraceError as TraceError
    from operant._train import Run as Run
    from operant._train import resume as resume
    from operant._train import run as run
    from operant._train import runs as runs
    from operant._train import train as train
    from operant._vector import VectorEnv as VectorEnv
    from operant._world import World as World
    from operant._world import load_world as load_world
    from operant._world import world as world

__all__ = [
    "Bool",
    "Byte",
    "Callback",
    "Collector",
    "DeviceArray",
    "DeviceVectorEnv",
    "Env",
    "Float",
    "Int",
    "Policy",
    "Replay",
    "Rollout",
    "Run",
    "Sweep",
    "TraceError",
    "Transitions",
    "Uint",
    "VectorEnv",
    "World",
    "build_info",
    "check_world",
    "envs",
    "fit",
    "load",
    "load_world",
    "make",
    "make_vec",
    "math",
    "resume",
    "run",
    "runs",
    "shapes",
    "sweep",
    "sweeps",
    "track",
    "train",
    "world",
]
__version__: str = build_info()["version"]

# Modules that are imported when one of their names is used, because they import Gymnasium or take time.
_MODULES = {
    "_single": ["Env", "make"],
    "_callbacks": ["Callback"],
    "_check": ["check_world"],
    "_core": ["DeviceArray"],
    "_device": ["DeviceVectorEnv", "make_vec"],
    "_vector": ["VectorEnv"],
    "_train": ["Run", "resume", "run", "runs", "train"],
    "_sweep": ["Sweep", "sweep", "sweeps"],
    "_policy": ["Policy", "fit", "load"],
    "_collector": ["Collector", "Rollout"],
    "_replay": ["Replay", "Transitions"],
    "_arrays": ["Bool", "Byte", "Float", "Int", "Uint"],
    "_trace": ["TraceError"],
    "_world": ["World", "load_world", "world"],
    "math": ["math"],
    "shapes": ["shapes"],
    "envs": ["envs"],
    "sb3": ["sb3"],
    "ray": ["ray"],
    "track": ["track"],
}
_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'operant' has no attribute {name!r}")
    module = importlib.import_module(f"operant.{_LAZY[name]}")
    return module if _LAZY[name] == name else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


_after_gymnasium.when_gymnasium_is_imported()
