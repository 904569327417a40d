"""Locks on files (flock), by which a process shows that it still works with one; and opening what may be a pipe."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it. Raises: OSError: it can't be, or is a pipe (none is waited for), a device or a folder."""
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, "no regular file", str(path))
    return open(number, "rb")


def take_lock(path: Path, flags: int = 0) -> int:
    """Open a file, which is made where it isn't there, and lock it until it is closed; `flags` are further ones of
    `os.open`. Return its descriptor. Raises: BlockingIOError: another process has it; OSError.
    """
    file = os.open(path, os.O_RDWR | os.O_CREAT | flags, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


def is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a file, which none does if it isn't there.

    Raises: OSError: it can't be told.
    """
    try:
        file = open_regular(path)
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def is_held(path: Path) -> bool:
    """Return whether a process holds the lock of a file, as far as can be told."""
    with suppress(OSError):
        return is_locked(path)
    return False
