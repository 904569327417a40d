"""Fair queueing by virtual time: what each agent was served, in weighted tokens, and its waiting tickets.

As in start-time fair queueing (and VTC, which counts tokens), each class has a *level*, its virtual time: where the
agent stood that was served last in its turn. It rises only while several agents compete, so use without competition
counts for nothing, and idle agents earn no credit. An agent gets ahead of the level only by requests that were in
flight already, or that cost more than was estimated. What it is ahead by such requests it *owes*: it is paid back at
half speed, and forgotten after a minute, since to serve it nothing meanwhile would be as unfair.

Which of an agent's own tickets is next is a matter of time alone (:attr:`.ticket.Ticket.turn_at` and `overdue_at`), and
changes nothing between agents.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush, heapreplace, merge
from itertools import takewhile
from typing import Any, TypeVar

from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority

OWED_S = 60.0  # a debt is forgotten when nothing was added to it for so long
BEFORE_ALL = -1e15
OVERDUE = BEFORE_ALL / 2
"""Sorts before anything an agent was served; with a time added that is the order among overdue agents."""
FEW = 16  # invalid entries that a heap may keep

Key = tuple[int, float, int]
"""Sorts an agent's own tickets: rank (:data:`LATE`, 1 if it was tried before, else 2); when it is overdue or, of those
that aren't, its turn; number of the entry."""
LATE = 0  # the rank of overdue tickets
Entry = tuple[Key, Ticket]
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
    heap: list[Entry] = field(default_factory=list)  # those that wait by their turn, and some that no longer do
    bounds: list[Entry] = field(default_factory=list)  # the same by when they are overdue
    waiting: int = 0
    stamp: int = 0  # of its one valid entry in the band's heap

    def push(self, ticket: Ticket) -> None:
        """Add a ticket."""
        heappush(self.heap, ((1 if ticket.front else 2, ticket.turn_at, ticket.entry), ticket))
        heappush(self.bounds, ((LATE, ticket.overdue_at, ticket.entry), ticket))
        self.waiting += 1

    def first(self, now: float) -> Entry | None:
        """Return the agent's next ticket with its sort key."""
        if (late := _first(self.bounds)) is not None and late[0][1] <= now:
            return late
        return _first(self.heap)

    def ascending(self, now: float) -> Iterator[Entry]:
        """Yield the waiting tickets with their sort keys, in order."""
        for entry in takewhile(lambda entry: entry[0][1] <= now, _ascending(self.bounds)):
            if valid(*entry):
                yield entry
        for entry in _ascending(self.heap):
            if valid(*entry) and entry[1].overdue_at > now:
                yield entry

    def clear(self) -> None:
        self.heap.clear()
        self.bounds.clear()
        self.stamp += 1

    def leave(self) -> None:
        """Count one ticket less. If nothing is granted for long, entries of tickets that came and left are removed, so
        that they don't pile up behind those that stay."""
        self.waiting -= 1
        if not self.waiting:
            self.clear()
            return
        for heap in (self.heap, self.bounds):
            if len(heap) > 2 * self.waiting + FEW:
                heap[:] = [entry for entry in heap if valid(*entry)]
                heapify(heap)


@dataclass(slots=True, eq=False)
class Band:
    """All waiting tickets of one class and family."""

    family: str
    priority: Priority
    waiting: int = 0
    heap: list[tuple[float, Key, int, Backlog]] = field(default_factory=list)
    turn: tuple[float, Backlog] | None = None
    """The agent whose turn it was, and its standing then, while a rate window holds its overdue ticket."""

    def offer(self, backlog: Backlog) -> None:
        """(Re)enter the backlog at its present share and head; its older entries become invalid."""
        backlog.stamp += 1
        if backlog.heap and not backlog.share.paused:
            standing = backlog.share.standing(self.priority)
            heappush(self.heap, (standing, backlog.heap[0][0], backlog.stamp, backlog))
            if len(self.heap) > 2 * self.waiting + FEW:
                self.heap = [entry for entry in self.heap if entry[2] == entry[3].stamp]
                heapify(self.heap)

    def top(self) -> tuple[float, Backlog] | None:
        """Return the agent that is next by what it was served, and its standing; None: no ticket of an agent that isn't
        paused waits."""
        while self.heap:
            standing, key, stamp, backlog = self.heap[0]
            if stamp == backlog.stamp:
                first = _first(backlog.heap)
                if first is not None and first[0] == key:
                    return standing, backlog
                heappop(self.heap)
                self.offer(backlog)
            else:
                heappop(self.heap)
        return None

    def head(self, now: float) -> tuple[float, Key, Ticket] | None:
        """Return the ticket to send next, with its sort key; None as of :meth:`top`."""
        kept = None if self.turn is None else self.kept(now)
        return _head(self.top(), now) if kept is None else kept

    def hold(self, now: float) -> float:
        """Note that a rate window holds the ticket to send next. If it is overdue, its agent's turn is kept until it is
        sent, or others would use up what it waits for. Return the seconds until another of the agent's tickets is
        overdue and so goes before it."""
        if self.kept(now) is not None:
            return math.inf
        self.turn = None
        top = self.top()
        late = None if top is None else _first(top[1].bounds)
        if late is None:
            return math.inf
        if late[0][1] > now:
            return late[0][1] - now
        self.turn = top
        return math.inf

    def kept(self, now: float) -> tuple[float, Key, Ticket] | None:
        """Return the overdue ticket of the agent whose turn is kept, with its sort key; None: none is."""
        head = None if self.turn is None or self.turn[1].share.paused else _head(self.turn, now)
        return None if head is None or head[1][0] != LATE else head

    def clear(self) -> None:
        """Drop the entries of tickets that no longer wait, when none does."""
        for _, _, _, backlog in self.heap:
            backlog.clear()
        self.heap.clear()


def _head(turn: tuple[float, Backlog] | None, now: float) -> tuple[float, Key, Ticket] | None:
    if turn is None or (first := turn[1].first(now)) is None:
        return None
    return turn[0], first[0], first[1]


def _first(heap: list[Entry]) -> Entry | None:
    while heap:
        entry = heap[0]
        if valid(entry[0], entry[1]):
            return entry
        heappop(heap)
    return None


def _ascending(heap: list[T]) -> Iterator[T]:
    """Yield the items of a heap, smallest first; it is sorted only as far as the caller reads."""
    nearest = [(heap[0], 0)] if heap else []
    while nearest:
        item, place = heappop(nearest)
        yield item
        for child in range(2 * place + 1, min(2 * place + 3, len(heap))):
            heappush(nearest, (heap[child], child))


def in_turn(bands: list[Band], now: float) -> Iterator[Ticket]:
    """Yield a class's tickets in fair order: of the agent that was served least, which is then charged, and so on."""
    entries = merge(*(_ascending(band.heap) for band in bands))
    places = [(band.family, band.priority) for band in bands]
    seen: set[Share] = set()
    line: list[tuple[float, Key, Ticket, Share, Iterator[Entry]]] = []

    def enter(standing: float, share: Share) -> None:
        seen.add(share)
        rest = merge(*(share.backlogs[place].ascending(now) for place in places if place in share.backlogs))
        if (head := next(rest, None)) is not None:
            heappush(line, (standing, *head, share, rest))

    for band in bands:
        if band.turn is not None and band.turn[1].share not in seen and band.kept(now) is not None:
            enter(BEFORE_ALL, band.turn[1].share)
    entry = next(entries, None)
    while line or entry is not None:
        while entry is not None and (not line or entry[:2] <= line[0][:2]):
            if entry[2] == entry[3].stamp and entry[3].share not in seen:
                enter(entry[0], entry[3].share)
            entry = next(entries, None)
        if not line:
            return
        standing, _, ticket, share, rest = line[0]
        yield ticket
        standing = max(standing, share.tallies[ticket.priority].served) + ticket.weight
        if (following := next(rest, None)) is None:
            heappop(line)
        else:
            heapreplace(line, (standing, *following, share, rest))
