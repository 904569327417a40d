"""One agent's requests as a waterfall: queue, attempts, first token, stream, on one time axis."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    body = [ink.row(cells, (f"#{request.ticket} {request.state}", "text"), selected=request is view.request) for request in view.listed]
    return ink.frame("Requests", "", body, width, height)
