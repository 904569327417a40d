"""A lane's part in a run: what flew and waited, its level, and what bent it. Times are seconds since the run began."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hivemind.lab.report.series import Series, Thinned
from hivemind.scheduler.config import LaneConfig
from hivemind.scheduler.gauges import LaneState, WindowState

CUTS_KEPT = 400
STRETCHES_KEPT = 200
WINDOWS_KEPT = 12
_WINDOW_BUCKETS = 600


@dataclass(frozen=True, slots=True)
class Cut:
    """The level was cut."""

    at: float
    level: float
    cause: str


@dataclass(frozen=True, slots=True)
class LaneSpan:
    """A time in which a lane's circuit wasn't closed, or the provider wanted a pause."""

    begins: float
    ends: float
    what: str
    """`open`, `half_open` or `parked`."""
    cause: str


class Window:
    """A rate window's use."""

    __slots__ = ("family", "fullest", "kind", "limit", "series", "source")

    def __init__(self, state: WindowState) -> None:
        self.family, self.kind = state.family, state.kind.value
        self.limit = state.limit
        self.source = state.source
        self.fullest = 0.0
        self.series = Series(_WINDOW_BUCKETS)
        """The share of it that is used, 1 being all."""

    def sampled(self, at: float, state: WindowState) -> None:
        """It stands so."""
        self.limit, self.source = state.limit, state.source
        share = state.used / state.limit if state.limit else 0.0
        self.fullest = max(self.fullest, share)
        self.series.set(at, share)


class Lane:
    """One of them."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.upstream = ""
        self.config: LaneConfig | None = None
        self.requests = 0
        self.busiest = self.longest_queue = 0
        self.flying, self.waiting, self.level = Series(), Series(), Series()
        self.cuts: Thinned[Cut] = Thinned(CUTS_KEPT)
        self.spans: Thinned[LaneSpan] = Thinned(STRETCHES_KEPT)
        self.parked_s = self.open_s = 0.0
        """In all, of those told and untold."""
        self.windows: dict[tuple[str, str], Window] = {}
        self._flying = self._waiting = 0
        self._blind = False
        """Events are missing, and no sample has come since."""
        self._circuit: tuple[float, str, str] | None = None
        self._parked: tuple[float, float, str] | None = None

    def moved(self, at: float, flying: int, waiting: int) -> None:
        """So many more, or fewer, fly and wait."""
        self._flying, self._waiting = max(0, self._flying + flying), max(0, self._waiting + waiting)
        self._note(at)

    def counted(self, at: float, flying: int, waiting: int) -> None:
        """So many fly and wait."""
        self._blind = False
        self._flying, self._waiting = flying, waiting
        self._note(at)

    def _note(self, at: float) -> None:
        if self._blind:
            return
        self.busiest, self.longest_queue = max(self.busiest, self._flying), max(self.longest_queue, self._waiting)
        self.flying.set(at, self._flying)
        self.waiting.set(at, self._waiting)

    def sampled(self, at: float, state: LaneState, known: bool) -> None:
        """Its gauges. `known`: what flies and waits was counted from the events, so that it isn't taken from here."""
        self.upstream = state.upstream
        if not known:
            self.counted(at, state.active, state.waiting + state.retrying)
        self.level.set(at, state.level if math.isfinite(state.level) else None)
        for window in state.windows:
            key = (window.family, window.kind.value)
            if key not in self.windows:
                if len(self.windows) >= WINDOWS_KEPT:
                    continue
                self.windows[key] = Window(window)
            self.windows[key].sampled(at, window)

    def levelled(self, at: float, level: float, cause: str) -> None:
        """It has another level."""
        self.level.set(at, level if math.isfinite(level) else None)
        if cause not in ("grow", "operator"):
            self.cuts.add(Cut(at, level, cause))

    def circuit(self, at: float, state: str, cause: str) -> None:
        """Its circuit moved."""
        if self._circuit is not None:
            begins, was, why = self._circuit
            self.open_s += at - begins
            self.spans.add(LaneSpan(begins, at, was, why))
        self._circuit = None if state == "closed" else (at, state, cause)

    def parked(self, at: float, for_s: float, cause: str) -> None:
        """The provider wants a pause."""
        self.released(at)
        self._parked = (at, at + for_s, cause)

    def released(self, at: float) -> None:
        """It is over."""
        if self._parked is not None:
            begins, until, cause = self._parked
            ends = min(at, until) if until > begins else at
            self.parked_s += ends - begins
            self.spans.add(LaneSpan(begins, ends, "parked", cause))
            self._parked = None

    def lost(self, at: float) -> None:
        """Events are missing: what flies isn't known until the next sample."""
        self._blind = True
        self.flying.set(at, None)
        self.waiting.set(at, None)

    def end(self, at: float) -> None:
        """The run is over."""
        self.released(at)
        if self._circuit is not None:
            self.circuit(at, "closed", "")
