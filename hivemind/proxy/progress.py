"""How often the scheduler hears of a stream that goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

EVERY_S = 0.5


class Telling:
    """Calls `tell` after content came: half a second later at the latest, and no more often than that.

    So whatever an agent got is known soon, be it followed by a long silence.
    """

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._timer: asyncio.TimerHandle | None = None

    def content(self) -> None:
        """Something came."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(EVERY_S, self._due)

    def stop(self) -> None:
        """Nothing more is to be told."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._tell()
