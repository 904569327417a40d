"""Reading a journal's events from any place on: the parts as one long file, of which more may be written meanwhile.
Whatever can be read is, and what is wrong with the rest is noted."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from hivemind.journal import codec
from hivemind.journal.read.damage import LONGEST_S, Damage, EventOrder, OrderState
from hivemind.journal.records import VERSION, Gap, JournalBegan, JournalEnded, RequestBody, ResponseBody
from hivemind.scheduler.events import Event
from hivemind.store.locks import is_held

LONGEST_LINE = 128 << 20
"""Bytes: a body of 16 MiB is written, and may grow sixfold as text."""
BODIES: frozenset[type[Event]] = frozenset({RequestBody, ResponseBody})
"""Kinds that the world has no use for."""
_AT = re.compile(rb'\{"v":\d+,"event":"\w+","at":(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)[,}]')
_NEAR = 1 << 16
"""Bytes: near enough for a search by time."""
_BUFFER = 1 << 18
_PIECE = 1 << 20


class JournalPlace(Struct, frozen=True):
    """The end of a line of a journal."""

    part: int
    """Which of the files that are read, from 0."""
    offset: int
    """Bytes into it."""
    order: OrderState | None = None
    """The state of the clock there; None: unknown."""


class Cursor:
    """Reads events from a place on, but for some kinds, which saves the time of reading them."""

    def __init__(
        self,
        parts: tuple[Path, ...],
        began: JournalBegan,
        place: JournalPlace | None = None,
        damage: Damage | None = None,
        *,
        without: frozenset[type[Event]] = BODIES,
    ) -> None:
        """Begin at the first part where no place is named. Raises: OSError: the file can't be read."""
        self.parts = parts
        self.damage = Damage() if damage is None else damage
        self._without = without
        place = JournalPlace(0, 0) if place is None else place
        self.part, self.offset = place.part, place.offset
        self.order = EventOrder(began, self.damage, place.order)
        self._file: BinaryIO = parts[place.part].open("rb", buffering=_BUFFER)

    @property
    def place(self) -> JournalPlace:
        """The place behind the last event that was read."""
        return JournalPlace(self.part, self.offset, self.order.standing)

    def close(self) -> None:
        """Close the file that is being read."""
        self._file.close()

    def events(self) -> Iterator[Event]:
        """What comes next in this part, up to where nothing more is written yet; more may be asked for later.

        Raises: OSError: the file can't be read.
        """
        self._file.seek(self.offset)
        where = self.parts[self.part].name + (f" after byte {self.offset:,}" if self.offset else "")
        yield from read_events(self._lines(), where, self.damage, self.order, self._without)

    def to_end(self) -> Iterator[Event]:
        """All that comes next up to the end of the last part. Raises: OSError: the first part can't be read."""
        while True:
            try:
                yield from self.events()
            except OSError as error:
                if not self.part:
                    raise
                self._note_unread(self.part, error)
            if not self.turn():
                return

    def turn(self) -> bool:
        """Go to the beginning of the next part that can be read. Return whether there is one."""
        for number in range(self.part + 1, len(self.parts)):
            try:
                following = self.parts[number].open("rb", buffering=_BUFFER)
            except OSError as error:
                self._note_unread(number, error)
                continue
            self._file.close()
            self._file, self.part, self.offset = following, number, 0
            return True
        return False

    def _note_unread(self, part: int, error: OSError) -> None:
        self.damage.unread.append(f"{self.parts[part]}: can't be read ({error.strerror})")

    def _lines(self) -> Iterator[bytes]:
        """Whole lines; of one that is too long its beginning."""
        readline = self._file.readline
        while line := readline(LONGEST_LINE):
            if not line.endswith(b"\n"):
                if len(line) == LONGEST_LINE:
                    while (piece := readline(_PIECE)) and not piece.endswith(b"\n"):
                        self.offset += len(piece)
                    self.offset += len(piece)
                elif self.part + 1 == len(self.parts) and is_held(self.parts[self.part]):
                    return  # the rest of it may still be on its way
            self.offset += len(line)
            yield line


def read_events(
    lines: Iterable[bytes], name: str, damage: Damage, order: EventOrder, without: frozenset[type[Event]] = frozenset()
) -> Iterator[Event]:
    """The events of these lines, but for some kinds; what is wrong with the other lines is noted as damage.

    `order` corrects a clock that goes back, and a journal that begins in the midst of another.
    """
    latest, moved = order.at, order.moved
    unwanted = tuple(begin for kind in without for begin in codec.begins_of(kind))
    for number, line in enumerate(lines, 1):
        if unwanted and line.startswith(unwanted) and line.endswith(b"\n"):
            continue
        try:
            events = codec.events_of(line)
        except codec.Unknown:
            damage.newer += 1
            damage.newer_version = max(damage.newer_version, codec.version_of(line) or 0)
            continue
        except codec.Removed:
            continue
        except codec.BadLine as error:
            mended = _mended(line, error, f"line {number:,} of {name}", damage)
            if mended is None:
                continue
            events = (mended,)
        for event in events:
            kind = type(event)
            if kind is Gap:
                damage.gap(event.lost, event.why)  # type: ignore[attr-defined]  # a Gap
            elif kind is JournalEnded:
                damage.ended = True
            elif kind is JournalBegan:
                damage.newer_version = max(damage.newer_version, _newer(line))
                damage.without_effect |= dict.fromkeys(codec.settings_removed(line))
                order.at = latest
                order.begin(event, f"line {number:,} of {name}")  # type: ignore[arg-type]  # a JournalBegan
                moved = order.moved
            if moved or not 0.0 <= event.at - latest < LONGEST_S:
                order.at = latest
                put = order.put(event, f"line {number:,} of {name}")
                latest, moved = order.at, order.moved
                yield put
            else:
                latest = event.at
                yield event
    order.at = latest


def _newer(line: bytes) -> int:
    version = codec.version_of(line.removeprefix(codec.BOM).strip(b"\0")) or 0
    return version if version > VERSION else 0


def _mended(line: bytes, error: codec.BadLine, where: str, damage: Damage) -> Event | None:
    """What a bad line holds after all. Noted as damage, but for a mark that editors leave at the start of a file."""
    plain = line.removeprefix(codec.BOM)
    if not plain.strip():
        return None
    nuls = plain.startswith(b"\0") or plain.rstrip(b"\r\n").endswith(b"\0")
    event = codec.event_if_any(plain.strip(b"\0\r\n")) if nuls or plain is not line else None
    if event is not None and not nuls:
        return event
    if not nuls and len(line) < LONGEST_LINE and not line.endswith(b"\n"):
        damage.torn = True
        return None
    damage.bad_lines += 1
    cause = "holds NUL bytes, as a power loss leaves them" if nuls else str(error)
    if len(line) >= LONGEST_LINE:
        cause = f"is longer than {LONGEST_LINE >> 20} MiB"
    damage.first_bad = damage.first_bad or f"{where}, which {cause}"
    return event


# --- Searching by time ------------------------------------------------------------------------------------------------


def line_near(path: Path, at: float) -> int:
    """Return the offset of a line shortly before this moment, and not after it; 0: of the first line.

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
    """Return the offset of the first line that doesn't begin before this byte."""
    if offset <= 0:
        return 0
    file.seek(offset - 1)
    return offset - 1 + len(file.readline(LONGEST_LINE))


def moment_of(line: bytes) -> float | None:
    """The `at` of a line that begins as ours do."""
    found = _AT.match(line)
    return None if found is None else float(found[1])


def _next_moment(file: BinaryIO, offset: int, end: int) -> tuple[int, float] | None:
    """Return the offset and moment of the next line that has one; None: there is none before the end."""
    start = line_start(file, offset)
    file.seek(start)
    while start < end and (line := file.readline(LONGEST_LINE)):
        at = moment_of(line)
        if at is not None:
            return start, at
        start += len(line)
    return None
