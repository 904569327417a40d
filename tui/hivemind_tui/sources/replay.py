"""A recording as something to watch: the third source, and the clock that it is played by.

One task moves it on, in pieces that hold the loop for some milliseconds at most: a second at 64 times the speed may
hold a hundred thousand events, each of which is folded, though not each is drawn.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.scheduler.commands import Command, Rejected
from hivemind.settings.write import Draft
from hivemind.world.request_view import RequestDetail, Requests
from hivemind.world.snapshot import Snapshot
from hivemind.world.world import World
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Link
from hivemind_tui.sources.playback import KINDS, READ_ONLY, Column, Marked, Playback
from hivemind_tui.sources.player import Player
from hivemind_tui.sources.transport import Transport

_PIECE_S = 0.004
"""The longest that the loop is held at once."""
_TURN_S = 1 / 30
"""Between two looks at the clock."""
_LOOK_EVERY_S = 0.5
"""At whether more was written, or read through."""
_COLUMNS = 480
"""Of the timeline, more than a screen has."""
_PLACES = 1000
"""On the timeline, of which no screen shows more."""
_HERE_S = 1e-6
_NOTE_S = 4.0
"""What was come upon is told for so long while it plays on."""


class ReplaySource:
    """A :class:`~hivemind_tui.sources.base.Source` over a recording; :meth:`run` moves it on. Nothing steers it."""

    def __init__(self, player: Player, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = Link("replay", name)
        self.journal: Path | None = None
        """Its first file, for who wants to simulate it; None: it isn't in any."""
        self.transport = Transport(player.begins_at, player.ends_at)
        self.kinds = frozenset(KINDS)
        """Of marks that are wanted."""
        self.moved: Callable[[], None] = lambda: None
        """Called when another moment is shown that nobody waited for by playing."""
        self._player = player
        self._name = name
        self._clock = clock
        self._seeking: float | None = None
        self._shown_at = player.begins_at
        self._snapshot: Snapshot | None = None
        self._followed: World | None = None
        self._marks: list[Marked] = []
        self._apart: Sequence[Marked] = ()
        self._columns: Sequence[Column | None] = ()
        self._looked_s = 0.0
        self._following = False
        self._until: Marked | None = None
        """Where it stops again by itself."""
        self._heads: tuple[tuple[int, int], RequestDetail] | None = None
        """What was last read of one request, and by which of its answers."""
        self._note = self._note_kind = ""
        self._noted_s = 0.0
        self._trouble = ""
        """Why it can't be read any more."""
        self._wake = asyncio.Event()
        player.seek(player.begins_at)
        self._survey()

    # --- As a source -----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """The world at the moment shown; made once for each."""
        if self._snapshot is None:
            self._snapshot = recounted(self._player.world.snapshot(self._shown_at))
        return self._snapshot

    def requests(self, since: int) -> Requests:
        """As :meth:`~.base.Source.requests`; in a world of another moment all that was known is void."""
        world = self._player.world
        if world is not self._followed:
            self._followed = world
            if since:
                return Requests(-1, 0, ())
        return world.requests(since, self._shown_at)

    async def detail(self, ticket: int) -> RequestDetail | None:
        """All that the recording told of it by now; its headers are looked for where bodies were recorded."""
        detail = self._player.world.detail(ticket, self._shown_at)
        if detail is None or not self._player.bodies:
            return detail
        key = ticket, sum(attempt.ended_at is not None for attempt in detail.view.attempts)
        if self._heads is None or self._heads[0] != key:
            self._heads = key, await asyncio.to_thread(self._player.with_heads, detail)
        found = self._heads[1]
        return replace(
            detail,
            method=found.method,
            path=found.path,
            request_headers=found.request_headers,
            response_headers=found.response_headers,
        )

    async def apply(self, command: Command, who: str) -> None:
        """Raises: Rejected: always."""
        raise Rejected(READ_ONLY)

    async def draft(self, values: Mapping[str, float]) -> Draft:
        """Raises: Rejected: always."""
        raise Rejected(READ_ONLY)

    async def write(self, draft: Draft) -> None:
        """Raises: Rejected: always."""
        raise Rejected(READ_ONLY)

    # --- As a recording --------------------------------------------------------------------------------------------

    def playback(self) -> Playback:
        """How it stands."""
        transport, player = self.transport, self._player
        return Playback(
            name=self._name,
            begins_at=transport.begins_at,
            ends_at=transport.ends_at,
            at=transport.at if self._seeking is None else self._seeking,
            wall_offset_s=player.wall_offset_s,
            speed=transport.speed,
            playing=transport.playing,
            following=self._following and player.growing,
            growing=player.growing,
            loop_from=transport.loop_from,
            loop_to=transport.loop_to,
            marks=self._apart,
            mark_count=len(self._marks),
            columns=self._columns,
            known_to=player.known_to,
            approximate=player.approximate,
            damage=(*([self._trouble] if self._trouble else []), *player.damage),
            note=self._note,
            note_kind=self._note_kind,
        )

    def play(self) -> bool:
        """Play on, or stop; answers whether it plays. At the end of one being written it is followed."""
        transport = self.transport
        self._tell("")
        self._until = None
        if transport.playing or self._following:
            transport.stop()
            self._following = False
            return False
        if transport.at_end and self._player.growing:
            self.follow()
            return False
        before = transport.at
        transport.play()
        if transport.at != before:
            self._seek(transport.at)
        self._wake.set()
        return transport.playing

    def go(self, at: float, note: str = "", kind: str = "") -> None:
        """To another moment, with what is to be told of it."""
        self._tell(note, kind)
        self._following = False
        self._until = None
        self._seek(self.transport.go(at))

    def follow(self) -> None:
        """To the end, and on with it where it is still being written."""
        self.go(self.transport.ends_at)
        self._following = self._player.growing
        if self._following:
            self.transport.stop()

    def play_to_mark(self) -> bool:
        """Play on to the next mark of the kinds that are wanted, and stop there; False: there is none."""
        found = self.mark(1)
        if found is None:
            return False
        if not self.transport.playing:
            self.play()
        self._until = found
        return True

    def mark(self, step: int) -> Marked | None:
        """The next mark (or, negative, the one before) of the kinds that are wanted; None: there is none."""
        at = self.transport.at
        marks = self._marks
        index = (
            bisect_right(marks, at + _HERE_S, key=_at) if step > 0 else bisect_left(marks, at - _HERE_S, key=_at) - 1
        )
        return marks[index] if 0 <= index < len(marks) else None

    def event(self, step: int) -> bool:
        """To the next thing that happened, or the one before; False where there is none."""
        player, at = self._player, self.transport.at
        try:
            found = player.event_after(at) if step > 0 else player.event_before(at)
        except UsageError as error:
            self._trouble, found = _cause(error), None
        if found is None:
            return False
        self.transport.stop()
        self.go(*found)
        return True

    def counts(self) -> Mapping[str, int]:
        """How many marks of each kind there are, wanted or not."""
        return Counter(mark.kind for mark in self._player.marks)

    def want(self, kinds: frozenset[str]) -> None:
        """Marks of these kinds alone."""
        self.kinds = kinds
        self._survey()

    # --- Moving on -------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Move it on, for ever."""
        while True:
            busy = self.turn()
            self._wake.clear()
            if busy:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(_TURN_S if self.transport.playing else _LOOK_EVERY_S):
                    await self._wake.wait()
            except TimeoutError:
                continue

    def turn(self) -> bool:
        """One piece of the work; True where more is to be done at once."""
        try:
            return self._turn()
        except UsageError as error:
            # The file is gone, or its disk: what was read of it stays.
            self.transport.stop()
            before, self._trouble = self._trouble, _cause(error)
            if self._trouble != before:
                self.moved()
            return False

    def _turn(self) -> bool:
        now_s, transport, player = self._clock(), self.transport, self._player
        if now_s - self._looked_s >= _LOOK_EVERY_S:
            self._looked_s = now_s
            self._look()
        if self._seeking is not None:
            at, self._seeking = self._seeking, None
            player.seek(at)
            transport.at = at
            self._show(at)
            transport.tick(self._clock())
            self.moved()
            return True
        before = self._shown_at
        target = transport.tick(now_s)
        until = self._until
        if until is not None and before < until.at <= target:
            target = transport.go(until.at)
        if self._note and transport.playing and now_s >= self._noted_s + _NOTE_S:
            self._tell("")
        if target < before:
            self._seek(target)
            return True
        if target == before:
            return False
        reached = player.advance(target, _PIECE_S)
        if reached < target and transport.playing:
            transport.fell_behind(reached)
        self._show(reached)
        if until is not None and until.at <= reached:
            transport.stop()
            self._until = None
            self._tell(text_of_mark(until), until.kind)
            self.moved()
        elif transport.at_end:
            transport.stop()
            self._following = player.growing
            self.moved()
        return reached < target

    def _look(self) -> None:
        """At what was written or read through meanwhile."""
        player, transport = self._player, self.transport
        if not player.look():
            return
        self._snapshot = None  # what was about is exact now, maybe
        transport.reaches(player.ends_at)
        self._survey()
        if self._following:
            transport.go(transport.ends_at)
        self.moved()

    def _survey(self) -> None:
        self._marks = [mark for mark in self._player.marks if mark.kind in self.kinds or mark.kind not in KINDS]
        self._apart = _distinct(self._marks, (self.transport.ends_at - self.transport.begins_at) / _PLACES)
        self._columns = self._player.overview(_COLUMNS)

    def _seek(self, at: float) -> None:
        """The newest wish counts: a mouse that is dragged along makes more of them than can be met."""
        self._seeking = at
        self._wake.set()

    def _show(self, at: float) -> None:
        self._shown_at = at
        self._snapshot = None

    def _tell(self, note: str, kind: str = "") -> None:
        self._note, self._note_kind, self._noted_s = note, kind, self._clock()


def recounted(snapshot: Snapshot) -> Snapshot:
    """With as many requests in flight and waiting as there are: gauges were taken once a second, all else is exact."""
    flying = Counter(ticket.lane for ticket in snapshot.slots)
    known = len(snapshot.queue) == snapshot.queued
    states = Counter((ticket.lane, ticket.state) for ticket in snapshot.queue)
    lanes = []
    for lane in snapshot.lanes:
        key, state = lane.state.lane, replace(lane.state, active=flying[lane.state.lane])
        if known:
            state = replace(state, waiting=states[key, "queued"], retrying=states[key, "retry"])
        lanes.append(replace(lane, state=state))
    return replace(snapshot, lanes=tuple(lanes))


def text_of_mark(mark: Marked) -> str:
    """What it is of, with who it is about, for people."""
    return clean(f"{mark.who}: {mark.text}" if mark.who else mark.text)


def _cause(error: UsageError) -> str:
    """Without the file's path, which the screen names already."""
    return str(error).rpartition(": ")[2]


def _at(mark: Marked) -> float:
    return mark.at


def _distinct(marks: Sequence[Marked], place_s: float) -> Sequence[Marked]:
    """One of each kind a place."""
    if place_s <= 0:
        return marks
    seen: dict[tuple[int, str], Marked] = {}
    for mark in marks:
        seen.setdefault((int(mark.at / place_s), mark.kind), mark)
    return [*seen.values()]
