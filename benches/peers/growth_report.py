"""Writes the page of growth.py from its measurements, for instance with more explanations.

python3 benches/peers/growth_report.py docs/results/scaling-cpu.json > docs/results/scaling-cpu.md
"""

import statistics
import sys
from dataclasses import dataclass
from itertools import pairwise

from report import Results, heading, ratios, reprint, span, times, values_of

CLIFF = 1.3
"""Neighbouring points whose fractions of peak differ by more than this factor need an explanation."""
PEERS = {"jax": "JAX", "torch": "PyTorch"}


@dataclass(frozen=True)
class Explanation:
    """Why the fraction of peak rises, or falls, between the points `first` and `last` of an axis."""

    axis: str
    first: int
    last: int
    text: str
    rises: bool = True

    def covers(self, before: Results, after: Results, rises: bool) -> bool:
        """Whether it is about these two points."""
        inside = self.first <= before["value"] and after["value"] <= self.last
        return self.axis == before["axis"] and inside and self.rises == rises


EXPLANATIONS = (
    Explanation(
        "environments",
        1,
        16,
        "The time per environment step falls from 3.0 to 1.8 us. Half of this decrease is in the rollout and "
        "half in the update. A rollout of 128 steps takes 0.12 ms with 1 environment and 0.49 ms with 16: 4 "
        "times the time for 16 times the environment steps. In the update the minibatch is the whole batch, "
        "with 1 environment 128 samples, or two tiles of 64: sums of gradients, Adam and packing weigh more, "
        "and two threads share less work.",
    ),
    Explanation(
        "width",
        16,
        64,
        "Of peak counts only multiply-adds, which grow with the square of the width. Hyperbolic tangents "
        "grow with the width; gathered samples, losses and statistics do not. By `operant bench train "
        "--profile --envs 256 --threads 1`, passes through the networks take 71% of the time at "
        "16-16 and 91% at 64-64.",
    ),
    Explanation(
        "depth",
        1,
        2,
        "A single hidden layer lacks the product of 64 x 64, over 9/10 of the multiply-adds of 4-64-64, but "
        "has half of the hyperbolic tangents, and as many gathered samples, losses and statistics.",
    ),
    Explanation(
        "minibatch",
        32,
        64,
        "Every minibatch ends with sums of gradients, Adam and packing weights, whatever its size: with 64 "
        "environments on one thread, 32 samples took 31 us and 64 took 48 us. Both are a single tile, which "
        "one thread computes.",
    ),
    Explanation(
        "minibatch",
        64,
        128,
        "64 samples are one tile, which one thread computes; 128 are two tiles, for two threads. On one "
        "thread the speeds with 64 and with 128 differ by only 5% (not in the table).",
    ),
)
"""By the code, and by `operant bench train` on two cores of an AMD EPYC (Zen 4), 2026-11."""


def fraction(row: Results) -> float | None:
    """Median fraction of peak of a point; None where it was not measured."""
    found = [each["fraction_of_peak"] for each in measurements(row)]
    return statistics.median(found) if found else None


def measurements(row: Results) -> list[Results]:
    """operant's measurements of a point."""
    found: list[Results] = row["sides"][0]["measurements"] if row.get("sides") else []
    return found


def rollout_share(row: Results) -> float:
    """Part of an update's time that its rollout takes."""
    phases = ("rollout_s", "gae_s", "update_s")
    parts: list[float] = [
        each["rollout_s"] / sum(each[phase] for phase in phases) for each in measurements(row)
    ]
    return statistics.median(parts)


def line(row: Results) -> str:
    """A point of a table."""
    minibatch = row["num_envs"] * row["num_steps"] // row["num_minibatches"]
    cells = [f"{row['value']:,}", f"{row['num_envs']:,} x {row['num_steps']}", f"{minibatch:,}"]
    of_peak = fraction(row)
    if of_peak is None:
        return "| " + " | ".join([*cells, "not measured", "", "", "", "", ""]) + " |"
    ours, *others = row["sides"]
    cells += [span(values_of(ours), "speed"), f"{of_peak:.1%}", f"{rollout_share(row):.0%}"]
    peers = {peer["name"]: peer for peer in others if peer["measurements"]}
    cells += [span(values_of(peers[name]), "speed") if name in peers else "" for name in PEERS]
    cells.append(
        ", ".join(
            f"{label} {times(statistics.median(ratios(ours, peers[name], 'speed')))}"
            for name, label in PEERS.items()
            if name in peers
        )
    )
    return "| " + " | ".join(cells) + " |"


def left_out(rows: list[Results]) -> list[str]:
    """Which sides were not measured, and why."""
    found = []
    for row in rows:
        where = f"{row['axis']} {row['value']:,}"
        if row["skipped"]:
            found.append(f"- {where}: the time of the command was used up")
        elif row["late"]:
            found.append(f"- {where}, JAX and PyTorch: the time of the command was used up")
        found += [
            f"- {where}, {side['label']}: {side['error']}" for side in row.get("sides", ()) if side["error"]
        ]
    return ["", "Left out:", "", *found] if found else []


def table(axis: str, rows: list[Results]) -> list[str]:
    """The table of an axis."""
    ours = ("environments x steps", "minibatch", "operant", "of peak", "rollout")
    head = [axis, *ours, *PEERS.values(), "ratio"]
    return [
        "",
        f"## {axis.capitalize()}",
        "",
        "| " + " | ".join(head) + " |",
        "| " + " | ".join(["---"] * len(head)) + " |",
        *map(line, rows),
    ]


def cliffs(rows: list[Results]) -> list[str]:
    """Neighbouring points whose fractions of peak differ much: explained ones, then the others."""
    explained: dict[str, list[str]] = {}
    unexplained = []
    for before, after in pairwise(rows):
        old, new = fraction(before), fraction(after)
        if before["axis"] != after["axis"] or not old or not new or max(old / new, new / old) <= CLIFF:
            continue
        pair = f"{before['value']:,} to {after['value']:,}: {old:.1%} to {new:.1%}"
        texts = [each.text for each in EXPLANATIONS if each.covers(before, after, rises=new > old)]
        for text in texts[:1]:
            explained.setdefault(text, [before["axis"]]).append(pair)
        unexplained += [] if texts else [f"- {before['axis']}, {pair}"]
    found = f"Neighbouring points whose fractions of peak differ by a factor of more than {CLIFF}"
    lines = ["", "## Where the fraction of peak changes", ""]
    lines += [f"{found}:", ""] if explained else [f"{found}: none{' is explained' * bool(unexplained)}."]
    for text, (axis, *pairs) in explained.items():
        lines.append(f"- {axis.capitalize()}, {'; '.join(pairs)}. {text}")
    return lines + (["", "Not explained:", "", *unexplained] if unexplained else [])


def memory(found: list[Results]) -> list[str]:
    """Peak memory by environments, and what an environment takes."""
    lines = [
        "",
        "## Memory",
        "",
        "Peak resident memory of `operant train` in two updates, with the networks of the base. Bytes per "
        "environment and fixed part: slope and intercept of the line with the least squares of relative "
        "errors. Computed: what operant counts for an environment before a run, to refuse it where memory is "
        "short; known to 26 bytes, because operant prints tenths of a GiB. A batch of fewer than 32,768 "
        "samples is a single, smaller minibatch, whose update takes less memory.",
        "",
        "| steps | environments: MiB | bytes per environment | computed | fixed part |",
        "| --- | --- | --- | --- | --- |",
    ]
    for each in found:
        points = [(row["envs"], row["bytes"]) for row in each["rows"]]
        slope, fixed = fit(points)
        cells = ", ".join(f"{envs:,}: {size / 2**20:,.1f}" for envs, size in points)
        computed = f"{each['computed_per_env']:,.0f}" if each["computed_per_env"] else "unknown"
        lines.append(f"| {each['steps']} | {cells} | {slope:,.0f} | {computed} | {fixed / 2**20:,.1f} MiB |")
    return lines


def fit(points: list[tuple[int, int]]) -> tuple[float, float]:
    """Slope and intercept of the line with the least sum of squared relative errors."""
    weights = [1 / size**2 for _, size in points]
    total = sum(weights)
    mean_x = sum(w * x for w, (x, _) in zip(weights, points, strict=True)) / total
    mean_y = sum(w * y for w, (_, y) in zip(weights, points, strict=True)) / total
    covariance = sum(w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weights, points, strict=True))
    slope = covariance / sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weights, points, strict=True))
    return slope, mean_y - slope * mean_x


def page(results: Results) -> str:
    """All of it in Markdown."""
    rows = results["comparisons"]
    seen = {"comparisons": [row for row in rows if row.get("sides")]}
    lines = [
        "# How the speed of PPO grows on the CPU",
        "",
        *heading(results | seen),
        "",
        "`python3 benches/peers/growth.py`: CartPole, separate 4-64-64 networks, 8,192 environments x 128 "
        "steps, 4 epochs, minibatches of 32,768 (at most the batch), all threads. Each table varies one "
        "of these. In the first table a rollout has 128 steps up to 8,192 environments, and then fewer, "
        "so that the batch stays at 1,048,576 samples. Networks wider than 64 are measured with fewer "
        "environments, so that an update takes a few seconds. Minibatches are measured with 512 "
        "environments, because PyTorch takes minutes with more. Of peak: the multiply-adds of the "
        "networks, as a share of the peak of f32 multiply-adds that the same threads reach in the same "
        "process. Rollout: its share of the time. Peers run at some points only; ratio: how many times "
        "faster operant is.",
    ]
    # Written into the results by hand.
    lines += ["", results["remark"]] if "remark" in results else []
    for axis in dict.fromkeys(row["axis"] for row in rows):
        lines += table(axis, [row for row in rows if row["axis"] == axis])
    lines += left_out(rows)
    lines += cliffs(rows) if rows else []
    return "\n".join(lines + (memory(results["memory"]) if results["memory"] else []))


if __name__ == "__main__":
    sys.exit(reprint(page, __doc__))
