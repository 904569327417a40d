"""A recording as a source, and the clock that plays it.

One task advances it in pieces that hold the loop for some milliseconds at most: a second at 64 times the speed may hold
a hundred thousand events, each of which is applied, though not each is drawn.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.errors import UsageError
from hivemind.journal.read.older import OlderLines, older_lines
from hivemind.records import replace
from hivemind.waiting import wait_up_to
from hivemind.world.snapshot import RequestDetail, RequestView, Snapshot
from hivemind.world.world import World
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Link, RequestList, Source
from hivemind_tui.sources.playback import OPENED, READ_ONLY, Playback, Transport

if TYPE_CHECKING:
    from hivemind.journal.index.activity import ActivityColumn, Mark
    from hivemind.journal.index.player import Player

_PIECE_S = 0.004
"""The longest time that the loop is held at once."""
_TURN_S = 1 / 30
"""Between two turns while it plays."""
_LOOK_EVERY_S = 0.5
"""Between two checks whether more was written or indexed."""
_COLUMNS = 480
"""Of the timeline, more than a screen has."""
_PLACES = 1000
"""Marks of one kind on the timeline that can be told apart, more than a screen has columns."""
_HERE_S = 1e-6
_NOTE_S = 4.0
"""How long a note is shown while the recording plays on."""
_AT = attrgetter("at")


class ReplaySource(Source):
    """A recording; :meth:`run` plays it. Nothing steers it."""

    link = Link("replay")
    refusal = READ_ONLY

    def __init__(self, player: Player, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.link = Link("replay", name)
        self.journal: Path | None = None
        """The journal's first file, for simulations; None: it isn't in any."""
        self.transport = Transport(player.begins_at, player.ends_at)
        self.moved: Callable[[], None] = lambda: None
        """Called when the moment shown changed by more than playing on."""
        self._player = player
        self._unknown = frozenset(filter(player.began.lacks, player.began.unknown))
        self._name = name
        self._clock = clock
        self._seeking: float | None = None
        self._shown_at = player.begins_at
        self._snapshot: Snapshot | None = None
        self._followed: World | None = None
        self._requests = RequestList()
        self._distinct_marks: Sequence[Mark] = ()
        self._columns: Sequence[ActivityColumn | None] = ()
        self._looked_s = 0.0
        self._following = False
        self._until: Mark | None = None
        """The mark at which it stops by itself."""
        self._heads: tuple[tuple[int, int], RequestDetail] | None = None
        """The last detail that was read with headers, by its number and the attempts that had ended."""
        self._note = self._note_kind = ""
        self._noted_s = 0.0
        self._trouble = ""
        """Why it can't be read any more."""
        self._wake = asyncio.Event()
        player.seek(player.begins_at)
        self._update_timeline()

    # --- As a source -----------------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Return the world at the moment shown; made once for each moment."""
        if self._snapshot is None:
            self._snapshot = recounted(self._player.world.snapshot(self._shown_at))
        return self._snapshot

    def requests(self) -> tuple[RequestView, ...]:
        world = self._player.world
        if world is not self._followed:  # a seek makes another one
            self._followed = world
            self._requests.clear()
        self._requests.update(world.requests(self._requests.revision, self._shown_at))
        return self._requests.all

    async def detail(self, ticket: int) -> RequestDetail | None:
        """Return the request as recorded up to now; with its headers where bodies were recorded."""
        detail = self._player.world.detail(ticket, self._shown_at)
        if detail is None or not self._player.bodies:
            return detail
        key = ticket, sum(attempt.ended_at is not None for attempt in detail.view.attempts)
        if self._heads is None or self._heads[0] != key:
            self._heads = key, await asyncio.to_thread(self._player.with_heads, detail)
        with_heads = self._heads[1]
        return replace(
            detail,
            method=with_heads.method,
            path=with_heads.path,
            request_headers=with_heads.request_headers,
            response_headers=with_heads.response_headers,
        )

    async def older_lines(self, before: float) -> OlderLines:
        return await asyncio.to_thread(older_lines, self._player.parts[0], before)

    # --- As a recording --------------------------------------------------------------------------------------------

    def playback(self) -> Playback:
        """Return the state of the playback now."""
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
            marks=self._distinct_marks,
            mark_count=len(player.marks),
            columns=self._columns,
            known_to=player.known_to,
            approximate=player.approximate,
            damage=(*([self._trouble] if self._trouble else []), *player.damage),
            unknown=self._unknown,
            note=self._note,
            note_kind=self._note_kind,
        )

    def play(self) -> bool:
        """Play on, or stop; return whether it plays. At the end of a recording that grows, follow it."""
        transport = self.transport
        self._set_note("")
        self._until = None
        if transport.playing or self._following:
            transport.playing = self._following = False
            return False
        if transport.at_end and self._player.growing:
            self.follow()
            return False
        before = transport.at
        transport.play()
        if transport.at != before:
            self._seek(transport.at)
        self._wake.set()
        return True

    def go(self, at: float, note: str = "", kind: str = "") -> None:
        """Go to another moment, and show a note about it."""
        self._set_note(note, kind)
        self._following = False
        self._until = None
        self._seek(self.transport.go(at))

    def follow(self) -> None:
        """Go to the end, and stay there where the recording grows."""
        self.go(self.transport.ends_at)
        self._following = self._player.growing
        if self._following:
            self.transport.playing = False

    def play_to_mark(self, kind: str) -> None:
        """Play on to the next mark of a kind, if there is one, and stop there."""
        mark = self.mark(1, kind)
        if mark is not None and not self.transport.playing:
            self.play()
        self._until = mark

    def mark(self, step: int, kind: str = "") -> Mark | None:
        """Return the next mark or, for a negative step, the one before, of that kind if one is named; None: there is
        none."""
        at, marks = self.transport.at, self.of_kind(kind) if kind else self._player.marks
        index = (
            bisect_right(marks, at + _HERE_S, key=_AT) if step > 0 else bisect_left(marks, at - _HERE_S, key=_AT) - 1
        )
        return marks[index] if 0 <= index < len(marks) else None

    def of_kind(self, kind: str) -> list[Mark]:
        """Return the marks of a kind."""
        if kind == OPENED:
            return [mark for mark in self.of_kind("circuit") if mark.text.startswith("open")]
        return [mark for mark in self._player.marks if mark.kind == kind]

    # --- Playing ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Play for ever."""
        while True:
            busy = self.turn()
            self._wake.clear()
            if busy:
                await asyncio.sleep(0)
                continue
            await wait_up_to(self._wake, _TURN_S if self.transport.playing else _LOOK_EVERY_S)

    def turn(self) -> bool:
        """Do one piece of the work; return whether there is more to do at once."""
        try:
            return self._turn()
        except UsageError as error:
            # The file or its disk is gone: what was read of it stays.
            self.transport.playing = False
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
            self._set_note("")
        if target < before:
            self._seek(target)
            return True
        if target == before:
            return False
        reached = player.advance(target, _PIECE_S)
        if reached < target and transport.playing:
            transport.at = reached  # no more events could be applied in time
        self._show(reached)
        if until is not None and until.at <= reached:
            transport.playing = False
            self._until = None
            self._set_note(text_of_mark(until), until.kind)
            self.moved()
        elif transport.at_end:
            transport.playing = False
            self._following = player.growing
            self.moved()
        return reached < target

    def _look(self) -> None:
        player, transport = self._player, self.transport
        if not player.look():
            return
        self._snapshot = None  # an approximate one may be exact now
        transport.reaches(player.ends_at)
        self._update_timeline()
        if self._following:
            transport.go(transport.ends_at)
        self.moved()

    def _update_timeline(self) -> None:
        self._distinct_marks = _distinct(
            self._player.marks, (self.transport.ends_at - self.transport.begins_at) / _PLACES
        )
        self._columns = self._player.overview(_COLUMNS)

    def _seek(self, at: float) -> None:
        """Seek in the next turn. A mouse that is dragged asks for more seeks than can be done: the newest counts."""
        self._seeking = at
        self._wake.set()

    def _show(self, at: float) -> None:
        self._shown_at = at
        self._snapshot = None

    def _set_note(self, note: str, kind: str = "") -> None:
        self._note, self._note_kind, self._noted_s = note, kind, self._clock()


def recounted(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with requests in flight and waiting counted: recorded gauges are up to a second old."""
    in_flight = Counter(ticket.lane for ticket in snapshot.slots)
    known = len(snapshot.queue) == snapshot.queued
    states = Counter((ticket.lane, ticket.state) for ticket in snapshot.queue)
    lanes = []
    for lane in snapshot.lanes:
        key, state = lane.state.lane, replace(lane.state, active=in_flight[lane.state.lane])
        if known:
            state = replace(state, waiting=states[key, "queued"], retrying=states[key, "retry"])
        lanes.append(replace(lane, state=state))
    return replace(snapshot, lanes=tuple(lanes))


def text_of_mark(mark: Mark) -> str:
    """Return what happened, with the agent or lane that it happened to."""
    return clean(f"{mark.who}: {mark.text}" if mark.who else mark.text)


def _cause(error: UsageError) -> str:
    """Return the error without the file's path, which the screen names already."""
    return str(error).rpartition(": ")[2]


def _distinct(marks: Sequence[Mark], place_s: float) -> Sequence[Mark]:
    if place_s <= 0:
        return marks
    seen: dict[tuple[int, str], Mark] = {}
    for mark in marks:
        seen.setdefault((int(mark.at / place_s), mark.kind), mark)
    return [*seen.values()]
