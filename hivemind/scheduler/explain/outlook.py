"""Estimates, for people, of when the rate windows will let through one ticket after another.

The scheduler itself only checks whether the next ticket fits. Here the tickets in front count too, and charges come
free again in their order.
"""

from __future__ import annotations

import math
from bisect import bisect_left

from hivemind.scheduler.limits.allowance import Allowance
from hivemind.scheduler.limits.headers import MAX_SHARE, PERIOD_S
from hivemind.scheduler.limits.window import Window
from hivemind.scheduler.ticket import Ticket


class Outlook:
    """The windows of one family, to be asked about its tickets in the order in which they will be sent."""

    def __init__(self, allowance: Allowance, first: Ticket, now: float) -> None:
        self._allowance = allowance
        self._openings = [(kind, Opening(window, now)) for kind, window in allowance.windows.items() if window.limits]
        self.held: tuple[str, float] | None = None
        """The gate that is shut to the first ticket, and so to all, and for how many seconds; None: none is."""
        if self._openings:
            self.held = allowance.shut(now, first)

    def after(self, ticket: Ticket) -> float:
        """Return the seconds until the windows let the ticket through, after all earlier ones."""
        amount = self._allowance.amount
        return max((opening.after(amount(kind, ticket)) for kind, opening in self._openings), default=0.0)


class Opening:
    """When one window will have room for one amount after another."""

    def __init__(self, window: Window, now: float) -> None:
        self._window = window
        self._now = now
        self._total = 0.0  # amounts asked for so far
        limit = window.shown_limit
        self._most = math.inf if limit is None else limit * MAX_SHARE
        self._room, self._charges = window.sliding(now)
        self._left = window.stated.left
        self._freed: list[float] = []  # the sum that has come free by each moment of `_freed_at`
        self._freed_at: list[float] = []

    def after(self, amount: float) -> float:
        """Return the seconds until this amount may be taken besides all earlier ones."""
        self._total += min(amount, self._most)
        delay_s = self._sliding() if self._total > self._room else 0.0
        missing = self._total - self._left
        return max(delay_s, self._window.stated.refilled_in_s(self._now, missing)) if missing > 0 else delay_s

    def _sliding(self) -> float:
        """Return the seconds by our own limit: a charge comes free after a minute, its successor one later."""
        limit = self._window.limit
        assert limit is not None
        minutes = math.ceil(self._total / limit) - 1
        missing = self._total - minutes * limit - self._room
        if missing <= 0:
            return minutes * PERIOD_S
        while not self._freed or self._freed[-1] < missing:
            charge = next(self._charges, None)
            if charge is None:
                return (minutes + 1) * PERIOD_S
            self._freed.append(charge.amount + (self._freed[-1] if self._freed else 0.0))
            self._freed_at.append(charge.at)
        at = self._freed_at[bisect_left(self._freed, missing)]
        return minutes * PERIOD_S + max(0.0, at + PERIOD_S - self._now)
