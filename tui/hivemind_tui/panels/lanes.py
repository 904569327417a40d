"""All lanes at once: a row each, of which one is in focus.

Header, vitals and this list are about the whole proxy; slots, curve, windows and circuit about the lane in focus.
"""

from __future__ import annotations

import math
from collections import Counter

from msgspec import Struct
from textual.strip import Strip

from hivemind.records import replace
from hivemind.scheduler.events import WindowState
from hivemind.text.humanise import NOTHING, short_count, short_duration, short_plural
from hivemind.world.gates import WINDOW_GATES
from hivemind.world.snapshot import LaneView, Snapshot
from hivemind.world.verdict import lanes_held_up
from hivemind_tui.panels.limits import SCARCE, SHORT, gone, is_used_up
from hivemind_tui.plots.canvas import columns, steps
from hivemind_tui.plots.sample import span_of
from hivemind_tui.render.format import fit
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.render.table import Column, Rows, Table
from hivemind_tui.render.table import render as render_table
from hivemind_tui.state.view import View, join

_TAIL = 5
"""Cells that a lane's key keeps where its name is too long: a colon, and the last letters."""
_NAMES = 18
_CURVE = 10
_GAUGE = 6
_ROOMY = 120
"""Cells from which the curve is longer."""


class _Lane(Struct, frozen=True):
    """A lane, and what the snapshot says of its tickets."""

    view: LaneView
    in_flight: int
    waiting: int
    longest_s: float
    runs_out: tuple[float | None, ...]
    """When each window runs out at the present rate."""
    failing: bool
    """Whether the verdict says that many of its attempts fail."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: a head and a row for each lane, scrolled so that the one in focus is among them."""
    cells, rows = pen.body_size(width, height)
    lanes = _lanes(view.snapshot)
    focus = view.lane
    shown = Rows(
        lanes,
        next((lane for lane in lanes if lane.view is focus), None),
        link=lambda lane: call("app.pick_lane", lane.view.state.lane),
    )
    table = _ROOMY_TABLE if cells >= _ROOMY else _TABLE
    room = next((each.width for each in table.placed(cells - 1) if each.column is table.rest), 0)
    assert table.rest is not None
    table = replace(table, rest=replace(table.rest, cell=lambda lane, pen: _windows(lane, room, pen)))
    held = len(lanes_held_up(view.snapshot))
    note = join(
        short_plural(len(lanes), "lane"),
        f"{held} held up" if held else "",
        "tab shows the next one below" * (len(lanes) > 1),
        "UPSTREAM:KEY, one credential" * any(":" in lane.view.state.lane for lane in lanes),
    )
    return pen.frame("Upstreams", note, render_table(table, shown, cells, rows, pen), width, height)


def _rank(window: WindowState, end: float | None) -> tuple[float, float]:
    return math.inf if end is None else end, -gone(window) / (window.limit or 1.0)


def _lanes(snapshot: Snapshot) -> list[_Lane]:
    in_flight = Counter(ticket.lane for ticket in snapshot.slots)
    failing = {each.about for each in snapshot.verdict.findings if (each.code, each.severity) == ("errors", "degraded")}
    longest: dict[str, float] = {}
    for ticket in snapshot.queue:
        longest[ticket.lane] = max(longest.get(ticket.lane, 0.0), ticket.since_s)
    return [
        _Lane(
            view=lane,
            in_flight=in_flight[lane.state.lane],
            waiting=lane.state.waiting + lane.state.retrying,
            longest_s=longest.get(lane.state.lane, 0.0),
            runs_out=snapshot.forecast.windows.get(lane.state.lane, ()),
            failing=lane.state.lane in failing,
        )
        for lane in snapshot.lanes
    ]


def short_name(lane: str, width: int) -> str:
    """Return a lane's name in at most so many cells: of a long one the upstream is cut, and the key's tail stays."""
    if len(lane) <= width:
        return lane
    name, colon, key = lane.rpartition(":")
    if not colon or width <= _TAIL + 2:
        return fit(lane, width)
    tail = colon + key[-(_TAIL - 1) :]
    return fit(name, width - len(tail)).rstrip() + tail


def _state(lane: _Lane, pen: Pen) -> Span:
    """Return what holds a lane up, or is wrong with it, if anything, in a few words."""
    state = lane.view.state
    if state.circuit != "closed":
        word, role = pen.worded(sign(state.circuit))
        if state.circuit_forced:
            return f"{word} forced", role
        left = state.circuit_reopens_in_s
        return f"{word} {short_duration(left)}" if state.circuit == "open" and left is not None else word, role
    if state.paused:
        return f"{pen.glyphs.pause} paused", "wait"
    for family, left_s in state.pauses:
        return (
            f"{pen.glyphs.clock} {fit(family, 12) + ' ' if family else ''}waits {short_duration(left_s)}",
            "wait",
        )
    if state.upcoming and all(hold.gate in WINDOW_GATES for hold in state.upcoming):
        opens = min((hold.opens_in_s for hold in state.upcoming if hold.opens_in_s is not None), default=None)
        return f"{pen.glyphs.clock} used up{'' if opens is None else f' {short_duration(opens)}'}", "wait"
    if lane.failing:
        return f"{pen.glyphs.warn} failing", "wait"
    return f"{pen.glyphs.dot} fixed" if state.pinned else f"{pen.glyphs.dot} ok", "ok"


def _in_flight(lane: _Lane) -> str:
    level = lane.view.state.level
    return f"{lane.in_flight}" if math.isinf(level) else f"{lane.in_flight} of {int(level)}"


def _filled(lane: _Lane, pen: Pen) -> Span:
    """Return the requests in flight as a bar, and in figures."""
    level = lane.view.state.level
    limit = 0 if math.isinf(level) else int(level)
    full = min(_GAUGE, math.ceil(_GAUGE * lane.in_flight / limit)) if limit > 0 else 0
    bar = f"{pen.glyphs.full * full}{pen.glyphs.empty * (_GAUGE - full)} " if limit else ""
    return bar + fit(_in_flight(lane), 8, ">"), "info"


def _curve(cells: int, lane: _Lane, pen: Pen) -> Span:
    curve = lane.view.curve
    if not curve:
        return NOTHING, "rule"
    now, span_s = curve[-1].at, span_of(curve)
    points = [(point.at - now, point.level) for point in curve if not math.isinf(point.level)]
    top = max((y for _, y in points), default=1.0)
    return steps(columns(points, span_s, cells), top, pen.glyphs.row_steps), "ok"


def _longest(lane: _Lane, _pen: Pen) -> Span:
    return (short_duration(lane.longest_s), "wait") if lane.longest_s else (NOTHING, "rule")


def _ttft(lane: _Lane, _pen: Pen) -> Span:
    state = lane.view.state
    return short_duration(state.mean_ttft_s), "bad" if state.slow else "text"


def _windows(lane: _Lane, room: int, _pen: Pen) -> Span:
    """Return what is left in the scarcest window of each kind, after when the first of all runs out, if it fits."""
    state = lane.view.state
    scarcest: dict[str, tuple[float, WindowState]] = {}
    for window in state.windows:
        used = gone(window) / (window.limit or 1.0)
        if window.kind.value not in scarcest or used > scarcest[window.kind.value][0]:
            scarcest[window.kind.value] = used, window
    if not scarcest:
        return "none known yet", "dim"
    soon = min((end for end in lane.runs_out if end is not None), default=None)
    text = "" if soon is None else "used up" if is_used_up(soon) else f"out in {short_duration(soon)}"
    for kind, (_, window) in sorted(scarcest.items(), key=lambda item: -item[1][0]):
        left = max(0.0, window.limit - gone(window))
        part = f"{SHORT.get(kind, kind)} {short_count(left)}/{short_count(window.limit)}"
        if len(text) + len(part) + 2 <= room or not text:
            text += f"  {part}" if text else part
    most = max(used for used, _ in scarcest.values())
    return text, "bad" if most >= 0.97 or soon is not None else "wait" if most >= 1 - SCARCE else "dim"


_TABLE: Table[_Lane] = Table(
    Column("lane", "LANE", _NAMES, 0, lambda lane, _: (short_name(lane.view.state.lane, _NAMES), "text"), "<"),
    (
        Column("state", "STATE", 14, 0, _state, "<"),
        Column("in_flight", "IN FLIGHT", 9, 0, lambda lane, _: (_in_flight(lane), "info")),
        Column("curve", "LEVEL", _CURVE, 2, lambda lane, pen: _curve(_CURVE, lane, pen), "<"),
        Column("waiting", "WAIT", 4, 0, lambda lane, _: (str(lane.waiting), "wait") if lane.waiting else (".", "rule")),
        Column("longest", "LONGEST", 7, 3, _longest),
        Column("ttft", "1ST TOKEN", 9, 4, _ttft),
    ),
    rest=Column("windows", "WINDOWS, LEFT OF", 20, 1, lambda lane, pen: _windows(lane, 0, pen), "<"),
    gap=1,
    names=(_NAMES, _NAMES),
)
_LONG = 3 * _CURVE
_FILLED: Column[_Lane] = Column("in_flight", "IN FLIGHT", _GAUGE + 9, 0, _filled)
_LONGER: Column[_Lane] = Column("curve", "LEVEL", _LONG, 2, lambda lane, pen: _curve(_LONG, lane, pen), "<")
_ROOMY_TABLE = replace(
    _TABLE,
    columns=tuple({"curve": _LONGER, "in_flight": _FILLED}.get(column.id, column) for column in _TABLE.columns),
    gap=2,
)
