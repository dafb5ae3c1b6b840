"""operant: reinforcement learning at the speed of the machine.

    import operant

    envs = operant.make_vec("CartPole-v1", num_envs=8192, seed=1)
    obs, info = envs.reset()
    obs, rewards, terminated, truncated, info = envs.step(envs.action_space.sample())

`make_vec` gives a `gymnasium.vector.VectorEnv`, `make` a `gymnasium.Env`; `gymnasium.make_vec("operant/CartPole-v1")`
works too once this package is imported. Gymnasium is imported when an environment is made, not before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from operant import _register
from operant._core import build_info

if TYPE_CHECKING:
    from operant._single import Env as Env
    from operant._single import make as make
    from operant._vector import VectorEnv as VectorEnv
    from operant._vector import make_vec as make_vec

__all__ = ["Env", "VectorEnv", "build_info", "envs", "make", "make_vec"]
__version__: str = build_info()["version"]

# Names that import Gymnasium, and the modules that have them.
_LAZY = {"make": "_single", "Env": "_single", "make_vec": "_vector", "VectorEnv": "_vector", "envs": "envs"}


def __getattr__(name: str) -> Any:
    import importlib

    if name not in _LAZY:
        raise AttributeError(f"module 'operant' has no attribute {name!r}")
    module = importlib.import_module(f"operant.{_LAZY[name]}")
    return module if name == "envs" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])


_register.when_gymnasium_is_imported()
