"""What was decided about one request, in order."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    decisions = view.detail.decisions if view.detail is not None else ()
    body = [ink.row(cells, (decision.text, "text")) for decision in decisions]
    return ink.frame("Decisions", "", body, width, height)
