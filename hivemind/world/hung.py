"""Which requests are hung: nothing of their answer has come for far longer than is usual for their model and size.

Of a request that was sent it counts what the answers to the same model took to begin, as a whole and by the token of
their prompts (a long prompt takes long on a small server); within a stream, how long its model has paused before.
"""

from __future__ import annotations

from msgspec import Struct

from hivemind.scheduler.events import Arrived
from hivemind.world.snapshot import MODELS_KEPT
from hivemind.world.tickets import TicketFold

LEAST_S = 30.0
"""What came within this time is no sign of anything."""
_TIMES = 10.0
"""How many times as long as is usual an answer takes to begin that doesn't come."""
_PAUSES = 2.0
"""The same of a pause, of which the longest is known."""
_UNKNOWN_S = 120.0
"""For a model's first whole answer, and for its first one at an upstream without rate limits, which may compute on this
machine."""
_RATE = 0.2  # weight of each answer
_FADES = 0.98  # of the longest pause, with each answer that has begun


class _Usual(Struct):
    begins_s: float
    """Mean time to first content."""
    token_s: float
    """The same by the input token."""
    pause_s: float = 0.0
    """About the longest time between two pieces of a stream."""


class Usual:
    """What is usual, by model and whether the answer is a stream."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], _Usual] = {}

    def began(self, arrived: Arrived, ttft_s: float) -> None:
        """Learn from the answer to such a request, which begins."""
        key, token_s = (arrived.model, arrived.stream), ttft_s / (arrived.estimated_input or 1)
        if (known := self._known.get(key)) is None:
            if len(self._known) >= MODELS_KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = _Usual(ttft_s, token_s)
            return
        known.begins_s += _RATE * (ttft_s - known.begins_s)
        known.token_s += _RATE * (token_s - known.token_s)
        known.pause_s *= _FADES

    def paused(self, ticket: TicketFold, pause_s: float) -> None:
        """Learn from a stream that goes on after a pause."""
        known = self._known.get(_key(ticket))
        if known is not None and pause_s > known.pause_s:
            known.pause_s = pause_s

    def hung_after_s(self, ticket: TicketFold, *, unlimited: bool) -> float:
        """Return after how long without anything a request in flight is hung; `unlimited`: its lane has no rate
        limits."""
        known = self._known.get(_key(ticket))
        if ticket.state == "streaming":
            return max(LEAST_S, _PAUSES * known.pause_s) if known is not None else LEAST_S
        if known is None:
            return _UNKNOWN_S if unlimited or not ticket.arrived.stream else LEAST_S
        return max(LEAST_S, _TIMES * max(known.begins_s, known.token_s * ticket.arrived.estimated_input))


def _key(ticket: TicketFold) -> tuple[str, bool]:
    return ticket.arrived.model, ticket.arrived.stream
