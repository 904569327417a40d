"""The thread that writes, so that the event loop never waits for a disk."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
from collections.abc import Callable

from hivemind.store.records import Batch

_log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Between two tries while the disk refuses."""
CLOSE_S = 10.0
"""For the last batch."""

Waiter = tuple[asyncio.AbstractEventLoop, "asyncio.Future[None]"]


class Writer:
    """Writes batches in the order in which they came. What it can't write yet is merged with what comes next, so what
    waits never holds more than a record of each agent, task and run.

    `write` writes one batch, all or nothing; it is called from the thread alone. `where` is for people.
    """

    def __init__(self, write: Callable[[Batch], None], where: str, *, again_s: float = AGAIN_S) -> None:
        self._write = write
        self._where = where
        self._again_s = again_s
        self._changed = threading.Condition()
        self._waiting = Batch()
        self._waiters: list[Waiter] = []
        self._ending = False
        self._failing = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="hivemind-store")
        self._thread.start()

    def put(self, batch: Batch) -> None:
        """Have it written, soon."""
        with self._changed:
            self._waiting = batch.over(self._waiting)
            self._changed.notify()

    async def settled(self) -> None:
        """Until everything that was put so far is written, or was tried in vain, which is logged."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        with self._changed:
            self._waiters.append((loop, waiter))
            self._changed.notify()
        await waiter

    def close(self, *, clean: bool) -> bool:
        """Write what is left, and (`clean`) that the run has come to its end. Blocks, for some seconds at most.

        Returns whether nothing was lost.
        """
        with self._changed:
            self._ending = True
            self._waiting = Batch(clean=clean).over(self._waiting)
            self._changed.notify()
        self._thread.join(CLOSE_S)
        if self._failing or self._thread.is_alive():
            _log.warning("the last of it couldn't be written to %s", self._where)
            return False
        return True

    def _run(self) -> None:
        ended = False
        while not ended:
            with self._changed:
                self._changed.wait_for(self._due, self._again_s if self._failing else None)
                batch, self._waiting = self._waiting, Batch()
                waiters, self._waiters = self._waiters, []
                ended = self._ending
            if batch:
                self._try(batch)
            for loop, waiter in waiters:
                with contextlib.suppress(RuntimeError):  # that loop is closed, and with it whoever waited
                    loop.call_soon_threadsafe(_done, waiter)

    def _due(self) -> bool:
        if self._waiters or self._ending:
            return True
        return bool(self._waiting) and not self._failing

    def _try(self, batch: Batch) -> None:
        try:
            self._write(batch)
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            with self._changed:
                self._waiting = self._waiting.over(batch)
            if not self._failing:
                _log.warning(
                    "usage and tasks can't be written to %s (%s): the proxy goes on and keeps trying, but would forget"
                    " what has changed since if it were killed",
                    self._where,
                    error,
                )
            self._failing = True
        else:
            if self._failing:
                _log.warning("usage and tasks are written to %s again", self._where)
            self._failing = False


def _done(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
