"""CPU seconds and steps until tasks with public thresholds are solved: operant's presets and other libraries.

    python benches/peers/solve.py
    python benches/peers/solve.py --within 10 --only hopper

With --within 10, Stable-Baselines3 gets ten times operant's median CPU seconds, and operant is measured on
this machine first.

Every run is a row of docs/results/solve.tsv and is not repeated, so a later call continues an interrupted
one; delete rows to repeat them. It writes docs/results/solve.md. Progress goes to stderr.
"""

import argparse
import csv
import fnmatch
import hashlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

import plan
from contender import Contender, Operant, Solver, operant_environment
from installation import ROOT, Unavailable, operant_binary, say
from machine import Load, describe
from run import add_programs, interpreter
from solve_report import WITHIN, page, processor

SB3_NAME = "sb3"
DEFAULT = re.compile(r"# default$")
ROWS, PAGE = ROOT / "docs/results/solve.tsv", ROOT / "docs/results/solve.md"


@dataclass(frozen=True)
class Row:
    """A training that has ended."""

    task: str
    side: str
    seed: int
    settings: str
    """Digest of what was asked for: of operant's configuration, or of a peer's arguments."""
    cpu_s: float
    steps: int
    solved: bool
    mean: str
    """Of the last evaluation."""
    versions: str
    machine: str

    @property
    def processor(self) -> str:
        """Of the machine."""
        return processor(self.machine)

    @property
    def key(self) -> tuple[str, str, int, str]:
        """What is measured once."""
        return self.task, self.side, self.seed, self.settings


def read() -> list[Row]:
    """The rows so far."""
    if not ROWS.exists():
        return []
    with ROWS.open() as file:
        found = list(csv.DictReader(file, delimiter="\t"))
    kinds = {"seed": int, "cpu_s": float, "steps": int, "solved": "True".__eq__}
    return [Row(**{name: kinds.get(name, str)(text) for name, text in row.items()}) for row in found]


def add(row: Row) -> None:
    """Appends a row."""
    names = [field.name for field in fields(Row)]
    begins = not ROWS.exists()
    with ROWS.open("a") as file:
        writer = csv.DictWriter(file, names, delimiter="\t", lineterminator="\n")
        if begins:
            writer.writeheader()
        writer.writerow(asdict(row))


def bare(key: tuple[str, str, int, str]) -> tuple[str, str, int, str]:
    """The key of a row without the multiple of operant's seconds that stopped it."""
    return (*key[:3], key[3].split(WITHIN)[0])


def digest(settings: object) -> str:
    """A short name of settings."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:8]


def with_interval(
    binary: Path, every: int, comparison: plan.Comparison
) -> tuple[plan.Comparison, object]:
    """operant's arguments with the interval of evaluations in updates, and its configuration with them.

    Settings at the defaults of all environments are left out, so that a setting that comes later, off by
    default, makes no row a stranger. Where such a default changes, delete rows.
    """
    with tempfile.TemporaryDirectory() as directory:

        def config(*more: str) -> dict[str, object]:
            words = [word for word in comparison.operant[1:] if word != "--json"]
            command = [str(binary), "config", *words, *more]
            environment = operant_environment(Path(directory), None)
            done = subprocess.run(
                command, capture_output=True, text=True, env=environment, cwd=directory, check=False
            )
            if done.returncode != 0:
                raise Unavailable(done.stderr.strip())
            lines = (line for line in done.stdout.splitlines() if more == () or not DEFAULT.search(line))
            return tomllib.loads("\n".join(lines))

        found = config()
        updates = max(1, round(every / (found["num_envs"] * found["num_steps"])))
        more = ("--set", f"eval_interval={updates}")
        return replace(comparison, operant=(*comparison.operant, *more)), config(*more)


class Side:
    """operant or a peer in a task, started when a row of it is missing."""

    def __init__(self, name: str, settings: str, contender: Contender) -> None:
        self.name, self.settings, self.contender = name, settings, contender
        self.begun = False

    def stop_within(self, times: float, seconds: float) -> None:
        """Limits a peer to a multiple of these CPU seconds; its rows name the multiple."""
        if isinstance(self.contender, Solver):
            limit = ("--most-seconds", f"{times * seconds:.3f}")
            peer = self.contender.peer
            self.contender.peer = replace(peer, arguments=(*peer.arguments, *limit))
            self.settings += f"{WITHIN}{times:g}"

    def measure(self, task: plan.Task, seed: int, machine: str) -> Row:
        """A training; raises Unavailable."""
        peer = self.contender.peer if isinstance(self.contender, Solver) else None
        if peer and not self.begun and (peer.build or peer.keeps_compiled):
            self.contender.start()
        self.begun = True
        load = Load().average
        found = self.contender.measure(seed - 1)
        mean = found.get("mean", found.get("eval_return_mean"))
        versions = self.contender.facts.get("versions", {}) | found.get("versions", {})
        named = ", ".join(f"{name} {version}" for name, version in sorted(versions.items()))
        return Row(
            task.name,
            self.name,
            seed,
            self.settings,
            round(found["value"], 3),
            found["env_steps"],
            bool(found["solved"]),
            "" if mean is None else f"{mean:.4f}",
            named,
            f"{machine}; load {load:.0f}",
        )


def sides_of(
    task: plan.Task, comparison: plan.Comparison, binary: Path, options: argparse.Namespace, logs: Path
) -> list[Side]:
    """operant and the peers that can be had."""
    ways = [("operant", task.every, comparison.operant)]
    for also in task.also:
        words = ("--algorithm", also.algorithm, "--steps", str(also.steps))
        ways.append((also.side, also.every, (*comparison.operant, *words)))
    sides = []
    for name, every, command in ways:
        ours, config = with_interval(binary, every, replace(comparison, operant=command))
        sides.append(Side(name, digest(config), Operant(binary, ours, None, logs, 0)))
    for peer in comparison.peers:
        try:
            python = interpreter(peer.requirements, options)
        except Unavailable as reason:
            say(f"  {peer.label}: {reason}")
            continue
        settings = digest([*peer.arguments, *peer.build])
        sides.append(Side(peer.name, settings, Solver(peer, python, logs, plan.CPU)))
    return sides


def asked(options: argparse.Namespace, task: str, side: str) -> bool:
    """Whether a run was requested."""
    names = (task, f"{task}:{side}", side)
    return not options.only or any(fnmatch.filter(names, each) for each in options.only)


def main() -> int:
    """Makes the missing rows and writes the page; the exit code is 1 where a run failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        nargs="+",
        metavar="NAME",
        help="tasks, sides or TASK:SIDE to run, * for any; the page has all",
    )
    parser.add_argument(
        "--within",
        type=float,
        metavar="TIMES",
        help="stop Stable-Baselines3 at this multiple of operant's CPU seconds on this machine",
    )
    parser.add_argument("--page", action="store_true", help="write the page from the rows, and run nothing")
    add_programs(parser)
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    failed = False if options.page else not measured(options)
    PAGE.write_text(page(plan.solving(), read()))
    return int(failed)


def measured(options: argparse.Namespace) -> bool:
    """Makes the rows that are missing; returns whether none failed."""
    binary = operant_binary(options.operant)
    facts = describe(binary, "cpu")
    machine = (
        f"{facts['processor']}, {facts['cores']} cores; {facts['system']}; {facts['date']}; "
        f"{facts['operant']} ({facts['commit']})"
    )
    logs, well = options.venvs / "logs", True
    logs.mkdir(parents=True, exist_ok=True)
    # A seed that was stopped is not trained again without a limit, nor a whole one with a limit.
    known = {bare(row.key) for row in read()}
    for task, comparison in plan.solving():
        others = (*(also.side for also in task.also), *(peer.name for peer in comparison.peers))
        if not any(asked(options, task.name, name) for name in ("operant", *others)):
            continue
        sides = sides_of(task, comparison, binary, options, logs)
        seeds = range(1, task.rounds + 1)
        pairs = [(side, seed) for seed in seeds for side in sides]
        ours: list[float] = []
        here = [row for row in read() if row.task == task.name and row.processor == processor(machine)]
        stops = options.within is not None
        if stops:
            # All seeds of operant come first, whose seconds are the measure, on this machine.
            pairs = [(side, seed) for side in sides for seed in seeds]
            ours = [row.cpu_s for row in here if (row.side, row.settings) == ("operant", sides[0].settings)]
            known = {key for key in known if key[0] != task.name} | {bare(row.key) for row in here}
        try:
            for side, seed in pairs:
                if stops and side.name == SB3_NAME and seed == 1:
                    if not ours:
                        say(f"{task.name}: operant has no seconds here to stop others by")
                        break
                    side.stop_within(options.within, statistics.median(ours))
                key = bare((task.name, side.name, seed, side.settings))
                is_asked = asked(options, task.name, side.name) or (stops and side.name == "operant")
                if key in known or not is_asked:
                    continue
                say(f"{task.name}, {side.name}, seed {seed}")
                try:
                    row = side.measure(task, seed, machine)
                except Unavailable as reason:
                    say(f"  {reason}")
                    well = False
                    continue
                add(row)
                ours += [row.cpu_s] if side.name == "operant" else []
                say(f"  {row.cpu_s} s, {row.steps} steps, {'solved' if row.solved else row.mean}")
        finally:
            for side in sides:
                side.contender.close()
    return well


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unavailable as reason:
        say(f"error: {reason}")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)
