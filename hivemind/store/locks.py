"""Locks on files (flock), by which a process shows that it still works with something, however it ends."""

from __future__ import annotations

import fcntl
from pathlib import Path


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
