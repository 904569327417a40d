"""A transport and a loop's clock that a test drives by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial


class Wire(asyncio.Transport):
    """The other side of a protocol, driven by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.ended = False
        self.closed = False
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """It stays the one it was made for."""


class Clock:
    """A loop's clock that is set by hand."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.now = 100.0
        self.timers = 0
        """How many were ever set."""
        self.create_task, self.call_soon = loop.create_task, lambda callback: callback()
        self._due: list[tuple[float, Callable[[], None]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, at: float, callback: Callable[..., None], *args: object) -> None:
        self.timers += 1
        self._due.append((at, partial(callback, *args)))

    def pass_time(self, seconds: float) -> None:
        """Let what is due by then happen, in order."""
        end = self.now + seconds
        while (due := min(self._due, key=lambda each: each[0], default=None)) is not None and due[0] <= end:
            self._due.remove(due)
            self.now = due[0]
            due[1]()
        self.now = end
