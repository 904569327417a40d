"""A curve in one value a column, and as one row of bars."""

from __future__ import annotations

from collections.abc import Sequence


def columns(points: Sequence[tuple[float, float]], span_s: float, count: int) -> list[float | None]:
    """The value at each of `count` moments from `span_s` ago until now, held from the last point before it."""
    values: list[float | None] = [None] * count
    for x, y in points:
        if count > 0:
            values[min(count - 1, max(0, int((x + span_s) / span_s * count)))] = y
    last: float | None = None
    for index, value in enumerate(values):
        last = value if value is not None else last
        values[index] = last
    return values


def steps(values: Sequence[float | None], top: float, glyphs: str) -> str:
    """One row of bars, one value a cell, in the characters given, lowest first."""
    last = len(glyphs) - 1
    return "".join(
        " " if value is None or top <= 0 else glyphs[min(last, max(1, round(value / top * last)))] for value in values
    )
