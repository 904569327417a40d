"""The clock of a simulated provider: answers end when it has advanced by their work.

It advances by a speed that changes whenever the provider begins or ends an answer, and with the time. What happens next
is therefore known only until then; the simulation asks for it again after each change.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence

from hivemind.lab.fit.service import Service

_DIGITS = 7
"""Points on the clock are rounded to so many decimals for ordering, so that rounding errors don't reorder them."""
Milestone = tuple[float, int, Callable[[float], None]]
"""Something that happens after so much work, with what orders it among simultaneous ones."""


class Job:
    """An attempt that the provider works on, or that waits for it to."""

    __slots__ = ("milestones", "over", "served")

    def __init__(self, milestones: Sequence[Milestone]) -> None:
        self.milestones = milestones
        self.served = False
        self.over = False


class ServiceClock:
    """The clock of one provider in one simulation."""

    def __init__(self, service: Service) -> None:
        self._speed, self._places, self._drift = service.speed, service.places, service.drift
        self._speeds: list[float] = [1.0, 1.0]
        """By number of answers that the provider works on."""
        self._served = 0
        self._waiting: deque[Job] = deque()
        self._clock = 0.0
        self._done: float | None = None
        """What a request alone would have done by the time the clock was read."""
        self._heap: list[tuple[float, int, float, Job, Callable[[float], None]]] = []
        self.changed = False
        """What happens next may have changed."""
        self.version = 0
        """Counts these changes."""

    def enter(self, now: float, milestones: Sequence[Milestone]) -> Job:
        """Begin an attempt; without milestones it only keeps the provider at work."""
        job = Job(milestones)
        if self._places is not None and self._served >= self._places:
            self._waiting.append(job)
        else:
            self._advance(now)
            self._serve(job)
        return job

    def leave(self, now: float, job: Job) -> None:
        """End an attempt."""
        job.over = True
        if not job.served:
            self._waiting.remove(job)
            return
        self._advance(now)
        self._served -= 1
        if self._waiting:
            self._serve(self._waiting.popleft())

    def next(self) -> tuple[float, int] | None:
        """Return when the next milestone is reached if nothing changes, and its order."""
        heap = self._heap
        while heap and heap[0][3].over:
            heapq.heappop(heap)
        if not heap or self._done is None:
            return None
        _, order, at, _, _ = heap[0]
        return self._drift.when(self._done + max(0.0, at - self._clock) / self._pace()), order

    def take(self, now: float) -> Callable[[float], None]:
        """Reach the next milestone, and return what happens."""
        _, _, at, _, happen = heapq.heappop(self._heap)
        self._done, self._clock = self._drift.done(now), max(self._clock, at)
        self.changed = True
        return happen

    def _serve(self, job: Job) -> None:
        job.served = True
        self._served += 1
        for work, order, happen in job.milestones:
            at = self._clock + work
            heapq.heappush(self._heap, (round(at, _DIGITS), order, at, job, happen))

    def _advance(self, now: float) -> None:
        done = self._drift.done(now)
        if self._done is not None:
            self._clock += (done - self._done) * self._pace()
        self._done = done
        self.changed = True

    def _pace(self) -> float:
        speeds = self._speeds
        while len(speeds) <= self._served:
            speeds.append(self._speed.of(len(speeds)))
        return speeds[self._served]
