"""The admission gate: a counter and a predicate (paper, equation 1)."""

from __future__ import annotations

import math


class Gate:
    """Counts requests in flight against a limit that may change at any moment.

    Raising the limit makes room at once; lowering it takes effect as requests complete, so `active` may exceed `limit`
    for a while. Whoever owns the queue asks :attr:`free` and calls :meth:`enter` for each ticket it lets through, so
    exactly as many fly as now fit.
    """

    __slots__ = ("active", "limit")

    def __init__(self, limit: float) -> None:
        self.active = 0
        self.limit = limit

    @property
    def slots(self) -> float:
        """Whole slots at the present limit, never less than one: a gate that is shut for good starves everybody."""
        return self.limit if math.isinf(self.limit) else max(1, int(self.limit))

    @property
    def free(self) -> bool:
        """Whether one more fits."""
        return self.active + 1 <= self.limit or self.active < 1  # what `active < slots` comes to, asked at each grant

    @property
    def vacant(self) -> float:
        """How many more fit."""
        return self.slots - self.active

    def enter(self) -> None:
        """One more is in flight."""
        self.active += 1

    def leave(self) -> None:
        """One is done; its slot is free again."""
        self.active -= 1
