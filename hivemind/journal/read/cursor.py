"""A place in a journal, and reading on from it: the parts as one long file, of which more may be written meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hivemind.journal.codec import BadLine, Unknown, event_of
from hivemind.journal.read.damage import Damage, EventOrder, OrderState
from hivemind.journal.read.reader import LONGEST_LINE, read_events
from hivemind.journal.records import JournalBegan, RequestBody, ResponseBody
from hivemind.journal.write.segment import being_written
from hivemind.scheduler.events import Event
from hivemind.world.request_view import RequestDetail

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


_SINCE_S, _UNTIL_S = 0.05, 5.0
"""How far from its moment a line may be: bodies are written down beside what they belong to, not in one go with it."""
_MOST_BYTES = 64 << 20
"""That are looked through for one line."""
Near = Callable[[float], tuple[int, int]]
"""For a moment a part, and a byte of it, not far behind which what happened then is told."""


def with_heads(detail: RequestDetail, parts: tuple[Path, ...], near: Near) -> RequestDetail:
    """The same with method, path and headers, credentials masked, as far as they were recorded by then.

    Takes as long as reading a few pieces of the files does. Raises: OSError: one can't be read.
    """
    view = detail.view
    asked = _line(parts, near, view.arrived_at, "RequestBody", view.ticket)
    if isinstance(asked, RequestBody):
        detail = replace(detail, method=asked.method, path=asked.path, request_headers=asked.headers)
    over = [attempt for attempt in view.attempts if attempt.ended_at is not None]
    if over and over[-1].ended_at is not None:
        number = over[-1].number
        answer = _line(parts, near, over[-1].ended_at, "ResponseBody", view.ticket, b'"attempt":%d,' % number)
        if isinstance(answer, ResponseBody):
            detail = replace(detail, response_headers=answer.headers)
    return detail


def _line(parts: tuple[Path, ...], near: Near, at: float, kind: str, ticket: int, more: bytes = b"") -> Event | None:
    """The line of that kind about this request."""
    part, offset = near(at - _SINCE_S)
    wanted = re.compile(rb'\{"v":\d+,"event":"%b","at":[^,]+,"ticket":%d,%b' % (kind.encode(), ticket, more))
    for line in _lines(parts[part:], offset):
        if wanted.match(line):
            try:
                return event_of(line)
            except (BadLine, Unknown):
                return None
        if (moment_of(line[:256]) or at) > at + _UNTIL_S:
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
