"""Timers of lanes, tickets and agents, in one heap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from hivemind.scheduler.lane import Lane
from hivemind.scheduler.ticket import Agent, Ticket, TicketState

Subject = Lane | Ticket | Agent
"""A lane to look at again, a ticket to retry or to refuse, an agent whose boost ends."""
FEW = 1000  # timers that are kept whether they still matter or not


class Timers:
    """Timers in order of time.

    They aren't cancelled: the handler checks whether a timer still matters. Most don't: a request that has waited is
    answered long before its wait would have been too long. So each time they have become twice as many, those that
    don't matter any more are dropped, and their tickets with them.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Subject]] = []
        self._many = FEW
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def next_at(self) -> float | None:
        """When the earliest timer is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def set(self, at: float, subject: Subject) -> None:
        """Wake at this moment; infinity is never."""
        if not math.isinf(at):
            self._numbers += 1
            heappush(self._heap, (at, self._numbers, subject))
            if len(self._heap) > self._many:
                self._tidy()

    def due(self, now: float) -> Iterator[tuple[float, Subject]]:
        """Yield the timers that are due, including ones set meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            at, _, subject = heappop(self._heap)
            yield at, subject

    def _tidy(self) -> None:
        self._heap = [timer for timer in self._heap if _matters(timer[0], timer[2])]
        heapify(self._heap)
        self._many = max(FEW, 2 * len(self._heap))


def _matters(at: float, subject: Subject) -> bool:
    if isinstance(subject, Ticket):
        return subject.state is not TicketState.DONE
    return at == (subject.boosted_until if isinstance(subject, Agent) else subject.wake_at)
