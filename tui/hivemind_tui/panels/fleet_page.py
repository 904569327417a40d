"""The proxies that share a key: what each does, and who took what of the key in the last minute."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct
from textual.strip import Strip

from hivemind.text.humanise import NOTHING, short_count, short_duration, short_plural
from hivemind.world.fleet import SILENT_S, Fleet, FleetLane, Member, MemberLane, Taken, of_key
from hivemind_tui.panels import lanes
from hivemind_tui.panels.agent_table import number
from hivemind_tui.panels.log import render_newest
from hivemind_tui.render.format import fit, percent, wrapped
from hivemind_tui.render.glyphs import lease_sign
from hivemind_tui.render.pen import Pen, Row, Span, call
from hivemind_tui.render.rows import described
from hivemind_tui.render.table import Column, Rows, Table, heads, row, scrolling
from hivemind_tui.state.view import View, join

NONE = "In no fleet. Proxies that share a key join one with the same store: hivemind-tui --fleet redis://HOST"
_ABOUT = (
    (
        "what",
        "Each machine runs its own proxy, and its agents talk to that one. All proxies with the same API key draw"
        " on the same rate limits: without a fleet each believes that it has all of them, until 429s say otherwise.",
    ),
    (
        "gains",
        "In a fleet they lease slots and shares of the rate windows from a common store, by what each has to"
        " send. One open circuit or Retry-After holds for all, and so do budgets.",
    ),
    (
        "start",
        "A Redis or Valkey server that every machine reaches. On each machine: hivemind-tui --fleet redis://HOST",
    ),
    ("look", "hivemind-tui --attach redis://HOST shows all of them on one screen; hivemind fleet tells it in a table."),
    ("failure", "Where the store can't be reached, the proxies go on with a safe share of the last limits known."),
)
_BAR = 5
_KINDS = {"requests": "requests", "input": "input tokens", "output": "output tokens", "tokens": "tokens"}
_LABEL = 10
_TALL = 99
"""Any height at which a panel has its frame."""
_NAME = 24
_FIGURES = 14
"""After a bar: what was taken, and its part."""
_LISTED = 6
"""Proxies that a block lists before another block is left out in their favour."""
_EVENTS = 6
"""Least rows for the newest lines of the log."""


class _Line(Struct, frozen=True):
    """A row of the table: a proxy, or all of them."""

    member: Member
    state: str
    lane: MemberLane | None = None
    taken: Taken | None = None
    me: bool = False
    sums: bool = False

    @property
    def demand(self) -> float | None:
        return None if self.taken is None else self.taken.demand

    @property
    def share(self) -> float | None:
        return None if self.taken is None else self.taken.share


def _slots(line: _Line, _pen: Pen) -> Span:
    if line.lane is None:
        return NOTHING, "rule"
    of = "∞" if line.lane.slots is None else f"{int(line.lane.slots)}"
    return f"{line.lane.in_flight}/{of}", "strong" if line.sums else "text"


def _part(part: float | None, pen: Pen, role: str) -> Span:
    if part is None:
        return "", "rule"
    cells = min(_BAR, round(part * _BAR))
    return f"{pen.glyphs.full * cells}{pen.glyphs.empty * (_BAR - cells)} {percent(part, 1):>4}", role


def _lease(line: _Line, _pen: Pen) -> Span:
    age = None if line.lane is None else line.lane.lease_age_s
    return ("" if line.sums else short_duration(age), "wait" if age is not None and age > SILENT_S else "dim")


def _seen(line: _Line, _pen: Pen) -> Span:
    if line.sums or line.state == "unknown":
        return "" if line.sums else NOTHING, "rule"
    return short_duration(line.member.seen_s), "bad" if line.state == "silent" else "dim"


FLEET: Table[_Line] = Table(
    Column("name", "PROXY", 12, 0, lambda e, _: (e.member.label, "strong" if e.me or e.sums else "text"), "<"),
    (
        Column("state", "STATE", 10, 0, lambda e, pen: ("", "dim") if e.sums else pen.worded(lease_sign(e.state)), "<"),
        Column("agents", "AGENTS", 6, 4, lambda e, _: number(e.member.agents)),
        Column("active", "ACTIVE", 6, 6, lambda e, _: number(e.member.active)),
        Column("in_flight", "IN FLIGHT", 8, 1, lambda e, _: number(e.member.in_flight, "ok")),
        Column("queue", "QUEUE", 5, 1, lambda e, _: number(e.member.waiting, "wait")),
        Column("slots", "SLOTS", 7, 2, _slots),
        Column("demand", "DEMAND", 10, 3, lambda e, pen: _part(e.demand, pen, "wait"), "<"),
        Column("share", "SHARE", 10, 0, lambda e, pen: _part(e.share, pen, "info"), "<"),
        Column("lease", "LEASE", 6, 5, _lease),
        Column("seen", "SEEN", 6, 7, _seen),
        Column("version", "VERSION", 9, 8, lambda e, _: (e.member.version, "dim"), "<"),
        Column("pid", "PID", 7, 10, lambda e, _: ("" if e.sums else str(e.member.pid), "dim")),
    ),
    rest=Column("address", "ADDRESS", 22, 9, lambda e, _: (e.member.address, "dim"), "<"),
    names=(12, _NAME),
)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the page's rows: the table, below it the key, and the newest lines of the log where there is room."""
    fleet = view.fleet
    if not fleet.store:
        return _without(view, width, height, pen)
    if not fleet.members:
        return pen.message("Fleet", fleet.away or "No proxy of the fleet is there.", width, height, fleet.store)
    frame = height - pen.body_size(width, height)[1]
    wanted = len(fleet.members) + 1 + (len(fleet.members) > 1) + frame
    table = min(wanted, max(6, height // 2))
    if height - table < frame + 3:
        table = height
    rows = _table(view, width, table, pen)
    below = height - len(rows)
    if below <= 0:
        return rows
    left = below - frame - (1 if view.key is None else _key_rows(view.key))
    events = left if left >= _EVENTS else 0
    rows += render_key(view, width, below - events, pen)
    return rows + render_newest(view, width, events, pen) if events else rows


def rows_alone(view: View, width: int, pen: Pen) -> int:
    """Return how many rows the page has use for where there is no store: the text, and a row for each lane."""
    cells, rows = pen.body_size(width, _TALL)
    count = min(len(view.snapshot.lanes), _LISTED)
    return len(_about(cells)) + _TALL - rows + (count + 1 + _TALL - rows if count else 0)


@lru_cache(maxsize=4)
def _about(cells: int) -> Sequence[Row]:
    """Return what a fleet is and how to get one, in rows of so many cells."""
    return [*([(line, "text")] for line in wrapped(NONE, cells)), [], *described(_ABOUT, cells, _LABEL)]


def _without(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the page's rows where there is no store: what a fleet is, and what this proxy does alone."""
    cells, rows = pen.body_size(width, height)
    text = _about(cells)
    frame, count = height - rows, min(len(view.snapshot.lanes), _LISTED)
    lanes_rows = min(rows_alone(view, width, pen), height) - len(text) - frame
    if not count or lanes_rows < count + 1 + frame:
        return pen.frame("Fleet", "this proxy is alone", text, width, height)
    above = pen.frame("Fleet", "this proxy is alone", text, width, height - lanes_rows)
    return [*above, *lanes.render(view, width, lanes_rows, pen)]


def _table(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    fleet, key = view.fleet, view.key
    cells, rows = pen.body_size(width, height)
    lines = [_line(member, key, fleet) for member in fleet.members]
    chosen = next((line for line in lines if line.member is view.proxy), None)
    shown = Rows(lines, chosen, link=lambda line: call("app.pick", "member", line.member.id))
    sums = [_sums(fleet, key)] if len(lines) > 1 and rows > 3 else []

    def draw(items: Sequence[_Line], room: int) -> list[Strip]:
        placed = FLEET.placed(room)
        return [heads(FLEET, placed, shown, room, pen), *(row(line, placed, shown, room, pen) for line in items)]

    body = scrolling(shown, cells, rows - len(sums), pen, draw)
    if sums:
        room = cells - (len(lines) > rows - 2)
        body.append(row(sums[0], FLEET.placed(room), Rows(sums), room, pen))
    return pen.frame("Fleet", _note(fleet), body, width, height)


def _line(member: Member, key: FleetLane | None, fleet: Fleet) -> _Line:
    lane = None if key is None else of_key(member, key.lane)
    taken = None if key is None else next((each for each in key.taken if each.member == member.id), None)
    return _Line(member, fleet.state_of(member), lane, taken, member.id == fleet.me)


def _sums(fleet: Fleet, key: FleetLane | None) -> _Line:
    members = fleet.members
    whole = Member(
        id="",
        machine="",
        pid=0,
        version="",
        protocol=0,
        address="",
        started=0.0,
        agents=sum(member.agents for member in members),
        active=sum(member.active for member in members),
        in_flight=sum(member.in_flight for member in members),
        waiting=sum(member.waiting for member in members),
        label=f"all {len(members)}",
    )
    lane = None
    if key is not None:
        lane = MemberLane(key.lane, "", "", "", None, key.in_flight, key.waiting, 0.0, key.level, key.level)
    return _Line(whole, "", lane, sums=True)


def _note(fleet: Fleet) -> str:
    trouble = f"{fleet.troubled} in trouble" if fleet.troubled else ""
    return join(trouble, "store away" if fleet.away else "", short_plural(len(fleet.members), "member"), fleet.store)


# --- Who took what of the key -----------------------------------------------------------------------------------------


class _Block(Struct, frozen=True):
    """One thing that the proxies share: slots, or a rate window."""

    title: str
    limit: float | None
    taken: Sequence[tuple[str, float, bool]]
    """Who, how much, and whether it is this proxy."""

    @property
    def used(self) -> float:
        return sum(value for _, value, _ in self.taken)

    @property
    def fullness(self) -> float:
        return self.used / self.limit if self.limit else 0.0


def render_key(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: for slots and each rate window whose part of it is how large, end to end."""
    cells, rows = pen.body_size(width, height)
    key = view.key
    if key is None:
        return pen.message("Key", "No key is shared yet: a lane opens with the first request.", width, height)
    blocks = _blocks(key, view.fleet.me)
    members = len(key.taken)
    least = min(members, _LISTED) + 2
    while len(blocks) > 1 and len(blocks) * (least + 1) - 1 > rows:
        blocks.pop()
    gaps = len(blocks) - 1
    each = min(members + 2, (rows - gaps) // len(blocks))
    lines: list[Row] = []
    for block in blocks:
        lines += [*([[]] if lines else []), *_block_rows(block, cells, each, pen)]
    slots = " in flight" if key.level is None else f"/{int(key.level)} slots"
    count = len(view.fleet.lanes)
    place = f"{view.lane_index % count + 1}/{count}, tab" if count > 1 else ""
    note = join(f"{key.in_flight}{slots}", f"{key.waiting} waiting" if key.waiting else "", place)
    return pen.frame(f"Key {key.shown}", note, lines, width, height)


def _key_rows(key: FleetLane) -> int:
    """Return the rows of all blocks with all proxies."""
    return (len(key.windows) + 1) * (len(key.taken) + 3) - 1


def _blocks(key: FleetLane, me: str) -> list[_Block]:
    """Return what is shared, slots first, then the windows of which the least is left."""
    slots = _Block("slots", key.level, [(each.label, float(each.in_flight), each.member == me) for each in key.taken])
    several = len({window.family for window in key.windows}) > 1
    windows = []
    for n, window in enumerate(key.windows):
        kind = _KINDS.get(window.kind, window.kind)
        title = f"{window.family} {kind}" if several else kind
        taken = [(each.label, each.used[n], each.member == me) for each in key.taken]
        windows.append(_Block(f"{title}, last minute", window.limit, taken))
    return [slots, *sorted(windows, key=lambda block: -block.fullness)]


def _block_rows(block: _Block, cells: int, rows: int, pen: Pen) -> list[Row]:
    used, limit = block.used, block.limit
    full = block.fullness
    role = "bad" if full > 1 else "wait" if full >= 0.9 else "strong"
    head: Row = [
        (block.title, "title"),
        (f"  {short_count(used).strip()}", role),
        (" used" if limit is None else f" of {short_count(limit).strip()}", "dim"),
        ("" if limit is None else f"  {percent(full, 1)}", role),
    ]
    taken = [*block.taken] if rows > 1 else []
    room = rows - 1 - (limit is not None and rows > 2)
    if len(taken) > room > 0:
        by_size = sorted(taken, key=lambda each: -each[1])
        rest = by_size[room - 1 :]
        shown = {*by_size[: room - 1]}
        taken = [each for each in taken if each in shown][: room - 1]
        taken.append((f"{len(rest)} more", sum(value for _, value, _ in rest), False))
    name = max(8, min(_NAME, cells // 4, max((len(label) for label, _, _ in taken), default=0)))
    width = max(4, cells - 2 - name - 1 - _FIGURES)
    whole = max(used, limit or 0.0) or 1.0
    lines: list[Row] = [head]
    before = 0.0
    for label, value, mine in taken:
        start, end = round(before / whole * width), round((before + value) / whole * width)
        end = max(end, min(width, start + 1)) if value > 0 else start
        lines.append(
            [
                (f"  {fit(label, name)} ", "strong" if mine else "text"),
                (pen.glyphs.empty * start, "rule"),
                (pen.glyphs.full * (end - start), "accent" if mine else "info"),
                (pen.glyphs.empty * (width - end), "rule"),
                (fit(short_count(value).strip(), 7, ">"), "text"),
                (fit(percent(value / used, 1) if used else NOTHING, 6, ">"), "dim"),
            ]
        )
        before += value
    if limit is not None and rows > 2:
        start = min(width, round(used / whole * width))
        lines.append(
            [
                (f"  {fit('left', name)} ", "dim"),
                (pen.glyphs.empty * start, "rule"),
                (pen.glyphs.part * (width - start), "ok"),
                (fit(short_count(max(0.0, limit - used)).strip(), 7, ">"), "strong"),
            ]
        )
    return lines
