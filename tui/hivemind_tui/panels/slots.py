"""Slots and queue: the requests in flight, the concurrency limit, and the queued requests with what holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest

from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_duration
from hivemind.text.shells import word
from hivemind.world.snapshot import LaneView, TicketView
from hivemind_tui.panels.agent_table import number
from hivemind_tui.panels.curve import trend
from hivemind_tui.render import table, wait_reason
from hivemind_tui.render.format import level, whole
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Row, Span, call
from hivemind_tui.render.table import Column, Placed, Rows, Table
from hivemind_tui.state.view import View, join

_TWO_COLUMNS = 74
_WITH_HEADS = 8
"""Rows from which the columns have heads."""
_NAMES = (1, 20)
"""Narrowest and widest name of an agent."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: slots and limit beside or above the queue, and without boxes the level's trend."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.frame("Slots and queue", "", _empty(view), width, height)
    trends = 1 if not pen.boxed and rows >= 4 else 0
    body = _tickets(view, lane, cells, rows - trends, pen)
    if trends:
        body += [pen.row(cells)] * (rows - trends - len(body))
        body.append(trend(view, lane, cells, pen))
    note = join(_in_flight(lane), _queued(lane), view.lane_note())
    return pen.frame("Slots and queue", note, body, width, height)


def _empty(view: View) -> list[Row]:
    address = view.address
    if not view.live:
        return [[("No request had been made by then; space plays on.", "text")]]
    return [
        [("No request yet. Point an agent here:", "text")],
        [],
        [(f"  ANTHROPIC_BASE_URL={word(view.shell, f'{address}/agent/alice')} claude", "info")],
        [(f"  OPENAI_BASE_URL={word(view.shell, f'{address}/agent/bob/v1')} codex", "info")],
    ]


def _in_flight(lane: LaneView) -> str:
    state = lane.state
    if math.isinf(state.level):
        return f"{state.active} in flight, no limit"
    free = int(state.level) - state.active
    return f"{state.active} of {int(state.level)} in flight, {f'{-free} over' if free < 0 else f'{free} free'}"


def _queued(lane: LaneView) -> str:
    waiting, retrying = lane.state.waiting, lane.state.retrying
    between = f"{retrying} waiting to retry" if retrying else ""
    return ", ".join(filter(None, (f"{waiting} queued" if waiting or not retrying else "", between)))


def _tickets(view: View, lane: LaneView, cells: int, rows: int, pen: Pen) -> list[Strip]:
    if rows <= 0:
        return []
    slots, queue = view.of_lane(view.snapshot.slots), view.of_lane(view.snapshot.queue)
    heads = rows >= _WITH_HEADS
    if cells >= _TWO_COLUMNS:
        left = (cells - 2) // 2
        right = cells - left - 2
        pairs = zip_longest(_slots(slots, lane, left, rows, heads, pen), _queue(queue, lane, right, rows, heads, pen))
        return [Strip.join([a or pen.row(left), pen.row(2), b or pen.row(right)]) for a, b in pairs]
    above = max(1, rows - min(len(queue) + heads, rows // 2))
    body = _slots(slots, lane, cells, above, heads, pen)
    return body + _queue(queue, lane, cells, rows - len(body), heads and rows - len(body) > 1, pen)


def _slots(tickets: list[TicketView], lane: LaneView, width: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
    placed = _IN_FLIGHT.placed(width)
    body = [table.heads(_IN_FLIGHT, placed, Rows(tickets), width, pen, "NO")] if heads else []
    limit = math.inf if math.isinf(lane.state.level) else max(0, int(lane.state.level))
    # Without boxes the panel's note and the trend show the limit already.
    lined = pen.boxed or limit < len(tickets)
    room = rows - len(body) - lined
    shown = len(tickets) if len(tickets) <= room else max(0, room - 1)
    places = [_row(t, [(f"{n:2} ", "dim")], placed, width, pen) for n, t in enumerate(tickets[:shown], 1)]
    free = range(len(tickets) + 1, int(limit) + 1) if not math.isinf(limit) and shown == len(tickets) else range(0)
    if len(free) + shown <= room:
        places += [pen.row(width, (f"{n:2} {pen.glyphs.idle} free", "rule")) for n in free]
    elif room > shown:
        places.append(pen.row(width, *pen.more(len(free), "free", indent="   ")))
    if shown < len(tickets):
        places.append(pen.row(width, *pen.more(len(tickets) - shown, "more in flight", indent="   ")))
    if lined:
        at = len(places) if limit > len(places) or shown < len(tickets) else int(limit)
        places.insert(at, _limit(lane, width, pen))
    return (body + places)[:rows]


def _limit(lane: LaneView, width: int, pen: Pen) -> Strip:
    state, line = lane.state, pen.glyphs.frame[4]
    over = 0 if math.isinf(state.level) else state.active - int(state.level)
    notes: list[Span] = [(f" limit {level(state.level)} " if not math.isinf(state.level) else " no limit ", "strong")]
    if not math.isinf(state.ceiling):
        notes.append((f"of {whole(state.ceiling)} ", "dim"))
    if state.pinned:
        notes.append(("pinned ", "accent"))
    if over > 0:
        notes.append((f"{over} over it until they finish ", "wait"))
    return pen.row(width, (line * 2, "rule"), *notes, (line * width, "rule"))


def _tokens(ticket: TicketView, _pen: Pen) -> Span:
    return (short_count(ticket.output_tokens), "strong") if ticket.output_tokens else (NOTHING, "rule")


def _rate(ticket: TicketView, _pen: Pen) -> Span:
    if ticket.state != "streaming" or not ticket.output_tokens or ticket.since_s < 1:
        return NOTHING, "rule"
    return f"{short_count(ticket.output_tokens / ticket.since_s)}/s", "dim"


_AGENT: Column[TicketView] = Column("agent", "AGENT", 10, 0, lambda ticket, _: (ticket.agent, "text"), "<")
# A few letters of a model's name say nothing: it is shown where it has ten cells.
_MODEL: Column[TicketView] = Column("model", "MODEL", 10, 0, lambda ticket, _: (ticket.model, "dim"), "<")
_IN_FLIGHT: Table[TicketView] = Table(
    _AGENT,
    (
        Column("state", "STATE", 8, 0, lambda ticket, pen: pen.worded(sign(ticket.state)), "<"),
        Column("prio", "PRIO", 4, 3, lambda ticket, _: PRIORITIES[ticket.priority], "<"),
        Column("since", "FOR", 6, 0, lambda ticket, _: (short_duration(ticket.since_s), "text")),
        Column("tokens", "TOK", 4, 0, _tokens),
        Column("rate", "TOK/S", 6, 4, _rate),
        Column("try", "TRY", 3, 2, lambda ticket, _: number(ticket.attempt if ticket.attempt > 1 else 0, "recover")),
    ),
    rest=_MODEL,
    lead=3,
    gap=1,
    names=_NAMES,
)


def _queue(tickets: list[TicketView], lane: LaneView, width: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
    if rows <= 0:
        return []
    total = max(len(tickets), lane.state.waiting + lane.state.retrying)
    if not tickets:
        return [pen.row(width, (f"{total} queued" if total else "nothing is queued", "dim"))]
    placed = _QUEUED.placed(width)
    body = [table.heads(_QUEUED, placed, Rows(tickets), width, pen, "NO")] if heads else []
    room = rows - len(body)
    shown = tickets if total <= room else tickets[: max(0, room - 1)]
    for ticket in shown:
        glyph, role = pen.mark(ticket.state)
        place = f"{ticket.position:2} " if ticket.position is not None else "   "
        body.append(_row(ticket, [(place, "dim"), (f"{glyph} ", role)], placed, width, pen))
    if len(shown) < total:
        body.append(pen.row(width, *pen.more(total - len(shown), indent="   ")))
    return body[:rows]


def _eta(ticket: TicketView, _pen: Pen) -> Span:
    when = wait_reason.eta(ticket)
    return (when, "strong") if when else (NOTHING, "rule")


def _error_or_model(ticket: TicketView, _pen: Pen) -> Span:
    return ticket.last_error if ticket.state == "retry" else ticket.model, "dim"


_QUEUED: Table[TicketView] = Table(
    _AGENT,
    (
        Column("prio", "PRIO", 4, 2, lambda ticket, _: PRIORITIES[ticket.priority], "<"),
        Column("since", "SINCE", 6, 1, lambda ticket, _: (short_duration(ticket.since_s), "text")),
        Column("gate", "HELD BY", 8, 0, lambda ticket, _: (wait_reason.gate(ticket), gate_sign(ticket.gate).role), "<"),
        Column("eta", "ETA", 6, 0, _eta),
        Column("tokens", "TOKENS", 6, 4, lambda ticket, _: (f"≈{short_count(ticket.estimated_tokens)}", "dim")),
    ),
    rest=replace(_MODEL, cell=_error_or_model),
    lead=5,
    gap=1,
    names=_NAMES,
)


def _row(ticket: TicketView, lead: Sequence[Span], placed: Sequence[Placed[TicketView]], width: int, pen: Pen) -> Strip:
    return pen.row(
        width, *lead, *(each.span(ticket, pen) for each in placed), link=call("app.pick_agent", ticket.agent)
    )
