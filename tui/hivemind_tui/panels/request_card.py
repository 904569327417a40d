"""The selected request under the table: its course in one line, and what it waits for."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    request = view.request
    if request is None:
        return ink.frame("Request", "", [], width, height)
    return ink.frame(f"#{request.ticket}", "", [ink.row(cells, (request.last_error, "dim"))], width, height)
