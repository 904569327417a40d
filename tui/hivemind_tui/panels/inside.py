"""How the screen itself is doing: frames, the loop, memory."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    return ink.frame("Inside", "i closes", [ink.row(cells, (str(view.inside), "text"))], width, height)
