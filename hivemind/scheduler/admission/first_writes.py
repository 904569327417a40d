"""Of requests whose prompts begin alike, so long that a provider keeps that, one goes first where none was sent lately.

Sent together, each would write the prefix to the provider's cache, at 12 to 50 times the price of reading it. The
others follow when the answer to the first begins: the prefix can be read then.
"""

from __future__ import annotations

from hivemind.scheduler.ticket import Ticket
from hivemind.scheduler.types import Usage

LONGEST_S = 20.0
"""A request waits at most so long for others' writes; a prompt of 200,000 tokens takes a provider less."""
NOT_KEPT_S = 3600.0  # how long a prefix isn't held for which the answer stated no cache
MOST = 1024  # prefixes that are remembered


class FirstWrites:
    """The long prefixes of one lane. A ticket that waits for one is out of the queue's order."""

    def __init__(self, kept_s: float, *, automatic: bool) -> None:
        """`kept_s` and `automatic`: as of :class:`.warmth.Caching`."""
        self._kept_s, self._automatic = kept_s, automatic
        self._until: dict[int, float] = {}
        """When a prefix needs to be written again."""
        self._writers: dict[int, Ticket] = {}
        self._followers: dict[int, list[Ticket]] = {}

    def holds(self, ticket: Ticket, now: float) -> bool:
        """Whether the ticket is to wait, since another one writes its prefix."""
        writer = self._writers.get(ticket.request.prefix)
        if writer is None or ticket.attempts or (ticket.cached and ticket.warm_until > now):
            return False
        if not ticket.follows_until:
            ticket.follows_until, ticket.ahead = now + LONGEST_S, True
        return now < ticket.follows_until

    def follow(self, ticket: Ticket) -> None:
        """Have the ticket among those that :meth:`ended` returns."""
        self._followers.setdefault(ticket.request.prefix, []).append(ticket)

    def granted(self, ticket: Ticket, now: float) -> None:
        """Note that the ticket is sent: it writes its prefix if that isn't known to be kept."""
        prefix = ticket.request.prefix
        if prefix not in self._writers and self._until.get(prefix, now) <= now and ticket.warm_until <= now:
            self._writers[prefix] = ticket

    def begun(self, ticket: Ticket, now: float, so_far: Usage | None) -> list[Ticket]:
        """Note that its answer has begun. Return the tickets that waited for it."""
        kept = self._automatic or so_far is None or so_far.cached
        if len(self._until) >= MOST:
            for prefix in sorted(self._until, key=self._until.__getitem__)[: MOST // 2]:
                del self._until[prefix]
        self._until[ticket.request.prefix] = now + (self._kept_s if kept else NOT_KEPT_S)
        return self.ended(ticket)

    def ended(self, ticket: Ticket) -> list[Ticket]:
        """Note that it writes nothing any more. Return the tickets that waited for it."""
        prefix = ticket.request.prefix
        if self._writers.get(prefix) is not ticket:
            return []
        del self._writers[prefix]
        return self._followers.pop(prefix, [])
