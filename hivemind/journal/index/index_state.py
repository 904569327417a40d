"""A journal's index as it is read, where folding begins for a moment, and the process that makes the index."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from bisect import bisect_right
from pathlib import Path

from msgspec import Struct

from hivemind.journal.codec import event_if_any
from hivemind.journal.files import parts_from
from hivemind.journal.index.activity import Mark, Overview
from hivemind.journal.index.index import IndexReader, Stale, StoredBlock, header_of, index_path, open_index
from hivemind.journal.read.cursor import LONGEST_LINE, JournalPlace, line_near, line_start, moment_of
from hivemind.journal.read.damage import Damage
from hivemind.journal.records import JournalBegan
from hivemind.records import replace
from hivemind.world.state import Carried, WorldState

WARM_EVENTS, WARM_BYTES = 8000, 2 << 20
"""How far before a moment folding begins, so that recent requests are known."""
TAIL = 3 << 19
"""Bytes before a moment from which it is put together, where there is no index; and what is quickly folded whole."""
_AGAIN = 10
"""Calls of :meth:`JournalIndex.look` before another attempt, if another program seems to make the index."""


class Start(Struct, frozen=True):
    """A place in the journal, and the state there."""

    place: JournalPlace
    state: WorldState | None
    """None: the state at the journal's beginning."""
    exact: bool
    """The state holds everything that happened before the place."""


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
        self._first_moments: dict[Path, float | None] = {}
        self.parts = parts_from(path, began)
        """The journal's files as of the last :meth:`find_parts`."""
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
        self._worlds: list[StoredBlock] = []
        """Blocks with a state. The counts of each are those since the one before."""
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

    def find_parts(self) -> tuple[Path, ...]:
        """Return the journal's present files."""
        self.parts = parts_from(self._path, self._began)
        return self.parts

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
        if self._reader is not None:
            blocks = self._reader.more()
        else:
            of = header_of(self._path, priced=self._priced)
            self._reader, blocks = open_index(self._place, of, self.parts)
        for stored in blocks:
            self._learn(stored)

    def _learn(self, stored: StoredBlock) -> None:
        block = stored.block
        self.marks += block.marks
        self.overview.add(block.rows)
        self.bytes += block.bytes
        self.at, self.damage = block.at, block.damage
        self.plain = block.place.order is None or not any(block.place.order[1:])
        self._events += block.events
        self._since += block.bytes
        if stored.length:
            since = replace(block, events=self._events, bytes=self._since, marks=[], rows=[])
            self._worlds.append(replace(stored, block=since))
            self._events = self._since = 0

    def _release(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._forget()

    # --- Where to begin for a moment -------------------------------------------------------------------------------

    def start_before(self, at: float) -> Start:
        """Return where to begin folding for this moment. Raises: OSError: the journal can't be read."""
        start = self._stored_before(at) or Start(JournalPlace(0, 0), None, True)
        if self.at >= at:
            return start
        part, offset = self.line_near(at)
        parts_between = sum(each.stat().st_size for each in self.parts[start.place.part : part])
        if parts_between - start.place.offset + offset <= 2 * TAIL:
            return start
        # The last stretch before the offset, and the state that the part began with.
        carried = _carried(self.parts[part])
        if carried is not None and offset <= 2 * TAIL:
            return Start(JournalPlace(part, 0), None, True)
        state = None if carried is None or offset <= TAIL else replace(carried.state, tickets=())
        return Start(self._tail(part, offset), state, False)

    def line_near(self, at: float) -> tuple[int, int]:
        """Return a part, and the offset in it of a line shortly before this moment. Raises: OSError."""
        parts, part = self.parts, 0
        for number, path in enumerate(parts):
            if path not in self._first_moments:
                self._first_moments[path] = _first_moment(path)
            first = self._first_moments[path]
            if first is not None and first <= at:
                part = number
        return part, line_near(parts[part], at)

    def _stored_before(self, at: float) -> Start | None:
        """Return the last state that isn't after this moment, or the earliest before it that isn't too far back."""
        number = bisect_right(self._worlds, at, key=lambda stored: stored.block.at) - 1
        events, size = WARM_EVENTS, WARM_BYTES
        while number > 0:
            block = self._worlds[number].block
            events, size = events - block.events, size - block.bytes
            if events < 0 or size < 0:
                break
            number -= 1
        if number < 0 or self._reader is None:
            return None
        stored = self._worlds[number]
        try:
            return Start(stored.block.place, self._reader.world(stored), True)
        except (Stale, OSError):
            self._release()
            return None

    def _tail(self, part: int, offset: int) -> JournalPlace:
        """Return the place so far before an offset that what happened there is known."""
        if offset <= TAIL:
            return JournalPlace(part, 0)
        with self.parts[part].open("rb") as file:
            return JournalPlace(part, line_start(file, offset - TAIL))

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
            # -P: don't import from the current folder.
            program = [sys.executable, "-P", "-m", "hivemind.journal.index.builder"]
            arguments = [str(self._path.absolute()), str(self._place.absolute()), "priced" if self._priced else "plain"]
            nothing = subprocess.DEVNULL
            try:
                self._maker = subprocess.Popen([*program, *arguments], stdin=nothing, stdout=nothing, stderr=nothing)
            except OSError:
                self._wanted = False

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


def _first_moment(part: Path) -> float | None:
    with contextlib.suppress(OSError), part.open("rb") as file:
        return moment_of(file.readline(LONGEST_LINE))
    return None


def _carried(part: Path) -> Carried | None:
    """Return the state after a part's first line, if there is one."""
    with part.open("rb") as file:
        file.readline(LONGEST_LINE)
        event = event_if_any(file.readline(LONGEST_LINE))
    return event if isinstance(event, Carried) else None
