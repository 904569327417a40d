"""A curve in braille dots, drawn here in well under a millisecond: what is shown while there is no figure."""

from __future__ import annotations

from collections.abc import Sequence

DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a cell's left and right column, from the bottom up."""


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


def braille(values: Sequence[float | None], top: float, height: int) -> list[str]:
    """Rows of a line through the values, two of them a cell, 0 at the bottom and `top` at the top."""
    cells = [[0] * ((len(values) + 1) // 2) for _ in range(height)]
    highest = height * 4 - 1
    previous: int | None = None
    for index, value in enumerate(values):
        if value is None:
            previous = None
            continue
        dot = min(highest, max(0, round(value / top * highest))) if top > 0 else 0
        low, high = (dot, dot) if previous is None else (min(dot, previous), max(dot, previous))
        for step in range(low, high + 1):
            cells[height - 1 - step // 4][index // 2] |= DOTS[index % 2][step % 4]
        previous = dot
    return ["".join(chr(0x2800 + bits) if bits else " " for bits in row) for row in cells]


def steps(values: Sequence[float | None], top: float, glyphs: str) -> str:
    """One row of bars, one value a cell, in the characters given, lowest first."""
    last = len(glyphs) - 1
    return "".join(
        " " if value is None or top <= 0 else glyphs[min(last, max(1, round(value / top * last)))] for value in values
    )
