"""Slots and queue: what is in flight, where the limit is, and who waits in which order."""

from __future__ import annotations

import math
from itertools import zip_longest

from textual.strip import Strip

from hivemind.snapshot import LaneView, TicketView
from hivemind_tui.format import NOTHING, count, fit, level, seconds, whole
from hivemind_tui.glyphs import PRIORITIES, sign
from hivemind_tui.ink import Ink, Span, body_size
from hivemind_tui.view import View, join

from .curve import trend

_TWO_COLUMNS = 70


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows: flying tickets and the limit, beside (or, where narrow, above) the queue.

    Where there are no boxes there is no room for the curve's panel either, so the level's trend stands here.
    """
    cells, rows = body_size(ink, width, height)
    lane = view.lane
    if lane is None:
        return ink.frame("Slots and queue", "", _empty(view, cells, ink), width, height)
    trends = 1 if not ink.boxed and rows >= 4 else 0
    body = _tickets(view, lane, cells, rows - trends, ink)
    if trends:
        body += [ink.row(cells)] * (rows - trends - len(body))
        label = "level over time  "
        body.append(Strip.join([ink.row(len(label), (label, "dim")), trend(lane, cells - len(label), ink)]))
    return ink.frame("Slots and queue", join(_summary(lane), view.lane_note()), body, width, height)


def _tickets(view: View, lane: LaneView, cells: int, rows: int, ink: Ink) -> list[Strip]:
    flying, waiting = view.of_lane(view.snapshot.slots), view.of_lane(view.snapshot.queue)
    if cells >= _TWO_COLUMNS:
        left = max(40, cells // 2)
        right = cells - left - 2
        pairs = zip_longest(_flying(flying, lane, left, rows, ink), _waiting(waiting, lane, right, rows, ink))
        return [Strip.join([a or ink.row(left), ink.row(2), b or ink.row(right)]) for a, b in pairs]
    share = max(1, rows - min(len(waiting) + 1, rows // 2))
    body = _flying(flying, lane, cells, share, ink)
    return body + _waiting(waiting, lane, cells, rows - len(body), ink)


def _empty(view: View, width: int, ink: Ink) -> list[Strip]:
    address = view.snapshot.address
    return [
        ink.row(width, ("Nobody has asked for anything yet. Point an agent here:", "text")),
        ink.row(width),
        ink.row(width, (f"  ANTHROPIC_BASE_URL={address}/agent/alice claude", "info")),
        ink.row(width, (f"  OPENAI_BASE_URL={address}/agent/bob/v1 codex", "info")),
    ]


def _summary(lane: LaneView) -> str:
    state = lane.state
    if math.isinf(state.level):
        return f"{state.active} in flight, no limit"
    free = max(0, int(state.level) - state.active)
    return f"{state.active} of {int(state.level)} in flight, {free} free"


def _flying(tickets: list[TicketView], lane: LaneView, width: int, rows: int, ink: Ink) -> list[Strip]:
    room = max(0, rows - 1)
    shown = tickets if len(tickets) <= room else tickets[: max(0, room - 1)]
    body = [_row(ticket, width, ink) for ticket in shown]
    if len(shown) < len(tickets):
        body.append(ink.row(width, (f"{ink.glyphs.ellipsis} {len(tickets) - len(shown)} more in flight", "dim")))
    if not tickets:
        body.append(ink.row(width, ("nothing in flight", "dim")))
    state = lane.state
    line = ink.glyphs.frame[4]
    limit = f" limit {level(state.level)} " if not math.isinf(state.level) else " no limit "
    body.insert(
        min(len(body), max(0, rows - 1)),
        ink.row(
            width,
            (line * 2, "rule"),
            (limit, "strong"),
            (f"ceiling {whole(state.ceiling)} {'pinned ' if state.pinned else ''}", "dim"),
            (line * width, "rule"),
        ),
    )
    return body[:rows]


def _waiting(tickets: list[TicketView], lane: LaneView, width: int, rows: int, ink: Ink) -> list[Strip]:
    if rows <= 0:
        return []
    total = lane.state.waiting + lane.state.retrying
    if not tickets:
        return [ink.row(width, ("nobody waits", "dim"))]
    shown = tickets if len(tickets) < rows and total <= len(tickets) else tickets[: max(0, rows - 2)]
    head = [(f"{lane.state.waiting} waiting", "strong"), (f", {lane.state.retrying} between tries", "dim")]
    body = [ink.row(width, *head)] + [_row(ticket, width, ink) for ticket in shown]
    if len(shown) < total:
        body.append(ink.row(width, (f"{ink.glyphs.ellipsis} {total - len(shown)} more", "dim")))
    return body[:rows]


def _row(ticket: TicketView, width: int, ink: Ink) -> Strip:
    glyph, role = ink.mark(ticket.state)
    word, colour = PRIORITIES[ticket.priority]
    name = min(16, max(8, width - 32))
    when = f"in {seconds(ticket.retry_in_s)}" if ticket.state == "retry" else seconds(ticket.since_s)
    spans: list[Span] = [
        (f"{glyph} ", role),
        (fit(sign(ticket.state).word, 7), role),
        (fit(ticket.agent, name) + " ", "text"),
        (fit(word, 5), colour),
        (fit(when, 7, ">") + " ", "text"),
    ]
    detail = _detail(ticket, width, ink)
    left = width - name - 23 - sum(len(text) for text, _ in detail)
    # A few letters of a model's name say nothing.
    more = ticket.last_error if ticket.state == "retry" else ticket.model
    return ink.row(width, *spans, *detail, (f" {more}" if left >= 7 else "", "dim"))


def _detail(ticket: TicketView, width: int, ink: Ink) -> list[Span]:
    number = ticket.attempt if flying(ticket) else ticket.attempt + 1
    tries: list[Span] = [(f"try {number}", "recover")] if number > 1 else []
    if ticket.state == "retry":
        return tries
    if ticket.state == "queued":
        return tries or [(f"{ink.glyphs.about}{count(ticket.estimated_tokens)} ", "dim")]
    unit = " tok " if width >= 46 else " "
    tokens = count(ticket.output_tokens) if ticket.output_tokens else NOTHING
    return [(fit(tokens, 4, ">"), "text"), (unit, "dim"), *tries]


def flying(ticket: TicketView) -> bool:
    """Whether the ticket holds a slot."""
    return ticket.state in ("waiting", "streaming")
