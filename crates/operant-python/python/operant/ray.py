"""Ray: many runs over many machines.

    import operant.ray

    sweep = operant.ray.sweep("rates.toml", address="auto", cpus_per_run=1)

`sweep` trains a sweep's runs on a Ray cluster; its decisions, table and bits are those of one machine. `Trainable` is one run as Ray Tune
takes it, for Tune's own schedulers and searches. docs/scale.md has clusters, Slurm and Kubernetes.

`pip install "operant-rl[ray]"` installs what this module needs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import signal
import socket
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
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
"""How long a machine of the cluster may take to answer."""
POLL_S = 0.1
"""How often each run checks whether the sweep is stopping."""
LOSS_LIMIT = 10
"""Maximum times that a run may lose its machine without a new checkpoint."""
LOST = (ray.exceptions.RayActorError, ray.exceptions.ObjectLostError)
"""The exceptions that Ray raises when the machine of a run, or its result, is lost."""


def sweep(
    spec: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    address: str = "auto",
    cpus_per_run: int = 1,
    gpus_per_run: float = 0.0,
    checkpoint_s: float = 30.0,
    **keywords: Any,
) -> Sweep:
    """Trains a sweep on a Ray cluster; the table and the final weights are the same as on one machine.

    Each run is a Ray actor. While it trains, its checkpoints are sent to the machine of this process. If its machine is lost, it continues
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

    executor = Executor(address, cpus_per_run, gpus_per_run, checkpoint_s)
    with _without_rays_handler():
        return anywhere(spec, executor=executor, **keywords)


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
        losses, before = 0, step_of(local)
        while True:
            worker = _Actor.options(**self.resources).remote(_version(), task, world, packed(local))
            try:
                return self._follow(worker, local, link)
            except LOST as error:
                if getattr(error, "actor_init_failed", False):
                    # Other runs would fail too: the sweep ends, and can be resumed.
                    raise OSError(f"a machine of the cluster cannot train: {_last_line(error)}") from error
                if link.is_stopping():
                    return False
                losses = losses + 1 if step_of(local) == before else 1
                before = step_of(local)
                if losses > LOSS_LIMIT:
                    raise RuntimeError(f"the run lost its machine {losses} times without progress: {_last_line(error)}") from error
                link.warn(f"the run lost its machine and continues on another one from step {before}: {_last_line(error)}")
            finally:
                ray.kill(worker)

    def _follow(self, worker: Any, local: Path, link: Link) -> bool:
        """Waits for the end of a run, and fetches its directory at intervals and at the end."""
        ready = worker.ready.remote()
        while not ray.wait([ready], timeout=POLL_S)[0]:
            # No timeout: the cluster may be full for any time.
            if link.is_stopping():
                return False
        ray.get(ready)
        end, snapshot, is_told = worker.train.remote(), None, False
        due = time.monotonic() + self.checkpoint_s
        while True:
            ended, _ = ray.wait([end] if snapshot is None else [end, snapshot], timeout=POLL_S)
            if end in ended:
                break
            if ended:
                self._keep(ray.get(snapshot), local, link)
                snapshot, due = None, time.monotonic() + self.checkpoint_s
            if link.is_stopping() and not is_told:
                worker.stop.remote()
                is_told = True
            elif snapshot is None and not is_told and time.monotonic() >= due:
                snapshot = worker.snapshot.remote()
        try:
            finished, contents = ray.get(end)
        except ray.exceptions.RayTaskError as error:
            _clean(worker)
            if isinstance(error.cause, OSError):
                # Not the sweep's own disk: an error there ends the sweep.
                raise RuntimeError(f"on a machine of the cluster: {error.cause}") from error
            raise error.cause from None
        self._keep(contents, local, link)
        _clean(worker)
        return bool(finished)

    def _keep(self, contents: bytes, local: Path, link: Link) -> None:
        before = step_of(local)
        unpack(contents, local)
        link.add_steps(max(0, step_of(local) - before))


def _clean(worker: Any) -> None:
    """Waits until the actor has removed its files, before it is killed."""
    ray.wait([worker.clean.remote()], timeout=CONNECT_S)


def connect(address: str) -> None:
    """Connects this process to a cluster, unless it is connected."""
    if ray.is_initialized():
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal() and "/" not in host:
            # Ray itself tries for minutes.
            socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_S).close()
        with _handlers_kept():
            ray.init(address=address, log_to_driver=False, include_dashboard=False if address == "local" else None)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(f"the Ray cluster {address!r} cannot be joined: {_last_line(error)}") from error


@contextlib.contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray ends the process on SIGTERM; a sweep saves checkpoints first."""
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items() if is_main else ():
            signal.signal(number, handler)


@contextlib.contextmanager
def _without_rays_handler() -> Iterator[None]:
    """The same where Ray was initialised before."""
    handler = signal.getsignal(signal.SIGTERM)
    is_rays = str(getattr(handler, "__module__", "")).startswith("ray.")
    if not is_rays or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def room(cpus: int, gpus: float) -> int:
    """How many runs fit on the machines of the cluster at once."""
    fitting = 0
    for node in ray.nodes():
        has = node["Resources"] if node["Alive"] else {}
        by_cpu = int(has.get("CPU", 0) // cpus)
        # Fractions of a GPU are of one GPU.
        of_gpus = int(has.get("GPU", 0)) * int(1 / gpus) if 0 < gpus <= 1 else int(has.get("GPU", 0) // gpus) if gpus else by_cpu
        fitting += min(by_cpu, of_gpus)
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
        if contents is not None:
            unpack(contents, self.directory)
        self.sent = step_of(self.directory)

    def ready(self) -> None:
        """Returns once the actor has started."""

    def train(self) -> tuple[bool, bytes]:
        """Trains. Returns whether the run has reached its steps, and its directory."""
        finished = _core.train_task(self.task, self.world, os.fspath(self.runs), self.control)
        contents = packed(self.directory)
        assert contents is not None, "a run leaves a checkpoint"
        return finished, contents

    def snapshot(self) -> bytes:
        """Saves a checkpoint while the run trains: the directory with it."""
        self.control.checkpoint()
        while step_of(self.directory) == self.sent:
            time.sleep(POLL_S / 2)
        while True:
            # The run removes old checkpoints meanwhile.
            with contextlib.suppress(FileNotFoundError):
                contents = packed(self.directory)
                assert contents is not None, "there is a newer checkpoint"
                self.sent = step_of(self.directory)
                return contents

    def stop(self) -> None:
        """Stops the training that is in progress."""
        self.control.terminate()

    def clean(self) -> None:
        """Removes what the run left here, and ends the actor."""
        shutil.rmtree(self.runs, ignore_errors=True)
        ray.actor.exit_actor()


# Threads for training, snapshots and stops.
_Actor: Any = ray.remote(max_restarts=0, max_concurrency=3)(_Worker)


class Trainable(ray.tune.Trainable):
    """A run as a class for Ray Tune, with its schedulers and searches: ASHA, PBT, Optuna.

        tuner = ray.tune.Tuner(
            operant.ray.Trainable,
            param_space={"env": "acrobot", "interval": 50_000, "learning_rate": ray.tune.loguniform(1e-4, 1e-2)},
            tune_config=ray.tune.TuneConfig(metric="eval_return_mean", mode="max", num_samples=16, scheduler=ASHAScheduler()),
            run_config=ray.tune.RunConfig(checkpoint_config=ray.tune.CheckpointConfig(checkpoint_frequency=1)),
        )

    The configuration has `env`, any setting of docs/configuration.md, and `interval`: the environment steps of an iteration, by default
    50,000. An iteration ends with an evaluation. It reports the result of `operant train --json` so far and the metrics of the
    last update. A trial that is restored, or that copies another one as PBT does, continues bit for bit with its settings, except `seed` and
    `env_options`, which a copy keeps from its original. Settings that the configuration leaves out come from presets, operant.toml and
    OPERANT_* variables where the trial runs.
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
        self.settings: dict[str, Any] = {"threads": max(1, int(cores))} | settings

    @property
    def directory(self) -> Path:
        return self.runs / "run"

    def step(self) -> dict[str, Any]:
        from operant._train import Run, _text

        resumed = (self.directory / "checkpoints").exists()
        # A copy keeps those of its original.
        own = {key: value for key, value in self.settings.items() if not (resumed and key in ("seed", "env_options"))}
        if not resumed:
            own |= {"name": self.directory.name, "run_dir": os.fspath(self.runs)}
        defaults: dict[str, Any] = {"ring": False, "tensorboard": False, "checkpoint_interval": 0}
        settings = defaults | own | {"csv": True}
        options = settings.pop("env_options", {})
        _core.train(
            None if resumed else self.env,
            [(key, _text(key, value)) for key, value in settings.items()],
            env_options=[(key, _text(key, value)) for key, value in options.items()],
            config=None,
            resume=os.fspath(self.directory) if resumed else None,
            notify=None,
            progress=None,
            control=_core.Control(),
            until=self.steps + self.interval,
            # A trial that moved here from another machine has the mark of that machine's user.
            trust=resumed,
        )
        run = Run._in(self.directory)
        result = run.result
        assert result is not None, "an iteration leaves a result"
        self.steps = result["env_steps"]
        last = run.metrics()[-1]
        metrics = {name: float(last[name]) for name in last.dtype.names or ()}
        figures = {key: value for key, value in result.items() if isinstance(value, (int, float))}
        config = result["config"]
        solved = bool(config.get("stop_when_solved")) and result["solved_at_step"] is not None
        own = {"eval_metrics": result["eval_metrics"]} if result["eval_metrics"] else {}
        return metrics | figures | own | {"timesteps_total": self.steps, "done": solved or self.steps >= config["total_timesteps"]}

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        contents = packed(self.directory)
        assert contents is not None, "an iteration leaves a checkpoint"
        unpack(contents, Path(checkpoint_dir) / "run")

    def load_checkpoint(self, checkpoint_dir: str | None) -> None:
        assert checkpoint_dir is not None
        contents = packed(Path(checkpoint_dir) / "run")
        assert contents is not None, "a checkpoint of Tune has a checkpoint of operant"
        shutil.rmtree(self.directory, ignore_errors=True)
        unpack(contents, self.directory)
        self.steps = step_of(self.directory)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        shutil.rmtree(self.directory, ignore_errors=True)
        self.steps = 0
        self._configure(new_config)
        return True

    def cleanup(self) -> None:
        shutil.rmtree(self.runs, ignore_errors=True)


KEPT = ("config.toml", "metrics.csv", "env.world", "result.json", "run.json")
"""Files of a run, besides its latest checkpoint."""


def latest_of(directory: Path) -> Path | None:
    """A run's latest checkpoint."""
    return max((directory / "checkpoints").glob("step_*[0-9]"), default=None)


def step_of(directory: Path) -> int:
    """Environment steps of a run's latest checkpoint; 0 without one."""
    latest = latest_of(directory)
    return 0 if latest is None else int(latest.name.removeprefix("step_"))


def packed(directory: Path) -> bytes | None:
    """A run's directory with its latest checkpoint; None if it has none."""
    latest = latest_of(directory)
    if latest is None:
        return None
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in [*(directory / name for name in KEPT if (directory / name).exists()), latest]:
            tar.add(path, path.relative_to(directory))
    return buffer.getvalue()


def unpack(contents: bytes, directory: Path) -> None:
    """Brings a run's directory up to date. It can be continued at any time: the files come first, then the checkpoint, at once."""
    new = directory.parent / f".{directory.name}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(contents)) as tar:
        tar.extractall(new, filter="data")
    for path in [*new.rglob("*"), new]:
        _to_disk(path)
    if not directory.exists():
        new.rename(directory)
        _to_disk(directory.parent)
        return
    for path in new.iterdir():
        if path.is_file():
            path.replace(directory / path.name)
    (checkpoint,) = (new / "checkpoints").iterdir()
    kept = directory / "checkpoints" / checkpoint.name
    kept.parent.mkdir(exist_ok=True)
    if not kept.exists():
        checkpoint.rename(kept)
    for path in (kept.parent, directory):
        _to_disk(path)
    for older in kept.parent.iterdir():
        if older != kept:
            shutil.rmtree(older, ignore_errors=True)
    shutil.rmtree(new, ignore_errors=True)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _version() -> str:
    version: str = _core.build_info()["version"]
    return version


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
