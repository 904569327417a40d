"""One rate window: an allowance of requests or tokens a minute (paper, Rate-Limit Tracking).

Two levels. *Proactive*: a sliding window of what was sent, seeded from the profile or the settings. *Reactive*: what
the provider's headers stated, less what has been sent since (:mod:`.headers`). Headers replace a profile's guess but
not a limit the user set.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

from hivemind.scheduler.limits.headers import MAX_SHARE, PERIOD_S, Charge, HeaderWindow
from hivemind.scheduler.types import WindowKind, WindowReading

Reservation = list[tuple["Window", Charge]]  # what one attempt takes from the windows of its lane and family


class Window:
    """One kind of allowance of one lane and model family."""

    def __init__(self, kind: WindowKind, limit: float | None, *, binding: bool = False) -> None:
        self.kind = kind
        self.limit = limit  # our own limit a minute; None: none
        self.binding = binding  # the user set the limit, so headers don't replace it
        self.enforced = limit is not None
        self.used = 0.0  # charged in the last minute
        self.reserved = 0.0  # the part of it that isn't settled yet
        self.stated = HeaderWindow(kind)
        self._charges: deque[Charge] = deque()

    @property
    def source(self) -> str:
        """Where the limit in force comes from: `headers`, `settings` or `profile`."""
        if self.stated.limit is not None and not self.binding:
            return "headers"
        return "settings" if self.binding else "profile"

    @property
    def shown_limit(self) -> float | None:
        """The limit in force: the user's, else the one the provider stated, else the profile's."""
        if self.binding and self.limit is not None:
            return self.limit if self.stated.limit is None else min(self.limit, self.stated.limit)
        return self.limit if self.stated.limit is None else self.stated.limit

    @property
    def limits(self) -> bool:
        """Whether anything is limited here."""
        return self.enforced or self.stated.limit is not None

    def set_limit(self, limit: float | None, *, binding: bool) -> None:
        """Change our own limit, or (None) drop it; what is used in the window stays counted."""
        self.limit = limit
        self.binding = binding
        self.enforced = limit is not None and (binding or self.stated.limit is None)

    def sliding(self, now: float) -> tuple[float, Iterator[Charge]]:
        """Return the room under our own limit now (inf: there is none), and the charges against it, oldest first."""
        self._roll(now)
        if not self.enforced or self.limit is None:
            return math.inf, iter(())
        return self.limit - self.used, iter(self._charges)

    def remaining(self, now: float) -> float:
        """Return what may still be taken now, by the stricter of the two levels."""
        room, _ = self.sliding(now)
        return max(0.0, min(room, self.stated.level))

    def resets_in_s(self, now: float) -> float | None:
        """Return the seconds until the window is whole again; None: unknown."""
        stated_s = self.stated.reset_in_s(now)
        if stated_s is not None:
            return stated_s
        return max(0.0, self._charges[-1].at + PERIOD_S - now) if self._charges else None

    def delay_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` may be taken, 0 for now; a guess where other clients matter."""
        self._roll(now)
        delay = 0.0 if self.stated.limit is None else self.stated.delay_s(now, amount)
        if self.enforced and self.limit is not None:
            most = self.limit * MAX_SHARE
            excess = self.used + (amount if amount < most else most) - self.limit
            if excess > 0:
                delay = max(delay, self._freed_in_s(now, excess))
        return delay

    def _freed_in_s(self, now: float, amount: float) -> float:
        """Return the seconds until charges of this amount are older than a minute."""
        for charge in self._charges:
            amount -= charge.amount
            if amount <= 0:
                return max(charge.at + PERIOD_S - now, 0.001)
        return PERIOD_S

    def take(self, now: float, amount: float) -> Charge:
        """Reserve an amount for a granted attempt."""
        charge = Charge(now, amount, probe=self.stated.take(now, amount))
        self._charges.append(charge)
        self.used += amount
        self.reserved += amount
        return charge

    def settle(self, now: float, charge: Charge, real: float) -> None:
        """Replace the reservation with the real usage."""
        if charge.settled:
            return
        charge.settled = True
        self.stated.settle(now, charge, real)
        if not charge.expired:
            self.reserved -= charge.amount
            self.used += real - charge.amount
        charge.amount = real

    def read(self, now: float, reading: WindowReading, started_at: float, charge: Charge | None) -> bool:
        """Take in what a reply's headers stated (:meth:`.headers.HeaderWindow.read`)."""
        self._roll(now)
        doubted = self.stated.read(now, reading, started_at, charge)
        if self.stated.limit is not None:
            self.enforced = self.binding
        return doubted

    def _roll(self, now: float) -> None:
        """Expire and refill up to now, on both levels."""
        charges = self._charges
        while charges and charges[0].at <= now - PERIOD_S:
            old = charges.popleft()
            old.expired = True
            self.used -= old.amount
            if not old.settled:
                self.reserved -= old.amount
        if self.stated.limit is not None:
            self.stated.roll(now)
