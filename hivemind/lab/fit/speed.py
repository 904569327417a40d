"""How fast a provider works on each request: while it works on several, and at each time of a recording."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from msgspec import Struct

Law = Literal["alone", "power", "shared", "late", "knee"]


class Speed(Struct, frozen=True):
    """The speed common to all requests that are being answered; 1 is that of a request alone."""

    law: Law = "alone"
    """`alone`: it doesn't depend on others. `power`: n^-amount. `shared`: each other request adds the same to
    every step of a batch. `late`: only many slow each other down. `knee`: so many run at full speed, more share
    that."""
    amount: float = 0.0

    def of(self, n: int) -> float:
        """Return the speed with `n` requests being answered."""
        if n <= 1 or self.law == "alone":
            return 1.0
        if self.law == "power":
            return float(n**-self.amount)
        if self.law == "shared":
            return 1.0 / (1.0 + self.amount * (n - 1))
        if self.law == "late":
            return 1.0 / (1.0 + ((n - 1) / self.amount) ** 2)
        return min(1.0, self.amount / n)


ALONE = Speed()
"""Requests don't slow each other down."""


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
