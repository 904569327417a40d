"""Locks on files (flock), by which a process shows that it still works with something, however it ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


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
        file = path.open("rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
