"""The native client's response: a buffer between connection and reader."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from hivemind.upstream.base import Headers, Truncated, UpstreamError, raisable

HIGH_WATER = 64 * 1024
"""Bytes kept for a slow reader before reading from the socket pauses."""


class ResponseSource(Protocol):
    """The connection that a response comes from."""

    def pause(self) -> None:
        """Read no more until :meth:`resume`."""

    def resume(self) -> None:
        """Continue to read."""

    def abort(self, error: UpstreamError) -> None:
        """Close, and fail the response with `error`."""


class NativeResponse:
    """Filled by a connection, emptied by the reader.

    It outlives its exchange: the connection serves others as soon as the last byte has come, read or not.
    """

    __slots__ = (
        "_chunks",
        "_connection",
        "_error",
        "_loop",
        "_size",
        "_waiter",
        "_watcher",
        "headers",
        "relay",
        "status",
    )

    def __init__(self, connection: ResponseSource, loop: asyncio.AbstractEventLoop) -> None:
        self.status = 0
        """0 until the head has come."""
        self.headers: Headers = []
        self._loop = loop
        self._connection: ResponseSource | None = connection
        self._chunks: list[bytes] = []
        self._size = 0
        self._error: UpstreamError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._watcher: Callable[[], None] | None = None
        self.relay: Callable[[bytes, int], None] | None = None
        """Takes a chunk, and where its body begins, in place of the buffer, while that is empty, wherever one comes by
        itself."""

    @property
    def whole(self) -> bytes | None:
        if self._connection is not None or self._error is not None:
            return None
        return self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)

    @property
    def begun(self) -> bytes:
        return self._chunks[0] if self._chunks else b""

    @property
    def growing(self) -> bool:
        return self._connection is not None and not self.paused

    def watch(self, callback: Callable[[], None] | None) -> None:
        self._watcher = callback

    def progressed(self) -> None:
        """Report that more has come, outside of the parser."""
        if self._watcher is not None:
            self._watcher()

    async def head(self) -> None:
        """Wait for the response head. Cancelling drops the connection.

        Raises: Disconnected, UpstreamTimeout.
        """
        if not self.status and self._error is None:
            await self._wait()
        if not self.status and self._error is not None:
            raise raisable(self._error)

    async def read(self) -> bytes:
        while not self._chunks:
            if self._error is not None:
                raise raisable(self._error)
            if self._connection is None:
                return b""
            await self._wait()
        return self.take()

    def take(self) -> bytes:
        """Return what has come and wasn't read, and let more come."""
        if not self._chunks:
            return b""
        data = self._chunks[0] if len(self._chunks) == 1 else b"".join(self._chunks)
        self._chunks.clear()
        paused, self._size = self.paused, 0
        if paused and self._connection is not None:
            self._connection.resume()
        return data

    def close(self) -> None:
        connection = self._connection
        if connection is not None:
            self._chunks.clear()
            connection.abort(Truncated("closed before its end"))

    @property
    def paused(self) -> bool:
        """Whether so much is buffered that reading from the socket waits for the reader."""
        return self._size > HIGH_WATER

    def set_status(self, status: int) -> None:
        """Complete the head."""
        self.status = status
        self._wake()

    def feed(self, data: bytes) -> None:
        """Add a piece of the body."""
        self._chunks.append(data)
        before, self._size = self._size, self._size + len(data)
        if self._size > HIGH_WATER >= before and self._connection is not None:
            self._connection.pause()
        self._wake()

    def finish(self) -> None:
        """Complete the body and detach from the connection."""
        self._connection = None
        self._wake()
        self.progressed()

    def fail(self, error: UpstreamError) -> None:
        """End the body with an error; what has come can still be read."""
        self._connection = None
        self._error = error
        self._wake()
        self.progressed()

    async def _wait(self) -> None:
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
