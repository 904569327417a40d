"""The pass over a journal that makes its index: `python -m hivemind.journal.index.builder JOURNAL INDEX`.

A process of its own, because it takes seconds for a large journal and would hold whatever else its process does. It
adds to the index as it goes, so that its beginning can be used soon; while the journal is being written it goes on
with it, for as long as the process lives that started it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import secrets
import sys
import time
from collections.abc import Callable
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.codec import BEGUN
from hivemind.journal.files import parts_from
from hivemind.journal.index.activity import COUNTED, MARKED, Marker, Seconds
from hivemind.journal.index.index import Block, IndexWriter, Stale, header_of, open_index, seen_at
from hivemind.journal.read.cursor import Cursor
from hivemind.journal.read.reader import Journal, open_journal
from hivemind.journal.records import JournalBegan
from hivemind.prices import prices_at
from hivemind.scheduler.types import Price
from hivemind.store.locks import is_held
from hivemind.world.world import World

EVENTS_APART = 5000
BYTES_APART = 1 << 20
"""Between two worlds that are kept, whichever is reached first; more where a world is large."""
_LOOKED_EVERY = 200
"""Events between two checks whether that is so."""
_SHARE = 24
"""Bytes of the journal for one of an index's world, at least."""
FOLLOWED_S = 5.0
"""Of a journal that is being written make a block, even where nothing is worth a mark in it."""
_FOLLOW_S = 0.5
"""Between two looks at a journal that is being written."""
MALFORMED = (KeyError, TypeError, ValueError, AttributeError, OverflowError)
"""What a world may raise for an event that HiveMind never writes; it is left out."""


class Pass:
    """One indexing of a journal, from some place to its end."""

    def __init__(self, journal: Journal, index: IndexWriter, last: Block | None, world: World) -> None:
        """`world` stands as it did at the last block's end. Raises: OSError: the journal can't be read."""
        self._index = index
        self._world = world
        self._damage = journal.known_damage() if last is None else last.damage
        self._cursor = Cursor(journal.parts, journal.began, None if last is None else last.place, self._damage)
        self._marker = Marker(world, foreign=journal.began.foreign)
        self._seconds = Seconds(world, journal.began.at)
        self._at = journal.began.at if last is None else last.at
        self._noted_at = self._at
        self._packed = self._since_world = 0
        """Bytes of the last world, and of the journal since."""
        self._begun, self._count = self._cursor.offset, 0
        """Where the block begins, and how many events are in it."""

    def close(self) -> None:
        """Let go of the journal."""
        self._cursor.close()

    def run(self, parts: tuple[Path, ...], *, following: bool = False) -> None:
        """Read what there is in these files, and note it; where more is to come, the last bit only if it's worth it.

        Raises: OSError.
        """
        self._cursor.parts = parts
        while True:
            self._read()
            news = bool(self._marker.found) or self._at - self._noted_at >= FOLLOWED_S
            self._note(last=news or not following or self._cursor.part + 1 < len(parts))
            if not self._cursor.turn():
                return
            self._begun = 0

    def _read(self) -> None:
        apply, seconds, marker, cursor = self._world.apply, self._seconds, self._marker, self._cursor
        latest, count, due = self._at, self._count, self._count + _LOOKED_EVERY
        for event in cursor.events():
            at = event.at
            if at >= seconds.closes_at:
                seconds.close(at)
            try:
                apply(event)
            except MALFORMED:
                self._damage.bad_lines += 1
            if type(event) in COUNTED:
                seconds.count(event)
            if type(event) in MARKED:
                marker.note(event)
            if at > latest:
                latest = at
            count += 1
            if count >= due and type(event) not in BEGUN:  # a place is the end of a line
                self._at, self._count = latest, count
                count, due = self._note()
        self._at, self._count = latest, count

    def _note(self, *, last: bool = False) -> tuple[int, int]:
        """A block, if it is time for one, or the last in sight. Returns how many events are in the next one, and how
        many there are to be before it is looked again."""
        cursor = self._cursor
        bytes_ = cursor.offset - self._begun
        since = self._since_world + bytes_
        enough = self._count >= EVENTS_APART or since >= BYTES_APART
        due = enough and since >= _SHARE * self._packed
        if not bytes_ or not (due or last):
            return self._count, self._count + _LOOKED_EVERY
        block = Block(
            place=cursor.place,
            at=self._at,
            events=self._count,
            bytes=bytes_,
            seen=seen_at(cursor.parts[cursor.part], cursor.offset),
            damage=self._damage,
            marks=self._marker.take(),
            rows=self._seconds.take(),
        )
        packed = self._index.add(block, self._world.keep(self._at) if due else None)
        self._packed, self._since_world = (packed, 0) if due else (self._packed, since)
        self._begun, self._count, self._noted_at = cursor.offset, 0, self._at
        return 0, _LOOKED_EVERY


def world_of(began: JournalBegan, price: Price | None) -> World:
    """Return the world as it stood when the journal began."""
    return World(
        at=began.at,
        wall=began.wall,
        address=began.address,
        upstreams=began.upstreams,
        price=price,
        alert_limits=began.alert_limits,
    )


def build(path: Path, index: Path, *, priced: bool, goes_on: Callable[[], bool] = lambda: False) -> None:
    """Make the index of the journal with this first part, or bring it up to date.

    While the journal is being written, it is followed for as long as `goes_on` says so, which may take its time.

    Raises: UsageError, OSError: the journal can't be read, or the index not written; BlockingIOError: another
    process makes it.
    """
    journal = open_journal(path)
    with contextlib.closing(IndexWriter(index)) as writer:
        world = world_of(journal.began, prices_at(journal.began.wall) if priced else None)
        last = _gone_on_from(journal, index, writer, world, priced)
        work = Pass(journal, writer, last, world)
        with contextlib.closing(work):
            work.run(journal.parts)
            while is_held(parts_from(journal.path, journal.began)[-1]) and goes_on():
                work.run(parts_from(journal.path, journal.began), following=True)
            work.run(parts_from(journal.path, journal.began))


def _gone_on_from(journal: Journal, path: Path, writer: IndexWriter, world: World, priced: bool) -> Block | None:
    """The last block of an index that still fits, of which the world is restored; None: it is begun anew."""
    of = header_of(journal.path, priced=priced, nonce=secrets.token_bytes(8))
    with contextlib.suppress(Stale):
        reader, blocks = open_index(path, of, journal.parts)
        with contextlib.closing(reader):
            last = next((stored for stored in reversed(blocks) if stored.length), None)
            if last is not None:
                world.restore(reader.world(last))
                writer.cut(last.offset + last.length)
                return last.block
    writer.begin(of)
    return None


def main() -> int:
    """The process; its exit code is 1 where the index can't be made, which the player does without."""
    path, index, priced = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "priced"
    starter = os.getppid()
    os.nice(10)
    gc.set_threshold(200_000, 20, 100)  # next to nothing of what is made refers to itself

    def goes_on() -> bool:
        time.sleep(_FOLLOW_S)
        return os.getppid() == starter

    try:
        build(path, index, priced=priced, goes_on=goes_on)
    except BlockingIOError:
        return 0
    except (UsageError, OSError):
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
