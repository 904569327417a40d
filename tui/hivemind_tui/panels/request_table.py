"""The requests, open and ended ones, newest first: as a table, and those of one agent as a waterfall."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from textual.strip import Strip

from hivemind.records import replace
from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration
from hivemind.world.snapshot import RequestView, Snapshot, TicketView
from hivemind_tui.render.bars import bar, ending, times_of_day
from hivemind_tui.render.format import clock, percent
from hivemind_tui.render.glyphs import PHASES, PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.phases import phases_of, prefill
from hivemind_tui.render.table import GAP, Column, Placed, Rows, Table, heads, scrolling, sorted_by
from hivemind_tui.render.table import render as render_table
from hivemind_tui.render.wait_reason import WAITING, far_back, short
from hivemind_tui.state.lists import REQUEST_KEYS, cached_share, input_tokens, tries, ttft_s
from hivemind_tui.state.view import View, join

_WIDE = 190
"""Cells from which a model's whole name has room."""
_WHY = 32
"""Cells of what a request waits for beside its bar, where there are so many."""
_LEFT = {"number": 0, "state": 0, "model": 150}
_LEFT_NAMED = {"number": 0, "agent": 0, "state": 0, "model": 150}
"""The same where requests are of several agents."""
_RIGHT = {
    **{"waited": 200, "ttft": 200, "took": 50, "tries": 200, "in": 110, "cached": 200, "out": 60, "cost": 120},
    "status": 90,
}
"""Columns beside the bars of the waterfall, and the cells from which each is shown."""
_RIGHT_NAMED = {"took": 50, "tries": 96, "in": 96, "out": 60, "cost": 90, "status": 80}


def _status(request: RequestView, _pen: Pen) -> Span:
    if request.status is None:
        return NOTHING, "rule"
    # A truncated answer began with a 200.
    return str(request.status), "ok" if request.status < 400 and request.state != "failed" else "bad"


def _tries(request: RequestView, _pen: Pen) -> Span:
    begun = tries(request)
    return (str(begun), "recover" if begun > 1 else "text") if begun else (NOTHING, "rule")


def _output(request: RequestView, pen: Pen) -> Span:
    # While it streams the provider hasn't counted yet.
    about = pen.glyphs.about if request.output_tokens and request.state == "streaming" else ""
    return _known(about + short_count(request.output_tokens or None))


def _cached(request: RequestView, _pen: Pen) -> Span:
    share = cached_share(request)
    return _known(NOTHING if share is None else percent(share, 1.0), "dim")


def _known(text: str, role: str = "text") -> Span:
    return text, "rule" if text == NOTHING else role


def _why(waiting: Mapping[int, TicketView], room: int, request: RequestView, pen: Pen) -> Span:
    ticket = waiting.get(request.ticket)
    if ticket is None or not ticket.gate:
        if request.attempts and (read := prefill(request.attempts[-1])):
            return read, "text"
        behind = far_back(request.state, waiting) if ticket is None else ""
        return (f"{pen.glyphs.clock} {behind}", "wait") if behind else (request.last_error, "dim")
    glyph, role = pen.sign(gate_sign(ticket.gate))
    return f"{glyph} {short(ticket, room - 2)}", role


def _table(now: Snapshot) -> Table[RequestView]:
    """Return the table for this moment, whose times of day are so much later than those of the requests."""
    at, wall_s = now.at, now.wall - now.at

    def waited(request: RequestView, _pen: Pen) -> Span:
        # Only grants end waits: one that goes on isn't in the sum yet.
        if request.state in WAITING:
            queued = (phase.length_s for phase in phases_of(request, at) if phase.kind == "queue")
            return short_duration(sum(queued)), "text"
        return short_duration(request.waited_s), "text"

    def duration(request: RequestView, _pen: Pen) -> Span:
        return short_duration(request.duration_s(at)), "text" if request.over else "info"

    return Table(
        Column("agent", "AGENT", 12, 0, lambda r, _: (r.agent, "text"), "<", is_name=True),
        (
            Column("number", "REQ", 7, 9, lambda r, _: (f"#{r.ticket}", "dim")),
            Column("at", "AT", 8, 10, lambda r, _: (clock(r.arrived_at + wall_s), "dim")),
            Column("state", "STATE", 9, 0, lambda r, pen: pen.worded(sign(r.state)), "<"),
            Column("status", "CODE", 4, 3, _status),
            Column("tries", "TRIES", 5, 4, _tries),
            Column("prio", "PRIO", 4, 12, lambda r, _: PRIORITIES[r.priority], "<"),
            Column("waited", "WAITED", 6, 2, waited),
            Column("ttft", "1ST TOKEN", 9, 5, lambda r, _: _known(short_duration(ttft_s(r)))),
            Column("took", "TOTAL", 6, 1, duration),
            Column("in", "IN", 5, 6, lambda r, _: _known(short_count(input_tokens(r) or None))),
            Column("cached", "CACHED", 6, 11, _cached),
            Column("out", "OUT", 5, 4, _output),
            Column("cost", "COST", 7, 7, lambda r, _: _known(short_dollars(r.dollars))),
            Column("model", "MODEL", 18, 8, lambda r, _: (r.model, "dim"), "<"),
            Column("lane", "LANE", 14, 13, lambda r, _: (r.lane, "dim"), "<"),
        ),
        sortable=REQUEST_KEYS,
    )


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a head and as many requests as fit, scrolled so that the selected one is among them."""
    cells, rows = pen.body_size(width, height)
    listed, order = view.listed, view.requests_order
    if not listed:
        note = "No request matches the filter (esc clears it)." if order.filter else "No request yet."
        return pen.message("Requests", note, width, height, _note(view))
    waiting = {ticket.ticket: ticket for ticket in view.snapshot.queue}
    room = cells - (len(listed) >= rows)  # a list that is longer has a scrollbar
    table = _table(view.snapshot)
    table = replace(table, columns=tuple(each for each in table.columns if each.id not in view.unrecorded_columns))
    suited = _suited(table, room, waiting)
    body = render_table(suited, _rows(view), cells, rows, pen)
    note = join(sorted_by(suited, order.sort), _note(view))
    return pen.frame("Requests", note, body, width, height)


def _rows(view: View) -> Rows[RequestView]:
    return Rows(view.listed, view.request, view.requests_order.sort, view.requests_order.reverse, link=_link)


def _link(request: RequestView) -> str:
    return call("app.pick", "ticket", request.ticket)


def _suited(columns: Table[RequestView], cells: int, waiting: Mapping[int, TicketView]) -> Table[RequestView]:
    if cells >= _WIDE:
        wider = [replace(column, width=24) if column.id == "model" else column for column in columns.columns]
        columns = replace(columns, columns=tuple(wider))
    least = max(24 if cells >= 90 else 18, cells // 6)
    why: Column[RequestView] = Column("why", "WAITS FOR / ERROR", least, 2, lambda *_: ("", "text"), "<")
    last = replace(columns, rest=why).placed(cells)[-1]
    room = last.width if last.column is why else 0
    return replace(columns, rest=replace(why, cell=lambda request, pen: _why(waiting, room, request, pen)))


def _note(view: View) -> str:
    order = view.requests_order
    following = "" if view.ticket else "following the newest" if not order.sort else "following the first"
    of = len(view.requests) if view.page == "requests" else len(view.listed)
    if order.filter:
        return join(following, f"/{order.filter}  {len(view.listed)} of {of}")
    return join(following, f"{of} remembered") if of else ""


def _elsewhere(view: View) -> str:
    """Return why an agent has no request here: another proxy of the fleet may serve it."""
    machines = () if view.agent is None else view.agent.machines
    proxy = next((member for member in view.fleet.members if member.label in machines), None)
    if proxy is None or proxy.id == view.fleet.me:
        return "None of its requests is remembered."
    return f"Its requests are on the screen of {proxy.label}: hivemind-tui --attach {proxy.address}"


def render_waterfall(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the time axis and as many requests as fit, with the selected one among them."""
    cells, rows = pen.body_size(width, height)
    typed = view.requests_order.filter
    if not view.listed:
        note = "No request matches the filter (esc clears it)." if typed else _elsewhere(view)
        return pen.message("Requests", note, width, height)
    shown = _rows(view)
    body = scrolling(shown, cells, rows, pen, lambda items, room: _waterfall(view, shown, items, room, pen))
    note = join(sorted_by(_table(view.snapshot), shown.sort), f"/{typed}" if typed else "", _legend(pen))
    return pen.frame("Requests", note, body, width, height)


def render_of_agent(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the requests of the selected agent in a list of agents, newest first."""
    cells, rows = pen.body_size(width, height)
    agent = view.agent
    name = "" if agent is None else agent.name
    title = f"Requests of {name}" if name else "Requests"
    own = tuple([request for request in view.requests if request.agent == name])
    if not own:
        return pen.message(title, _elsewhere(view) if name else "", width, height)
    shown = Rows(own[: max(1, rows - 1)], link=lambda each: f"app.open_request({each.ticket})")
    return pen.frame(title, _legend(pen), _waterfall(view, shown, shown.items, cells, pen), width, height)


def render_around(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the requests that were open at the same time as the one of the page, and, where there
    is room for more, those that arrived next to it."""
    one = view.request
    if one is None:
        return pen.message("Requests around it", "", width, height)
    cells, rows = pen.body_size(width, height)
    now = view.snapshot.at
    until = now if one.ended_at is None else one.ended_at

    def apart(each: RequestView) -> bool:
        ended_at = now if each.ended_at is None else each.ended_at
        return each.arrived_at > until or ended_at < one.arrived_at

    beside = [(apart(each), abs(each.arrived_at - one.arrived_at), each) for each in view.requests]
    beside.sort(key=lambda each: each[:2])
    nearest = sorted((each for *_, each in beside[: max(1, rows - 1)]), key=lambda each: -each.arrived_at)
    shown = Rows(tuple(nearest), one, link=_link)
    body = _waterfall(view, shown, shown.items, cells, pen, named=True)
    overlap = sum(not alone for alone, *_ in beside) - 1
    note = join(f"{overlap:,} at the same time", _legend(pen))
    return pen.frame("Requests around it", note, body, width, height)


def _legend(pen: Pen) -> str:
    return "  ".join(pen.worded(phase)[0] for phase in PHASES.values())


def _waterfall(
    view: View, shown: Rows[RequestView], items: Sequence[RequestView], cells: int, pen: Pen, named: bool = False
) -> list[Strip]:
    now, columns = view.snapshot, _table(view.snapshot)
    left = _beside(columns, _LEFT_NAMED if named else _LEFT, max(0, cells))
    right = _beside(columns, _RIGHT_NAMED if named else _RIGHT, cells)
    if cells >= _WIDE:
        waiting = {ticket.ticket: ticket for ticket in now.queue}
        cell: Callable[[RequestView, Pen], Span] = lambda request, pen: _why(waiting, _WHY, request, pen)  # noqa: E731
        right.append(Placed(Column("why", "WAITS FOR / ERROR", _WHY, 0, cell, "<"), _WHY, GAP))
    digits = max((len(f"#{request.ticket}") for request in items), default=0)
    left[0] = Placed(left[0].column, max(4, digits), 0)
    width = max(1, cells - columns.lead - GAP - sum(each.width + each.gap for each in (*left, *right)))
    made = {request.ticket: phases_of(request, now.at) for request in items}
    start = min((phases[0].start_at for phases in made.values()), default=now.at)
    axis = ending(start, max((phases[-1].end_at for phases in made.values()), default=now.at), width)
    times = times_of_day(axis, now.wall - now.at, pen.glyphs.frame[5])
    bars: Column[RequestView] = Column("bars", times, width, 0, lambda *_: ("", "text"), "<")
    body = [heads(columns, [*left, Placed(bars, width, GAP), *right], shown, cells, pen)]
    for request in items:
        selected = request is shown.selected
        spans: list[Span] = [
            (f"{pen.glyphs.cursor} " if selected else "  ", "accent"),
            *(each.span(request, pen) for each in left),
            (" " * GAP, "text"),
            *bar(made[request.ticket], axis, pen),
            *(each.span(request, pen) for each in right),
        ]
        body.append(pen.row(cells, *spans, selected=selected, link=shown.link(request)))
    return body


def _beside(columns: Table[RequestView], least: Mapping[str, int], cells: int) -> list[Placed[RequestView]]:
    by_id = {column.id: column for column in (columns.name, *columns.columns)}
    return [Placed(by_id[name], by_id[name].width, GAP) for name, fits_from in least.items() if cells >= fits_from]
