"""Those who are measured: a peer's worker process, a peer that solves a task, and operant doing either.

All have one interface, so that the driver can alternate them: `start`, `measure` once a round, `close`.
"""

import json
import os
import queue
import resource
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from installation import HERE, Unavailable
from plan import CPU, TIME, Comparison, Peer

READY_SECONDS = 600
"""How long a peer's program may take to be built."""
MEASURE_SECONDS = 600
"""How long any measurement may take."""

Message = dict[str, Any]


class Contender(Protocol):
    """One side of a comparison."""

    facts: Message
    """Versions and settings, known after `start`."""

    def start(self) -> None:
        """Makes ready, warm-up included. Raises Unavailable."""

    def measure(self, round_number: int) -> Message:
        """One measurement, its result under "value". Raises Unavailable."""

    def close(self) -> None:
        """Ends whatever still runs."""


def clean_environment() -> dict[str, str]:
    """This environment without settings of operant's and of OpenBLAS, which may choose slower kernels."""
    settings = ("OPERANT_", "OPENBLAS_")
    return {name: value for name, value in os.environ.items() if not name.startswith(settings)}


def peer_environment(peer: Peer) -> dict[str, str]:
    """JAX runs where it is meant to or not at all, and takes no more of a GPU's memory than it needs.

    The BLAS library of a program that is built uses one thread.
    """
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} if peer.build else {}
    jax = {
        "JAX_PLATFORMS": "cuda" if peer.requirements == "jax-cuda" else "cpu",
        "JAX_TRACEBACK_FILTERING": "off",
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    return clean_environment() | one_thread | jax


def operant_environment(directory: Path, workers: Path | None) -> dict[str, str]:
    """The variables: no configuration of the user, and `workers` as the interpreter of worker processes."""
    environment = clean_environment() | {"XDG_CONFIG_HOME": str(directory)}
    if workers is not None:
        environment["VIRTUAL_ENV"] = str(workers.parent.parent)
    return environment


def last_line(path: Path) -> str:
    """The last lines of a log, which usually contain the reason."""
    lines = [line.strip() for line in path.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def ended_cpu_seconds() -> float:
    """User and system time of the processes that the driver has started and that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Process:
    """A process that talks in JSON objects, one per line."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path, directory: Path) -> None:
        self.log, self.started = log, time.monotonic()
        self.cpu_seconds = 0.0
        self.messages: queue.Queue[tuple[float, Message | None]] = queue.Queue()
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=directory,
            )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.messages.put((time.monotonic(), json.loads(line)))
        self.messages.put((time.monotonic(), None))

    def send(self, text: str) -> None:
        """A line for the process to read."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(text + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Unavailable(f"it ended early: {last_line(self.log)}") from None

    def receive(self, seconds: float) -> tuple[float, Message]:
        """The next message, and the seconds from the start of the process until it came."""
        try:
            moment, message = self.messages.get(timeout=seconds)
        except queue.Empty:
            raise Unavailable(f"no answer within {seconds:.0f} s (log: {self.log.name})") from None
        if message is None:
            self.process.wait()
            raise Unavailable(f"exit code {self.process.returncode}: {last_line(self.log)}")
        return moment - self.started, message

    def finish(self, seconds: float) -> float:
        """Waits for the end of the process; returns when that was, in seconds from its start.

        `cpu_seconds` is then its user and system time, as no other process of the driver ends meanwhile.
        """
        before = ended_cpu_seconds()
        # Popen.wait with a limit looks every 50 ms only, half the time that a run takes to solve CartPole.
        waiter = threading.Thread(target=self.process.wait, daemon=True)
        waiter.start()
        waiter.join(seconds)
        moment = time.monotonic()
        if waiter.is_alive():
            raise Unavailable(f"it had not ended after {seconds:.0f} s; log: {self.log}")
        self.cpu_seconds = ended_cpu_seconds() - before
        return moment - self.started

    def kill(self) -> None:
        """Ends the process, if it still runs."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Worker:
    """A peer's speed: a process that stays, and measures when it is asked to."""

    def __init__(self, peer: Peer, python: Path, logs: Path, seconds: float) -> None:
        self.peer, self.python, self.logs, self.seconds = peer, python, logs, seconds
        self.facts: Message = {}
        self.process: Process | None = None

    def start(self) -> None:
        command = [str(self.python), str(HERE / self.peer.script), *self.peer.arguments]
        self.process = Process(
            command, peer_environment(self.peer), self.logs / f"{self.peer.name}.log", self.logs
        )
        self.facts = self.process.receive(self.peer.ready_limit)[1]

    def measure(self, round_number: int) -> Message:
        del round_number
        assert self.process is not None
        self.process.send(str(self.seconds))
        message = self.process.receive(self.peer.measure_limit)[1]
        return {"value": message["sps"], **message}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()


class Solver:
    """A peer's time to solve an environment, or its CPU seconds: a process for every seed."""

    def __init__(self, peer: Peer, python: Path, logs: Path, unit: str) -> None:
        self.peer, self.logs, self.unit = peer, logs, unit
        self.command = [str(python), str(HERE / peer.script)]
        self.facts: Message = {}
        self.process: Process | None = None
        self.compiled: Path | None = None

    def start(self) -> None:
        """One run that does not count: it reads the libraries into memory, and may compile what is kept."""
        versions = self._build() if self.peer.build else {}
        if self.peer.keeps_compiled:
            self.compiled = Path(tempfile.mkdtemp(prefix="peers-compiled-"))
        first = self.measure(0)
        versions |= first.get("versions", {})
        self.facts = {"versions": versions, "settings": first.get("settings", {})}

    def _build(self) -> dict[str, str]:
        """Builds the program that is run from here on; returns versions."""
        process = self._start([*self.command, *self.peer.build], peer_environment(self.peer))
        built = process.receive(READY_SECONDS)[1]
        process.finish(READY_SECONDS)
        self.command = [built["program"]]
        versions: dict[str, str] = built["versions"]
        return versions

    def _start(self, command: list[str], environment: dict[str, str]) -> Process:
        self.process = Process(command, environment, self.logs / f"{self.peer.name}.log", self.logs)
        return self.process

    def measure(self, round_number: int) -> Message:
        environment = peer_environment(self.peer)
        if self.compiled is not None:
            environment["JAX_COMPILATION_CACHE_DIR"] = str(self.compiled)
            environment["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
            environment["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"
        command = [*self.command, *self.peer.arguments, "--seed", str(round_number + 1)]
        process = self._start(command, environment)
        seconds, message = process.receive(self.peer.measure_limit)
        process.finish(MEASURE_SECONDS)
        return {"value": process.cpu_seconds if self.unit == CPU else seconds, **message}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
        if self.compiled is not None:
            shutil.rmtree(self.compiled, ignore_errors=True)


class Operant:
    """operant itself, a process for every measurement, away from the user's configuration and runs."""

    def __init__(
        self, binary: Path, comparison: Comparison, workers: Path | None, logs: Path, seconds: float
    ) -> None:
        self.binary, self.comparison, self.workers = binary, comparison, workers
        self.logs, self.seconds = logs, seconds
        self.facts: Message = {}
        self.directory = Path(tempfile.mkdtemp(prefix="peers-operant-"))
        self.process: Process | None = None
        self.steps = 2 * comparison.batch
        """Environment steps of a training whose speed is measured."""
        kinds: dict[str, Callable[[int], Message]] = {"bench": self._bench, "train": self._train}
        self.how = {TIME: self._solve, CPU: self._whole}.get(comparison.unit, kinds[comparison.operant[0]])

    def start(self) -> None:
        first = self.measure(0)
        if self.comparison.batch:
            updates = max(2, round(first["value"] * self.seconds / self.comparison.batch))
            self.steps = updates * self.comparison.batch
        names = ("envs", "device", "precision", "threads")
        self.facts = {"settings": {name: first[name] for name in names if name in first}}

    def measure(self, round_number: int) -> Message:
        return self.how(round_number)

    def _run(self, arguments: list[str]) -> tuple[float, list[Message]]:
        environment = operant_environment(self.directory, self.workers)
        command = [str(self.binary), *self.comparison.operant, *arguments]
        self.process = Process(command, environment, self.logs / "operant.log", self.directory)
        seconds = self.process.finish(MEASURE_SECONDS)
        messages = []
        while (message := self.process.messages.get()[1]) is not None:
            messages.append(message)
        if self.process.process.returncode != 0 or not messages:
            raise Unavailable(self._reason())
        return seconds, messages

    def _reason(self) -> str:
        lines = (self.logs / "operant.log").read_text(errors="replace").splitlines()
        reason = next((line for line in lines if "error" in line), last_line(self.logs / "operant.log"))
        subcommand = self.comparison.operant[0]
        if "unrecognized subcommand" in reason:
            return f"this binary is too old to have `operant {subcommand}`; build a newer one"
        return f"`operant {subcommand}`: {reason}"

    def _bench(self, round_number: int) -> Message:
        del round_number
        for row in self._run([])[1]:
            if row["device"].startswith("cpu"):
                return {"value": row["sps_median"], **row}
        raise Unavailable("`operant bench` printed no row of the CPU")

    def _training(self, arguments: list[str]) -> tuple[float, Message]:
        runs = self.directory / "runs"
        seconds, messages = self._run(["--json", "--quiet", "--run-dir", str(runs), *arguments])
        shutil.rmtree(runs, ignore_errors=True)
        return seconds, messages[-1]

    def _train(self, round_number: int) -> Message:
        result = self._training(["--seed", str(round_number + 1), "--steps", str(self.steps)])[1]
        return {"value": result["sps"], **result}

    def _solve(self, round_number: int) -> Message:
        """Seconds from its start by the driver's clock, less what operant did after it had solved."""
        seconds, result = self._training(["--seed", str(round_number + 1)])
        solved = result["solved_at_s"] is not None
        after = result["wall_s"] - result["solved_at_s"] if solved else 0.0
        return {"value": seconds - after, "solved": solved, **result}

    def _whole(self, round_number: int) -> Message:
        """CPU seconds of a training, with everything before and after it."""
        result = self._training(["--seed", str(round_number + 1)])[1]
        assert self.process is not None
        ends_solved = "stop_when_solved=true" in self.comparison.operant
        solved = {"solved": result["solved_at_step"] is not None} if ends_solved else {}
        return {"value": self.process.cpu_seconds, **solved, **result}

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
