"""The private folder of the workers of one port: their sockets, and that of their store."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "workers-"
_LOCK = "lock"
_LONGEST = 88
"""Characters of its path: that of a unix socket may have 107, its name included."""


@contextlib.contextmanager
def private_folder(state: Path) -> Iterator[Path]:
    """Make a folder for this process, readable by its user alone, and remove it at the end.

    It is in the state directory, or among the system's temporary files where that can't be written or its path is too
    long for a socket. Those that killed processes left in the state directory are removed. Raises: OSError.
    """
    folder, lock = _made(state.absolute())  # the store has another working directory
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made(state: Path) -> tuple[Path, int]:
    path = state / f"{_PREFIX}{secrets.token_hex(4)}"
    if len(os.fsencode(path)) <= _LONGEST:
        with contextlib.suppress(OSError):
            state.mkdir(mode=0o700, parents=True, exist_ok=True)
            with _locked(state / f"{_PREFIX}lock"):  # so that a folder that is made now isn't removed as left over
                _remove_left_over(state)
                path.mkdir(mode=0o700)
                return path, _lock(path)
    path = Path(tempfile.mkdtemp(prefix="hivemind-"))
    return path, _lock(path)


def _lock(folder: Path) -> int:
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):  # some file systems have no locks
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return lock


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _remove_left_over(state: Path) -> None:
    for folder in state.glob(f"{_PREFIX}*/"):
        with contextlib.suppress(OSError):
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
