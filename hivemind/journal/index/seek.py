"""Where to begin folding to have the world at a moment."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hivemind.journal.codec import BadLine, Unknown, event_of
from hivemind.journal.index.index_state import JournalIndex
from hivemind.journal.read.cursor import Place, line_near, line_start, moment_of
from hivemind.journal.read.reader import LONGEST_LINE
from hivemind.journal.records import JournalBegan
from hivemind.world.state import Carried, WorldState

WARM_EVENTS, WARM_BYTES = 8000, 2 << 20
"""How far before a moment folding begins, so that recent requests are known."""
TAIL = 3 << 19
"""Bytes before a moment from which it is put together, where there is no index; and what is quickly folded whole."""
_WINDOW = 1 << 16
_LINE = b'\n{"v":'


@dataclass(frozen=True, slots=True)
class Start:
    """A place in the journal, and the state there."""

    place: Place
    state: WorldState | None
    """None: the state at the journal's beginning."""
    exact: bool
    """The state holds everything that happened before the place."""


class StartFinder:
    """Finds where to begin folding or reading one journal for a moment."""

    def __init__(self, began: JournalBegan, known: JournalIndex) -> None:
        self._began = began
        self._known = known
        self._firsts: dict[Path, float | None] = {}

    def before(self, at: float, parts: tuple[Path, ...]) -> Start:
        """Return where to begin folding for this moment. Raises: OSError: the journal can't be read."""
        found = self._known.world_before(at, WARM_EVENTS, WARM_BYTES)
        start = Start(Place(0, 0), None, True) if found is None else Start(found[0].block.place, found[1], True)
        if self._known.at >= at:
            return start
        part = self._part(at, parts)
        offset = line_near(parts[part], at)
        if _bytes_between(start.place, part, offset, parts) <= 2 * TAIL:
            return start
        return self._guess(part, offset, parts)

    def near(self, at: float, parts: tuple[Path, ...]) -> Place:
        """Return where to begin reading for what happened just before and after this moment. Raises: OSError."""
        place = self._known.place_before(at)
        if self._known.at >= at:
            return place
        part = self._part(at, parts)
        offset = line_near(parts[part], at)
        if _bytes_between(place, part, offset, parts) <= TAIL:
            return place
        return self._place(part, offset - TAIL, parts)

    def line_near(self, at: float, parts: tuple[Path, ...]) -> tuple[int, int]:
        """Return a part, and the offset in it of a line shortly before this moment. Raises: OSError."""
        part = self._part(at, parts)
        return part, line_near(parts[part], at)

    def _guess(self, part: int, offset: int, parts: tuple[Path, ...]) -> Start:
        """Return an approximate start: the last stretch before the offset, and the state that the part began with."""
        carried = _carried(parts[part])
        if carried is not None and offset <= 2 * TAIL:
            return Start(Place(part, 0), None, True)
        state = None if carried is None or offset <= TAIL else replace(carried.state, tickets=())
        return Start(self._place(part, offset - TAIL, parts), state, False)

    def _place(self, part: int, offset: int, parts: tuple[Path, ...]) -> Place:
        if offset <= 0:
            return Place(part, 0)
        with parts[part].open("rb") as file:
            return Place(part, line_start(file, offset))

    def _part(self, at: float, parts: tuple[Path, ...]) -> int:
        """Return the number of the part that the moment falls into."""
        found = 0
        for number, part in enumerate(parts):
            if part not in self._firsts:
                self._firsts[part] = _first_moment(part)
            first = self._firsts[part]
            if first is not None and first <= at:
                found = number
        return found


def _bytes_between(place: Place, part: int, offset: int, parts: tuple[Path, ...]) -> int:
    if place.part == part:
        return offset - place.offset
    between = sum(each.stat().st_size for each in parts[place.part : part])
    return between - place.offset + offset


def _first_moment(part: Path) -> float | None:
    with contextlib.suppress(OSError), part.open("rb") as file:
        return moment_of(file.readline(LONGEST_LINE))
    return None


def _carried(part: Path) -> Carried | None:
    """Return the state after a part's first line, if there is one."""
    with part.open("rb") as file:
        file.readline(LONGEST_LINE)
        try:
            event = event_of(file.readline(LONGEST_LINE))
        except (BadLine, Unknown):
            return None
    return event if isinstance(event, Carried) else None


def last_moment(parts: tuple[Path, ...]) -> float | None:
    """Return the `at` of the last line that has one, as it is written."""
    for part in reversed(parts):
        with contextlib.suppress(OSError), part.open("rb") as file:
            found = _last_in(file)
            if found is not None:
                return found
    return None


def _last_in(file: BinaryIO) -> float | None:
    end = file.seek(0, 2)
    window = _WINDOW
    while True:
        file.seek(max(0, end - window))
        text = b"\n" + file.read(window)
        found = len(text)
        while (found := text.rfind(_LINE, 0, found)) >= 0:
            at = moment_of(text[found + 1 : found + 256])
            if at is not None:
                return at
        if window >= end or window > LONGEST_LINE:
            return None
        window *= 4
