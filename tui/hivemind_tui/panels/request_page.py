"""One request: its card below the table, and on its page its attempts, what was decided about it, and its headers."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars
from hivemind.world.snapshot import AttemptView, Decision, RequestDetail, RequestView
from hivemind_tui.render.bars import Axis, bar, beginning, rounded, times_since
from hivemind_tui.render.format import clean, clock, fit
from hivemind_tui.render.glyphs import PHASES, PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Chunk, Pen, Row, Span, fitting
from hivemind_tui.render.phases import FINE, Phase, described, failure, fine, phases_of, prefill, summarised
from hivemind_tui.render.rows import Fact, broken, fact_rows, flowed, named, scrolled
from hivemind_tui.render.table import GAP
from hivemind_tui.render.wait_reason import far_back, lane_of, sentence
from hivemind_tui.state.view import View

MASK = "***"
"""Stands where a credential stood."""
_LENGTHS = (("QUEUE", "queue"), ("SENT", "first"), ("STREAM", "stream"), ("DELAY", "pause"))
"""Columns of durations, and the phases that they show."""
_NUMBER = 6
_BAR = 12
"""Cells of the narrowest bar."""
_MESSAGE = 20
"""Cells for an attempt's outcome, before the bar gets more than its least width."""
_BESIDE = 6 + GAP + (_NUMBER + GAP) * len(_LENGTHS)
"""Cells of an attempt's row beside its bar and its outcome."""
_DECISION_ROWS = 3
_HEADER_ROWS = 4
"""At most, for one decision and one header."""
_NARROW = 60
"""With fewer cells a decision is shown without its time of day."""
_Attempt = tuple[AttemptView | None, list[Phase]]
"""An attempt's phases and the pause after it; None: what follows the last attempt."""
_FACTS = 4
_SPANS = 24
"""Most rows that attempts and their phases have use for."""
_SCALE = 6
"""Cells for the length of the bar's axis."""
_TALL = 99
"""Any height at which a panel has its frame."""


def _subject(view: View) -> RequestView | None:
    found = next((request for request in view.requests if request.ticket == view.ticket), None)
    detail = _detail_of(view)
    return found if found is not None or detail is None else detail.view


def _absent(request: RequestView | None) -> str:
    return "Forgotten." if request is None else "Asking…"


def _detail_of(view: View) -> RequestDetail | None:
    detail = view.detail
    return detail if detail is not None and detail.view.ticket == view.ticket else None


# --- Card ---------------------------------------------------------------------------------------------------------


def render_card(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, without the bar where they are too few."""
    cells, rows = pen.body_size(width, height)
    request = view.request
    if request is None:
        return pen.message("Request", "The selected request is shown here.", width, height)
    made = phases_of(request, view.snapshot.at)
    why = reason(view, request, pen) or (named("last error", request.last_error) if request.last_error else [])
    priority: Chunk = (1, named("priority", *PRIORITIES[request.priority]))
    facts = [*_model(request, None, pen), priority, *_tokens(request, None, pen)]
    others = [*([why] if why else []), fitting(cells, facts)]
    unknown = view.lacks("durations")
    words = flowed(described(request, () if unknown else made, pen), cells)
    if len(words) > min(2, rows - 1 - len(others)):
        words = flowed(summarised(request, made, pen), cells)[:2]
    body: list[Row] = [*words, *others]
    if len(body) < rows and not unknown:
        axis = beginning(made[0].start_at, made[-1].end_at, cells - _SCALE)
        body.insert(0, [*bar(made, axis, pen), (f"{rounded(axis.span_s):>{_SCALE}}", "dim")])
    arrived = clock(request.arrived_at + view.snapshot.wall - view.snapshot.at)
    return pen.frame(f"#{request.ticket} of {request.agent}", f"arrived {arrived}", body, width, height)


def reason(view: View, request: RequestView, pen: Pen) -> list[Span]:
    """Return why it waits, in a sentence; nothing if it doesn't."""
    queue = view.snapshot.queue
    ticket = next((ticket for ticket in queue if ticket.ticket == request.ticket and ticket.gate), None)
    if ticket is None:
        behind = far_back(request.state, queue)
        return [(f"{pen.glyphs.clock} ", "wait"), (f"waits {behind} others", "text")] if behind else []
    glyph, role = pen.sign(gate_sign(ticket.gate))
    agent = next((agent for agent in view.snapshot.agents if agent.name == ticket.agent), None)
    return [(f"{glyph} ", role), (sentence(ticket, lane_of(view.snapshot.lanes, ticket), agent), "text")]


def _cost(request: RequestView) -> list[Span]:
    tier = "" if request.usage is None else request.usage.tier
    return [*named("cost", short_dollars(request.dollars)), (f" ({tier})" if tier else "", "dim")]


def shortened(text: str, width: int, pen: Pen) -> str:
    """Return the text in at most so many cells."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return text
    return fit(text, max(0, width), ellipsis=pen.glyphs.ellipsis).rstrip()


# --- Timeline ------------------------------------------------------------------------------------------------------


def render_timeline(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: facts, as many as fit, then a row for each attempt."""
    cells, rows = pen.body_size(width, height)
    request = _subject(view)
    if request is None:
        title = f"Request #{view.ticket}"
        return pen.message(title, f"{title} is forgotten: only the newest are remembered.", width, height)
    at = view.snapshot.at
    attempts = _by_attempt(request, phases_of(request, at))
    spans = _spans(attempts)
    room = spans + 1 if spans + 1 <= rows - _FACTS - 1 else min(len(attempts), max(3, rows // 2)) + 1
    body: list[Row] = [*fact_rows(_facts(view, request, pen), cells, rows - room)]
    if rows > len(body) + room:
        body.append([])
    body += _attempts(request, attempts, at, cells, rows - len(body), pen)
    status = f" {request.status}" if request.status is not None else ""
    lasts_s = request.duration_s(at)
    lasted = (
        "after a time that isn't recorded"
        if lasts_s is None
        else f"{'after' if request.over else 'for'} {fine(lasts_s)}"
    )
    note = f"{pen.worded(sign(request.state))[0]}{status} {lasted}"
    return pen.frame(f"Request #{request.ticket} of {request.agent}", note, body, width, height)


def timeline_rows(view: View) -> int:
    """Return how many rows the timeline has use for beside its box: facts, a head, and one for each attempt and each of
    its phases."""
    request = _subject(view)
    spans = 1 if request is None else _spans(_by_attempt(request, phases_of(request, view.snapshot.at)))
    return _FACTS + 2 + min(spans, _SPANS)


def _spans(attempts: Sequence[_Attempt]) -> int:
    """Return the rows of the attempts, each with one for every phase if there are several."""
    return sum(len(_rows_of(made)) + 1 for _, made in attempts)


def _rows_of(made: Sequence[Phase]) -> Sequence[Phase]:
    """Return the phases that have a row of their own: one alone is told by the attempt's."""
    return made if len(made) > 1 else ()


def _facts(view: View, request: RequestView, pen: Pen) -> list[Fact]:
    detail = _detail_of(view)
    why = reason(view, request, pen)
    error: list[Chunk] = [(0, [(request.last_error, "text")])] if request.last_error else []
    return [
        Fact(2, "from", _origin(view, request, detail)),
        Fact(1, "model", _model(request, detail, pen)),
        Fact(0, "tokens", _tokens(request, detail, pen)),
        Fact(0, "why", [(0, why)]) if why else Fact(0, "error", error),
    ]


def _origin(view: View, request: RequestView, detail: RequestDetail | None) -> list[Chunk]:
    chunks: list[Chunk] = [(0, [(request.agent, "strong")])]
    if detail is not None and detail.client:
        chunks.append((1, [(detail.client, "text")]))
    if detail is not None and detail.parent:
        chunks.append((3, named("child of", detail.parent)))
    arrived = clock(request.arrived_at + view.snapshot.wall - view.snapshot.at)
    return [*chunks, (2, named("priority", *PRIORITIES[request.priority])), (1, named("arrived", arrived))]


def _model(request: RequestView, detail: RequestDetail | None, pen: Pen) -> list[Chunk]:
    chunks: list[Chunk] = [(0, [(shortened(request.model, 40, pen), "strong")])]
    if detail is not None and detail.family:
        chunks.append((3, named("family", detail.family)))
    streamed = "streamed" if request.stream else "not streamed"
    return [*chunks, (1, named("lane", request.lane)), (2, [(streamed, "text")])]


def _tokens(request: RequestView, detail: RequestDetail | None, pen: Pen) -> list[Chunk]:
    # Before its end only attempts that failed have stated anything.
    usage = None if request.ended_at is None else request.usage
    about, parts = pen.glyphs.about, ""
    if detail is not None:
        parts = f" ({short_count(detail.estimated_input)} in, {short_count(detail.estimated_output)} out)"
    estimate = [*named("estimated", f"{about}{short_count(request.estimated_tokens)}"), (parts, "dim")]
    if usage is None:
        so_far = [*named("out", f"{about}{short_count(request.output_tokens)}"), (" so far", "dim")]
        return [(1, estimate), *([(0, so_far)] if request.output_tokens else [])]
    used = [*named("used", short_count(usage.total)), (" = ", "dim"), *named("in", short_count(usage.total_input))]
    used += [(" + ", "dim"), *named("out", short_count(usage.output_tokens))]
    chunks: list[Chunk] = [(0, used), (0, _cost(request))]
    for rank, word, tokens in ((1, "from cache", usage.cache_read_tokens), (3, "to cache", usage.cache_write_tokens)):
        chunks += [(rank, named(word, short_count(tokens)))] if tokens else []
    return [*chunks, (2, estimate)]


def _by_attempt(request: RequestView, made: Sequence[Phase]) -> list[_Attempt]:
    """Return the phases by attempt; what follows the last attempt has its own row."""
    rows: list[_Attempt] = [(attempt, []) for attempt in request.attempts]
    index = {id(attempt): n for n, attempt in enumerate(request.attempts)}
    left: list[Phase] = []
    for phase in made:
        at = index[id(phase.attempt)] if phase.attempt is not None else len(request.attempts)
        # A pause belongs to the failed attempt before it.
        at -= phase.kind == "pause" and at > 0
        (rows[at][1] if at < len(rows) else left).append(phase)
    return [*rows, (None, left)] if left else rows


def _attempts(
    request: RequestView, attempts: Sequence[_Attempt], at: float, cells: int, rows: int, pen: Pen
) -> list[Row]:
    """Return a head and a row for each attempt; where there are too many, one that counts those in the middle."""
    width = max(_BAR, min(cells - _BESIDE - _MESSAGE, (cells - _BESIDE) // 2))
    axis = beginning(request.arrived_at, at if request.ended_at is None else request.ended_at, width)
    head = f"{'TRY':>3}   " + times_since(axis, pen.glyphs.frame[5]) + " " * GAP
    head += "".join(f"{name:>{_NUMBER}}" + " " * GAP for name, _ in _LENGTHS) + "OUTCOME"
    lines = [_line(attempt, made, axis, cells, request, pen) for attempt, made in attempts]
    room = rows - 1
    if _spans(attempts) <= room:
        whole = zip(lines, attempts, strict=True)
        lines = [
            row
            for line, (_, made) in whole
            for row in (line, *(_span(each, request, axis, cells, pen) for each in _rows_of(made)))
        ]
    if len(lines) > room >= 3:
        first = (room - 1) // 2
        last = room - 1 - first
        lines[first:-last] = [pen.more(len(lines) - first - last, indent=" " * 6)]
    return [[(head, "dim")], *lines[-max(1, room) :]][:rows]


def _line(
    attempt: AttemptView | None, made: list[Phase], axis: Axis, cells: int, request: RequestView, pen: Pen
) -> Row:
    glyph, role = _mark(attempt, request, pen)
    number = str(attempt.number) if attempt is not None else ""
    spans: list[Span] = [(f"{number:>3} ", "text"), (f"{glyph} ", role), *bar(made, axis, pen), (" " * GAP, "text")]
    for _, kind in _LENGTHS:
        kinds = ("first", "failed") if kind == "first" else (kind,)
        lengths = [phase.length_s for phase in made if phase.kind in kinds]
        text = fine(sum(lengths)) if lengths else NOTHING
        spans.append((fit(text, _NUMBER, ">") + " " * GAP, "text" if lengths else "rule"))
    return [*spans, *_outcome(attempt, request, cells - _BESIDE - axis.width, pen)]


def _span(phase: Phase, request: RequestView, axis: Axis, cells: int, pen: Pen) -> Row:
    """Return a phase in a row of its own: where it is, how long it took, since when, and what it is."""
    shown = PHASES[phase.kind]
    chunks: list[Chunk] = [
        (0, [(f"{shown.word:<{_NUMBER}}", shown.role)]),
        (0, [(f"{fine(phase.length_s):>{_NUMBER}}", "text")]),
        (1, named("after", fine(phase.start_at - request.arrived_at))),
        (2, [(shown.meaning, "dim")]),
    ]
    beside = fitting(cells - 6 - axis.width - GAP, chunks)
    return [(" " * 6, "text"), *bar([phase], axis, pen), (" " * GAP, "text"), *beside]


def _mark(attempt: AttemptView | None, request: RequestView, pen: Pen) -> Span:
    if attempt is None or (attempt.outcome == "left" and request.state == "stopped"):
        return pen.mark(request.state)
    if attempt.outcome == "in_flight":
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
    words = {"in_flight": prefill(attempt) or "in flight", "left": left}.get(attempt.outcome, attempt.outcome)
    status = f"{attempt.status} " if attempt.status is not None else ""
    return [(status + words, "ok" if attempt.outcome == "answered" else "text")]


# --- Decisions -----------------------------------------------------------------------------------------------------


def render_decisions(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, scrolled: time of day, time since the arrival, level and text."""
    cells, rows = pen.body_size(width, height)
    request, detail = _subject(view), _detail_of(view)
    if request is None or detail is None:
        return pen.message("Decisions", _absent(request), width, height)
    entries = _decisions(view, request, detail, cells - 1, pen)
    return pen.frame("Decisions", f"{len(entries)}", scrolled(entries, view.scroll, cells, rows, pen), width, height)


def _decisions(view: View, request: RequestView, detail: RequestDetail, cells: int, pen: Pen) -> list[list[Row]]:
    wall_s = view.snapshot.wall - view.snapshot.at
    return [_decision(each, request.arrived_at, wall_s, cells, pen) for each in detail.decisions]


def decision_rows(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the decisions have use for beside their box, in a panel so wide."""
    request, detail = _subject(view), _detail_of(view)
    if request is None or detail is None:
        return 1
    return sum(map(len, _decisions(view, request, detail, pen.body_size(width, _TALL)[0] - 1, pen)))


def _decision(decision: Decision, arrived_at: float, wall_s: float, cells: int, pen: Pen) -> list[Row]:
    glyph, role = pen.mark(decision.level)
    day = f"{clock(decision.at + wall_s)}  " if cells >= _NARROW else ""
    times = f"{day}{f'+{fine(decision.at - arrived_at)}':>7}  "
    first, *more = broken(decision.text, cells - len(times) - 2, _DECISION_ROWS, pen.glyphs.ellipsis)
    text_role = "bad" if decision.level == "bad" else "text"
    head = [(times, "dim"), (f"{glyph} ", role), (first, text_role)]
    return [head, *([(" " * (len(times) + 2), "text"), (text, text_role)] for text in more)]


# --- Headers -------------------------------------------------------------------------------------------------------


def render_headers(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, scrolled: method and path, the request's headers, the last response's headers."""
    cells, rows = pen.body_size(width, height)
    detail = _detail_of(view)
    if detail is None:
        return pen.message("Headers", _absent(_subject(view)), width, height)
    if not (detail.method or detail.request_headers or detail.response_headers):
        live = "Headers are remembered for the newest requests only."
        replay = "There are none in the recording; --record-bodies keeps them too."
        return pen.frame("Headers", "", [[(fit(live if view.live else replay, cells), "dim")]], width, height)
    body = scrolled(_headers(detail, cells - 1, pen), view.scroll, cells, rows, pen)
    return pen.frame("Headers", "credentials masked", body, width, height)


def header_rows(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the headers have use for beside their box, in a panel so wide."""
    detail = _detail_of(view)
    return 1 if detail is None else sum(map(len, _headers(detail, pen.body_size(width, _TALL)[0] - 1, pen)))


def _headers(detail: RequestDetail, cells: int, pen: Pen) -> list[list[Row]]:
    entries = [_header(detail.method, detail.path, len(detail.method), ("strong", "text"), cells, pen, gap=1)]
    for title, headers in (("Request", detail.request_headers), ("Response", detail.response_headers)):
        entries.append([[(title, "title"), ("" if headers else "  none yet", "dim")]])
        label = min(cells * 3 // 5, max((len(name) for name, _ in headers), default=0))
        for name, value in headers:
            roles = "dim", "dim" if MASK in value else "text"
            entries.append(_header(name, value, label, roles, cells, pen))
    return entries


def _header(
    name: str, value: str, label: int, roles: tuple[str, str], cells: int, pen: Pen, gap: int = GAP
) -> list[Row]:
    texts = broken(value, cells - label - gap, _HEADER_ROWS, pen.glyphs.ellipsis)
    labels = [fit(clean(name), label, ellipsis=pen.glyphs.ellipsis), *[" " * label] * (len(texts) - 1)]
    return [[(each + " " * gap, roles[0]), (text, roles[1])] for each, text in zip(labels, texts, strict=True)]
