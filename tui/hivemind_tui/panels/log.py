"""What happened, newest at the bottom: the whole log, filtered and scrolled back, or only its newest lines."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_plural
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Pen, Row
from hivemind_tui.state.lists import line_fields, matching
from hivemind_tui.state.view import View, join

_TAG = 8
_WHO = (10, 20)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: as many lines as fit, the newest last unless scrolled back."""
    cells, rows = pen.body_size(width, height)
    lines = matching(view.snapshot.lines, view.log_filter, line_fields)
    end = max(min(rows, len(lines)), len(lines) - view.log_back)
    body = [_line(line, cells, pen) for line in lines[max(0, end - rows) : end]]
    if not body:
        note = "No line matches the filter (esc clears it)." if view.log_filter else "Nothing has happened yet."
        body = [[(note, "dim")]]
    back = f"{short_plural(len(lines) - end, 'newer line')} below, G follows" if end < len(lines) else "following"
    found = f"/{view.log_filter}  {len(lines)} of {len(view.snapshot.lines)}" if view.log_filter else ""
    return pen.frame("Log", join(found, back), body, width, height)


def render_newest(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the rows of the events panel: as many of the newest lines as fit."""
    cells, rows = pen.body_size(width, height)
    lines = view.snapshot.lines
    if not lines:
        return pen.message("Events", "Nothing has happened yet.", width, height)
    troubles = sum(1 for line in lines if line.level in ("warn", "bad"))
    note = f"{short_plural(troubles, 'warning')} in the last {short_plural(len(lines), 'line')}" if troubles else ""
    return pen.frame("Events", note, [_line(line, cells, pen) for line in lines[-max(1, rows) :]], width, height)


def _line(line: Line, cells: int, pen: Pen) -> Row:
    glyph, role = pen.sign(sign(line.level))
    who = max(_WHO[0], min(_WHO[1], cells // 7))
    machine = fit(line.machine, who) + " " if line.machine else ""
    return [
        (clock(line.wall) + " ", "dim"),
        (f"{glyph} {fit(line.tag, _TAG)} ", role),
        (machine, "dim"),
        (fit(line.who, who) + " ", "text"),
        (line.text, "text" if line.level != "info" else "dim"),
    ]
