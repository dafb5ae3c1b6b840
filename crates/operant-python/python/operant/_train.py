"""Training: `operant.train`, `operant.resume`, and the runs that they leave."""

from __future__ import annotations

import contextlib
import html
import importlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypedDict

import numpy as np
from numpy.typing import NDArray

from operant import _core, _frame, _progress
from operant._callbacks import Callback, Events, OnUpdate
from operant._policy import Policy
from operant._register import asked, is_env_maker, is_importable, of_vector, refuse_while_importing
from operant._replay import Replay
from operant._signature import shows_settings
from operant._world import World, is_world

if TYPE_CHECKING:
    import pandas
    from gymnasium.vector import VectorEnv
    from typing_extensions import Unpack

    from operant._settings import Settings

class Result(TypedDict):
    """The result of a run, as `operant train --json` prints it. A value that was not measured is None."""

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
    eval_metrics: dict[str, float]
    solved_at_step: int | None
    solved_at_s: float | None
    checkpoint: str | None
    config: dict[str, Any]


class Evaluation(TypedDict):
    """Episodes of a policy, as `operant eval --json` prints them."""

    run: str
    env: str
    checkpoint: str
    env_steps: int
    eval_return_mean: float
    eval_return_std: float
    eval_return_min: float
    eval_return_max: float
    eval_length_mean: float
    eval_actions: Literal["greedy", "sampled"]
    eval_episodes: int
    eval_distinct: int
    eval_metrics: dict[str, float]
    changed_options: dict[str, float | str]
    solved: bool | None


class Run:
    """A training run, in progress or ended. `train`, `resume` and `runs` return it; `operant.run(NAME)` opens one. `run` is another name of the
    class.

    Args:
        run: Its name or its directory.
        run_dir: The directory that holds the runs, if `run` is a name; by default ./runs.

    Attributes:
        dir: The run's directory, absolute.
        name: Its name.

    Raises:
        ValueError: There is no such run.
    """

    def __init__(self, run: str | os.PathLike[str], *, run_dir: str | os.PathLike[str] | None = None) -> None:
        (found,) = _core.list_runs(os.fspath(run), None if run_dir is None else os.fspath(run_dir))
        self._begin(found["dir"])

    @classmethod
    def _in(cls, dir: str | os.PathLike[str]) -> Run:
        """The run in a directory that is known to have one."""
        run = cls.__new__(cls)
        run._begin(dir)
        return run

    def _begin(self, dir: str | os.PathLike[str]) -> None:
        self.dir = Path(os.path.abspath(dir))
        self._policy: Policy | None = None

    @property
    def name(self) -> str:
        return self.dir.name

    @property
    def result(self) -> Result | Any:
        """The result; None while the run has not ended. (Annotated so that the result of `train` needs no check for None.)"""
        text = _core.result(os.fspath(self.dir))
        return None if text is None else json.loads(text)

    @property
    def state(self) -> str:
        """As `operant runs` shows it: "running", "finished", "preempted" (stopped with a checkpoint), "failed", "killed", ..."""
        return str(self.info()["state"])

    @property
    def note(self) -> str:
        """The note of `operant note`; empty without one."""
        return str(self._notes().get("note", ""))

    @property
    def tags(self) -> list[str]:
        """The tags of `operant tag`."""
        return [str(tag) for tag in self._notes().get("tags", [])]

    def _notes(self) -> dict[str, Any]:
        try:
            notes = json.loads((self.dir / "notes.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return notes if isinstance(notes, dict) else {}

    @property
    def policy(self) -> Policy:
        """The policy of the latest checkpoint, loaded when that changes."""
        latest = self.info()["checkpoint"]
        if self._policy is None or latest is None or not self._policy.path.samefile(latest):
            self._policy = Policy(self.dir)
        return self._policy

    @property
    def replay(self) -> Replay:
        """The replay of the latest checkpoint of a run that was trained with `checkpoint_replay=True`."""
        return Replay.load(self)

    @property
    def config(self) -> dict[str, Any]:
        """Its settings, as config.toml has them; options of the environment have keys such as "env.size"."""
        settings: dict[str, Any] = json.loads(_core.run_config(os.fspath(self.dir)))
        own = settings.pop("env", {})
        return settings | {f"env.{name}": value for name, value in own.items()}

    def info(self) -> dict[str, Any]:
        """Environment, device, seed, state, steps, process and checkpoint, as `operant runs` shows them."""
        return _core.list_runs(os.fspath(self.dir), None)[0]

    def metrics(self) -> NDArray[np.void]:
        """One row for each update, from metrics.csv: a structured array with a float64 field for each metric.

        `to_pandas` makes a DataFrame of it, and `polars.from_numpy(run.metrics())` takes it. docs/metrics.md describes the fields; what
        was not measured is NaN.
        """
        names, values = _core.metrics(os.fspath(self.dir))
        dtype = np.dtype([(name, np.float64) for name in names])
        return values.view(dtype).reshape(-1)

    def to_pandas(self) -> pandas.DataFrame:
        """`metrics` as a DataFrame: a row for each update, by `env_steps`, and a column for each metric.

            run.to_pandas()["episodic_return"].dropna().plot()

        Raises:
            ImportError: pandas is not installed.
        """
        return _frame.of_metrics(self.metrics())

    def curve(self, metric: str = "episodic_return") -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A metric over training: environment steps, and its values there. Updates without a value, such as those in which no episode
        ended, are left out.

        Raises:
            ValueError: There is no such metric; docs/metrics.md lists them.
            FileNotFoundError: The run was trained with csv=False, or has finished no update yet.
        """
        rows = self.metrics()
        names = list(rows.dtype.names or ())
        if metric not in names:
            raise ValueError(f"metric: there is no metric {metric!r}{_core.did_you_mean(metric, names)}")
        known = np.isfinite(rows[metric])
        return rows["env_steps"][known], rows[metric][known]

    def plot(self, metric: str = "episodic_return", ax: Any = None, **line: Any) -> Any:
        """Draws `curve(metric)` with Matplotlib, on `ax` or on the current axes, and returns the axes.

        Args:
            metric: A metric of docs/metrics.md.
            ax: Matplotlib's axes.
            **line: Properties of the line, such as `color`. Its label is the run's name.
        """
        steps, values = self.curve(metric)
        try:
            plt: Any = importlib.import_module("matplotlib.pyplot")
        except ModuleNotFoundError as error:
            raise ImportError("plot needs Matplotlib: pip install matplotlib") from error
        axes = plt.gca() if ax is None else ax
        axes.plot(steps, values, **{"label": self.name, **line})
        axes.set_xlabel("environment steps")
        axes.set_ylabel(metric.replace("_", " "))
        return axes

    def eval(
        self,
        episodes: int = 100,
        *,
        deterministic: bool = True,
        trust: bool = False,
        env: str | World | type | Callable[[], Any] | None = None,
    ) -> Evaluation:
        """Plays episodes with the latest checkpoint; the same ones as `operant eval` with as many episodes.

        With `deterministic=False` actions are drawn from the policy (`operant eval --sample`). With `trust=True` a Gymnasium
        environment is started that this user has not started before: it is a program. `env` is the environment of the run; it is needed if
        it was a lambda, a partial or another function that cannot be imported, and has to make the same one again.
        """
        if isinstance(episodes, bool) or not isinstance(episodes, (int, np.integer)) or not 1 <= episodes < 2**31:
            raise ValueError(f"episodes: expected a whole number of at least 1, got {episodes!r}")
        evaluation: Evaluation = json.loads(
            _core.evaluate(os.fspath(self.dir), episodes, deterministic, trust, None if env is None else _made(env))
        )
        return evaluation

    def __repr__(self) -> str:
        return f"operant.Run({os.fspath(self.dir)!r})"

    def _repr_html_(self) -> str:
        """A table, as a notebook shows it."""
        info, result = self.info(), self.result
        rows = {name: info[name] for name in ("env", "state", "device", "seed")}
        rows["steps"] = f"{info['env_steps']:,} of {info['total_timesteps']:,}"
        if result is not None and result["eval_return_mean"] is not None:
            deviation = result["eval_return_std"] or 0.0
            rows["return"] = f"{result['eval_return_mean']:.2f} &plusmn; {deviation:.2f}, {result['eval_episodes']} greedy episodes"
        if result is not None:
            rows |= {html.escape(name): f"{mean:.3f}" for name, mean in result["eval_metrics"].items()}
        if result is not None and result["solved_at_step"] is not None:
            rows["solved"] = f"at {result['solved_at_step']:,} steps, after {result['solved_at_s']:.2f} s"
        rows["directory"] = html.escape(os.fspath(self.dir))
        cells = "".join(f"<tr><th style='text-align:left'>{name}</th><td style='text-align:left'>{value}</td></tr>" for name, value in rows.items())
        return f"<table><caption>{html.escape(self.name)}</caption>{cells}</table>"


@shows_settings
def train(
    env: str | World | type | Callable[[], Any] | VectorEnv[Any, Any, Any],
    *others: NoReturn,
    on_update: OnUpdate | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    config: str | os.PathLike[str] | None = None,
    env_options: Mapping[str, float | str | os.PathLike[str] | Sequence[str]] | None = None,
    preset: Literal["atari"] | None = None,
    init_from: str | os.PathLike[str] | Run | Policy | None = None,
    replay: Replay | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Trains an agent: the engine of `operant train`, with the same files, checkpoints and bits.

        run = operant.train("cartpole", seed=1, total_timesteps=200_000, learning_rate=1e-3)
        print(run.result["eval_return_mean"])

    Ctrl-C finishes the update, saves a checkpoint and raises KeyboardInterrupt, which names the checkpoint; SIGTERM, which `operant stop` sends, and SIGHUP
    do the same and raise SystemExit(75). `operant.resume` continues. On other threads than the main one Python receives no signals.

    Args:
        env: "cartpole", "CartPole-v1" or "operant/CartPole-v1"; `operant.envs.names()` lists them. Or a world: a class with
            `@operant.world`, or what `operant.load_world` returns. Or a Gymnasium environment, which worker processes step:
            "gym:LunarLander-v3", "module:Class", a class or a function that returns one (a lambda, a partial, or a class of a notebook or a
            function is stepped by threads of this process: for light environments and for debugging), or what `gymnasium.make_vec` returned, whose
            number of environments becomes the default of `num_envs`.
        preset: "atari": preprocessing and hyperparameters for ALE environments, after CleanRL: `train("gym:ALE/Pong-v5", preset="atari")`.
        on_update: Called with the metrics of each update by name, once the next one begins, and for the last one after the
            final evaluation. False from it ends the run, with its final evaluation and a checkpoint; an exception stops it with a checkpoint
            alone, and is raised.
        callbacks: `operant.Callback` objects, which hear of the start, updates, evaluations, checkpoints and the end, such as `operant.track.WandB()`.
        progress: Whether to show progress on stderr; by default on a terminal and in a notebook.
        config: A TOML file of settings, or a `ppo.yml` of RL Baselines3 Zoo; keywords override it.
        env_options: The environment's own options: numbers, words, paths or lists of names.
        init_from: Weights to begin with: a `Run`, its name or its directory for its latest checkpoint, "NAME@STEP" for its checkpoint at that step, the
            directory of a checkpoint, or a `Policy`, also after `load_state_dict`. `algorithm`, `norm_obs`, `clip_obs` and the settings of
            the network are then those of the weights. Layers for other observations or actions are new, which the run's log says.
        replay: Transitions to begin with, for `"sac"`, `"td3"` and `"dqn"` on the CPU. `buffer_size` must hold them, and they count towards
            `learning_starts`.
        **settings: Every key of docs/configuration.md, such as `seed`, `total_timesteps`, `name`, `device`, `run_dir`.
            They override presets, operant.toml and OPERANT_* variables.

    Raises:
        ValueError: A setting, file or environment cannot be used; nothing was trained.
        TypeError: There is no such setting.
        OSError: A file of the run cannot be written.
        FloatingPointError: Training diverged.
        RuntimeError: The device or the environment failed.
    """
    _refuse_positional(others)
    vector = None if isinstance(env, str) else of_vector(env)
    if vector is not None:
        env = vector.name
        settings.setdefault("num_envs", vector.num_envs)
        env_options = {**vector.options, **(env_options or {})}
    if not isinstance(env, str) and not is_world(env) and not is_env_maker(env):
        raise TypeError(
            f"env: expected the name of an environment, such as 'cartpole', a world, a class of Gymnasium environments (not an object), or a "
            f"function that returns one, got {env!r}"
        )
    name = _made(env)
    if preset is not None:
        if not isinstance(name, str) or ":" not in name:
            raise ValueError(f"preset: {preset!r} is for Gymnasium environments that other processes can make, and {env!r} is not one")
        name += f"{'&' if '?' in name else '?'}preset={preset}"
    weights, given = None, dict(settings)
    if isinstance(init_from, Policy):
        weights = init_from
    elif init_from is not None:
        given["init_from"] = init_from.dir if isinstance(init_from, Run) else init_from
    return _run(name, None, Events(on_update, callbacks), progress, config, env_options, given, weights=weights, replay=replay)


@shows_settings
def resume(
    run: str | os.PathLike[str] | Run,
    *others: NoReturn,
    on_update: OnUpdate | None = None,
    callbacks: Sequence[Callback] = (),
    progress: bool | None = None,
    trust: bool = False,
    env: str | World | type | Callable[[], Any] | None = None,
    **settings: Unpack[Settings],
) -> Run:
    """Continues a run from its latest checkpoint; on the same device bit for bit.

    Args:
        run: Its name, its directory, or a `Run`.
        on_update: As in `train`.
        callbacks: As in `train`.
        progress: As in `train`.
        trust: Whether to start a Gymnasium environment that this user has not started before: it is a program.
        env: The environment of the run, if it was a lambda, a partial or another function that cannot be imported.
        **settings: Settings to change, such as `total_timesteps`.

    Raises:
        ValueError: There is no such run, another process trains it, or a setting cannot change.
    """
    _refuse_positional(others)
    for key in ("name", "env_options", "config"):
        if key in settings:
            raise ValueError(f"{key}: a resumed run keeps its own; leave it out")
    name = os.fspath(run.dir if isinstance(run, Run) else run)
    return _run(None if env is None else _made(env), name, Events(on_update, callbacks), progress, None, None, dict(settings), trust)


def runs(run_dir: str | os.PathLike[str] | None = None) -> list[Run]:
    """The runs in a directory (by default ./runs), and those in progress elsewhere, in the order of their start."""
    return [Run._in(run["dir"]) for run in _core.list_runs(None, None if run_dir is None else os.fspath(run_dir))]


def _made(env: Any) -> str | _core.World | _core.LocalEnv:
    """As `asked`; what only this process can make is stepped by its threads."""
    if isinstance(env, str) or is_world(env) or not is_env_maker(env) or is_importable(env):
        return asked(env)
    refuse_while_importing()
    from operant._local import local

    return local(env)


def _refuse_positional(others: tuple[Any, ...]) -> None:
    if others:
        given = ", ".join(map(repr, others))
        raise TypeError(f"expected one positional argument, and also got {given}; settings are keywords, such as total_timesteps=100_000")


def _run(
    env: str | _core.World | _core.LocalEnv | None,
    resumed: str | None,
    events: Events,
    progress: bool | None,
    config: str | os.PathLike[str] | None,
    env_options: Mapping[str, float | str | os.PathLike[str] | Sequence[str]] | None,
    settings: dict[str, Any],
    trust: bool = False,
    weights: Policy | None = None,
    replay: Replay | None = None,
) -> Run:
    refuse_while_importing()
    if replay is not None and not isinstance(replay, Replay):
        raise TypeError(f"replay: expected an operant.Replay or None, got {replay!r}; the one of a run is run.replay")
    if replay is not None and not len(replay):
        raise ValueError("replay: the given replay is empty; add transitions, or leave it out")
    if progress not in (None, True, False):
        raise TypeError(f"progress: expected True, False or None, got {progress!r}")
    if not isinstance(env_options or {}, Mapping):
        raise TypeError(f"env_options: expected a dictionary, got {env_options!r}")
    for name in env_options or {}:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"env_options: expected names of options as keys, got {name!r}")
    for name in settings:
        _core.check_setting(name)
    control = _core.Control()
    try:
        with _signals(control):
            directory, stopped_by = _core.train(
                env,
                [(name, _text(name, value)) for name, value in settings.items()],
                env_options=[(name, _text(name, value)) for name, value in (env_options or {}).items()],
                config=None if config is None else os.fspath(config),
                resume=resumed,
                notify=events.notify(),
                progress=_shown(progress),
                control=control,
                trust=trust,
                weights=None if weights is None else weights._core,
                replay=None if replay is None else replay._given(),
            )
    except BaseException as error:
        events.end(error)
        raise
    events.end()
    if stopped_by in ("SIGTERM", "SIGHUP"):
        # The exit code of `operant train`; a notebook's process survives it.
        raise SystemExit(75)
    return Run._in(directory)


@contextlib.contextmanager
def _signals(control: _core.Control) -> Iterator[None]:
    """Lets signals from other programs reach the run, unless this program has its own handlers."""
    requests = {signal.SIGTERM: control.terminate, signal.SIGHUP: control.hang_up}
    requests |= {signal.SIGUSR1: control.checkpoint, signal.SIGUSR2: control.pause}
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number, request in requests.items():
            if signal.getsignal(number) is signal.SIG_DFL:
                before[number] = signal.signal(number, lambda *_, request=request: request())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _text(name: str, value: Any) -> str:
    """A value as TOML."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if isinstance(value, (list, tuple)) and value and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return f"[{', '.join(_text(name, item) for item in value)}]"
    hint = "; leave it out for its default" if value is None else ""
    raise TypeError(f"{name}: expected a number, text or list, got {value!r}{hint}")


def _shown(progress: bool | None) -> Literal["bar", "lines"] | Callable[[int, int, float, float | None], None] | None:
    """How progress is shown: by a bar in a notebook or on a terminal, and else by lines, if that is requested."""
    if progress is not False and _progress.is_notebook():
        return _progress.NotebookBar().of_run
    is_terminal = sys.stderr is sys.__stderr__ and sys.stderr is not None and sys.stderr.isatty()
    if progress is None:
        progress = is_terminal
    return None if not progress else "bar" if is_terminal else "lines"


# One declaration: to open a run is to make one of the class.
run = Run
