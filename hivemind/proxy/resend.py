"""A client that lost patience sends the same request again; where the first still waits, the second joins it.

Many clients give up after a fixed time and post the same bytes anew, on a new connection, while the old one may still
stand. Queued as a request of its own, it would be paid for twice. But the same bytes at the same moment may also be
meant: several samples of one prompt. So it only counts as sent again when the client says so
(`x-stainless-retry-count`), or when an agent that is known by more than its credential repeats itself after a while;
parallel requests of one program come together.
"""

from __future__ import annotations

from .call import Call
from .exchange import Exchange

AGAIN_AFTER_S = 0.2
"""Requests of one agent closer together than this were meant to be parallel."""


class Resends:
    """Exchanges that wait for a grant, by agent."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        """The exchange waits."""
        self._waiting.setdefault(exchange.call.identity.agent, []).append(exchange)

    def discard(self, exchange: Exchange) -> None:
        """It is over."""
        agent = exchange.call.identity.agent
        waiting = self._waiting.get(agent, [])
        if exchange in waiting:
            waiting.remove(exchange)
        if not waiting:
            self._waiting.pop(agent, None)

    def original(self, call: Call, now: float) -> Exchange | None:
        """The waiting exchange that this call repeats."""
        counted = call.client.retry_count
        if counted == 0 or (counted is None and not call.identity.named):
            return None  # most calls, and thousands of them may wait
        before = now if counted else now - AGAIN_AFTER_S
        for exchange in self._waiting.get(call.identity.agent, ()):
            ticket = exchange.ticket
            if ticket.waiting and ticket.arrived_at <= before and _same(exchange.call, call):
                return exchange
        return None


def _same(one: Call, other: Call) -> bool:
    return one.lane == other.lane and (one.method, one.target, one.body) == (other.method, other.target, other.body)
