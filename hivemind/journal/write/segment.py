"""The files that journals' lines go to: writing one, the name of a new one, and removing old ones."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from hivemind.journal.files import part_path, parts_in
from hivemind.store.locks import is_held

_log = logging.getLogger(__name__)
_NAMES_TRIED = 1000
_LOCK_TRIES, _LOCK_AGAIN_S = 100, 0.001
_EMPTY_S = 60  # an empty part that is younger may be one that its writer is about to lock
_WORTH = 64 << 10
"""Bytes that a file took at least, for another to be begun where no file may be larger."""


class Closed(OSError):
    """The file takes nothing more, and another is to be begun: it was removed, moved or cut, or it is as large as
    files may be."""


class JournalPart:
    """One part of a journal, new, and locked for as long as it is written. A line is in it whole or not at all,
    whatever the disk does.

    Raises: OSError: it can't be made, or there is such a file already.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._torn = False
        self._size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        _lock(self._fd)
        self._identity = _identity(os.fstat(self._fd))

    def append(self, lines: bytes) -> tuple[int, OSError | None]:
        """Returns how many bytes of whole lines are in the file now, and what stopped it from taking the rest."""
        done = 0
        try:
            self._check()
            if self._torn:
                self._size += os.write(self._fd, b"\n")
                self._torn = False
            with memoryview(lines) as view:
                while done < len(lines):
                    done += os.write(self._fd, view[done:])
        except OSError as error:
            whole = lines.rfind(b"\n", 0, done) + 1
            if done > whole:
                self._take_back(self._size + whole)
            self._size += done if self._torn else whole
            return whole, self._meant(error)
        self._size += done
        return done, None

    def close(self) -> None:
        """Close the file, which gives up the lock."""
        os.close(self._fd)

    def _check(self) -> None:
        """Check that the file is still ours. Raises: Closed; OSError."""
        try:
            now = os.stat(self.path)
        except FileNotFoundError:
            raise Closed(None, "the file was removed", str(self.path)) from None
        if _identity(now) != self._identity:
            raise Closed(None, "another file is in its place", str(self.path))
        if now.st_size < self._size:
            raise Closed(None, "the file was cut", str(self.path))
        if now.st_size > self._size:  # another program wrote, and perhaps no whole line
            self._torn, self._size = True, now.st_size

    def _meant(self, error: OSError) -> OSError:
        """Return the error, or that the file is full: where files may only be so large, another one helps."""
        if error.errno == errno.EFBIG and self._size >= _WORTH:
            return Closed(None, "it is as large as files may be here", str(self.path))
        return error

    def _take_back(self, size: int) -> None:
        """Remove the beginning of a line; where that can't be done, end it, so that readers skip it alone."""
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            self._torn = True


def _lock(fd: int) -> None:
    """Lock an open file, which says that the journal is being written, however its writer ends. There are file systems
    without locks; there no file seems to be written."""
    for _ in range(_LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOCK_AGAIN_S)  # another process is just asking whether it is locked
        except OSError:
            return
        else:
            return


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


# --- Parts of a folder ------------------------------------------------------------------------------------------------


def begin(folder: Path, wall: float, port: int) -> tuple[str, JournalPart]:
    """A new journal that begins at this moment (seconds since the epoch): its name, and its first part.

    Raises: OSError: it can't be made.
    """
    if not folder.is_dir() and os.path.lexists(folder):
        raise NotADirectoryError(errno.ENOTDIR, "isn't a folder", str(folder))
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall))
    for number in range(1, _NAMES_TRIED + 1):
        name = f"{moment}-{port}" if number == 1 else f"{moment}-{port}-{number}"
        with contextlib.suppress(FileExistsError):
            return name, JournalPart(part_path(folder, name, 1))
    raise FileExistsError(0, "too many journals begin at this moment", str(folder))


class Retention(Struct, frozen=True):
    """What of a folder's journals is kept."""

    max_age_s: float
    max_bytes: int
    """All of them together."""
    newest: int = 0
    """So many parts are never too old: a clock that is years ahead would make all of them so."""


def prune(writing: Path, keeping: Retention, wall: Callable[[], float]) -> None:
    """Remove what is too old or too much from the folder of the part that is being written, the oldest first, and parts
    of which nothing was written before a kill; nothing of a journal that another program writes, or has just made."""
    try:
        removable, total = _parts_beside(writing)
    except OSError as error:
        _log.warning("old journals in %s can't be removed (%s)", writing.parent, error.strerror)
        return
    oldest, settled = wall() - keeping.max_age_s, wall() - _EMPTY_S
    for newer, (changed, path, size) in zip(reversed(range(len(removable))), sorted(removable), strict=True):
        fits = total <= keeping.max_bytes and (changed >= oldest or newer < keeping.newest)
        if fits if size else changed > settled:
            continue
        try:
            # With the index that was made of it.
            for each in (*path.parent.glob(f"{path.name}.index*"), *path.parent.glob(f"{path.stem}.index*"), path):
                each.unlink(missing_ok=True)
        except OSError as error:
            _log.warning("%s is old, but can't be removed (%s)", path, error.strerror)
        else:
            total -= size


def _parts_beside(writing: Path) -> tuple[list[tuple[float, Path, int]], int]:
    """When each part in the folder was changed, its path and its size, but for the part that is being written and those
    of journals that others write; and the size of all of them."""
    removable, total = [], 0
    for parts in parts_in(writing.parent).values():
        ours = writing in parts.values() or not is_held(parts[max(parts)])
        for path in parts.values():
            with contextlib.suppress(FileNotFoundError):  # another proxy was quicker
                stat = path.stat()
                total += stat.st_size
                if ours and path != writing:
                    removable.append((stat.st_mtime, path, stat.st_size))
    return removable, total
