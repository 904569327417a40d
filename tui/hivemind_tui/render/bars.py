"""Bars on a time axis, cell by cell: what happened keeps its place from frame to frame, and at least one cell."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence

from msgspec import Struct

from hivemind_tui.render.format import LATEST, local
from hivemind_tui.render.glyphs import PHASES
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.render.phases import Phase

SPANS = (1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400)
"""How much time an axis shows, in seconds; beyond the last, whole days."""
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
"""Seconds between two labels; beyond the last, whole days."""
_DAY = 86_400
_ORDER = {"failed": 0, "stream": 1, "first": 2, "queue": 3, "pause": 4}
"""Which phases keep a cell where there are fewer cells than phases."""


class Axis(Struct, frozen=True):
    """A span of time in cells. It moves by whole cells, so that bars don't jitter."""

    span_s: float
    width: int
    """In cells, 1 at least."""
    origin_at: float = 0.0
    """Where cells are counted from."""
    first: int = 0
    """Number of the leftmost cell."""

    @property
    def cell_s(self) -> float:
        """Seconds in a cell."""
        return self.span_s / self.width

    def cell(self, at: float) -> int:
        """Return the cell of a moment; moments outside are put to the edge."""
        return max(0, min(self.width - 1, math.floor((at - self.origin_at) / self.cell_s) - self.first))


def ending(start_at: float, end_at: float, width: int) -> Axis:
    """Return an axis from one moment to the other, which is in its last cell; half a minute at least."""
    width = max(2, width)
    # A cell more than the time takes: both ends stand somewhere within theirs.
    span = _rounded(SPANS, max(30.0, (end_at - start_at) * width / (width - 1)))
    return Axis(span, width, first=math.floor(end_at / (span / width)) - width + 1)


def beginning(start_at: float, end_at: float, width: int) -> Axis:
    """Return an axis that begins with one moment and reaches the other."""
    return Axis(_rounded(SPANS, end_at - start_at), max(1, width), origin_at=start_at)


def _rounded(steps: Sequence[int], wanted: float) -> float:
    return next((step for step in steps if step >= wanted), math.ceil(wanted / _DAY) * _DAY)


def bar(phases: Sequence[Phase], axis: Axis, pen: Pen) -> list[Span]:
    """Return the phases on the axis, exactly as wide as it is."""
    first = axis.cell(phases[0].start_at)
    last = axis.cell(phases[-1].end_at)
    # So many cells as there are phases: to the right where there is room, else to the left.
    cells = min(axis.width, max(last - first + 1, len(phases)))
    first = min(first, axis.width - cells)
    spans: list[Span] = [(" " * first, "text")]
    ranks = [_ORDER[phase.kind] for phase in phases]
    for phase, share in zip(phases, shares([phase.length_s for phase in phases], cells, ranks), strict=True):
        glyph, role = pen.sign(PHASES[phase.kind])
        spans.append((glyph * share, role))
    spans.append((" " * (axis.width - first - cells), "text"))
    return spans


def shares(lengths: Sequence[float], cells: int, ranks: Sequence[int]) -> list[int]:
    """Return the cells divided in proportion to the lengths, one each at least; too few go to the lowest ranks."""
    if len(lengths) > cells:
        chosen = sorted(range(len(lengths)), key=lambda index: (ranks[index], -lengths[index]))[:cells]
        return [int(index in chosen) for index in range(len(lengths))]
    given = [1] * len(lengths)
    large = [index for index, length in enumerate(lengths) if length > 0]
    while large:
        room = cells - len(lengths) + len(large)
        total = sum(lengths[index] for index in large)
        small = [index for index in large if lengths[index] * room < total]
        if not small:
            break
        large = [index for index in large if index not in small]
    if not large:
        given[0] += cells - len(lengths)
        return given
    wanted = {index: lengths[index] * room / total for index in large}
    for index in large:
        given[index] = math.floor(wanted[index])
    left = cells - sum(given)
    for index in sorted(large, key=lambda index: given[index] - wanted[index])[:left]:
        given[index] += 1
    return given


def times_of_day(axis: Axis, offset_s: float, mark: str) -> str:
    """Return the labels above the axis: times of day at round moments; `offset_s` is from its clock to the wall's."""
    start = max(0.0, min(LATEST, axis.first * axis.cell_s + offset_s))
    # Round by the clock on the wall here, not by the one in Greenwich.
    east_s = local(start).tm_gmtoff
    step = _rounded(_STEPS, 11 * axis.cell_s)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY else "%d %b"
    marks = (moment - east_s for moment in _marks(start + east_s, step, axis.span_s))
    return _line(axis, ((moment - start, time.strftime(form, local(moment))) for moment in marks), mark)


def times_since(axis: Axis, mark: str) -> str:
    """Return the labels above an axis that begins at zero: `0s`, `5s`, `10s`, `1m`."""
    marks = _marks(0.0, _rounded(_STEPS, 8 * axis.cell_s), axis.span_s)
    return _line(axis, ((moment, rounded(moment)) for moment in marks), mark)


def rounded(moment: float) -> str:
    """A round duration in few letters: `30s`, `5m`, `1m30s`, `2d`."""
    left, parts = round(moment), list[str]()
    for unit, seconds in (("d", _DAY), ("h", 3600), ("m", 60), ("s", 1)):
        whole, left = divmod(left, seconds)
        parts += [f"{whole}{unit}"] if whole else []
    return "".join(parts) or "0s"


def _marks(start: float, step: float, span: float) -> Iterator[float]:
    moment = math.ceil(start / step) * step
    while moment < start + span:
        yield moment
        moment += step


def _line(axis: Axis, labels: Iterator[tuple[float, str]], mark: str) -> str:
    line = ""
    for moment, label in labels:
        cell = math.floor(moment / axis.cell_s + 1e-6)
        text = f"{mark}{label}"
        if cell + len(text) <= axis.width and (cell > len(line) or not line):
            line += " " * (cell - len(line)) + text
    return line + " " * (axis.width - len(line))
