"""Two runs over time on one axis: in flight, waiting, and the concurrency level, with where they diverge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_duration
from hivemind_tui.plots.canvas import Canvas, Runs
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import RunSeries, WhatIfResult
from hivemind_tui.whatif.verdict import WITH_HIVEMIND

_SCALE = 14
"""Cells at the left for labels and scales."""
_NARROWEST = 20
_RECORDED, _CHANGED = "info", "accent"
_STRIPS: tuple[tuple[str, Callable[[RunSeries], Sequence[float | None]]], ...] = (
    ("in flight", lambda series: series.in_flight),
    ("waiting", lambda series: series.waiting),
    ("level", lambda series: series.level),
)
_APART_FROM = 5
"""Rows of a strip from which strips are separated by an empty row."""
_AT_ONCE_S = 0.05
_LEAST = 2
"""Fewest rows of a strip."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a strip for each quantity, as many as fit, over one time axis."""
    cells, rows = pen.body_size(width, height)
    outcome = view.what_if.outcome
    if outcome is None:
        return pen.message("Over time", "Both runs are drawn here on one axis once they are simulated.", width, height)
    diverged = outcome.diverged_after_s
    note = "" if not outcome.changes else "the changes make no difference" if diverged is None else _diverging(diverged)
    title = f"Over time: recorded and {_second(outcome)}"
    body = [pen.row(cells, *spans) for spans in _drawn(outcome, cells, rows, pen)]
    return pen.frame(title, note, body, width, height)


def _second(outcome: WhatIfResult) -> str:
    """Return the name of the run that is drawn over the recorded one."""
    return "changed" if outcome.changes else WITH_HIVEMIND if outcome.foreign else "replayed"


def _diverging(diverged_after_s: float) -> str:
    return (
        "they diverge at once"
        if diverged_after_s < _AT_ONCE_S
        else f"they diverge after {short_duration(diverged_after_s)}"
    )


def _drawn(outcome: WhatIfResult, cells: int, rows: int, pen: Pen) -> list[Runs]:
    width = cells - _SCALE
    if width < _NARROWEST or rows < _LEAST + 2:
        return []
    first, second = outcome.recorded.series, outcome.tried.series
    span_s = max(first.lasts_s, second.lasts_s) or 1.0
    room = rows - 2
    strips = _STRIPS[: max(1, min(len(_STRIPS), room // _LEAST))]
    if len(strips) == len(_STRIPS) and all(value is None for run in (first, second) for value in run.level):
        strips = _STRIPS[:2]
    drawn: list[Runs] = [_legend(outcome, pen)]
    apart = room // len(strips) >= _APART_FROM
    room -= (len(strips) - 1) * apart
    for index, (label, values) in enumerate(strips):
        height = room // len(strips) + (index < room % len(strips))
        if index and apart:
            drawn.append([(" " * (_SCALE - 1), "dim"), (pen.glyphs.frame[5], "rule")])
        drawn += _strip(label, (values(first), values(second)), (first, second), span_s, outcome, width, height, pen)
    return [*drawn, _axis(span_s, outcome.diverged_after_s if _diverge_later(outcome) else None, width)]


def _strip(
    label: str,
    values: tuple[Sequence[float | None], Sequence[float | None]],
    series: tuple[RunSeries, RunSeries],
    span_s: float,
    outcome: WhatIfResult,
    width: int,
    height: int,
    pen: Pen,
) -> list[Runs]:
    """Return one quantity of both runs on one scale, the second run drawn over the recorded one."""
    canvas = Canvas(width, height, braille=pen.glyphs.braille)
    top = float(max(1, math.ceil(max((value for each in values for value in each if value is not None), default=0.0))))
    for each, run, role, plain in zip(values, series, (_RECORDED, _CHANGED), ".*", strict=True):
        canvas.curve(sampled(each, run.width_s, span_s, canvas.columns), top, role, plain)
    if _diverge_later(outcome):
        column = min(width - 1, int((outcome.diverged_after_s or 0.0) / span_s * width))
        for row in range(height):
            canvas.behind(column, row, pen.glyphs.track, "wait")
    heads = [f"{label:<9}{short_count(top):>4}", *[""] * (height - 2), f"{'0':>13}"] if height > 1 else [label]
    return [
        [(f"{head:<{_SCALE - 1}}", "dim"), (pen.glyphs.frame[5], "rule"), *row]
        for head, row in zip(heads, canvas.rows(), strict=True)
    ]


def sampled(values: Sequence[float | None], width_s: float, span_s: float, columns: int) -> list[float | None]:
    """Return the value at so many moments of the span; None where the run is over.

    No interval is skipped: a column for several of them has the highest value.
    """
    found: list[float | None] = []
    for column in range(columns):
        begin, end = int(column * span_s / columns / width_s), int((column + 1) * span_s / columns / width_s)
        known = [value for value in values[begin : max(begin + 1, end)] if value is not None]
        found.append(max(known, default=None))
    return found


def _legend(outcome: WhatIfResult, pen: Pen) -> Runs:
    signs = ("━", "━") if pen.glyphs.braille else (".", "*")
    name = _second(outcome)
    return [
        (" " * _SCALE, "dim"),
        (f"{signs[0]} ", _RECORDED),
        ("recorded", "dim"),
        (f"   {signs[1]} ", _CHANGED),
        (name, "dim"),
        *([(f"   {pen.glyphs.track} ", "wait"), ("they diverge", "dim")] if _diverge_later(outcome) else []),
    ]


def _diverge_later(outcome: WhatIfResult) -> bool:
    """Return whether there is something to see of both runs before they diverge."""
    return outcome.diverged_after_s is not None and outcome.diverged_after_s >= _AT_ONCE_S


def _axis(span_s: float, diverged_after_s: float | None, width: int) -> Runs:
    """Return the axis: its begin, its end, and where the runs diverge."""
    end = short_duration(span_s)
    cells = ["0", *" " * (width - 1)][:width]
    cells[width - len(end) :] = end
    spans: Runs = [(" " * _SCALE, "dim")]
    if diverged_after_s is None:
        return [*spans, ("".join(cells), "dim")]
    label = f"+{short_duration(diverged_after_s)}"
    at = max(2, min(width - len(end) - len(label) - 2, int(diverged_after_s / span_s * width)))
    text = "".join(cells)
    marked: list[Span] = [(text[:at], "dim"), (label, "wait"), (text[at + len(label) :], "dim")]
    return [*spans, *marked]
