"""What every peer script shares: answering the driver, and the rule by which a task counts as solved.

A worker prepares one or more settings of its library, keeps the fastest, and says that it is ready. Then it
measures whenever the driver asks it to, one JSON object a line on stdout, and idles in between, so that the
driver can alternate it with others.
"""

import collections
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from typing import Any

Step = Callable[[], int]
"""Does some work, waits for its end, and returns how many environment steps it was."""

SOLVED_AT = 475.0
"""Mean return over the evaluation's episodes at which CartPole-v1 counts as solved."""
EVALUATION_EPISODES = 100
WINDOW = 100
"""Finished training episodes whose mean suggests whether an evaluation is worth its time."""


@dataclass
class Candidate:
    """One setting of a library: what it is, and how to make it ready."""

    settings: dict[str, Any]
    prepare: Callable[[], Step]
    rehearse: Callable[[], Step] | None = None
    """Something smaller by which to choose the fastest setting, where the thing itself takes long."""


def protocol() -> Callable[[dict[str, Any]], None]:
    """Keeps stdout for the driver alone: what libraries print goes to stderr from here on."""
    channel = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    return send


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_counts() -> list[int]:
    """What is worth trying with PyTorch: small networks are often faster on one thread."""
    return sorted({1, usable_cores()})


def versions(*packages: str) -> dict[str, str]:
    """The installed versions of these packages."""
    return {package: metadata.version(package) for package in packages}


def rate(step: Step, seconds: float, clock: Callable[[], float] = time.perf_counter) -> dict[str, float]:
    """Steps per second of `clock` over at least `seconds`, and how many cores this process kept busy."""
    steps, start, used, first = 0, time.perf_counter(), time.process_time(), clock()
    while (elapsed := time.perf_counter() - start) < seconds or steps == 0:
        steps += step()
    by_clock, elapsed = clock() - first, time.perf_counter() - start
    return {"sps": steps / by_clock, "seconds": elapsed, "cores_busy": (time.process_time() - used) / elapsed}


def fastest(candidates: list[Candidate], seconds: float) -> Candidate:
    """The fastest candidate; with only one, nothing is measured."""
    speeds = []
    for candidate in candidates if len(candidates) > 1 else []:
        step = (candidate.rehearse or candidate.prepare)()
        step()
        speeds.append(rate(step, seconds)["sps"])
        print(f"tried {candidate.settings}: {speeds[-1]:.0f} steps/s", file=sys.stderr)
    return candidates[speeds.index(max(speeds))] if speeds else candidates[0]


def serve(
    packages: dict[str, str],
    candidates: list[Candidate],
    trial_seconds: float = 0.5,
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """Prepares, then measures for the number of seconds on each line of stdin, until stdin ends."""
    send = protocol()
    chosen = fastest(candidates, trial_seconds)
    step = chosen.prepare()
    step()
    send({"ready": True, "versions": packages, "settings": chosen.settings})
    for line in sys.stdin:
        send(rate(step, float(line), clock))


class Attempts:
    """Whether the training mean suggests that the task may be solved: operant's own rule.

    An attempt is due once the mean of the last finished episodes has come half the way from where training
    began to the threshold, and then again after `interval` updates.
    """

    def __init__(self, interval: int, threshold: float = SOLVED_AT) -> None:
        self.interval, self.threshold = interval, threshold
        self.window: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self.first: float | None = None
        self.last_attempt: int | None = None

    def finished(self, returns: Iterable[float]) -> None:
        """Adds the returns of training episodes that ended."""
        self.window.extend(returns)
        if self.first is None and self.window:
            self.first = self.mean()

    def mean(self) -> float:
        """Mean return of the window."""
        return sum(self.window) / len(self.window)

    def due(self, update: int) -> bool:
        """Whether to evaluate after this update, which is noted as an attempt if so."""
        if self.first is None or self.mean() < self.first + (self.threshold - self.first) / 2:
            return False
        if self.last_attempt is not None and update < self.last_attempt + self.interval:
            return False
        self.last_attempt = update
        return True


def report_solved(
    send: Callable[[dict[str, Any]], None],
    solved: bool,
    mean: float | None,
    env_steps: int,
    packages: dict[str, str],
) -> None:
    """Reports the end of training, with the last evaluation's mean; the driver's clock stops at this line."""
    send({"solved": solved, "mean": mean, "env_steps": env_steps, "versions": packages})
