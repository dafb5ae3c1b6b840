"""Compares the numbers of `operant report SWEEP --json` with those of rliable.

    operant report SWEEP --json > report.json
    python benches/peers/check_report.py report.json

For every configuration: interquartile mean and 95% bootstrap interval over seeds; for every pair among the
first ones: the probability of improvement. The table goes to stdout in Markdown. The exit code is 1 where a
mean or probability differs, or an interval by more than 2% of the range of the scores, which is what two
bootstraps of rliable with other seeds differ by.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from rliable import library, metrics

RESAMPLES = 20_000
TOLERANCE = 0.02
"""Of an interval's end, in units of the range of all scores."""


def bootstrap(
    scores: np.ndarray | tuple[np.ndarray, np.ndarray], statistic: Any
) -> tuple[float, float, float]:
    """rliable's estimate and interval."""
    values, intervals = library.get_interval_estimates(
        {"it": scores}, lambda *scores: np.array([statistic(*scores)]), reps=RESAMPLES
    )
    (low,), (high,) = intervals["it"]
    return float(values["it"][0]), float(low), float(high)


def scores_of(group: dict[str, Any]) -> np.ndarray:
    """Scores of a setting as rliable takes them: seeds x tasks."""
    return np.array([[run["score"]] for run in group["runs"] if run["score"] is not None])


def compared(ours: dict[str, float], theirs: tuple[float, float, float], scale: float) -> bool:
    """Whether the numbers agree."""
    ends = zip((ours["low"], ours["high"]), theirs[1:], strict=True)
    return abs(ours["value"] - theirs[0]) <= 1e-9 * max(1.0, abs(theirs[0])) and all(
        abs(a - b) <= TOLERANCE * scale for a, b in ends
    )


def shown(value: float, low: float, high: float) -> str:
    """An estimate with its interval."""
    return f"{value:.4g} ({low:.4g} to {high:.4g})"


def main() -> int:
    """Prints both sides of every number."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("report", type=Path)
    report = json.loads(parser.parse_args().report.read_text())
    agree = True
    print("| what | operant | rliable | agree |\n| --- | --- | --- | --- |")
    for part in report["environments"]:
        groups = [group for group in part["groups"] if len(scores_of(group)) > 1]
        if not groups:
            continue
        every = np.concatenate([scores_of(group) for group in groups])
        scale = float(every.max() - every.min()) or 1.0
        rows = []
        for group in groups:
            theirs = bootstrap(scores_of(group), metrics.aggregate_iqm)
            rows.append((f"{part['env']}: {group['name']}", group["score"], theirs, scale))
        for i, row in enumerate(part["improvement"]):
            for j, ours in enumerate(row):
                if ours is not None:
                    a, b = scores_of(part["groups"][i]), scores_of(part["groups"][j])
                    theirs = bootstrap((a, b), metrics.probability_of_improvement)
                    what = f"{part['env']}: P({part['groups'][i]['name']} > {part['groups'][j]['name']})"
                    rows.append((what, ours, theirs, 1.0))
        for what, ours, theirs, unit in rows:
            same = compared(ours, theirs, unit)
            agree &= same
            own = shown(ours["value"], ours["low"], ours["high"])
            print(f"| {what} | {own} | {shown(*theirs)} | {'yes' if same else 'NO'} |")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
