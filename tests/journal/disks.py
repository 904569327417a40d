"""Disks that do as a test tells them, and what a journal on them says."""

from __future__ import annotations

import errno
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hivemind.journal.codec import events_of
from hivemind.journal.write.segment import Closed, JournalPart
from hivemind.scheduler.events import Event, Granted, LaneReleased


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A file system of that size in a new folder."""
    folder.mkdir(mode=0o700, parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


class Disk:
    """Makes sheets in memory, and takes lines, or doesn't."""

    def __init__(self) -> None:
        self.sheets: dict[str, bytes] = {}
        self.tries = 0
        self.room: int | None = None
        """Bytes that it takes yet; None: no end."""
        self.gone = False
        self.opens = True
        self.gate = threading.Event()
        self.gate.set()

    def open(self, path: Path) -> MemorySheet:
        """A new sheet."""
        self.gate.wait()
        self.tries += 1
        if not self.opens:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        self.gone = False
        self.sheets[path.name] = b""
        return MemorySheet(self, path)

    def events(self) -> list[Event]:
        """What stands in all sheets."""
        lines = [line for text in list(self.sheets.values()) for line in text.splitlines(keepends=True)]
        return [event for line in lines for event in events_of(line)]


class MemorySheet(JournalPart):
    """One file."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self.path = path
        self._disk = disk

    def append(self, lines: bytes) -> tuple[int, OSError | None]:
        disk = self._disk
        disk.gate.wait()
        disk.tries += 1
        if disk.gone:
            return 0, Closed(None, "the file was removed")
        room = len(lines) if disk.room is None else disk.room
        whole = lines if room >= len(lines) else lines[: lines.rfind(b"\n", 0, room) + 1]
        disk.sheets[self.path.name] += whole
        if disk.room is not None:
            disk.room -= len(whole)
        return len(whole), None if whole == lines else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Nothing is held."""


def granted(number: int, at: float = 0.0) -> Granted:
    """An event that can be told from others."""
    return Granted(at, number, "a", "l", 1, 0.0)


def numbers(events: list[Event]) -> list[int]:
    """Which of them are there, in order."""
    return [event.ticket for event in events if isinstance(event, Granted)]


def wide(size: int) -> Event:
    """An event whose line is about so long."""
    return LaneReleased(0.0, "x" * size)
