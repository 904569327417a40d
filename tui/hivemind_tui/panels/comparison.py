"""A what-if's answer: a sentence, what was recorded beside what the changes would have done, and both over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from textual.strip import Strip

from hivemind.lab.comparison import Verdict
from hivemind.lab.foresight.told import Answer, Foretold
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind_tui.panels.request_page import shortened
from hivemind_tui.plots.canvas import Canvas, Runs
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.format import clock as time_of_day
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting
from hivemind_tui.render.rows import hanging
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import RunSeries
from hivemind_tui.whatif.state import WhatIf

_LABEL = 17
_FIGURE = (9, 14)
"""Narrowest and widest column of figures."""
_DIFFERENCE = 9
_INTERVAL = 19
"""A blank, and `$0.0161 to $0.0174`."""
_SIGNS: Mapping[Verdict, tuple[str, str]] = {
    "better": ("good", "ok"),
    "worse": ("cross", "bad"),
    "unclear": ("about", "dim"),
    "other work": ("idle", "dim"),
    "same": ("idle", "dim"),
    "": ("idle", "dim"),
}
"""Glyph and colour role by verdict."""
_LEAST_FIGURES = 7
"""Figures that notes leave room for."""
_GAUGE = 30
_SCALE = 14
"""Cells at the left for labels and scales."""
_NARROWEST = 20
_RECORDED, _CHANGED = "info", "accent"
_APART_FROM = 5
"""Rows of a strip from which strips are separated by an empty row."""
_AT_ONCE_S = 0.05
_LEAST = 2
"""Fewest rows of a strip."""
_RANKS: Mapping[str, int] = {
    "agents finished": 0,
    "wall time": 0,
    "wait, p50": 5,
    "wait, p95": 1,
    "wait, total": 3,
    "retries": 1,
    "tokens wasted": 1,
    "dollars": 0,
    "fairness": 1,
    "failed": 2,
    "refused": 4,
}
"""The measures shown; where there is little room, those of the highest rank go first."""
_UNITS: Mapping[str, Callable[[float], str]] = {
    "seconds": short_duration,
    "tokens": short_count,
    "dollars": short_dollars,
    "share": "{:.3f}".format,
}


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the answer in a sentence, the figures side by side, and what they rest on."""
    cells, rows = pen.body_size(width, height)
    what_if = view.what_if
    outcome = what_if.outcome
    title = "Recorded traffic, other settings"
    body: list[Row] = [*_progress(what_if, cells, pen)]
    if not body and what_if.trouble:
        body += hanging(what_if.trouble, "text", cells, (pen.glyphs.warn, "bad"))
    if outcome is None:
        body += _facts(what_if, cells, pen)
    else:
        first, second = outcome.answer.titles
        what = f"against {', '.join(map(str, outcome.answer.changes))}" if outcome.answer.changes else f"and {second}"
        title = f"{first[0].upper()}{first[1:]} {what}"
        body += _answer(outcome.answer, cells, rows - len(body), pen)
    note = "of other settings than those chosen now" if what_if.stale and what_if.stage is None else ""
    return pen.frame(title, note, body, width, height)


def _progress(what_if: WhatIf, cells: int, pen: Pen) -> list[Row]:
    stage = what_if.stage
    if stage is None:
        return []
    tail: list[Span] = [("  esc cancels", "dim")]
    if stage.share is not None:
        gauge = pen.gauge(min(_GAUGE, cells // 4), stage.share, role="info")
        tail = [("  ", "text"), *gauge, (f" {stage.share:.0%}", "text"), *tail]
    text = shortened(clean(stage.words), cells - 2 - cells_of(tail), pen)
    return [[(pen.glyphs.clock + " ", "wait"), (text, "strong"), *tail]]


def _facts(what_if: WhatIf, cells: int, pen: Pen) -> list[Row]:
    rows: list[Row] = []
    summary = what_if.summary
    if summary is not None:
        requests, agents = short_plural(summary.requests, "request"), short_plural(summary.agents, "agent")
        lasts = short_duration(summary.lasts_s)
        rows += [
            [(clean(summary.name), "strong"), (f"  from {time_of_day(summary.began_wall)}", "dim")],
            [(requests, "text"), (" of ", "dim"), (agents, "text"), (" in ", "dim"), (lasts, "text")],
            *_doubts(summary.defects, cells, pen),
            [],
        ]
    if summary is not None and summary.foreign:
        without = "It was recorded without HiveMind; enter simulates it with HiveMind's default settings."
        rows += [*hanging(without, "text", cells), []]
    how = (
        "Choose settings at the left, then press enter: the recorded traffic is simulated with the real scheduler and a"
        " model of the provider fitted to the recording. No proxy changes until A applies the settings."
    )
    return [*rows, *hanging(how, "dim", cells)]


def _doubts(notes: Sequence[str], cells: int, pen: Pen) -> list[Row]:
    return [row for note in notes for row in hanging(note, "dim", cells, (pen.glyphs.warn, "wait"))]


def _answer(answer: Answer, cells: int, room: int, pen: Pen) -> list[Row]:
    """Return as much of the answer as there is room for: what speaks against it before it, notes before the lesser
    figures, the fit at the end."""
    head = _doubts([answer.checked, *answer.doubts] if answer.far_off else answer.doubts, cells, pen)
    head += [*hanging(answer.sentence, "bad" if answer.finishes_less else "strong", cells), []]
    checked = [] if answer.far_off else hanging(answer.checked, "dim", cells)
    notes = _doubts(answer.notes, cells, pen)
    figures = figure_rows(answer)
    room -= len(head) + len(checked) + 2  # the titles and the meanings of signs
    kept = fitting_rows(figures, max(min(room, _LEAST_FIGURES), room - len(notes)))
    body = [*head, *_table(answer, kept, cells, pen), *checked, *notes]
    left = room - len(kept) - len(notes)
    shows = [row for text in answer.shows for row in hanging(text, "text", cells, ("-", "dim"))]
    if shows and left >= len(shows) + 2:
        body += [[], [("What the recording shows", "title")], *shows]
    return body


def _table(answer: Answer, figures: Sequence[FigureRow], cells: int, pen: Pen) -> list[Row]:
    compared = any(row.difference for row in figures) or bool(answer.changes)
    intervals = min(2, max(0, cells - _LABEL - 2 * _FIGURE[0] - _DIFFERENCE - 2) // _INTERVAL)
    rest = cells - _LABEL - _INTERVAL * intervals - _DIFFERENCE - 2
    figure = min(_FIGURE[1], max(_FIGURE[0], rest // 2))
    first, second = answer.titles
    heads: list[Span] = [
        (" " * _LABEL, "dim"),
        (fit(first, figure, ">"), "info"),
        (fit(second, figure, ">"), "accent"),
    ]
    interval: Span = (fit("90 % interval", _INTERVAL, ">"), "dim")
    heads += [interval] if intervals else []
    if compared:
        heads += [(fit("difference", _DIFFERENCE + 2, ">"), "dim")]
        heads += [interval] if intervals > 1 else []
    body: list[Row] = [heads]
    for row in figures:
        glyph, role = _SIGNS[row.verdict]
        spans: list[Span] = [
            (fit(row.label, _LABEL), "text"),
            (fit(row.recorded, figure, ">"), "info"),
            (fit(row.changed, figure, ">"), "strong"),
        ]
        spans += [(fit(row.interval, _INTERVAL, ">"), "dim")] if intervals else []
        if compared:
            spans += [(fit(row.difference, _DIFFERENCE, ">"), role), (f" {getattr(pen.glyphs, glyph)}", role)]
            spans += [(fit(row.difference_interval, _INTERVAL, ">"), "dim")] if intervals > 1 else []
        body.append(spans)
    return [*body, _meanings(cells, pen) if compared else []]


def _meanings(cells: int, pen: Pen) -> Row:
    meanings: tuple[tuple[Verdict, str], ...] = (("better", "better"), ("worse", "worse"), ("unclear", "may be chance"))
    chunks: list[Chunk] = []
    for rank, (each, meaning) in enumerate(meanings):
        glyph, role = _SIGNS[each]
        chunks.append((rank, [(f"{getattr(pen.glyphs, glyph)} ", role), (meaning, "dim")]))
    return fitting(cells, chunks)


_STRIPS: tuple[tuple[str, Callable[[RunSeries], Sequence[float | None]]], ...] = (
    ("in flight", lambda series: series.in_flight),
    ("waiting", lambda series: series.waiting),
    ("level", lambda series: series.level),
)


def render_chart(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a strip for each quantity, as many as fit, over one time axis."""
    cells, rows = pen.body_size(width, height)
    outcome = view.what_if.outcome
    if outcome is None:
        return pen.message("Over time", "Both runs are drawn here on one axis once they are simulated.", width, height)
    _, second = outcome.answer.titles
    after_s, note = outcome.diverged_after_s, ""
    if after_s is None:
        note = "the changes make no difference" if outcome.answer.changes else ""
    elif outcome.answer.changes:
        note = f"they diverge {'at once' if after_s < _AT_ONCE_S else f'after {short_duration(after_s)}'}"
    # Only where there is something to see of both runs before they diverge.
    marked_s = after_s if after_s is not None and after_s >= _AT_ONCE_S else None
    room, runs = cells - _SCALE, (outcome.recorded, outcome.tried)
    body: list[Runs] = []
    if room >= _NARROWEST and rows >= _LEAST + 2:
        span_s = max(run.lasts_s for run in runs) or 1.0
        axis = _axis(span_s, marked_s, room)
        body = [_legend(second, marked_s, pen), *_strips(runs, span_s, marked_s, room, rows - 2, pen), axis]
    return pen.frame(f"Over time: recorded and {second}", note, body, width, height)


def _strips(
    runs: tuple[RunSeries, RunSeries], span_s: float, marked_s: float | None, width: int, rows: int, pen: Pen
) -> list[Runs]:
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
    """Return the highest value in each column of the span; None where the run is over."""
    peaks: list[float | None] = []
    for column in range(columns):
        begin, end = int(column * span_s / columns / width_s), int((column + 1) * span_s / columns / width_s)
        values_in_column = [value for value in values[begin : max(begin + 1, end)] if value is not None]
        peaks.append(max(values_in_column, default=None))
    return peaks


def _legend(second: str, marked_s: float | None, pen: Pen) -> Runs:
    first_sign, second_sign = ("━", "━") if pen.glyphs.braille else (".", "*")
    runs: Runs = [(" " * _SCALE, "dim"), (f"{first_sign} ", _RECORDED), ("recorded", "dim")]
    runs += [(f"   {second_sign} ", _CHANGED), (second, "dim")]
    return runs if marked_s is None else [*runs, (f"   {pen.glyphs.track} ", "wait"), ("they diverge", "dim")]


def _axis(span_s: float, marked_s: float | None, width: int) -> Runs:
    end = short_duration(span_s)
    text = f"0{end:>{width - 1}}"
    if marked_s is None:
        return [(" " * _SCALE, "dim"), (text, "dim")]
    label = f"+{short_duration(marked_s)}"
    at = max(2, min(width - len(end) - len(label) - 2, int(marked_s / span_s * width)))
    return [(" " * _SCALE + text[:at], "dim"), (label, "wait"), (text[at + len(label) :], "dim")]


# --- Figures ----------------------------------------------------------------------------------------------------------


class FigureRow(Struct, frozen=True):
    """One figure of both runs."""

    label: str
    recorded: str
    changed: str
    interval: str
    difference: str
    """Empty if it is too small to be seen."""
    difference_interval: str
    verdict: Verdict
    rank: int


def figure_rows(answer: Answer) -> list[FigureRow]:
    """Return every figure, in the order in which they are shown."""
    shown = (each for each in answer.figures if each.name in _RANKS or each.name.startswith(" "))
    return [_figure_row(each) for each in shown if each.is_told]


def _figure_row(each: Foretold) -> FigureRow:
    changed, moved = each.changed, each.difference
    rank = _RANKS.get(each.name, 2 if each.name.endswith("p95") else 6)
    difference, between, verdict = "", "", each.verdict
    if moved is not None and each.verdict != "same":
        texts = [_difference(each, share) for share in (moved.value, moved.low, moved.high)]
        difference = texts[0] if any(texts) else ""
        between = _between(texts[1] or "0", texts[2] or "0") if any(texts) else ""
    if not difference and verdict:
        verdict = "same"
    return FigureRow(
        each.name,
        _text(each, each.recorded),
        NOTHING if changed is None else _text(each, changed.value),
        "" if changed is None else _between(_text(each, changed.low), _text(each, changed.high)),
        difference,
        between,
        verdict,
        rank,
    )


def _between(low: str, high: str) -> str:
    return "" if low == high else f"{low} to {high}"


def fitting_rows(rows: Sequence[FigureRow], room: int) -> list[FigureRow]:
    """Return the rows that fit, in their order."""
    kept = list(rows)
    while len(kept) > max(0, room):
        kept.remove(max(reversed(kept), key=lambda row: row.rank))
    return kept


def signed(share: float | None) -> str:
    """Return `+0.8%`, `-12%`."""
    if share is None:
        return NOTHING
    if abs(share) < 0.0005:
        return "0.0%"
    return f"{share:+.1%}" if abs(share) < 0.0995 else f"{share:+.0%}"


def _text(each: Foretold, value: float | None) -> str:
    if value is None:
        return NOTHING
    return _UNITS.get(each.unit, "{:,.0f}".format)(value)


def _difference(each: Foretold, value: float) -> str:
    """Return a difference in percent where it is a share, otherwise in the figure's unit; empty if it can't be seen."""
    if each.by_share:
        return signed(value)
    size = _text(each, abs(value))
    return "" if size == _text(each, 0.0) else f"{'+' if value > 0 else '-'}{size}"
