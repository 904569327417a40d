"""Two runs over time on one axis: in flight, waiting, and the concurrency level, with where they diverge."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_duration
from hivemind_tui.plots.canvas import Canvas, Runs
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import RunSeries
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
    second = "changed" if outcome.changes else WITH_HIVEMIND if outcome.foreign else "replayed"
    after_s, note = outcome.diverged_after_s, ""
    if after_s is None:
        note = "the changes make no difference" if outcome.changes else ""
    elif outcome.changes:
        note = f"they diverge {'at once' if after_s < _AT_ONCE_S else f'after {short_duration(after_s)}'}"
    # Only where there is something to see of both runs before they diverge.
    marked_s = after_s if after_s is not None and after_s >= _AT_ONCE_S else None
    room, runs = cells - _SCALE, (outcome.recorded.series, outcome.tried.series)
    body: list[Runs] = []
    if room >= _NARROWEST and rows >= _LEAST + 2:
        span_s = max(run.lasts_s for run in runs) or 1.0
        axis = _axis(span_s, marked_s, room)
        body = [_legend(second, marked_s, pen), *_strips(runs, span_s, marked_s, room, rows - 2, pen), axis]
    return pen.frame(f"Over time: recorded and {second}", note, body, width, height)


def _strips(
    runs: tuple[RunSeries, RunSeries], span_s: float, marked_s: float | None, width: int, rows: int, pen: Pen
) -> list[Runs]:
    """Return as many quantities as fit, one below the other."""
    side = (pen.glyphs.frame[5], "rule")
    strips = _STRIPS[: max(1, min(len(_STRIPS), rows // _LEAST))]
    if len(strips) == len(_STRIPS) and all(value is None for run in runs for value in run.level):
        strips = _STRIPS[:2]
    apart = rows // len(strips) >= _APART_FROM
    rows -= (len(strips) - 1) * apart
    drawn: list[Runs] = []
    for index, (label, values) in enumerate(strips):
        if index and apart:
            drawn.append([(" " * (_SCALE - 1), "dim"), side])
        height = rows // len(strips) + (index < rows % len(strips))
        canvas = Canvas(width, height, braille=pen.glyphs.braille)
        known = [value for run in runs for value in values(run) if value is not None]
        top = float(max(1, math.ceil(max(known, default=0.0))))
        for run, role, plain in zip(runs, (_RECORDED, _CHANGED), ".*", strict=True):
            canvas.curve(sampled(values(run), run.width_s, span_s, canvas.columns), top, role, plain)
        if marked_s is not None:
            column = min(width - 1, int(marked_s / span_s * width))
            for row in range(height):
                canvas.behind(column, row, pen.glyphs.track, "wait")
        heads = [f"{label:<9}{short_count(top):>4}", *[""] * (height - 2), f"{'0':>13}"] if height > 1 else [label]
        for head, line in zip(heads, canvas.rows(), strict=True):
            drawn.append([(f"{head:<{_SCALE - 1}}", "dim"), side, *line])
    return drawn


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


def _legend(second: str, marked_s: float | None, pen: Pen) -> Runs:
    first_sign, second_sign = ("━", "━") if pen.glyphs.braille else (".", "*")
    runs: Runs = [(" " * _SCALE, "dim"), (f"{first_sign} ", _RECORDED), ("recorded", "dim")]
    runs += [(f"   {second_sign} ", _CHANGED), (second, "dim")]
    return runs if marked_s is None else [*runs, (f"   {pen.glyphs.track} ", "wait"), ("they diverge", "dim")]


def _axis(span_s: float, marked_s: float | None, width: int) -> Runs:
    """Return the axis: its begin, its end, and where the runs diverge."""
    end = short_duration(span_s)
    text = f"0{end:>{width - 1}}"
    if marked_s is None:
        return [(" " * _SCALE, "dim"), (text, "dim")]
    label = f"+{short_duration(marked_s)}"
    at = max(2, min(width - len(end) - len(label) - 2, int(marked_s / span_s * width)))
    return [(" " * _SCALE + text[:at], "dim"), (label, "wait"), (text[at + len(label) :], "dim")]
