"""Values over the time of a run in bounded memory."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")

BUCKETS = 1200
"""About the pixels of a plot."""
_FINEST_S = 0.05


class Series:
    """A step function of time, kept as mean and maximum of at most so many buckets. Times must not decrease."""

    def __init__(self, most: int = BUCKETS) -> None:
        self.width_s = _FINEST_S
        self._most = most
        self._value: float | None = None
        self._at = 0.0
        self._ends = 0.0
        """The end of the last bucket."""
        self._areas: list[float] = []
        self._known: list[float] = []
        """Seconds of each bucket in which the value is known."""
        self._tops: list[float] = []

    def set(self, at: float, value: float | None) -> None:
        """Set the value from this time on; None: unknown."""
        if value == self._value:
            return
        if at < self._ends:
            if self._value is not None:
                held = at - self._at
                self._areas[-1] += self._value * held
                self._known[-1] += held
            self._at = at
        else:
            self._fill(at)
        self._value = value
        if value is not None and value > self._tops[-1]:
            self._tops[-1] = value

    def points(self, until: float) -> list[tuple[float, float, float]]:
        """Return begin, mean and maximum of each bucket in which the value is known, up to the end of the run."""
        self._fill(max(until, self._at))
        return [
            (place * self.width_s, self._areas[place] / known if known else self._tops[place], self._tops[place])
            for place, known in enumerate(self._known)
            if known or self._tops[place] > 0
        ]

    def _fill(self, until: float) -> None:
        """Extend the present value to this time."""
        while until / self.width_s >= self._most:
            self._halve()
        value, at, width = self._value, self._at, self.width_s
        first, last = int(at / width), int(until / width)
        more = last + 1 - len(self._areas)
        if more > 0:
            self._areas += [0.0] * more
            self._known += [0.0] * more
            self._tops += [0.0] * more
        if value is not None:
            for place in range(first, last + 1):
                held = min(until, (place + 1) * width) - max(at, place * width)
                if held > 0:
                    self._areas[place] += value * held
                    self._known[place] += held
                    self._tops[place] = max(self._tops[place], value)
        self._at, self._ends = until, (last + 1) * width

    def _halve(self) -> None:
        self.width_s *= 2
        self._areas = [sum(self._areas[place : place + 2]) for place in range(0, len(self._areas), 2)]
        self._known = [sum(self._known[place : place + 2]) for place in range(0, len(self._known), 2)]
        self._tops = [max(self._tops[place : place + 2]) for place in range(0, len(self._tops), 2)]


class Thinned(Generic[T]):
    """A bounded selection of any number of items: all of the first ones, then every second, every fourth, and so on."""

    def __init__(self, most: int) -> None:
        self.seen = 0
        self.kept: list[T] = []
        self._most = most
        self._every = 1

    def add(self, one: T) -> None:
        """Add an item, which may be dropped."""
        if self.seen % self._every == 0:
            self.kept.append(one)
            if len(self.kept) > self._most:
                self.kept = self.kept[::2]
                self._every *= 2
        self.seen += 1
