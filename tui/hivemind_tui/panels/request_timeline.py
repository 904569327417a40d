"""One request's timeline: facts, and its attempts as bars on one time axis, with the length of each phase."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars
from hivemind.world.request_view import AttemptView, RequestDetail, RequestView
from hivemind_tui.panels.request_card import reason, shortened
from hivemind_tui.render.bars import Axis, bar, beginning, times_since
from hivemind_tui.render.facts import Chunk, Fact, fact_rows, named
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import PRIORITIES, sign
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.render.phases import FINE, Phase, failure, fine, phases_of
from hivemind_tui.render.table import GAP
from hivemind_tui.state.view import View

_LENGTHS = (("QUEUE", "queue"), ("SENT", "first"), ("STREAM", "stream"), ("PAUSE", "pause"))
"""Columns of durations, and the phases that they show."""
_NUMBER = 6
_BAR = 12
"""Cells of the narrowest bar."""
_MESSAGE = 20
"""Cells for an attempt's outcome, before the bar gets more than its least width."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: facts, as many as fit, then a row for each attempt."""
    cells, rows = pen.body_size(width, height)
    request = subject(view)
    if request is None:
        title = f"Request #{view.ticket}"
        return pen.message(title, f"{title} is forgotten: only the newest are remembered.", width, height)
    at = view.snapshot.at
    attempts = _rows(request, phases_of(request, at))
    room = min(len(attempts), max(3, rows // 2)) + 1
    body = [pen.row(cells, *row) for row in fact_rows(_facts(view, request, pen), cells, rows - room)]
    if rows > len(body) + room:
        body.append(pen.row(cells))
    body += _attempts(request, attempts, at, cells, rows - len(body), pen)
    title = f"Request #{request.ticket} of {request.agent}"
    glyph, _ = pen.mark(request.state)
    status = f" {request.status}" if request.status is not None else ""
    lasted = f"{'after' if request.over else 'for'} {fine(request.duration_s(at))}"
    note = f"{glyph} {sign(request.state).word}{status} {lasted}"
    return pen.frame(title, note, body, width, height)


def subject(view: View) -> RequestView | None:
    """Return the request that the page shows, as newly as it is known; None where it is forgotten."""
    found = next((request for request in view.requests if request.ticket == view.ticket), None)
    detail = detail_of(view)
    return found if found is not None or detail is None else detail.view


def detail_of(view: View) -> RequestDetail | None:
    """Return the request's details; None until they have arrived, or where it is forgotten."""
    detail = view.detail
    return detail if detail is not None and detail.view.ticket == view.ticket else None


# --- Facts ---------------------------------------------------------------------------------------------------------


def _facts(view: View, request: RequestView, pen: Pen) -> list[Fact]:
    detail = detail_of(view)
    why = reason(view, request, pen)
    error: list[Chunk] = [(0, [(request.last_error, "text")])] if request.last_error else []
    return [
        Fact(2, "from", _origin(view, request, detail)),
        Fact(1, "model", _model(request, detail, pen)),
        Fact(0, "tokens", _tokens(request, detail, pen)),
        Fact(0, "why", [(0, why)]) if why else Fact(0, "error", error),
    ]


def _origin(view: View, request: RequestView, detail: RequestDetail | None) -> list[Chunk]:
    word, role = PRIORITIES[request.priority]
    chunks: list[Chunk] = [(0, [(request.agent, "strong")])]
    if detail is not None and detail.client:
        chunks.append((1, [(detail.client, "text")]))
    if detail is not None and detail.parent:
        chunks.append((3, named("child of", detail.parent)))
    chunks.append((2, named("priority", word, role)))
    arrived = clock(request.arrived_at + view.snapshot.wall - view.snapshot.at)
    return [*chunks, (1, named("arrived", arrived))]


def _model(request: RequestView, detail: RequestDetail | None, pen: Pen) -> list[Chunk]:
    chunks: list[Chunk] = [(0, [(shortened(request.model, 40, pen), "strong")])]
    if detail is not None and detail.family:
        chunks.append((3, named("family", detail.family)))
    chunks.append((2, named("lane", request.lane)))
    return [*chunks, (1, [("streamed" if request.stream else "not streamed", "text")])]


def _tokens(request: RequestView, detail: RequestDetail | None, pen: Pen) -> list[Chunk]:
    about, usage = pen.glyphs.about, request.usage
    parts = (
        f" ({short_count(detail.estimated_input)} in, {short_count(detail.estimated_output)} out)"
        if detail is not None
        else ""
    )
    estimate: list[Span] = [
        ("estimated ", "dim"),
        (f"{about}{short_count(request.estimated_tokens)}", "text"),
        (parts, "dim"),
    ]
    if usage is None:
        so_far = f"{about}{short_count(request.output_tokens)}" if request.output_tokens else NOTHING
        return [
            (1, estimate),
            (0, [("out ", "dim"), (so_far, "text"), (" so far" if request.output_tokens else "", "dim")]),
        ]
    used: list[Span] = [("used ", "dim"), (short_count(usage.total), "text"), (" = in ", "dim")]
    used += [(short_count(usage.total_input), "text"), (" + out ", "dim"), (short_count(usage.output_tokens), "text")]
    chunks: list[Chunk] = [(0, used), (0, [("cost ", "dim"), (short_dollars(request.dollars), "text")])]
    for rank, word, tokens in ((1, "from cache ", usage.cache_read_tokens), (3, "to cache ", usage.cache_write_tokens)):
        chunks += [(rank, [(word, "dim"), (short_count(tokens), "text")])] if tokens else []
    return [*chunks, (2, estimate)]


# --- Attempts ------------------------------------------------------------------------------------------------------


def _rows(request: RequestView, made: Sequence[Phase]) -> list[tuple[AttemptView | None, list[Phase]]]:
    """Return the phases by attempt, each with the pause after it; what follows the last attempt has its own row."""
    rows: list[tuple[AttemptView | None, list[Phase]]] = [(attempt, []) for attempt in request.attempts]
    index = {id(attempt): n for n, attempt in enumerate(request.attempts)}
    left: list[Phase] = []
    for phase in made:
        at = index[id(phase.attempt)] if phase.attempt is not None else len(request.attempts)
        # A pause belongs to the failed attempt before it.
        at -= phase.kind == "pause" and at > 0
        (rows[at][1] if at < len(rows) else left).append(phase)
    return [*rows, (None, left)] if left else rows


def _attempts(
    request: RequestView,
    attempts: Sequence[tuple[AttemptView | None, list[Phase]]],
    at: float,
    cells: int,
    rows: int,
    pen: Pen,
) -> list[Strip]:
    beside = 6 + GAP + (_NUMBER + GAP) * len(_LENGTHS)
    width = max(_BAR, min(cells - beside - _MESSAGE, (cells - beside) // 2))
    end = at if request.ended_at is None else request.ended_at
    axis = beginning(request.arrived_at, end, width)
    head = f"{'TRY':>3}   " + times_since(axis, pen.glyphs.frame[5]) + " " * GAP
    head += "".join(f"{name:>{_NUMBER}}" + " " * GAP for name, _ in _LENGTHS) + "OUTCOME"
    lines = [_line(attempt, made, axis, cells, request, pen) for attempt, made in attempts]
    body = [pen.row(cells, (head, "dim")), *_squeezed(lines, rows - 1, cells, pen)]
    return body[: max(0, rows)]


def _squeezed(lines: list[Strip], rows: int, cells: int, pen: Pen) -> list[Strip]:
    """Replace lines in the middle by a row that counts them where there are too many."""
    if len(lines) <= rows or rows < 3:
        return lines[-max(1, rows) :]
    first = (rows - 1) // 2
    last = rows - 1 - first
    hidden = pen.row(cells, (f"      {pen.glyphs.ellipsis} {len(lines) - first - last} more", "dim"))
    return [*lines[:first], hidden, *lines[-last:]]


def _line(
    attempt: AttemptView | None, made: list[Phase], axis: Axis, cells: int, request: RequestView, pen: Pen
) -> Strip:
    glyph, role = _mark(attempt, request, pen)
    number = str(attempt.number) if attempt is not None else ""
    spans: list[Span] = [(f"{number:>3} ", "text"), (f"{glyph} ", role), *bar(made, axis, pen), (" " * GAP, "text")]
    for _, kind in _LENGTHS:
        lengths = [
            phase.length_s for phase in made if phase.kind == kind or (kind == "first" and phase.kind == "failed")
        ]
        text = fine(sum(lengths)) if lengths else NOTHING
        spans.append((fit(text, _NUMBER, ">") + " " * GAP, "text" if lengths else "rule"))
    left = cells - 6 - axis.width - GAP - (_NUMBER + GAP) * len(_LENGTHS)
    return pen.row(cells, *spans, *_outcome(attempt, request, left, pen))


def _mark(attempt: AttemptView | None, request: RequestView, pen: Pen) -> Span:
    if attempt is None or (attempt.outcome == "left" and request.state == "stopped"):
        return pen.mark(request.state)
    if attempt.outcome == "flying":
        return pen.mark("waiting" if attempt.first_content_at is None else "streaming")
    return pen.mark(attempt.outcome if attempt.outcome in FINE else "failed")


def _outcome(attempt: AttemptView | None, request: RequestView, cells: int, pen: Pen) -> list[Span]:
    if attempt is None:
        return [("never sent", "dim") if request.over else ("in the queue", "wait")]
    if attempt.outcome not in FINE:
        what = shortened(failure(attempt), cells, pen)
        more = attempt.message.removeprefix(what).lstrip()
        if not more and attempt.status is not None:
            more = attempt.outcome.replace("_", " ")
        return [(what, "bad"), (f" {shortened(more, cells - cell_len(what) - 1, pen)}", "text")]
    left = "the agent was stopped" if request.state == "stopped" else "the client left"
    words = {"flying": "in flight", "left": left}.get(attempt.outcome, attempt.outcome)
    status = f"{attempt.status} " if attempt.status is not None else ""
    return [(status + words, "ok" if attempt.outcome == "answered" else "text")]
