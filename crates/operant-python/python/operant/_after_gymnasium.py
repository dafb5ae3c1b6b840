"""Registers the environments with Gymnasium, at once if it has been imported, and else at the end of its import.

Gymnasium takes a tenth of a second to import, which a program that does not use it should not wait for. Nor should `operant --version` wait
for modules that this one does not need: `json` and `typing` take longer than the engine.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class _AfterGymnasium:
    """A finder that registers the environments at the end of the import of Gymnasium."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != "gymnasium":
            return None
        from importlib.machinery import PathFinder

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run: Any = spec.loader.exec_module

        def run_and_register(module: ModuleType) -> None:
            run(module)
            _register()

        spec.loader.exec_module = run_and_register  # type: ignore[method-assign]
        return spec


def when_gymnasium_is_imported() -> None:
    """Registers now or at the end of Gymnasium's import."""
    if "gymnasium" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _AfterGymnasium())


def _register() -> None:
    from operant import _register

    _register.register()
