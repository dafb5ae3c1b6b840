"""Draws the ratios of a run as bars: `python benches/peers/plot.py RESULTS.json FILE.svg`.

The file may be a .png, and `-` reads the results from stdin. Needs matplotlib: run.py calls it in the virtual
environment that has it.
"""

import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

import matplotlib

from report import Results, pairs, ratios, spread, times

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

matplotlib.rcParams["svg.hashsalt"] = "peers"
"""The same results give the same file."""
matplotlib.rcParams["svg.fonttype"] = "none"
"""Text is text, not the outlines of its letters."""
INK = "#333333"
FONT_SIZE = 8


def save(figure: Figure, path: Path) -> None:
    """Writes a figure; SVG without a description of the file, every path on one line, in hundredths of a point."""
    figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix == ".svg" else None)
    if path.suffix == ".svg":
        text = re.sub(r" *<metadata>.*?</metadata>\n", "", path.read_text(), flags=re.DOTALL)
        path.write_text(re.sub(r'(?<= d=")[^"]*', lambda found: short(found[0]), text))


def short(path: str) -> str:
    """The commands of an SVG path with two decimals."""
    return " ".join(re.sub(r"-?\d+\.\d+", lambda found: f"{float(found[0]):.2f}", path).split())


class Bar(NamedTuple):
    """One ratio, and where it stands."""

    place: float
    comparison: str
    peer: str
    ratios: list[float]
    first: bool
    """Whether it begins its comparison, whose title stands above it."""


def bars(results: Results) -> list[Bar]:
    """A bar for every peer that was measured, grouped by comparison from the top down."""
    found: list[Bar] = []
    place = 0.0
    for comparison, operant, peer in pairs(results):
        if not (measured := ratios(operant, peer, comparison["unit"])):
            continue
        first = not found or found[-1].comparison != comparison["title"]
        place += 2.0 if first else 1.0
        found.append(Bar(place, comparison["title"], peer["label"], measured, first))
    return found


def draw_bar(axes: Axes, bar: Bar, colour: str) -> None:
    """A bar, its spread, its number, and the title of its comparison where that begins."""
    middle, low, high = spread(bar.ratios)
    axes.barh(bar.place, middle, 0.72, color=colour, xerr=[[middle - low], [high - middle]], ecolor=INK)
    style = {"textcoords": "offset points", "va": "center", "fontsize": FONT_SIZE}
    axes.annotate(f"{times(middle)} x", (high, bar.place), (6, 0), **style)
    if bar.first:
        axes.annotate(
            bar.comparison, (0, bar.place - 0.85), (4, 0), ("axes fraction", "data"), style="italic", **style
        )


def draw(results: Results, path: Path) -> None:
    """All bars on one logarithmic axis."""
    found = bars(results)
    titles = list(dict.fromkeys(bar.comparison for bar in found))
    palette = pyplot.get_cmap("tab10").colors
    figure, axes = pyplot.subplots(figsize=(9.0, 1.0 + 0.3 * (len(found) + len(titles))))
    for bar in found:
        draw_bar(axes, bar, palette[titles.index(bar.comparison) % len(palette)])
    everything = [ratio for bar in found for ratio in bar.ratios]
    axes.set_xscale("log")
    axes.set_xlim(min(1.0, *everything), max(everything) * 3.0)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(found[-1].place + 0.7, found[0].place - 1.5)
    axes.axvline(1.0, color=INK, linewidth=0.8)
    axes.set_yticks([bar.place for bar in found], [bar.peer for bar in found], fontsize=FONT_SIZE)
    axes.set_xlabel("times faster than the peer (median, smallest to largest)", fontsize=FONT_SIZE)
    machine = results["machine"]
    place = machine.get("gpu") or f"{machine['processor']}, {machine['cores']} cores"
    axes.set_title(f"operant against other libraries; {place}; {machine['date']}", fontsize=FONT_SIZE + 1)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    save(figure, path)


def main() -> int:
    """Draws the results of an earlier run."""
    if len(sys.argv) != 3:
        print("usage: plot.py RESULTS.json FILE.svg", file=sys.stderr)
        return 2
    results = json.loads(sys.stdin.read() if sys.argv[1] == "-" else Path(sys.argv[1]).read_text())
    if not bars(results):
        print("nothing was measured: there is nothing to draw", file=sys.stderr)
        return 1
    draw(results, Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
