"""Reading a journal from its start: whatever can be read, and what was wrong with the rest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.scheduler.events import Event

from .format import BadLine, Unknown, event_of, version_of
from .records import VERSION, Gap, JournalBegan, JournalEnded

LONGEST_LINE = 256 << 20
"""Bytes: a request's body may be as large as 64 MiB, and grows when it is written as text."""


@dataclass(slots=True)
class Damage:
    """What was found wrong on the way, for people."""

    bad_lines: int = 0
    first_bad: str = ""
    """Where the first of them was, and what was wrong with it."""
    torn: bool = False
    """The last line isn't whole: the writer was cut off."""
    newer: int = 0
    """Lines of a newer version that aren't understood."""
    newer_version: int = 0
    gaps: int = 0
    lost: int = 0
    """Lines that the writer had to drop, in so many gaps."""
    ended: bool = False
    """The writer ended in good order."""

    def told(self) -> list[str]:
        """One line for each thing that is wrong; none where nothing is."""
        lines = []
        if self.newer:
            lines.append(
                f"written by a newer HiveMind (version {self.newer_version}, this one reads {VERSION}):"
                f" {self.newer} lines aren't understood; everything else is shown"
            )
        if self.bad_lines:
            lines.append(f"{self.bad_lines} lines can't be read, the first is {self.first_bad}; they are skipped")
        if self.torn:
            lines.append("the last line isn't whole: the program that wrote it was killed, or the disk was full")
        if self.gaps:
            lines.append(f"{self.lost} events are missing in {self.gaps} gaps: the disk was full or too slow")
        return lines


@dataclass(slots=True)
class Journal:
    """A journal that can be read: its first line, and its parts."""

    path: Path
    began: JournalBegan
    parts: tuple[Path, ...]
    damage: Damage = field(default_factory=Damage)
    """Filled while :meth:`events` goes on."""

    def events(self) -> Iterator[Event]:
        """Everything that can be read, in order."""
        self.damage = Damage()
        for part in self.parts:
            yield from events_in(part, self.damage)


def open_journal(path: Path) -> Journal:
    """The journal that begins with this file, and goes on in later parts of it beside.

    Raises: UsageError: there is none, or nothing in it can be read.
    """
    from .files import parts_from  # which asks this module for a file's first line

    began = first_line(path)
    return Journal(path, began, parts_from(path, began))


def first_line(path: Path) -> JournalBegan:
    """Raises: UsageError: the file can't be read, or isn't a journal of ours."""
    try:
        with path.open("rb") as file:
            line = file.readline(LONGEST_LINE)
    except OSError as error:
        raise UsageError(f"{path}: can't be read ({error.strerror})") from None
    if not line:
        raise UsageError(f"{path}: is empty; hivemind journal ls lists the journals that there are")
    try:
        event = event_of(line)
    except (BadLine, Unknown):
        version = version_of(line)
        if version is not None and version > VERSION:
            raise UsageError(
                f"{path}: is of version {version}, and this HiveMind reads versions up to {VERSION}; update it"
            ) from None
        event = None
    if not isinstance(event, JournalBegan):
        raise UsageError(f"{path}: isn't a journal; hivemind journal ls lists those that there are")
    return event


def events_in(path: Path, damage: Damage) -> Iterator[Event]:
    """The events of one file. Raises: UsageError: it can't be read."""
    try:
        with path.open("rb") as file:
            yield from read_events(file, path.name, damage)
    except OSError as error:
        raise UsageError(f"{path}: can't be read ({error.strerror})") from None


def read_events(lines: Iterable[bytes], name: str, damage: Damage) -> Iterator[Event]:
    """The events that these lines tell of, and what is wrong with the others."""
    for number, line in enumerate(lines, 1):
        try:
            event = event_of(line)
        except Unknown:
            damage.newer += 1
            damage.newer_version = max(damage.newer_version, version_of(line) or 0)
            continue
        except BadLine as error:
            if not line.endswith(b"\n"):
                damage.torn = True
            else:
                damage.bad_lines += 1
                damage.first_bad = damage.first_bad or f"line {number} of {name}, which {error}"
            continue
        kind = type(event)
        if kind is Gap:
            damage.gaps += 1
            damage.lost += event.lost  # type: ignore[attr-defined]  # a Gap
        elif kind is JournalEnded:
            damage.ended = True
        yield event
