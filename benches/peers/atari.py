"""Trains PPO on an Atari game for a given wall time: operant, PyTorch as CleanRL does, and Stable-Baselines3.

    python benches/peers/atari.py --minutes 60 --out atari.json --plot atari.png > atari.md

The sides run one after the other, each in its own process. With --turns, every side runs once in each turn.
The table goes to stdout in Markdown, progress to stderr.
"""

import argparse
import collections
import csv
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from contender import Message, Process, clean_environment, last_line, operant_environment
from installation import HERE, Unavailable, operant_binary, say
from machine import Cores, Load, describe
from report import BUSY, ran_on
from run import add_common, drawn, interpreter

WINDOW = 100
"""Games whose mean score is the return."""
LEAST_GAMES = 20
"""Games before there is a mean."""
STOPPED = 75
"""operant's exit code after SIGINT: it saved a checkpoint."""
STOP_SECONDS = 120
"""How long operant may take to finish its update and save."""
REST_SECONDS = 2
"""Time between two sides, in which the processes of a side that was killed end."""

EXPLANATION = (
    "The time includes imports. A step is four frames. "
    f"Return: mean score of the last {WINDOW} games, at least {LEAST_GAMES}. "
    "Above X: the first time at which the return was higher. CPU: mean utilization of all cores. "
    "Balance: utilization of the least busy core over that of the most busy core, in the whole time. "
    "Balance each second: the mean of each second's."
)


@dataclass(frozen=True)
class Side:
    """One implementation."""

    name: str
    label: str
    flags: tuple[str, ...] = ()
    script: str = ""
    """A peer's script; operant has none."""


def sides_of(options: argparse.Namespace) -> list[Side]:
    """Every side."""
    return [
        Side("operant", "operant, --optimize-perf false", ("--optimize-perf", "false")),
        Side("operant-optimized", "operant, --optimize-perf true", ("--optimize-perf", "true")),
        Side("cleanrl", "PyTorch (CleanRL style)", script="ppo_torch_atari.py"),
        Side(
            "sb3",
            f"Stable-Baselines3, {options.sb3_vector}",
            ("--vector", options.sb3_vector),
            script="ppo_sb3_atari.py",
        ),
    ]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--env",
        default="PongNoFrameskip-v4",
        help="game by its Gymnasium id, such as ALE/Pong-v5, whose actions are sticky (default: %(default)s)",
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="wall time of each side (default: 60)")
    parser.add_argument("--turns", type=int, default=1, help="runs of each side (default: 1)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first turn (default: 1)")
    parser.add_argument(
        "--only", nargs="+", metavar="SIDE", help="operant, operant-optimized, cleanrl or sb3 (default: all)"
    )
    parser.add_argument(
        "--sb3-vector",
        choices=("subproc", "dummy"),
        default="subproc",
        help="SubprocVecEnv or DummyVecEnv for Stable-Baselines3 (default: subproc)",
    )
    parser.add_argument(
        "--thresholds",
        type=float,
        nargs="+",
        default=[0.0, 18.0],
        metavar="RETURN",
        help="report when the return first exceeds each of these (default: 0 18, for Pong)",
    )
    add_common(parser)
    options = parser.parse_args()
    options.venvs = options.venvs.resolve()
    return options


def chosen(options: argparse.Namespace) -> list[Side]:
    """The sides to run; raises Unavailable for a name that is none."""
    sides = sides_of(options)
    names = [side.name for side in sides]
    if unknown := set(options.only or ()) - set(names):
        raise Unavailable(f"--only {' '.join(sorted(unknown))}: not one of {', '.join(names)}")
    return [side for side in sides if not options.only or side.name in options.only]


class Curve:
    """Steps and mean return over time."""

    def __init__(self) -> None:
        self.window: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self.points: list[tuple[float, int, float | None]] = []
        """Seconds since the start of the process, environment steps, mean return of the last games."""

    def add(self, seconds: float, steps: int, returns: Iterable[float]) -> None:
        """One update, and the scores of the games that ended in it."""
        self.window.extend(returns)
        mean = sum(self.window) / len(self.window) if len(self.window) >= LEAST_GAMES else None
        self.points.append((round(seconds, 2), steps, None if mean is None else round(mean, 2)))


class Training:
    """One side's process."""

    def __init__(self, side: Side, seed: int, options: argparse.Namespace) -> None:
        self.side = side
        self.directory = Path(tempfile.mkdtemp(prefix="peers-atari-"))
        python, flags = interpreter("workers", options), [*side.flags, "--seed", str(seed)]
        if side.script:
            command = [str(python), str(HERE / side.script), "--env", options.env, *flags]
            environment = clean_environment()
        else:
            name = f"gym:{options.env}?preset=atari"
            kept = ["--run-dir", str(self.directory), "--name", "atari", "--json", "--quiet"]
            command = [str(options.binary), "train", name, "--device", "cpu", *kept, *flags]
            environment = operant_environment(self.directory, python)
        logs = options.venvs / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        self.log = logs / f"atari-{side.name}.log"
        self.process = Process(command, environment, self.log, self.directory)

    def run(self, seconds: float) -> Message:
        """Waits until the time is up or the process ends; returns the utilization meanwhile."""
        cores = Cores()
        while (left := self.process.started + seconds - time.monotonic()) > 0 and self.runs():
            time.sleep(min(1.0, left))
            cores.read()
        return cores.summary()

    def runs(self) -> bool:
        """Whether the process has not ended."""
        return self.process.process.poll() is None

    def stop(self) -> None:
        """Ends the process; raises Unavailable where it ended by itself with an error."""
        stopped, process = self.runs(), self.process.process
        if stopped and self.side.script:
            self.process.kill()
            return
        if stopped:
            process.send_signal(signal.SIGINT)
            self.process.finish(STOP_SECONDS)
        if process.returncode not in (0, STOPPED if stopped else 0):
            raise Unavailable(f"exit code {process.returncode}: {self.reason()}")

    def reason(self) -> str:
        """operant names its error before the remedy; a traceback of Python ends with it."""
        lines = self.log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("error:")]
        return errors[0] if errors else last_line(self.log)

    def curve(self) -> tuple[Curve, Message]:
        """The curve so far, and the versions that a peer reported; the process has ended."""
        curve, versions = Curve(), {}
        if not self.side.script:
            self.read_metrics(curve)
            return curve, versions
        while (received := self.process.messages.get())[1] is not None:
            moment, message = received
            versions |= message.get("versions", {})
            if "steps" in message:
                curve.add(moment - self.process.started, message["steps"], message["returns"])
        return curve, versions

    def read_metrics(self, curve: Curve) -> None:
        """operant's metrics: each row has the mean return of the games that ended in one update."""
        path, games = self.directory / "atari" / "metrics.csv", 0
        if not path.exists():
            return
        with path.open(newline="") as rows:
            for row in csv.DictReader(rows):
                ended, games = int(row["episodes"]) - games, int(row["episodes"])
                returns = [float(row["episodic_return"])] * ended if ended else []
                curve.add(float(row["time"]), int(row["env_steps"]), returns)

    def close(self) -> None:
        """Ends the process, if it still runs, and deletes what it wrote."""
        self.process.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


def measured(side: Side, turn: int, options: argparse.Namespace) -> Message:
    """One run of one side, or the reason why it failed with what was measured until then."""
    seed, load, limit = options.seed + turn, Load(), 60.0 * options.minutes
    result: Message = {"name": side.name, "label": side.label, "turn": turn + 1, "seed": seed}
    result |= {"error": None, "versions": {}, "curve": [], "steps": 0, "seconds": 0.0, "load": None}
    say(f"{side.name}, seed {seed}: {options.minutes:g} minutes")
    try:
        training = Training(side, seed, options)
    except Unavailable as reason:
        return result | {"error": str(reason)}
    try:
        result |= training.run(limit)
        result["load"] = load.since()
        try:
            training.stop()
        except Unavailable as reason:
            result["error"] = str(reason)
            training.process.kill()
        curve, result["versions"] = training.curve()
        # operant finishes its update when it is stopped; no side is credited with one after the time.
        result["curve"] = [point for point in curve.points if point[0] <= limit]
        if result["curve"]:
            result["seconds"], result["steps"], _ = result["curve"][-1]
        elif result["error"] is None:
            result["error"] = f"no update ended in {options.minutes:g} minutes"
    finally:
        training.close()
    return result


def reached(curve: list[tuple[float, int, float | None]], threshold: float) -> str:
    """The first time at which the mean return passed a threshold."""
    for seconds, _, mean in curve:
        if mean is not None and mean > threshold:
            return f"{seconds / 60:.1f} min"
    return "not reached"


def share(value: float | None) -> str:
    """Two digits after the point."""
    return "" if value is None else f"{value:.2f}"


def row(result: Message, thresholds: list[float]) -> str:
    """One line of the table."""
    mean = result["curve"][-1][2]
    cells = [
        result["label"],
        str(result["seed"]),
        f"{result['steps']:,}",
        f"{result['steps'] / result['seconds']:,.0f}",
        f"fewer than {LEAST_GAMES} games" if mean is None else f"{mean:.1f}",
        *(reached(result["curve"], threshold) for threshold in thresholds),
        *(share(result[name]) for name in ("utilization", "balance", "balance_each_second")),
    ]
    return "| " + " | ".join(cells) + " |"


def table(results: Message) -> str:
    """All of it in Markdown."""
    passed = [f"above {threshold:g}" for threshold in results["thresholds"]]
    columns = ["side", "seed", "steps", "steps/s", "return", *passed, "CPU", "balance", "balance each second"]
    lines = [
        *ran_on(results["machine"], results["runs"]),
        f"PPO on {results['env']} for {results['minutes']:g} minutes of wall time. {EXPLANATION}",
        *warnings(results),
        "",
        "| " + " | ".join(columns) + " |",
        "| " + " | ".join("---" for _ in columns) + " |",
        *(row(result, results["thresholds"]) for result in results["runs"] if result["curve"]),
    ]
    failed = [result for result in results["runs"] if result["error"]]
    if failed:
        lines += ["", "Failed, or not to the end:", ""]
        lines += [f"- {result['label']}, seed {result['seed']}: {result['error']}" for result in failed]
    return "\n".join(lines)


def warnings(results: Message) -> list[str]:
    """A remark where other work ran before the first side."""
    load = next((result["load"]["load_average_before"] for result in results["runs"] if result["load"]), 0.0)
    if load > BUSY * results["machine"]["cores"]:
        return ["", f"The machine was busy with other work (load average {load:.1f}): not final."]
    return []


def main() -> int:
    """Runs every side in each turn; the exit code is 1 where one failed."""
    options = arguments()
    try:
        sides = chosen(options)
        options.binary = operant_binary(options.operant)
    except Unavailable as reason:
        say(f"error: {reason}")
        return 2
    names = ("env", "minutes", "thresholds")
    results: Message = {"machine": describe(options.binary, "cpu"), "runs": []}
    results |= {name: getattr(options, name) for name in names}
    for turn in range(options.turns):
        for side in sides:
            result = measured(side, turn, options)
            steps = f"{result['steps']:,} steps in {result['seconds']:,.0f} s"
            say(f"  {result['error'] or steps}")
            results["runs"].append(result)
            if options.out:
                options.out.write_text(json.dumps(results) + "\n")
            time.sleep(REST_SECONDS)
    print(table(results))
    if options.plot and (reason := drawn(results, options, "atari_plot.py")):
        say(f"error: no plot: {reason}")
        return 1
    return 1 if any(result["error"] for result in results["runs"]) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
