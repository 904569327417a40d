"""Names that earlier versions used in files which this one still reads: journals, databases, and the screen's file.

Everything but this module knows today's names alone. Of the control API, the MCP tools, the metrics and a fleet's
messages there is no translation: both sides have to be of one version there, and say so in one line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CHANGED_EVENTS = frozenset({"Abandoned", "Carried", "LaneParked", "Sampled"})
"""Events of journals of version 1 whose name, or a name in them, is another one today."""
SCREEN_NAMES: Mapping[str, str] = {"fly": "in_flight", "saved": "retried_ok"}
"""Columns of the table of agents, by their names in a `screen.toml` of before."""
DATABASE_STEP = """
UPDATE agents SET record = replace(record, '"flying":', '"in_flight":');
"""
"""What makes a database of version 1 one of version 2. A quotation mark within a text of JSON has a backslash before
it, so only names of fields are replaced."""


def today(event: str, values: dict[str, Any]) -> str:
    """Rename what a line of a version 1 journal holds, in place, and return the event's name of today.

    The values may be anything, since the file may be damaged; what isn't of the right form stays as it is.
    """
    match event:
        case "Abandoned":
            _rename(values, "flying", "in_flight")
        case "Sampled":
            _lanes(values)
        case "Carried" if isinstance(state := values.get("state"), dict):
            _lanes(state)
            _rename(state.get("counts"), "rescued", "retried_ok")
            for agent in _items(state, "agents"):
                _rename(agent, "rescued", "retried_ok")
                _rename(agent, "paused", "held")
            for ticket in _items(state, "tickets"):
                _gate(ticket)
                notes = ticket.get("notes") if isinstance(ticket, dict) else None
                for note in notes if isinstance(notes, list) else ():
                    if isinstance(note, list) and note[1:2] == ["parked"]:
                        note[1] = "rate_limited"
        case "LaneParked":
            return "LaneRateLimited"
    return event


def _lanes(holder: dict[str, Any]) -> None:
    for lane in _items(holder, "lanes"):
        _rename(lane, "parked_for_s", "rate_limited_for_s")
        if isinstance(lane, dict):
            _rename(lane.get("lease"), "flying", "in_flight")
            for hold in _items(lane, "upcoming"):
                _gate(hold)


def _items(holder: dict[str, Any], name: str) -> Iterator[Any]:
    items = holder.get(name)
    yield from items if isinstance(items, list) else ()


def _gate(holder: object) -> None:
    if isinstance(holder, dict) and holder.get("gate") == "parked":
        holder["gate"] = "rate_limited"


def _rename(holder: object, earlier: str, now: str) -> None:
    if isinstance(holder, dict) and earlier in holder:
        holder.setdefault(now, holder.pop(earlier))
