"""What happened, newest at the bottom: the whole log, filtered and scrolled back, or only its newest lines."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_plural
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Pen, Row
from hivemind_tui.state.log_rows import SEVERITIES, LogRow, found, rows_of
from hivemind_tui.state.view import View, join

_TAG = 8
_RECENT = 200
"""Lines that the events panel folds."""
_WHO = (10, 20)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: as many lines as fit, the newest last unless scrolled back."""
    cells, rows = pen.body_size(width, height)
    lines = view.log_rows
    hits = set(found(lines, view.log_search))
    end = max(min(rows, len(lines)), len(lines) - view.log_back)
    at = len(lines) - 1 - view.log_back
    roles = {number: "accent" if number == at else "info" for number in hits}
    body = [_row(lines[number], cells, pen, roles.get(number, "")) for number in range(max(0, end - rows), end)]
    cut = SEVERITIES[view.log_severity][0]
    if not body:
        body = [[(_empty(view, cut), "dim")]]
    back = f"{short_plural(len(lines) - end, 'newer row')} below, G follows" if end < len(lines) else "following"
    kept = f"filter {view.log_filter}: {len(lines)} of {len(rows_of(view.log_lines))}" if view.log_filter else ""
    more = ", reading back" if view.log_sought else ""
    search = f"/{view.log_search}: {len(hits):,} found{more}" if view.log_search else ""
    return pen.frame("Log", join(cut, kept, search, back), body, width, height)


def _empty(view: View, cut: str) -> str:
    if view.log_filter:
        return "No line matches the filter (esc clears it)."
    return "Nothing of that severity; s shows more." if cut and view.snapshot.lines else "Nothing has happened yet."


def render_newest(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the events panel: as many of the newest lines as fit."""
    cells, rows = pen.body_size(width, height)
    lines = view.snapshot.lines
    if not lines:
        return pen.message("Events", "Nothing has happened yet.", width, height)
    folded = rows_of(lines[-_RECENT:])
    troubles = sum(1 for line in lines if line.level in ("warn", "bad"))
    note = f"{short_plural(troubles, 'warning')} in the last {short_plural(len(lines), 'line')}" if troubles else ""
    return pen.frame("Events", note, [_row(row, cells, pen) for row in folded[-max(1, rows) :]], width, height)


def lines_of_agent(view: View) -> list[Line]:
    """Return the lines of the log that are about the page's agent, oldest first."""
    return [line for line in view.snapshot.lines if line.who == view.selected]


def render_of_agent(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the events of the page's agent: as many of the newest as fit."""
    cells, rows = pen.body_size(width, height)
    name = view.selected
    lines = lines_of_agent(view)
    if not lines:
        return pen.message(f"Events of {name}", "None in the newest lines of the log.", width, height)
    shown = rows_of(lines[-_RECENT:])[-max(1, rows) :]
    return pen.frame(f"Events of {name}", "", [_row(row, cells, pen) for row in shown], width, height)


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
