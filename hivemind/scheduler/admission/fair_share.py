"""Fair queueing by virtual time: what each agent was served, in weighted tokens, and its waiting tickets.

As in start-time fair queueing (and VTC, which counts tokens), each class has a *level*, its virtual time: where the
agent stood that was served last in its turn. It rises only while several agents compete, so use without competition
counts for nothing, and idle agents earn no credit. An agent gets ahead of the level only by requests that were in
flight already, or that cost more than was estimated. What it is ahead by such requests it *owes*: it is paid back at
half speed, and forgotten after a minute, since to serve it nothing meanwhile would be as unfair.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace, merge
from typing import Any, TypeVar

from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority

OWED_S = 60.0  # a debt is forgotten when nothing was added to it for so long
BEFORE_ALL = -1e15
OVERDUE = BEFORE_ALL / 2
"""Sorts before anything an agent was served; with a time added that is the order among overdue agents."""
FEW = 16  # invalid entries that a heap may keep

Key = tuple[bool, float, int]
"""Sorts an agent's own tickets: tried before, then cost and age, then number of the entry."""
T = TypeVar("T", bound=tuple[Any, ...])


def valid(key: Key, ticket: Ticket) -> bool:
    """Whether the heap entry still stands for a ticket that waits."""
    return ticket.state is TicketState.QUEUED and ticket.entry == key[2]


@dataclass(slots=True, eq=False)
class Tally:
    """What an agent was served in one class."""

    served: float
    reach: float = -math.inf  # as far as it may have come by requests that were its turn
    in_flight: float = 0.0  # the part of it that is charged for requests in flight
    owed: float = 0.0
    owed_at: float = -math.inf
    waiting: int = 0  # its tickets that wait
    sent: int = 0  # its tickets in flight

    def catch_up(self, level: float) -> None:
        """Idle agents earn no credit: virtual time catches up."""
        if self.served < level:
            self.served = level

    def take(self, tokens: float, now: float, *, contended: bool) -> None:
        """Charge the estimate of a request that is sent; `contended`: other agents wait meanwhile."""
        if self.owed and contended:
            back = min(self.owed, tokens) if now <= self.owed_at + OWED_S else 0.0
            self.owed = self.owed - back if back else 0.0
            self.served += back
            self.reach = max(self.reach, self.served + tokens)
        self.served += tokens
        self.in_flight += tokens
        self.sent += 1

    def settle(self, charged: float, real: float, level: float, now: float, *, contended: bool) -> None:
        """Replace what a request was charged by what it really used."""
        self.in_flight -= charged
        self.sent -= 1
        self.served += real - charged
        if level + real > self.reach:
            self.reach = level + real
        ahead = self.served - self.in_flight - self.reach
        if ahead > 0:
            self.served -= ahead
            if contended:
                self.owed = ahead + (self.owed if now <= self.owed_at + OWED_S else 0.0)
                self.owed_at = now


@dataclass(slots=True, eq=False)
class Share:
    """What an agent was served on one lane, and its tickets that wait there."""

    since: float  # when it began to wait, or had its last grant
    tallies: dict[Priority, Tally] = field(default_factory=dict)
    """By class: what an urgent class was served says nothing about the order in another."""
    overdue: bool = False
    due_at: float = math.inf  # when to check whether it is overdue
    waiting: int = 0
    away: int = 0  # answers that it hasn't followed up by a queued request yet
    paused: bool = False
    backlogs: dict[tuple[str, Priority], Backlog] = field(default_factory=dict)  # by family and class

    def standing(self, priority: Priority) -> float:
        """Return what sorts the agents of a class: the virtual time of the agent's next request."""
        return BEFORE_ALL + self.since if self.overdue else self.tallies[priority].served


@dataclass(slots=True, eq=False)
class Backlog:
    """One agent's waiting tickets of one class and family."""

    share: Share
    heap: list[tuple[Key, Ticket]] = field(default_factory=list)  # those that wait, and some that no longer do
    waiting: int = 0
    stamp: int = 0  # of its one valid entry in the band's heap

    def ascending(self) -> Iterator[tuple[Key, Ticket]]:
        """Yield the waiting tickets with their sort keys, in order."""
        return (entry for entry in _ascending(self.heap) if valid(*entry))

    def clear(self) -> None:
        self.heap.clear()
        self.stamp += 1

    def leave(self) -> None:
        """Count one ticket less. If nothing is granted for long, entries of tickets that came and left are removed, so
        that they don't pile up behind those that stay."""
        self.waiting -= 1
        if not self.waiting:
            self.clear()
        elif len(self.heap) > 2 * self.waiting + FEW:
            self.heap = [entry for entry in self.heap if valid(*entry)]
            heapify(self.heap)


@dataclass(slots=True, eq=False)
class Band:
    """All waiting tickets of one class and family."""

    family: str
    priority: Priority
    waiting: int = 0
    heap: list[tuple[float, Key, int, Backlog]] = field(default_factory=list)

    def offer(self, backlog: Backlog) -> None:
        """(Re)enter the backlog at its present share and head; its older entries become invalid."""
        backlog.stamp += 1
        if backlog.heap and not backlog.share.paused:
            standing = backlog.share.standing(self.priority)
            heappush(self.heap, (standing, backlog.heap[0][0], backlog.stamp, backlog))
            if len(self.heap) > 2 * self.waiting + FEW:
                self.heap = [entry for entry in self.heap if entry[2] == entry[3].stamp]
                heapify(self.heap)

    def head(self) -> tuple[float, Key, Ticket] | None:
        """Return the ticket to send next, with its sort key; None: no ticket of an agent that isn't paused waits."""
        while self.heap:
            standing, key, stamp, backlog = self.heap[0]
            if stamp != backlog.stamp:
                heappop(self.heap)
                continue
            while backlog.heap and not valid(*backlog.heap[0]):
                heappop(backlog.heap)
            if backlog.heap and backlog.heap[0][0] == key:
                return standing, key, backlog.heap[0][1]
            heappop(self.heap)
            self.offer(backlog)
        return None

    def clear(self) -> None:
        """Drop the entries of tickets that no longer wait, when none does."""
        for _, _, _, backlog in self.heap:
            backlog.clear()
        self.heap.clear()


def _ascending(heap: list[T]) -> Iterator[T]:
    """Yield the items of a heap, smallest first; it is sorted only as far as the caller reads."""
    nearest = [(heap[0], 0)] if heap else []
    while nearest:
        item, place = heappop(nearest)
        yield item
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(nearest, (heap[child], child))


def in_turn(bands: list[Band]) -> Iterator[Ticket]:
    """Yield a class's tickets in fair order: of the agent that was served least, which is then charged, and so on."""
    entries = merge(*(_ascending(band.heap) for band in bands))
    served: dict[Share, float] = {}
    line: list[tuple[float, Key, Ticket, Share, Iterator[tuple[Key, Ticket]]]] = []
    entry = next(entries, None)
    while line or entry is not None:
        while entry is not None and (not line or entry[:2] <= line[0][:2]):
            if entry[2] == entry[3].stamp:
                rest = entry[3].ascending()
                if (head := next(rest, None)) is not None:
                    heappush(line, (entry[0], *head, entry[3].share, rest))
            entry = next(entries, None)
        if not line:
            return
        at, key, ticket, share, rest = line[0]
        total = served.get(share, at)
        if total > at:
            heapreplace(line, (total, key, ticket, share, rest))
            continue
        yield ticket
        total = served[share] = max(total, share.tallies[ticket.priority].served) + ticket.weight
        if (following := next(rest, None)) is None:
            heappop(line)
        else:
            heapreplace(line, (total, *following, share, rest))
