"""A what-if's answer: what was recorded, the same replayed, and the same with changed settings."""

from __future__ import annotations

from collections.abc import Mapping

from textual.strip import Strip

from hivemind.lab.comparison import TRUSTED, Verdict, extrapolation_notes
from hivemind.text.humanise import short_count, short_duration, short_plural
from hivemind_tui.panels.request_card import shortened
from hivemind_tui.render.format import clean, fit
from hivemind_tui.render.format import clock as time_of_day
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, cells_of, fitting
from hivemind_tui.render.rows import hanging
from hivemind_tui.state.view import View
from hivemind_tui.whatif import verdict
from hivemind_tui.whatif.protocol import WhatIfResult
from hivemind_tui.whatif.state import WhatIf, words

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
        title = f"As recorded against {words(outcome.changes)}" if outcome.changes else alone
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
    """Return a description of the recording, before anything is simulated."""
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
    """Return the defects of the recording, and what can't be concluded from it."""
    outcome = what_if.outcome
    notes = [] if outcome is None else extrapolation_notes(outcome.recorded.figures, [outcome.tried.figures])
    notes += what_if.summary.told if what_if.summary is not None else ()
    return [row for note in notes for row in hanging(note, "dim", cells, (pen.glyphs.warn, "wait"))]


def _table(outcome: WhatIfResult, cells: int, room: int, pen: Pen) -> list[Row]:
    error = _foreign(outcome, cells, pen) if outcome.foreign else _model_error(outcome, cells, pen)
    columns = 3 if outcome.changes else 2
    figure = min(_FIGURE[1] + outcome.foreign, max(_FIGURE[0], (cells - _LABEL - _DIFFERENCE - 2) // columns))
    roles = ("info", "dim", "accent") if outcome.changes else ("info", "accent")
    replayed = "replayed"
    if outcome.foreign:
        replayed = verdict.WITH_HIVEMIND if figure > len(verdict.WITH_HIVEMIND) else "HiveMind"
    names = zip(("recorded", replayed, "changed"), roles, strict=False)
    heads = [(fit(name, figure, ">"), role) for name, role in names]
    body: list[Row] = [[(" " * _LABEL, "dim"), *heads, (fit("difference", _DIFFERENCE + 2, ">"), "dim")]]
    roles = ("info", "dim", "strong") if outcome.changes else ("info", "strong")
    for row in verdict.fitting(verdict.rows(outcome), room - 1 - len(error)):
        glyph, role = _SIGNS[row.verdict]
        values = zip((row.recorded, row.replayed, row.tried), roles, strict=False)
        figures = [(fit(value, figure, ">"), colour) for value, colour in values]
        sign = (f" {getattr(pen.glyphs, glyph)}", role)
        body.append([(fit(row.label, _LABEL), "text"), *figures, (fit(row.difference, _DIFFERENCE, ">"), role), sign])
    return [*body, *error]


def _model_error(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    """Return the error of the model, and the meaning of the signs."""
    wall, waits = verdict.model_error(outcome)
    errors: list[Span] = [
        ("wall time ", "dim"),
        (verdict.signed(wall), _trusted(wall)),
        (", waits ", "dim"),
        (verdict.signed(waits), _trusted(waits)),
    ]
    head = "replayed with the recorded settings: "
    row: Row = [(head if len(head) + cells_of(errors) <= cells else "replayed: ", "dim"), *errors]
    return [row, *_meanings(outcome, cells, pen)] if outcome.changes else [row]


def _foreign(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    """Return that the model's error is unknown."""
    text = "recorded without HiveMind, simulated with its default settings: the model's error is unknown"
    if cells < len(text):
        text = "recorded without HiveMind: the model's error is unknown"
    return [[(fit(text, cells), "dim")], *_meanings(outcome, cells, pen)]


def _meanings(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Row]:
    if other := _other_work(outcome):
        return [[(f"{pen.glyphs.warn} ", "wait"), (other, "text")]]
    meanings: tuple[tuple[Verdict, str], ...] = (
        ("better", "better"),
        ("worse", "worse"),
        ("unclear", "within noise"),
    )
    chunks: list[Chunk] = []
    for rank, (each, meaning) in enumerate(meanings):
        glyph, role = _SIGNS[each]
        chunks.append((rank, [(f"{getattr(pen.glyphs, glyph)} ", role), (meaning, "dim")]))
    before = verdict.WITH_HIVEMIND if outcome.foreign else "replayed"
    chunks += [(3, [(f"difference: changed from {before}", "dim")])] if outcome.changes else []
    return [fitting(cells, chunks)]


def _other_work(outcome: WhatIfResult) -> str:
    """Return that the runs differ in what was done; empty where they don't."""
    more = verdict.more_was_done(outcome)
    if not more:
        return ""
    if outcome.tried.figures.answered == verdict.baseline(outcome).answered:
        return "other agents finish, so time and cost aren't compared"
    requests = f"{short_count(abs(more))} {'more' if more > 0 else 'fewer'} requests"
    return f"{requests} answered, so time and cost aren't compared"


def _trusted(share: float | None) -> str:
    if share is None:
        return "text"
    return "ok" if abs(share) <= TRUSTED else "wait" if abs(share) <= verdict.DOUBTED else "bad"
