"""The environments as Gymnasium's, `operant/CartPole-v1` and so on, and what of Gymnasium's can be trained."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from types import FunctionType, MethodType
from typing import Any, NamedTuple
from urllib.parse import urlencode

from operant import _core


# Whether this process imports modules of the user to make environments for another one.
is_importing = False


def refuse_while_importing() -> None:
    """An error where a module trains when it is imported: each process that makes its environments would train again."""
    if is_importing:
        raise RuntimeError(
            "operant.train or operant.resume was called while another process imported this module to make its environment; put the call under "
            '`if __name__ == "__main__":`'
        )


def ids() -> dict[str, dict[str, Any]]:
    """Gymnasium's id of each environment, such as "operant/CartPole-v1", and its specification."""
    found = {}
    for spec in _core.specs():
        # An alias such as `CartPole-v1` or `MinAtar/Breakout-v0`; only one namespace is possible.
        versioned = [alias for alias in spec["aliases"] if re.search(r"-v\d+$", alias)]
        # An environment without a counterpart in a package is version 0 of its name.
        for alias in versioned or [spec["name"].title().replace("_", "") + "-v0"]:
            found["operant/" + alias.replace("/", "-")] = spec
    return found


def asked(id: Any) -> str | _core.World:
    """The name, or an alias, of the environment with this id, `operant/` being optional; or a world, which is recorded. A class or
    function of the user's that makes Gymnasium environments becomes `module:Class`, by which worker processes import it."""
    if not isinstance(id, str):
        from operant import _world

        return _world.registered(id) if _world.is_world(id) or not is_env_maker(id) else _importable(id)
    if id.startswith("gym:"):
        return id
    spec = ids().get(id)
    return spec["name"] if spec else id.removeprefix("operant/")


def refuse_others(id: Any) -> None:
    """An error for environments that this package trains on but does not step in this process."""
    if isinstance(id, str):
        says = None
        if id.startswith("gym:"):
            says = f'gymnasium.make_vec("{id[4:]}", num_envs=N) makes such environments; operant.train("{id}") trains with them'
        elif id.endswith(".world"):
            says = f'operant.load_world("{id}") reads a world from its file'
        elif ":" in id and not id.startswith("operant:"):
            says = "for a world, import the class and pass it; for Gymnasium, use gymnasium.make_vec"
        if says:
            raise ValueError(f"id: {id!r} is not a name of a built-in environment: {says}")
        return
    import gymnasium

    kinds = (gymnasium.Env, gymnasium.vector.VectorEnv)
    if isinstance(id, kinds) or (isinstance(id, type) and issubclass(id, kinds)):
        raise TypeError(
            f"id: Gymnasium steps its environments itself, with gymnasium.vector.SyncVectorEnv or AsyncVectorEnv; operant.train takes "
            f"a class or a function that makes one; got {id!r}"
        )


def is_env_maker(value: Any) -> bool:
    """Whether a value makes Gymnasium environments: a class with their methods, a function, or a partial of one."""
    is_class = isinstance(value, type) and callable(getattr(value, "reset", None)) and callable(getattr(value, "step", None))
    return is_class or isinstance(value, (FunctionType, MethodType, partial))


class OfVector(NamedTuple):
    """What a vector environment trains as: a name, the default of `num_envs`, and options of a built-in environment."""

    name: str
    num_envs: int
    options: dict[str, Any]


# Arguments of `make_vec` that say how environments are stepped, not which.
_STEPPING = ("num_envs", "vectorization_mode", "vector_kwargs", "max_episode_steps")
_OWN_STEPPING = ("name", "autoreset_mode", "copy", "device", "episode_stats", "final_obs", "render_mode", "reward_dtype", "seed", "threads")


def of_vector(envs: Any) -> OfVector | None:
    """The environments of a vector environment that `gymnasium.make_vec` made, with the same arguments; None for other values.

    Raises:
        ValueError: Something of it cannot be carried over exactly.
    """
    if not (hasattr(envs, "num_envs") and hasattr(envs, "single_observation_space")):
        return None
    import gymnasium

    spec = getattr(envs, "spec", None)
    if spec is None or isinstance(envs, gymnasium.vector.VectorWrapper):
        raise ValueError(
            "env: this vector environment is wrapped or has no spec, so that workers cannot make its environments again; "
            "give a function that returns one environment, or the name of a registered one, gym:ID"
        )
    wrappers = [*spec.additional_wrappers, *spec.kwargs.get("wrappers", ())]
    if wrappers:
        names = ", ".join(str(getattr(wrapper, "name", wrapper)) for wrapper in wrappers)
        raise ValueError(
            f"env: the wrappers of {spec.id} ({names}) cannot be given to worker processes; give a function at the top of a module that "
            "returns one wrapped environment"
        )
    kwargs = {key: value for key, value in spec.kwargs.items() if key not in _STEPPING}
    limit = spec.kwargs.get("max_episode_steps", spec.max_episode_steps)
    is_default_limit = limit == gymnasium.spec(spec.id).max_episode_steps
    count = int(envs.num_envs)
    if spec.id.startswith("operant/"):
        if not is_default_limit:
            raise ValueError(f"env: max_episode_steps={limit} of {spec.id} cannot be trained: training has the environment's own time limit")
        return OfVector(spec.kwargs["name"], count, {key: value for key, value in kwargs.items() if key not in _OWN_STEPPING})
    if not is_default_limit:
        kwargs["max_episode_steps"] = limit
    if "preset" in kwargs:
        raise ValueError(f"env: an argument called preset, as of {spec.id}, cannot be given to worker processes; {_BY_FUNCTION}")
    query = urlencode({key: _argument(f"{key} of {spec.id}", value) for key, value in kwargs.items()})
    return OfVector(f"gym:{spec.id}{'?' if query else ''}{query}", count, {})


def _argument(label: str, value: Any) -> str:
    """An argument as a text from which `_gym.parse` makes the same value."""
    from operant import _gym, _trace

    value = _trace.plain(value)
    try:
        text = value if isinstance(value, str) and _gym.argument(value) == value else json.dumps(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"env: the argument {label} cannot be given to worker processes: {error}; {_BY_FUNCTION}") from None
    if repr(_gym.argument(text)) != repr(value):
        raise ValueError(f"env: the argument {label} would arrive in worker processes as {_gym.argument(text)!r}, not as {value!r}; {_BY_FUNCTION}")
    return text


_BY_FUNCTION = "give a function at the top of a module that makes the environment"


def is_importable(value: Any) -> bool:
    """Whether other processes can import what makes an environment."""
    module = sys.modules.get(getattr(value, "__module__", None) or "")
    found: Any = module
    for part in getattr(value, "__qualname__", "<none>").split("."):
        found = getattr(found, part, None)
    return found is value and not (getattr(module, "__file__", None) is None and value.__module__ == "__main__")


def _importable(value: Any) -> str:
    """`module:Class` or `/path/to/file.py:Class`."""
    name = getattr(value, "__qualname__", repr(value))
    if not is_importable(value):
        raise ValueError(
            f"env: other processes cannot import {name}, and only operant.train steps environments in this one; define it at module level in a "
            "file, not in a function or a notebook"
        )
    module = sys.modules[value.__module__]
    file: str | None = getattr(module, "__file__", None)
    # Other processes look for modules elsewhere, so a module that is one file is named by it.
    if file is not None and file.endswith(".py") and "." not in value.__module__ and not hasattr(module, "__path__"):
        return f"{os.path.abspath(file)}:{name}"
    return f"{value.__module__}:{name}"


def register() -> None:
    """Registers every environment that Gymnasium does not know yet."""
    import gymnasium

    for id, spec in ids().items():
        if id not in gymnasium.registry:
            gymnasium.register(
                id,
                entry_point="operant._single:_registered",
                vector_entry_point="operant._vector:_registered",
                max_episode_steps=spec["time_limit"],
                kwargs={"name": spec["name"]},
            )
