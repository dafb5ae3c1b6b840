"""Sweeps: `operant.sweep`, and its results."""

from __future__ import annotations

import html
import itertools
import json
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from operant import _core, _frame
from operant._progress import NotebookBar, is_notebook, left
from operant._register import asked, is_env_maker, of_vector, refuse_while_importing
from operant._train import Run, _signals
from operant._world import World, is_world, recorded, registered

if TYPE_CHECKING:
    import pandas
    from gymnasium.vector import VectorEnv

    from operant._core import Executor


class Sweep:
    """A sweep that has begun, in progress or ended. `operant.sweep` begins or continues one and returns it.

        operant.Sweep("rates").to_pandas()

    Args:
        sweep: Its name or its directory.
        run_dir: The directory that holds the sweep, if `sweep` is a name; by default ./runs.

    Attributes:
        dir: The sweep's directory, absolute.
        name: Its name.

    Raises:
        ValueError: There is no such sweep.
    """

    def __init__(self, sweep: str | os.PathLike[str], *, run_dir: str | os.PathLike[str] | None = None) -> None:
        if not isinstance(sweep, (str, os.PathLike)):
            raise TypeError(f"sweep: expected the name or the directory of a sweep that has begun, got {sweep!r}; operant.sweep begins one")
        found = _core.find_sweep(os.fspath(sweep), None if run_dir is None else os.fspath(run_dir))
        self.dir = Path(os.path.abspath(found))

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
        return [Run._in(self.dir / "trials" / name) for _, _, name in names]

    def to_pandas(self) -> pandas.DataFrame:
        """A DataFrame with a row for each run, by the run's name: trial, environment, the settings that vary, seed, state and results.

            sweep.to_pandas().groupby("learning_rate")["eval_return_mean"].agg(["mean", "std"])

        `objective` is what the search maximises; `state` is "planned" for a run that has not begun, and else that of `Run.state`. Results
        are those of the last decision of the search on the run, and missing until it has ended.

        Raises:
            ImportError: pandas is not installed.
        """
        return _frame.of_runs(json.loads(_core.sweep_rows(os.fspath(self.dir))))

    def _repr_html_(self) -> str:
        """A table of the configurations, best first, as a notebook shows it."""
        report, sought = self.report(), _objective(_core.sweep_objective(os.fspath(self.dir)))
        done, planned, failed = (report[name] for name in ("results", "planned", "failed"))
        failures = f", {failed} failed" if failed else ""
        parts = [f"<b>{html.escape(self.name)}</b>: {done} of {planned} runs{failures}"]
        for part in report["environments"]:
            names = list(part["groups"][0]["settings"]) if part["groups"] else []
            rows = [_row("th", [*names, *sought, "score (eval return)", "95% interval", "runs", "solved", "training time"])]
            for group in part["groups"]:
                score, runs = group["score"], len(group["runs"])
                values = [str(group["settings"][name]) for name in names]
                values += ["-" if group["objective"] is None else f"{sign * group['objective']:.6g}" for sign in sought.values()]
                scores = ["-", "-"] if score is None else [f"{score['value']:.2f}", f"{score['low']:.2f} to {score['high']:.2f}"]
                seconds = "-" if group["train_s"] is None else f"{group['train_s']:.2f} s"
                rows.append(_row("td", [*values, *scores, str(runs), f"{group['solved']}/{runs}", seconds]))
            parts.append(f"<table><caption>{html.escape(part['env'])}</caption>{''.join(rows)}</table>")
        return "".join(parts)

    def __repr__(self) -> str:
        return f"operant.Sweep({os.fspath(self.dir)!r})"


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | World | type | Callable[[], Any] | VectorEnv[Any, Any, Any] | None = None,
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
    **settings: NoReturn,
) -> Sweep:
    """Trains many runs in parallel: the engine of `operant sweep`, with the same table and bits.

        sweep = operant.sweep({"env": "cartpole", "seeds": 10, "vary": {"learning_rate": [1e-3, 1e-2]}})
        print(sweep.report()["environments"][0]["groups"][0]["score"])

    Ctrl-C stops it with checkpoints and raises KeyboardInterrupt, which says how to continue it; SIGTERM and SIGHUP do the same and raise SystemExit(75).

    Args:
        spec: A specification (docs/sweep.md): the path of a TOML file, or a dictionary with the same tables. Or an environment,
            whose preset is then trained: its name, or anything else that `operant.train` takes and other processes can import. In a dictionary `env` is one of these, or a list.
            "env.NAME" in `set` and `vary` are arguments of the constructor for the class of a world; each combination of those in `vary` is an
            environment of the sweep, such as walk_size_5.
        resume: Instead of `spec`: the name or the directory of a sweep to continue.
        trust: Whether to start Gymnasium environments of a resumed sweep that this user has not started before: they are programs.
        seeds: Of each trial: a number of seeds, a range "1..10", or a list.
        search: "grid", "random", "bayes" or "pbt".
        trials: Number of trials, or the population of pbt.
        interval: Environment steps between generations of pbt.
        name: The sweep's name.
        run_dir: The directory that holds the sweep; by default ./runs.
        jobs: Number of parallel runs; by default one per core.
        progress: Whether to show progress; by default on a terminal and in a notebook.
        executor: What trains the runs; by default threads of this process. `operant.ray.Executor` trains on a Ray cluster.

    Raises:
        ValueError: The specification or a setting cannot be used; nothing was trained.
        OSError: A file cannot be written.
    """
    refuse_while_importing()
    for key in settings:
        _core.check_setting(key)
        raise TypeError(f'{key}: settings of the runs are in the specification: {{"env": ..., "set": {{"{key}": ...}}}}')
    if (spec is None) == (resume is None):
        raise TypeError("sweep: expected a specification or resume=, one of the two")
    if resume is not None and any(value is not None for value in (seeds, search, trials, interval, name)):
        raise TypeError("sweep: a sweep continues with the settings that it began with; leave out seeds, search, trials, interval and name")
    if spec is not None and not isinstance(spec, (str, os.PathLike)):
        spec = json.dumps(_plain(_with_names(spec if isinstance(spec, Mapping) else {"env": spec})))
    target = None if spec is None else os.fspath(spec)
    in_notebook = progress is not False and is_notebook()
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
            on_status=_Status().show if in_notebook else _show if progress else None,
            control=control,
        )
    if progress and not in_notebook:
        print(file=sys.stderr)
    if stopped_by in ("SIGTERM", "SIGHUP"):
        raise SystemExit(75)
    return Sweep(directory)


def sweeps(run_dir: str | os.PathLike[str] | None = None) -> list[Sweep]:
    """The sweeps in a directory (by default ./runs), in the order of their start."""
    return [Sweep(dir) for dir in _core.list_sweeps(None if run_dir is None else os.fspath(run_dir))]


def _with_names(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A specification that names its environments; worlds are recorded and registered."""
    tables = {name: dict(value) if isinstance(value, Mapping) else value for name, value in spec.items()}
    given = tables.get("env")
    envs = [os.fspath(env) if isinstance(env, os.PathLike) else env for env in (given if isinstance(given, (list, tuple)) else [given])]
    tables["env"] = envs if isinstance(given, (list, tuple)) else envs[0]
    if all(isinstance(env, str) for env in envs):
        return tables
    names: list[str] = []
    for env in envs:
        if isinstance(env, type) and is_world(env):
            names += _of_class(env, tables, is_alone=len(envs) == 1)
        elif (vector := None if isinstance(env, str) else of_vector(env)) is not None:
            names.append(vector.name)
            options = {f"env.{key}": value for key, value in vector.options.items()}
            tables["set"] = {"num_envs": vector.num_envs, **options, **tables.get("set", {})}
        elif isinstance(env, str) or is_world(env) or is_env_maker(env):
            name = asked(env)
            names.append(name if isinstance(name, str) else name.spec()["name"])
        else:
            raise TypeError(f"env: expected the name of an environment, a world, or a class or function of Gymnasium environments, got {env!r}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ValueError(
            f'env: {twice} is there twice; vary the argument of its constructor instead, as in {{"env": World, "vary": {{"env.size": [3, 5]}}}}'
        )
    return {**tables, "env": names}


def _of_class(cls: type, tables: dict[str, Any], is_alone: bool) -> list[str]:
    """The names of the worlds of a class, one for each combination of the arguments of its constructor in `vary`, which are taken out of
    the tables."""
    fixed, varied = (_options_taken(tables.get(table, {})) if is_alone else {} for table in ("set", "vary"))
    for option, values in varied.items():
        if isinstance(values, (str, Mapping)) or not isinstance(values, (Sequence, np.ndarray)):
            raise ValueError(f"env.{option}: the argument of a world's constructor is varied by a list of values, got {values!r}")
    names = []
    for combination in itertools.product(*varied.values()):
        options = dict(zip(varied, combination, strict=True))
        base = cls._operant._spec["name"]  # type: ignore[attr-defined]
        text = "_".join(f"{option}_{value}" for option, value in options.items()).lower().replace("-", "_minus_")
        name = f"{base}_{re.sub('[^a-z0-9]+', '_', text).strip('_')}" if options else None
        names.append(registered(recorded(cls(**fixed, **options), name)).spec()["name"])
    return names


def _options_taken(table: dict[str, Any]) -> dict[str, Any]:
    """The options of the environment in a table, which then lacks them."""
    inner = table.pop("env", {})
    return {**inner, **{key[4:]: table.pop(key) for key in list(table) if key.startswith("env.")}}


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
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"the specification has {value!r}; expected numbers, texts, lists and dictionaries")


class _Status:
    """Progress of a sweep in a notebook."""

    def __init__(self) -> None:
        self._bar = NotebookBar()
        self._began: tuple[float, int] | None = None

    def show(self, done: int, planned: int, running: int, failed: int, env_steps: int) -> None:
        # Those that a resumed sweep has already say nothing about the speed.
        began, before = self._began = self._began or (time.monotonic(), done)
        seconds = (time.monotonic() - began) / (done - before) * (planned - done) if done > before else None
        failures = f"  {failed} failed" if failed else ""
        self._bar.show(done / max(planned, 1), f"{done} of {planned} runs  {running} running{failures}  {env_steps:,} steps{left(seconds)}")


def _objective(name: str) -> dict[str, int]:
    """The title of what a search maximises, and its sign: what is to be small is maximised as its negative. Empty for the eval return."""
    if name == "eval_return":
        return {}
    if name.startswith(("-", "solved_at")):
        return {f"objective: {name.removeprefix('-')} (minimised)": -1}
    return {f"objective: {name}": 1}


def _row(tag: str, cells: list[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _show(done: int, planned: int, running: int, failed: int, env_steps: int) -> None:
    failures = f", {failed} failed" if failed else ""
    print(f"\r{done}/{planned} runs, {running} running{failures}, {env_steps:,} steps ", end="", file=sys.stderr)
