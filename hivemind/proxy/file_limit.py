"""Open files: how many the system allows, and how many of them may be connections of clients.

A connection that is accepted and answered 503 tells its client what is wrong; one that the system can't open is closed
silently (uvloop) or waits unanswered (asyncio), and so do requests to upstreams. So clients get three quarters of the
files that the process may open, and no file whose number shows that nearly all are in use, for whatever.
"""

from __future__ import annotations

import asyncio
import logging
import resource

_log = logging.getLogger(__name__)

WANTED = 65_536
"""The soft limit is raised to the hard one, but no further than this, since child processes inherit it."""
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


class ConnectionLimit:
    """Decides whether one more client connection can be served, and logs once a minute when not."""

    def __init__(self) -> None:
        self._logged_at = -LOG_EVERY_S

    def is_full(self, clients: int, transport: asyncio.BaseTransport) -> bool:
        """Return whether the newest of so many `clients` is one too many.

        A new file gets the lowest free number, so the number shows how many are open at least.
        """
        limit = open_file_limit()
        return limit is not None and (clients > limit * 3 // 4 or _number(transport) >= limit - reserve(limit))

    def is_exhausted(self, transport: asyncio.BaseTransport) -> bool:
        """Return whether there isn't even room for answering the newest."""
        limit = open_file_limit()
        return limit is not None and _number(transport) >= limit - reserve(limit) // 2

    def log_full(self, clients: int, now: float) -> None:
        """Log that connections are refused at `now`, in seconds."""
        if now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        _log.warning(
            "%d client connections are open, as many as the limit of open files (%s) allows; new ones are answered"
            " 503. Raise it with `ulimit -n`",
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
