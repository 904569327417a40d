"""Writing to the database in the background."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable

from hivemind.store.background import BackgroundWriter
from hivemind.store.records import Batch

_log = logging.getLogger(__name__)

RETRY_S = 1.0
CLOSE_S = 10.0
"""For the last batch."""


class Writer(BackgroundWriter[Batch]):
    """Writes batches in order. Batches that wait are merged, so that what waits holds at most one record of each agent,
    task and run, and what is being written another.

    `write_batch` writes one batch, all or nothing; it is called from the thread alone. `where` is for people.
    """

    def __init__(self, write_batch: Callable[[Batch], None], where: str, *, retry_s: float = RETRY_S) -> None:
        super().__init__("hivemind-store", retry_s)
        self._write_batch = write_batch
        self._where = where
        self.start()

    def close(self, *, clean: bool) -> bool:
        """Write what is left, and (`clean`) that the run has come to its end. Blocks, for some seconds at most.

        Return whether nothing was lost.
        """
        if clean:
            self.put(Batch(clean=True))
        if self.join(CLOSE_S):
            return True
        _log.warning("the last of it couldn't be written to %s", self._where)
        return False

    def merge(self, last: Batch, item: Batch) -> Batch:
        """Return one batch with the records of both."""
        return item.over(last)

    def write(self, item: Batch) -> tuple[Batch | None, Exception | None]:
        """Write the batch, and log when that begins to fail and when it succeeds again."""
        try:
            self._write_batch(item)
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            if self.error is None:
                _log.warning(
                    "usage and tasks can't be written to %s (%s): the proxy goes on and keeps trying, but would forget"
                    " what has changed since if it were killed",
                    self._where,
                    error,
                )
            return item, error
        if self.error is not None:
            _log.warning("usage and tasks are written to %s again", self._where)
        return None, None
