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
        for exchange in self._waiting.get(call.identity.agent, ()):
            if exchange.ticket.waiting and _same(exchange.call, call) and _again(exchange, call, now):
                return exchange
        return None


def _same(one: Call, other: Call) -> bool:
    return one.lane == other.lane and (one.method, one.target, one.body) == (other.method, other.target, other.body)


def _again(exchange: Exchange, call: Call, now: float) -> bool:
    retries = call.client.retry_count
    if retries is not None:
        return retries > 0
    return call.identity.named and now - exchange.ticket.arrived_at >= AGAIN_AFTER_S
