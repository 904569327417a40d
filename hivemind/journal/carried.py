"""The line that tells how the world stands, made a piece at a time: with many agents and tasks it takes long, and
whoever makes it keeps every other thread from running."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TypeVar

import msgspec

from hivemind.world.state import Carried, WorldState
from hivemind.world.taken import Taken, agent_state, ticket_state

from .format import begin_of

AT_ONCE = 50
"""Agents, requests or tasks: half a millisecond's worth."""
_AGENT, _TICKET, _TASK = 1_000, 1_500, 600
"""About how many bytes of memory each takes."""
_encode = msgspec.json.Encoder().encode
V = TypeVar("V")


def weight_of(taken: Taken) -> int:
    """About how many bytes of memory it takes until it is written."""
    return _AGENT * (1 + len(taken.agents)) + _TICKET * len(taken.tickets) + _TASK * len(taken.tasks)


def carried_line(at: float, taken: Taken, rest: Callable[[], object]) -> bytes:
    """What :func:`.format.line_of` makes of the event; `rest` is called between pieces, to let others run."""
    made = {
        "agents": _array(taken.agents, agent_state, rest),
        "tickets": _array(taken.tickets, ticket_state, rest),
        "tasks": _array(taken.moved(), taken.task_state, rest),
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
