"""A what-if's answer: what was recorded, the same replayed, and what the changed settings would have come to."""

from __future__ import annotations

from collections.abc import Mapping

from textual.strip import Strip

from hivemind.lab.comparison import TRUSTED, Verdict, extrapolation_notes
from hivemind.text.humanise import short_count, short_duration, short_plural
from hivemind_tui.render.format import clean, fit, wrapped
from hivemind_tui.render.format import clock as time_of_day
from hivemind_tui.render.pen import Pen, Span, fitting
from hivemind_tui.state.view import View
from hivemind_tui.whatif import verdict
from hivemind_tui.whatif.protocol import WhatIfResult
from hivemind_tui.whatif.state import WhatIf, words
from hivemind_tui.whatif.verdict import Row

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
"""Of each verdict the glyph and the colour role."""
_GAUGE = 30


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the figures side by side, and below them the error of the model."""
    cells, rows = pen.body_size(width, height)
    what_if = view.what_if
    outcome = what_if.outcome
    title = "Recorded traffic, other settings"
    if outcome is not None:
        alone = "As recorded, with HiveMind" if outcome.foreign else "As recorded, replayed"
        title = f"As recorded against {words(outcome.changes)}" if outcome.changes else alone
    head = _progress(what_if, cells, pen) or _trouble(what_if, cells, pen)
    if outcome is None:
        body = [*head, *_facts(what_if, cells, pen)]
    else:
        body = [*head, *_table(outcome, cells, rows - len(head), pen)]
        if len(body) + 2 <= rows:
            body += [pen.row(cells), *_doubts(what_if, cells, pen)]
    note = "of other settings than those chosen now" if what_if.stale and what_if.stage is None else ""
    return pen.frame(title, note, body, width, height)


def _progress(what_if: WhatIf, cells: int, pen: Pen) -> list[Strip]:
    stage = what_if.stage
    if stage is None:
        return []
    spans: list[Span] = [(pen.glyphs.clock + " ", "wait")]
    gauge = pen.gauge(min(_GAUGE, cells // 4), stage.share, role="info") if stage.share is not None else []
    tail: list[Span] = [("  ", "text"), *gauge, (f" {stage.share:.0%}", "text")] if stage.share is not None else []
    tail.append(("  esc cancels", "dim"))
    room = cells - 2 - sum(len(text) for text, _ in tail)
    said = clean(stage.words)
    return [pen.row(cells, *spans, (fit(said, room).rstrip() if len(said) > room else said, "strong"), *tail)]


def _trouble(what_if: WhatIf, cells: int, pen: Pen) -> list[Strip]:
    if not what_if.trouble:
        return []
    first, *more = wrapped(what_if.trouble, max(1, cells - 2)) or [""]
    return [
        pen.row(cells, (f"{pen.glyphs.warn} ", "bad"), (first, "text")),
        *(pen.row(cells, ("  ", "text"), (line, "text")) for line in more),
    ]


def _facts(what_if: WhatIf, cells: int, pen: Pen) -> list[Strip]:
    """Return a description of the recording, before anything is simulated."""
    rows: list[Strip] = []
    summary = what_if.summary
    if summary is not None:
        rows = [
            pen.row(cells, (clean(summary.name), "strong"), (f"  from {time_of_day(summary.began_wall)}", "dim")),
            pen.row(
                cells,
                (short_plural(summary.requests, "request"), "text"),
                (" of ", "dim"),
                (short_plural(summary.agents, "agent"), "text"),
                (" in ", "dim"),
                (short_duration(summary.lasts_s), "text"),
            ),
        ]
        rows += [*_doubts(what_if, cells, pen), pen.row(cells)]
    if summary is not None and summary.foreign:
        without = "It was recorded without HiveMind; enter simulates it with HiveMind's default settings."
        rows += [*(pen.row(cells, (line, "text")) for line in wrapped(without, max(1, cells))), pen.row(cells)]
    told = (
        "Choose settings at the left, then press enter: the recorded traffic is simulated with the real scheduler and a"
        " model of the provider fitted to the recording. No proxy changes until A applies the settings."
    )
    return [*rows, *(pen.row(cells, (line, "dim")) for line in wrapped(told, max(1, cells)))]


def _doubts(what_if: WhatIf, cells: int, pen: Pen) -> list[Strip]:
    """Return the defects of the recording, and what can't be concluded from it."""
    rows: list[Strip] = []
    outcome = what_if.outcome
    told = [] if outcome is None else extrapolation_notes(outcome.recorded.figures, [outcome.tried.figures])
    told += what_if.summary.told if what_if.summary is not None else ()
    for line in told:
        first, *more = wrapped(line, max(1, cells - 2)) or [""]
        rows.append(pen.row(cells, (f"{pen.glyphs.warn} ", "wait"), (first, "dim")))
        rows += [pen.row(cells, ("  ", "text"), (part, "dim")) for part in more]
    return rows


def _table(outcome: WhatIfResult, cells: int, room: int, pen: Pen) -> list[Strip]:
    error = _model_error(outcome, cells, pen)
    rows = verdict.fitting(verdict.rows(outcome), room - 1 - len(error))
    columns = 3 if outcome.changes else 2
    figure = min(_FIGURE[1] + outcome.foreign, max(_FIGURE[0], (cells - _LABEL - _DIFFERENCE - 2) // columns))
    second = "dim" if outcome.changes else "accent"
    replayed = "replayed"
    if outcome.foreign:
        replayed = verdict.WITH_HIVEMIND if figure > len(verdict.WITH_HIVEMIND) else "HiveMind"
    heads = (("recorded", "info"), (replayed, second), ("changed", "accent"))[:columns]
    body = [
        pen.row(
            cells,
            (" " * _LABEL, "dim"),
            *((fit(head, figure, ">"), role) for head, role in heads),
            (fit("difference", _DIFFERENCE + 2, ">"), "dim"),
        )
    ]
    body += [_row(row, figure, bool(outcome.changes), cells, pen) for row in rows]
    return [*body, *error]


def _row(row: Row, figure: int, changed: bool, cells: int, pen: Pen) -> Strip:
    glyph, role = _SIGNS[row.verdict]
    last = [(fit(row.tried, figure, ">"), "strong")] if changed else []
    return pen.row(
        cells,
        (fit(row.label, _LABEL), "text"),
        (fit(row.recorded, figure, ">"), "info"),
        (fit(row.replayed, figure, ">"), "dim" if changed else "strong"),
        *last,
        (fit(row.difference, _DIFFERENCE, ">"), role),
        (f" {getattr(pen.glyphs, glyph)}", role),
    )


def _model_error(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Strip]:
    """Return the error of the model, and the meaning of the signs."""
    if outcome.foreign:
        return _foreign(outcome, cells, pen)
    wall, waits = verdict.model_error(outcome)
    trust: list[Span] = [
        ("replayed with the recorded settings: ", "dim"),
        ("wall time ", "dim"),
        (verdict.signed(wall), _trusted(wall)),
        (", waits ", "dim"),
        (verdict.signed(waits), _trusted(waits)),
    ]
    if cells < sum(len(text) for text, _ in trust):
        trust[0] = ("replayed: ", "dim")
    return [pen.row(cells, *trust), *_meanings(outcome, cells, pen)] if outcome.changes else [pen.row(cells, *trust)]


def _foreign(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Strip]:
    """Return that the model's error is unknown."""
    said = "recorded without HiveMind, simulated with its default settings: the model's error is unknown"
    if cells < len(said):
        said = "recorded without HiveMind: the model's error is unknown"
    return [pen.row(cells, (fit(said, cells), "dim")), *_meanings(outcome, cells, pen)]


def _meanings(outcome: WhatIfResult, cells: int, pen: Pen) -> list[Strip]:
    meanings: tuple[tuple[Verdict, str], ...] = (
        ("better", "better"),
        ("worse", "worse"),
        ("unclear", "within noise"),
    )
    if other := _other_work(outcome):
        return [pen.row(cells, (f"{pen.glyphs.warn} ", "wait"), (other, "text"))]
    signs = [
        (rank, [(f"{getattr(pen.glyphs, _SIGNS[each][0])} ", _SIGNS[each][1]), (meaning, "dim")])
        for rank, (each, meaning) in enumerate(meanings)
    ]
    before = verdict.WITH_HIVEMIND if outcome.foreign else "replayed"
    note: list[tuple[int, list[Span]]] = [(3, [(f"difference: changed from {before}", "dim")])]
    return [pen.row(cells, *fitting(cells, [*signs, *(note if outcome.changes else ())]))]


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
