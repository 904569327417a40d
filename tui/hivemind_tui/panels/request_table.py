"""The table of requests, open ones and those that are over, newest first."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.requests import RequestView
from hivemind_tui.format import NOTHING, count, dollars, seconds
from hivemind_tui.glyphs import PRIORITIES, sign
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.table import Column, Rows, Table, render as render_table
from hivemind_tui.view import View, join

_OPEN_UNTIL = 1e12


def _state(request: RequestView, ink: Ink, at: float) -> Span:
    glyph, role = ink.mark(request.state)
    return f"{glyph} {sign(request.state).word}", role


def _status(request: RequestView, ink: Ink, at: float) -> Span:
    if request.status is None:
        return NOTHING, "rule"
    return str(request.status), "ok" if request.status < 400 else "bad"


def _tries(request: RequestView, ink: Ink, at: float) -> Span:
    tries = len(request.attempts)
    return (str(tries), "recover" if tries > 1 else "text") if tries else (".", "rule")


def first_token_s(request: RequestView) -> float | None:
    """From the last attempt's start to its first content."""
    last = request.attempts[-1] if request.attempts else None
    if last is None or last.first_content_at is None:
        return None
    return last.first_content_at - last.granted_at


def _took(request: RequestView) -> float:
    """Open ones, which have yet to show how long they take, count as longer than all others."""
    return (_OPEN_UNTIL if request.ended_at is None else request.ended_at) - request.arrived_at


def _output(request: RequestView) -> int:
    return request.output_tokens if request.usage is None else request.usage.output_tokens


def _input(request: RequestView) -> int | None:
    return None if request.usage is None else request.usage.total_input


REQUESTS: Table[RequestView] = Table(
    Column("agent", "AGENT", 12, 0, lambda r, _i, _t: (r.agent, "text"), "<", lambda r: r.agent),
    (
        Column("number", "NO", 6, 3, lambda r, _i, _t: (f"#{r.ticket}", "dim"), key=lambda r: r.ticket),
        Column("state", "STATE", 9, 0, _state, "<", lambda r: r.state),
        Column("status", "CODE", 4, 2, _status, key=lambda r: r.status),
        Column("tries", "TRIES", 5, 2, _tries, key=lambda r: len(r.attempts)),
        Column("prio", "PRIO", 4, 7, lambda r, _i, _t: PRIORITIES[r.priority], "<", lambda r: r.priority),
        Column("waited", "WAITED", 6, 4, lambda r, _i, _t: (seconds(r.waited_s), "dim"), key=lambda r: r.waited_s),
        Column("ttft", "TTFT", 5, 5, lambda r, _i, _t: (seconds(first_token_s(r)), "text"), key=first_token_s),
        Column("took", "TOOK", 6, 1, lambda r, _i, t: (seconds(r.duration_s(t)), "text"), key=_took),
        Column("in", "IN", 5, 4, lambda r, _i, _t: (count(_input(r)), "text"), key=_input),
        Column("out", "OUT", 5, 3, lambda r, _i, _t: (count(_output(r)), "text"), key=_output),
        Column("cost", "COST", 7, 5, lambda r, _i, _t: (dollars(r.dollars), "text"), key=lambda r: r.dollars),
        Column("ago", "AGO", 6, 6, lambda r, _i, t: (seconds(t - r.arrived_at), "dim"), key=lambda r: -r.arrived_at),
        Column("model", "MODEL", 18, 6, lambda r, _i, _t: (r.model, "dim"), "<", lambda r: r.model),
    ),
    rest=Column("error", "LAST ERROR", 14, 0, lambda r, _i, _t: (r.last_error, "dim"), "<"),
)


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: a head and as many requests as fit, scrolled so that the selected one is among them."""
    cells, rows = body_size(ink, width, height)
    listed, order = view.listed, view.requests_order
    if not listed:
        note = "No request fits the filter (esc takes it away)." if order.filter else "No request yet."
        return ink.frame("Requests", _note(view), [ink.row(cells, (note, "dim"))], width, height)
    shown = Rows(
        listed,
        next((i for i, request in enumerate(listed) if request is view.request), 0),
        order.sort,
        order.reverse,
        link=lambda request: f"app.pick_request({request.ticket})",
        sort_link="app.sort_by({})",
    )
    return ink.frame("Requests", _note(view), render_table(REQUESTS, shown, view.snapshot.at, cells, rows, ink), width, height)


def _note(view: View) -> str:
    order = view.requests_order
    of = len(view.requests) if view.page == "requests" else len(view.listed)
    if order.filter:
        return f"/{order.filter}  {len(view.listed)} of {of}"
    return join(f"{of} remembered" if of else "")
