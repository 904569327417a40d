"""The file that a journal's lines go to. A line is in it whole or not at all, whatever the disk does."""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path


class Removed(OSError):
    """The file isn't where it was: somebody removed or moved it, or its folder."""


class Part:
    """One part of a journal, new, and locked for as long as it is written.

    Raises: OSError: it can't be made, or there is such a file already.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._torn = False
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        # Of the open file: it says that the journal is being written, however its writer ends. There are file systems
        # without locks; whoever asks is told that nobody writes.
        with contextlib.suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._identity = _identity(os.fstat(self._fd))

    def append(self, lines: bytes) -> tuple[int, OSError | None]:
        """Returns how many bytes of whole lines are in the file now, and what stopped it from taking the rest."""
        done = start = 0
        try:
            self._check()
            start = os.fstat(self._fd).st_size
            if self._torn:
                os.write(self._fd, b"\n")
                self._torn = False
                start += 1
            with memoryview(lines) as view:
                while done < len(lines):
                    done += os.write(self._fd, view[done:])
        except OSError as error:
            whole = lines.rfind(b"\n", 0, done) + 1
            if done > whole:
                self._take_back(start + whole)
            return whole, error
        return done, None

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._fd)

    def _check(self) -> None:
        """Raises: Removed; OSError."""
        try:
            now = _identity(os.stat(self.path))
        except FileNotFoundError:
            raise Removed(None, "somebody removed the file", str(self.path)) from None
        if now != self._identity:
            raise Removed(None, "another file is in its place", str(self.path))

    def _take_back(self, size: int) -> None:
        """Remove the beginning of a line; where that can't be done, end it, so that readers skip it alone."""
        try:
            os.ftruncate(self._fd, size)
        except OSError:
            self._torn = True


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def being_written(path: Path) -> bool:
    """Whether a program that lives writes this file."""
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
