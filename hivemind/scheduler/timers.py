"""What is to happen when: the scheduler's own alarm clock."""

from __future__ import annotations

import math
from collections.abc import Iterator
from enum import Enum
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from .lane import Lane
    from .ticket import Agent, Ticket

    Subject: TypeAlias = Lane | Ticket | Agent


class Timer(Enum):
    """What a timer is for."""

    LANE = "lane"
    """Look at a lane again."""
    DUE = "due"
    """A ticket's wait between two attempts is over."""
    EXPIRE = "expire"
    """A ticket may have waited too long."""
    BOOST = "boost"
    """An agent's boost is over."""


class Timers:
    """Timers in order of time. They aren't taken back: whoever they wake looks whether it still matters."""

    __slots__ = ("_heap", "_numbers")

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer, Subject]] = []
        self._numbers = 0

    @property
    def next_at(self) -> float | None:
        """When the earliest is due; None: there is none."""
        return self._heap[0][0] if self._heap else None

    def set(self, at: float, kind: Timer, subject: Subject) -> None:
        """Wake at this moment; infinity is never."""
        if not math.isinf(at):
            self._numbers += 1
            heappush(self._heap, (at, self._numbers, kind, subject))

    def due(self, now: float) -> Iterator[tuple[float, Timer, Subject]]:
        """Those whose time has come, including ones set meanwhile."""
        while self._heap and self._heap[0][0] <= now:
            at, _, kind, subject = heappop(self._heap)
            yield at, kind, subject
