"""What each agent was served, in weighted tokens, and who is next by it.

Each class has a *level*: where the agent stood whose turn came last. It rises only while several want to fly, so what
somebody used when nobody else wanted it counts for nothing. Whoever is next stands at the level, and is a request ahead
of it once that flies: nobody gets further ahead but by flights that others found in the air, or that turn out dearer
than was guessed. What an agent is ahead by such flights it *owes*. It is paid back at half speed, and forgotten after
a minute: to serve it nothing until all is made up for would be as unfair to it, minute by minute.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from hivemind.scheduler.types import Priority

if TYPE_CHECKING:
    from hivemind.scheduler.admission.queue import Backlog

OWED_S = 60.0
"""What an agent owes is forgotten when it has owed nothing more for so long."""
BEFORE_ALL = -1e15
OVERDUE = BEFORE_ALL / 2
"""Sorts before whatever anybody was served; with a time added that is the order among those."""


class Tally:
    """What an agent was served in one class."""

    __slots__ = ("_owed_at", "_reach", "air", "owed", "served", "waiting")

    def __init__(self, level: float) -> None:
        self.served = level
        self.air = 0.0
        """The part of it that is charged for what flies."""
        self.owed = 0.0
        self.waiting = 0
        """Its tickets that wait."""
        self._owed_at = -math.inf
        self._reach = level
        """As far as it may have come by requests that were its turn."""

    def catch_up(self, level: float) -> None:
        """It has been away or slow to ask: that buys it nothing."""
        if self.served < level:
            self.served = level

    def take(self, tokens: float, now: float, *, contended: bool) -> None:
        """A request of so many tokens, by estimate, flies; `contended`: others have to wait for it."""
        if self.owed and contended:
            back = min(self.owed, tokens) if now <= self._owed_at + OWED_S else 0.0
            self.owed = self.owed - back if back else 0.0
            self.served += back
            self._reach = max(self._reach, self.served + tokens)
        self.served += tokens
        self.air += tokens

    def grow(self, tokens: float) -> None:
        """What flies has turned out so much dearer."""
        self.served += tokens
        self.air += tokens

    def land(self, charged: float, real: float, level: float, now: float, *, contended: bool) -> None:
        """A request that was charged so much has used `real`."""
        self.air -= charged
        self.served += real - charged
        if level + real > self._reach:
            self._reach = level + real
        ahead = self.served - self.air - self._reach
        if ahead > 0:
            self.served -= ahead
            if contended:
                self.owed = ahead + (self.owed if now <= self._owed_at + OWED_S else 0.0)
                self._owed_at = now


class Share:
    """What an agent was served on one lane."""

    __slots__ = ("away", "backlogs", "due_at", "overdue", "paused", "since", "tallies", "waiting")

    def __init__(self, now: float) -> None:
        self.tallies: dict[Priority, Tally] = {}
        """In each class by itself: what an urgent class was served says nothing about who is next in another."""
        self.since = now
        """It waits, or had its last grant."""
        self.overdue = False
        self.due_at = math.inf
        """When it is to be seen whether it is overdue."""
        self.waiting = 0
        self.away = 0
        """So many of its answers have come that it hasn't followed up by a request that waits."""
        self.paused = False
        self.backlogs: dict[tuple[str, Priority], Backlog] = {}

    def standing(self, priority: Priority) -> float:
        """Sorts the agents of a class."""
        return BEFORE_ALL + self.since if self.overdue else self.tallies[priority].served
