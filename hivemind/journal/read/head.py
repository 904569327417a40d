"""A file's first line, and what to make of a file that doesn't begin as a journal does."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from hivemind.errors import UsageError
from hivemind.journal.codec import BadLine, Unknown, event_of, version_of
from hivemind.journal.files import part_of
from hivemind.journal.records import VERSION, JournalBegan
from hivemind.scheduler.events import Event

LONGEST_FIRST = 1 << 20
"""Bytes of a first line; none of ours comes near."""
BOM = b"\xef\xbb\xbf"
_LOOKED_AT = 4 << 20
"""Bytes in which a line that can be read must stand, where the first can't."""
_TAIL, _TAIL_MOST = 1 << 16, 256 << 20
"""Bytes at the end in which the last event is looked for, at first and at most."""
_PACKED = (
    (b"\x1f\x8b", "gzip", "gunzip -k"),
    (b"\x28\xb5\x2f\xfd", "zstd", "unzstd"),
    (b"\xfd7zXZ\x00", "xz", "unxz -k"),
    (b"BZh", "bzip2", "bunzip2 -k"),
    (b"PK\x03\x04", "zip", "unzip"),
)
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_FLOWS = re.compile(rb"\d{1,12}:\d{1,12}:")
_IMPORT = "hivemind journal import makes a journal of it"
_LISTED = "hivemind journal ls lists the journals that there are"


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """A file to read. Raises: UsageError: it can't be, or isn't a file."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            raise UsageError(f"{path}: is a folder; name one of the journals in it")
        if not stat.S_ISREG(kind):
            raise UsageError(f"{path}: isn't a file; save it as one first")
        file = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path}: no such file; {_LISTED}") from None
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: can't be read ({getattr(error, 'strerror', None) or error})") from None
    with file, readable(path):
        yield file


@contextmanager
def readable(path: Path, any_more: str = "") -> Iterator[None]:
    """Raises: UsageError: the file can't be read, in place of an OSError."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path}: can't be read{any_more} ({error.strerror})") from None


def beginning(path: Path) -> tuple[JournalBegan, str]:
    """The file's first line; where that can't be read, a stand-in for it, and by what its time of day was guessed.

    Raises: UsageError: nothing in the file can be read, or it isn't a journal of ours.
    """
    with opened(path) as file:
        line = file.readline(LONGEST_FIRST)
        if not line:
            raise UsageError(f"{path}: is empty; {_LISTED}")
        event = _event(line)
        if isinstance(event, JournalBegan):
            return event, ""
        event = event or _next_event(file)
        if event is None:
            raise UsageError(f"{path}: {what_else(line, version_of(line.removeprefix(BOM)))}")
    return (event, "") if isinstance(event, JournalBegan) else _stand_in(path, event)


def last_event(path: Path) -> Event | None:
    """The last event in a file, found from its end. Raises: UsageError."""
    window = _TAIL
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        while True:
            file.seek(max(0, size - window))
            lines = file.read(window).splitlines()
            found = next((event for line in reversed(lines) if (event := _event(line)) is not None), None)
            if found is not None or window >= min(size, _TAIL_MOST):
                return found
            window *= 4


def _event(line: bytes) -> Event | None:
    try:
        return event_of(line.removeprefix(BOM).strip(b"\0\r\n"))
    except (BadLine, Unknown):
        return None


def _next_event(file: IO[bytes]) -> Event | None:
    left = _LOOKED_AT
    while left > 0 and (line := file.readline(LONGEST_FIRST)):
        left -= len(line)
        event = _event(line)
        if event is not None:
            return event
    return None


def _stand_in(path: Path, first: Event) -> tuple[JournalBegan, str]:
    named = part_of(path.name)
    journal, part = named or (path.stem, 1)
    moment = _moment(journal)
    if moment is not None and part == 1:
        return JournalBegan(first.at, moment, journal, part, ""), "its name"
    last = last_event(path) or first
    written = path.stat().st_mtime
    return JournalBegan(first.at, written - (last.at - first.at), journal, part, ""), "when it was last written"


def _moment(name: str) -> float | None:
    """Seconds since the epoch, of a name that begins with a moment (UTC)."""
    try:
        return datetime.strptime(name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None


def what_else(line: bytes, version: int | None) -> str:
    """What a file seems to be in which no line can be read, and what to do about it."""
    for magic, name, unpack in _PACKED:
        if line.startswith(magic):
            return f"is packed with {name}; unpack it first, as with {unpack}"
    if line.startswith(_WIDE):
        return "is written in UTF-16; a journal is UTF-8 (cmd.exe and cp copy it as it is, PowerShell's > doesn't)"
    if version is not None and version > VERSION:
        return f"is of version {version}, and this HiveMind reads versions up to {VERSION}; update it"
    if _FLOWS.match(line):
        return f"looks like a mitmproxy dump; {_IMPORT}"
    start = line.removeprefix(BOM).lstrip()
    if start.startswith(b"{") and not start.startswith(b'{"v":') and (b'"log"' in start or len(start) < 3):
        return f"looks like a HAR file; {_IMPORT}"
    if start.startswith(b'{"v":') and not line.endswith(b"\n"):
        return "holds no whole line: the program that wrote it was killed, or the disk was full"
    return f"isn't a journal; {_LISTED}"
