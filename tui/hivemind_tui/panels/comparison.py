"""A what-if's answer: what was recorded, the same replayed, and the same with changed settings."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from textual.strip import Strip

from hivemind.journal.figures import Figures
from hivemind.lab import comparison
from hivemind.lab.comparison import TRUSTED, Measure, Verdict, extrapolation_notes
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration, short_plural
from hivemind_tui.panels.request_page import shortened
from hivemind_tui.plots.canvas import Canvas, Runs
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.format import clock as time_of_day
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting
from hivemind_tui.render.rows import hanging
from hivemind_tui.state.view import View
from hivemind_tui.whatif.protocol import RunSeries, WhatIfResult
from hivemind_tui.whatif.state import WhatIf

_LABEL = 17
_FIGURE = (9, 13)
"""Narrowest and widest column of figures."""
_DIFFERENCE = 10
_SIGNS: Mapping[Verdict, tuple[str, str]] = {
    "better": ("good", "ok"),
    "worse": ("cross", "bad"),
    "unclear": ("about", "dim"),
    "other work": ("idle", "dim"),
    "same": ("idle", "dim"),
}
"""Glyph and colour role by verdict."""
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
WITH_HIVEMIND = "with HiveMind"
"""What `replayed` is of a recording that HiveMind had no part in."""
DOUBTED = 0.15
"""A model that is further off than this share is shown as bad."""
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
    """Return the panel's rows: the figures side by side, and below them the error of the model."""
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
        alone = "As recorded, with HiveMind" if outcome.foreign else "As recorded, replayed"
        title = f"As recorded against {', '.join(map(str, outcome.changes))}" if outcome.changes else alone
        body += _table(outcome, cells, rows - len(body), pen)
        if len(body) + 2 <= rows:
            body += [[], *_doubts(what_if, cells, pen)]
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
            *_doubts(what_if, cells, pen),
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


def _doubts(what_if: WhatIf, cells: int, pen: Pen) -> list[Row]:
    outcome = what_if.outcome
    notes = [] if outcome is None else extrapolation_notes(outcome.recorded.figures, [outcome.tried.figures])
    notes += what_if.summary.defects if what_if.summary is not None else ()
    return [row for note in notes for row in hanging(note, "dim", cells, (pen.glyphs.warn, "wait"))]


def _table(outcome: WhatIfResult, cells: int, room: int, pen: Pen) -> list[Row]:
    error = _foreign(outcome, cells, pen) if outcome.foreign else _model_error(outcome, cells, pen)
    columns = 3 if outcome.changes else 2
    figure = min(_FIGURE[1] + outcome.foreign, max(_FIGURE[0], (cells - _LABEL - _DIFFERENCE - 2) // columns))
    roles = ("info", "dim", "accent") if outcome.changes else ("info", "accent")
    replayed = "replayed"
    if outcome.foreign:
        replayed = WITH_HIVEMIND if figure > len(WITH_HIVEMIND) else "HiveMind"
    names = zip(("recorded", replayed, "changed"), roles, strict=False)
    heads = [(fit(name, figure, ">"), role) for name, role in names]
    body: list[Row] = [[(" " * _LABEL, "dim"), *heads, (fit("difference", _DIFFERENCE + 2, ">"), "dim")]]
    roles = ("info", "dim", "strong") if outcome.changes else ("info", "strong")
    for row in fitting_rows(figure_rows(outcome), room - 1 - len(error)):
        glyph, role = _SIGNS[row.verdict]
        values = zip((row.recorded, row.replayed, row.tried), roles, strict=False)
        figures = [(fit(value, figure, ">"), colour) for value, colour in values]
        sign = (f" {getattr(pen.glyphs, glyph)}", role)
        body.append([(fit(row.label, _LABEL), "text"), *figures, (fit(row.difference, _DIFFERENCE, ">"), role), sign])
    return [*body, *error]


def _model_error(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    wall, waits = model_error(outcome)
    errors: list[Span] = [
        ("wall time ", "dim"),
        (signed(wall), _trusted(wall)),
        (", waits ", "dim"),
        (signed(waits), _trusted(waits)),
    ]
    head = "replayed with the recorded settings: "
    row: Row = [(head if len(head) + cells_of(errors) <= cells else "replayed: ", "dim"), *errors]
    return [row, *_meanings(outcome, cells, pen)] if outcome.changes else [row]


def _foreign(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    text = "recorded without HiveMind, simulated with its default settings: the model's error is unknown"
    if cells < len(text):
        text = "recorded without HiveMind: the model's error is unknown"
    return [[(fit(text, cells), "dim")], *_meanings(outcome, cells, pen)]


def _meanings(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    if other := _other_work(outcome):
        return [[(f"{pen.glyphs.warn} ", "wait"), (other, "text")]]
    meanings: tuple[tuple[Verdict, str], ...] = (("better", "better"), ("worse", "worse"), ("unclear", "within noise"))
    chunks: list[Chunk] = []
    for rank, (each, meaning) in enumerate(meanings):
        glyph, role = _SIGNS[each]
        chunks.append((rank, [(f"{getattr(pen.glyphs, glyph)} ", role), (meaning, "dim")]))
    before = WITH_HIVEMIND if outcome.foreign else "replayed"
    chunks += [(3, [(f"difference: changed from {before}", "dim")])] if outcome.changes else []
    return [fitting(cells, chunks)]


def _other_work(outcome: WhatIfResult) -> str:
    more = more_was_done(outcome)
    if not more:
        return ""
    if outcome.tried.figures.answered == baseline(outcome).answered:
        return "other agents finish, so time and cost aren't compared"
    which = f"{'more' if more > 0 else 'fewer'} request"
    requests = short_plural(round(abs(more)), which)
    return f"{requests} answered, so time and cost aren't compared"


def _trusted(share: float | None) -> str:
    if share is None:
        return "text"
    return "ok" if abs(share) <= TRUSTED else "wait" if abs(share) <= DOUBTED else "bad"


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
    end = short_duration(span_s)
    text = f"0{end:>{width - 1}}"
    if marked_s is None:
        return [(" " * _SCALE, "dim"), (text, "dim")]
    label = f"+{short_duration(marked_s)}"
    at = max(2, min(width - len(end) - len(label) - 2, int(marked_s / span_s * width)))
    return [(" " * _SCALE + text[:at], "dim"), (label, "wait"), (text[at + len(label) :], "dim")]


# --- Figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One figure of the three runs."""

    label: str
    recorded: str
    replayed: str
    tried: str
    difference: str
    """Between the two simulated runs; empty if it is too small to be seen."""
    verdict: Verdict
    rank: int


def figure_rows(outcome: WhatIfResult) -> list[FigureRow]:
    """Return every figure, in the order in which they are shown."""
    recorded, replayed, tried = (run.figures for run in (outcome.recorded, outcome.replayed, outcome.tried))
    if outcome.changes:
        reference = None if outcome.foreign else recorded
        found = comparison.compare_runs([replayed], [tried], recorded=reference, also=[recorded])
    else:
        found = comparison.compare_runs([recorded], [replayed], also=[tried])
    return [
        _figure_row(row, outcome) for row in found if row.measure.name in _RANKS or row.measure.name.startswith(" ")
    ]


def _figure_row(row: comparison.Row[Figures], outcome: WhatIfResult) -> FigureRow:
    measure, verdict, difference = row.measure, row.verdict, ""
    if row.difference is not None and verdict != "same":
        difference = _difference(measure, row.base, row.difference.mean)
    if not difference:
        verdict = "same"
    elif not (outcome.changes or outcome.foreign):
        verdict = "unclear"  # a simulation with the recorded settings is neither better nor worse
    runs = (outcome.recorded, outcome.replayed, outcome.tried)
    first, second, third = (_figure(measure, run.figures) for run in runs)
    rank = _RANKS.get(measure.name, 2 if measure.name.endswith("p95") else 6)
    return FigureRow(measure.name, first, second, third, difference, verdict, rank)


def more_was_done(outcome: WhatIfResult) -> float:
    """Return how many more requests are answered, or if equal, how many more agents finish; negative for fewer."""
    return comparison.more_work([baseline(outcome)], [outcome.tried.figures])


def baseline(outcome: WhatIfResult) -> Figures:
    """Return the figures that the last run is compared with."""
    return (outcome.recorded if outcome.foreign and not outcome.changes else outcome.replayed).figures


def fitting_rows(found: Sequence[FigureRow], room: int) -> list[FigureRow]:
    """Return the rows that fit, in their order."""
    kept = list(found)
    while len(kept) > max(0, room):
        kept.remove(max(reversed(kept), key=lambda row: row.rank))
    return kept


def model_error(outcome: WhatIfResult) -> tuple[float | None, float | None]:
    """Return by what share the model is off, in wall time and in total wait; None: nothing to compare."""
    return comparison.model_error(outcome.recorded.figures, [outcome.replayed.figures])


def signed(share: float | None) -> str:
    """Return `+0.8%`, `-12%`."""
    if share is None:
        return NOTHING
    if abs(share) < 0.0005:
        return "0.0%"
    return f"{share:+.1%}" if abs(share) < 0.0995 else f"{share:+.0%}"


def _figure(measure: Measure[Figures], run: Figures) -> str:
    shown = _text(measure, measure.of(run))
    return f"{shown} of {run.agents:,}" if measure.name == "agents finished" else shown


def _text(measure: Measure[Figures], value: float | None) -> str:
    if value is None:
        return NOTHING
    return _UNITS.get(measure.unit, "{:,.0f}".format)(value)


def _difference(measure: Measure[Figures], before: float, more: float) -> str:
    """Return the difference in percent, of counts and shares in their own unit; empty if it can't be seen."""
    if before and measure.unit not in ("count", "share"):
        return signed(more / before)
    size = _text(measure, abs(more))
    return "" if size == _text(measure, 0.0) else f"{'+' if more > 0 else '-'}{size}"
