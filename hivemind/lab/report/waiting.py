"""How many requests waited over the time of a run, by what kept them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hivemind.journal.wait_causes import NAMES
from hivemind.lab.report.lanes import Series

_BUCKETS = 300


class WaitingByCause:
    """A series for each of :data:`~hivemind.journal.wait_causes.CAUSES`. Times are in seconds since the run began."""

    def __init__(self) -> None:
        self._series = [Series(_BUCKETS) for _ in NAMES]
        self._at = 0.0

    def set(self, at: float, numbers: Sequence[int]) -> None:
        """Set how many requests wait from this time on, in the order of the causes."""
        self._at = at = max(at, self._at)
        for series, number in zip(self._series, numbers, strict=True):
            series.set(at, number)

    def lose(self, at: float) -> None:
        """Forget how many wait, because events are missing."""
        self._at = at = max(at, self._at)
        for series in self._series:
            series.set(at, None)

    def points(self, until: float) -> Iterator[tuple[str, list[tuple[float, float, float]]]]:
        """Yield each cause that there was, and its :meth:`Series.points`."""
        for name, series in zip(NAMES, self._series, strict=True):
            points = series.points(until)
            if any(top for _, _, top in points):
                yield name, points
