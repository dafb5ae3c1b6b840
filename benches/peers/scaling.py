"""Computes how a run in many processes would scale, from measured times and published latencies.

    python benches/peers/scaling.py --step-ns 30 --sample-ns 900 --parameters 4675

It measures nothing: the figures are arithmetic, for networks that no machine here has.
"""

import argparse
import math
from dataclasses import dataclass

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


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--step-ns", type=float, required=True, help="a step of the rollout on a core")
    parser.add_argument("--sample-ns", type=float, required=True, help="a sample of an epoch on a core")
    parser.add_argument("--parameters", type=int, required=True, help="parameters of the network")
    parser.add_argument("--cores", type=int, default=1, help="cores of a process (default: 1)")
    parser.add_argument("--steps", type=int, default=128, help="steps of a rollout (default: 128)")
    parser.add_argument("--minibatches", type=int, default=4, help="minibatches of an epoch (default: 4)")
    parser.add_argument("--epochs", type=int, default=4, help="epochs of an update (default: 4)")
    return parser.parse_args()


def update(options: argparse.Namespace, envs: int, processes: int, link: Link) -> tuple[float, float]:
    """Seconds of an update: computing, and exchanging."""
    samples = envs * options.steps / processes / options.cores
    compute = samples * (options.step_ns + options.epochs * options.sample_ns) * 1e-9
    rounds = math.log2(processes)
    of_minibatch = rounds * (link.exchange(4 * options.parameters) + link.exchange(OTHER_BYTES))
    # Moments of the advantages, before each epoch: an all-gather in as many rounds.
    moments = rounds * link.latency + 24 * options.minibatches * processes / link.bandwidth
    return compute, options.epochs * (options.minibatches * of_minibatch + (moments if rounds else 0.0))


def table(options: argparse.Namespace, link: Link) -> list[str]:
    """Strong and weak scaling over a link."""
    lines = [
        f"**{link.name}**",
        "",
        "| processes | all share 16,384 environments | communication | each has 256 environments | communication |",
        "| --- | --- | --- | --- | --- |",
    ]
    for processes in PROCESSES:
        cells = [f"{processes:,}"]
        for envs in (ENVS_OF_PROCESS * PROCESSES[-1], 256 * processes):
            compute, exchange = update(options, envs, processes, link)
            speed = envs * options.steps / (compute + exchange)
            cells += [f"{speed / 1e6:,.1f} M steps/s", f"{exchange / (compute + exchange):.0%}"]
        lines.append("| " + " | ".join(cells) + " |")
    return [*lines, ""]


def main() -> None:
    """Prints a table for each link."""
    options = arguments()
    print(
        f"Arithmetic. A process has {options.cores} core(s): {options.step_ns:g} ns for a step and "
        f"{options.sample_ns:g} ns for a sample of an epoch. A gradient of {options.parameters:,} numbers is "
        f"{4 * options.parameters / 1024:.1f} KiB; a minibatch takes log2(processes) exchanges of it. "
        f"T = {options.steps}, {options.minibatches} minibatches, {options.epochs} epochs.\n"
    )
    for link in LINKS:
        print("\n".join(table(options, link)))


if __name__ == "__main__":
    main()
