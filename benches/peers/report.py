"""From measurements to the table of ratios: `python benches/peers/report.py RESULTS.json`.

A ratio is taken within a round, where the two sides ran one after the other.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Results = dict[str, Any]

BUSY = 0.5
"""Load average per core, before a comparison, above which its figures are called not final."""


def as_json(value: Any, indent: int = 0) -> str:
    """JSON in which what holds no further lists, or is short, takes one line."""
    text = json.dumps(value)
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    if len(text) + indent <= 140 or not any(isinstance(each, dict | list) for each in inner):
        return text
    lines = [as_json(each, indent + 1) for each in inner]
    if isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {line}" for name, line in zip(value, lines, strict=True)]
    body = ",\n".join(" " * (indent + 1) + line for line in lines)
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{body}\n{' ' * indent}{last}"


def spread(values: list[float]) -> tuple[float, float, float]:
    """Median, smallest and largest."""
    return statistics.median(values), min(values), max(values)


def amount(value: float, unit: str) -> str:
    """A speed in steps per second, or a time, with three digits that count."""
    if unit != "speed":
        return f"{value:.3f} s" if value < 1 else f"{value:.2f} s"
    for size, name in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{name}" if value < 1e3 * size else f"{value / size:,.0f}{name}"
    return f"{value:.3g}"


def times(ratio: float) -> str:
    """A ratio with three digits that count."""
    return f"{ratio:.3g}" if ratio < 1e3 else f"{ratio:,.0f}"


def span(values: list[float], unit: str) -> str:
    """Median (min .. max)."""
    median, low, high = (amount(value, unit) for value in spread(values))
    return f"{median} ({low} .. {high})"


def values_of(side: Results) -> list[float]:
    """The measurements of one side."""
    return [measurement["value"] for measurement in side["measurements"]]


def ratios(operant: Results, peer: Results, unit: str) -> list[float]:
    """How many times faster operant was, round by round."""
    rounds = zip(values_of(operant), values_of(peer), strict=False)
    return [ours / theirs if unit == "speed" else theirs / ours for ours, theirs in rounds]


def unsolved(side: Results) -> str:
    """A remark where not every run solved: their times are then lower bounds."""
    tries = [measurement["solved"] for measurement in side["measurements"] if "solved" in measurement]
    return "" if all(tries) else f"; {sum(tries)} of {len(tries)} solved, the others' time until they gave up"


def settings(side: Results) -> str:
    """What a peer chose, in brackets."""
    chosen = ", ".join(f"{name} {value}" for name, value in side["settings"].items() if name != "device")
    return f" ({chosen})" if chosen else ""


def measured(side: Results, unit: str) -> str:
    """A side's cell."""
    return span(values_of(side), unit) + unsolved(side) if side["measurements"] else "not measured"


def row(comparison: Results, operant: Results, peer: Results) -> str:
    """One line of the table."""
    unit, found = comparison["unit"], ratios(operant, peer, comparison["unit"])
    middle, low, high = spread(found) if found else (0.0, 0.0, 0.0)
    cells = [
        comparison["title"],
        measured(operant, unit),
        peer["label"] + settings(peer),
        measured(peer, unit),
        f"**{times(middle)}** ({times(low)} .. {times(high)})" if found else "",
        str(len(found)),
    ]
    return "| " + " | ".join(cells) + " |"


def pairs(results: Results) -> list[tuple[Results, Results, Results]]:
    """Every comparison with operant's side and one peer's."""
    return [(each, each["sides"][0], peer) for each in results["comparisons"] for peer in each["sides"][1:]]


def sides(results: Results) -> list[tuple[Results, Results]]:
    """Every comparison with each of its sides."""
    return [(each, side) for each in results["comparisons"] for side in each["sides"]]


def ran_on(machine: Results, measured: list[Results]) -> list[str]:
    """Machine and date, and the versions of operant and of the sides that were measured."""
    packages = {name: version for side in measured for name, version in side["versions"].items()}
    used = "".join(f", {name} {packages[name]}" for name in sorted(packages, key=str.lower))
    gpu = f"; {machine['gpu']}" if machine.get("gpu") else ""
    return [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gib']} GiB{gpu}; "
        f"{machine['system']}; {machine['date']}.",
        f"{machine['operant']} ({machine['commit']}); Python {machine['python']}{used}.",
        "",
    ]


def heading(results: Results) -> list[str]:
    """What everything ran on, how it was measured, and what makes the figures not final."""
    return [
        *ran_on(results["machine"], [side for _, side in sides(results)]),
        f"Steps per second, or seconds: medians (min .. max) of {results['rounds']} rounds, in each of which "
        "every side ran once, one after the other. Ratio: how many times faster operant is.",
        *warnings(results),
    ]


def warnings(results: Results) -> list[str]:
    """Why these figures are not final, if they are not."""
    lines: list[str] = []
    load = max((each["load"]["load_average_before"] for each in results["comparisons"][:1]), default=0.0)
    if load > BUSY * results["machine"]["cores"]:
        lines += ["", f"The machine was busy with other work (load average {load:.1f}): not final."]
    if results["quick"]:
        lines += ["", "Short measurements (--quick): not final."]
    return lines


def table(results: Results) -> str:
    """All of it in Markdown."""
    lines = [
        *heading(results),
        "",
        "| what | operant | peer | measured | ratio | rounds |",
        "| --- | --- | --- | --- | --- | --- |",
        *(row(*pair) for pair in pairs(results)),
    ]
    failed = [(each, side) for each, side in sides(results) if side["error"]]
    if failed:
        lines += ["", "Not measured, or not to the end:", ""]
        lines += [f"- {side['label']}, {each['title']}: {side['error']}" for each, side in failed]
    return "\n".join(lines)


def reprint(render: Callable[[Results], str], description: str | None) -> int:
    """Prints the results of an earlier run, whose file is the argument of this script."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("results", type=Path, metavar="RESULTS.json", help="what the measurement wrote")
    path = parser.parse_args().results
    try:
        results = json.loads(path.read_text())
    except (OSError, ValueError) as problem:
        parser.error(f"{path} cannot be read: {problem}")
    print(render(results))
    return 0


if __name__ == "__main__":
    sys.exit(reprint(table, __doc__))
