"""One proxy's database, while that proxy has it to itself."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path

from hivemind.store import schema
from hivemind.store.records import Batch, Run, SavedState
from hivemind.store.writer import Writer

_log = logging.getLogger(__name__)

BUSY_S = 5.0  # how long another program, such as SQLite's own shell, may hold the file


class Store:
    """What it holds is read at once; from :meth:`begin` on a thread writes to it.

    `wall` is the time of day in seconds since the epoch. Raises: NotOurs, sqlite3.Error.
    """

    def __init__(self, path: Path, wall: float) -> None:
        self.path = path
        self._writer: Writer | None = None
        self._shrinks = True
        # One connection, which is first this thread's and then the writer's.
        self._connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        try:
            self.was_empty = schema.prepare(self._connection)
            """The file held no tables, as a new one does."""
            self._kept = schema.load(self._connection, wall)
        except BaseException:
            self._connection.close()
            raise

    @property
    def day(self) -> str:
        """The day that began last in an earlier run; empty: none did. Only before :meth:`take`."""
        return self._kept.day

    def take(self) -> SavedState:
        """What an earlier run left; only once."""
        kept, self._kept = self._kept, SavedState()
        return kept

    def begin(self, batch: Batch) -> None:
        """Have it written how the run begins, and from now on whatever is put."""
        self._writer = Writer(self._write, str(self.path))
        self._writer.put(batch)

    def _write(self, batch: Batch) -> None:
        schema.write(self._connection, batch)
        if not self.path.exists():  # SQLite would go on writing to what no next start finds
            raise FileNotFoundError("somebody removed the file")
        if self._shrinks:
            self._shrink()

    def _shrink(self) -> None:
        try:
            schema.shrink(self._connection)
        except sqlite3.Error as error:
            self._shrinks = False  # what it is about isn't in danger
            _log.info("%s stays larger than it need be until the next start: %s", self.path, error)

    def put(self, batch: Batch) -> None:
        """Have it written, soon; never blocks. Only between :meth:`begin` and :meth:`close`."""
        assert self._writer is not None, "call begin() first"
        self._writer.put(batch)

    async def settled(self) -> None:
        """Until everything that was put so far would survive a crash; a disk that refuses is logged, and not waited
        for."""
        if self._writer is not None:
            await self._writer.settled()

    def runs(self, agent: str | None = None, limit: int = 100) -> list[Run]:
        """The last runs of agents' processes, newest first, that are written down. Blocks a little; from any thread.

        Raises: sqlite3.Error.
        """
        return read_runs(self.path, agent, limit)

    def close(self, *, clean: bool) -> None:
        """Close the file; `clean`: the run has come to its end."""
        if self._writer is None or self._writer.close(clean=clean):
            self._connection.close()


def read_runs(path: Path, agent: str | None = None, limit: int = 100) -> list[Run]:
    """The last runs that are written down in a proxy's database, newest first, whether or not that proxy runs.

    Raises: sqlite3.Error: there is no such file, or it isn't one.
    """
    with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=BUSY_S)) as found:
        return list(schema.runs(found, agent, limit))
