"""The order in which waiting tickets fly.

Priority class first; within it the agent that was served least (in weighted tokens); of an agent's own tickets those
that were tried before, then the cheapest, then the oldest. Every operation costs O(log n) of the waiting tickets.

Nothing starves. A class that waits without a grant competes one class higher for every `ageing_s` (the *class* ages,
not the ticket: within a class fair share already serves everybody, and a ticket that waits because its agent used
much shouldn't gain by it), and after `max_passes` grants in a row that passed it by it comes first. An agent's own
expensive ticket ages against its cheaper ones by :data:`TOKENS_PER_S`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import islice
from typing import Any, TypeVar

from .config import QueueConfig
from .ticket import Agent, Ticket, TicketState
from .types import Priority

TOKENS_PER_S = 100.0
"""A second of waiting makes up for this many weighted tokens of cost, among one agent's tickets."""
REMEMBERED_S = 60.0
"""An agent away for longer than this comes back with the share of those being served, not with credit saved up."""
SORTED_AT_ONCE = 64
"""Of a larger heap only the smallest are looked for."""
FEW = 16
"""Entries that are kept whether they are of somebody who waits or not."""

_Key = tuple[bool, float, int]
T = TypeVar("T", bound=tuple[Any, ...])


class Share:
    """What an agent was served on one lane."""

    __slots__ = ("backlogs", "last_active", "paused", "served")

    def __init__(self, served: float, now: float) -> None:
        self.served = served
        self.last_active = now
        self.paused = False
        self.backlogs: dict[tuple[str, Priority], _Backlog] = {}


class _Backlog:
    """One agent's waiting tickets of one class and family."""

    __slots__ = ("heap", "share", "stamp", "waiting")

    def __init__(self, share: Share) -> None:
        self.share = share
        self.heap: list[tuple[_Key, Ticket]] = []
        """Those that wait, and some that don't any more."""
        self.waiting = 0
        self.stamp = 0
        """Of its one valid entry in the band's heap."""

    def leave(self) -> None:
        """One of them waits no longer. Where nobody flies for long, entries of those who came and left in vain would
        pile up behind whoever stays."""
        self.waiting -= 1
        if not self.waiting:
            self.heap.clear()
            self.stamp += 1
        elif len(self.heap) > 2 * self.waiting + FEW:
            self.heap = [entry for entry in self.heap if _valid(*entry)]
            heapify(self.heap)


class _Band:
    """All waiting tickets of one class and family."""

    __slots__ = ("family", "heap", "priority", "waiting")

    def __init__(self, family: str, priority: Priority) -> None:
        self.family = family
        self.priority = priority
        self.waiting = 0
        self.heap: list[tuple[float, _Key, int, _Backlog]] = []

    def offer(self, backlog: _Backlog) -> None:
        """(Re)enter the backlog at its present share and head; its older entries become invalid."""
        backlog.stamp += 1
        if backlog.heap and not backlog.share.paused:
            heappush(self.heap, (backlog.share.served, backlog.heap[0][0], backlog.stamp, backlog))
            if len(self.heap) > 2 * self.waiting + FEW:
                self.heap = [entry for entry in self.heap if entry[2] == entry[3].stamp]
                heapify(self.heap)

    def head(self) -> tuple[float, _Key, Ticket] | None:
        """The ticket to fly next, with its sort key; None where nobody (who isn't paused) waits."""
        while self.heap:
            served, key, stamp, backlog = self.heap[0]
            if stamp != backlog.stamp:
                heappop(self.heap)
                continue
            while backlog.heap and not _valid(*backlog.heap[0]):
                heappop(backlog.heap)
            if backlog.heap and backlog.heap[0][0] == key:
                return served, key, backlog.heap[0][1]
            heappop(self.heap)
            self.offer(backlog)
        return None

    def clear(self) -> None:
        """Nobody waits here: let go of the entries of those who did."""
        for _, _, _, backlog in self.heap:
            backlog.heap.clear()
            backlog.stamp += 1
        self.heap.clear()


def _ascending(heap: list[T]) -> Iterator[T]:
    """The items of a heap, smallest first; of a large one no further down than it is asked."""
    return iter(sorted(heap)) if len(heap) <= SORTED_AT_ONCE else _downwards(heap)


def _downwards(heap: list[T]) -> Iterator[T]:
    nearest = [(heap[0], 0)]
    while nearest:
        item, place = heappop(nearest)
        yield item
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(nearest, (heap[child], child))


def _in_turn(bands: list[_Band]) -> Iterator[Ticket]:
    """The tickets of a class as fair share takes them: whose agent was served least, then charged for it, and so on."""
    entries = merge(*(_ascending(band.heap) for band in bands))
    served: dict[Share, float] = {}
    line: list[tuple[float, _Key, Ticket, Share, Iterator[tuple[_Key, Ticket]]]] = []
    entry = next(entries, None)
    while line or entry is not None:
        while entry is not None and (not line or entry[:2] <= line[0][:2]):
            if entry[2] == entry[3].stamp:
                rest = _ascending(entry[3].heap)
                for key, ticket in rest:
                    if _valid(key, ticket):
                        heappush(line, (entry[0], key, ticket, entry[3].share, rest))
                        break
            entry = next(entries, None)
        if not line:
            return
        at, key, ticket, share, rest = line[0]
        total = served.get(share, at)
        if total > at:
            heapreplace(line, (total, key, ticket, share, rest))
            continue
        yield ticket
        total = served[share] = total + ticket.weight
        for key, ticket in rest:
            if _valid(key, ticket):
                heapreplace(line, (total, key, ticket, share, rest))
                break
        else:
            heappop(line)


def _valid(key: _Key, ticket: Ticket) -> bool:
    return ticket.state is TicketState.QUEUED and ticket.entry == key[2]


class LaneQueue:
    """All waiting tickets of a lane."""

    __slots__ = (
        "_bands",
        "_config",
        "_entries",
        "_passes",
        "_paused",
        "_served_now",
        "_shares",
        "_unserved_since",
        "waiting",
    )

    def __init__(self, config: QueueConfig) -> None:
        self._config = config
        self.waiting = 0
        self._bands: dict[tuple[str, Priority], _Band] = {}
        self._shares: dict[str, Share] = {}
        self._paused: dict[str, Share] = {}
        self._unserved_since = [0.0] * len(Priority)
        self._passes = [0] * len(Priority)
        self._entries = 0
        self._served_now = 0.0
        """Share of the agent served last: where newcomers begin."""

    def push(self, ticket: Ticket, now: float) -> None:
        """The ticket (in state QUEUED) waits from now on."""
        share = self._join(ticket, now)
        place = (ticket.request.family, ticket.priority)
        band = self._bands.get(place)
        if band is None:
            band = self._bands[place] = _Band(*place)
        if not self._waiting_in(ticket.priority):
            self._unserved_since[ticket.priority] = now
            self._passes[ticket.priority] = 0
        backlog = share.backlogs.get(place)
        if backlog is None:
            backlog = share.backlogs[place] = _Backlog(share)
        self._entries += 1
        ticket.entry = self._entries
        key = (not ticket.front, ticket.weight + ticket.arrived_at * TOKENS_PER_S, ticket.entry)
        heappush(backlog.heap, (key, ticket))
        backlog.waiting += 1
        band.waiting += 1
        self.waiting += 1
        if backlog.heap[0][1] is ticket:
            band.offer(backlog)

    def drop(self, ticket: Ticket) -> None:
        """The ticket waits no longer (its state is no longer QUEUED); its entries are skipped when they come up."""
        place = (ticket.request.family, ticket.priority)
        band = self._bands[place]
        band.waiting -= 1
        self.waiting -= 1
        self._shares[ticket.agent.name].backlogs[place].leave()
        if not band.waiting:
            band.clear()

    def reclass(self, ticket: Ticket, priority: Priority, now: float) -> None:
        """Move a waiting ticket to another class."""
        ticket.entry = 0
        self.drop(ticket)
        ticket.priority = priority
        self.push(ticket, now)

    def pick(self, now: float, delay_s: Callable[[Ticket], float]) -> tuple[Ticket | None, float]:
        """The ticket to fly next, left in place, and else the seconds until one may.

        `delay_s` tells how long a ticket's rate windows hold it. A family whose best ticket is held waits as a whole,
        so that a large request isn't passed by for ever by small ones.
        """
        held: set[str] = set()
        soonest = math.inf
        for priority in self._classes(now):
            best: tuple[float, _Key, Ticket] | None = None
            for band in self._bands.values():
                if band.priority is not priority or not band.waiting or band.family in held:
                    continue
                head = band.head()
                if head is None:
                    continue
                delay = delay_s(head[2])
                if delay > 0:
                    held.add(band.family)
                    soonest = min(soonest, delay)
                elif best is None or head < best:
                    best = head
            if best is not None:
                return best[2], 0.0
        return None, soonest

    def served(self, ticket: Ticket, weighted_tokens: float, now: float) -> None:
        """The ticket flies and no longer waits: note whose turn it was, and what it takes by estimate."""
        share = self._join(ticket, now)
        self._served_now = share.served
        if self.waiting:
            for other in Priority:
                self._passes[other] += 1
            self._passes[ticket.priority] = 0
            self._unserved_since[ticket.priority] = now
        share.served += weighted_tokens
        self._offer_again(share)

    def charge(self, ticket: Ticket, weighted_tokens: float, now: float) -> None:
        """Add to the agent's share (or, negative, give back what an estimate had taken too much)."""
        share = self._join(ticket, now)
        share.served += weighted_tokens
        self._offer_again(share)

    def pause(self, agent: str, paused: bool) -> None:
        """Leave an agent's tickets out of the order, or put them back."""
        share = self._shares.get(agent)
        if share is not None:
            self._mark(agent, share, paused)
            self._offer_again(share)

    def forget(self, agent: str) -> None:
        """The agent is gone."""
        self._shares.pop(agent, None)
        self._paused.pop(agent, None)

    def upcoming(self, now: float, count: int) -> Iterator[Ticket]:
        """The next tickets in the order in which they would fly if nobody else came and every estimate were right, for
        people."""
        for priority in self._classes(now):
            bands = [band for band in self._bands.values() if band.priority is priority and band.waiting]
            for ticket in islice(_in_turn(bands), count):
                count -= 1
                yield ticket

    def left_out(self) -> Iterator[Ticket]:
        """Waiting tickets of agents that :meth:`pause` leaves out of the order."""
        for share in self._paused.values():
            for backlog in share.backlogs.values():
                yield from (ticket for key, ticket in _ascending(backlog.heap) if _valid(key, ticket))

    def _join(self, ticket: Ticket, now: float) -> Share:
        """The agent's share, brought up to those being served if it has been away."""
        agent = ticket.agent
        share = self._shares.get(agent.name)
        if share is None:
            share = self._shares[agent.name] = Share(self._served_now, now)
            self._mark(agent.name, share, agent.held)
        elif now - share.last_active > REMEMBERED_S and len(agent.tickets) <= 1:
            share.served = max(share.served, self._served_now)
        share.last_active = now
        return share

    def _mark(self, agent: str, share: Share, paused: bool) -> None:
        share.paused = paused
        if paused:
            self._paused[agent] = share
        else:
            self._paused.pop(agent, None)

    def _offer_again(self, share: Share) -> None:
        for place, backlog in share.backlogs.items():
            if backlog.heap:
                self._bands[place].offer(backlog)

    def _waiting_in(self, priority: Priority) -> bool:
        return any(band.waiting for band in self._bands.values() if band.priority is priority)

    def _classes(self, now: float) -> list[Priority]:
        """Classes with somebody waiting, in the order in which they are asked now."""
        waiting = {band.priority for band in self._bands.values() if band.waiting}
        if len(waiting) < 2:
            return list(waiting)
        return sorted(waiting, key=lambda priority: self._rank(priority, now))

    def _rank(self, priority: Priority, now: float) -> tuple[int, float]:
        if self._passes[priority] >= self._config.max_passes:
            return -1, self._unserved_since[priority]
        aged = int((now - self._unserved_since[priority]) / self._config.ageing_s)
        return max(0, priority - aged), self._unserved_since[priority] if aged else math.inf


def reclass(agent: Agent, now: float) -> None:
    """Move the agent's tickets to the class in which they count now."""
    for ticket in agent.tickets.values():
        priority = agent.priority_of(ticket.request)
        if ticket.in_queue and ticket.entry and ticket.priority is not priority:
            ticket.lane.queue.reclass(ticket, priority, now)
        else:
            ticket.priority = priority
