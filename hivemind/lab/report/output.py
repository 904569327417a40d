"""Writes a report atomically, and not over any other file."""

from __future__ import annotations

import os
from pathlib import Path

from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.store.atomic import written_whole

MARKS = ('<meta name="generator" content="HiveMind report">', "<!-- HiveMind report -->")
"""Marks that identify a report: a page, and a summary."""
_HEAD = 4096


def check_writable(path: Path, *, force: bool) -> None:
    """Check that a report may be written there. Raises: UsageError."""
    shown = printable(str(path))
    if path.is_dir():
        raise UsageError(f"{shown}: is a folder")
    if not path.parent.is_dir():
        raise UsageError(f"{shown}: there is no folder {printable(str(path.parent))}")
    if path.exists() and not force and not _is_report(path):
        raise UsageError(f"{shown}: is there already, and isn't a report; --force writes over it")


def write(path: Path, text: str) -> None:
    """Write a report. Raises: UsageError: the file can't be written."""
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(text.encode())  # a device or a pipe stays what it is
            return
        real = path.resolve()  # a link stays one
        with written_whole(real, 0o666) as file:
            if real.exists():
                os.fchmod(file.fileno(), real.stat().st_mode & 0o777)
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"{printable(str(path))}: can't be written ({error.strerror})") from None


def _is_report(path: Path) -> bool:
    if not path.is_file():
        return True
    try:
        with path.open("rb") as file:
            start = file.read(_HEAD).decode("utf-8", "replace")
    except OSError:
        return False
    return not start or any(mark in start for mark in MARKS)
