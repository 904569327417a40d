"""A clock on which an hour takes a minute, for programs whose clocks run as fast."""

from __future__ import annotations

import asyncio
import selectors
import time


class _FastSelector(selectors.DefaultSelector):
    """Waits a fraction of the time that its loop asks for."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(timeout if timeout is None else timeout / self._speed)


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop on which so many seconds pass in one, with real sockets."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        super().__init__(_FastSelector(speed))

    def time(self) -> float:
        return time.monotonic() * self._speed
