"""One agent closer, beside the table of all: what it does now, and why it waits."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    agent = view.agent
    if agent is None:
        return ink.frame("Agent", "", [], width, height)
    body = [ink.row(cells, (agent.name, "strong")), ink.row(cells, (agent.last_error, "dim"))]
    return ink.frame("Agent", "", body, width, height)
