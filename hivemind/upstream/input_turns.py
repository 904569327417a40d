"""Input that is parsed a little in each turn of the event loop.

A read brings up to 256 KiB. In chunks of one byte, that is 40,000 calls of a parser's callbacks, which would hold the
loop for 40 ms, again and again with a peer that goes on so. So what has many small parts is parsed in slices, and its
connection isn't read meanwhile. All connections of a loop share what a turn may take, and come one after the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol
from weakref import WeakKeyDictionary

SLICE = 8 << 10
"""Bytes that are parsed at once where nothing is known of them: 1,400 chunks of one byte, a millisecond's work."""
TURN_PARTS = 1_000
"""Parts after which a turn is over."""
_ORDINARY_PARTS = 64
"""A slice with fewer parts costs nothing worth counting."""
_SHORT = 1 << 10
"""Input that is parsed even in a turn that is over: a short request shouldn't wait for others' long ones."""

_NOTHING = memoryview(b"")


class InputReader(Protocol):
    """A connection whose input is parsed."""

    backlog: memoryview
    """What has come and isn't parsed."""
    parts: int
    """Parts that the parser has found so far: chunks, messages, trailer lines."""

    def parse(self, data: bytes | memoryview, *, last: bool) -> None:
        """Parse the next bytes; the `last` that have come."""

    def unsplit(self) -> int:
        """Return how many of the next bytes surely are one part."""

    def backlog_changed(self) -> None:
        """Read no more from the connection while there is a backlog, and read on afterwards."""

    def abort(self) -> None:
        """Close the connection at once."""


class InputTurns:
    """Divides one loop's turns among the connections that have much to parse."""

    def __init__(self) -> None:
        self._waiting: deque[InputReader] = deque()
        self._parts = 0
        """Those of this turn, beyond ordinary ones."""
        self._begins = False
        """The next turn is set to begin."""

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> InputTurns:
        """Return those of a loop."""
        turns = _turns.get(loop)
        if turns is None:
            turns = _turns[loop] = cls()
        return turns

    def read(self, reader: InputReader, data: bytes) -> None:
        """Have a reader parse what has come, at once or in the next turns."""
        if reader.backlog:  # TLS had decrypted more before it was paused
            reader.backlog = memoryview(b"".join((reader.backlog, data)))
            return
        size = len(data)
        if size <= (_SHORT if self._parts >= TURN_PARTS else SLICE):
            before = reader.parts
            reader.parse(data, last=True)
            if reader.parts - before > _ORDINARY_PARTS:
                self._count(reader.parts - before)
            return
        rest = memoryview(data) if self._parts >= TURN_PARTS else self._parse(reader, memoryview(data))
        if rest:
            reader.backlog = rest
            reader.backlog_changed()
            self._waiting.append(reader)
            self._count(0)

    def _parse(self, reader: InputReader, data: memoryview) -> memoryview:
        """Parse until the turn is over. Return the rest."""
        while data:
            before, size = reader.parts, max(SLICE, reader.unsplit())
            part, data = data[:size], data[size:]
            reader.parse(part, last=not data)
            if reader.parts - before > _ORDINARY_PARTS:
                self._count(reader.parts - before)
                if self._parts >= TURN_PARTS:
                    break
        return data

    def _count(self, parts: int) -> None:
        self._parts += parts
        if not self._begins:
            self._begins = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn, with those that wait the longest."""
        self._begins, self._parts = False, 0
        for _ in range(len(self._waiting)):
            reader = self._waiting.popleft()
            try:
                backlog = self._parse(reader, reader.backlog)
            except BaseException:
                reader.backlog = _NOTHING
                reader.abort()
                self._count(0)  # the others go on
                raise
            # It is dropped where the connection has ended.
            reader.backlog = backlog if reader.backlog else _NOTHING
            if reader.backlog:
                self._waiting.append(reader)
            else:
                reader.backlog_changed()
            if self._parts >= TURN_PARTS:
                break
        if self._waiting:
            self._count(0)


_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, InputTurns] = WeakKeyDictionary()
