"""Journals: opening, reading and following one, and listing those of a folder."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from msgspec import Struct, field

from hivemind.errors import UsageError
from hivemind.journal.codec import BOM, event_if_any, version_of
from hivemind.journal.files import by_beginning, later_parts, part_of, part_path, parts_from, parts_if_any
from hivemind.journal.read.cursor import Cursor
from hivemind.journal.read.damage import Damage
from hivemind.journal.records import VERSION, JournalBegan, JournalEnded
from hivemind.scheduler.events import Event, Progress, Sampled
from hivemind.store.locks import is_held

FREQUENT: frozenset[type[Event]] = frozenset({Progress, Sampled})
"""The most frequent kinds, which most readers don't need; leaving them out saves most of the time of reading."""
COUNTED = 1 << 30
"""Bytes that are looked through for requests, the newest journals first; reading so many takes about a second."""
ENDS = ("ended", "truncated", "still being written")
"""In good order; not so, by a kill, a crash or a full disk; not yet."""
_ARRIVED = b'"event":"Arrived"'
_AGENT = re.compile(rb'"event":"Arrived","at":[^,]*,"ticket":\d+,"agent":"((?:[^"\\]|\\.)*)"')
_OPENED = re.compile(rb'"event":"CircuitChanged","at":[^,]*,"lane":"(?:[^"\\]|\\.)*","state":"open"')
_PIECE = 1 << 18
_LONGEST_FIRST = 1 << 20
"""Bytes of a first line; none of ours comes near."""
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
_LISTED = "hivemind journal list lists the journals that there are"


class Journal(Struct):
    """A journal that can be read: its first line, and its parts."""

    path: Path
    began: JournalBegan
    """Where the first line can't be read, a stand-in for it."""
    parts: tuple[Path, ...]
    damage: Damage = field(default_factory=Damage)
    """Filled while :meth:`events` goes on."""
    guessed: str = ""
    """As of :attr:`Damage.guessed`."""
    unread: tuple[str, ...] = ()
    """Of parts before the first, as of :attr:`Damage.unread`."""

    def known_damage(self) -> Damage:
        """What is wrong with it as far as its beginning shows."""
        return Damage(guessed=self.guessed, part=self.began.part, unread=list(self.unread))

    def events(self, without: frozenset[type[Event]] = frozenset()) -> Iterator[Event]:
        """Everything that can be read, in order; where the first line can't, the stand-in for it comes first.

        Kinds can be left out, which saves their reading. Raises: UsageError: the first part can't be read.
        """
        self.damage = self.known_damage()
        with (
            readable(self.parts[0]),
            closing(Cursor(self.parts, self.began, damage=self.damage, without=without)) as cursor,
        ):
            self.damage.missing = missing_among(self.parts)
            if self.guessed:
                yield self.began
            yield from cursor.to_end()

    def wall(self, at: float) -> float:
        """Time of day, in seconds since the epoch, of a moment of the journal's."""
        return self.began.wall + at - self.began.at


def open_journal(path: Path) -> Journal:
    """The journal that begins with this file, and goes on in later parts of it beside. Where nothing in the file can be
    read, the journal begins with the first part after it that can.

    Raises: UsageError: there is none, or nothing in it can be read.
    """
    unread: list[str] = []
    for part in (path, *(later_parts(path) if path.is_file() else ())):
        try:
            began, guessed = beginning(part)
        except UsageError as error:
            unread.append(str(error))
        else:
            return Journal(part, began, parts_from(part, began), guessed=guessed, unread=tuple(unread))
    raise UsageError(unread[0])


def missing_among(parts: tuple[Path, ...]) -> list[str]:
    """Names of the files that aren't there between these parts of one journal."""
    named = [found for path in parts if (found := part_of(path.name)) is not None]
    there = {part for _, part in named}
    if len(parts) < 2 or len(named) < len(parts):
        return []
    folder, journal = parts[0].parent, named[0][0]
    lacking = (part for part in range(min(there), min(max(there), min(there) + 1000)) if part not in there)
    return [part_path(folder, journal, part).name for part in lacking]


# --- The beginning and the end of a file, and what it may be instead of a journal -------------------------------------


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
        line = file.readline(_LONGEST_FIRST)
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
    return event_if_any(line.removeprefix(BOM).strip(b"\0\r\n"))


def _next_event(file: IO[bytes]) -> Event | None:
    left = _LOOKED_AT
    while left > 0 and (line := file.readline(_LONGEST_FIRST)):
        left -= len(line)
        event = _event(line)
        if event is not None:
            return event
    return None


def _stand_in(path: Path, first: Event) -> tuple[JournalBegan, str]:
    named = part_of(path.name)
    journal, part = named or (path.stem, 1)
    moment = named_moment(journal)
    if moment is not None and part == 1:
        return JournalBegan(first.at, moment, journal, part, ""), "its name"
    last = last_event(path) or first
    written = path.stat().st_mtime
    return JournalBegan(first.at, written - (last.at - first.at), journal, part, ""), "when it was last written"


def named_moment(name: str) -> float | None:
    """Return the seconds since the epoch of a journal's name, which begins with a moment (UTC); None: it doesn't."""
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


# --- Journals of a folder ---------------------------------------------------------------------------------------------


class Listed(Struct, frozen=True):
    """A journal as it stands in a list."""

    name: str
    path: Path
    """Its first part that is there."""
    began: float
    """Seconds since the epoch."""
    length_s: float
    parts: int
    bytes: int
    requests: int | None
    """None: not counted, nor the two that follow, as there is too much to look through."""
    agents: int | None
    openings: int | None
    """How often a circuit opened."""
    end: str
    """One of :data:`ENDS`."""
    source: str
    bodies: bool
    fleet: bool = False
    """Other proxies used the same keys."""


def listed(folder: Path) -> tuple[list[Listed], list[str]]:
    """All in the folder, the one begun last first; and a line each of those that can't be read.

    Raises: UsageError: the folder can't be read.
    """
    journals = parts_if_any(folder)
    found, wrong, left = [], [], COUNTED
    for name in by_beginning(journals):
        parts = [path for _, path in sorted(journals[name].items())]
        try:
            size = sum(path.stat().st_size for path in parts)
            found.append(_listed(name, parts, size, counted=size <= left))
        except UsageError as error:
            wrong.append(str(error))
            continue
        except OSError as error:
            wrong.append(f"{name}: can't be read ({error.strerror})")
            continue
        left -= size if size <= left else 0
    return found, wrong


def _listed(name: str, parts: Sequence[Path], size: int, *, counted: bool) -> Listed:
    """Return one journal's row, found without reading it whole. Raises: UsageError."""
    began = open_journal(parts[0]).began
    last = last_event(parts[-1])
    requests, agents, openings = counted_in(parts) if counted else (None, None, None)
    end = "ended" if isinstance(last, JournalEnded) else "truncated"
    if is_held(parts[-1]):
        end = "still being written"
    return Listed(
        name=name,
        path=parts[0],
        began=began.wall,
        length_s=max(0.0, (began if last is None else last).at - began.at),
        parts=len(parts),
        bytes=size,
        requests=requests,
        agents=agents,
        openings=openings,
        end=end,
        source=began.source,
        bodies=began.bodies,
        fleet=began.fleet,
    )


def counted_in(parts: Sequence[Path]) -> tuple[int, int, int]:
    """Return how many requests arrived, of how many agents, and how often a circuit opened, by a plain search in the
    files. Raises: UsageError."""
    requests, agents, openings = 0, set[bytes](), 0
    for path in parts:
        rest = b""
        with opened(path) as file:
            while piece := file.read(_PIECE):
                lines, _, rest = (rest + piece).rpartition(b"\n")
                requests += lines.count(_ARRIVED)
                agents.update(_AGENT.findall(lines))
                openings += len(_OPENED.findall(lines))
    return requests, len(agents), openings
