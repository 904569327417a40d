"""Clients that time out and send the same request again: where the first still waits, the second joins it.

Many clients give up after a fixed time and post the same bytes on a new connection, while the old one may still be
open. Queued as a request of its own, the retry would be paid for twice. But equal bytes at the same moment may also be
intended: several samples of one prompt. So a request only counts as a retry when the client says so
(`x-stainless-retry-count`), or when an agent that is known by more than its credential repeats it after a while;
parallel requests of one program arrive together.
"""

from __future__ import annotations

from hivemind.proxy.exchange import Exchange
from hivemind.wire.call import Call
from hivemind.wire.identity import CREDENTIAL_HEADERS

PARALLEL_WITHIN_S = 1.0
"""An equal request of the same agent within this time counts as parallel: a client that times out waits longer, and a
program on a busy machine needs some time to send parallel requests."""


class ClientRetries:
    """Exchanges that wait for a slot, by agent."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[Exchange]] = {}

    def add(self, exchange: Exchange) -> None:
        """Add an exchange that waits."""
        self._waiting.setdefault(exchange.call.identity.agent, []).append(exchange)

    def discard(self, exchange: Exchange) -> None:
        """Remove an exchange that is over."""
        agent = exchange.call.identity.agent
        waiting = self._waiting.get(agent, [])
        if exchange in waiting:
            waiting.remove(exchange)
        if not waiting:
            self._waiting.pop(agent, None)

    def original(self, call: Call, now: float) -> Exchange | None:
        """Return the waiting exchange that this call retries."""
        counted = call.head.client.retry_count
        if counted == 0 or (counted is None and not call.identity.named):
            return None  # the common case, decided before thousands of waiting exchanges are compared
        alike = [each for each in self._waiting.get(call.identity.agent, ()) if _same(each.call, call)]
        if not counted and alike and max(each.ticket.arrived_at for each in alike) > now - PARALLEL_WITHIN_S:
            return None  # one more parallel request
        return next((each for each in alike if each.ticket.waiting), None)


def _same(one: Call, other: Call) -> bool:
    if (one.head.lane, one.head.method, one.head.target) != (other.head.lane, other.head.method, other.head.target):
        return False
    # A lane may be shared by several credentials; none may see the answer to another one.
    return one.body == other.body and _credentials(one) == _credentials(other)


def _credentials(call: Call) -> list[tuple[bytes, bytes]]:
    return [pair for pair in call.head.headers if pair[0] in CREDENTIAL_HEADERS]
