"""A picture of curves in character cells, drawn here in a millisecond: what is shown while there is no figure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

Runs = list[tuple[str, str]]
"""Text and its colour role, from left to right."""

_EMPTY = (" ", "text")
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Braille's bits of a cell's left and right column, from the bottom up."""


class Canvas:
    """Cells to draw on, 0 at the bottom. Where two curves meet in a cell, the later one gives it its colour."""

    def __init__(self, width: int, height: int, *, braille: bool = True) -> None:
        self.width, self.height = width, height
        self.columns = width * 2 if braille else width
        """Values that a curve takes."""
        self._braille = braille
        self._steps = 4 if braille else 1
        self._dots = [[0] * width for _ in range(height)]
        self._cells = [[_EMPTY] * width for _ in range(height)]

    def curve(self, values: Sequence[float | None], top: float, role: str, plain: str = "*") -> None:
        """Draw a line through :attr:`columns` values; None is a gap. `plain` is drawn where there is no braille."""
        previous: int | None = None
        for index, value in enumerate(values[: self.columns]):
            if value is None:
                previous = None
                continue
            dot = self._height_of(value, top)
            low, high = (dot, dot) if previous is None else (min(dot, previous), max(dot, previous))
            for step in range(low, high + 1):
                self._dot(index, step, role, plain)
            previous = dot

    def line(self, value: float, top: float, sign: str, role: str) -> None:
        """Draw a horizontal line in the cells that are still empty."""
        row = self._row(self._height_of(value, top))
        self._cells[row] = [(sign, role) if cell is _EMPTY else cell for cell in self._cells[row]]

    def put(self, share: float, value: float, top: float, sign: str, role: str) -> None:
        """Draw one sign at this share of the width."""
        column = min(self.width - 1, max(0, int(share * self.width)))
        self._cells[self._row(self._height_of(value, top))][column] = (sign, role)

    def area(self, values: Sequence[float | None], top: float, sign: str, role: str) -> None:
        """Draw signs in the cells below a curve that are still empty."""
        for column in range(self.width):
            value = values[min(len(values) - 1, column * self.columns // self.width)] if values else None
            if value is None:
                continue
            for row in range(self._row(self._height_of(value, top)), self.height):
                self.behind(column, row, sign, role)

    def behind(self, column: int, row: int, sign: str, role: str) -> None:
        """Draw one sign in a cell if that is still empty; rows count from the top."""
        if self._cells[row][column] is _EMPTY:
            self._cells[row][column] = (sign, role)

    def rows(self) -> list[Runs]:
        """Return the rows from the top down."""
        return [
            [("".join(sign for sign, _ in run), role) for role, run in groupby(cells, key=itemgetter(1))]
            for cells in self._cells
        ]

    def _height_of(self, value: float, top: float) -> int:
        highest = self.height * self._steps - 1
        return min(highest, max(0, round(value / top * highest))) if top > 0 else 0

    def _row(self, dot: int) -> int:
        return self.height - 1 - dot // self._steps

    def _dot(self, index: int, dot: int, role: str, plain: str) -> None:
        row = self._row(dot)
        if not self._braille:
            self._cells[row][index] = (plain, role)
            return
        column = index // 2
        self._dots[row][column] |= _DOTS[index % 2][dot % 4]
        self._cells[row][column] = (chr(0x2800 + self._dots[row][column]), role)


def columns(points: Sequence[tuple[float, float]], span_s: float, count: int) -> list[float | None]:
    """Return the value at `count` moments from `span_s` ago until now, each held from the last point before it."""
    values: list[float | None] = [None] * count
    for x, y in points:
        if count > 0:
            values[min(count - 1, max(0, int((x + span_s) / span_s * count)))] = y
    last: float | None = None
    for index, value in enumerate(values):
        values[index] = last = last if value is None else value
    return values


def steps(values: Sequence[float | None], top: float, glyphs: str) -> str:
    """Return one row of bars, one value a cell, in the characters given, lowest first."""
    last = len(glyphs) - 1
    return "".join(
        " " if value is None or top <= 0 else glyphs[min(last, max(1, round(value / top * last)))] for value in values
    )
