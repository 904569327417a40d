"""Folds a run's events, recorded or simulated, into its requests and concurrency level over time."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from hivemind.scheduler import events as ev
from hivemind.world.lifecycle import Lifecycle, OpenRequests
from hivemind.world.state import Carried
from hivemind_tui.whatif.protocol import RunSeries

Grant = tuple[float, int]
"""When a request was granted, and its ticket."""
MOST_INTERVALS = 512
"""Most intervals of a run; when there would be more, each two become one."""
_FINEST_S = 0.25


class SeriesFold:
    """The series of a run whose events come in order."""

    def __init__(self) -> None:
        self._began: float | None = None
        self._at = 0.0
        self._width_s = _FINEST_S
        self._requests = requests = OpenRequests(Lifecycle)
        self._levels: dict[str, float] = {}
        self._level: float | None = None
        self._sums: list[list[float]] = []
        """By interval: seconds, then in flight, waiting and level, each times seconds, and the seconds with a level."""
        self._folds: Mapping[type[ev.Event], Callable[[Any], object]] = {
            ev.Arrived: requests.arrived,
            ev.Granted: requests.granted,
            ev.AttemptFailed: requests.attempt_failed,
            ev.Finished: requests.ended,
            ev.Abandoned: requests.ended,
            ev.Refused: requests.ended,
            ev.LaneOpened: self._lane_opened,
            ev.LevelChanged: lambda event: self._set_level(event.lane, event.level),
            ev.Sampled: self._sampled,
            Carried: self._carried,
        }

    @property
    def began(self) -> float | None:
        """The first request's arrival; None before that."""
        return self._began

    @property
    def ended(self) -> float:
        """The end of the last request so far."""
        return self._at

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        fold = self._folds.get(type(event))
        if fold is None:
            return
        arrival = type(event) is ev.Arrived
        if self._began is not None:
            # Gauges are still sampled after the last request, when the run has ended.
            if arrival or self._requests.by_ticket:
                self._add_time(event.at)
        elif arrival:
            self._began = self._at = event.at
        fold(event)

    def series(self) -> RunSeries:
        """Return the series so far."""
        known = [sums for sums in self._sums if sums[0] > 0]
        return RunSeries(
            self._width_s,
            [sums[1] / sums[0] for sums in known],
            [sums[2] / sums[0] for sums in known],
            [sums[3] / sums[4] if sums[4] else None for sums in known],
        )

    def _add_time(self, until: float) -> None:
        """Add the time since the last event to the intervals."""
        assert self._began is not None
        while self._at < until:
            index = int((self._at - self._began) / self._width_s)
            if index >= MOST_INTERVALS:
                self._halve()
                continue
            while len(self._sums) <= index:
                self._sums.append([0.0] * 5)
            end = min(until, max(self._began + (index + 1) * self._width_s, math.nextafter(self._at, math.inf)))
            for_s = end - self._at
            sums = self._sums[index]
            sums[0] += for_s
            sums[1] += for_s * self._requests.in_flight
            sums[2] += for_s * self._requests.waiting
            if self._level is not None:
                sums[3] += for_s * self._level
                sums[4] += for_s
            self._at = end

    def _halve(self) -> None:
        if len(self._sums) % 2:
            self._sums.append([0.0] * 5)
        pairs = zip(self._sums[::2], self._sums[1::2], strict=True)
        self._sums = [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]
        self._width_s *= 2

    def _lane_opened(self, event: ev.LaneOpened) -> None:
        if event.config is not None:
            self._set_level(event.lane, event.config.max_concurrency or math.inf)

    def _sampled(self, event: ev.Sampled) -> None:
        for lane in event.lanes:
            self._set_level(lane.lane, lane.level)

    def _set_level(self, lane: str, level: float) -> None:
        self._levels[lane] = level
        whole = sum(self._levels.values())
        self._level = None if math.isinf(whole) else whole

    def _carried(self, event: Carried) -> None:
        self._requests.carried(event)
        for lane in event.state.lanes:
            self._set_level(lane.lane, lane.level)
        if self._began is None and event.state.tickets:
            self._began = self._at = event.at


def first_difference(first: Sequence[Grant], second: Sequence[Grant]) -> float | None:
    """Return when two runs begin to differ: the first grant with another time or ticket; None if they never do."""
    for one, other in zip_longest(first, second):
        if one != other:
            return min(grant[0] for grant in (one, other) if grant is not None)
    return None
