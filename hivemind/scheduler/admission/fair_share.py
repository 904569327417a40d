"""Fair queueing by virtual time: what each agent was served, in weighted tokens, and its waiting tickets.

As in start-time fair queueing (and VTC, which counts tokens), each class has a *level*, its virtual time: where the
agent stood that was served last in its turn. It rises only while several agents compete, so use without competition
counts for nothing, and idle agents earn no credit: they start again at the level. The next agent stands at the level,
and is a request ahead of it once that is in flight: an agent only gets further ahead by requests that were in flight
already, or that cost more than was estimated. What an agent is ahead by such requests it *owes*. It is paid back at
half speed, and forgotten after a minute: to serve the agent nothing until it has paid would be as unfair to it, minute
by minute.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from heapq import heapify

from hivemind.scheduler.ticket import Ticket, TicketState
from hivemind.scheduler.types import Priority

OWED_S = 60.0  # a debt is forgotten when nothing was added to it for so long
BEFORE_ALL = -1e15
OVERDUE = BEFORE_ALL / 2
"""Sorts before anything an agent was served; with a time added that is the order among overdue agents."""
FEW = 16  # invalid entries that a heap may keep
Key = tuple[bool, float, int]
"""Sorts an agent's own tickets: tried before, then cost and age, then number of the entry."""


def valid(key: Key, ticket: Ticket) -> bool:
    """Whether the heap entry still stands for a ticket that waits."""
    return ticket.state is TicketState.QUEUED and ticket.entry == key[2]


class Tally:
    """What an agent was served in one class."""

    __slots__ = ("_owed_at", "_reach", "in_flight", "owed", "served", "waiting")

    def __init__(self, level: float) -> None:
        self.served = level
        self.in_flight = 0.0  # the part of it that is charged for requests in flight
        self.owed = 0.0
        self.waiting = 0  # its tickets that wait
        self._owed_at = -math.inf
        self._reach = level  # as far as it may have come by requests that were its turn

    def catch_up(self, level: float) -> None:
        """Idle agents earn no credit: virtual time catches up."""
        if self.served < level:
            self.served = level

    def take(self, tokens: float, now: float, *, contended: bool) -> None:
        """Charge the estimate of a request that is sent; `contended`: other agents wait meanwhile."""
        if self.owed and contended:
            back = min(self.owed, tokens) if now <= self._owed_at + OWED_S else 0.0
            self.owed = self.owed - back if back else 0.0
            self.served += back
            self._reach = max(self._reach, self.served + tokens)
        self.served += tokens
        self.in_flight += tokens

    def grow(self, tokens: float) -> None:
        """Charge more for a request in flight."""
        self.served += tokens
        self.in_flight += tokens

    def settle(self, charged: float, real: float, level: float, now: float, *, contended: bool) -> None:
        """Replace what a request was charged by what it really used."""
        self.in_flight -= charged
        self.served += real - charged
        if level + real > self._reach:
            self._reach = level + real
        ahead = self.served - self.in_flight - self._reach
        if ahead > 0:
            self.served -= ahead
            if contended:
                self.owed = ahead + (self.owed if now <= self._owed_at + OWED_S else 0.0)
                self._owed_at = now


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


class Backlog:
    """One agent's waiting tickets of one class and family."""

    __slots__ = ("heap", "priority", "share", "stamp", "waiting")

    def __init__(self, share: Share, priority: Priority) -> None:
        self.share = share
        self.priority = priority
        self.heap: list[tuple[Key, Ticket]] = []  # those that wait, and some that no longer do
        self.waiting = 0
        self.stamp = 0  # of its one valid entry in the band's heap

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
