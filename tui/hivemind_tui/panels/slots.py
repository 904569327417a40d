"""Requests now: those in flight, the concurrency level, and the queued ones with what holds them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import zip_longest

from msgspec import Struct
from rich.cells import cell_len
from textual.strip import Strip

from hivemind.records import replace
from hivemind.text.humanise import NOTHING, short_count, short_duration
from hivemind.text.shells import word
from hivemind.world.snapshot import LaneView, TicketView
from hivemind_tui.panels.agent_table import number
from hivemind_tui.panels.curve import trend
from hivemind_tui.panels.lanes import short_name
from hivemind_tui.render import table, wait_reason
from hivemind_tui.render.format import clean, level, whole
from hivemind_tui.render.glyphs import PRIORITIES, gate_sign, sign
from hivemind_tui.render.pen import Pen, Row, Span, call, cells_of
from hivemind_tui.render.table import Column, Placed, Rows, Table
from hivemind_tui.state.view import View, join

_TWO_COLUMNS = 74
_WITH_HEADS = 3
"""Rows from which the columns have heads."""
_WITH_MARKS = 7
"""Rows from which the signs on the level's trend have one of their own."""
_AGAIN = 2
"""Fewest free rows below a column in which the other one goes on, besides twice its heads where there are any."""
_LANE = 14
"""Cells of a lane's name where there are several."""
_NAMES = (1, 20)
"""Narrowest and widest name of an agent."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: slots and limit beside or above the queue, and without boxes the level's trend."""
    cells, rows = pen.body_size(width, height)
    lane = view.lane
    if lane is None:
        return pen.frame("Requests", "", _empty(view), width, height)
    trends = (2 if rows >= _WITH_MARKS else 1) if not pen.boxed and rows >= 4 else 0
    body = _tickets(view, lane, cells, rows - trends, pen)
    if trends:
        body += [pen.row(cells)] * (rows - trends - len(body))
        body += trend(view, lane, cells, trends, pen)
    several = not pen.boxed and len(view.snapshot.lanes) > 1
    own = _of_each(view, lane) if several else [view.lane_note(), _in_flight(lane)]
    note = join(*own, *_queued(lane))
    return pen.frame("Requests", note, body, width, height)


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


def _of_each(view: View, focus: LaneView) -> list[str]:
    """Return what each lane has in flight, that in focus first: below it the panel shows only that lane's."""
    lanes = sorted(view.snapshot.lanes, key=lambda lane: lane is not focus)
    alone = len({lane.state.upstream for lane in lanes}) == len(lanes)
    names = [lane.state.upstream if alone else short_name(lane.state.lane, _LANE) for lane in lanes]
    first, *others = (f"{name} {lane.state.active}{_of(lane)}" for name, lane in zip(names, lanes, strict=True))
    return [f"{first} in flight", *others]


def _of(lane: LaneView) -> str:
    return "" if math.isinf(lane.state.level) else f" of {int(lane.state.level)}"


def _queued(lane: LaneView) -> tuple[str, str]:
    """Return how many wait, apart: where there is room for one of them only, it is the queue."""
    waiting, retrying = lane.state.waiting, lane.state.retrying
    return f"{waiting} queued" if waiting or not retrying else "", f"{retrying} to retry" if retrying else ""


def _tickets(view: View, lane: LaneView, cells: int, rows: int, pen: Pen) -> list[Strip]:
    if rows <= 0:
        return []
    slots, queue = view.of_lane(view.snapshot.slots), view.of_lane(view.snapshot.queue)
    heads = rows >= _WITH_HEADS
    if cells >= _TWO_COLUMNS:
        return _side_by_side(_slots(slots, lane, rows - heads, pen), _queue(queue, lane, pen), cells, rows, heads, pen)
    above = max(1, rows - min(len(queue) + heads, rows // 2))
    body = _slots(slots, lane, above - heads, pen).rows(cells, above, heads, pen)
    rest = rows - len(body)
    return body + (_queue(queue, lane, pen).rows(cells, rest, heads and rest > 1, pen) if rest > 0 else [])


_UNSORTED: Rows[TicketView] = Rows(())
_Draw = Callable[[int, Sequence[Placed[TicketView]]], Strip]
"""Draws one row in so many cells."""


class _Entry(Struct, frozen=True):
    """One row of a column."""

    draw: _Draw
    tickets: int = 1
    """The tickets that it stands for."""
    kept: bool = False
    """Whether it is shown although entries before it are not."""
    name: str = ""
    """The agent that it is about."""


class _Column(Struct, frozen=True):
    """The slots, or the queue: entries that can go on in another column."""

    table: Table[TicketView]
    entries: Sequence[_Entry]
    more: str
    """What tickets that aren't shown are called."""
    hidden: int = 0
    """Tickets that have no entry."""

    def rows(self, width: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
        """Return heads and entries; the tickets that don't fit are counted in the last row, with some of their agents'
        names."""
        placed = self.table.placed(width)
        body = [table.heads(self.table, placed, _UNSORTED, width, pen)] if heads else []
        room = rows - len(body)
        if len(self.entries) + (self.hidden > 0) <= room:
            shown, left, names = [*self.entries], self.hidden, list[str]()
        else:
            kept = [entry for entry in self.entries[max(0, room - 1) :] if entry.kept]
            shown = [*self.entries[: max(0, room - 1 - len(kept))]]
            left = self.hidden + sum(entry.tickets for entry in self.entries[len(shown) :])
            names = [entry.name for entry in self.entries[len(shown) :] if entry.name]
            shown += kept
        body += [entry.draw(width, placed) for entry in shown if not (left and entry.kept and entry is shown[-1])]
        if left:
            counted = pen.more(left, self.more, indent="   ")
            body.append(pen.row(width, *counted, (_named(names, left, width - cells_of(counted), pen), "dim")))
            body += [entry.draw(width, placed) for entry in shown[-1:] if entry.kept]
        return body[:rows]

    def part(self, first: int, end: int | None = None) -> _Column:
        """Return some of the entries; only with the last one what has none."""
        return replace(self, entries=self.entries[first:end], hidden=self.hidden if end is None else 0)

    @property
    def height(self) -> int:
        """Rows that its tickets would take."""
        return sum(entry.tickets > 0 for entry in self.entries) + (self.hidden > 0)


def _named(names: Sequence[str], count: int, width: int, pen: Pen) -> str:
    """Return `: alice, bob, …`: as many names as fit, each once; of `count` requests some may have none here."""
    distinct = list(dict.fromkeys(map(clean, names)))
    for named in range(min(len(distinct), width // 3), 0, -1):  # a name and a comma take three cells at least
        cut = [pen.glyphs.ellipsis] if named < len(distinct) or count > len(names) else []
        text = f": {', '.join([*distinct[:named], *cut])}"
        if cell_len(text) <= width:
            return text
    return ""


def _side_by_side(slots: _Column, queue: _Column, cells: int, rows: int, heads: bool, pen: Pen) -> list[Strip]:
    """Return the slots beside the queue; what one has too many for its column goes on below the other."""
    each, room = (cells - 2) // 2, rows - heads
    pair = (slots, queue)
    parts: list[list[Strip]] = []
    for column, other in (pair, pair[::-1]):
        least = _AGAIN + 2 * heads
        goes_on = column.height > room and room - other.height >= least
        parts.append((column.part(0, room) if goes_on else column).rows(each, rows, heads, pen))
        if other.height > room and room - column.height >= least:
            parts[-1] += other.part(room).rows(each, rows - len(parts[-1]), heads, pen)
    gap, blank = pen.row(cells - 2 * each), pen.row(each)
    return [Strip.join([a, gap, b]) for a, b in zip_longest(*parts, fillvalue=blank)]


def _slots(tickets: list[TicketView], lane: LaneView, room: int, pen: Pen) -> _Column:
    limit = math.inf if math.isinf(lane.state.level) else max(0, int(lane.state.level))
    entries = [
        _Entry(partial(_row, ticket, [(f"{number:2} ", "dim")], pen), name=ticket.agent)
        for number, ticket in enumerate(tickets, 1)
    ]
    free = range(len(tickets) + 1, int(limit) + 1) if not math.isinf(limit) else range(0)
    if len(free) > 1 and len(tickets) + len(free) + 1 > room:
        entries.append(_Entry(partial(_words, pen.more(len(free), "free", indent="   "), pen), 0))
    else:
        entries += [_Entry(partial(_words, [(f"{n:2} {pen.glyphs.idle} free", "rule")], pen), 0) for n in free]
    # Without boxes the panel's note and the trend show the limit already.
    if pen.boxed or limit < len(tickets):
        at = len(entries) if math.isinf(limit) else min(len(entries), int(limit))
        entries.insert(at, _Entry(partial(_limit, lane, pen), 0, kept=True))
    return _Column(_IN_FLIGHT, entries, "more in flight")


def _words(spans: Sequence[Span], pen: Pen, width: int, _placed: Sequence[Placed[TicketView]]) -> Strip:
    return pen.row(width, *spans)


def _limit(lane: LaneView, pen: Pen, width: int, _placed: Sequence[Placed[TicketView]]) -> Strip:
    state, line = lane.state, pen.glyphs.frame[4]
    over = 0 if math.isinf(state.level) else state.active - int(state.level)
    notes: list[Span] = [(f" level {level(state.level)} " if not math.isinf(state.level) else " no limit ", "strong")]
    if not math.isinf(state.ceiling):
        notes.append((f"of at most {whole(state.ceiling)} ", "dim"))
    if state.pinned:
        notes.append(("fixed ", "accent"))
    if over > 0:
        notes.append((f"{over} over it ", "wait"))
    return pen.row(width, (line * 2, "rule"), *notes, (line * width, "rule"))


def _tokens(ticket: TicketView, _pen: Pen) -> Span:
    return (short_count(ticket.output_tokens), "strong") if ticket.output_tokens else (NOTHING, "rule")


def _gate(ticket: TicketView, _pen: Pen) -> Span:
    return wait_reason.gate(ticket), gate_sign(ticket.gate).role


def _rate(ticket: TicketView, _pen: Pen) -> Span:
    if ticket.state != "streaming" or not ticket.output_tokens or ticket.since_s < 1:
        return NOTHING, "rule"
    return f"{short_count(ticket.output_tokens / ticket.since_s)}/s", "dim"


_AGENT: Column[TicketView] = Column("agent", "IN FLIGHT", 9, 0, lambda t, _: (t.agent, "text"), "<", is_name=True)
# A few letters of a model's name say nothing: it is shown where it has ten cells.
_MODEL: Column[TicketView] = Column("model", "MODEL", 10, 0, lambda ticket, _: (ticket.model, "dim"), "<")
_IN_FLIGHT: Table[TicketView] = Table(
    _AGENT,
    (
        Column("state", "STATE", 8, 0, lambda ticket, pen: pen.worded(sign(ticket.state)), "<"),
        Column("prio", "PRIO", 4, 3, lambda ticket, _: PRIORITIES[ticket.priority], "<"),
        Column("since", "FOR", 6, 0, lambda ticket, _: (short_duration(ticket.since_s), "text")),
        Column("tokens", "OUT", 4, 0, _tokens),
        Column("rate", "OUT/S", 6, 4, _rate),
        Column("try", "TRIES", 5, 2, lambda ticket, _: number(ticket.attempt if ticket.attempt > 1 else 0, "recover")),
    ),
    rest=_MODEL,
    lead=3,
    gap=1,
    names=_NAMES,
)


def _queue(tickets: list[TicketView], lane: LaneView, pen: Pen) -> _Column:
    total = max(len(tickets), lane.state.waiting + lane.state.retrying)
    if not tickets:
        words = [(f"{total} queued" if total else "nothing is queued", "dim")]
        return _Column(_QUEUED, [_Entry(partial(_words, words, pen), 0)], "more")
    entries: list[_Entry] = []
    for ticket in tickets:
        place = f"{ticket.position:2} " if ticket.position is not None else "   "
        glyph, role = pen.mark(ticket.state)
        draw = partial(_row, ticket, [(place, "dim"), (f"{glyph} ", role)], pen)
        entries.append(_Entry(draw, name=ticket.agent))
    return _Column(_QUEUED, entries, "more", total - len(tickets))


def _eta(ticket: TicketView, _pen: Pen) -> Span:
    when = wait_reason.eta(ticket)
    return (when, "strong") if when else (NOTHING, "rule")


_QUEUED: Table[TicketView] = Table(
    replace(_AGENT, head="QUEUE"),
    (
        Column("prio", "PRIO", 4, 2, lambda ticket, _: PRIORITIES[ticket.priority], "<"),
        Column("since", "WAITS", 6, 1, lambda ticket, _: (short_duration(ticket.since_s), "text")),
        Column(
            "gate", "WAITS FOR", 9, 0, lambda ticket, _: (wait_reason.gate(ticket), gate_sign(ticket.gate).role), "<"
        ),
        Column("eta", "ETA", 6, 0, _eta),
        Column("tokens", "TOKENS", 6, 4, lambda ticket, _: (f"≈{short_count(ticket.estimated_tokens)}", "dim")),
    ),
    rest=replace(_MODEL, cell=lambda e, _: (e.last_error if e.state == "retry" else e.model, "dim")),
    lead=5,
    gap=1,
    names=_NAMES,
)


def _row(ticket: TicketView, lead: Sequence[Span], pen: Pen, width: int, placed: Sequence[Placed[TicketView]]) -> Strip:
    return pen.row(
        width, *lead, *(each.span(ticket, pen) for each in placed), link=call("app.pick_agent", ticket.agent)
    )
