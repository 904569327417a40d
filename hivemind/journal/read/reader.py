"""Reading a journal from its start: whatever can be read, and what was wrong with the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO

from hivemind.errors import UsageError
from hivemind.journal.codec import BadLine, Unknown, begin_of, event_of, version_of
from hivemind.journal.files import part_of, part_path, parts_from, parts_in
from hivemind.journal.read.damage import LONGEST_S, Damage, EventOrder
from hivemind.journal.read.head import BOM, beginning, opened
from hivemind.journal.records import VERSION, Gap, JournalBegan, JournalEnded
from hivemind.journal.write.segment import being_written
from hivemind.scheduler.events import Event, Progress, Sampled

__all__ = ["FREQUENT", "Damage", "Journal", "events_in", "first_line", "open_journal", "read_events"]

FREQUENT: frozenset[type[Event]] = frozenset({Progress, Sampled})
"""The most frequent kinds, which most readers don't need; leaving them out saves most of the time of reading."""
LONGEST_LINE = 128 << 20
"""Bytes: a body of 16 MiB is written, and may grow sixfold as text."""
_PIECE = 1 << 20


@dataclass(slots=True)
class Journal:
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
        """What is wrong with it as far as its beginning tells."""
        return Damage(guessed=self.guessed, part=self.began.part, unread=list(self.unread))

    def events(self, without: frozenset[type[Event]] = frozenset()) -> Iterator[Event]:
        """Everything that can be read, in order; where the first line can't, the stand-in for it comes first.

        Kinds that nobody wants can be left out, which saves their reading.
        """
        self.damage = damage = self.known_damage()
        damage.missing = missing_among(self.parts)
        order = EventOrder(self.began, damage)
        if self.guessed:
            yield self.began
        for number, part in enumerate(self.parts):
            try:
                yield from events_in(part, damage, order, without)
            except UsageError as error:
                if not number:
                    raise
                damage.unread.append(str(error))
        if damage.torn and being_written(self.parts[-1]):
            damage.torn = False  # the rest of the line is on its way

    def wall(self, at: float) -> float:
        """Time of day, in seconds since the epoch, of a moment of the journal's."""
        return self.began.wall + at - self.began.at


def open_journal(path: Path) -> Journal:
    """The journal that begins with this file, and goes on in later parts of it beside. Where nothing in the file can be
    read, the journal begins with the first part after it that can.

    Raises: UsageError: there is none, or nothing in it can be read.
    """
    unread: list[str] = []
    for part in (path, *_later(path)):
        try:
            began, guessed = beginning(part)
        except UsageError as error:
            unread.append(str(error))
        else:
            return Journal(part, began, parts_from(part, began), guessed=guessed, unread=tuple(unread))
    raise UsageError(unread[0])


def _later(path: Path) -> list[Path]:
    """Parts of the same journal beside this one, by their names."""
    named = part_of(path.name)
    if named is None or not path.is_file():
        return []
    try:
        beside = parts_in(path.parent).get(named[0], {})
    except OSError:
        return []
    return [beside[part] for part in sorted(beside) if part > named[1]]


def first_line(path: Path) -> JournalBegan:
    """Raises: UsageError: the file can't be read, or isn't a journal of ours."""
    return open_journal(path).began


def missing_among(parts: tuple[Path, ...]) -> list[str]:
    """Names of the files that aren't there between these parts of one journal."""
    named = [found for path in parts if (found := part_of(path.name)) is not None]
    there = {part for _, part in named}
    if len(parts) < 2 or len(named) < len(parts):
        return []
    folder, journal = parts[0].parent, named[0][0]
    lacking = (part for part in range(min(there), min(max(there), min(there) + 1000)) if part not in there)
    return [part_path(folder, journal, part).name for part in lacking]


def events_in(
    path: Path, damage: Damage, order: EventOrder | None = None, without: frozenset[type[Event]] = frozenset()
) -> Iterator[Event]:
    """The events of one file. Raises: UsageError: it can't be read."""
    with opened(path) as file:
        yield from read_events(_bounded(file), path.name, damage, order, without)


def read_events(
    lines: Iterable[bytes],
    name: str,
    damage: Damage,
    order: EventOrder | None = None,
    without: frozenset[type[Event]] = frozenset(),
) -> Iterator[Event]:
    """The events that these lines tell of, and what is wrong with the others.

    `order` is of the journal, where it has parts before; it puts right a clock that goes back and a journal that begins
    in the midst of another.
    """
    order = EventOrder(None, damage) if order is None else order
    latest, moved = order.at, order.moved
    unwanted = tuple(map(begin_of, without))
    for number, line in enumerate(lines, 1):
        if unwanted and line.startswith(unwanted) and line.endswith(b"\n"):
            continue
        try:
            event = event_of(line)
        except Unknown:
            damage.newer += 1
            damage.newer_version = max(damage.newer_version, version_of(line) or 0)
            continue
        except BadLine as error:
            mended = _mended(line, error, f"line {number:,} of {name}", damage)
            if mended is None:
                continue
            event = mended
        kind = type(event)
        if kind is Gap:
            damage.gap(event.lost, event.why)  # type: ignore[attr-defined]  # a Gap
        elif kind is JournalEnded:
            damage.ended = True
        elif kind is JournalBegan:
            damage.newer_version = max(damage.newer_version, _newer(line))
            order.at = latest
            order.begin(event, f"line {number:,} of {name}")  # type: ignore[arg-type]  # a JournalBegan
            moved = order.moved
        if moved or not 0.0 <= event.at - latest < LONGEST_S:
            order.at = latest
            order.put(event, f"line {number:,} of {name}")
            latest, moved = order.at, order.moved
        else:
            latest = event.at
        yield event
    order.at = latest


def _newer(line: bytes) -> int:
    version = version_of(line.removeprefix(BOM).strip(b"\0")) or 0
    return version if version > VERSION else 0


def _mended(line: bytes, error: BadLine, where: str, damage: Damage) -> Event | None:
    """What a bad line holds after all. Noted as damage, but for a mark that editors leave at the start of a file."""
    plain = line.removeprefix(BOM)
    if not plain.strip():
        return None
    nuls = plain.startswith(b"\0") or plain.rstrip(b"\r\n").endswith(b"\0")
    event = None
    if nuls or plain is not line:
        try:
            event = event_of(plain.strip(b"\0\r\n"))
        except (BadLine, Unknown):
            event = None
    if event is not None and not nuls:
        return event
    if not nuls and len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        damage.torn = True
        return None
    damage.bad_lines += 1
    cause = "holds NUL bytes, as a power loss leaves them" if nuls else str(error)
    if len(line) >= LONGEST_LINE:
        cause = f"is longer than {LONGEST_LINE >> 20} MiB"
    damage.first_bad = damage.first_bad or f"{where}, which {cause}"
    return event


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file; of one that is too long its beginning."""
    for line in iter(partial(file.readline, LONGEST_LINE), b""):
        yield line
        if len(line) == LONGEST_LINE and not line.endswith(b"\n"):
            while (piece := file.readline(_PIECE)) and not piece.endswith(b"\n"):
                pass


def follow(journal: Journal, rest: Callable[[], object]) -> Iterator[Event]:
    """Every event, until the journal ends or nobody writes it any more; `rest` is called while there is nothing new.

    Raises: UsageError: a part of it can't be read.
    """
    journal.damage = damage = journal.known_damage()
    order = EventOrder(journal.began, damage)
    if journal.guessed:
        yield journal.began
    path: Path | None = journal.parts[0]
    while path is not None:
        following = _following(path)
        with opened(path) as file:
            yield from read_events(_growing(file, path, following, rest), path.name, damage, order)
        path = following if following is not None and following.exists() else None


def _following(path: Path) -> Path | None:
    """Where the next part will be."""
    named = part_of(path.name)
    return None if named is None else part_path(path.parent, named[0], named[1] + 1)


def _growing(file: IO[bytes], path: Path, following: Path | None, rest: Callable[[], object]) -> Iterator[bytes]:
    """Lines as they become whole. Ends where the next part is there, or nobody writes this one; looked up before the
    last look into the file, so that nothing written in between is missed."""
    begun = b""
    while True:
        over = (following is not None and following.exists()) or not being_written(path)
        while line := file.readline():
            begun += line
            if begun.endswith(b"\n"):
                yield begun
                begun = b""
        if over:
            break
        rest()
    if begun:
        yield begun
