"""What Python code can follow of a run: `train(..., callbacks=[...])`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from operant._train import Run

OnUpdate = Callable[[dict[str, float]], object]


class Callback:
    """Follows a run: a subclass has the methods that it needs. `operant.track` has those that report to trackers.

        class Best(operant.Callback):
            def on_evaluation(self, run, metrics):
                print(run.name, metrics["env_steps"], metrics["eval_return"])

        operant.train("cartpole", callbacks=[Best()])

    They run between updates, in the order of the list, so they should be quick. An exception stops the run with a checkpoint, and is raised.
    """

    def on_start(self, run: Run) -> object:
        """Training begins or is resumed."""

    def on_update(self, run: Run, metrics: dict[str, float]) -> object:
        """An update has ended. `metrics` are those of docs/metrics.md by name, NaN where not measured. False ends the run, with its final evaluation and a
        checkpoint.
        """

    def on_evaluation(self, run: Run, metrics: dict[str, float]) -> object:
        """After `on_update` of an update that an evaluation followed: `metrics["eval_return"]`."""

    def on_checkpoint(self, run: Run, path: Path) -> object:
        """A checkpoint was saved in this directory."""

    def on_end(self, run: Run, error: BaseException | None) -> object:
        """The run has ended, with `run.result`; or training raises `error`."""


class Events:
    """Tells callbacks what `_core.train` reports."""

    def __init__(self, on_update: OnUpdate | None, callbacks: Sequence[Callback]) -> None:
        if on_update is not None and not callable(on_update):
            raise TypeError(f"on_update: expected a function, got {on_update!r}")
        if isinstance(callbacks, Callback) or not all(isinstance(callback, Callback) for callback in callbacks):
            raise TypeError(f"callbacks: expected a list of operant.Callback objects, got {callbacks!r}")
        self._function, self._callbacks = on_update, list(callbacks)
        self._run: Run | None = None

    def notify(self) -> Callable[[str, Any], bool] | None:
        """What to give to `_core.train`."""
        return self._tell if self._callbacks or self._function is not None else None

    def _tell(self, kind: str, payload: Any) -> bool:
        """Whether the run goes on."""
        from operant._train import Run

        if kind == "start":
            self._run = Run._in(payload)
        run = self._run
        assert run is not None, "a run starts first"
        if kind == "start":
            for callback in self._callbacks:
                callback.on_start(run)
        elif kind == "checkpoint":
            for callback in self._callbacks:
                callback.on_checkpoint(run, Path(payload))
        else:
            answers = [] if self._function is None else [self._function(payload)]
            for callback in self._callbacks:
                answers.append(callback.on_update(run, payload))
                if math.isfinite(payload["eval_return"]):
                    callback.on_evaluation(run, payload)
            return not any(isinstance(answer, (bool, np.bool_)) and not answer for answer in answers)
        return True

    def end(self, error: BaseException | None = None) -> None:
        """Every callback hears of the end, even if one of them fails. Nothing has begun if a setting was wrong."""
        if self._run is None:
            return
        failed: list[Exception] = []
        for callback in self._callbacks:
            try:
                callback.on_end(self._run, error)
            except Exception as problem:
                failed.append(problem)
        if failed and error is None:
            raise failed[0]
