"""All about one agent, at the top of its page."""

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
    return ink.frame(agent.name, "", [ink.row(cells, (agent.client, "dim"))], width, height)
