"""One proxy's database, while that proxy has it to itself."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from hivemind.store import schema
from hivemind.store.background import BackgroundWriter
from hivemind.store.records import Batch, SavedState

_log = logging.getLogger(__name__)

BUSY_S = 5.0  # how long another program, such as SQLite's own shell, may hold the file
RETRY_S = 1.0
CLOSE_S = 10.0  # for the last batch


class Store(BackgroundWriter[Batch]):
    """What it holds is read at once; from :meth:`start` on a thread writes the batches that are put, in order.

    Batches that wait are merged, so that what waits holds at most one record of each agent, task and run, and what is
    being written another. `wall` is the time of day in seconds since the epoch. Raises: NotOurs, sqlite3.Error.
    """

    def __init__(self, path: Path, wall: float, *, retry_s: float = RETRY_S) -> None:
        super().__init__("hivemind-store", retry_s)
        self.path = path
        self._shrinks = True
        # One connection, which is first this thread's and then the writer's.
        self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self.was_empty = schema.prepare(self._connection)
            """The file held no tables, as a new one does."""
            self._saved = schema.load(self._connection, wall)
        except BaseException:
            self._connection.close()
            raise

    @property
    def day(self) -> str:
        """The day that began last in an earlier run; empty: none did. Only before :meth:`take`."""
        return self._saved.day

    def take(self) -> SavedState:
        """Return what an earlier run left; only once."""
        saved, self._saved = self._saved, SavedState()
        return saved

    def merge(self, last: Batch, item: Batch) -> Batch:
        """Return one batch with the records of both."""
        return item.over(last)

    def write(self, item: Batch) -> tuple[Batch | None, Exception | None]:
        """Write the batch, all or nothing, and log when that begins to fail and when it succeeds again."""
        try:
            schema.write(self._connection, item)
            if not self.path.exists():  # SQLite would go on writing to what no next start finds
                raise FileNotFoundError("the file was removed")
        except (sqlite3.Error, OSError, ValueError, OverflowError) as error:
            if self.error is None:
                _log.warning(
                    "usage and tasks can't be written to %s (%s): the proxy goes on and keeps trying, but would forget"
                    " what has changed since if it were killed",
                    self.path,
                    error,
                )
            return item, error
        if self._shrinks:
            self._shrink()
        if self.error is not None:
            _log.warning("usage and tasks are written to %s again", self.path)
        return None, None

    def _shrink(self) -> None:
        try:
            schema.shrink(self._connection)
        except sqlite3.Error as error:
            self._shrinks = False  # what it is about isn't in danger
            _log.info("%s stays larger than necessary until the next start: %s", self.path, error)

    def close(self, *, clean: bool) -> None:
        """Write what is left, and (`clean`) that the run has come to its end. Blocks, for some seconds at most."""
        if clean:
            self.put(Batch(clean=True))
        if self.join(CLOSE_S):
            self._connection.close()
        else:
            _log.warning("the last changes couldn't be written to %s", self.path)
