"""The admission gate: a counter and a predicate (paper, equation 1)."""

from __future__ import annotations

import math


class Gate:
    """Count requests in flight (A) against a limit (C_max) that may change at any moment.

    Raising the limit makes room at once; lowering it takes effect as requests complete, so `active` may exceed `limit`
    for a while. The owner of the queue reads :attr:`free` and calls :meth:`enter` for each ticket it grants.
    """

    __slots__ = ("active", "limit")

    def __init__(self, limit: float) -> None:
        self.active = 0
        self.limit = limit

    @property
    def slots(self) -> float:
        """Whole slots at the present limit, never less than one: a gate without any would starve every request."""
        return self.limit if math.isinf(self.limit) else max(1, int(self.limit))

    @property
    def free(self) -> bool:
        """Whether one more request fits: equation 1, A < C_max."""
        return self.active + 1 <= self.limit or self.active < 1  # `active < slots`, computed at each grant

    @property
    def vacant(self) -> float:
        """Number of free slots."""
        return self.slots - self.active

    def enter(self) -> None:
        """Take a slot for a granted ticket."""
        self.active += 1

    def leave(self) -> None:
        """Release the slot of an ended attempt."""
        self.active -= 1
