"""`python -m operant._record NAME FILE [PARENT]`: `operant train NAME` runs it for `module:Class`, `FILE.py:Class` and `gym:ID`. Writes the
recorded world to FILE, or the description of a Gymnasium environment. Ends with the process PARENT."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import sys
import traceback
from types import ModuleType
from typing import Any

from operant import _core, _gym, _register, _trace, _world


def object_named(name: str) -> Any:
    """The object of `package.module:Class`, searched in the working directory last, or of `path/to/file.py:Class`."""
    module_name, _, attribute = name.rpartition(":")
    if not module_name or not attribute:
        raise SystemExit(f"expected module:Class or path/to/file.py:Class, got {name}")
    module = _of_file(module_name) if module_name.endswith(".py") else _of_name(module_name)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            worlds = [name for name, value in vars(module).items() if _world.is_world(value)]
            known = f"; it has {', '.join(worlds)}" if worlds else "; it has no class with @operant.world"
            raise SystemExit(f"{module_name} has no {attribute}{known}")
        found = getattr(found, part)
    return found


def written(name: str) -> tuple[bytes, list[str]]:
    """The file of the world or environment of a name, and notes for the user."""
    target = _gym.parse(name).target
    if not _gym.is_gym(target):
        found = object_named(target)
        if _world.is_world(found):
            if target != name:
                raise SystemExit(f"{target} is a world: it takes no arguments after a question mark and no preset; leave out {name[len(target) :]}")
            return _world.recorded(found).content, []
        if not _register.is_env_maker(found):
            raise SystemExit(
                f"{target} is neither a world nor a Gymnasium environment; write @operant.world(...) above a class, or give a class "
                "that inherits from gymnasium.Env, or a function that returns such an environment"
            )
    try:
        description, notes = _gym.describe(name)
    except Exception as error:
        # Gymnasium raises its own error from it.
        missing = error.__cause__ if type(error).__name__ == "DependencyNotInstalled" else error
        if not isinstance(missing, ModuleNotFoundError) or missing.name is None:
            raise
        raise SystemExit(f"{name} needs the package {missing.name}; {_extra(missing.name)}") from None
    return json.dumps(description, separators=(",", ":")).encode(), notes


def _extra(package: str | None) -> str:
    """How to install what an environment lacks."""
    extras = {"ale_py": "atari", "cv2": "atari", "Box2D": "box2d", "mujoco": "mujoco"}
    extra = extras.get((package or "").partition(".")[0])
    return f"pip install 'operant-rl[{extra}]'" if extra else "install it in this Python, or add its directory to PYTHONPATH"


def _of_file(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise SystemExit(f"there is no file {path}")
    # Modules next to it can be imported, as from a script.
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    stem = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    spec.loader.exec_module(module)
    return module


def _of_name(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # The module itself or a package of it; not what it imports.
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        place = f"in this Python or in {os.getcwd()}"
        raise SystemExit(f"there is no module {name} {place}; a file is given as path/to/file.py:Class") from None


def main(arguments: list[str]) -> None:
    if len(arguments) not in (2, 3):
        raise SystemExit("usage: python -m operant._record NAME FILE [PARENT]")
    name, path = arguments[:2]
    if arguments[2:]:
        _core.end_with(int(arguments[2]))
    _register.is_importing = True
    _gym.import_from(os.getcwd())
    try:
        content, notes = written(name)
        for note in notes:
            print(f"note: {note}", file=sys.stderr)
        with open(path, "wb") as file:
            file.write(content)
    except Exception as error:
        # For errors of the rules the message suffices; other errors need the traceback.
        is_declared = isinstance(error, (TypeError, ValueError)) and _is_ours(error)
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "gym":
            raise SystemExit(f"{_shown(error)}\n{_gym.PORT}") from error
        raise SystemExit(str(error) if isinstance(error, _trace.TraceError) or is_declared else _shown(error)) from error


def _is_ours(error: Exception) -> bool:
    """Whether this package raised it, about how a world is declared."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return os.path.dirname(os.path.abspath(last.filename)) == os.path.dirname(os.path.abspath(__file__))


def _shown(error: Exception) -> str:
    """The message, and where it was raised, innermost last."""
    frames = traceback.extract_tb(error.__traceback__)
    own = os.path.dirname(os.path.abspath(__file__))
    places = [f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in frames if not frame.filename.startswith((own, "<frozen"))]
    return f"{type(error).__name__}: {error}" + "".join(f"\n  {place}" for place in places)


if __name__ == "__main__":
    code = 0
    try:
        main(sys.argv[1:])
    except SystemExit as error:
        code = 1
        print(error, file=sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    # Threads of an environment may never end.
    os._exit(code)
