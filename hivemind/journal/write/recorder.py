"""What happens in a proxy, on its way into a journal.

On the event loop events are made into JSON, many at once, which costs less than a microsecond each: a thread that did
that would keep the loop from running meanwhile. The rest is done by a thread, which writes (:mod:`.writer`).

Memory is bounded: what doesn't fit because the disk is slow, full or gone is counted, and a line says so where it
would stand.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hivemind.journal.codec import encoded, line_of
from hivemind.journal.files import part_path
from hivemind.journal.records import Gap, JournalBegan, JournalEnded
from hivemind.journal.write.writer import (
    DeferredLines,
    LineBatch,
    NewPart,
    Writer,
    carried_line,
    joined,
    let_others,
    weight_of,
)
from hivemind.scheduler import events as ev
from hivemind.world.gauges import Differences
from hivemind.world.snapshot import RecordingView
from hivemind.world.state import Capture

_log = logging.getLogger(__name__)

EVERY_S = 0.1
"""Events wait no longer before they are made into JSON, while there are any."""
IDLE_S = 0.5
"""The same, after a while without any event."""
AT_ONCE = 512
"""Events that are made into JSON in one go: it takes half a millisecond, and a few at a time would cost twice that."""
HANDED_S = 0.25
"""Lines wait no longer before they are handed to the thread."""
CHUNK = 256 << 10
"""Bytes of lines that are handed over in one go: each time costs both sides a tenth of a millisecond."""
WAITING_MOST = 16 << 20
"""Bytes of lines that wait for the disk."""
SAMPLED_S = 0.95
"""Between two samples; the screen asks for many more."""
PROGRESS_S = 1.0
"""Between two reports of a stream."""
_UNWRITABLE = (TypeError, ValueError, msgspec.MsgspecError)


class RecorderLimits(Struct, frozen=True):
    """Limits of a part's size and age, and of what waits to be written."""

    max_bytes: int
    max_age_s: float
    waiting: int = WAITING_MOST


class Recorder:
    """The recorder of one proxy, on its loop.

    `began` is the first line. `take` gives how the world stands at a moment, to begin a new part with. `publish` takes
    an event: that recording fails, or goes on. `wall` is the time of day in seconds since the epoch.
    """

    def __init__(
        self,
        writer: Writer,
        began: JournalBegan,
        limits: RecorderLimits,
        *,
        take: Callable[[float], Capture],
        publish: Callable[[ev.Event], object],
        wall: Callable[[], float],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._writer = writer
        self._began = began
        self._limits = limits
        self._take = take
        self._publish = publish
        self._wall = wall
        self._path = writer.path
        self._fresh: list[ev.Event | DeferredLines] = []
        self.record: Callable[[Sequence[ev.Event]], object] = self._fresh.extend
        """Takes events; all that is done on the path of a request."""
        self._fresh_weight = 0
        """Of what is still to be made, among them."""
        self._made: list[LineBatch] = []
        self._count = self._size = 0
        """Of lines in what is made, and bytes."""
        self._first_at = began.at
        self._in_part = 0
        """Bytes, without what it began with: were that larger than a part, each would be followed at once."""
        self._part_at = began.at
        self._handed_at = began.at
        self._reported: set[int] = set()
        self._reports_from = began.at
        self._sampled_at = -math.inf
        self._gauges = Differences()
        self._gap: Gap | None = None
        """The open one, which is put into the journal once there is room again."""
        self._behind = False
        """The state hasn't been written since the last gap."""
        self._lost = 0
        self._lost_before = 0
        """Of these, what was reported."""
        self._trouble = ""
        self._unwritable: set[type] = set()
        writer.put(line_of(began))
        self._timer: asyncio.Handle = self._loop.call_later(EVERY_S, self._tick)

    def later(self, at: float, line: DeferredLines) -> None:
        """Record a line that takes long to make, about something that happened now."""
        if self._gap is None and not self.has_room(line.weight):
            self._encode_all()
            self._hand_over()
        if self._gap is None and self.has_room(line.weight):
            self._fresh.append(line)
            self._fresh_weight += line.weight
        else:
            self._drop(at, 1)

    def has_room(self, size: int, share: float = 1.0) -> bool:
        """Return whether so many more bytes may wait for the disk, within this share of the bound."""
        return self._writer.waiting + self._size + self._fresh_weight + size <= self._limits.waiting * share

    def view(self) -> RecordingView:
        """Return the recording's present view."""
        return RecordingView(str(self._path), self._writer.written, self._lost, self._trouble)

    async def aclose(self, at: float) -> None:
        """Write all that is left, and that the journal ends in good order."""
        self._timer.cancel()
        self._encode_all()
        self._hand_over(last=True)
        if self._behind:
            self._catch_up(at)
        self._writer.put(line_of(JournalEnded(at)))
        lost = await asyncio.to_thread(self._writer.close)
        if lost or self._gap is not None:
            _log.warning("the last %d lines of the journal couldn't be written to %s", lost, self._path)

    # --- What is recorded -----------------------------------------------------------------------------------------

    def _recorded(self, event: ev.Event | DeferredLines) -> ev.Event | DeferredLines | None:
        """Return what to record of the event, None for nothing: progress and samples are thinned out, and of a sample
        only what isn't known is written."""
        if type(event) is ev.Progress:
            if event.at - self._reports_from >= PROGRESS_S:
                self._reports_from = event.at
                self._reported.clear()
            if event.ticket in self._reported:
                return None
            self._reported.add(event.ticket)
        elif type(event) is ev.Sampled:
            if event.at - self._sampled_at < SAMPLED_S:
                self._gauges.take(event)
                return None
            sample = self._gauges.of(event)
            if sample is not None:
                self._sampled_at = event.at
            return sample
        return event

    def _encode_all(self) -> None:
        while self._fresh:
            self._encode_next()

    def _encode_next(self) -> None:
        taken = self._fresh[:AT_ONCE]
        del self._fresh[:AT_ONCE]
        kinds = set(map(type, taken))
        if ev.Progress in kinds or ev.Sampled in kinds:
            taken = [found for each in taken if (found := self._recorded(each)) is not None]
        events, between = _apart(taken) if DeferredLines in kinds else (cast(list[ev.Event], taken), [])
        if not taken:
            return
        if not self._made:
            self._first_at = events[0].at if events else self._loop.time()
        try:
            self._add(LineBatch(encoded(events), between))
        except _UNWRITABLE:
            for each in taken:
                self._encode_one(each)
        if self._size >= CHUNK:
            self._hand_over()

    def _encode_one(self, one: ev.Event | DeferredLines) -> None:
        try:
            self._add(
                LineBatch(encoded([]), [(0, one)]) if isinstance(one, DeferredLines) else LineBatch(encoded([one]))
            )
        except _UNWRITABLE as error:
            self._lost += 1
            self._lost_before += 1
            if type(one) not in self._unwritable:
                self._unwritable.add(type(one))
                _log.error("an event can't be written down (%s: %s)", type(one).__name__, error)

    def _add(self, batch: LineBatch) -> None:
        self._made.append(batch)
        self._count += batch.count
        self._size += batch.weight
        self._fresh_weight -= sum(later.weight for _, later in batch.between)

    # --- Towards the disk -----------------------------------------------------------------------------------------

    def _hand_over(self, *, last: bool = False) -> None:
        """Hand encoded events to the thread, or drop them if too much waits there."""
        if self._gap is not None and (last or self._writer.waiting * 2 <= self._limits.waiting):
            self._put_gap()
            self._behind = True
        if not self._made:
            return
        made, self._made, lines, self._count, size, self._size = self._made, [], self._count, 0, self._size, 0
        if self._gap is None and (last or self.has_room(size)):
            self._writer.put(DeferredLines(partial(joined, made), size, lines))
            self._in_part += size
        else:
            self._drop(self._first_at, lines)

    def _put_gap(self) -> None:
        gap, self._gap = self._gap, None
        assert gap is not None
        line = line_of(replace(gap, at=self._loop.time()))
        self._writer.put(line)
        self._in_part += len(line)

    def _drop(self, since: float, lines: int) -> None:
        error = self._writer.error
        gap = self._gap or Gap(since, since, 0, "the disk is too slow" if error is None else _reason(error))
        self._gap = replace(gap, lost=gap.lost + lines)
        self._lost += lines
        self._gauges.forget()

    def _tick(self) -> None:
        busy = bool(self._fresh)
        self._encode_next()
        if self._fresh:
            self._timer = self._loop.call_soon(self._tick)  # other callbacks run in between
            return
        self._timer = self._loop.call_later(EVERY_S if busy else IDLE_S, self._tick)
        if self._behind or self._loop.time() - self._handed_at >= HANDED_S:
            self._handed_at = self._loop.time()
            self._hand_over()
        if self._writer.closed:
            self._begin_anew()
        elif self._gap is None and self._is_due():
            self._hand_over()  # what happened by now is in what the new part begins with
            self._begin_part()
        elif self._gap is None and self._behind:
            self._catch_up(self._loop.time())
        self._report_trouble()

    def _report_trouble(self) -> None:
        """Report when writing begins to fail, and when it works again."""
        trouble = "" if self._gap is None else self._gap.why
        if self._writer.error is not None:
            trouble = _reason(self._writer.error)
        before, self._trouble = self._trouble, trouble
        if bool(before) == bool(trouble):
            return
        lost = self._lost - self._lost_before
        if trouble:
            _log.warning(
                "the journal %s can't be written (%s): traffic goes on, and what happens now may be missing in it",
                self._path,
                trouble,
            )
        else:
            _log.warning("the journal is written again to %s; %d events are missing in it", self._path, lost)
            self._lost_before = self._lost
        self._publish(ev.RecordingChanged(self._loop.time(), trouble, 0 if trouble else lost))

    # --- Parts ----------------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        too_old = self._loop.time() - self._part_at >= self._limits.max_age_s
        return self._in_part >= self._limits.max_bytes or (too_old and self._in_part > 0)

    def _catch_up(self, at: float) -> None:
        """Write the whole state after a gap: else requests that ended in it would stay open for ever."""
        carried = self._carried(at)
        self._writer.put(carried)
        self._in_part += carried.weight
        self._behind = False

    def _carried(self, at: float) -> DeferredLines:
        """Return the line with the state; with many agents the thread makes it in pieces, so that others can run."""
        taken = self._take(at)
        return DeferredLines(partial(carried_line, at, taken, let_others), weight_of(taken), 0)

    def _begin_anew(self) -> None:
        """The file takes nothing more; what waited for it is missing, though not in what the next one begins with."""
        since = self._first_at if self._gap is None else self._gap.since
        skipped = self._writer.skip_to_part()
        if skipped is not None:
            # The next part waited behind what is missing, and begins with how the world stood then.
            self._drop(since, skipped)
            self._report_trouble()
            return
        self._drop(since, self._writer.give_up() + self._count)
        self._made, self._count, self._size = [], 0, 0
        self._report_trouble()
        self._begin_part()
        self._put_gap()

    def _begin_part(self) -> None:
        at = self._loop.time()
        began = replace(self._began, at=at, wall=self._wall(), part=self._began.part + 1)
        self._began, self._path = began, part_path(self._path.parent, began.journal, began.part)
        self._writer.put(NewPart(self._path, line_of(began)))
        self._writer.put(self._carried(at))
        self._part_at, self._in_part, self._sampled_at, self._behind = at, 0, -math.inf, False
        self._gauges.forget()


def _apart(taken: Sequence[ev.Event | DeferredLines]) -> tuple[list[ev.Event], list[tuple[int, DeferredLines]]]:
    events: list[ev.Event] = []
    between: list[tuple[int, DeferredLines]] = []
    for each in taken:
        if isinstance(each, DeferredLines):
            between.append((len(events), each))
        else:
            events.append(each)
    return events, between


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or type(error).__name__
