"""The table of requests, open ones and those that are over, newest first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_dollars, short_duration
from hivemind.world.request_view import RequestView
from hivemind.world.snapshot import TicketView
from hivemind_tui.render.format import clock, percent
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Span, body_size
from hivemind_tui.render.phases import pieces
from hivemind_tui.render.table import Column, Rows, Table, hidden_order
from hivemind_tui.render.table import render as render_table
from hivemind_tui.render.wait_reason import WAITING, far_back, short
from hivemind_tui.state.view import View, join

_OPEN_UNTIL = 1e12
_WIDE = 190
"""From so many cells on, a model's whole name has room."""


def _state(request: RequestView, pen: Pen, at: float) -> Span:
    glyph, role = pen.mark(request.state)
    return f"{glyph} {sign(request.state).word}", role


def _status(request: RequestView, pen: Pen, at: float) -> Span:
    if request.status is None:
        return NOTHING, "rule"
    # An answer that was cut short began with a 200.
    return str(request.status), "ok" if request.status < 400 and request.state != "failed" else "bad"


def tries(request: RequestView) -> int:
    """Attempts begun, remembered or not."""
    return request.attempts[-1].number if request.attempts else 0


def _tries(request: RequestView, pen: Pen, at: float) -> Span:
    begun = tries(request)
    return (str(begun), "recover" if begun > 1 else "text") if begun else (NOTHING, "rule")


def first_token_s(request: RequestView) -> float | None:
    """From the last attempt's start to its first content."""
    last = request.attempts[-1] if request.attempts else None
    if last is None or last.first_content_at is None:
        return None
    return last.first_content_at - last.granted_at


def _waited(request: RequestView, pen: Pen, at: float) -> Span:
    """Grants end waits: one that goes on isn't in the sum yet."""
    if request.state in WAITING:
        return short_duration(sum(piece.length_s for piece in pieces(request, at) if piece.kind == "queue")), "text"
    return short_duration(request.waited_s), "text"


def _took(request: RequestView) -> float:
    """Open ones, which have yet to show how long they take, count as longer than all others."""
    return (_OPEN_UNTIL if request.ended_at is None else request.ended_at) - request.arrived_at


def _duration(request: RequestView, pen: Pen, at: float) -> Span:
    return short_duration(request.duration_s(at)), "text" if request.over else "info"


def output(request: RequestView) -> int | None:
    """Output tokens, so far or in all; None before the first."""
    return request.output_tokens if request.usage is None else request.usage.output_tokens


def input_of(request: RequestView) -> int | None:
    """Input tokens, cached ones too; None until the provider said."""
    return None if request.usage is None else request.usage.total_input


def _amount(value: int | None) -> Span:
    return (short_count(value), "text") if value else (NOTHING, "rule")


def _output(request: RequestView, pen: Pen, at: float) -> Span:
    # While it streams the provider hasn't counted yet.
    text, role = _amount(output(request))
    return (f"{pen.glyphs.about}{text}", role) if request.state == "streaming" and role == "text" else (text, role)


def _cached(request: RequestView) -> float | None:
    usage = request.usage
    return usage.cache_read_tokens / usage.total_input if usage is not None and usage.total_input else None


def _cost(request: RequestView, pen: Pen, at: float) -> Span:
    return (short_dollars(request.dollars), "text") if request.dollars is not None else (NOTHING, "rule")


def _optional(text: str, role: str = "text") -> Span:
    return text, "rule" if text == NOTHING else role


def _why(waiting: Mapping[int, TicketView], room: int, request: RequestView, pen: Pen) -> Span:
    """What it waits for and about how long, or the last thing that went wrong."""
    ticket = waiting.get(request.ticket)
    if ticket is None or not ticket.gate:
        behind = far_back(request.state, waiting) if ticket is None else ""
        return (f"{pen.glyphs.clock} {behind}", "wait") if behind else (request.last_error, "dim")
    shown = gate_sign(ticket.gate)
    return f"{getattr(pen.glyphs, shown.glyph)} {short(ticket, room - 2)}", shown.role


def _table(wall_s: float) -> Table[RequestView]:
    """`wall_s`: what to add to a moment for the time of day."""
    return Table(
        Column("agent", "AGENT", 12, 0, lambda r, _i, _t: (r.agent, "text"), "<", lambda r: r.agent),
        (
            Column("number", "NO", 7, 9, lambda r, _i, _t: (f"#{r.ticket}", "dim"), key=lambda r: r.ticket),
            Column(
                "at", "AT", 8, 10, lambda r, _i, _t: (clock(r.arrived_at + wall_s), "dim"), key=lambda r: r.arrived_at
            ),
            Column("state", "STATE", 9, 0, _state, "<", lambda r: r.state),
            Column("status", "CODE", 4, 3, _status, key=lambda r: r.status),
            Column("tries", "TRIES", 5, 3, _tries, key=tries),
            Column("prio", "PRIO", 4, 12, lambda r, _i, _t: PRIORITIES[r.priority], "<", lambda r: r.priority),
            Column("waited", "WAITED", 6, 5, _waited, key=lambda r: r.waited_s),
            Column(
                "ttft", "FIRST", 5, 5, lambda r, _i, _t: _optional(short_duration(first_token_s(r))), key=first_token_s
            ),
            Column("took", "TOOK", 6, 1, _duration, key=_took),
            Column("in", "IN", 5, 6, lambda r, _i, _t: _amount(input_of(r)), key=input_of),
            Column("cached", "CACHED", 6, 11, lambda r, _i, _t: _share(_cached(r)), key=_cached),
            Column("out", "OUT", 5, 4, _output, key=output),
            Column("cost", "COST", 7, 7, _cost, key=lambda r: r.dollars),
            Column("model", "MODEL", 18, 8, lambda r, _i, _t: (r.model, "dim"), "<", lambda r: r.model),
            Column("lane", "LANE", 14, 13, lambda r, _i, _t: (r.lane, "dim"), "<", lambda r: r.lane),
        ),
    )


def _share(share: float | None) -> Span:
    return _optional(NOTHING if share is None else percent(share, 1.0), "dim")


REQUESTS = _table(0.0)
"""The columns, for whoever sorts by them."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: a head and as many requests as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(pen, width, height)
    listed, order = view.listed, view.requests_order
    if not listed:
        note = "No request fits the filter (esc takes it away)." if order.filter else "No request yet."
        return pen.frame("Requests", _note(view), [pen.row(cells, (note, "dim"))], width, height)
    selected = view.request
    shown = Rows(
        listed,
        next((index for index, request in enumerate(listed) if request is selected), 0),
        order.sort,
        order.reverse,
        link=lambda request: f"app.pick_request({request.ticket})",
        sort_link="app.sort_by({})",
    )
    now = view.snapshot
    waiting = {ticket.ticket: ticket for ticket in now.queue}
    room = cells - (len(listed) >= rows)  # a list that is longer has a scrollbar
    table = _suited(_table(now.wall - now.at), room, waiting)
    columns, _, _ = table.layout(room)
    body = render_table(table, shown, now.at, cells, rows, pen)
    note = join(hidden_order(REQUESTS, order.sort, columns), _note(view))
    return pen.frame("Requests", note, body, width, height)


def _suited(table: Table[RequestView], cells: int, waiting: Mapping[int, TicketView]) -> Table[RequestView]:
    """For so many cells, and with the tickets that wait now, by number."""
    if cells >= _WIDE:
        columns = [replace(column, width=24) if column.id == "model" else column for column in table.columns]
        table = replace(table, columns=tuple(columns))
    why: Column[RequestView] = Column(
        "why", "WAITS FOR / ERROR", max(24 if cells >= 90 else 18, cells // 6), 2, lambda *_: ("", "text"), "<"
    )
    _, _, room = replace(table, rest=why).layout(cells)
    return replace(table, rest=replace(why, cell=lambda request, pen, _: _why(waiting, room, request, pen)))


def _note(view: View) -> str:
    order = view.requests_order
    following = "" if view.ticket else "following the newest" if not order.sort else "following the first"
    of = len(view.requests) if view.page == "requests" else len(view.listed)
    if order.filter:
        return join(following, f"/{order.filter}  {len(view.listed)} of {of}")
    return join(following, f"{of} remembered") if of else ""
