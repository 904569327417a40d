"""Playing a journal: the world at any of its moments."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.gc_pause import gc_paused
from hivemind.journal.codec import event_if_any
from hivemind.journal.index.activity import ActivityColumn, Mark
from hivemind.journal.index.builder import MALFORMED, world_of
from hivemind.journal.index.index_state import JournalIndex, Start
from hivemind.journal.read.cursor import LONGEST_LINE, Cursor, moment_of
from hivemind.journal.read.damage import Damage
from hivemind.journal.read.reader import last_event, missing_among, open_journal, readable
from hivemind.journal.records import RequestBody, ResponseBody
from hivemind.prices import prices_at
from hivemind.records import replace
from hivemind.scheduler import events as ev
from hivemind.store.locks import is_held
from hivemind.world.snapshot import RequestDetail
from hivemind.world.world import World

_BEFORE_S, _AFTER_S = 0.05, 5.0
"""How far from its moment a body's line may be: it is written beside what it belongs to, not in one go with it."""
_MOST_BYTES = 64 << 20
"""That are looked through for one body."""
_LOOKS = 64
"""Events between two looks at the clock."""


class Player:
    """One journal and one moment of it: :attr:`world` is as it was then. All moments are on the journal's own clock.

    What was found is exact: the world is the one that all events up to the moment make, but for requests long over, of
    which it remembers those that ended in the last some thousand events. Until the journal has been read through once,
    by another process, a moment far from the beginning is put together from what happened shortly before it, which is
    :attr:`approximate`.
    """

    def __init__(
        self, path: Path, *, priced: bool = False, indexed: bool = True, clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """A journal by the path of its first part, at its beginning.

        `priced`: by the prices of when it began. `indexed`: it is read through by another process, if it wasn't yet;
        else an index that is there is used, but none made. `clock` measures how long things take, in seconds.

        Raises: UsageError: it can't be read.
        """
        journal = open_journal(path)
        self.began = journal.began
        self.name = journal.began.journal
        self.begins_at = journal.began.at
        self.wall_offset_s = journal.began.wall - journal.began.at
        """What to add to a moment for the time of day, in seconds since the epoch."""
        self.bodies = journal.began.bodies
        """Bodies were recorded."""
        self.parts = journal.parts
        self.world = World(at=0, wall=0, address="", upstreams=())
        self.approximate = False
        self._path = path = journal.path
        self._clock = clock
        self._price = prices_at(self.began.wall) if priced else None
        self._found = journal.known_damage()
        """Damage found while playing."""
        self._known = JournalIndex(path, self.began, priced=priced, indexed=indexed)
        self._cursor: Cursor | None = None
        self._events: Iterator[ev.Event] = iter(())
        self._next: ev.Event | None = None
        """The next event, read but not applied yet."""
        self.at = self.begins_at
        """The moment of the world."""
        self._sizes: tuple[int, ...] = ()
        self.ends_at = self.begins_at
        self.growing = False
        try:
            self.look()
            self.seek(self.begins_at)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the files, and end the process that makes the index."""
        self._known.close()
        if self._cursor is not None:
            self._cursor.close()
            self._cursor = None

    # --- The whole of it -------------------------------------------------------------------------------------------

    @property
    def marks(self) -> Sequence[Mark]:
        """Marks by time, as far as the journal is indexed."""
        return self._known.marks

    @property
    def known_to(self) -> float:
        """The indexed share of the journal; 1: all."""
        whole = sum(self._sizes)
        return 1.0 if not whole else min(1.0, self._known.bytes / whole)

    @property
    def damage(self) -> tuple[str, ...]:
        """What is wrong with the journal, as far as it was read, and what it doesn't hold."""
        seen = self._known.damage or self._found
        seen = replace(seen, missing=missing_among(self.parts), torn=seen.torn and not self.growing)
        unknown = self.began.not_recorded
        return (*seen.messages(), *((f"not recorded: {unknown}",) if unknown else ()))

    def overview(self, columns: int) -> list[ActivityColumn | None]:
        """Return the activity in so many columns of equal length; None for those that aren't indexed yet."""
        known_s = float("inf") if self.known_to >= 1 else self._known.at - self.begins_at
        return self._known.overview.columns(columns, self.ends_at - self.begins_at, known_s)

    def look(self) -> bool:
        """Look for more of the journal and its index. Return whether there is."""
        self.parts = self._known.find_parts()
        sizes = self._measured()
        grown = sizes != self._sizes
        self._sizes = sizes
        self.growing = is_held(self.parts[-1])
        if self._cursor is not None:
            self._cursor.parts = self.parts
        if grown:
            self.ends_at = max(self.ends_at, self._last_moment())
        learned = self._known.look(sum(sizes), growing=self.growing)
        if learned and not self._known.plain:
            self.ends_at = max(self.begins_at, self._known.at)
        if learned and self.approximate and self._known.at >= self.at:
            self.seek(self.at)
        return grown or learned

    def _last_moment(self) -> float:
        for part in reversed(self.parts):
            with contextlib.suppress(UsageError):
                last = last_event(part)
                if last is not None:
                    return last.at
        return self.begins_at

    def _measured(self) -> tuple[int, ...]:
        sizes = []
        for part in self.parts:
            with contextlib.suppress(OSError):
                sizes.append(part.stat().st_size)
        return tuple(sizes)

    # --- One moment of it ------------------------------------------------------------------------------------------

    def seek(self, at: float) -> None:
        """Go to that moment. Raises: UsageError: the journal can't be read any more."""
        at = max(at, self.begins_at)
        with self._reading(), gc_paused():
            start = self._known.start_before(at)
            if not self._may_go_on(at, start):
                self._begin(start)
            self._fold(at, None)

    def advance(self, to_at: float, budget_s: float) -> float:
        """Go on to that moment, but work no longer than about so many seconds. Returns the moment reached.

        Raises: UsageError: the journal can't be read any more.
        """
        if to_at < self.at:
            self.seek(to_at)
            return self.at
        with self._reading():
            self._fold(to_at, self._clock() + budget_s)
        return self.at

    def _reading(self) -> contextlib.AbstractContextManager[None]:
        return readable(self._path, " any more")

    def _may_go_on(self, at: float, start: Start) -> bool:
        """Return whether folding can go on from the present world rather than from this start."""
        if self._cursor is None or at < self.at or (self.approximate and start.exact):
            return False
        here = self._cursor.place
        return (here.part, here.offset) >= (start.place.part, start.place.offset)

    def _begin(self, start: Start) -> None:
        world = world_of(self.began, self._price)
        if start.state is not None:
            world.restore(start.state)
        cursor = Cursor(self.parts, self.began, start.place, Damage())
        if self._cursor is not None:
            self._cursor.close()
        self.world.release()
        self.world, self.approximate = world, not start.exact
        self._cursor, self._events, self._next = cursor, cursor.to_end(), None
        self.at = self.begins_at

    def _fold(self, to_at: float, until: float | None) -> None:
        """Apply events up to a moment, as far as there is time."""
        apply, event = self.world.apply, self._next or self._following()
        left = _LOOKS
        while event is not None and event.at <= to_at:
            at = event.at
            try:
                apply(event)
            except MALFORMED:
                self._found.bad_lines += 1
            event = next(self._events, None)
            left -= 1
            if not left:
                left = _LOOKS
                if until is not None and self._clock() >= until and event is not None:
                    if event.at > at:
                        self._next, self.at = event, max(self.at, min(at, to_at))
                        return
                    left = 1  # a moment is reached with all its events
        self._next, self.at = event, max(self.at, to_at)

    def _following(self) -> ev.Event | None:
        """Return the next event, if more was written since the last look."""
        if self._cursor is None:
            return None
        self._events = self._cursor.to_end()
        return next(self._events, None)

    # --- One request ---------------------------------------------------------------------------------------------

    def with_heads(self, detail: RequestDetail) -> RequestDetail:
        """Return the detail with method, path and headers, credentials masked, as far as they were recorded by then.

        For a thread: it reads a few pieces of the files.
        """
        view = detail.view
        with contextlib.suppress(OSError):
            request = self._line(view.arrived_at, "RequestBody", view.ticket)
            if isinstance(request, RequestBody):
                detail = replace(detail, method=request.method, path=request.path, request_headers=request.headers)
            over = [attempt for attempt in view.attempts if attempt.ended_at is not None]
            if over and over[-1].ended_at is not None:
                number = b'"attempt":%d,' % over[-1].number
                answer = self._line(over[-1].ended_at, "ResponseBody", view.ticket, number)
                if isinstance(answer, ResponseBody):
                    detail = replace(detail, response_headers=answer.headers)
        return detail

    def _line(self, at: float, kind: str, ticket: int, more: bytes = b"") -> ev.Event | None:
        """Return the event of that kind about this request, recorded at about this moment. Raises: OSError."""
        parts = self.parts
        part, offset = self._known.line_near(at - _BEFORE_S)
        wanted = re.compile(rb'\{"v":\d+,"event":"%b","at":[^,]+,"ticket":%d,%b' % (kind.encode(), ticket, more))
        for line in _lines(parts[part:], offset):
            if wanted.match(line):
                return event_if_any(line)
            if (moment_of(line[:256]) or at) > at + _AFTER_S:
                return None
        return None


def _lines(parts: tuple[Path, ...], offset: int) -> Iterator[bytes]:
    left = _MOST_BYTES
    for part in parts:
        with part.open("rb") as file:
            file.seek(offset)
            offset = 0
            while left > 0 and (line := file.readline(LONGEST_LINE)):
                left -= len(line)
                yield line
