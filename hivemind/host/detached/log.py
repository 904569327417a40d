"""The log of a detached proxy: a file in the state directory, which it keeps from growing without bound."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hivemind.store.locks import open_regular
from hivemind.store.token_file import state_dir

MOST_BYTES = 8 << 20
"""A longer log becomes the earlier one, in place of the one before."""
_CHECK_EVERY_S = 30.0
_LOOK_EVERY_S = 0.2
_READ_AT_ONCE = 1 << 16
_OUTPUTS = (1, 2)


def log_path(directory: Path | None, port: int) -> Path:
    """Return the path of the log of a proxy with these settings, whether it exists or not. Raises: OSError."""
    return state_dir(directory) / f"proxy-{port}.log"


def earlier(path: Path) -> Path:
    """Return the path of the log before the present one."""
    return path.with_name(f"{path.name}.1")


class ProxyLog:
    """Where standard output and standard error of this process go from now on.

    The file is locked while this process writes to it, so that only one that writes alone renames it.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._alone = False
        self._file = -1
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._take(path)
        except OSError:  # without a log, the traffic continues
            path = Path(os.devnull)
            self._take(path)
        self.path = path

    def _take(self, path: Path) -> None:
        # Not blocking, because it may be a named pipe, which nobody reads.
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._alone = path != Path(os.devnull)
        except OSError:
            self._alone = False
        for output in _OUTPUTS:
            os.dup2(file, output, inheritable=True)
        before, self._file = self._file, file
        if before >= 0:
            os.close(before)

    def trim(self) -> None:
        """Begin a new file if this one is too long."""
        with contextlib.suppress(OSError):
            if self._alone and os.fstat(self._file).st_size > self._most_bytes:
                self.path.replace(earlier(self.path))
                self._take(self.path)

    def keep_trimmed(self) -> None:
        """Do so from time to time, in a thread."""

        def run() -> None:
            while True:
                self.trim()
                time.sleep(_CHECK_EVERY_S)

        threading.Thread(target=run, daemon=True, name="hivemind-log").start()


def last_lines(path: Path, count: int) -> tuple[bytes, int]:
    """Return the last lines of a log, earlier ones of the file before it included, and how long the file is now.

    Raises: OSError: there is none.
    """
    with open_regular(path) as file:
        text = file.read()
    position, lines = len(text), text.splitlines(keepends=True)
    if len(lines) < count:
        with contextlib.suppress(OSError):
            lines = earlier(path).read_bytes().splitlines(keepends=True) + lines
    return b"".join(lines[-count:] if count else ()), position


def followed(path: Path, position: int, pause_s: float = _LOOK_EVERY_S) -> Iterator[bytes]:
    """Yield what is written to a log beyond that position, for ever; also after another file took its place."""
    file = path.open("rb")
    file.seek(position)
    try:
        while True:
            while data := file.read(_READ_AT_ONCE):
                yield data
            with contextlib.suppress(OSError):  # between two files
                now = path.stat()
                if not os.path.samestat(now, os.fstat(file.fileno())):
                    rest = file.read()
                    file.close()
                    file = path.open("rb")
                    if rest:
                        yield rest
                    continue
            time.sleep(pause_s)
    finally:
        file.close()
