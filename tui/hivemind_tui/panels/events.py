"""The last things that happened, newest at the bottom."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.text.humanise import short_plural
from hivemind.world.snapshot import Line
from hivemind_tui.render.format import clock, fit
from hivemind_tui.render.glyphs import sign
from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

_TAG = 8
_WHO = (10, 20)


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows: as many of the newest lines as fit."""
    cells, rows = pen.body_size(width, height)
    lines = view.snapshot.lines
    if not lines:
        return pen.message("Events", "Nothing has happened yet.", width, height)
    body = [line_row(line, cells, pen) for line in lines[-rows:]] if rows > 0 else []
    troubles = sum(1 for line in lines if line.level in ("warn", "bad"))
    note = f"{short_plural(troubles, 'warning')} in the last {short_plural(len(lines), 'line')}" if troubles else ""
    return pen.frame("Events", note, body, width, height)


def line_row(line: Line, width: int, pen: Pen) -> Strip:
    """One line of the log."""
    glyph, _ = pen.mark(line.level)
    role = sign(line.level).role
    who = max(_WHO[0], min(_WHO[1], width // 7))
    return pen.row(
        width,
        (clock(line.wall) + " ", "dim"),
        (f"{glyph} {fit(line.tag, _TAG)} ", role),
        (fit(line.who, who) + " ", "text"),
        (line.text, "text" if line.level != "info" else "dim"),
    )
