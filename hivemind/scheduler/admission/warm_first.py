"""Which waiting tickets of one class and family go before their fair turn, so that cached prompts don't expire.

A prompt that expires while its request waits has to be written anew. That takes more of the limit, so others wait
longer and expire too: the fleet thrashes. Where the earliest of the cached ones would expire before all that waits can
be sent, those whose prompts are cached (*warm*) are sent first, in the order in which they expire; the others (*cold*)
take what is left. Elsewhere the order is fair, as if there were no caches.

The cold ones come first as soon as they could, sent one after the other as they arrived, only just be in time. But
where one takes more of the limit than :data:`FEW` warm ones do, the warm stay warm, since each that expires makes all
wait longer; a cold one then goes before them after twice its bound, its client's tries before counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush

from hivemind.scheduler.ticket import Ticket

WORTH = 8_000
"""Cached tokens from which on a ticket counts as warm: about a cent or two, for which others may wait."""
BOUND = 0.95
"""A cold ticket is to be sent within this part of the time that it may wait."""
FEW = 4.0
MANY, LATELY_S = 0.25, 900.0
"""Where more than this share of what was sent in about so many seconds had expired while it waited, some have to:"""
DEARER_S, MOST_EARLIER_S = 0.00175, 175.0
"""for each cached token a warm ticket goes so much earlier than by its expiry then, so that the cheapest do."""
STEP_S = 10.0  # cold tickets are counted by when they are due, in steps of so many seconds
SPARE = 16  # invalid entries that a heap may keep
_NEVER = 1e12
_Entry = tuple[float, int, Ticket]


def as_before(ticket: Ticket, now: float) -> None:
    """Leave what of the ticket's prompt is cached as it was when it was counted."""


class WarmFirst:
    """The waiting tickets that aren't left out of the order. Every operation costs O(log n) of them."""

    def __init__(self, takes_s: Callable[[Ticket], float], renew: Callable[[Ticket, float], None] = as_before) -> None:
        """`takes_s` returns for how long a ticket takes all of what limits its family; `renew` sets what of its prompt
        is cached at a moment, and until when: asked only of the one that would be first, since it is mostly later."""
        self._takes_s, self._renew = takes_s, renew
        self._warm: list[_Entry] = []
        self._cold: list[_Entry] = []  # by when they are due
        self._counted: dict[int, tuple[float, float, int | None, float]] = {}
        """By ticket: what sorts it, what it takes, if it is cold the step in which it is due, and when it expires."""
        self._all_s = self._cold_s = 0.0  # what all take, and the cold ones
        self._steps: dict[int, list[float]] = {}
        """By step: what those that are due in it take, and their number."""
        self._must_at = math.inf  # no cold one has to come first before this moment
        self._lost, self._lost_at = 0.0, -math.inf
        self.leads = False  # the order isn't fair: some go before their turn
        self.now = 0.0
        """The latest moment that it was told of."""

    def add(self, ticket: Ticket, now: float) -> None:
        """Count a ticket that waits, or count it anew since its prompt is in the cache until later, or no longer."""
        if ticket.id in self._counted:
            self.leave(ticket)
        self.now = now
        if ticket.cached and ticket.warm_until <= now:
            ticket.cached = 0
        takes_s = self._takes_s(ticket)
        ticket.fair_at = ticket.fair_at or now + self._all_s
        self._all_s += takes_s
        if ticket.cached >= WORTH:
            heap, at, step = self._warm, ticket.warm_until, None
            if self._lost > MANY and self._lost_lately(now) > MANY:
                at -= min(DEARER_S * ticket.cached, MOST_EARLIER_S)
        else:
            heap, at = self._cold, ticket.arrived_at - ticket.request.waited_s + _bound_s(ticket)
            step = int(min(at, _NEVER) // STEP_S)
            if (in_step := self._steps.get(step)) is None:
                in_step = self._steps[step] = [0.0, 0]
            in_step[0] += takes_s
            in_step[1] += 1
            self._cold_s += takes_s
            # Or later, which `_must` finds out.
            self._must_at = min(self._must_at - takes_s, step * STEP_S - self._cold_s)
        self._counted[ticket.id] = at, takes_s, step, ticket.warm_until
        heappush(heap, (at, ticket.entry, ticket))
        if len(heap) > 2 * len(self._counted) + SPARE:  # entries of those that left
            heap[:] = [entry for entry in heap if self._stands(entry)]
            heapify(heap)

    def leave(self, ticket: Ticket) -> None:
        """Count a ticket no longer."""
        if (counted := self._counted.pop(ticket.id, None)) is None:
            return
        _, takes_s, step, _ = counted
        self._all_s -= takes_s
        if step is not None:
            self._cold_s -= takes_s
            in_step = self._steps[step]
            in_step[0] -= takes_s
            in_step[1] -= 1
            if not in_step[1]:
                del self._steps[step]

    def first(self, now: float) -> Ticket | None:
        """Return the ticket that goes before all others; None: the order is fair."""
        self.now = now
        warm, cold = self._warm, self._cold
        while warm:
            at, entry, ticket = warm[0]
            counted = self._counted.get(ticket.id)
            if counted is None or counted[0] != at or ticket.entry != entry:  # as of `_stands`
                heappop(warm)
                continue
            if now + self._all_s < at:
                self.leads = False
                return None
            self._renew(ticket, now)
            if ticket.warm_until <= now:
                self._lost = self._lost_lately(now) + self._takes_s(ticket) / LATELY_S
                self._lost_at = now
            elif ticket.cached >= WORTH and ticket.warm_until == counted[3]:
                break
            heappop(warm)
            self.add(ticket, now)
        else:
            self.leads = False
            return None
        self.leads = True
        while cold and not self._stands(cold[0]):
            heappop(cold)
        if cold:
            due_at, _, oldest = cold[0]
            few_s = FEW * counted[1]
            if now > due_at + _bound_s(oldest) or (self._counted[oldest.id][1] <= few_s and self._must(now)):
                return oldest
        return ticket

    def ahead(self, now: float) -> Iterator[Ticket]:
        """Yield those that go before the others, for people."""
        if (first := self.first(now)) is not None:
            yield first
            yield from (entry[2] for entry in sorted(self._warm) if self._stands(entry) and entry[2] is not first)

    def _must(self, now: float) -> bool:
        """Whether the cold ones, sent from now on in order of arrival, would come too late."""
        if now >= self._must_at:
            takes_s, self._must_at = 0.0, math.inf
            for step in sorted(self._steps):
                takes_s += self._steps[step][0]
                self._must_at = min(self._must_at, step * STEP_S - takes_s)
                if self._must_at <= now:
                    return True
        return False

    def _lost_lately(self, now: float) -> float:
        """Return the share of what was sent lately that had expired while it waited."""
        return self._lost * math.exp((self._lost_at - now) / LATELY_S) if self._lost else 0.0

    def _stands(self, entry: _Entry) -> bool:
        """Whether a heap's entry is the present one of a ticket that waits."""
        counted = self._counted.get(entry[2].id)
        return counted is not None and counted[0] == entry[0] and entry[2].entry == entry[1]


def _bound_s(ticket: Ticket) -> float:
    return BOUND * (ticket.expires_at - ticket.arrived_at)
