"""The native client's connections: those at rest, to be used again, and all of them, to be closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hivemind.upstream.connection import Connection


CLOSED = "the upstream client was closed"


class Pool:
    """Open connections of one upstream.

    The one that rested last is handed out first: it is the least likely to have been closed by the other side, and the
    surplus of a busy minute grows old and goes.
    """

    def __init__(self, max_idle: int) -> None:
        self.closed = False
        self._max_idle = max_idle
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def take(self, since: float = 0.0) -> Connection | None:
        """A connection that still stands and came to rest after `since` (by the loop's clock), or None."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.usable():
                connection.abort()
            elif connection.rested_at < since:
                self._idle[connection] = None
                break
            else:
                return connection
        return None

    def rest(self, connection: Connection) -> None:
        """Keep it for the next request; too many, and the one that rested longest is closed."""
        self._idle[connection] = None
        if len(self._idle) > self._max_idle:
            next(iter(self._idle)).abort()

    def opened(self, connection: Connection) -> None:
        """A connection stands."""
        self._open.add(connection)
        self._empty.clear()

    def unfit(self, connection: Connection) -> None:
        """Never hand it out again."""
        self._idle.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """A connection is closed."""
        self.unfit(connection)
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def aclose(self) -> None:
        """Close all, at rest or not, and wait until they are."""
        self.closed = True
        for connection in list(self._open):
            connection.shut(CLOSED)
        await self._empty.wait()
