"""Sweeps: `operant.sweep`, and its results."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operant import _core
from operant._register import refuse_while_importing
from operant._train import Run, _signals

if TYPE_CHECKING:
    from operant._core import Executor


class Sweep:
    """A sweep, in progress or ended.

    Attributes:
        dir: The sweep's directory, absolute.
        name: Its name.
    """

    def __init__(self, dir: str | os.PathLike[str]) -> None:
        self.dir = Path(os.path.abspath(dir))

    @property
    def name(self) -> str:
        return self.dir.name

    def report(self) -> dict[str, Any]:
        """The object that `operant report SWEEP --json` prints: configurations, best first, with scores, intervals and curves."""
        report: dict[str, Any] = json.loads(_core.report(os.fspath(self.dir)))
        return report

    @property
    def runs(self) -> list[Run]:
        """The runs that have begun, by trial and seed."""
        found = (re.fullmatch(r"(\d+)-seed(\d+)", path.name) for path in (self.dir / "trials").glob("*-seed*"))
        names = sorted((int(name[1]), int(name[2]), name[0]) for name in found if name)
        return [Run(self.dir / "trials" / name) for _, _, name in names]

    def __repr__(self) -> str:
        return f"operant.Sweep({os.fspath(self.dir)!r})"


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    resume: str | os.PathLike[str] | Sweep | None = None,
    trust: bool = False,
    seeds: int | str | Sequence[int] | None = None,
    search: str | None = None,
    trials: int | None = None,
    interval: int | None = None,
    name: str | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    progress: bool | None = None,
    executor: Executor | None = None,
) -> Sweep:
    """Trains many runs in parallel: the engine of `operant sweep`, with the same table and bits.

        sweep = operant.sweep({"env": "cartpole", "seeds": 10, "vary": {"learning_rate": [1e-3, 1e-2]}})
        print(sweep.report()["environments"][0]["groups"][0]["score"])

    Ctrl-C stops it with checkpoints and raises KeyboardInterrupt; SIGTERM does the same and raises SystemExit(75).

    Args:
        spec: A specification (docs/sweep.md): the path of a TOML file, or a dictionary with the same tables. Or the name of an
            environment, whose preset is then trained.
        resume: Instead of `spec`: the name or the directory of a sweep to continue.
        trust: Whether to start Gymnasium environments of a resumed sweep that this user has not started before: they are programs.
        seeds: Of each trial: a number of seeds, a range "1..10", or a list.
        search: "grid", "random", "bayes" or "pbt".
        trials: Number of trials, or the population of pbt.
        interval: Environment steps between generations of pbt.
        name: The sweep's name.
        run_dir: The directory that holds the sweep; by default ./runs.
        jobs: Number of parallel runs; by default one per core.
        progress: Whether to show progress on stderr; by default on a terminal.
        executor: What trains the runs; by default threads of this process. `operant.ray.Executor` trains on a Ray cluster.

    Raises:
        ValueError: The specification or a setting cannot be used; nothing was trained.
        OSError: A file cannot be written.
    """
    refuse_while_importing()
    if (spec is None) == (resume is None):
        raise TypeError("sweep: expected a specification or resume=, one of the two")
    if resume is not None and any(value is not None for value in (seeds, search, trials, interval, name)):
        raise TypeError("sweep: a sweep continues with the settings that it began with; leave out seeds, search, trials, interval and name")
    target = None if spec is None else json.dumps(_plain(spec)) if isinstance(spec, Mapping) else os.fspath(spec)
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    control = _core.Control()
    with _signals(control):
        directory, stopped_by = _core.sweep(
            target,
            resume=os.fspath(resume.dir if isinstance(resume, Sweep) else resume) if resume is not None else None,
            trust=trust,
            seeds=_seeds(seeds),
            search=search,
            trials=trials,
            interval=interval,
            name=name,
            run_dir=None if run_dir is None else os.fspath(run_dir),
            jobs=jobs,
            executor=executor,
            on_status=_show if progress else None,
            control=control,
        )
    if progress:
        print(file=sys.stderr)
    if stopped_by == "SIGTERM":
        raise SystemExit(75)
    return Sweep(directory)


def _seeds(seeds: int | str | Sequence[int] | None) -> str | None:
    if seeds is None or isinstance(seeds, str):
        return seeds
    if isinstance(seeds, int):
        return str(seeds)
    listed = [int(seed) for seed in seeds]
    # A list of one seed is not a number of seeds.
    return f"{listed[0]}..{listed[0]}" if len(listed) == 1 else ",".join(map(str, listed))


def _plain(value: Any) -> Any:
    """A value of a specification as JSON; accepts NumPy's numbers and arrays, tuples and paths."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple, range)):
        return [_plain(item) for item in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _show(done: int, planned: int, running: int, failed: int, env_steps: int) -> None:
    failures = f", {failed} failed" if failed else ""
    print(f"\r{done}/{planned} runs, {running} running{failures}, {env_steps:,} steps ", end="", file=sys.stderr)
