"""The page of solve.py: medians of every task and side, and where operant is not ahead."""

import math
import statistics
from typing import Any

import plan

MOST_STEPS = 1.2
"""Times the best's steps that operant may need."""
ABOUT = """# Time to solve

Written by `python benches/peers/solve.py`: CPU seconds of the whole process (imports, compilation and evaluations counted) and environment steps until a
mean of at least the threshold over 100 greedy episodes. operant trains with its presets on one thread, every peer with its own settings and, where its
settings say how long, for at most so many steps. All sides try an evaluation by the same rule (`worker.Attempts`), as often in environment steps.
Figures are medians over seeds (smallest .. largest). A seed that did not solve the task counts as slower than any that did; if the median is such a seed,
`>` stands before what was spent in vain. Every run is a row of [solve.tsv](solve.tsv) with machine, date and load; runs that have a row are not repeated.
Sides: Stable-Baselines3 with the hyperparameters, normalisation and steps of RL Baselines3 Zoo (commit 208b6fd); RLtools at its settings for Pendulum; JAX in
PureJaxRL's style, and the same with its persistent compilation cache filled; PyTorch in CleanRL's style. [benches/peers/README.md](../../benches/peers/README.md)
describes them. operant evaluates once more after it has solved a task; that time counts."""

Rows = list[Any]


def spread(rows: Rows, value: str) -> tuple[float, str]:
    """The median, infinite if a seed that did not solve is in the middle, and the cell."""
    numbers = [getattr(row, value) for row in rows]
    middle = statistics.median_high([getattr(row, value) if row.solved else math.inf for row in rows])
    shown = max(numbers) if math.isinf(middle) else middle
    text = "{:,.0f}" if value == "steps" else "{:.3g}" if max(numbers) < 1000 else "{:,.0f}"
    sign = "> " if math.isinf(middle) else ""
    return middle, f"{sign}{text.format(shown)} ({text.format(min(numbers))} .. {text.format(max(numbers))})"


def ratio(over: float, under: float) -> str:
    """A quotient of medians, of which one may be unknown."""
    if math.isinf(over) or math.isinf(under):
        return "-"
    return f"{over / under:.3g}"


def solved(rows: Rows) -> str:
    """How many seeds solved; the means that the others ended with."""
    others = [row.mean for row in rows if not row.solved and row.mean]
    count = f"{sum(row.solved for row in rows)} of {len(rows)}"
    return count + (f" (others at {', '.join(f'{float(mean):.4g}' for mean in others)})" if others else "")


def page(tasks: list[tuple[plan.Task, plan.Comparison]], rows: Rows) -> str:
    """All of it in Markdown."""
    lines = [ABOUT, "", "| task | threshold | side | CPU seconds | steps | solved | times operant's seconds | operant's steps, times its |"]
    lines += ["| --- | --- | --- | --- | --- | --- | --- | --- |"]
    later, more, missing, nobody = [], [], [], []
    for task, comparison in tasks:
        names = {"operant": "operant"} | {peer.name: peer.label for peer in comparison.peers}
        of = {name: [r for r in rows if (r.task, r.side) == (task.name, name)] for name in names}
        medians = {name: (spread(of[name], "cpu_s"), spread(of[name], "steps")) for name in names if of[name]}
        missing += [f"{task.name}: {label} ({len(of[name])} of {task.rounds} seeds)" for name, label in names.items() if len(of[name]) < task.rounds]
        if not medians:
            continue
        ours = medians.get("operant", ((math.inf, ""), (math.inf, "")))
        for name, (seconds, steps) in medians.items():
            ratios = ["", ""] if name == "operant" else [ratio(seconds[0], ours[0][0]), ratio(ours[1][0], steps[0])]
            cells = [task.id, f"{task.threshold:g} ({task.origin})", names[name], seconds[1], steps[1], solved(of[name]), *ratios]
            lines.append("| " + " | ".join(cells) + " |")
        peers = {name: value for name, value in medians.items() if name != "operant" and not math.isinf(value[1][0])}
        what = f"{task.id} to {task.threshold:g}"
        if not peers and math.isinf(ours[1][0]):
            nobody.append(what)
        for name, (seconds, _) in peers.items():
            if seconds[0] <= ours[0][0]:
                later.append(f"{what}: {names[name]} takes {ratio(seconds[0], ours[0][0])} times operant's seconds")
        best = min(peers, key=lambda name: peers[name][1][0], default="")
        if best and ours[1][0] > MOST_STEPS * peers[best][1][0]:
            more.append(f"{what}: {ratio(ours[1][0], peers[best][1][0])} times those of {names[best]}")
    for title, found in (
        ("Where operant is not sooner than a peer", later),
        (f"Where operant needs more than {MOST_STEPS} times the best's steps", more),
        ("Where no side reaches the threshold", nobody),
        ("Not measured, or not with all seeds", missing),
    ):
        lines += ["", f"## {title}", "", *([f"- {each}" for each in found] or ["Nowhere."])]
    lines += ["", "## Who has no row", "", plan.NO_ROW, "", "## Machines", ""]
    lines += [f"- {each}" for each in sorted({row.machine.rsplit("; load", 1)[0] for row in rows})]
    versions = sorted({part for row in rows for part in row.versions.split(", ") if part})
    return "\n".join([*lines, f"- {', '.join(versions)}"]) + "\n"
