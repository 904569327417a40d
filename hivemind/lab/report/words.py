"""Names and short texts in a report."""

from __future__ import annotations

import html
from collections.abc import Mapping

from hivemind.world.lines import words

OUTCOMES: Mapping[str, tuple[str, str]] = {
    "answered": ("answered in the end", "answered in the end"),
    "failed": ("passed on", "an error was passed on to the agent"),
    "refused": ("refused", "HiveMind refused the request"),
    "left": ("client left", "the client left"),
    "open": ("not known", "not known how it ended"),
}
"""Ends of requests with a failed attempt, short for tables and long for plots."""
STATES: Mapping[str, str] = {
    "queued": "queued",
    "retry": "delay before the next attempt",
    "waiting": "sent, nothing back yet",
    "streaming": "answer arriving",
}
_LANE_STATES: Mapping[str, str] = {
    "open": "circuit open",
    "half_open": "circuit half open",
    "paused": "paused by the provider",
}


def lane_state(state: str) -> str:
    """Return the name of a state of a lane in which it isn't free to send."""
    return _LANE_STATES.get(state) or f"circuit {shortened(words(state))}"


def clean(text: str) -> str:
    """Replace control characters and the like, which browsers and terminals might interpret."""
    return "".join(letter if letter.isprintable() else "�" for letter in text)


def shortened(text: str, most: int = 60) -> str:
    """Return the text without control characters and at most so long."""
    shown = clean(text[: most + 1])
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def label(text: str, most: int = 28) -> str:
    """Return the text for a plot: plotly interprets some tags and placeholders, so none is left."""
    return html.escape(shortened(text, most)).replace("%{", "% {")
