"""Environments by class, as older programs construct them: `operant.envs.CartPole(num_envs=4096, workers=4)`."""

from __future__ import annotations

from typing import Any

from operant import _core
from operant._vector import VectorEnv


def names() -> list[str]:
    """The names of all environments."""
    return [spec["name"] for spec in _core.specs()]


def specs() -> list[dict[str, Any]]:
    """All environments: name, other names, spaces, time limit and options."""
    return _core.specs()


class _ByClass(VectorEnv):
    """As `VectorEnv`, with the spaces of one environment as its spaces."""

    _name: str

    def __init__(self, num_envs: int = 1, workers: int = 1, **kwargs: Any) -> None:
        super().__init__(self._name, num_envs, threads=workers, **kwargs)
        self.observation_space = self.single_observation_space
        self.action_space = self.single_action_space

    def _kind(self) -> str:
        return f"class {type(self).__name__}"


def _class_name(name: str) -> str:
    """`cartpole` has the alias CartPole; others are named by their words."""
    spec = next(spec for spec in _core.specs() if spec["name"] == name)
    plain = [alias for alias in spec["aliases"] if alias.isidentifier()]
    return plain[0] if plain else "".join(word.capitalize() for word in name.split("_"))


_CLASSES = {_class_name(name): name for name in names()}


def __getattr__(name: str) -> type[VectorEnv]:
    if name not in _CLASSES:
        raise AttributeError(f"module 'operant.envs' has no attribute {name!r}; it has {', '.join(sorted(_CLASSES))}")
    made = type(name, (_ByClass,), {"_name": _CLASSES[name], "__module__": __name__})
    globals()[name] = made
    return made


def __dir__() -> list[str]:
    return sorted([*_CLASSES, "names", "specs"])
