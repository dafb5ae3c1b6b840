"""The page of solve.py: medians of every task and side, and where operant is not ahead."""

import math
import statistics
from collections import Counter
from typing import Any

import plan

WITHIN = "<"
"""Comes before the multiple of operant's seconds in the settings of a row that was limited."""
MOST_STEPS = 1.2
"""Times the best's steps that operant may need."""
ABOUT = """# Time to solve

Written by `python benches/peers/solve.py`: CPU seconds of the whole process (imports, compilation and
evaluations counted) and environment steps until a mean of at least the threshold over 100 greedy
episodes. operant trains with its presets for PPO on one thread, every peer with its own settings and for at
most as many steps as these say. On Pendulum operant also trains with its preset for SAC, which is evaluated
at least 1,000 steps apart and counts where steps are compared, not where seconds are. All sides try an
evaluation by the same rule (`worker.Attempts`), all others about as often in environment steps. A task counts
as solved at the first evaluation that reaches the threshold. One of 100 episodes is noisy, and the first that
passes is selected for being high: in FourRooms and Reacher every second one is below the threshold. operant
and RLtools evaluate a second time ("again": medians over solved seeds), and their seconds include it; the
others do not.

Figures are medians over seeds (smallest .. largest). A seed that did not solve the task counts as slower
than any that did; if the median is such a seed, `>` stands before what was spent in vain. "Stopped"
seeds were ended at ten times the median CPU seconds that operant's runs, solved or not, took at that time,
and evaluated once more (`--within 10`; Swimmer's by an earlier, slower preset of operant): the goal is to be
ten times sooner, and all their steps would take hours. The figures of a task are from one kind of processor.
Every run is a row of [solve.tsv](solve.tsv) with machine, date and load; runs that have a row are not
repeated.

Sides: Stable-Baselines3 with the hyperparameters, normalisation and steps of RL Baselines3 Zoo (commit
208b6fd); PyTorch in CleanRL's style at the settings of its PPO for classic control (4 environments,
500,000 steps); RLtools at its settings for Pendulum; JAX in PureJaxRL's style, and the same with its
compilation cache filled. [benches/peers/README.md](../../benches/peers/README.md) describes them."""

Rows = list[Any]


def spread(rows: Rows, value: str) -> tuple[float, str]:
    """The median, infinite if a seed that did not solve is in the middle, and the cell."""
    numbers = [getattr(row, value) for row in rows]
    middle = statistics.median_high([getattr(row, value) if row.solved else math.inf for row in rows])
    # Not solved, or not before this.
    shown = statistics.median_high(numbers) if math.isinf(middle) else middle
    text = "{:,.0f}" if value == "steps" else "{:.3g}" if max(numbers) < 1000 else "{:,.0f}"
    sign = "> " if math.isinf(middle) else ""
    return middle, f"{sign}{text.format(shown)} ({text.format(min(numbers))} .. {text.format(max(numbers))})"


def ratio(over: float, under: float) -> str:
    """A quotient of medians, of which one may be unknown."""
    if math.isinf(over) or math.isinf(under):
        return "-"
    return f"{over / under:.3g}"


def processor(machine: str) -> str:
    """The part of a machine's description that seconds depend on most."""
    return machine.split(", ")[0]


def was_stopped(row: Any) -> bool:
    """Whether a peer was stopped before its steps were used up."""
    return WITHIN in row.settings and not row.solved


def solved(rows: Rows) -> str:
    """How many seeds solved; the means that the others ended with."""
    others = [row.mean for row in rows if not row.solved and row.mean]
    count = f"{sum(row.solved for row in rows)} of {len(rows)}"
    stopped = sum(was_stopped(row) for row in rows)
    count += f", {stopped} stopped" if stopped else ""
    return count + (f" (others at {', '.join(f'{float(mean):.4g}' for mean in others)})" if others else "")


def again(name: str, rows: Rows) -> str:
    """Medians over solved seeds of the evaluation after the first at the threshold."""
    means = [float(row.mean) for row in rows if row.solved and row.mean]
    if not (name.startswith("operant") or name == "rltools") or not means:
        return ""
    return f"{statistics.median(means):.4g} ({min(means):.4g} .. {max(means):.4g})"


class Findings:
    """What the sections below the table list."""

    def __init__(self) -> None:
        self.later: list[str] = []
        self.more: list[str] = []
        self.unknown: list[str] = []
        self.nobody: list[str] = []
        self.missing: list[str] = []

    def add(
        self, what: str, ours: tuple[float, float], peers: dict[str, tuple[float, float]], stopped: int
    ) -> None:
        """Compares medians of operant and of the peers that reach the threshold.

        Ours are the seconds of its preset for PPO and the fewest steps of its algorithms.
        """
        if math.isinf(ours[1]) and not peers:
            self.nobody.append(what + (" (a peer was stopped)" if stopped else ""))
        elif not peers and stopped:
            self.unknown.append(what)
        for label, (seconds, _) in peers.items():
            if math.isinf(ours[0]):
                self.later.append(f"{what}: {label} reaches it, operant does not")
            elif seconds <= ours[0]:
                self.later.append(f"{what}: {label} takes {ratio(seconds, ours[0])} times operant's seconds")
        label, (_, fewest) = min(peers.items(), key=lambda item: item[1][1], default=("", (0.0, math.inf)))
        if fewest * MOST_STEPS < ours[1] < math.inf:
            self.more.append(f"{what}: {ratio(ours[1], fewest)} times those of {label}")

    def sections(self) -> list[str]:
        """As Markdown."""
        lines = []
        for title, found in (
            ("Where operant is not sooner than a peer", self.later),
            (f"Where operant needs more than {MOST_STEPS} times the best's steps", self.more),
            ("Where peers were stopped before they solved, so that their steps are unknown", self.unknown),
            ("Where no side measured so far reaches the threshold", self.nobody),
            ("Not measured, or not with all seeds", self.missing),
        ):
            lines += ["", f"## {title}", "", *([f"- {each}" for each in found] or ["Nowhere."])]
        return lines


def latest(rows: Rows) -> Rows:
    """Each seed's last row with the settings that its side had last, rather one that was not stopped.

    Of each task, those on the processor that has most of them.
    """
    last = {(row.task, row.side): row.settings.split(WITHIN)[0] for row in rows}
    rows = [row for row in rows if last[row.task, row.side] == row.settings.split(WITHIN)[0]]
    whole_last = sorted(rows, key=lambda row: not was_stopped(row))
    runs = {(row.task, processor(row.machine), row.side, row.seed): row for row in whole_last}
    counts = Counter((task, where) for task, where, _, _ in runs)
    most = {task: where for (task, where), _ in sorted(counts.items(), key=lambda item: item[1])}
    return [row for (task, where, _, _), row in runs.items() if most[task] == where]


def page(tasks: list[tuple[plan.Task, plan.Comparison]], rows: Rows) -> str:
    """All of it in Markdown, from each side's rows with the settings it had last."""
    rows = latest(rows)
    lines = [
        ABOUT,
        "",
        "| task | threshold | side | CPU seconds | steps | solved | again | s / operant's "
        "| operant's steps / its |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    findings = Findings()
    for task, comparison in tasks:
        labels = {"operant": "operant"} | {also.side: also.label for also in task.also}
        own = {*labels}
        labels |= {peer.name: peer.label for peer in comparison.peers}
        ours, fewest, peers, stopped = (math.inf, math.inf), math.inf, {}, 0
        for name, label in labels.items():
            found = [row for row in rows if (row.task, row.side) == (task.name, name)]
            if len(found) < task.rounds:
                findings.missing.append(f"{task.name}: {label} ({len(found)} of {task.rounds} seeds)")
            if not found:
                continue
            stopped += sum(was_stopped(row) for row in found)
            (seconds, shown_seconds), (steps, shown_steps) = spread(found, "cpu_s"), spread(found, "steps")
            ratios = ["", ""]
            if name == "operant":
                ours = seconds, steps
            else:
                ratios = [ratio(seconds, ours[0]), ratio(ours[1], steps)]
            if name in own:
                fewest = min(fewest, steps)
            elif math.isfinite(steps):
                peers[label] = (seconds, steps)
            threshold = f"{task.threshold:g} ({task.origin})"
            figures = [shown_seconds, shown_steps, solved(found), again(name, found)]
            cells = [task.id, threshold, label, *figures, *ratios]
            lines.append("| " + " | ".join(cells) + " |")
        findings.add(f"{task.id} to {task.threshold:g}", (ours[0], fewest), peers, stopped)
    lines += [*findings.sections(), "", "## Who has no row", "", plan.NO_ROW, "", "## Machines", ""]
    lines += [f"- {each}" for each in sorted({row.machine.rsplit("; load", 1)[0] for row in rows})]
    loads = [int(row.machine.rsplit(" ", 1)[1]) for row in rows]
    if rows:
        lines.append(f"- Load average before a run: {min(loads)} to {max(loads)}.")
    versions = sorted({part for row in rows for part in row.versions.split(", ") if part})
    return "\n".join([*lines, f"- {', '.join(versions)}"]) + "\n"
