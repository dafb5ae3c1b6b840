"""Computes how a run in many processes would scale, from a measured run on one core and published latencies.

    operant train cartpole --name shared --set shared_trunk=true --set threads=1 --set num_envs=2048 \\
      --set num_steps=128 --set num_minibatches=4 --set update_epochs=4 --steps 1e7
    python benches/peers/scaling.py runs/shared --parameters 4675

Only the times of that run are measured. The rest is arithmetic, for networks that no machine here has.
"""

import argparse
import csv
import math
import statistics
import tomllib
from dataclasses import dataclass
from pathlib import Path

WARM_UP = 3
"""Updates of a run that are not counted."""
PROCESSES = (1, 16, 64, 256, 1024)
ENVS_OF_PROCESS = 16
"""Least environments of a process: a block."""
OTHER_BYTES = 40
"""Bytes of a message with the sums of the losses, which follows each gradient."""


@dataclass(frozen=True)
class Link:
    """A connection: seconds a message, and bytes a second."""

    name: str
    latency: float
    bandwidth: float

    def exchange(self, size: float) -> float:
        """Seconds of a message in both directions."""
        return self.latency + size / self.bandwidth


LINKS = (
    Link("InfiniBand, 2 us, 200 Gbit/s", 2e-6, 25e9),
    Link("Ethernet, 30 us, 25 Gbit/s", 30e-6, 3.1e9),
)


@dataclass(frozen=True)
class Run:
    """What a run of one thread does, and its times in seconds."""

    steps: int
    minibatches: int
    epochs: int
    step: float
    """A step of an environment in a rollout."""
    sample: float
    """A sample of an epoch."""


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path, help="directory of the measured run, with threads = 1")
    parser.add_argument("--parameters", type=int, required=True, help="parameters of its network")
    return parser.parse_args()


def measured(directory: Path) -> Run:
    """The medians over a run's updates."""
    config = tomllib.loads((directory / "config.toml").read_text())
    if config["threads"] != 1:
        raise SystemExit(f"{directory}: threads is {config['threads']}, and has to be 1")
    with (directory / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))[WARM_UP:]
    samples = config["num_envs"] * config["num_steps"]
    rollout = statistics.median(float(row["time_rollout"]) + float(row["time_gae"]) for row in rows)
    learning = statistics.median(float(row["time_update"]) for row in rows)
    epochs = config["update_epochs"]
    return Run(
        config["num_steps"],
        config["num_minibatches"],
        epochs,
        rollout / samples,
        learning / (samples * epochs),
    )


def update(run: Run, parameters: int, envs: int, processes: int, link: Link) -> tuple[float, float]:
    """Seconds of an update: computing, and communicating."""
    compute = envs * run.steps / processes * (run.step + run.epochs * run.sample)
    rounds = math.log2(processes)
    of_minibatch = rounds * (link.exchange(4 * parameters) + link.exchange(OTHER_BYTES))
    # Moments of the advantages, before each epoch: an all-gather in as many rounds.
    moments = rounds * link.latency + 24 * run.minibatches * processes / link.bandwidth
    return compute, run.epochs * (run.minibatches * of_minibatch + (moments if rounds else 0.0))


def table(run: Run, parameters: int, link: Link) -> list[str]:
    """Strong and weak scaling over a link."""
    lines = [
        f"{link.name}:",
        "",
        "| processes | 16,384 environments in all | communication | 256 per process | communication |",
        "| --- | --- | --- | --- | --- |",
    ]
    for processes in PROCESSES:
        cells = [f"{processes:,}"]
        for envs in (ENVS_OF_PROCESS * PROCESSES[-1], 256 * processes):
            compute, exchange = update(run, parameters, envs, processes, link)
            speed = envs * run.steps / (compute + exchange)
            cells += [f"{speed / 1e6:,.1f} M steps/s", f"{exchange / (compute + exchange):.1%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> None:
    """Prints a table for each link."""
    options = arguments()
    run = measured(options.run)
    print(
        f"Measured on one core: {run.step * 1e9:.0f} ns for a step of the rollout, {run.sample * 1e9:.0f} ns "
        f"for a sample of an epoch. T = {run.steps}, {run.minibatches} minibatches, {run.epochs} epochs. A "
        f"gradient of {options.parameters:,} numbers is {4 * options.parameters / 1024:.1f} KiB; a minibatch "
        "takes log2(processes) exchanges of it.\n"
    )
    for link in LINKS:
        print("\n".join(table(run, options.parameters, link)))


if __name__ == "__main__":
    main()
