"""Trackers of experiments as callbacks: `operant.train("cartpole", callbacks=[operant.track.WandB("my-project")])`.

Each needs its package: `pip install "operant-rl[wandb]"`, `[mlflow]`, `[trackio]` or `[tensorboard]`. A run that is resumed goes on in the tracker's run, whose number is in the run's directory.
`python -m operant.track TRACKER RUN...` sends runs that have ended, as `operant runs --export TRACKER` does.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from operant._callbacks import Callback
from operant._train import Run

Row = tuple[int, dict[str, float]]


def _sdk(tracker: str) -> Any:
    try:
        return importlib.import_module(tracker)
    except ImportError as error:
        raise ImportError(f"operant.track needs {tracker}, which cannot be imported ({error}): pip install {tracker}") from error


class Tracker(Callback):
    """Collects the metrics of updates and sends them together. A subclass has `on_start`, `send` and `close`.

    Args:
        every: Seconds between two messages to the tracker. No update is left out.
    """

    def __init__(self, every: float = 2.0) -> None:
        self.every = every
        self._rows: list[Row] = []
        self._sent = time.monotonic()

    def send(self, rows: list[Row]) -> None:
        """Sends environment steps and metrics; those that were not measured are left out."""
        raise NotImplementedError

    def close(self, run: Run, summary: dict[str, float], failed: bool) -> None:
        """Ends the tracker's run. `summary` are the numbers of `run.result`."""
        raise NotImplementedError

    def on_update(self, run: Run, metrics: dict[str, float]) -> None:
        self._rows.append((int(metrics["env_steps"]), {name: value for name, value in metrics.items() if math.isfinite(value)}))
        if time.monotonic() - self._sent >= self.every:
            self._send()

    def on_end(self, run: Run, error: BaseException | None) -> None:
        self._send()
        result = run.result or {}
        numbers = {**result, **{f"eval_{name}": value for name, value in result.get("eval_metrics", {}).items()}}
        summary = {name: float(value) for name, value in numbers.items() if isinstance(value, (int, float)) and math.isfinite(value)}
        self.close(run, summary, error is not None)

    def _send(self) -> None:
        rows, self._rows, self._sent = self._rows, [], time.monotonic()
        if rows:
            self.send(rows)


def _number(run: Run, tracker: str) -> tuple[Path, str | None]:
    """The file in the run's directory with the number of the tracker's run, and the number. For trackers without one the file is empty."""
    file = run.dir / f"{tracker}-run.txt"
    return file, file.read_text(encoding="utf-8").strip() if file.exists() else None


class WandB(Tracker):
    """Weights & Biases. With `mode="offline"` it writes a directory that `wandb sync` uploads.

    Args:
        project: The project.
        checkpoints: Whether checkpoints are uploaded as artifacts.
        every: As in `Tracker`.
        **init: Arguments of `wandb.init`, such as `entity`, `group`, `tags`, `mode`.
    """

    def __init__(self, project: str = "operant", *, checkpoints: bool = False, every: float = 2.0, **init: Any) -> None:
        super().__init__(every)
        self._sdk, self._checkpoints, self._init = _sdk("wandb"), checkpoints, {"project": project, **init}

    def on_start(self, run: Run) -> None:
        file, number = _number(run, "wandb")
        number = number or uuid.uuid4().hex[:12]
        own = {"name": run.name, "id": number, "resume": "allow", "config": run.config, "dir": os.fspath(run.dir)}
        self._run = self._sdk.init(**{**own, **self._init})
        file.write_text(number + "\n", encoding="utf-8")
        self._run.define_metric("*", step_metric="env_steps")

    def on_checkpoint(self, run: Run, path: Path) -> None:
        if self._checkpoints:
            artifact = self._sdk.Artifact(f"{run.name}-checkpoint", type="model")
            artifact.add_dir(os.fspath(path))
            self._run.log_artifact(artifact)

    def send(self, rows: list[Row]) -> None:
        for _, metrics in rows:
            self._run.log(metrics)

    def close(self, run: Run, summary: dict[str, float], failed: bool) -> None:
        self._run.summary.update({f"result/{name}": value for name, value in summary.items()})
        self._run.finish(exit_code=int(failed))


class MLflow(Tracker):
    """MLflow: settings are parameters, metrics have environment steps.

    Args:
        experiment: The experiment, made if it does not exist.
        tracking_uri: A server or a store such as "sqlite:///mlflow.db"; by default MLflow's.
        every: As in `Tracker`.
    """

    def __init__(self, experiment: str = "operant", *, tracking_uri: str | None = None, every: float = 2.0) -> None:
        super().__init__(every)
        self._sdk, self._experiment = _sdk("mlflow"), experiment
        self._client = self._sdk.MlflowClient(tracking_uri)

    def on_start(self, run: Run) -> None:
        file, self._id = _number(run, "mlflow")
        if self._id is not None:
            self._client.update_run(self._id, "RUNNING")
            return
        found = self._client.get_experiment_by_name(self._experiment)
        number = self._client.create_experiment(self._experiment) if found is None else found.experiment_id
        self._id = self._client.create_run(number, run_name=run.name).info.run_id
        file.write_text(f"{self._id}\n", encoding="utf-8")
        settings = [self._sdk.entities.Param(key, str(value)[:500]) for key, value in run.config.items()]
        for first in range(0, len(settings), 100):
            self._client.log_batch(self._id, params=settings[first : first + 100])

    def send(self, rows: list[Row]) -> None:
        now, metric = int(time.time() * 1000), self._sdk.entities.Metric
        values = [metric(name, value, now, step) for step, metrics in rows for name, value in metrics.items()]
        for first in range(0, len(values), 1000):
            self._client.log_batch(self._id, metrics=values[first : first + 1000])

    def close(self, run: Run, summary: dict[str, float], failed: bool) -> None:
        for name, value in summary.items():
            self._client.log_metric(self._id, f"result.{name}", value)
        self._client.set_terminated(self._id, "FAILED" if failed else "FINISHED")


class Trackio(Tracker):
    """Trackio, whose database is on this machine; `trackio show` opens it.

    Args:
        project: The project.
        every: As in `Tracker`.
        **init: Arguments of `trackio.init`, such as `space_id`.
    """

    def __init__(self, project: str = "operant", *, every: float = 2.0, **init: Any) -> None:
        super().__init__(every)
        self._sdk, self._init = _sdk("trackio"), {"project": project, "embed": False, **init}

    def on_start(self, run: Run) -> None:
        _number(run, "trackio")[0].touch()
        self._sdk.init(**{"name": run.name, "config": run.config, "resume": "allow", **self._init})

    def send(self, rows: list[Row]) -> None:
        for step, metrics in rows:
            # Trackio has a time of its own.
            self._sdk.log({"wall_s" if name == "time" else name: value for name, value in metrics.items()}, step=step)

    def close(self, run: Run, summary: dict[str, float], failed: bool) -> None:
        self._sdk.log({f"result/{name}": value for name, value in summary.items()})
        self._sdk.finish()


class TensorBoard(Tracker):
    """TensorBoard, in a directory of your own. (Every run has event files in its directory already: `tensorboard --logdir runs`.)

    Args:
        log_dir: The directory; each run has one below it.
        every: As in `Tracker`.
    """

    def __init__(self, log_dir: str | os.PathLike[str] = "tensorboard", *, every: float = 2.0) -> None:
        super().__init__(every)
        self._sdk, self._dir = _sdk("tensorboard.summary"), Path(log_dir)

    def on_start(self, run: Run) -> None:
        _number(run, "tensorboard")[0].touch()
        self._writer = self._sdk.Writer(os.fspath(self._dir / run.name))

    def send(self, rows: list[Row]) -> None:
        for step, metrics in rows:
            for name, value in metrics.items():
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self, run: Run, summary: dict[str, float], failed: bool) -> None:
        self._writer.close()


def export(run: Run | str | os.PathLike[str], tracker: Tracker) -> None:
    """Sends a run that has ended, from its metrics.csv.

    Raises:
        ValueError: There is no such run, it is still in progress, or it was sent before.
        FileNotFoundError: It was trained with csv=False.
    """
    run = run if isinstance(run, Run) else Run(run)
    if run.state in ("starting", "running", "paused", "stopping", "stalled"):
        raise ValueError(f"{run.name}: it is in progress; give train(callbacks=[...]) the tracker instead")
    sent = run.dir / f"{type(tracker).__name__.lower()}-run.txt"
    if sent.exists():
        raise ValueError(f"{run.name}: the tracker has it already; remove {sent} to send it again")
    rows = run.metrics()
    tracker.on_start(run)
    for row in rows:
        tracker.on_update(run, {name: float(row[name]) for name in rows.dtype.names or ()})
    tracker.on_end(run, None)


TRACKERS = {"wandb": WandB, "mlflow": MLflow, "trackio": Trackio, "tensorboard": TensorBoard}


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m operant.track TRACKER RUN...`"""
    parser = argparse.ArgumentParser("operant.track", description="Send runs that have ended to a tracker.")
    parser.add_argument("tracker", choices=sorted(TRACKERS))
    parser.add_argument("runs", nargs="+", metavar="RUN", help="name or directory of a run")
    parser.add_argument("--project", help="the project, the experiment, or TensorBoard's directory")
    given = parser.parse_args(arguments)
    for name in given.runs:
        try:
            kind: Any = TRACKERS[given.tracker]
            export(name, kind() if given.project is None else kind(given.project))
        except (ValueError, ImportError, OSError) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        print(f"{name}: sent to {given.tracker}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
