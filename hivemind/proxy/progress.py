"""Throttled reports of a stream's progress to the scheduler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.5


class ProgressReporter:
    """Calls `report` within half a second of new content, and no more often than that.

    So the scheduler soon knows what an agent got, even if a long silence follows.
    """

    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report
        self._timer: asyncio.TimerHandle | None = None

    def content(self) -> None:
        """Note that content came."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._expired)

    def stop(self) -> None:
        """Report nothing more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expired(self) -> None:
        self._timer = None
        self._report()
