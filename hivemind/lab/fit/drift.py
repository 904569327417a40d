"""How fast a provider was at each time of a recording."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate


@dataclass(frozen=True, slots=True)
class Drift:
    """The speed in intervals of equal length; before and after them it is that of the first and the last one."""

    began_at: float = 0.0
    bin_s: float = 1.0
    speeds: tuple[float, ...] = ()
    """Empty: it was always 1."""
    _edges: Sequence[float] = field(init=False, repr=False)
    """The work done until the beginning of each interval, by a request alone."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_edges", [0.0, *accumulate(self.bin_s * each for each in self.speeds)])

    def done(self, at: float) -> float:
        """Return the work that a request alone gets done from the beginning until then, in seconds at speed 1."""
        speeds = self.speeds
        if not speeds:
            return at - self.began_at
        place = min(max(int((at - self.began_at) // self.bin_s), 0), len(speeds) - 1)
        return self._edges[place] + (at - self.began_at - place * self.bin_s) * speeds[place]

    def when(self, done: float) -> float:
        """Return when so much work is done."""
        speeds = self.speeds
        if not speeds:
            return self.began_at + done
        place = min(max(bisect_right(self._edges, done) - 1, 0), len(speeds) - 1)
        return self.began_at + place * self.bin_s + (done - self._edges[place]) / speeds[place]
