"""Two runs over time on one axis: in flight, waiting, and the concurrency level, so that one sees where they part."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from textual.strip import Strip

from hivemind.text.humanise import short_count, short_duration
from hivemind_tui.plots.canvas import Canvas, Runs
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import Course, Outcome
from hivemind_tui.whatif.verdict import WITH_HIVEMIND

_SCALE = 14
"""Cells at the left for what is drawn, and its scale."""
_NARROWEST = 20
_RECORDED, _CHANGED = "info", "accent"
_STRIPS: tuple[tuple[str, Callable[[Course], Sequence[float | None]]], ...] = (
    ("in flight", lambda course: course.flying),
    ("waiting", lambda course: course.waiting),
    ("level", lambda course: course.level),
)
_APART_FROM = 5
"""Rows of a strip from which an empty one stands between two."""
_AT_ONCE_S = 0.05
_LEAST = 2
"""Rows that a strip needs."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: a strip for each of the three, as many as fit, over one time axis."""
    cells, rows = pen.body_size(width, height)
    outcome = view.sheet.outcome
    if outcome is None:
        return pen.message("Over time", "Both runs are drawn here on one axis once they are simulated.", width, height)
    parted = outcome.parted_s
    note = "" if not outcome.changes else "the changes make no difference" if parted is None else _parting(parted)
    title = f"Over time: recorded and {_second(outcome)}"
    body = [pen.row(cells, *spans) for spans in _drawn(outcome, cells, rows, pen)]
    return pen.frame(title, note, body, width, height)


def _second(outcome: Outcome) -> str:
    """What the recorded run is drawn beside."""
    return "changed" if outcome.changes else WITH_HIVEMIND if outcome.foreign else "replayed"


def _parting(parted_s: float) -> str:
    return "they part at once" if parted_s < _AT_ONCE_S else f"they part after {short_duration(parted_s)}"


def _drawn(outcome: Outcome, cells: int, rows: int, pen: Pen) -> list[Runs]:
    width = cells - _SCALE
    if width < _NARROWEST or rows < _LEAST + 2:
        return []
    first, second = outcome.recorded.course, outcome.tried.course
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
    return [*drawn, _axis(span_s, outcome.parted_s if _later(outcome) else None, width)]


def _strip(
    label: str,
    values: tuple[Sequence[float | None], Sequence[float | None]],
    courses: tuple[Course, Course],
    span_s: float,
    outcome: Outcome,
    width: int,
    height: int,
    pen: Pen,
) -> list[Runs]:
    """One quantity of both runs, on one scale; where both are alike, the changed one lies over the recorded."""
    canvas = Canvas(width, height, braille=pen.glyphs.braille)
    top = float(max(1, math.ceil(max((value for each in values for value in each if value is not None), default=0.0))))
    for each, course, role, plain in zip(values, courses, (_RECORDED, _CHANGED), ".*", strict=True):
        canvas.curve(sampled(each, course.width_s, span_s, canvas.columns), top, role, plain)
    if _later(outcome):
        column = min(width - 1, int((outcome.parted_s or 0.0) / span_s * width))
        for row in range(height):
            canvas.behind(column, row, pen.glyphs.track, "wait")
    heads = [f"{label:<9}{short_count(top):>4}", *[""] * (height - 2), f"{'0':>13}"] if height > 1 else [label]
    return [
        [(f"{head:<{_SCALE - 1}}", "dim"), (pen.glyphs.frame[5], "rule"), *row]
        for head, row in zip(heads, canvas.rows(), strict=True)
    ]


def sampled(values: Sequence[float | None], width_s: float, span_s: float, columns: int) -> list[float | None]:
    """The value at each of so many moments of the span; None where the run is over. No stretch is skipped: where
    several fall on one column, it has the highest."""
    found: list[float | None] = []
    for column in range(columns):
        begin, end = int(column * span_s / columns / width_s), int((column + 1) * span_s / columns / width_s)
        known = [value for value in values[begin : max(begin + 1, end)] if value is not None]
        found.append(max(known, default=None))
    return found


def _legend(outcome: Outcome, pen: Pen) -> Runs:
    signs = ("━", "━") if pen.glyphs.braille else (".", "*")
    name = _second(outcome)
    return [
        (" " * _SCALE, "dim"),
        (f"{signs[0]} ", _RECORDED),
        ("recorded", "dim"),
        (f"   {signs[1]} ", _CHANGED),
        (name, "dim"),
        *([(f"   {pen.glyphs.track} ", "wait"), ("they part", "dim")] if _later(outcome) else []),
    ]


def _later(outcome: Outcome) -> bool:
    """They part where there is something to see of both before."""
    return outcome.parted_s is not None and outcome.parted_s >= _AT_ONCE_S


def _axis(span_s: float, parted_s: float | None, width: int) -> Runs:
    """When it begins and ends, and where the runs part."""
    end = short_duration(span_s)
    cells = ["0", *" " * (width - 1)][:width]
    cells[width - len(end) :] = end
    spans: Runs = [(" " * _SCALE, "dim")]
    if parted_s is None:
        return [*spans, ("".join(cells), "dim")]
    label = f"+{short_duration(parted_s)}"
    at = max(2, min(width - len(end) - len(label) - 2, int(parted_s / span_s * width)))
    text = "".join(cells)
    marked: list[Span] = [(text[:at], "dim"), (label, "wait"), (text[at + len(label) :], "dim")]
    return [*spans, *marked]
