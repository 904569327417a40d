"""Open files: how many the system allows, and how many of them may be connections of clients.

A connection that is accepted and answered 503 tells its client what is wrong; one that the system can't open is closed
silently (uvloop) or waits unanswered (asyncio), and so do requests to upstreams. So clients get three quarters of the
files that the process may open, and no file whose number shows that nearly all are in use, for whatever.
"""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Protocol

_log = logging.getLogger(__name__)

WANTED = 65_536
"""The soft limit is raised to the hard one, but no further than this, since child processes inherit it."""
MOST_UNFINISHED = 4_096
"""Connections without a complete request, unless a setting says otherwise: what came of each is kept in memory."""
LOG_EVERY_S = 60.0
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


class Unfinished(Protocol):
    """A connection without a complete request."""

    def give_up(self) -> None:
        """End it."""


class ConnectionLimit:
    """Decides whether one more client connection can be served, and which is given up; logs once a minute when not.

    `most` is the setting `max_connections`, `most_unfinished` is `max_unfinished`; 0 derives them from the limit of
    open files.
    """

    def __init__(self, most: int = 0, most_unfinished: int = 0) -> None:
        self._most = most
        self._most_unfinished = most_unfinished
        self._unfinished: dict[Unfinished, None] = {}
        """In the order in which their requests began."""
        self._logged_at = -LOG_EVERY_S

    def is_full(self, clients: int, transport: asyncio.BaseTransport) -> bool:
        """Return whether the newest of so many `clients` is one too many.

        A new file gets the lowest free number, so the number shows how many are open at least.
        """
        limit = open_file_limit()
        most = self._most or (limit and limit * 3 // 4)
        return bool(most and clients > most) or (limit is not None and _number(transport) >= limit - reserve(limit))

    def is_exhausted(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether there isn't even room for answering the newest."""
        limit = open_file_limit()
        return limit is not None and _number(transport) >= limit - reserve(limit) // 2

    def begin(self, connection: Unfinished) -> None:
        """Count a connection that begins a request. Where that is one too many, the one that waits longest is given up:
        those of honest clients finish soon."""
        waiting = self._unfinished
        waiting[connection] = None
        if len(waiting) > self._unfinished_limit():
            oldest = next(iter(waiting))
            del waiting[oldest]
            oldest.give_up()

    def end(self, connection: Unfinished) -> None:
        """Count a connection no longer, because its request is complete or given up."""
        self._unfinished.pop(connection, None)

    def _unfinished_limit(self) -> int:
        if self._most_unfinished:
            return self._most_unfinished
        most = self._most or (open_file_limit() or WANTED) * 3 // 4
        return min(MOST_UNFINISHED, most)

    def log_full(self, clients: int, now: float) -> None:
        """Log that connections are refused at `now`, in seconds."""
        if now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        _log.warning(
            "%d client connections are open, as many as max_connections or the limit of open files (%s) allows; new"
            " ones are answered 503. Raise the latter with `ulimit -n`",
            clients,
            open_file_limit(),
        )


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
