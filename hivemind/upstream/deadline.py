"""A timer that is cheap to move, for what nearly always happens in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

_CLOCK_GRAIN_S = 0.001
"""uvloop counts in whole milliseconds and may fire that much early."""


class Deadline:
    """Calls back once unless moved or stopped in time.

    Moving it later costs no timer: the one that is set checks on firing whether the deadline has really passed. So a
    busy connection sets one timer in minutes rather than several a request.
    """

    __slots__ = ("_expired", "_loop", "_timer", "_timer_at", "at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self.at = math.inf
        """When it expires, by the event loop's clock; infinite: never. While it is started, it may be set to a later
        time."""
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self, seconds: float | None) -> None:
        """Expire this long from now instead of the earlier time; None: never."""
        if seconds is None:
            self.at = math.inf
            return
        self.at = self._loop.time() + seconds
        if self.at < self._timer_at:
            self._set_timer()

    def stop(self) -> None:
        """Don't expire until started again."""
        self.at = math.inf

    def close(self) -> None:
        """Stop for good, and drop the timer and the callback."""
        self.at = self._timer_at = math.inf
        self._expired = _noop
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self.at
        self._timer = self._loop.call_at(self.at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        if self._loop.time() >= self.at - _CLOCK_GRAIN_S:
            self.at = math.inf
            self._expired()
        elif self.at < math.inf:
            self._set_timer()


def _noop() -> None:
    pass
