"""Slots and queue: what is in flight, where the limit is, and who waits behind it, in which order and why."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_duration
from hivemind.text.shells import word
from hivemind.world.snapshot import LaneView, TicketView
from hivemind_tui.commands.key import LIVE
from hivemind_tui.panels.curve import trend
from hivemind_tui.render import wait_reason as why
from hivemind_tui.render.format import fit, level, whole
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Span, body_size, call
from hivemind_tui.state.view import View, join

_TWO_COLUMNS = 74
_WITH_HEADS = 8
"""Rows from which there is one to spare for the columns' heads."""
_NAME = (10, 20)
_MODEL = 10
"""Narrowest rest of a row in which a model's name says something."""


@dataclass(frozen=True, slots=True)
class _Column:
    """One fact of a ticket; where there is little room those of the highest rank go first."""

    head: str
    width: int
    rank: int
    cell: Callable[[TicketView, Pen], Span]
    align: str = ">"


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """The panel's rows: flying tickets and the limit, beside (or, where narrow, above) the queue.

    Where there are no boxes there is no room for the curve's panel either, so the level's trend stands here.
    """
    cells, rows = body_size(pen, width, height)
    lane = view.lane
    if lane is None:
        return pen.frame("Slots and queue", "", _empty(view, cells, pen), width, height)
    trends = 1 if not pen.boxed and rows >= 4 else 0
    body = _tickets(view, lane, cells, rows - trends, pen)
    if trends:
        body += [pen.row(cells)] * (rows - trends - len(body))
        body.append(trend(view, lane, cells, pen))
    note = join(_flight(lane), _line(lane), view.lane_note())
    return pen.frame("Slots and queue", note, body, width, height)


def flying(ticket: TicketView) -> bool:
    """Whether the ticket holds a slot."""
    return ticket.state in ("waiting", "streaming")


def _empty(view: View, width: int, pen: Pen) -> list[Strip]:
    address = view.snapshot.address
    if view.on != LIVE:
        return [pen.row(width, ("Nobody had asked for anything by then; space plays on.", "text"))]
    return [
        pen.row(width, ("Nobody has asked for anything yet. Point an agent here:", "text")),
        pen.row(width),
        pen.row(width, (f"  ANTHROPIC_BASE_URL={word(view.shell, f'{address}/agent/alice')} claude", "info")),
        pen.row(width, (f"  OPENAI_BASE_URL={word(view.shell, f'{address}/agent/bob/v1')} codex", "info")),
    ]


def _flight(lane: LaneView) -> str:
    state = lane.state
    if math.isinf(state.level):
        return f"{state.active} in flight, no limit"
    free = int(state.level) - state.active
    return f"{state.active} of {int(state.level)} in flight, {f'{-free} over' if free < 0 else f'{free} free'}"


def _line(lane: LaneView) -> str:
    waiting, retrying = lane.state.waiting, lane.state.retrying
    between = f"{retrying} between tries" if retrying else ""
    return ", ".join(filter(None, (f"{waiting} waiting" if waiting or not retrying else "", between)))


def _tickets(view: View, lane: LaneView, cells: int, rows: int, pen: Pen) -> list[Strip]:
    if rows <= 0:
        return []
    slots, queue = view.of_lane(view.snapshot.slots), view.of_lane(view.snapshot.queue)
    heads = rows >= _WITH_HEADS
    if cells >= _TWO_COLUMNS:
        left = (cells - 2) // 2
        right = cells - left - 2
        pairs = zip_longest(_flying(slots, lane, left, rows, heads, pen), _queue(queue, lane, right, rows, heads, pen))
        return [Strip.join([a or pen.row(left), pen.row(2), b or pen.row(right)]) for a, b in pairs]
    above = max(1, rows - min(len(queue) + heads, rows // 2))
    body = _flying(slots, lane, cells, above, heads, pen)
    return body + _queue(queue, lane, cells, rows - len(body), heads and rows - len(body) > 1, pen)


# --- In flight ---------------------------------------------------------------------------------------------------


def _flying(tickets: list[TicketView], lane: LaneView, width: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
    """The slots by number, those taken and those free, with the limit in its place among them."""
    columns, name = _fitting(_FLYING, 3, width)
    body = [_head("NO", 2, "AGENT", columns, name, width, pen)] if heads else []
    limit = math.inf if math.isinf(lane.state.level) else max(0, int(lane.state.level))
    # Without boxes the panel's note and the trend tell the limit already.
    lined = pen.boxed or limit < len(tickets)
    room = rows - len(body) - lined
    shown = len(tickets) if len(tickets) <= room else max(0, room - 1)
    places = [_taken(number, ticket, columns, name, width, pen) for number, ticket in enumerate(tickets[:shown], 1)]
    free = range(len(tickets) + 1, int(limit) + 1) if not math.isinf(limit) and shown == len(tickets) else range(0)
    if len(free) + shown <= room:
        places += [pen.row(width, (f"{number:2} ", "rule"), (f"{pen.glyphs.idle} free", "rule")) for number in free]
    elif room > shown:
        places.append(pen.row(width, (" " * 3, "text"), (f"{pen.glyphs.ellipsis} {len(free)} free", "dim")))
    if shown < len(tickets):
        more = f"{pen.glyphs.ellipsis} {len(tickets) - shown} more in flight"
        places.append(pen.row(width, (" " * 3, "text"), (more, "dim")))
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
        notes.append((f"{over} over it, they finish ", "wait"))
    return pen.row(width, (line * 2, "rule"), *notes, (line * width, "rule"))


def _taken(number: int, ticket: TicketView, columns: Sequence[_Column], name: int, width: int, pen: Pen) -> Strip:
    spans: list[Span] = [(f"{number:2} ", "dim"), (fit(ticket.agent, name), "text")]
    return _row(ticket, spans, columns, name + 3, ticket.model, width, pen)


def _state(ticket: TicketView, pen: Pen) -> Span:
    glyph, role = pen.mark(ticket.state)
    return f"{glyph} {sign(ticket.state).word}", role


def _priority(ticket: TicketView, pen: Pen) -> Span:
    return PRIORITIES[ticket.priority]


def _since(ticket: TicketView, pen: Pen) -> Span:
    return short_duration(ticket.since_s), "text"


def _tokens(ticket: TicketView, pen: Pen) -> Span:
    return (short_count(ticket.output_tokens), "strong") if ticket.output_tokens else (NOTHING, "rule")


def _rate(ticket: TicketView, pen: Pen) -> Span:
    if ticket.state != "streaming" or not ticket.output_tokens or ticket.since_s < 1:
        return NOTHING, "rule"
    return f"{short_count(ticket.output_tokens / ticket.since_s)}/s", "dim"


def _try(ticket: TicketView, pen: Pen) -> Span:
    return (str(ticket.attempt), "recover") if ticket.attempt > 1 else (".", "rule")


_FLYING = (
    _Column("STATE", 8, 0, _state, "<"),
    _Column("PRIO", 4, 3, _priority, "<"),
    _Column("FOR", 6, 0, _since),
    _Column("TOK", 4, 0, _tokens),
    _Column("TOK/S", 6, 4, _rate),
    _Column("TRY", 3, 2, _try),
)


# --- In the queue ------------------------------------------------------------------------------------------------


def _queue(tickets: list[TicketView], lane: LaneView, width: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
    """Who waits, in order, each with the gate that holds it and about how long still."""
    if rows <= 0:
        return []
    total = max(len(tickets), lane.state.waiting + lane.state.retrying)
    if not tickets:
        return [pen.row(width, (f"{total} wait" if total else "nobody waits", "dim"))]
    columns, name = _fitting(_WAITING, 5, width)
    body = [_head("NO", 4, "AGENT", columns, name, width, pen)] if heads else []
    room = rows - len(body)
    shown = tickets if total <= room else tickets[: max(0, room - 1)]
    body += [_waiting(ticket, columns, name, width, pen) for ticket in shown]
    if len(shown) < total:
        body.append(pen.row(width, (" " * 3, "text"), (f"{pen.glyphs.ellipsis} {total - len(shown)} more", "dim")))
    return body[:rows]


def _waiting(ticket: TicketView, columns: Sequence[_Column], name: int, width: int, pen: Pen) -> Strip:
    glyph, role = pen.mark(ticket.state)
    place = f"{ticket.position:2} " if ticket.position is not None else "   "
    spans: list[Span] = [(place, "dim"), (f"{glyph} ", role), (fit(ticket.agent, name), "text")]
    more = ticket.last_error if ticket.state == "retry" else ticket.model
    return _row(ticket, spans, columns, name + 5, more, width, pen)


def _gate(ticket: TicketView, pen: Pen) -> Span:
    return why.gate(ticket), gate_sign(ticket.gate).role


def _until(ticket: TicketView, pen: Pen) -> Span:
    when = why.until(ticket)
    return (when, "strong") if when else (NOTHING, "rule")


def _size(ticket: TicketView, pen: Pen) -> Span:
    return f"≈{short_count(ticket.estimated_tokens)}", "dim"


_WAITING = (
    _Column("PRIO", 4, 2, _priority, "<"),
    _Column("SINCE", 6, 1, _since),
    _Column("HELD BY", 8, 0, _gate, "<"),
    _Column("STILL", 6, 0, _until),
    _Column("TOKENS", 6, 4, _size),
)


# --- Rows of both ------------------------------------------------------------------------------------------------


def _fitting(columns: Sequence[_Column], before: int, width: int) -> tuple[list[_Column], int]:
    """The columns that fit beside what stands before the name, and the name's width. Depends on the width alone."""
    kept = list(columns)

    def left() -> int:
        return width - before - sum(column.width + 1 for column in kept)

    while left() < _NAME[0] and any(column.rank for column in kept):
        kept.remove(max(kept, key=lambda column: column.rank))
    return kept, max(1, min(_NAME[1], left()))


def _head(first: str, before: int, second: str, columns: Sequence[_Column], name: int, width: int, pen: Pen) -> Strip:
    heads = "".join(" " + fit(column.head, column.width, column.align) for column in columns)
    used = before + 1 + name + len(heads)
    model = "  MODEL" if width - used - 2 >= _MODEL else ""
    return pen.row(width, (f"{fit(first, before)} {fit(second, name)}{heads}{model}", "dim"))


def _row(
    ticket: TicketView,
    spans: list[Span],
    columns: Sequence[_Column],
    used: int,
    more: str,
    width: int,
    pen: Pen,
) -> Strip:
    for column in columns:
        text, role = column.cell(ticket, pen)
        spans.append((" " + fit(text, column.width, column.align), role))
        used += column.width + 1
    rest = width - used - 2
    # A few letters of a model's name say nothing.
    if rest >= _MODEL and more:
        spans.append(("  " + fit(more, rest), "dim"))
    return pen.row(width, *spans, link=call("app.pick_agent", ticket.agent))
