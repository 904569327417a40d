"""The first screen: where to point agents, shown until the first request comes."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    address = view.snapshot.address
    body = [
        ink.row(cells, ("Nobody has asked for anything yet. Point an agent here:", "text")),
        ink.row(cells),
        ink.row(cells, (f"  ANTHROPIC_BASE_URL={address}/agent/alice claude", "info")),
        ink.row(cells, (f"  OPENAI_BASE_URL={address}/agent/bob/v1 codex", "info")),
    ]
    return ink.frame("Connect", "waiting for the first request", body, width, height)
