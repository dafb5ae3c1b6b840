"""Shapes for `draw` of a world: what `operant play` and the monitor show of a state. Coordinates are Floats, whole numbers or
numbers of Python, x to the right and y up; `where` is a Bool that says whether the shape is drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from operant._trace import Value, fail
from operant.math import to_float

__all__ = ["TONES", "Shape", "circle", "line", "polygon", "rectangle", "square", "text"]

#: The colours, by name.
TONES = (
    "ground", "body", "accent", "target", "faint", "red", "green", "blue", "purple", "yellow", "grey", "dark_green", "brown", "white",
)

Point = Sequence[Any]


class Shape:
    """A shape: its outline in the engine's form, its coordinates, and the condition under which it is present."""

    def __init__(self, kind: str, fields: dict[str, Any], tone: str, coordinates: list[Any], where: Any) -> None:
        if tone not in TONES:
            fail(f"tone: expected one of {', '.join(TONES)}, got {tone!r}")
        self.outline = {kind: {**fields, "tone": TONES.index(tone)}}
        self.coordinates = [_real(number) for number in coordinates]
        self.where = where


def _real(number: Any) -> Any:
    """A whole number of a state as a real one."""
    return to_float(number) if isinstance(number, Value) and number.kind in ("uint", "int") else number


def _points(points: Sequence[Point], least: int) -> list[Any]:
    points = [tuple(point) for point in points]
    if len(points) < least or any(len(point) != 2 for point in points):
        fail(f"points: expected at least {least} pairs (x, y), got {points!r}")
    return [number for point in points for number in point]


def line(points: Sequence[Point], *, tone: str = "ground", where: Any = True) -> Shape:
    """A line from point to point."""
    return _outline("line", points, 2, tone, where)


def polygon(points: Sequence[Point], *, tone: str = "body", where: Any = True) -> Shape:
    """A filled polygon."""
    return _outline("polygon", points, 3, tone, where)


def _outline(kind: str, points: Sequence[Point], least: int, tone: str, where: Any) -> Shape:
    coordinates = _points(points, least)
    return Shape(kind, {"points": len(coordinates) // 2}, tone, coordinates, where)


def circle(center: Point, radius: Any, *, tone: str = "body", where: Any = True) -> Shape:
    """A circle."""
    return Shape("circle", {}, tone, [*_points([center], 1), radius], where)


def rectangle(center: Point, width: Any, height: Any, *, tone: str = "body", where: Any = True) -> Shape:
    """A filled rectangle around a point."""
    return Shape("rectangle", {}, tone, [*_points([center], 1), width, height], where)


def square(rows: int, x: Any, y: Any, *, tone: str = "body", where: Any = True) -> Shape:
    """The cell in column `x` and row `y` of a board with that many rows, row 0 at the top."""
    return rectangle((_real(x) + 0.5, rows - 0.5 - _real(y)), 0.9, 0.9, tone=tone, where=where)


def text(center: Point, words: str, *, tone: str = "ground", where: Any = True) -> Shape:
    """A short text."""
    return Shape("text", {"text": str(words)}, tone, _points([center], 1), where)
