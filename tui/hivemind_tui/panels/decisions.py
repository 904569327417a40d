"""What was decided about one request, in order."""

from __future__ import annotations

from textual.strip import Strip

from hivemind.world.request_view import Decision, RequestView
from hivemind_tui.panels.request_timeline import detail_of, subject
from hivemind_tui.render.format import clock
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.render.phases import fine
from hivemind_tui.render.wrapping import broken, scrolled
from hivemind_tui.state.view import View

_ROWS = 3
"""At most, for one decision."""
_NARROW = 60
"""With fewer cells the time of day makes room for the words."""


def render(view: View, width: int, height: int, pen: Pen) -> list[Strip]:
    """Return the panel's rows, scrolled: time of day, time since the arrival, level and text."""
    cells, rows = pen.body_size(width, height)
    request, detail = subject(view), detail_of(view)
    if request is None or detail is None:
        note = absent(request)
        return pen.message("Decisions", note, width, height)
    wall_s = view.snapshot.wall - view.snapshot.at
    entries = [_entry(decision, request.arrived_at, wall_s, cells - 1, pen) for decision in detail.decisions]
    body = scrolled(entries, view.scroll, cells, rows, pen)
    return pen.frame("Decisions", f"{len(entries)}", body, width, height)


def absent(request: RequestView | None) -> str:
    """Return why there is nothing to show."""
    return "Forgotten." if request is None else "Asking…"


def _entry(decision: Decision, arrived_at: float, wall_s: float, cells: int, pen: Pen) -> list[Strip]:
    glyph, role = pen.mark(decision.level)
    day = f"{clock(decision.at + wall_s)}  " if cells >= _NARROW else ""
    since = f"+{fine(decision.at - arrived_at)}"
    times = f"{day}{since:>7}  "
    texts = broken(decision.text, cells - len(times) - 2, _ROWS, pen.glyphs.ellipsis)
    heads: list[list[Span]] = [[(times, "dim"), (f"{glyph} ", role)]]
    heads += [[(" " * (len(times) + 2), "text")]] * (len(texts) - 1)
    return [
        pen.row(cells, *head, (text, "bad" if decision.level == "bad" else "text"))
        for head, text in zip(heads, texts, strict=True)
    ]
