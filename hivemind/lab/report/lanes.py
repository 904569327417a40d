"""A lane's part in a run: requests in flight and queued, its level, circuit, pauses and rate windows.

Times are in seconds since the run began. Everything is kept in bounded memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Generic, TypeVar

from msgspec import Struct, field

from hivemind.scheduler.events import NO_CUTS, LaneState, WindowState
from hivemind.scheduler.types import WindowKind, WindowReading

T = TypeVar("T")

BUCKETS = 1200
"""About the pixels of a plot."""
CUTS_KEPT = 400
SPANS_KEPT = 200
WINDOWS_KEPT = 12
_WINDOW_BUCKETS = 600
_FINEST_S = 0.05


class _Bucket(Struct):
    area: float = 0.0
    """The integral of the value."""
    known_s: float = 0.0
    """Seconds in which the value is known."""
    top: float = 0.0

    def hold(self, value: float | None, seconds: float) -> None:
        if value is not None and seconds > 0:
            self.area += value * seconds
            self.known_s += seconds
            if value > self.top:
                self.top = value

    def join(self, later: _Bucket) -> None:
        self.area += later.area
        self.known_s += later.known_s
        self.top = max(self.top, later.top)


class Series:
    """A step function of time, kept as mean and maximum of at most so many buckets. Times must not decrease."""

    def __init__(self, most: int = BUCKETS, finest_s: float = _FINEST_S) -> None:
        self.width_s = finest_s
        self._most = most
        self._value: float | None = None
        self._at = 0.0
        self._buckets = [_Bucket()]

    def set(self, at: float, value: float | None) -> None:
        """Set the value from this time on; None: unknown."""
        if value == self._value:
            return
        self._hold(at)
        self._value = value
        if value is not None:
            last = self._buckets[-1]
            last.top = max(last.top, value)

    def points(self, until: float) -> list[tuple[float, float, float]]:
        """Return begin, mean and maximum of each bucket in which the value is known, up to the end of the run."""
        self._hold(max(until, self._at))
        return [
            (place * self.width_s, each.area / each.known_s if each.known_s else each.top, each.top)
            for place, each in enumerate(self._buckets)
            if each.known_s or each.top > 0
        ]

    def _hold(self, until: float) -> None:
        """Extend the present value to this time."""
        while until >= self._most * self.width_s:
            self.width_s *= 2
            for one, other in zip(self._buckets[::2], self._buckets[1::2], strict=False):
                one.join(other)
            del self._buckets[1::2]
        buckets, value = self._buckets, self._value
        while (ends := len(buckets) * self.width_s) <= until:
            buckets[-1].hold(value, ends - self._at)
            buckets.append(_Bucket())
            self._at = ends
        buckets[-1].hold(value, until - self._at)
        self._at = until


class Thinned(Struct, Generic[T]):
    """A bounded selection of any number of items: all of the first ones, then every second, every fourth, and so on."""

    most: int
    seen: int = 0
    kept: list[T] = field(default_factory=list)
    _every: int = 1

    @property
    def omitted(self) -> int:
        """The number of items that were dropped."""
        return self.seen - len(self.kept)

    def add(self, one: T) -> None:
        """Add an item, which may be dropped."""
        if self.seen % self._every == 0:
            self.kept.append(one)
            if len(self.kept) > self.most:
                self.kept = self.kept[::2]
                self._every *= 2
        self.seen += 1


class Cut(Struct, frozen=True):
    """A cut of the concurrency level."""

    at: float
    level: float
    cause: str


class LaneSpan(Struct, frozen=True):
    """A time in which a lane's circuit wasn't closed, or the provider had paused it."""

    begins: float
    ends: float
    state: str
    """`open`, `half_open` or `paused`."""
    cause: str


class WindowSummary:
    """The use of a rate window: what the provider's headers said of it, or, where they said nothing, our own sum."""

    def __init__(self, family: str, kind: WindowKind) -> None:
        self.family = family
        self.kind = kind
        self.limit = 0.0
        self.source = ""
        """Who said the limit, as of :class:`~hivemind.scheduler.events.WindowState`."""
        self.told = False
        """The provider's headers say what is used."""
        self.fullest = 0.0
        self.series = Series(_WINDOW_BUCKETS)
        """The share used, 1 being all."""
        self._whole_at = math.inf
        """When it is whole again, by the last headers."""

    def sample(self, at: float, state: WindowState) -> None:
        """Add a sample of our own sum."""
        self.limit, self.source = state.limit, state.source
        if not self.told:
            self._set(at, state.used / state.limit if state.limit else 0.0)

    def read(self, at: float, reading: WindowReading) -> None:
        """Add what a reply's headers said."""
        if reading.limit:
            self.limit = float(reading.limit)
        if reading.remaining is None or not self.limit:
            return
        if not self.told:  # what our own sum said before that is another thing
            self.told, self.source = True, self.source or "headers"
            self.series, self.fullest = Series(_WINDOW_BUCKETS), 0.0
        self._refill(at)
        self._set(at, min(1.0, max(0.0, 1.0 - reading.remaining / self.limit)))
        self._whole_at = math.inf if reading.reset_in_s is None else at + max(0.0, reading.reset_in_s)

    def points(self, until: float) -> list[tuple[float, float, float]]:
        """Return :meth:`Series.points` of the share that is used."""
        self._refill(until)
        return self.series.points(until)

    def _refill(self, at: float) -> None:
        """Nothing is used from the moment on at which the provider said that the window would be whole again."""
        if self._whole_at < at:
            self.series.set(self._whole_at, 0.0)
            self._whole_at = math.inf

    def _set(self, at: float, share: float) -> None:
        self.fullest = max(self.fullest, share)
        self.series.set(at, share)


class LaneSummary:
    """A lane over the time of a run."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.upstream = ""
        self.requests = 0
        self.max_in_flight = self.longest_queue = 0
        self.in_flight, self.queued, self.level = Series(), Series(), Series()
        self.cuts: Thinned[Cut] = Thinned(CUTS_KEPT)
        self.spans: Thinned[LaneSpan] = Thinned(SPANS_KEPT)
        self.paused_s = self.open_s = 0.0
        """In all, over kept and dropped spans."""
        self.windows: dict[tuple[str, str], WindowSummary] = {}
        """By family of models and kind."""
        self._in_flight = self._queued = 0
        self._unknown = False
        """Events are missing, and no sample has come since."""
        self._circuit: tuple[float, str, str] | None = None
        self._pause: tuple[float, float, str] | None = None

    def add(self, at: float, in_flight: int, queued: int) -> None:
        """Change the numbers of requests in flight and queued by these."""
        self._in_flight, self._queued = max(0, self._in_flight + in_flight), max(0, self._queued + queued)
        if not self._unknown:
            self.set(at, self._in_flight, self._queued)

    def set(self, at: float, in_flight: int, queued: int) -> None:
        """Set the numbers of requests in flight and queued."""
        self._unknown = False
        self._in_flight, self._queued = in_flight, queued
        if in_flight > self.max_in_flight:
            self.max_in_flight = in_flight
        if queued > self.longest_queue:
            self.longest_queue = queued
        self.in_flight.set(at, in_flight)
        self.queued.set(at, queued)

    def sample(self, at: float, state: LaneState, *, known: bool) -> None:
        """Add a sample of the gauges. `known`: requests in flight and queued are counted from events instead."""
        self.upstream = state.upstream
        if not known:
            self.set(at, state.active, state.waiting + state.retrying)
        self._set_level(at, state.level)
        for each in state.windows:
            if (window := self._window(each.family, each.kind)) is not None:
                window.sample(at, each)

    def read_limits(self, at: float, family: str, readings: Iterable[WindowReading]) -> None:
        """Add what a reply's headers said of the rate windows."""
        for each in readings:
            if (window := self._window(family, each.kind)) is not None:
                window.read(at, each)

    def _window(self, family: str, kind: WindowKind) -> WindowSummary | None:
        """Return a rate window; None: there are too many."""
        window = self.windows.get((family, kind.value))
        if window is None and len(self.windows) < WINDOWS_KEPT:
            window = self.windows[family, kind.value] = WindowSummary(family, kind)
        return window

    def change_level(self, at: float, level: float, cause: str) -> None:
        """Change the concurrency level."""
        self._set_level(at, level)
        if cause not in NO_CUTS:
            self.cuts.add(Cut(at, level, cause))

    def _set_level(self, at: float, level: float) -> None:
        self.level.set(at, level if math.isfinite(level) else None)

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
        self.set_circuit(at, "closed", "")
