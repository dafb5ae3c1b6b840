"""Draws the returns of atari.py over wall time: `python benches/peers/atari_plot.py RESULTS.json FILE.png`.

The file may be a .svg, and `-` reads the results from stdin. It needs matplotlib: atari.py calls it in the
virtual environment that has it.
"""

import json
import sys
from pathlib import Path

from plot import FONT_SIZE, pyplot, save
from report import Results


def draw(results: Results, path: Path) -> None:
    """A line for each run; the runs of a side have one color."""
    figure, axes = pyplot.subplots(figsize=(9.0, 5.0))
    palette = pyplot.get_cmap("tab10").colors
    labels = list(dict.fromkeys(run["label"] for run in results["runs"]))
    named = set()
    for run in results["runs"]:
        points = [(seconds / 60, mean) for seconds, _, mean in run["curve"] if mean is not None]
        if not points:
            continue
        label, color = run["label"], palette[labels.index(run["label"]) % len(palette)]
        axes.plot(*zip(*points, strict=True), color=color, label=None if label in named else label)
        named.add(label)
    machine = results["machine"]
    axes.set_xlim(0, results["minutes"])
    axes.set_xlabel("minutes", fontsize=FONT_SIZE)
    axes.set_ylabel("mean score of the last 100 games", fontsize=FONT_SIZE)
    place = f"{machine['processor']}, {machine['cores']} cores"
    axes.set_title(f"PPO on {results['env']}; {place}; {machine['date']}", fontsize=FONT_SIZE + 1)
    axes.tick_params(labelsize=FONT_SIZE)
    axes.spines[["top", "right"]].set_visible(False)
    if named:
        axes.legend(fontsize=FONT_SIZE, frameon=False)
    figure.tight_layout()
    save(figure, path)


def main() -> int:
    """Draws the results of an earlier run."""
    if len(sys.argv) != 3:
        print("usage: atari_plot.py RESULTS.json FILE.png", file=sys.stderr)
        return 2
    results = json.loads(sys.stdin.read() if sys.argv[1] == "-" else Path(sys.argv[1]).read_text())
    if not any(mean is not None for run in results["runs"] for _, _, mean in run["curve"]):
        print("no side finished enough games: there is nothing to draw", file=sys.stderr)
        return 1
    draw(results, Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
