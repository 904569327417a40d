"""One request's headers, credentials masked."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    pairs = view.detail.request_headers if view.detail is not None else ()
    body = [ink.row(cells, (f"{name}: ", "dim"), (text, "text")) for name, text in pairs]
    return ink.frame("Headers", "", body, width, height)
