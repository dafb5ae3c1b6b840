"""Measures a run in several processes: `mpirun -n N operant train ENV --distributed mpi`.

    cargo build --release --features mpi
    python benches/peers/ranks.py --operant target/release/operant > ranks.md

The numbers of processes take turns in each round. Every run must end with the state of the first, byte for
byte. The table goes to stdout in Markdown, progress to stderr.
"""

import argparse
import csv
import hashlib
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from contender import operant_environment
from installation import Unavailable, operant_binary, say
from machine import describe
from report import ran_on, span

WARM_UP = 3
"""Updates of a run that are not counted."""


@dataclass
class Side:
    """A number of processes and the threads of each; 0 processes are `operant train` without MPI."""

    processes: int
    threads: int
    steps_per_second: list[float] = field(default_factory=list)
    exchange: list[float] = field(default_factory=list)
    """Share of the time in communication, process 0."""

    @property
    def label(self) -> str:
        """A cell."""
        return "without MPI" if self.processes == 0 else str(self.processes)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--env", default="cartpole", help="environment (default: %(default)s)")
    parser.add_argument(
        "--set",
        nargs="+",
        metavar="KEY=VALUE",
        default=["num_envs=4096", "num_steps=32", "num_minibatches=8", "total_timesteps=5e6"],
        help="settings of every run (default: %(default)s)",
    )
    parser.add_argument(
        "--processes",
        nargs="+",
        metavar="N:THREADS",
        default=["0:2", "1:2", "2:1", "4:1"],
        help="processes and threads of each; 0 is without MPI (default: %(default)s)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="runs of each (default: 5)")
    parser.add_argument("--mpirun", default="mpirun", help="launcher with its flags (default: %(default)s)")
    parser.add_argument("--operant", type=Path, required=True, help="binary built with --features mpi")
    return parser.parse_args()


def train(side: Side, name: str, directory: Path, options: argparse.Namespace) -> str:
    """One run; adds its figures and returns the SHA-256 of its state."""
    fixed = ["shuffle=blocks", f"threads={side.threads}", "ring=false", "solved_at=1e9"]
    fixed += ["checkpoint_interval=0", "device=cpu"]
    settings = [word for setting in [*options.set, *fixed] for word in ("--set", setting)]
    command = [str(options.binary), "train", options.env, "--name", name, "--quiet", "--json", *settings]
    if side.processes:
        launcher = [*shlex.split(options.mpirun), "-n", str(side.processes)]
        command = [*launcher, *command, "--distributed", "mpi"]
    environment = operant_environment(directory, None)
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=directory
    )
    if done.returncode:
        raise Unavailable(f"{shlex.join(command)}: {done.stderr.strip()}")
    run = directory / "runs" / name
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[WARM_UP:]
    side.steps_per_second.append(statistics.median(float(row["sps"]) for row in rows))
    if side.processes:
        # A run of one process has no exchanges.
        side.exchange.append(statistics.median(float(row["comm_share"] or 0) for row in rows))
    state = sorted((run / "checkpoints").glob("step_*"))[-1] / "state.safetensors"
    return hashlib.sha256(state.read_bytes()).hexdigest()


def table(sides: list[Side], options: argparse.Namespace, machine: dict[str, Any], digest: str) -> str:
    """All of it in Markdown."""
    first = statistics.median(sides[0].steps_per_second)
    lines = [
        *ran_on(machine, []),
        f"{options.env}, {', '.join(options.set)}. Median of {options.rounds} runs (range); steps/s and the "
        "share of time in communication are medians over the updates of a run.",
        "",
        "| processes | threads of each | steps/s | of the first | communication |",
        "| --- | --- | --- | --- | --- |",
    ]
    for side in sides:
        exchange = f"{statistics.median(side.exchange):.1%}" if side.exchange else ""
        ratio = statistics.median(side.steps_per_second) / first
        speed = span(side.steps_per_second, "steps/s")
        cells = [side.label, str(side.threads), speed, f"{ratio:.2f}", exchange]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", f"Final state of every run: SHA-256 {digest}."])


def main() -> int:
    """Runs every side in each round; the exit code is 1 where states differ."""
    options = arguments()
    sides = [Side(*(int(number) for number in side.split(":"))) for side in options.processes]
    digests = set()
    try:
        options.binary = operant_binary(options.operant)
        machine = describe(options.binary, "cpu")
        with tempfile.TemporaryDirectory(prefix="peers-ranks-") as scratch:
            for turn in range(options.rounds):
                for side in sides:
                    name = f"p{side.processes}-t{side.threads}-{turn}"
                    digests.add(train(side, name, Path(scratch), options))
                    say(f"{name}: {side.steps_per_second[-1]:,.0f} steps/s")
    except Unavailable as reason:
        say(f"error: {reason}")
        return 2
    if len(digests) > 1:
        say(f"error: the runs have different states: {json.dumps(sorted(digests))}")
        return 1
    print(table(sides, options, machine, digests.pop()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
