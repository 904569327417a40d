"""A lane's part in a run: requests in flight and queued, its level, circuit, pauses and rate windows.

Times are in seconds since the run began.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from hivemind.lab.report.series import Series, Thinned
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState, WindowState

CUTS_KEPT = 400
SPANS_KEPT = 200
WINDOWS_KEPT = 12
_WINDOW_BUCKETS = 600


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut of the concurrency level."""

    at: float
    level: float
    cause: str


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A time in which a lane's circuit wasn't closed, or the provider had paused it."""

    begins: float
    ends: float
    state: str
    """`open`, `half_open` or `paused`."""
    cause: str


class Window:
    """The use of a rate window."""

    __slots__ = ("family", "fullest", "kind", "limit", "series", "source")

    def __init__(self, state: WindowState) -> None:
        self.family, self.kind = state.family, state.kind.value
        self.limit = state.limit
        self.source = state.source
        self.fullest = 0.0
        self.series = Series(_WINDOW_BUCKETS)
        """The share used, 0 to 1."""

    def sample(self, at: float, state: WindowState) -> None:
        """Add a sample."""
        self.limit, self.source = state.limit, state.source
        share = state.used / state.limit if state.limit else 0.0
        self.fullest = max(self.fullest, share)
        self.series.set(at, share)


class Lane:
    """A lane over the time of a run."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.upstream = ""
        self.config: LaneConfig | None = None
        self.requests = 0
        self.max_in_flight = self.longest_queue = 0
        self.in_flight, self.queued, self.level = Series(), Series(), Series()
        self.cuts: Thinned[Cut] = Thinned(CUTS_KEPT)
        self.spans: Thinned[LaneSpan] = Thinned(SPANS_KEPT)
        self.paused_s = self.open_s = 0.0
        """In all, over kept and dropped spans."""
        self.windows: dict[tuple[str, str], Window] = {}
        self._in_flight = self._queued = 0
        self._unknown = False
        """Events are missing, and no sample has come since."""
        self._circuit: tuple[float, str, str] | None = None
        self._pause: tuple[float, float, str] | None = None

    def add(self, at: float, in_flight: int, queued: int) -> None:
        """Change the numbers of requests in flight and queued by these."""
        self._in_flight, self._queued = max(0, self._in_flight + in_flight), max(0, self._queued + queued)
        self._record(at)

    def set(self, at: float, in_flight: int, queued: int) -> None:
        """Set the numbers of requests in flight and queued."""
        self._unknown = False
        self._in_flight, self._queued = in_flight, queued
        self._record(at)

    def _record(self, at: float) -> None:
        if self._unknown:
            return
        self.max_in_flight = max(self.max_in_flight, self._in_flight)
        self.longest_queue = max(self.longest_queue, self._queued)
        self.in_flight.set(at, self._in_flight)
        self.queued.set(at, self._queued)

    def sample(self, at: float, state: LaneState, *, known: bool) -> None:
        """Add a sample of the gauges. `known`: requests in flight and queued are counted from events instead."""
        self.upstream = state.upstream
        if not known:
            self.set(at, state.active, state.waiting + state.retrying)
        self.level.set(at, state.level if math.isfinite(state.level) else None)
        for window in state.windows:
            key = (window.family, window.kind.value)
            if key not in self.windows:
                if len(self.windows) >= WINDOWS_KEPT:
                    continue
                self.windows[key] = Window(window)
            self.windows[key].sample(at, window)

    def set_level(self, at: float, level: float, cause: str) -> None:
        """Set the concurrency level."""
        self.level.set(at, level if math.isfinite(level) else None)
        if cause not in ("grow", "operator"):
            self.cuts.add(Cut(at, level, cause))

    def set_circuit(self, at: float, state: str, cause: str) -> None:
        """Set the state of the circuit."""
        if self._circuit is not None:
            begins, was, why = self._circuit
            self.open_s += at - begins
            self.spans.add(LaneSpan(begins, at, was, why))
        self._circuit = None if state == "closed" else (at, state, cause)

    def pause(self, at: float, for_s: float, cause: str) -> None:
        """Begin a pause that the provider asked for."""
        self.resume(at)
        self._pause = (at, at + for_s, cause)

    def resume(self, at: float) -> None:
        """End the pause, if there is one."""
        if self._pause is not None:
            begins, until, cause = self._pause
            ends = min(at, until) if until > begins else at
            self.paused_s += ends - begins
            self.spans.add(LaneSpan(begins, ends, "paused", cause))
            self._pause = None

    def lose_count(self, at: float) -> None:
        """Forget what is in flight and queued until the next sample, because events are missing."""
        self._unknown = True
        self.in_flight.set(at, None)
        self.queued.set(at, None)

    def end(self, at: float) -> None:
        """End the run."""
        self.resume(at)
        if self._circuit is not None:
            self.set_circuit(at, "closed", "")
