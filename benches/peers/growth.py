"""Measures how the speed of full PPO on the CPU grows: one axis at a time, operant, JAX and PyTorch in turn.

    python3 benches/peers/growth.py

It writes docs/results/scaling-cpu.md and, beside it, every measurement as JSON, from which growth_report.py
writes the page again. Progress goes to stderr.
"""

import argparse
import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import plan
from contender import Contender, Message, Operant, operant_environment
from growth_report import page
from installation import ROOT, Unavailable, operant_binary, say
from machine import describe
from report import as_json
from run import add_programs, compare, interpreter
from worker import usable_cores

PAGE = ROOT / "docs" / "results" / "scaling-cpu.md"
ENVS, STEPS, FEW_ENVS = 8_192, 128, 512
"""Environments and steps of the base; fewer environments for the axis of minibatches, for PyTorch's sake."""
MOST_SAMPLES = ENVS * STEPS
"""Largest batch of the axis of environments: beyond the base, only the number of environments grows."""
MOST_MULTIPLY_ADDS = 1 << 26
"""Environments x width^2: the largest for which an update takes seconds."""
RESERVED = 3.0
"""Time reserved for a measurement, in units of `--budget`: it lasts at least two updates."""
REFUSED_ENVS = 1 << 21
"""Environments that need more memory than the 4 GB to which `ulimit -v` limits the process."""
MEMORY = {
    128: (1, 16, 256, 1_024, 2_048, 4_096, 8_192, 16_384, 32_768),
    4: (1_024, 65_536, 262_144, 1_048_576),
}
"""Environments whose memory is measured, by steps."""
# A process begins with the peak of the one that started it, so that one has to be small.
PEAK = """import os, sys
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(used.ru_maxrss)
sys.exit(status != 0)"""
"""A program that runs its arguments, and prints the KiB of resident memory that they took at their peak."""


@dataclass(frozen=True)
class Point:
    """A value on an axis, and the settings that follow from it."""

    axis: str
    value: int
    envs: int = ENVS
    steps: int = STEPS
    minibatch: int = plan.MINIBATCH
    hidden: tuple[int, ...] = (64, 64)
    threads: int = 0
    peers: bool = False

    @property
    def training(self) -> plan.Training:
        """As the peers are given it; a minibatch is at most the batch."""
        minibatches = max(1, self.envs * self.steps // self.minibatch)
        return plan.Training(num_envs=self.envs, num_steps=self.steps, num_minibatches=minibatches)

    def comparison(self, options: argparse.Namespace) -> plan.Comparison:
        """operant's side and both peers."""
        widths = ",".join(map(str, self.hidden))
        settings = {
            "env": "cartpole",
            "device": "cpu",
            "precision": "f32",
            "envs": self.envs,
            "steps": self.steps,
            "minibatch": min(self.minibatch, self.envs * self.steps),
            "hidden": widths,
            "threads": self.threads,
            "budget": options.budget,
        }
        flags = (word for name, value in settings.items() for word in ("--" + name, str(value)))
        peers = (plan.jax_ppo(self.training, "jax"), plan.torch_ppo(self.training, "numpy"))
        limited = (
            replace(
                peer,
                arguments=(*peer.arguments, "--hidden", widths),
                ready_limit=options.limit,
                measure_limit=options.limit / options.rounds,
            )
            for peer in peers
        )
        title = f"{self.axis} {self.value:,}"
        command = ("bench", "train", *flags, "--json")
        return plan.Comparison(
            f"{self.axis}-{self.value}", title, plan.SPEED, command, tuple(limited) if self.peers else ()
        )


def environments(quick: bool) -> list[Point]:
    """Environments: up to 1,024 x 1,024, in batches of at most the base's size."""
    values = [4**power for power in range(2 if quick else 11)]
    beside = (1, 16, 256, 4_096, 16_384)
    return [
        Point("environments", n, envs=n, steps=min(STEPS, MOST_SAMPLES // n), peers=n in beside)
        for n in values
    ]


def width(quick: bool) -> list[Point]:
    """Width of both hidden layers, with fewer environments where an update would take long."""
    values = [2**power for power in range(4, 6 if quick else 11)]
    most = 256 if quick else ENVS
    return [
        Point(
            "width",
            w,
            envs=min(most, MOST_MULTIPLY_ADDS // w**2),
            hidden=(w, w),
            peers=w in (16, 64, 256, 1_024),
        )
        for w in values
    ]


def depth(quick: bool) -> list[Point]:
    """Number of hidden layers."""
    return [
        Point("depth", n, envs=256 if quick else ENVS, hidden=(64,) * n) for n in range(1, 3 if quick else 5)
    ]


def threads(quick: bool) -> list[Point]:
    """Threads: powers of two, and all."""
    cores = usable_cores()
    values = sorted({cores, *(2**power for power in range(cores.bit_length()))})
    return [
        Point("threads", n, envs=256 if quick else ENVS, threads=n) for n in values[: 2 if quick else None]
    ]


def minibatch(quick: bool) -> list[Point]:
    """Samples of a minibatch."""
    values = [2**power for power in range(5, 7 if quick else 16)]
    envs = 64 if quick else FEW_ENVS
    return [
        Point("minibatch", m, envs=envs, minibatch=m, peers=m in (32, 256, 2_048, 32_768)) for m in values
    ]


AXES: dict[str, Callable[[bool], list[Point]]] = {
    "environments": environments,
    "width": width,
    "minibatch": minibatch,
    "depth": depth,
    "threads": threads,
}
"""The axes without peers come last: where the time is short, peers are omitted first."""


class Warmed(Operant):
    """operant, which needs no run before the first round: each process of `operant bench` warms up."""

    def start(self) -> None:
        pass


def warmed(comparison: plan.Comparison, binary: Path, options: argparse.Namespace, logs: Path) -> Contender:
    """operant's side of a comparison."""
    return Warmed(binary, comparison, None, logs, options.seconds)


def memory(binary: Path, envs: int, steps: int, logs: Path) -> int:
    """Bytes of resident memory that a training of two updates takes at its peak."""
    minibatches = max(1, envs * steps // plan.MINIBATCH)
    training = plan.Training(num_envs=envs, num_steps=steps, num_minibatches=minibatches, update_epochs=1)
    own = ["--no-ring", "--quiet", "--run-dir", str(logs / "runs"), "--steps", str(2 * envs * steps)]
    helper = [sys.executable, "-I", "-S", "-c", PEAK]
    command = [*helper, str(binary), *training.operant_flags("cpu", "f32"), *own]
    done = subprocess.run(
        command, capture_output=True, text=True, env=operant_environment(logs, None), check=False
    )
    if done.returncode != 0:
        raise Unavailable(f"memory of {envs:,} x {steps}: {done.stderr.strip()}")
    return int(done.stdout.split()[-1]) * 1024


def computed(binary: Path, steps: int, logs: Path) -> float | None:
    """Bytes an environment that operant computes in advance: it names them when it refuses a run."""
    script = f'ulimit -v 4000000; exec "$0" bench train --device cpu --envs {REFUSED_ENVS} --steps {steps}'
    environment = operant_environment(logs, None)
    done = subprocess.run(
        ["sh", "-c", script, str(binary)], capture_output=True, text=True, env=environment, check=False
    )
    found = re.search(r"take ([\d.]+) GiB", done.stderr)
    return float(found[1]) * 2**30 / REFUSED_ENVS if found else None


def memories(binary: Path, quick: bool, logs: Path) -> list[Message]:
    """The memory of each number of environments, by steps."""
    found = []
    for steps, values in MEMORY.items():
        rows = []
        for envs in values[:4] if quick else values:
            rows.append({"envs": envs, "bytes": memory(binary, envs, steps, logs)})
            say(f"memory, {envs:,} x {steps}: {rows[-1]['bytes'] / 2**20:,.1f} MiB")
        found.append({"steps": steps, "rows": rows, "computed_per_env": computed(binary, steps, logs)})
    return found


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="+", choices=(*AXES, "memory"), metavar="AXIS", help=f"{', '.join(AXES)} or memory"
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=30.0,
        help="limit of all measurements, without building and installing; each takes a share (default: 30)",
    )
    parser.add_argument(
        "--quick", action="store_true", help="two points an axis: whether all works, not how fast"
    )
    parser.add_argument("--rounds", type=int, help="measurements of each side (default: 3)")
    parser.add_argument(
        "--page",
        type=Path,
        metavar="FILE.md",
        help=f"where to write (default: {PAGE.relative_to(ROOT)}; stdout with --only or --quick)",
    )
    add_programs(parser)
    options = parser.parse_args()
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.seconds = 0.5 if options.quick else options.minutes / 15
    options.budget = 1.0 if options.quick else options.minutes / 10
    options.limit = 30.0 if options.quick else 2 * options.minutes
    options.venvs = options.venvs.resolve()
    options.page = options.page or (None if options.only or options.quick else PAGE)
    return options


def measure(points: list[Point], binary: Path, options: argparse.Namespace, results: Message) -> None:
    """Adds every point to the results, without peers or not at all where the time is used up."""
    deadline = time.monotonic() + 60 * options.minutes
    operant = RESERVED * options.rounds * options.budget
    for number, point in enumerate(points):
        left = deadline - time.monotonic()
        # Each of two peers may take the limit to get ready, and again to measure.
        late = left < operant * (len(points) - number) + 4 * options.limit
        comparison = point.comparison(options)
        row: Message = {"axis": point.axis, "value": point.value, "hidden": point.hidden}
        row |= vars(point.training) | {"skipped": left < 3 * operant, "late": late and point.peers}
        if not row["skipped"]:
            row |= compare(comparison, [] if late else list(comparison.peers), binary, options, warmed)
        results["comparisons"].append(row)
        if options.page:
            options.page.with_suffix(".json").write_text(as_json(results) + "\n")


def main() -> int:
    """Measures, and writes the page; the exit code is 1 if a measurement of operant failed."""
    options = arguments()
    logs = options.venvs / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    asked = options.only or (*AXES, "memory")
    try:
        binary = operant_binary(options.operant)
        for requirements in ("jax", "torch"):
            # A peer that cannot be installed is named at each of its points.
            with contextlib.suppress(Unavailable):
                interpreter(requirements, options)
        begin = time.monotonic()
        found = memories(binary, options.quick, logs) if "memory" in asked else []
    except Unavailable as reason:
        say(f"error: {reason}")
        return 2
    results: Message = {"machine": describe(binary, "cpu"), "rounds": options.rounds, "quick": options.quick}
    results["memory"] = found
    options.minutes -= (time.monotonic() - begin) / 60
    points = [point for axis in AXES if axis in asked for point in AXES[axis](options.quick)]
    results["comparisons"] = []
    measure(points, binary, options, results)
    text = page(results)
    if options.page is None:
        print(text)
    else:
        options.page.write_text(text + "\n")
        say(f"wrote {os.path.relpath(options.page)}")
    say(f"{(time.monotonic() - begin) / 60:.1f} minutes")
    ours = [each["sides"][0] for each in results["comparisons"] if not each["skipped"]]
    return 1 if any(side["error"] for side in ours) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
