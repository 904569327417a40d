"""The vitals of the last minutes, or of a longer span, as charts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from textual.strip import Strip

from hivemind.records import replace
from hivemind.text.humanise import short_duration, short_span
from hivemind_tui.panels.agent_page import bars
from hivemind_tui.panels.vitals import Vital, vitals_of
from hivemind_tui.render.pen import Pen, Row, Span, cells_of
from hivemind_tui.state.view import View, join

_LEAST = 3
"""Rows of a chart with its head; where there are fewer for each, charts are left out."""
_TWO_COLUMNS = 120
_GAP = 3


def render_spend(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: of each of the vitals, what is spent first, a head with figures and its series, and the
    time below all."""
    spend_first = sorted(vitals_of(view.snapshot), key=lambda vital: vital.label != "SPEND")
    vitals = [replace(vital, rank=at) for at, vital in enumerate(spend_first)]
    cells, rows = pen.body_size(width, height)
    step_s, span = view.snapshot.vitals.step_s, view.back.note(view.page, view.snapshot.at)
    if span:  # the journal's lines don't tell of all vitals
        vitals = [vital for vital in vitals if vital.series]
    if rows <= _LEAST or not any(value for vital in vitals for value in vital.series):
        return pen.message("Vitals over time", "Charts begin with the first requests.", width, height)
    columns = 2 if cells >= _TWO_COLUMNS else 1
    while len(vitals) > 1 and _LEAST * -(-len(vitals) // columns) > rows - 1:
        vitals.remove(max(reversed(vitals), key=lambda vital: vital.rank))
    share = -(-len(vitals) // columns)
    each = (cells - _GAP * (columns - 1)) // columns
    begin = f"{short_span(step_s * max(len(vital.series) for vital in vitals))} ago"
    times: Row = [(f"{begin}{'now':>{max(0, each - len(begin))}}", "dim")]
    parts = [vitals[first : first + share] for first in range(0, len(vitals), share)]
    sides = [[*_charts(part, each, rows - 1, pen), times] for part in parts]
    body = _beside(sides, each, _GAP, cells, pen)
    return pen.frame("Vitals over time", join(span, f"a step is {short_duration(step_s)}"), body, width, height)


def _beside(sides: Sequence[Iterable[Row]], width: int, gap: int, cells: int, pen: Pen) -> Iterator[Strip]:
    """Give the rows of all sides, side by side; each but the last has `width` cells and a gap."""
    for *first, last in zip(*sides, strict=True):
        used = len(first) * (width + gap)
        yield Strip.join([*(pen.row(width + gap, *row) for row in first), pen.row(cells - used, *last)])


def _charts(vitals: Sequence[Vital], cells: int, rows: int, pen: Pen) -> Iterator[Row]:
    """Give the charts one below the other, in exactly so many rows."""
    edges = [round(rows * n / len(vitals)) for n in range(len(vitals) + 1)]
    for vital, (first, end) in zip(vitals, pairwise(edges), strict=True):
        most = max((value for value in (*vital.series, vital.now) if value is not None), default=0.0)
        peak = f"max {vital.written(most)}" if most > 0 and vital.written is not None else ""
        head: list[Span] = [(f"{vital.label}  ", "title"), *vital.figure]
        if cells_of([*head, *vital.more]) + len(peak) < cells:
            head += vital.more
        yield [*head, (f"{peak:>{max(0, cells - cells_of(head))}}", "dim")]
        values = [vital.series[cell * len(vital.series) // cells] or 0.0 for cell in range(cells) if vital.series]
        *above, lowest = bars(values, max(vital.top, most), end - first - 1, pen.glyphs.steps)
        yield from ([(line, vital.role)] for line in above)
        runs = ["".join(run) for _, run in groupby(lowest, str.isspace)]
        yield [(pen.glyphs.frame[4] * len(run), "rule") if run.isspace() else (run, vital.role) for run in runs]
