"""A client that lost patience sends the same request again; where the first still waits, the second joins it.

Many clients give up after a fixed time and post the same bytes anew, on a new connection, while the old one may still
stand. Queued as a request of its own, it would be paid for twice. But the same bytes at the same moment may also be
meant: several samples of one prompt. So it only counts as sent again when the client says so
(`x-stainless-retry-count`), or when an agent that is known by more than its credential repeats itself after a while;
parallel requests of one program come together.
"""

from __future__ import annotations

from hivemind.proxy.exchange import Exchange
from hivemind.wire.call import Call
from hivemind.wire.identity import CREDENTIAL_HEADERS

AGAIN_AFTER_S = 1.0
"""A request of one agent that comes so soon after the last one like it was meant to be parallel: a client that gives
up waits for longer, and a program on a busy machine takes its time to send what it sends at once."""


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
        alike = [each for each in self._waiting.get(call.identity.agent, ()) if _same(each.call, call)]
        if not counted and alike and max(each.ticket.arrived_at for each in alike) > now - AGAIN_AFTER_S:
            return None  # one more of those that come together, however long that takes
        return next((each for each in alike if each.ticket.waiting), None)


def _same(one: Call, other: Call) -> bool:
    if one.lane != other.lane or (one.method, one.target, one.body) != (other.method, other.target, other.body):
        return False
    # A lane may be shared by credentials, of which none may see what another one was answered.
    return _credentials(one) == _credentials(other)


def _credentials(call: Call) -> list[tuple[bytes, bytes]]:
    return [pair for pair in call.headers if pair[0] in CREDENTIAL_HEADERS]
