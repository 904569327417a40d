"""Open files: how many the system allows, and how many of them may be connections of clients.

A connection that is accepted and answered 503 tells its client what is wrong; one that the system can't open is closed
silently (uvloop) or waits unanswered (asyncio), and so do requests to upstreams. So clients get three quarters of the
files that the process may open, and no file whose number shows that nearly all are in use, for whatever.

Where all are taken, connections without a request make room for new ones, as nginx has it for idle ones: so clients
that only connect don't keep the others out. Of too many without a complete request the one that waits longest makes
room: to refuse the newest would let slow clients lock out honest ones, which finish soon.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Iterable
from enum import IntEnum
from heapq import nsmallest
from typing import Protocol

_log = logging.getLogger(__name__)

WANTED = 65_536
"""The soft limit is raised to the hard one, but no further than this, since child processes inherit it."""
MOST_UNFINISHED = 4_096
"""Connections without a complete request, unless a setting says otherwise: what came of each is kept in memory."""
LOG_EVERY_S = 60.0
_AT_ONCE = 2
"""Connections that leave for a new one at most: one if just the newest is too many, else more, until all are within the
limits again."""
SEARCH_EVERY_S = 0.25
"""Least time between two searches for connections without a request, each of which looks at all that are open."""
MOST_FOUND = 1_024
"""Of which each search remembers no more."""
_REFUSED_BY_ASYNCIO = "socket.accept() out of system resource"


def raise_limit() -> None:
    """Raise the process's limit of open files to what the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED if hard == resource.RLIM_INFINITY else min(hard, WANTED)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError) as error:  # macOS has a lower limit of its own
            _log.info("the limit of open files stays at %d: %s", soft, error)


def open_file_limit() -> int | None:
    """Return how many files this process may open; None where there is no limit."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else soft


def reserve(limit: int) -> int:
    """Return how many of the files clients never get: for a log, a journal, a request upstream."""
    return max(8, min(64, limit // 8))


class Spare(IntEnum):
    """Why a connection can be spared, the best reason first."""

    ANSWERED = 0
    """Its last answer was sent; only the client's end is awaited."""
    UNUSED = 1
    """It has begun no request, or not sent the head of one."""
    KEPT = 2
    """It is kept for the client's next request."""
    SLOW = 3
    """The body of its request comes slower than is allowed."""


SPARED_AFTER_S = {Spare.ANSWERED: 1.0, Spare.UNUSED: 0.25, Spare.KEPT: 0.25, Spare.SLOW: 5.0}
"""How long it must have been so: a client that means to send a request does that at once."""


class Connection(Protocol):
    """A client's connection."""

    def spare(self) -> tuple[Spare, float] | None:
        """Return why the connection can be spared, and since when by the event loop's clock; None: it can't be."""

    def give_up(self) -> None:
        """End it."""


class ConnectionLimit:
    """Decides whether one more client connection can be served, and which is given up; logs once a minute when not.

    `most` is the setting `max_connections`, `most_unfinished` bounds those without a complete request; 0 derives them
    from the limit of open files.
    """

    def __init__(self, most: int = 0, most_unfinished: int = 0) -> None:
        self._most = most
        self._most_unfinished = most_unfinished
        self._unfinished: dict[Connection, None] = {}
        """In the order in which their requests began."""
        self._spare: list[Connection] = []
        """Those to give up next, the last first."""
        self._searched_at = -SEARCH_EVERY_S
        self._logged_at = -LOG_EVERY_S

    def surplus(self, clients: int, transport: asyncio.BaseTransport) -> int:
        """Return how many of so many `clients` should leave for the newest; 0: there is room for it.

        A new file gets the lowest free number, so the number shows how many are open at least.
        """
        limit = open_file_limit()
        most = self._most or (limit and limit * 3 // 4) or clients
        over = clients - most
        if limit is not None and _number(transport) >= limit - reserve(limit):
            over = max(over, _AT_ONCE)  # the others' files are needed for requests upstream
        return min(max(over, 0), _AT_ONCE)

    def is_exhausted(self, transport: asyncio.BaseTransport, *, made_room: bool) -> bool:
        """Return whether there isn't even room for answering the newest. Room that was made is free from the event
        loop's next turn on, so many that come at once may find none all the same."""
        limit = open_file_limit()
        return limit is not None and _number(transport) >= limit - reserve(limit) // (4 if made_room else 2)

    def make_room(self, connections: Iterable[Connection], count: int, now: float) -> bool:
        """Give up so many connections, those that can best be spared at `now`, in seconds. Return False where none can
        be."""
        taken = 0
        while taken < count and (self._take_spare(now) or (self._search(connections, now) and self._take_spare(now))):
            taken += 1
        return taken > 0

    def _search(self, connections: Iterable[Connection], now: float) -> bool:
        if now - self._searched_at < SEARCH_EVERY_S:
            return False
        self._searched_at = now
        found = ((since, each) for each in connections if (since := _spare_since(each, now)) is not None)
        best = nsmallest(MOST_FOUND, found, key=lambda pair: pair[0])
        self._spare = [each for _, each in reversed(best)]
        return True

    def _take_spare(self, now: float) -> bool:
        while self._spare:
            connection = self._spare.pop()
            if _spare_since(connection, now) is not None:
                connection.give_up()
                return True
        return False

    def begin(self, connection: Connection) -> None:
        """Count a connection that begins a request. Where that is one too many, the one that waits longest is given up:
        those of honest clients finish soon."""
        waiting = self._unfinished
        waiting[connection] = None
        if len(waiting) > self._unfinished_limit():
            oldest = next(iter(waiting))
            del waiting[oldest]
            oldest.give_up()

    def end(self, connection: Connection) -> None:
        """Count a connection no longer, because its request is complete or given up."""
        self._unfinished.pop(connection, None)

    def _unfinished_limit(self) -> int:
        if self._most_unfinished:
            return self._most_unfinished
        most = self._most or (open_file_limit() or WANTED) * 3 // 4
        return min(MOST_UNFINISHED, most)

    def log_full(self, clients: int, now: float) -> None:
        """Log that not all connections can be kept at `now`, in seconds."""
        if now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        _log.warning(
            "%d client connections are open, as many as max_connections or the limit of open files (%s) allows; idle"
            " ones are closed for new ones, which are answered 503 where none is idle. Raise the latter with"
            " `ulimit -n`",
            clients,
            open_file_limit(),
        )


def _spare_since(connection: Connection, now: float) -> tuple[Spare, float] | None:
    found = connection.spare()
    return found if found is not None and now - found[1] >= SPARED_AFTER_S[found[0]] else None


def _number(transport: asyncio.BaseTransport) -> int:
    sock = transport.get_extra_info("socket")
    return -1 if sock is None else int(sock.fileno())


def log_refused_accepts_briefly() -> None:
    """Install :class:`AcceptFilter` on asyncio's logger. May be called again."""
    logging.getLogger("asyncio").addFilter(_accept_filter)


class AcceptFilter(logging.Filter):
    """Reduces asyncio's reports that it can't accept a connection for lack of files to one line a minute.

    The loop retries every second by itself, and logs it for each connection that waits. (uvloop closes them silently.)
    """

    def __init__(self) -> None:
        super().__init__()
        self._logged_at = -LOG_EVERY_S

    def filter(self, record: logging.LogRecord) -> bool:
        if not str(record.msg).startswith(_REFUSED_BY_ASYNCIO):
            return True
        if record.created - self._logged_at < LOG_EVERY_S:
            return False
        self._logged_at = record.created
        record.msg = "no file is left for a new connection; raise the limit of open files with `ulimit -n`"
        record.args = record.exc_info = record.exc_text = None
        return True


_accept_filter = AcceptFilter()
