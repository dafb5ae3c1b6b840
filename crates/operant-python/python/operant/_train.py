"""Training: `operant.train`, `operant.resume`, and the runs that they leave."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from operant import _core
from operant._policy import Policy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from operant._settings import Settings

OnUpdate = Callable[[dict[str, float]], object]


class Result(TypedDict):
    """The result of a run, as `operant train --json` prints it. What was not measured is None."""

    run: str
    env: str
    device: str
    seed: int
    env_steps: int
    updates: int
    wall_s: float
    train_s: float
    sps: float
    eval_return_mean: float | None
    eval_return_std: float | None
    eval_episodes: int
    eval_distinct: int
    solved_at_step: int | None
    solved_at_s: float | None
    checkpoint: str | None
    config: dict[str, Any]


class Evaluation(TypedDict):
    """Greedy episodes of a policy, as `operant eval --json` prints them."""

    run: str
    env: str
    checkpoint: str
    env_steps: int
    eval_return_mean: float
    eval_return_std: float
    eval_return_min: float
    eval_return_max: float
    eval_length_mean: float
    eval_episodes: int
    eval_distinct: int
    solved: bool | None


class Run:
    """A run, live or ended: its directory, and what is in it. `train`, `resume` and `runs` return it.

    Attributes:
        dir: The run's directory.
        name: Its name.
    """

    def __init__(self, dir: str | os.PathLike[str]) -> None:
        self.dir = Path(dir)
        self._policy: Policy | None = None

    @property
    def name(self) -> str:
        return self.dir.name

    @property
    def result(self) -> Result | None:
        """The result; None while the run has not ended."""
        text = _core.result(os.fspath(self.dir))
        return None if text is None else json.loads(text)

    @property
    def state(self) -> str:
        """"running", "paused", "stopping", "finished", "preempted" (stopped with a checkpoint) or "failed"."""
        return str(self.info()["state"])

    @property
    def policy(self) -> Policy:
        """The policy of the latest checkpoint, loaded once."""
        if self._policy is None:
            self._policy = Policy(self.dir)
        return self._policy

    def info(self) -> dict[str, Any]:
        """Environment, device, seed, state, steps, process and checkpoint, as `operant runs` shows them."""
        return _core.list_runs(os.fspath(self.dir), None)[0]

    def metrics(self) -> NDArray[np.void]:
        """One row for each update, from metrics.csv: a structured array with a float64 field for each metric.

        `pandas.DataFrame(run.metrics())` and `polars.from_numpy(run.metrics())` take it. docs/metrics.md describes the
        fields; what was not measured is NaN.
        """
        names, values = _core.metrics(os.fspath(self.dir))
        dtype = np.dtype([(name, np.float64) for name in names])
        return values.view(dtype).reshape(-1)

    def eval(self, episodes: int = 100) -> Evaluation:
        """Plays greedy episodes with the latest checkpoint; the same ones as `operant eval` with as many episodes."""
        evaluation: Evaluation = json.loads(_core.evaluate(os.fspath(self.dir), episodes))
        return evaluation

    def __repr__(self) -> str:
        return f"operant.Run({os.fspath(self.dir)!r})"


def train(
    env: str,
    *,
    on_update: OnUpdate | None = None,
    progress: bool | None = None,
    config: str | os.PathLike[str] | None = None,
    env_options: Mapping[str, float] | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Trains an agent: the engine of `operant train`, with the same files, checkpoints and bits.

        run = operant.train("cartpole", seed=1, total_timesteps=200_000, learning_rate=1e-3)
        print(run.result["eval_return_mean"])

    Ctrl-C finishes the update, saves a checkpoint and raises KeyboardInterrupt; `operant.resume` continues.

    Args:
        env: "cartpole", "CartPole-v1" or "operant/CartPole-v1"; `operant.envs.names()` lists them.
        on_update: Called after each update with its metrics by name. An exception from it stops the run, with a
            checkpoint, and is raised.
        progress: Whether to show progress on stderr; by default on a terminal and in a notebook.
        config: A TOML file of settings, below the keywords.
        env_options: The environment's own options.
        **settings: Every key of docs/configuration.md, such as `seed`, `total_timesteps`, `name`, `device`, `run_dir`.
            They override presets, operant.toml and OPERANT_* variables.

    Raises:
        ValueError: A setting, file or environment cannot be used; nothing was trained.
        TypeError: There is no such setting.
        OSError: A file of the run cannot be written.
        FloatingPointError: Training diverged.
        RuntimeError: The device failed.
    """
    return _run(env, None, on_update, progress, config, env_options, dict(settings))


def resume(
    run: str | os.PathLike[str] | Run,
    *,
    on_update: OnUpdate | None = None,
    progress: bool | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Continues a run from its latest checkpoint; on the same device bit for bit.

    Args:
        run: Its name, its directory, or a `Run`.
        on_update: As in `train`.
        progress: As in `train`.
        **settings: Settings to change, such as `total_timesteps`.

    Raises:
        ValueError: There is no such run, another process trains it, or a setting cannot change.
    """
    name = os.fspath(run.dir if isinstance(run, Run) else run)
    return _run(None, name, on_update, progress, None, None, dict(settings))


def runs(run_dir: str | os.PathLike[str] | None = None) -> list[Run]:
    """The runs in a directory (by default ./runs), and the live ones elsewhere, latest last."""
    return [Run(run["dir"]) for run in _core.list_runs(None, None if run_dir is None else os.fspath(run_dir))]


def _run(
    env: str | None,
    resumed: str | None,
    on_update: OnUpdate | None,
    progress: bool | None,
    config: str | os.PathLike[str] | None,
    env_options: Mapping[str, float] | None,
    settings: dict[str, Any],
) -> Run:
    if on_update is not None and not callable(on_update):
        raise TypeError(f"on_update: expected a function, got {on_update!r}")
    if env is not None:
        env = env.removeprefix("operant/")
    directory, _ = _core.train(
        env,
        [(name, _text(name, value)) for name, value in settings.items()],
        env_options=[(name, _text(name, value)) for name, value in (env_options or {}).items()],
        config=None if config is None else os.fspath(config),
        resume=resumed,
        on_update=on_update,
        progress=_shown(progress),
    )
    return Run(directory)


def _text(name: str, value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(_text(name, item) for item in value)}]"
    raise TypeError(f"{name}: expected a number, text or list, got {value!r}")


def _shown(progress: bool | None) -> Literal["bar", "lines"] | None:
    is_terminal = sys.stderr is sys.__stderr__ and sys.stderr is not None and sys.stderr.isatty()
    if progress is None:
        # A notebook replaces sys.stderr and shows what is written there.
        progress = is_terminal or "ipykernel" in sys.modules
    return None if not progress else "bar" if is_terminal else "lines"
