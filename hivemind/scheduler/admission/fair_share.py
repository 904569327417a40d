"""Fair queueing by virtual time: what each agent was served, in weighted tokens, and its waiting tickets.

As in start-time fair queueing (and VTC, which counts tokens), each class has a *level*, its virtual time: where the
agent stood that was served last in its turn. It rises only while several agents compete, so use without competition
counts for nothing, and idle agents earn no credit. An agent gets ahead of the level only by requests that were in
flight already, or that cost more than was estimated. What it is ahead by such requests it *owes*: it is paid back at
half speed, and forgotten after a minute, since to serve it nothing meanwhile would be as unfair.

Agents that others started compete within the share of the first of them, their root, at each depth by the same rule
(hierarchical fair queueing, Bennett and Zhang 1996): a crew gets as much as a single agent, however its members are
named.

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

import msgspec
from msgspec import Struct

from hivemind.scheduler.admission.warm_first import WarmFirst
from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority

OWED_S = 60.0  # a debt is forgotten when nothing was added to it for so long
BEFORE_ALL = -1e15
OVERDUE = BEFORE_ALL / 2
"""Sorts before anything an agent was served; with a time added that is the order among overdue agents."""
_QUEUED = TicketState.QUEUED  # an enumeration's members are looked up slowly
FEW = 16  # invalid entries that a heap may keep

Key = tuple[int, float, int]
"""Sorts an agent's own tickets: rank (:data:`LATE`, 1 if it was tried before, else 2); when it is overdue or, of those
that aren't, its turn; number of the entry."""
LATE = 0  # the rank of overdue tickets
Entry = tuple[Key, Ticket]
T = TypeVar("T", bound=tuple[Any, ...])
Head = tuple[float, Key, Ticket, "Share"]
"""The next ticket of a band: its root's standing, its own sort key, the ticket, and its agent's share."""
_NO_BACKLOGS: dict[tuple[str, Priority], Backlog] = {}  # never changed


def valid(key: Key, ticket: Ticket) -> bool:
    """Whether the heap entry still stands for a ticket that waits."""
    return ticket.state is _QUEUED and ticket.entry == key[2]


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
    """What an agent, or one with all those that it started, was served on one lane, and its tickets that wait there."""

    since: float  # when it began to wait, or had its last grant
    levels: list[float]
    """By class, the virtual time of those among whom it competes: the roots, or the members of the share above."""
    above: Share | None = None
    within: list[float] = field(default_factory=lambda: [0.0] * len(Priority))  # the levels of its members
    tallies: dict[Priority, Tally] = field(default_factory=dict)
    """By class: what an urgent class was served says nothing about the order in another."""
    overdue: bool = False
    due_at: float = math.inf  # when to check whether it is overdue
    waiting: int = 0
    away: int = 0  # answers that it hasn't followed up by a queued request yet
    paused: bool = False
    backlogs: dict[tuple[str, Priority], Backlog] = field(default_factory=lambda: _NO_BACKLOGS)  # by family and class
    line: tuple[Share, ...] = field(init=False)
    """The share, and those that it is a part of, nearest first."""
    descent: tuple[Share, ...] = field(init=False)  # the same, its root first

    def __post_init__(self) -> None:
        self.line = (self,) if self.above is None else (self, *self.above.line)
        self.descent = self.line if self.above is None else self.line[::-1]

    def tally(self, priority: Priority) -> Tally:
        """Return what it was served in a class; a newcomer to the class begins at its level."""
        if (tally := self.tallies.get(priority)) is None:
            tally = self.tallies[priority] = Tally(self.levels[priority])
        return tally

    def standing(self, priority: Priority) -> float:
        """Return what sorts those of a class that compete: the virtual time of the next request."""
        return BEFORE_ALL + self.since if self.overdue else self.tallies[priority].served

    @property
    def in_order(self) -> bool:
        """Whether a ticket of it waits that isn't left out of the order."""
        return not self.paused and any(backlog.key is not None for backlog in self.backlogs.values())


class Backlog(Struct, eq=False):
    """The waiting tickets of one share, class and family: an agent's own, or those of the share's members."""

    share: Share
    among: Line
    """Those with which it competes."""
    heap: list[Entry] = msgspec.field(default_factory=list)  # those that wait by their turn, and some that no longer do
    bounds: list[Entry] = msgspec.field(default_factory=list)  # the same by when they are overdue
    members: Line | None = None
    waiting: int = 0
    stamp: int = 0  # of its one valid entry in the line

    @property
    def key(self) -> Key | None:
        """The sort key of its next ticket by its turn; None: none waits that isn't left out."""
        if self.members is not None:
            top = self.members.top()
            return None if top is None else top[1].key
        heap = self.heap  # as `_first` does, without its calls: this is asked several times a grant
        while heap:
            key, ticket = heap[0]
            if ticket.state is _QUEUED and ticket.entry == key[2]:
                return key
            heappop(heap)
        return None

    def push(self, ticket: Ticket) -> None:
        """Add an agent's own ticket, which is counted already."""
        turn_at, overdue_at = ticket.times
        heappush(self.heap, ((1 if ticket.front else 2, turn_at, ticket.entry), ticket))
        heappush(self.bounds, ((LATE, overdue_at, ticket.entry), ticket))

    def first(self, now: float) -> Entry | None:
        """Return the agent's next ticket with its sort key."""
        if (late := _first(self.bounds)) is not None and late[0][1] <= now:
            return late
        return _first(self.heap)

    def tickets(self) -> Iterator[Ticket]:
        """Yield those that wait, in no order."""
        if self.members is not None:
            yield from self.members.tickets()
        yield from (ticket for key, ticket in self.heap if valid(key, ticket))

    def ascending(self, now: float) -> Iterator[Entry]:
        """Yield an agent's own waiting tickets with their sort keys, in order."""
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

    def leave(self, ticket: Ticket) -> None:
        """Count this ticket no longer. If nothing is granted for long, entries of tickets that came and left are
        removed, so that they don't pile up behind those that stay."""
        self.waiting -= 1
        if not self.waiting:
            self.clear()
            return
        if self.heap and self.heap[0][1] is ticket:
            heappop(self.heap)
        for heap in (self.heap, self.bounds):
            if len(heap) > 2 * self.waiting + FEW:
                heap[:] = [entry for entry in heap if valid(*entry)]
                heapify(heap)


@dataclass(slots=True, eq=False)
class Line:
    """Backlogs of one class and family that compete with one another."""

    priority: Priority
    waiting: int = 0  # their tickets
    heap: list[tuple[float, Key, int, Backlog]] = field(default_factory=list)

    def offer(self, backlog: Backlog) -> None:
        """(Re)enter the backlog at its present share and head; its older entries become invalid."""
        backlog.stamp += 1
        if backlog.share.paused:
            return
        # An agent's first entry may stand for a ticket that left; `top` finds that out.
        key = backlog.heap[0][0] if backlog.heap else backlog.key
        if key is not None:
            heappush(self.heap, (backlog.share.standing(self.priority), key, backlog.stamp, backlog))
            if len(self.heap) > 2 * self.waiting + FEW:
                self.heap = [entry for entry in self.heap if entry[2] == entry[3].stamp]
                heapify(self.heap)

    def tickets(self) -> Iterator[Ticket]:
        """Yield the tickets that aren't left out of the order, in none."""
        for _, _, stamp, backlog in self.heap:
            if stamp == backlog.stamp:
                yield from backlog.tickets()

    def top(self) -> tuple[float, Backlog] | None:
        """Return the backlog that is next by what its share was served, and its standing; None: no ticket waits that
        isn't left out of the order."""
        while heap := self.heap:
            standing, key, stamp, backlog = heap[0]
            if stamp == backlog.stamp:
                if backlog.key == key:
                    return standing, backlog
                heappop(heap)
                self.offer(backlog)
            else:
                heappop(heap)
        return None

    def clear(self) -> None:
        """Drop the entries of tickets that no longer wait, when none does."""
        for _, _, _, backlog in self.heap:
            backlog.clear()
        self.heap.clear()


@dataclass(slots=True, eq=False)
class Band(Line):
    """The line of all roots."""

    due: list[tuple[float, int, Ticket]] = field(default_factory=list)
    """Tickets with a deadline, and some that left; those of agents that are left out aren't in it."""
    turn: Backlog | None = None
    """The agent whose turn it was, while a rate window holds its overdue ticket."""
    order: WarmFirst | None = None
    """What may go before its turn; None: no cached prompt is expected to expire before that."""
    order_above: int = 0
    order_from: float = -math.inf
    """That is looked at again when so many wait, or then."""

    def next(self) -> tuple[float, Backlog] | None:
        """Return the agent's backlog that is next, and its root's standing; None as of :meth:`top`."""
        top = self.top()
        while top is not None and (members := top[1].members) is not None:
            inner = members.top()
            top = None if inner is None else (top[0], inner[1])
        return top

    def head(self, now: float) -> Head | None:
        """Return the ticket to send next, with its sort key; None as of :meth:`top`."""
        kept = None if self.turn is None else self.kept(now)
        return _head(self.next(), now) if kept is None else kept

    def hold(self, now: float) -> float:
        """Note that a rate window holds the ticket to send next. If it is overdue, its agent's turn is kept until it is
        sent, or others would use up what it waits for. Return the seconds until another of the agent's tickets is
        overdue and so goes before it."""
        if self.kept(now) is not None:
            return math.inf
        self.turn = None
        top = self.next()
        if top is None or (late := _first(top[1].bounds)) is None:
            return math.inf
        if late[0][1] > now:
            return late[0][1] - now
        self.turn = top[1]
        return math.inf

    def kept(self, now: float) -> Head | None:
        """Return the overdue ticket of the agent whose turn is kept, with its sort key; None: none is."""
        turn = self.turn
        if turn is None or turn.share.paused:
            return None
        first = turn.first(now)
        if first is None or first[0][0] != LATE:
            return None
        return turn.share.descent[0].standing(self.priority), *first, turn.share


def _head(turn: tuple[float, Backlog] | None, now: float) -> Head | None:
    if turn is None or (first := turn[1].first(now)) is None:
        return None
    return turn[0], first[0], first[1], turn[1].share


def before(one: Head, other: Head) -> bool:
    """Whether the one ticket goes before the other of its class: what was served decides where their shares part."""
    if one[0] == other[0] and (parted := part(one[3], other[3])) is not None:
        priority = one[2].priority
        standings = [share.standing(priority) for share in parted]
        return (standings[0], one[1]) < (standings[1], other[1])
    return one[:2] < other[:2]


def part(one: Share, other: Share) -> tuple[Share, Share] | None:
    """Return the shares by which the two compete: they, or those above them, up to the one that both are a part of;
    None: there is none, since they are of different roots, or the same."""
    if one is other or one.descent[0] is not other.descent[0]:
        return None
    return next((a, b) for a, b in zip(one.descent, other.descent, strict=False) if a is not b)


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


def in_turn(lines: list[Line], now: float, kept: frozenset[Share]) -> Iterator[Entry]:
    """Yield a class's tickets, by sort keys, in fair order: of the share that was served least, which is then charged,
    and so on. The turn of the shares in `kept` comes first."""
    entries = merge(*(_ascending(line.heap) for line in lines))
    among = {id(line) for line in lines}
    seen: set[Share] = set()
    order: list[tuple[float, Key, Ticket, Share, Iterator[Entry]]] = []

    def enter(standing: float, share: Share) -> None:
        seen.add(share)
        backlogs = [backlog for backlog in share.backlogs.values() if id(backlog.among) in among]
        members = [backlog.members for backlog in backlogs if backlog.members is not None]
        rest = in_turn(members, now, kept) if members else merge(*(backlog.ascending(now) for backlog in backlogs))
        if (head := next(rest, None)) is not None:
            heappush(order, (standing, *head, share, rest))

    for line in lines:
        for _, _, stamp, backlog in line.heap if kept else ():
            if stamp == backlog.stamp and backlog.share in kept and backlog.share not in seen:
                enter(BEFORE_ALL, backlog.share)
    entry = next(entries, None)
    while order or entry is not None:
        while entry is not None and (not order or entry[:2] <= order[0][:2]):
            if entry[2] == entry[3].stamp and entry[3].share not in seen:
                enter(entry[0], entry[3].share)
            entry = next(entries, None)
        if not order:
            return
        standing, key, ticket, share, rest = order[0]
        yield key, ticket
        standing = max(standing, share.tallies[ticket.priority].served) + ticket.weight
        if (following := next(rest, None)) is None:
            heappop(order)
        else:
            heapreplace(order, (standing, *following, share, rest))
