"""The knobs of the lane shown: values, how far each was turned, and what it does."""

from __future__ import annotations

from textual.strip import Strip

from hivemind_tui.ink import Ink, body_size
from hivemind_tui.tuning import number
from hivemind_tui.view import View


def render(view: View, width: int, height: int, ink: Ink) -> list[Strip]:
    """The panel's rows."""
    cells, _ = body_size(ink, width, height)
    knobs = view.lane.state.knobs if view.lane is not None else {}
    body = [
        ink.row(cells, (f"{name:24}", "text"), (number(value), "strong"), selected=name == view.knob)
        for name, value in knobs.items()
    ]
    return ink.frame("Knobs", view.lane_note(), body, width, height)
