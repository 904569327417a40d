"""The line that tells how the world stands, made a piece at a time: with many agents and tasks it takes long, and
whoever makes it keeps every other thread from running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeVar

import msgspec

from hivemind.journal.codec import begin_of
from hivemind.world.capture import Capture, ticket_state
from hivemind.world.state import Carried, WorldState

AT_ONCE = 50
"""Agents, requests or tasks: half a millisecond's worth."""
_LEAST, _VALUE, _TICKET = 10_000, 40, 1_500
"""About how many bytes of memory it takes, and each value of an agent or task, and each request."""
_encode = msgspec.json.Encoder().encode
V = TypeVar("V")


def weight_of(taken: Capture) -> int:
    """About how many bytes of memory it takes until it is written."""
    return _LEAST + _VALUE * (len(taken.agents) + len(taken.tasks)) + _TICKET * len(taken.tickets)


def carried_line(at: float, taken: Capture, rest: Callable[[], object]) -> bytes:
    """What :func:`.format.line_of` makes of the event; `rest` is called between pieces, to let others run."""
    made = {
        "agents": _array(taken.agent_starts(), taken.agent, rest),
        "tickets": _array(taken.tickets, ticket_state, rest),
        "tasks": _array(taken.task_starts(), taken.task, rest),
    }
    state = {name: made.get(name, getattr(taken.rest, name)) for name in _FIELDS}
    return begin_of(Carried) + _encode({"at": at, "state": state})[1:] + b"\n"


def _array(values: Sequence[V], make: Callable[[V], object], rest: Callable[[], object]) -> msgspec.Raw:
    pieces = []
    for start in range(0, len(values), AT_ONCE):
        pieces.append(_encode([make(each) for each in values[start : start + AT_ONCE]])[1:-1])
        rest()
    return msgspec.Raw(b"[" + b",".join(pieces) + b"]")


_FIELDS = tuple(field.name for field in fields(WorldState))
