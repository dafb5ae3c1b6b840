"""Ray: many runs over many machines.

    import operant.ray

    sweep = operant.ray.sweep("rates.toml", address="auto", cpus_per_run=1)

`sweep` trains a sweep's runs on a Ray cluster; its decisions, table and bits are those of one machine. `Trainable` is one run as Ray Tune
takes it, for Tune's own schedulers and searches. docs/scale.md has clusters, Slurm and Kubernetes.

`pip install "operant-rl[ray]"` installs what this module needs.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import socket
import tarfile
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from operant import _core

try:
    import ray
    import ray.tune
except ImportError as error:
    raise ImportError(f"operant.ray needs Ray, which cannot be imported ({error}): pip install 'operant-rl[ray]'") from error

if TYPE_CHECKING:
    from operant._core import Link
    from operant._sweep import Sweep

__all__ = ["Executor", "Trainable", "sweep"]

CONNECT_S = 5
"""How long a cluster's machine may take to answer."""
POLL_S = 0.1
"""How often a run looks whether its sweep is stopping."""
LOST_LIMIT = 10
"""How often a run may lose its machine."""


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    address: str = "auto",
    cpus_per_run: int = 1,
    gpus_per_run: float = 0.0,
    checkpoint_s: float = 30.0,
    **keywords: Any,
) -> Sweep:
    """Trains a sweep on a Ray cluster; the table, the runs' directories and their bits are the same as on one machine.

    Every run is an actor of Ray. While it trains, its checkpoints come to the machine of this process. If its machine is lost, it continues
    on another one from the last of them.

    Args:
        spec: As in `operant.sweep`, like all other keywords.
        address: Of the cluster: HOST:PORT, "auto" for the one that this machine belongs to, or "local" to start one on this machine.
        cpus_per_run: CPU cores of each run, which has as many threads.
        gpus_per_run: GPUs of each run, such as 0.25; 0 trains on the CPU.
        checkpoint_s: Seconds between two checkpoints of a run.

    Raises:
        ConnectionError: There is no such cluster.
    """
    from operant._sweep import sweep as anywhere

    return anywhere(spec, executor=Executor(address, cpus_per_run, gpus_per_run, checkpoint_s), **keywords)


class Executor:
    """Trains the runs of a sweep on a Ray cluster: `operant.sweep(spec, executor=Executor("auto"))`.

    Attributes:
        slots: Number of parallel runs: as many as the cluster has room for.
        threads: Threads of each run.
        device: "cpu" or "cuda".
    """

    def __init__(
        self, address: str = "auto", cpus_per_run: int = 1, gpus_per_run: float = 0.0, checkpoint_s: float = 30.0
    ) -> None:
        if cpus_per_run < 1 or gpus_per_run < 0 or not checkpoint_s > 0:
            raise ValueError("a run needs at least one CPU, no negative number of GPUs, and some time between its checkpoints")
        connect(address)
        self.threads = cpus_per_run
        self.device = "cuda" if gpus_per_run else "cpu"
        self.checkpoint_s = checkpoint_s
        self.resources = {"num_cpus": cpus_per_run, "num_gpus": gpus_per_run}
        self.slots = room(cpus_per_run, gpus_per_run)

    def train(self, task: str, world: bytes | None, directory: str, link: Link) -> bool:
        """Trains a run and leaves its directory here; False if the sweep stopped it."""
        local = Path(directory)
        lost = 0
        while True:
            worker = _Actor.options(**self.resources).remote(_version(), task, world, packed(local))
            try:
                return self._follow(worker, local, link)
            except ray.exceptions.RayActorError as error:
                lost += 1
                if error.actor_init_failed or lost > LOST_LIMIT:
                    raise RuntimeError(f"the run lost its machine, {lost} times in all: {error}") from error
                link.warn(f"the run lost its machine and continues on another one from its last checkpoint: {_first_line(error)}")
                ray.kill(worker)

    def _follow(self, worker: Any, local: Path, link: Link) -> bool:
        """Fetches the run's directory after each part of its training."""
        while True:
            part = worker.train.remote(self.checkpoint_s)
            told = False
            while not ray.wait([part], timeout=POLL_S)[0]:
                if link.is_stopping() and not told:
                    worker.stop.remote()
                    told = True
            try:
                finished, contents, steps = ray.get(part)
            except ray.exceptions.RayTaskError as error:
                raise error.cause from None
            unpack(contents, local)
            link.add_steps(steps)
            if finished or link.is_stopping():
                worker.clean.remote()
                return bool(finished)


def connect(address: str) -> None:
    """Connects this process to a cluster, unless it is connected."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        # Ray itself tries for minutes.
        host, _, port = address.rpartition(":")
        if host and port.isdecimal():
            socket.create_connection((host, int(port)), timeout=CONNECT_S).close()
        ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(f"there is no Ray cluster at {address!r}: {_first_line(error)}") from error
    # Ray ends the process on SIGTERM; a sweep saves checkpoints first.
    if threading.current_thread() is threading.main_thread():
        for number, handler in before.items():
            signal.signal(number, handler)


def room(cpus: int, gpus: float) -> int:
    """How many runs fit on the machines of the cluster at once."""
    fitting = 0
    for node in ray.nodes():
        has = node["Resources"] if node["Alive"] else {}
        by_cpu = int(has.get("CPU", 0) // cpus)
        fitting += min(by_cpu, int(has.get("GPU", 0) / gpus)) if gpus else by_cpu
    if fitting == 0:
        raise ValueError(f"no machine of the cluster has {cpus} CPUs and {gpus:g} GPUs for a run")
    return fitting


class _Worker:
    """A run on a machine of the cluster."""

    def __init__(self, version: str, task: str, world: bytes | None, contents: bytes | None) -> None:
        if version != _version():
            raise RuntimeError(f"this machine has operant {_version()}, and the sweep's has {version}")
        segment = json.loads(task)["segment"]
        self.task, self.world = task, world
        self.runs = Path(tempfile.mkdtemp(prefix="operant-"))
        self.directory = self.runs / f"{segment['trial']:04}-seed{segment['seed']}"
        self.control = _core.Control()
        self.steps = 0
        if contents is not None:
            unpack(contents, self.directory)

    def train(self, seconds: float) -> tuple[bool, bytes, int]:
        """Trains for some time: whether the run has ended, its directory, and the steps that it took."""
        control = self.control
        timer = threading.Timer(seconds, control.terminate)
        timer.start()
        try:
            finished = _core.train_task(self.task, self.world, os.fspath(self.runs), control)
        finally:
            timer.cancel()
        self.control = _core.Control()
        contents = packed(self.directory)
        assert contents is not None, "a run leaves a checkpoint"
        before, self.steps = self.steps, _core.list_runs(os.fspath(self.directory), None)[0]["env_steps"]
        return finished, contents, self.steps - before

    def stop(self) -> None:
        """Stops the training that is in progress."""
        self.control.terminate()

    def clean(self) -> None:
        """Removes what the run left here, and ends the actor."""
        shutil.rmtree(self.runs, ignore_errors=True)
        ray.actor.exit_actor()


# A second thread, so that it can be stopped while it trains.
_Actor: Any = ray.remote(max_restarts=0, max_concurrency=2)(_Worker)


class Trainable(ray.tune.Trainable):
    """A run as Ray Tune takes it: for ASHA, PBT, Optuna and all else that Tune has.

        tuner = ray.tune.Tuner(
            operant.ray.Trainable,
            param_space={"env": "acrobot", "interval": 50_000, "learning_rate": ray.tune.loguniform(1e-4, 1e-2)},
            tune_config=ray.tune.TuneConfig(metric="eval_return_mean", mode="max", num_samples=16, scheduler=ASHAScheduler()),
            run_config=ray.tune.RunConfig(checkpoint_config=ray.tune.CheckpointConfig(checkpoint_frequency=1)),
        )

    The configuration has `env`, any setting of docs/configuration.md, and `interval`: the environment steps of an iteration, by default
    50,000. An iteration ends with an evaluation. It reports the result of `operant train --json` so far and the metrics of the
    last update. A trial that is restored, or that copies another one as PBT does, continues bit for bit with its settings.
    """

    def setup(self, config: dict[str, Any]) -> None:
        self.runs = Path(tempfile.mkdtemp(prefix="operant-"))
        self.steps = 0
        self._configure(config)

    def _configure(self, config: Mapping[str, Any]) -> None:
        settings = dict(config)
        if "env" not in settings:
            raise ValueError("the configuration names no environment: add 'env': 'cartpole', for example")
        self.env, self.interval = settings.pop("env"), int(settings.pop("interval", 50_000))
        for key in ("name", "run_dir"):
            if key in settings:
                raise ValueError(f"{key}: Tune names the trials and keeps their files; leave it out")
        # As many threads as the trial has cores.
        cores = ray.get_runtime_context().get_assigned_resources().get("CPU", 1)
        self.settings = {"threads": max(1, int(cores))} | settings

    @property
    def directory(self) -> Path:
        return self.runs / "run"

    def step(self) -> dict[str, Any]:
        from operant._train import Run, _text

        resumed = (self.directory / "checkpoints").exists()
        # A copy keeps the seed of its original.
        settings = {key: value for key, value in self.settings.items() if not (resumed and key in ("seed", "env_options"))}
        if not resumed:
            settings |= {"name": self.directory.name, "run_dir": os.fspath(self.runs)}
        settings = {"ring": False, "tensorboard": False, "checkpoint_interval": 0} | settings
        options = settings.pop("env_options", {})
        _core.train(
            None if resumed else self.env,
            [(key, _text(key, value)) for key, value in settings.items()],
            env_options=[(key, _text(key, value)) for key, value in options.items()],
            config=None,
            resume=os.fspath(self.directory) if resumed else None,
            on_update=None,
            progress=None,
            control=_core.Control(),
            until=self.steps + self.interval,
        )
        run = Run(self.directory)
        result = run.result
        assert result is not None, "an iteration leaves a result"
        self.steps = result["env_steps"]
        last = run.metrics()[-1]
        metrics = {name: float(last[name]) for name in last.dtype.names or ()}
        figures = {key: value for key, value in result.items() if isinstance(value, (int, float))}
        config = result["config"]
        solved = bool(config.get("stop_when_solved")) and result["solved_at_step"] is not None
        return metrics | figures | {"timesteps_total": self.steps, "done": solved or self.steps >= config["total_timesteps"]}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        contents = packed(self.directory)
        assert contents is not None, "an iteration leaves a checkpoint"
        unpack(contents, Path(checkpoint_dir) / "run")

    def load_checkpoint(self, checkpoint_dir: str | None) -> None:
        assert checkpoint_dir is not None
        contents = packed(Path(checkpoint_dir) / "run")
        assert contents is not None, "a checkpoint of Tune has a checkpoint of operant"
        unpack(contents, self.directory)
        self.steps = int(max((self.directory / "checkpoints").glob("step_*")).name.removeprefix("step_"))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.steps = 0
        self._configure(new_config)
        return True

    def cleanup(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)


KEPT = ("config.toml", "metrics.csv", "env.world", "result.json", "run.json")
"""Files of a run, besides its latest checkpoint."""


def packed(directory: Path) -> bytes | None:
    """A run's directory with its latest checkpoint; None if it has none."""
    latest = max((directory / "checkpoints").glob("step_*"), default=None)
    if latest is None:
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in [*(directory / name for name in KEPT), latest]:
            if path.exists():
                tar.add(path, path.relative_to(directory))
    return buffer.getvalue()


def unpack(contents: bytes, directory: Path) -> None:
    """Replaces a run's directory, so that it is whole at any time or not there."""
    new, old = (directory.parent / f".{directory.name}.{kind}" for kind in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(contents)) as tar:
        tar.extractall(new, filter="data")
    for path in new.rglob("*"):
        _to_disk(path)
    _to_disk(new)
    if directory.exists():
        directory.rename(old)
    new.rename(directory)
    _to_disk(directory.parent)
    shutil.rmtree(old, ignore_errors=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _version() -> str:
    version: str = _core.build_info()["version"]
    return version


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
