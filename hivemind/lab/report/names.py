"""What things are called in a report, short for tables and long for plots."""

from __future__ import annotations

from collections.abc import Mapping

from hivemind.lab.report.words import label
from hivemind.world.lines import words

OUTCOMES: Mapping[str, tuple[str, str]] = {
    "answered": ("answered in the end", "answered in the end"),
    "failed": ("passed on", "an error was passed on to the agent"),
    "refused": ("refused", "HiveMind refused the request"),
    "left": ("client left", "the client left"),
    "open": ("not known", "not known how it ended"),
}
"""What became of a request that met a fault."""

STATES: Mapping[str, str] = {
    "queued": "waits for its turn",
    "retry": "pause before the next try",
    "waiting": "sent, nothing back yet",
    "streaming": "answer coming",
}

STRETCHES: Mapping[str, str] = {
    "open": "circuit open",
    "half_open": "circuit half open",
    "parked": "pause asked for by the provider",
}


def stretch(what: str) -> str:
    """What a time is called in which a lane's circuit wasn't closed or the provider wanted a pause."""
    return STRETCHES.get(what) or f"circuit {label(words(what))}"
