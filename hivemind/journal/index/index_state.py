"""A journal's index as it is read, and the process that makes it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hivemind import __version__
from hivemind.journal.codec import BadLine, Unknown, event_of
from hivemind.journal.files import parts_from
from hivemind.journal.index.activity import Mark, Overview
from hivemind.journal.index.index import (
    FORMAT,
    IndexHeader,
    IndexReader,
    Stale,
    StoredBlock,
    fits,
    head_of,
    index_path,
    same_journal,
)
from hivemind.journal.read.cursor import Place, line_near, line_start, moment_of
from hivemind.journal.read.damage import Damage
from hivemind.journal.read.reader import LONGEST_LINE
from hivemind.journal.records import JournalBegan
from hivemind.world.state import Carried, WorldState

_AGAIN = 10
"""Calls of :meth:`JournalIndex.look` before another attempt, if another program seems to make the index."""


class JournalIndex:
    """Grows while a process reads the journal through, which is started if `indexed`."""

    def __init__(self, path: Path, began: JournalBegan, *, priced: bool, indexed: bool) -> None:
        self._path = path
        self._began = began
        self._priced = priced
        self._wanted = indexed
        self._place = index_path(path)
        self._folder: Path | None = None
        """A temporary one, if the index can't be beside the journal."""
        self._reader: IndexReader | None = None
        self._maker: subprocess.Popen[bytes] | None = None
        self._wait = 0
        self._forget()

    def _forget(self) -> None:
        self.marks: list[Mark] = []
        """By time."""
        self.overview = Overview()
        self.bytes = 0
        """Bytes of the journal that were read through."""
        self.at = self._began.at
        """The moment up to which it was read through."""
        self.damage: Damage | None = None
        self.plain = True
        """No line's clock had to be corrected."""
        self._places: list[Place] = []
        """Where blocks end."""
        self._ats: list[float] = []
        self._worlds: list[tuple[StoredBlock, int, int]] = []
        """Each with how many events and bytes there are since the one before."""
        self._world_ats: list[float] = []
        self._events = self._since = 0

    def close(self) -> None:
        """Close the index, and end the process that makes it."""
        self._release()
        maker, self._maker = self._maker, None
        if maker is not None:
            maker.terminate()
            maker.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def parts(self) -> tuple[Path, ...]:
        """Return the journal's present files."""
        return parts_from(self._path, self._began)

    # --- Reading it ------------------------------------------------------------------------------------------------

    def look(self, size: int, *, growing: bool) -> bool:
        """Read what was added to the index of a journal of so many bytes. Return whether anything was."""
        before = self.bytes
        with contextlib.suppress(OSError):
            try:
                self._read()
            except Stale:
                self._release()
        if self._wanted and (self.bytes < size or growing):
            self._have_it_made()
        return self.bytes != before

    def _read(self) -> None:
        if self._reader is not None and self._reader.changed:
            self._release()
        if self._reader is None:
            reader = IndexReader(self._place)
            try:
                blocks = reader.more()
                of = IndexHeader(FORMAT, __version__, self._priced, head_of(self._path), b"")
                if reader.of is None or not same_journal(reader.of, of):
                    raise Stale
                if not fits([kept.block for kept in blocks], self.parts()):
                    raise Stale
            except BaseException:
                reader.close()
                raise
            self._reader = reader
        else:
            blocks = self._reader.more()
        for kept in blocks:
            self._learn(kept)

    def _learn(self, kept: StoredBlock) -> None:
        block = kept.block
        self.marks += block.marks
        self.overview.add(block.rows)
        self.bytes += block.bytes
        self.at, self.damage = block.at, block.damage
        self.plain = block.place.order is None or not any(block.place.order[1:])
        self._places.append(block.place)
        self._ats.append(block.at)
        self._events += block.events
        self._since += block.bytes
        if kept.length:
            self._worlds.append((replace(kept, block=replace(block, marks=[], rows=[])), self._events, self._since))
            self._world_ats.append(block.at)
            self._events = self._since = 0

    def _release(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._forget()

    # --- Finding in it ---------------------------------------------------------------------------------------------

    def world_before(self, at: float, events: int, size: int) -> tuple[StoredBlock, WorldState] | None:
        """Return the last state that isn't after this moment, or the earliest one before it within so many events and
        bytes; None: there is none."""
        number = bisect_right(self._world_ats, at) - 1
        while number > 0 and (events := events - self._worlds[number][1]) >= 0:
            size -= self._worlds[number][2]
            if size < 0:
                break
            number -= 1
        if number < 0 or self._reader is None:
            return None
        kept = self._worlds[number][0]
        try:
            return kept, self._reader.world(kept)
        except (Stale, OSError):
            self._release()
            return None

    def place_before(self, at: float) -> Place:
        """Return a place shortly before this moment, with a whole block in between."""
        number = bisect_right(self._ats, at) - 2
        return self._places[number] if number >= 0 else Place(0, 0)

    # --- Having it made --------------------------------------------------------------------------------------------

    def _have_it_made(self) -> None:
        if self._maker is not None:
            code = self._maker.poll()
            if code is None:
                return
            self._maker = None
            self._wait = _AGAIN
            if code and not self._elsewhere():
                self._wanted = False
        elif self._wait:
            self._wait -= 1
        else:
            self._start()

    def _start(self) -> None:
        if self._folder is None and not self._writable() and not self._elsewhere():
            self._wanted = False
            return
        # -P: don't import from the current folder.
        program = [sys.executable, "-P", "-m", "hivemind.journal.index.builder"]
        arguments = [str(self._path.absolute()), str(self._place.absolute()), "priced" if self._priced else "plain"]
        nothing = subprocess.DEVNULL
        try:
            self._maker = subprocess.Popen([*program, *arguments], stdin=nothing, stdout=nothing, stderr=nothing)
        except OSError:
            self._wanted = False

    def _writable(self) -> bool:
        try:
            fd = os.open(self._place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError:
            return False
        os.close(fd)
        return True

    def _elsewhere(self) -> bool:
        """Use a temporary folder for the index from now on. Return whether there is a new one."""
        if self._folder is not None:
            return False
        try:
            self._folder = Path(tempfile.mkdtemp(prefix="hivemind-index-"))
        except OSError:
            return False
        self._release()
        self._place = index_path(self._folder / self._path.name)
        self._wait = 0
        return True


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
