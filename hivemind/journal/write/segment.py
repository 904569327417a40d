"""The file that a journal's lines go to. A line is in it whole or not at all, whatever the disk does."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hivemind.journal.files import part_path, parts_in

_WORTH = 64 << 10
"""Bytes that a file took at least, for another to be begun where no file may be larger."""


class Closed(OSError):
    """The file takes nothing more, and another is to be begun: somebody removed, moved or cut it, or it is as large as
    files may be."""


class Part:
    """One part of a journal, new, and locked for as long as it is written.

    Raises: OSError: it can't be made, or there is such a file already.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._torn = False
        self._size = 0
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        # Of the open file: it says that the journal is being written, however its writer ends. There are file systems
        # without locks; whoever asks is told that nobody writes.
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
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
            raise Closed(None, "somebody removed the file", str(self.path)) from None
        if _identity(now) != self._identity:
            raise Closed(None, "another file is in its place", str(self.path))
        if now.st_size < self._size:
            raise Closed(None, "somebody cut the file", str(self.path))
        if now.st_size > self._size:  # somebody else wrote, and perhaps no whole line
            self._torn, self._size = True, now.st_size

    def _meant(self, error: OSError) -> OSError:
        """Where files may only be so large, there is room in another."""
        if error.errno == errno.EFBIG and self._size >= _WORTH:
            return Closed(None, "it is as large as files may be here", str(self.path))
        return error

    def _take_back(self, size: int) -> None:
        """Remove the beginning of a line; where that can't be done, end it, so that readers skip it alone."""
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            self._torn = True


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def being_written(path: Path) -> bool:
    """Return whether a running program writes this file."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


_log = logging.getLogger(__name__)

_NAMES_TRIED = 1000


def begin(folder: Path, wall: float, port: int) -> tuple[str, Part]:
    """A new journal that begins at this moment (seconds since the epoch): its name, and its first part.

    Raises: OSError: it can't be made.
    """
    if not folder.is_dir() and os.path.lexists(folder):
        raise NotADirectoryError(errno.ENOTDIR, "isn't a folder", str(folder))
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall))
    for number in range(1, _NAMES_TRIED + 1):
        name = f"{moment}-{port}" if number == 1 else f"{moment}-{port}-{number}"
        try:
            return name, Part(part_path(folder, name, 1))
        except FileExistsError:
            continue
    raise FileExistsError(0, "too many journals begin at this moment", str(folder))


@dataclass(frozen=True, slots=True)
class Retention:
    """What of a folder's journals is kept."""

    max_age_s: float
    max_bytes: int
    """All of them together."""


def prune(writing: Path, keeping: Retention, wall: Callable[[], float]) -> None:
    """Remove what is too old or too much from the folder of the part that is being written, the oldest first; nothing
    of a journal that another program writes."""
    try:
        files = sorted(_removable(writing), key=lambda each: (each.changed, each.path))
        total = sum(each.size for each in files) + _others(writing, files)
    except OSError as error:
        _log.warning("old journals in %s can't be removed (%s)", writing.parent, error.strerror)
        return
    oldest = wall() - keeping.max_age_s
    for each in files:
        if each.changed >= oldest and total <= keeping.max_bytes:
            continue
        try:
            _remove(each.path)
        except OSError as error:
            _log.warning("%s is old, but can't be removed (%s)", each.path, error.strerror)
        else:
            total -= each.size


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    changed: float
    size: int


def _removable(writing: Path) -> Iterator[_File]:
    """Every part in the folder but the one that is being written, and those of journals that others write."""
    for parts in parts_in(writing.parent).values():
        last = parts[max(parts)]
        if writing in parts.values() or not being_written(last):
            yield from (found for path in parts.values() if path != writing and (found := _seen(path)) is not None)


def _others(writing: Path, removable: list[_File]) -> int:
    """Bytes of what isn't to be removed."""
    mine = {each.path for each in removable}
    kept = (path for parts in parts_in(writing.parent).values() for path in parts.values() if path not in mine)
    return sum(found.size for path in kept if (found := _seen(path)) is not None)


def _seen(path: Path) -> _File | None:
    try:
        stat = path.stat()
    except FileNotFoundError:  # another proxy was quicker
        return None
    return _File(path, stat.st_mtime, stat.st_size)


def _remove(path: Path) -> None:
    """With what was made of it: its index beside it."""
    for each in (*path.parent.glob(f"{path.name}.index*"), *path.parent.glob(f"{path.stem}.index*"), path):
        each.unlink(missing_ok=True)
