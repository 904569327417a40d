"""The day that daily budgets count, by a wall clock that may be set at any time."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger(__name__)

JUMP_S = 30.0
"""A wall clock that moves by more than this against the monotonic one, between two checks, was set. Late checks and NTP
slewing move it by less, and can bring midnight forward by no more than that."""
STEADY_S = 300.0
"""Time that a clock must run steadily after it was set, before a new day is taken from it. Corrections of a wrong clock
(NTP after the start of a virtual machine, an operator's mistake) usually come sooner."""


class DayClock:
    """Begins each day once, by a wall clock that may be set at any time.

    A day begins at local midnight. The wall clock alone can't be trusted for that: one that is set forward by a day and
    back again would renew every day's budgets, and one that is set back over midnight would renew them at the second
    midnight. So the day that began last is kept, in the database too, and

    * a day begins when its date is later than that of the last one, and the wall clock agrees with the monotonic clock.
      After a jump it must first agree for :data:`STEADY_S`. That also covers a suspended machine, whose monotonic clock
      stands still on Linux: the day begins some minutes after it wakes up;
    * a day that has begun doesn't begin again. Dates are compared, not times, so that the hour that daylight saving
      skips or repeats makes no difference;
    * a date earlier than the last one means that the last one was taken from a wrong clock. Nothing begins until a
      midnight has passed while the clock ran steadily: then the day begins that it shows, and is the last from then on.
      So a clock that was years ahead for a while doesn't end daily budgets for years.

    At a start only the wall clock can tell the day, and its date is believed.
    """

    def __init__(self, wall: float, now: float, last: str = "") -> None:
        """`wall` is in seconds since the epoch, `now` of a monotonic clock; `last` is the day that began last, if
        any."""
        today = day_of(wall)
        self.last = max(last, today)
        """The day that began last, as `2026-11-22`."""
        self._wall, self._now = wall, now
        self._steady_from = now
        self._seen = today
        """The date at the last check, while the clock ran steadily; empty after it was set."""
        if last > today:
            _log.warning(
                "it is %s by this machine's clock, but %s had begun already in an earlier run: budgets of a day go on,"
                " and are renewed at the next midnight",
                today,
                last,
            )

    def check(self, wall: float, now: float) -> bool:
        """Check the time, about once a second. Return whether a day begins, which is :attr:`last` then."""
        jump_s = (wall - self._wall) - (now - self._now)
        self._wall, self._now = wall, now
        today = day_of(wall)
        if abs(jump_s) > JUMP_S:
            if now >= self._steady_from and today != self._seen:
                _log.warning(
                    "this machine slept, or its clock was set by %+.0f s, from %s to %s: budgets of a day are renewed"
                    " once a later day than %s has stayed for %.0f minutes",
                    jump_s,
                    self._seen,
                    today,
                    self.last,
                    STEADY_S / 60,
                )
            self._steady_from = now + STEADY_S
            self._seen = ""
        if now < self._steady_from:
            return False
        passed = bool(self._seen) and today > self._seen
        self._seen = today
        if today > self.last or (passed and today < self.last):
            self.last = today
            return True
        return False


def day_of(wall: float) -> str:
    """Return the local date, as `2026-11-22`."""
    return time.strftime("%Y-%m-%d", time.localtime(wall))
