"""A place in a journal, and reading on from it: the parts as one long file, of which more may be written meanwhile."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hivemind.journal.read.damage import Damage
from hivemind.journal.read.normalise import EventOrder, OrderState
from hivemind.journal.read.reader import LONGEST_LINE, read_events
from hivemind.journal.records import JournalBegan
from hivemind.journal.write.segment import being_written
from hivemind.scheduler.events import Event

_BODIES = (b'{"v":1,"event":"RequestBody"', b'{"v":1,"event":"ResponseBody"')
_LONG = 4096
"""Bytes of a line from which on it is looked whether it holds a body, of which the world is told nothing."""
_AT = re.compile(rb'\{"v":\d+,"event":"\w+","at":(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[,}]')
_NEAR = 1 << 16
"""Bytes: near enough for a search by time."""
_BUFFER = 1 << 18


@dataclass(frozen=True, slots=True)
class Place:
    """The end of a line of a journal."""

    part: int
    """Which of the files that are read, from 0."""
    offset: int
    """Bytes into it."""
    order: OrderState | None = None
    """The state of the clock there; None: unknown."""


class Cursor:
    """Reads events from a place on."""

    def __init__(
        self, parts: tuple[Path, ...], began: JournalBegan, place: Place | None = None, damage: Damage | None = None
    ) -> None:
        """From the beginning where no place is named. Raises: OSError: a file can't be read."""
        self.parts = parts
        self.damage = Damage() if damage is None else damage
        place = Place(0, 0) if place is None else place
        self.part, self.offset = place.part, place.offset
        self.order = EventOrder(began, self.damage)
        if place.order is not None:
            self.order.resume(place.order)
        self._file: BinaryIO = parts[place.part].open("rb", buffering=_BUFFER)

    @property
    def place(self) -> Place:
        """The place behind the last event that was read."""
        return Place(self.part, self.offset, self.order.standing)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def events(self) -> Iterator[Event]:
        """What comes next in this part, but for bodies, up to where nothing more is written yet; more may be asked for
        later.

        Raises: OSError: the file can't be read.
        """
        self._file.seek(self.offset)
        where = self.parts[self.part].name + (f" after byte {self.offset:,}" if self.offset else "")
        yield from read_events(self._lines(), where, self.damage, self.order)

    def turn(self) -> bool:
        """To the beginning of the next part that can be read. Returns whether there is one."""
        for number in range(self.part + 1, len(self.parts)):
            try:
                following = self.parts[number].open("rb", buffering=_BUFFER)
            except OSError as error:
                self.damage.unread.append(f"{self.parts[number]}: can't be read ({error.strerror})")
                continue
            self._file.close()
            self._file, self.part, self.offset = following, number, 0
            return True
        return False

    def _lines(self) -> Iterator[bytes]:
        readline = self._file.readline
        while line := readline(LONGEST_LINE):
            if not line.endswith(b"\n") and len(line) < LONGEST_LINE and self._goes_on():
                return
            self.offset += len(line)
            if len(line) < _LONG or not line.startswith(_BODIES):
                yield line

    def _goes_on(self) -> bool:
        """The rest of this line may still be on its way."""
        return self.part + 1 == len(self.parts) and being_written(self.parts[self.part])


def line_near(path: Path, at: float) -> int:
    """Where a line begins from which on it isn't far to this moment, and which isn't after it; 0: at the beginning.

    Raises: OSError: the file can't be read.
    """
    with path.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while high - low > _NEAR:
            middle = (low + high) // 2
            found = _next_moment(file, middle, high)
            if found is None or found[1] > at:
                high = middle
            else:
                low = max(found[0], low + 1)
        return line_start(file, low)


def line_start(file: BinaryIO, offset: int) -> int:
    """Where the first line begins that doesn't begin before this byte."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    return offset - 1 + len(file.readline(LONGEST_LINE))


def moment_of(line: bytes) -> float | None:
    """The `at` of a line that begins as ours do."""
    found = _AT.match(line)
    return None if found is None else float(found[1])


def _next_moment(file: BinaryIO, offset: int, end: int) -> tuple[int, float] | None:
    """Where the next line begins that tells a moment, and which; None: there is none before the end."""
    start = line_start(file, offset)
    file.seek(start)
    while start < end and (line := file.readline(LONGEST_LINE)):
        at = moment_of(line)
        if at is not None:
            return start, at
        start += len(line)
    return None
