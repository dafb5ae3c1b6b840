"""Runs other libraries and operant on this machine with the same work, turn by turn, and prints the ratios.

    python benches/peers/run.py

It makes its own virtual environments and builds operant. The table goes to stdout in Markdown, progress to
stderr.
"""

import argparse
import fnmatch
import json
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import plan
from contender import Contender, Message, Operant, Solver, Worker
from installation import HERE, Unavailable, operant_binary, python_for, say, target_directory
from machine import Load, describe
from report import as_json, table


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", choices=("cpu", "gpu"), default="cpu", help="what the PPO of operant and JAX run on"
    )
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="comparisons or peers to run, * for any; --list names them"
    )
    parser.add_argument("--list", action="store_true", help="name the comparisons and their peers, and end")
    parser.add_argument(
        "--quick", action="store_true", help="2 rounds of half a second: whether all works, not how fast"
    )
    parser.add_argument("--rounds", type=int, help="measurements of each side (default: 5)")
    parser.add_argument("--seconds", type=float, help="length of one measurement of speed (default: 2)")
    add_common(parser)
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 5)
    options.seconds = options.seconds or (0.5 if options.quick else 2.0)
    options.venvs = options.venvs.resolve()
    return options


def add_common(parser: argparse.ArgumentParser) -> None:
    """The arguments of drivers that keep and draw their measurements."""
    parser.add_argument("--out", type=Path, metavar="FILE.json", help="write every measurement")
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="draw the results, as SVG or PNG")
    add_programs(parser)


def add_programs(parser: argparse.ArgumentParser) -> None:
    """The arguments of every driver: what it runs."""
    parser.add_argument(
        "--operant", type=Path, help="binary to measure (default: built by cargo from this tree)"
    )
    parser.add_argument(
        "--venvs",
        type=Path,
        default=target_directory() / "peers-venv",
        help="where virtual environments are kept (default: target/peers-venv)",
    )
    parser.add_argument(
        "--python", type=Path, help="interpreter that has the libraries: makes no virtual environment"
    )


def interpreter(requirements: str, options: argparse.Namespace) -> Path:
    """The interpreter that has a requirements file's libraries; raises Unavailable."""
    # The interpreter of a virtual environment is a link that must not be resolved.
    return options.python.absolute() if options.python else python_for(requirements, options.venvs)


def chosen(
    comparisons: list[plan.Comparison], only: list[str] | None
) -> list[tuple[plan.Comparison, list[plan.Peer]]]:
    """The comparisons to run, each with the peers to run; raises Unavailable for a name that is neither."""
    known = {name for each in comparisons for name in (each.name, *(peer.name for peer in each.peers))}
    if unknown := [pattern for pattern in only or () if not fnmatch.filter(known, pattern)]:
        raise Unavailable(f"--only {' '.join(sorted(unknown))}: not one of {', '.join(sorted(known))}")

    def asked(name: str) -> bool:
        return not only or any(fnmatch.fnmatch(name, pattern) for pattern in only)

    found = []
    for each in comparisons:
        peers = [peer for peer in each.peers if asked(each.name) or asked(peer.name)]
        if peers:
            found.append((each, peers))
    return found


def started(make: Callable[[], Contender]) -> Contender:
    """A contender that is ready; raises Unavailable."""
    contender = make()
    try:
        contender.start()
    except Unavailable:
        contender.close()
        raise
    return contender


class Side:
    """A contender's measurements in a comparison, or the reason why there are none."""

    def __init__(self, name: str, label: str) -> None:
        self.name, self.label = name, label
        self.contender: Contender | None = None
        self.facts: Message = {}
        self.error: str | None = None
        self.measurements: list[Message] = []

    def start(self, make: Callable[[], Contender]) -> None:
        """Makes the contender ready, or notes why it cannot be."""
        say(f"  {self.label}: getting ready")
        try:
            self.contender = started(make)
        except Unavailable as reason:
            self.error = str(reason)
            say(f"  {self.label}: {self.error}")
            return
        self.facts = self.contender.facts

    def measure(self, round_number: int) -> None:
        """Adds one measurement; a contender that fails is closed, and keeps its reason."""
        if self.contender is None:
            return
        try:
            self.measurements.append(self.contender.measure(round_number))
            say(f"  {self.label}: {self.measurements[-1]['value']:,.2f}")
        except Unavailable as reason:
            self.error = str(reason)
            self.close()
            self.contender = None
            say(f"  {self.label}: {self.error}")

    def close(self) -> None:
        """Ends the contender's processes."""
        if self.contender is not None:
            self.contender.close()

    def as_json(self) -> Message:
        """Everything that is known of this side."""
        return {
            "name": self.name,
            "label": self.label,
            "versions": self.facts.get("versions", {}),
            "settings": self.facts.get("settings", {}),
            "error": self.error,
            "measurements": self.measurements,
        }


def operant(comparison: plan.Comparison, binary: Path, options: argparse.Namespace, logs: Path) -> Contender:
    """operant, with Python for its worker processes where it has some; raises Unavailable."""
    workers = interpreter(comparison.workers, options) if comparison.workers else None
    return Operant(binary, comparison, workers, logs, options.seconds)


def installed(
    comparison: plan.Comparison, peer: plan.Peer, options: argparse.Namespace, logs: Path
) -> Contender:
    """A peer, its libraries installed; raises Unavailable."""
    python = interpreter(peer.requirements, options)
    if comparison.unit != plan.SPEED:
        return Solver(peer, python, logs, comparison.unit)
    return Worker(peer, python, logs, options.seconds)


def compare(
    comparison: plan.Comparison,
    peers: list[plan.Peer],
    binary: Path,
    options: argparse.Namespace,
    ours: Callable[[plan.Comparison, Path, argparse.Namespace, Path], Contender] = operant,
) -> Message:
    """Measures operant and the peers in turn, so that a machine that slows down slows all of them."""
    say(f"{comparison.name}: {comparison.title}")
    logs = options.venvs / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    load, sides = Load(), [Side("operant", comparison.operant_label)]
    try:
        sides[0].start(partial(ours, comparison, binary, options, logs))
        for peer in peers:
            sides.append(Side(peer.name, peer.label))
            sides[-1].start(partial(installed, comparison, peer, options, logs))
        for round_number in range(options.rounds):
            for side in sides:
                side.measure(round_number)
    finally:
        for side in sides:
            side.close()
    return {
        "name": comparison.name,
        "title": comparison.title,
        "unit": comparison.unit,
        "operant_arguments": comparison.operant,
        "load": load.since(),
        "sides": [side.as_json() for side in sides],
    }


def drawn(results: Message, options: argparse.Namespace, script: str = "plot.py") -> str | None:
    """Draws the plot, in a process that has matplotlib; returns the reason if it cannot."""
    try:
        python = interpreter("plot", options)
    except Unavailable as reason:
        return str(reason)
    command = [str(python), str(HERE / script), "-", str(options.plot)]
    done = subprocess.run(command, input=json.dumps(results), text=True, capture_output=True, check=False)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it said nothing"])[-1]


def main() -> int:
    """Runs what was requested; the exit code is 1 where a side could not be measured."""
    options = arguments()
    comparisons = plan.on_gpu() if options.device == "gpu" else plan.on_cpu()
    if options.list:
        for each in comparisons:
            print(f"{each.name:16} {each.title}: {', '.join(peer.name for peer in each.peers)}")
        return 0
    try:
        selection = chosen(comparisons, options.only)
        binary = operant_binary(options.operant)
    except Unavailable as reason:
        say(f"error: {reason}")
        return 2
    results: Message = {
        "machine": describe(binary, options.device),
        "rounds": options.rounds,
        "comparisons": [],
    }
    results["quick"] = options.quick
    for comparison, peers in selection:
        results["comparisons"].append(compare(comparison, peers, binary, options))
        if options.out:
            options.out.write_text(as_json(results) + "\n")
    print(table(results))
    if options.plot and (reason := drawn(results, options)):
        say(f"error: no plot: {reason}")
        return 1
    failed = [side for each in results["comparisons"] for side in each["sides"] if side["error"]]
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
