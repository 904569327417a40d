"""The native client's connections: idle ones for reuse, and all of them, to be closed."""

from __future__ import annotations

import asyncio

from hivemind.upstream.connection import Connection

CLOSED = "the upstream client was closed"


class Pool:
    """Open connections of one upstream.

    The most recently used one is handed out first: it is the least likely to have been closed by the other side, and
    the surplus of a busy minute grows old and is closed.
    """

    def __init__(self, max_idle: int) -> None:
        self.closed = False
        self._max_idle = max_idle
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def take(self, since: float = 0.0) -> Connection | None:
        """Return an open connection that became idle after `since` (by the loop's clock), or None."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.is_usable():
                connection.abort()
            elif connection.idle_since < since:
                self._idle[connection] = None
                break
            else:
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next request; beyond the limit, close the one that was idle longest."""
        self._idle[connection] = None
        if len(self._idle) > self._max_idle:
            next(iter(self._idle)).abort()

    def add(self, connection: Connection) -> None:
        """Add a connection that is open."""
        self._open.add(connection)
        self._empty.clear()

    def exclude(self, connection: Connection) -> None:
        """Never hand it out again."""
        self._idle.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.exclude(connection)
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def aclose(self) -> None:
        """Close all connections, idle or not, and wait until they are closed."""
        self.closed = True
        for connection in list(self._open):
            connection.cut(CLOSED)
        await self._empty.wait()
