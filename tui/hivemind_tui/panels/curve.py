"""The concurrency level over time with its causes, and the time to first token: plotext's figure, or a sketch."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from textual.strip import Strip

from hivemind.scheduler.events import LaneState
from hivemind.text.humanise import short_duration, short_span
from hivemind.world.snapshot import LaneView
from hivemind_tui.plots import sample
from hivemind_tui.plots.canvas import Canvas, Runs, columns, steps
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.format import clean, clock, level, whole
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting
from hivemind_tui.render.rows import named
from hivemind_tui.state.view import View, join
from hivemind_tui.widgets.line_table import Panel

_WORDS_FROM = 7
"""Rows from which the causes of changes have one below the curve."""
_SPLIT_FROM = 9
"""Rows from which the time to first token is drawn below."""
_SCALE = 8
"""Cells of the sketch's scale."""
_BETWEEN_S = 1.0
"""Between two figures."""
_NOTE = 40
"""Most characters of a note in the panel; the log has all of it."""
_TREND = 24
"""Narrowest trend beside which the last change is described."""


def wanted(view: View, width: int, height: int, pen: Pen) -> sample.Job | None:
    """Return the figure that the panel wants in this size; None where it draws without one."""
    cells, rows = pen.body_size(width, height)
    if view.lane is None or not pen.glyphs.braille:
        return None
    return sample.job_for(view.lane, cells, _picture(rows))


def render(view: View, width: int, height: int, pen: Pen, figure: sample.Figure | None = None) -> list[Strip]:
    """Return the panel's rows: the newest figure where it has the right size, else a sketch; gauges below."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.message("Concurrency", "The curve begins with the first request.", width, height)
    picture = _picture(rows)
    if figure is not None and (figure.width, figure.height) == (cells, picture):
        body: list[Row] = [[(text, sample.ROLE_CODES[code]) for text, code in runs] for runs in figure.rows]
    else:
        body = [*_sketch(lane, cells, picture, pen)]
    if rows >= _WORDS_FROM:
        body.append(_changes(view, lane, cells, pen))
    body.append(_gauges(lane.state, cells))
    how = "level set by AIMD"
    if lane.state.pinned:
        how = "level fixed, a lets AIMD set it" if view.live else "level fixed"
    span = view.back.note(view.page, view.snapshot.at)
    note = join(span, view.lane_note(), how, "requests in flight over time")
    return pen.frame("Concurrency", note, body, width, height)


def _picture(rows: int) -> int:
    return rows - 2 if rows >= _WORDS_FROM else rows - 1


class CurvePanel(Panel):
    """A panel whose figure is drawn by the plotting process, of which it wants one a second at most."""

    def __init__(
        self, plots: PlotProcess | None, *, id: str, now: Callable[[], float] = time.monotonic, **leading: Any
    ) -> None:
        super().__init__(self._drawing, id=id, **leading)
        self._plots = plots
        self._now = now
        self._submitted: sample.Job | None = None
        self._submitted_at = -_BETWEEN_S

    def _drawing(self, view: View, width: int, height: int, pen: Pen) -> list[Strip]:
        if self._plots is None:
            return render(view, width, height, pen)
        now = self._now()
        if now - self._submitted_at >= _BETWEEN_S:
            job = wanted(view, width, height, pen)
            if job is not None and job != self._submitted:
                self._submitted, self._submitted_at = job, now
                self._plots.on_figure = self._arrived
                self._plots.submit(job)
        return render(view, width, height, pen, self._plots.figure)

    def _arrived(self) -> None:
        if self.is_mounted:
            self.redraw()


def _gauges(state: LaneState, width: int) -> list[Span]:
    reach = (f", {whole(state.floor)} to {whole(state.ceiling)}", "dim")
    ttft = named("first token", short_duration(state.mean_ttft_s), "bad" if state.slow else "recover")
    target = named(", target", short_duration(state.latency_target_s), "wait")
    chunks: list[Chunk] = [
        (0, [*named("level", level(state.level), "ok"), reach]),
        (1, named("in flight", f"{state.active}", "info")),
        (2, [*ttft, *target]),
    ]
    return fitting(width, chunks)


def _changes(view: View, lane: LaneView, width: int, pen: Pen) -> list[Span]:
    last = _last_change(lane)
    described = None if last is None else sample.mark(lane.curve[last].mark)
    now, span_s = (lane.curve[-1].at, sample.span_of(lane.curve)) if lane.curve else (0.0, 0.0)
    signs = Counter(sample.mark(point.mark) for point in lane.curve if point.mark and now - point.at <= span_s)
    others = [sign for sign, _ in signs.most_common() if sign is not described]
    words = last_change(view, lane, pen)
    counted: list[Chunk] = [(0, words), *((1, _sign(sign, pen, signs[sign])) for sign in others)]
    if sum(cells_of(spans) for _, spans in counted) + 2 * len(others) <= width:
        return fitting(width, counted)
    return fitting(width, [(0, words), *((1 + rank, _sign(sign, pen)) for rank, sign in enumerate(others))])


def _sign(sign: sample.PlotMark, pen: Pen, times: int = 1) -> list[Span]:
    often = f" ×{times}" if times > 1 else ""
    return [(f"{sign.shown(pen.glyphs.braille)} ", sign.role), (sign.word + often, "dim")]


def last_change(view: View, lane: LaneView, pen: Pen) -> list[Span]:
    """Return the last change of the level: `×0.5 at 14:04:02: 429`, or what the operator set."""
    index = _last_change(lane)
    if index is None:
        return [("no cut in this span", "dim")]
    point = lane.curve[index]
    when = f" at {clock(view.snapshot.wall - (view.snapshot.at - point.at))}"
    sign = sample.mark(point.mark)
    shown = (f"{sign.shown(pen.glyphs.braille)} ", sign.role)
    if sample.turned(point.mark):
        said = clean(point.mark.removeprefix(sample.NOTED))
        return [
            shown,
            (said if len(said) <= _NOTE else f"{said[: _NOTE - 1]}{pen.glyphs.ellipsis}", sign.role),
            (when, "dim"),
        ]
    cut = "cut"
    if point.cut is not None and point.cut[0] > 0:
        cut = f"×{point.cut[1] / point.cut[0]:.2g}"
    return [shown, (cut, "strong"), (f"{when}: ", "dim"), (sign.word, sign.role)]


def _last_change(lane: LaneView) -> int | None:
    return next((index for index in range(len(lane.curve) - 1, 0, -1) if lane.curve[index].mark), None)


def trend(view: View, lane: LaneView, width: int, rows: int, pen: Pen) -> list[Strip]:
    """Return the level as a row of bars, and in a second row the signs of its causes; the last change in words stands
    where there is room."""
    state = lane.state
    label, words = f"level {level(state.level)}, at most {whole(state.ceiling)} ", last_change(view, lane, pen)
    if width <= len(label) or not lane.curve:
        return [pen.row(width, (label, "dim")), *[pen.row(width)] * (rows - 1)]
    span = f"{'last ' + short_duration(sample.span_of(lane.curve)):<{len(label)}.{len(label)}}"
    if rows > 1:
        bars, signs = _bars_and_signs(lane, width - len(label), pen)
        begin, free = _gap(signs)
        if cells_of(words) + 2 <= free:
            at = begin + free - 1 - cells_of(words)
            signs[at : at + cells_of(words)] = words
            return [pen.row(width, (label, "dim"), *bars), pen.row(width, (span, "dim"), *signs)]
    cells = width - len(label) - 2 - cells_of(words)
    if cells < _TREND:
        words, cells = [], width - len(label)
    bars, signs = _bars_and_signs(lane, cells, pen)
    first = pen.row(width, (label, "dim"), *bars, ("  ", "text"), *words)
    return [first, pen.row(width, (span, "dim"), *signs)][:rows]


def _bars_and_signs(lane: LaneView, cells: int, pen: Pen) -> tuple[list[Span], list[Span]]:
    """Return the level as bars, coloured where something bent it, and below them the signs of what did."""
    now, span_s = lane.curve[-1].at, sample.span_of(lane.curve)
    points = [(point.at - now, point.level) for point in lane.curve if not math.isinf(point.level)]
    top = max((y for _, y in points), default=1.0)
    drawn = steps(columns(points, span_s, cells), top, pen.glyphs.steps)
    bars: list[Span] = [(bar, "ok") for bar in drawn]
    signs: list[Span] = [(" ", "text")] * cells
    for point in lane.curve:
        if point.mark and now - point.at <= span_s:
            sign = sample.mark(point.mark)
            at = min(cells - 1, int((point.at - now + span_s) / span_s * cells))
            signs[at], bars[at] = (sign.shown(pen.glyphs.braille), sign.role), (drawn[at], sign.role)
    return bars, signs


def _gap(signs: list[Span]) -> tuple[int, int]:
    """Return where the longest run without signs begins, and its length."""
    longest, begin = (0, 0), 0
    for at, (text, _) in enumerate([*signs, ("end", "")]):
        if text != " ":
            longest, begin = max(longest, (at - begin, begin)), at + 1
    return longest[1], longest[0]


def _sketch(lane: LaneView, width: int, height: int, pen: Pen) -> list[Runs]:
    if height < 1:
        return []
    job = sample.job_for(lane, width, max(4, height), braille=pen.glyphs.braille)
    if job is None:
        note: Runs = [("gathering points…" if width >= 24 else "", "dim")]
        return [note, *([] for _ in range(height - 1))]
    under = max(4, min(sample.TTFT_ROWS_MOST, height * 2 // 5)) if height >= _SPLIT_FROM and job.ttft else 0
    rows = _levels(job, width - _SCALE, height - under, pen)
    return rows + _first_tokens(job, width - _SCALE, under - 1, pen) if under else rows


def _levels(job: sample.Job, width: int, height: int, pen: Pen) -> list[Runs]:
    canvas = Canvas(width, height, braille=pen.glyphs.braille)
    active = columns(job.active, job.span_s, canvas.columns)
    canvas.curve(active, job.top, "info", ".")
    canvas.curve(columns(job.level, job.span_s, canvas.columns), job.top, "ok", "*")
    if job.ceiling is not None:
        canvas.line(job.ceiling, job.top, pen.glyphs.frame[4], "rule")
    for x, y, sign, code in job.marks:
        canvas.put((x + job.span_s) / job.span_s, y, job.top, sign, sample.ROLE_CODES[code])
    canvas.area(active, job.top, sample.SHADE if pen.glyphs.braille else ":", "info")
    return _scaled(canvas.rows(), f"{math.ceil(job.top)}", pen)


def _first_tokens(job: sample.Job, width: int, height: int, pen: Pen) -> list[Runs]:
    top = max(job.target_s, *(y for _, y in job.ttft)) * 1.1
    canvas = Canvas(width, height, braille=pen.glyphs.braille)
    canvas.curve(columns(job.ttft, job.span_s, canvas.columns), top, "recover", "*")
    canvas.line(job.target_s, top, pen.glyphs.frame[4], "wait")
    begin = f"-{short_span(job.span_s)}"
    times = f"{' ' * _SCALE}{begin}{'now':>{max(0, width - len(begin))}}"
    return [*_scaled(canvas.rows(), f"{top:.1f} s", pen), [(times, "dim")]]


def _scaled(rows: list[Runs], top: str, pen: Pen) -> list[Runs]:
    labels = [top] + [""] * (len(rows) - 2) + ["0"] if len(rows) > 1 else [""]
    side = pen.glyphs.frame[5]
    return [[(f"{label:>{_SCALE - 1}}", "dim"), (side, "rule"), *row] for label, row in zip(labels, rows, strict=True)]
