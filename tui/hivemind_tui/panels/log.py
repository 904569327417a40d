"""What happened, newest at the bottom: the whole log, filtered and scrolled back, or only its newest lines; the
selected event in full, and how many there were of each kind."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from textual.strip import Strip

from hivemind.text.humanise import short_duration, short_plural
from hivemind.world.snapshot import Line
from hivemind_tui.keys.keymap import BY_ID
from hivemind_tui.panels import limits
from hivemind_tui.panels.agent_page import requests_fact, state_fact, tokens_fact
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Pen, Row, Span, call, linked
from hivemind_tui.render.rows import fact_rows, hanging
from hivemind_tui.render.table import scrolled
from hivemind_tui.state.log_rows import SEVERITIES, LogRow, found, place, rows_of
from hivemind_tui.state.view import View, join

_TAG = 9
_RECENT = 200
"""Lines that the events panel folds, and that are counted by kind."""
_WHO = (10, 20)
_LABEL = 9
_COUNT = 5
_LEVELS = {"bad": "failure", "warn": "warning", "good": "improvement", "info": "note"}
"""What an event of each level is, the gravest first."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: as many lines as fit, the newest last, with the selected one among them."""
    cells, rows = pen.body_size(width, height)
    lines = view.log_rows
    hits = set(found(lines, view.log_search))
    at = len(lines) - 1 - view.log_back
    first = max(0, scrolled(at, len(lines), rows))
    roles = {number: "accent" if number == at else "info" for number in hits}
    body: list[Row | Strip] = []
    for number in range(first, min(len(lines), first + rows)):
        spans = _row(lines[number], cells, pen, roles.get(number, ""))
        link = call("app.pick_event", *place(lines, number))
        body.append(pen.row(cells, *spans, selected=number == at, link=link))
    cut = SEVERITIES[view.log_severity][0]
    if not body:
        body.append([(_empty(view, cut), "dim")])
    newer = f"{short_plural(view.log_back, 'newer row')} below, {BY_ID['last'].shown} follows"
    back = newer if view.log_back else "following"
    kept = f"filter {view.log_filter}: {len(lines)} of {len(rows_of(view.log_lines))}" if view.log_filter else ""
    day = view.back.note("log", view.snapshot.at) if view.back.pinned else ""
    more = ", reading back" if view.log_sought else ""
    search = f"/{view.log_search}: {len(hits):,} found{more}" if view.log_search else ""
    return pen.frame("Log", join(cut, day, kept, search, back), body, width, height)


def _empty(view: View, cut: str) -> str:
    if view.log_filter:
        return "No line matches the filter (esc clears it)."
    return (
        "Nothing of that severity; : severity shows more."
        if cut and view.snapshot.lines
        else "Nothing has happened yet."
    )


def render_newest(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the log below another page: as many of the newest lines as fit."""
    cells, rows = pen.body_size(width, height)
    lines = view.snapshot.lines
    if not lines:
        return pen.message("Log", "Nothing has happened yet.", width, height)
    folded = rows_of(lines[-_RECENT:])
    troubles = sum(1 for line in lines if line.level in ("warn", "bad"))
    note = f"{short_plural(troubles, 'warning')} in the last {short_plural(len(lines), 'line')}" if troubles else ""
    return pen.frame("Log", note, [_row(row, cells, pen) for row in folded[-max(1, rows) :]], width, height)


def lines_of_agent(view: View) -> list[Line]:
    """Return the lines of the log that are about the page's agent, oldest first."""
    return [line for line in view.snapshot.lines if line.who == view.selected]


def render_of_agent(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the events of the page's agent: as many of the newest as fit."""
    cells, rows = pen.body_size(width, height)
    name = view.selected
    lines = lines_of_agent(view)
    if not lines:
        return pen.message(f"Log of {name}", "None in the newest lines of the log.", width, height)
    shown = rows_of(lines[-_RECENT:])[-max(1, rows) :]
    return pen.frame(f"Log of {name}", "", [_row(row, cells, pen) for row in shown], width, height)


def render_around(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of what happened while the page's request was open, and, where there is room for more, right
    before and after."""
    cells, rows = pen.body_size(width, height)
    one, lines = view.request, view.snapshot.lines
    until = view.snapshot.at if one is None or one.ended_at is None else one.ended_at
    if one is None or not lines or until < lines[0].at:
        return pen.message("Log around it", "The log's newest lines are all later (5 reads back).", width, height)
    first = bisect_left(lines, one.arrived_at, key=_at)
    end = bisect_right(lines, until, key=_at)
    during, spare = end - first, max(0, rows - (end - first))
    after = min(len(lines) - end, spare // 2)
    before = min(first, spare - after)
    after = min(len(lines) - end, spare - before)
    shown = rows_of(lines[first - before : end + after])[-max(1, rows) :]
    body = [_row(row, cells, pen, "text" if one.arrived_at <= row.line.at <= until else "dim") for row in shown]
    return pen.frame("Log around it", f"{during} while it was open", body, width, height)


def _at(line: Line) -> float:
    return line.at


def _row(row: LogRow, cells: int, pen: Pen, marked: str = "") -> Row:
    line = row.line
    glyph, role = pen.sign(sign(line.level))
    who = max(_WHO[0], min(_WHO[1], cells // 7))
    machine = fit(line.machine, who) + " " if line.machine else ""
    return [
        (clock(line.wall) + " ", "dim"),
        (f"{glyph} {fit(line.tag, _TAG)} ", role),
        (machine, "dim"),
        (fit(row.name, who) + " ", "text"),
        (pen.glyphs.plain(row.text), marked or ("text" if line.level != "info" else "dim")),
    ]


# --- The selected event ---------------------------------------------------------------------------------------------


def render_event(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: the selected event with its whole text, and the agent or lane that it is about."""
    cells, _ = pen.body_size(width, height)
    row = view.event
    if row is None:
        return pen.message("Event", "The selected event is shown here.", width, height)
    line, now = row.line, view.snapshot
    glyph, role = pen.sign(sign(line.level))
    since_s = max(0.0, now.wall - line.wall)
    when = f"{clock(line.wall)}, {short_duration(since_s)} ago"
    body: list[Row] = [[(f"{glyph} {_LEVELS.get(line.level, line.level)}  ", role), (line.tag, "strong")]]
    body += hanging(pen.glyphs.plain(row.text), "text", cells)
    if row.count > 1:
        body += hanging(f"first: {pen.glyphs.plain(line.text)}", "dim", cells)
        body.append([(fit("of", _LABEL), "dim"), (", ".join(sorted(row.who)), "text")])
    body += _about(view, row, cells, pen)
    return pen.frame("Event", join(line.machine, when), body, width, height)


def _about(view: View, row: LogRow, cells: int, pen: Pen) -> list[Row]:
    who = row.line.who
    agent = next((agent for agent in view.snapshot.agents if agent.name == who), None)
    if agent is not None and len(row.who) == 1:
        facts = [state_fact(agent, pen), requests_fact(view, agent), tokens_fact(view, agent, with_cost=True)]
        name = linked(agent.name, "info", call("app.open_agent", agent.name))
        return [[], [(fit("agent", _LABEL), "dim"), name], *fact_rows(facts, cells, len(facts), label=_LABEL)]
    lane = next((lane for lane in view.snapshot.lanes if who in (lane.state.lane, lane.state.upstream)), None)
    if lane is None:
        return []
    name = linked(lane.state.lane, "info", call("app.pick_lane", lane.state.lane))
    now: list[Span] = [(fit("now", _LABEL), "dim"), *limits.summary(lane.state, cells - _LABEL, pen)]
    return [[], [(fit("lane", _LABEL), "dim"), name], now]
