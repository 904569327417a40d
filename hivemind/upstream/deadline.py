"""A timer for what nearly always happens in time."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable

_CLOCK_GRAIN_S = 0.001
"""uvloop counts in whole milliseconds and may fire that much early."""


class Deadline:
    """Calls back once unless moved or stopped in time.

    Moving it later costs no timer: the one that is set looks on firing whether its time has really come. So a
    connection that is kept busy sets one timer in minutes rather than several a request.
    """

    __slots__ = ("_at", "_expired", "_loop", "_timer", "_timer_at")

    def __init__(self, loop: asyncio.AbstractEventLoop, expired: Callable[[], None]) -> None:
        self._loop = loop
        self._expired = expired
        self._at = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf

    def start(self, seconds: float | None) -> None:
        """Expire this long from now, and not when it was to before; None: never."""
        if seconds is None:
            self._at = math.inf
            return
        self._at = self._loop.time() + seconds
        if self._at < self._timer_at:
            self._set_timer()

    def stop(self) -> None:
        """Don't expire until started again."""
        self._at = math.inf

    def close(self) -> None:
        """Stop for good, and let go of the timer and of whoever was to be called."""
        self._at = self._timer_at = math.inf
        self._expired = _nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = self._at
        self._timer = self._loop.call_at(self._at, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        if self._loop.time() >= self._at - _CLOCK_GRAIN_S:
            self._at = math.inf
            self._expired()
        elif self._at < math.inf:
            self._set_timer()


def _nothing() -> None:
    """Whoever was to be called is gone."""
