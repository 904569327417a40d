"""Journals: opening, reading and following one, and listing those of a folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.files import by_beginning, part_of, part_path, parts_from, parts_in
from hivemind.journal.read.cursor import Cursor
from hivemind.journal.read.damage import Damage
from hivemind.journal.read.head import beginning, last_event, opened, readable
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.journal.write.segment import being_written
from hivemind.scheduler.events import Event, Progress, Sampled

FREQUENT: frozenset[type[Event]] = frozenset({Progress, Sampled})
"""The most frequent kinds, which most readers don't need; leaving them out saves most of the time of reading."""
COUNTED = 1 << 30
"""Bytes that are looked through for requests, the newest journals first; reading so many takes about a second."""
ENDS = ("ended", "cut off", "still being written")
"""In good order; not so, by a kill, a crash or a full disk; not yet."""
_ARRIVED = b'"event":"Arrived"'
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
        """What is wrong with it as far as its beginning shows."""
        return Damage(guessed=self.guessed, part=self.began.part, unread=list(self.unread))

    def events(self, without: frozenset[type[Event]] = frozenset()) -> Iterator[Event]:
        """Everything that can be read, in order; where the first line can't, the stand-in for it comes first.

        Kinds can be left out, which saves their reading. Raises: UsageError: the first part can't be read.
        """
        with self._reading(without) as cursor:
            self.damage.missing = missing_among(self.parts)
            if self.guessed:
                yield self.began
            yield from cursor.to_end()

    def follow(self, rest: Callable[[], object]) -> Iterator[Event]:
        """Every event, until the journal ends or no program writes it any more; `rest` is called while there is nothing
        new. Raises: UsageError: the first part can't be read."""
        with self._reading(frozenset()) as cursor:
            if self.guessed:
                yield self.began
            while True:
                # Looked up before the last look into the file, so that nothing written in between is missed.
                over = not being_written(cursor.parts[-1])
                yield from cursor.to_end()
                before, cursor.parts = cursor.parts, parts_from(self.path, self.began)
                if cursor.parts == before:
                    if over:
                        return
                    rest()

    @contextmanager
    def _reading(self, without: frozenset[type[Event]]) -> Iterator[Cursor]:
        self.damage = self.known_damage()
        with (
            readable(self.parts[0]),
            closing(Cursor(self.parts, self.began, damage=self.damage, without=without)) as cursor,
        ):
            yield cursor

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


def missing_among(parts: tuple[Path, ...]) -> list[str]:
    """Names of the files that aren't there between these parts of one journal."""
    named = [found for path in parts if (found := part_of(path.name)) is not None]
    there = {part for _, part in named}
    if len(parts) < 2 or len(named) < len(parts):
        return []
    folder, journal = parts[0].parent, named[0][0]
    lacking = (part for part in range(min(there), min(max(there), min(there) + 1000)) if part not in there)
    return [part_path(folder, journal, part).name for part in lacking]


# --- Journals of a folder ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listed:
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
    """None: not counted, as there is too much to look through."""
    end: str
    """One of :data:`ENDS`."""
    source: str
    bodies: bool


def listed(folder: Path) -> tuple[list[Listed], list[str]]:
    """All in the folder, the one begun last first; and a line each of those that can't be read.

    Raises: UsageError: the folder can't be read.
    """
    try:
        journals = parts_in(folder)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise UsageError(f"{folder}: can't be read ({error.strerror})") from None
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
    end = "ended" if isinstance(last, JournalEnded) else "cut off"
    if being_written(parts[-1]):
        end = "still being written"
    return Listed(
        name=name,
        path=parts[0],
        began=began.wall,
        length_s=max(0.0, (began if last is None else last).at - began.at),
        parts=len(parts),
        bytes=size,
        requests=sum(map(_requests_in, parts)) if counted else None,
        end=end,
        source=began.source,
        bodies=began.bodies,
    )


def _requests_in(path: Path) -> int:
    """Requests that arrived, by a plain search in the file. Raises: UsageError."""
    count, rest = 0, b""
    with opened(path) as file:
        while piece := file.read(_PIECE):
            piece = rest + piece
            count += piece.count(_ARRIVED)
            rest = piece[-len(_ARRIVED) + 1 :]
    return count
