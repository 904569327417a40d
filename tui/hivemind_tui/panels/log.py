"""The whole log: everything that happened, newest at the bottom, filtered and scrolled back."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_plural
from hivemind_tui.panels.events import line_row
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.filtering import line_fields, matching
from hivemind_tui.state.view import View, join


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: as many lines as fit, the newest last unless scrolled back."""
    cells, rows = pen.body_size(width, height)
    lines = matching(view.snapshot.lines, view.log_filter, line_fields)
    end = max(min(rows, len(lines)), len(lines) - view.log_back)
    shown = lines[max(0, end - rows) : end]
    body = [line_row(line, cells, pen) for line in shown]
    if not body:
        note = "No line matches the filter (esc clears it)." if view.log_filter else "Nothing has happened yet."
        body = [pen.row(cells, (note, "dim"))]
    back = f"{short_plural(len(lines) - end, 'newer line')} below, G follows" if end < len(lines) else "following"
    found = f"/{view.log_filter}  {len(lines)} of {len(view.snapshot.lines)}" if view.log_filter else ""
    return pen.frame("Log", join(found, back), body, width, height)
