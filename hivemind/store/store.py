"""One proxy's database: finding and taking its file, and writing to it on a thread.

The file is named by the port as it was asked for, so that the same command line finds the same state again, also with
port 0. A lock beside it is held as long as the proxy lives, however it ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.store import schema
from hivemind.store.atomic import DRAFT_SUFFIX
from hivemind.store.background import BackgroundWriter
from hivemind.store.schema import NotOurs, SavedBatch, SavedState
from hivemind.store.token_file import state_dir

_log = logging.getLogger(__name__)

BUSY_S = 5.0  # how long another program, such as SQLite's own shell, may hold the file
RETRY_S = 1.0
CLOSE_S = 10.0  # for the last batch
MOST = 1000  # proxies with one port setting at a time
_NO_ROOM = ("SQLITE_FULL", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PERM")
"""The place is at fault rather than the file."""


class Store(BackgroundWriter[SavedBatch]):
    """What it holds is read at once; from :meth:`start` on a thread writes the batches that are put, in order.

    Batches that wait are merged, so that what waits holds at most one record of each agent, task and run, and what is
    being written another. `wall` is the time of day in seconds since the epoch. Raises: NotOurs, sqlite3.Error.
    """

    def __init__(self, path: Path, wall: float, *, retry_s: float = RETRY_S) -> None:
        super().__init__("hivemind-store", retry_s)
        self.path = path
        self._shrinks = True
        # One connection, which is first this thread's and then the writer's.
        self._connection = _connected(path)
        self._lock = -1
        try:
            self.was_empty = schema.prepare(self._connection)
            """The file held no tables, as a new one does."""
            self._saved = schema.load(self._connection, wall)
            self.ledger = schema.ledger(self._connection)
            """Random name of what this file holds, the same in whatever process."""
            self._identity = _identity(path)
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

    def merge(self, last: SavedBatch, item: SavedBatch) -> SavedBatch:
        """Return one batch with the records of both."""
        return item.over(last)

    def write(self, item: SavedBatch) -> tuple[SavedBatch | None, Exception | None]:
        """Write the batch, all or nothing, and log when that begins to fail and when it succeeds again."""
        try:
            schema.write(self._connection, item)
            self._check_place()
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

    def _check_place(self) -> None:
        """Check that the next start finds what was written: SQLite goes on with a file that has another place, or none.

        Raises: FileNotFoundError: another file is in its place; OSError, sqlite3.Error: it can't be written anew.
        """
        try:
            found = _identity(self.path)
        except FileNotFoundError:
            self._write_anew()
            return
        if found != self._identity:
            raise FileNotFoundError("another file is in its place")

    def _write_anew(self) -> None:
        """Write the whole file where it was removed, from the connection, which still has it.

        Raises: OSError, sqlite3.Error.
        """
        path, lock = self.path, self.path.with_suffix(".lock")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not lock.exists():  # its folder was removed too
            self._lock = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT_SUFFIX}")
        os.close(os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        try:
            self._connection.execute("VACUUM INTO ?", (str(draft),))
            with draft.open("rb") as written:
                os.fsync(written.fileno())
        except BaseException:
            draft.unlink()
            raise
        # Closing removes SQLite's log by its name, so that comes first. The log of another file would spoil this one.
        self._connection.close()
        try:
            for suffix in ("-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            os.link(draft, path)  # unlike a rename, over no other file
        except OSError:
            self._connection = _connected(draft)
            raise
        draft.unlink()
        self._connection = _connected(path)
        schema.prepare(self._connection)
        self._identity = _identity(path)
        _log.warning("%s was removed while it was in use, and is written anew: nothing is lost", path)

    def _shrink(self) -> None:
        try:
            schema.shrink(self._connection)
        except sqlite3.Error as error:
            self._shrinks = False  # what it is about isn't in danger
            _log.info("%s stays larger than necessary until the next start: %s", self.path, error)

    def close(self, *, clean: bool) -> None:
        """Write what is left, and (`clean`) that the run has come to its end. Blocks, for some seconds at most."""
        if clean:
            self.put(SavedBatch(clean=True))
        if self.join(CLOSE_S):
            self._connection.close()
        else:
            _log.warning("the last changes couldn't be written to %s", self.path)
        if self._lock >= 0:
            os.close(self._lock)


def _connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


@contextlib.contextmanager
def opened(given: Path | None, port: int, wall: float) -> Iterator[Store | None]:
    """Take the state of a proxy on that port (as configured) for as long as the context lasts.

    `given` is the folder, `wall` the time of day in seconds since the epoch. None where there is no place for it, which
    is logged: the proxy runs without. Leaving with an exception means that the run hasn't come to its end.

    Raises: UsageError: a file is there that can't be used, and nothing of it was changed.
    """
    try:
        path, lock, found = _take(state_dir(given), f"proxy-{port}")
    except OSError as error:
        _log_no_place(error.filename, error.strerror)
        yield None
        return
    try:
        spared = _spare_log(path) if found else None
        store = _open(path, wall)
        if store is None:
            yield None
            return
        if found and store.was_empty:
            _log.warning(
                "%s was there but empty, so all usage, budgets, priorities, tasks and runs begin with nothing: unless"
                " the last start was interrupted, the file was emptied; put a copy in its place to go on from that%s",
                path,
                "" if spared is None else f" (what its log still held is in {spared.name})",
            )
        clean = False
        try:
            yield store
            clean = True
        finally:
            store.close(clean=clean)
    finally:
        os.close(lock)


def _take(folder: Path, name: str) -> tuple[Path, int, bool]:
    """Return a file that no other proxy has, which exists from now on, the descriptor that holds its lock, and whether
    the file was there before. Raises: OSError."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for number in range(1, MOST + 1):
        path = folder / (f"{name}.db" if number == 1 else f"{name}-{number}.db")
        lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            # Of the open file rather than of the process: two proxies in one process are two.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found = path.exists()
            # SQLite gives the files beside it the rights that this one has.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except BaseException as error:
            os.close(lock)
            if isinstance(error, BlockingIOError):
                continue
            raise
        if number > 1:
            _log.info("another proxy uses %s.db, so this one keeps its state in %s", name, path)
        return path, lock, found
    raise OSError(0, "too many proxies use it", str(folder))


def _open(path: Path, wall: float) -> Store | None:
    mend = "move it away to begin with nothing, or choose another folder with --state-dir"
    try:
        store = Store(path, wall)
    except NotOurs as error:
        raise UsageError(f"{path} {error}: {mend}") from None
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "").startswith(_NO_ROOM):
            _log_no_place(str(path), str(error))
            return None
        raise UsageError(f"{path} can't be used ({error}): {mend}") from None
    for each in path.parent.glob(path.name + "*"):  # a copy may have other rights
        with contextlib.suppress(OSError):
            each.chmod(0o600)
    return store


def _spare_log(path: Path) -> Path | None:
    """Move SQLite's log of an empty database aside, which it would delete: it may hold the last of what was there.

    Returns where it is now; None: there is none, or the database isn't empty.
    """
    log = path.with_name(path.name + "-wal")
    try:
        if path.stat().st_size or not log.stat().st_size:
            return None
        numbers = ("", *(f"-{number}" for number in range(2, MOST)))
        spared = next(s for n in numbers if not (s := log.with_name(f"{log.name}.lost{n}")).exists())
        return log.rename(spared)
    except (OSError, StopIteration):
        return None


def _log_no_place(place: str | None, why: str | None) -> None:
    _log.warning(
        "usage, budgets and tasks can't be kept (%s: %s), so they will be forgotten when the proxy ends; choose another"
        " folder with --state-dir",
        place,
        why,
    )
