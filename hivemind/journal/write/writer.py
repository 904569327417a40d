"""The thread that writes a journal, so that the event loop never waits for a disk.

What waits is kept in order: lines, bodies that are still to be made into lines, and the beginnings of new parts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct

from hivemind.journal.codec import Encoded, begin_of, each_line_of, lines_of
from hivemind.journal.write.segment import Closed, JournalPart
from hivemind.store.background import BackgroundWriter
from hivemind.world.state import Capture, Carried, WorldState

_log = logging.getLogger(__name__)

RETRY_S = 1.0
CLOSE_S = 5.0
"""For what waits at the end."""
AT_ONCE = 50
"""Agents, requests or tasks encoded in one go: half a millisecond's worth."""
WORK_S, REST_S = 0.0005, 0.0003
"""The thread works so long, then yields the interpreter lock."""
_LINE_START = 32
"""About how many bytes a line's beginning has."""
_STATE_LEAST, _STATE_VALUE, _STATE_TICKET = 10_000, 40, 1_500
"""About how many bytes of memory a state takes, each value of an agent or task in it, and each request."""
_STATE_FIELDS = WorldState.__struct_fields__
_encode = msgspec.json.Encoder().encode


class DeferredLines(Struct, frozen=True):
    """Lines that the thread is still to make."""

    make: Callable[[], bytes]
    """Called in the thread."""
    weight: int
    """Bytes of memory held until then."""
    lines: int = 1


class NewPart(Struct, frozen=True):
    """The lines that follow go to another file."""

    path: Path
    head: bytes
    """Its first lines."""


Item = bytes | DeferredLines | NewPart


class Writer(BackgroundWriter[Item]):
    """Writes to `part` first. `open_part` makes the parts that follow; `tidy` is called in the thread with the path of
    each of them once it is there."""

    def __init__(
        self,
        part: JournalPart,
        *,
        tidy: Callable[[Path], object],
        open_part: Callable[[Path], JournalPart] = JournalPart,
        retry_s: float = RETRY_S,
    ) -> None:
        super().__init__("hivemind-journal", retry_s)
        self.written = 0
        """Bytes that are in files."""
        self._part = part
        self._open_part = open_part
        self._tidy = tidy
        self.start()

    @property
    def path(self) -> Path:
        """The part that is being written."""
        return self._part.path

    @property
    def closed(self) -> bool:
        """The file takes nothing more, so that a new part is needed to go on, and none is to be begun next."""
        with self._changed:
            return isinstance(self.error, Closed) and not (self._items and isinstance(self._items[0], NewPart))

    def skip_to_part(self) -> int | None:
        """Forget what waits before a new part that waits already. Return how many lines that were; None: none waits."""
        with self._changed:
            before = next((at for at, item in enumerate(self._items) if isinstance(item, NewPart)), None)
            if before is None:
                return None
            skipped = [self._items.popleft() for _ in range(before)]
            self.waiting -= sum(map(self.size, skipped))
            self._changed.notify()
        return sum(map(_count, skipped))

    def give_up(self) -> int:
        """Forget all that waits. Return how many lines that were."""
        return sum(map(_count, self.take_waiting()))

    def close(self) -> int:
        """Write what is left. Blocks, for some seconds at most. Return how many lines couldn't be written."""
        self.join(CLOSE_S)
        return self.give_up()

    def size(self, item: Item) -> int:
        """Return the bytes of memory that the item takes."""
        if isinstance(item, DeferredLines):
            return item.weight
        return len(item.head if isinstance(item, NewPart) else item)

    def can_retry_at_once(self, first: Item) -> bool:
        """Return whether the file takes nothing more, but what comes next is another one."""
        return isinstance(self.error, Closed) and isinstance(first, NewPart)

    # --- In the thread --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Remove old journals."""
        self._remove_old()

    def finish(self) -> None:
        """Close the file after the last write."""
        self._part.close()

    def write(self, item: Item) -> tuple[Item | None, Exception | None]:
        """Write lines, or begin a part."""
        if isinstance(item, NewPart):
            try:
                part = self._open_part(item.path)
            except OSError as error:
                return item, error
            self._part.close()
            self._part = part
            self._remove_old()
            lines = item.head
        else:
            lines = item if isinstance(item, bytes) else _made(item)
        done, stopped = self._part.append(lines)
        self.written += done
        return (None if done == len(lines) else lines[done:]), stopped

    def _remove_old(self) -> None:
        try:
            self._tidy(self._part.path)
        except Exception:  # whatever it is: writing goes on
            _log.exception("old journals can't be looked after")


def _made(item: DeferredLines) -> bytes:
    try:
        return item.make()
    except Exception:  # whatever it is: the lines after it are written all the same
        _log.exception("a body can't be written down")
        return b""


def _count(item: Item) -> int:
    """Return how many lines the item has; a new part's head is no loss."""
    if isinstance(item, DeferredLines):
        return item.lines
    return item.count(b"\n") if isinstance(item, bytes) else 0


# --- Events with lines between them -----------------------------------------------------------------------------------


class LineBatch(Struct, frozen=True):
    """Some events in order, encoded on the loop."""

    events: Encoded
    between: Sequence[tuple[int, DeferredLines]] = ()
    """Each with how many of the events stand before it."""

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.events[0]) + len(self.between)

    @property
    def weight(self) -> int:
        """About how many bytes of memory it takes."""
        kinds, values = self.events
        return len(values) + _LINE_START * len(kinds) + sum(each.weight for _, each in self.between)


def let_others() -> None:
    """Let other threads run."""
    time.sleep(REST_S)


def joined(batches: Sequence[LineBatch]) -> bytes:
    """Return the lines of all batches. Takes long with many lines between events; call it in a thread."""
    lines: list[bytes] = []
    begun = time.monotonic()
    for batch in batches:
        if not batch.between:
            lines.append(lines_of(batch.events))
            continue
        done, plain = 0, each_line_of(batch.events)
        for place, deferred in batch.between:
            lines += plain[done:place]
            lines.append(_made(deferred))
            done = place
            if time.monotonic() - begun > WORK_S:
                let_others()
                begun = time.monotonic()
        lines += plain[done:]
    return b"".join(lines)


# --- The state of the world -------------------------------------------------------------------------------------------


def weight_of(taken: Capture) -> int:
    """About how many bytes of memory a state takes until it is written."""
    values = len(taken.agents) + len(taken.tasks)
    return _STATE_LEAST + _STATE_VALUE * values + _STATE_TICKET * len(taken.rest.tickets)


def carried_line(at: float, taken: Capture, rest: Callable[[], object]) -> bytes:
    """The line of a :class:`~hivemind.world.state.Carried`, made in pieces, because with many agents and tasks encoding
    holds the interpreter for long; `rest` is called between pieces."""
    made = {
        "agents": _array(taken.agent_states(), rest),
        "tickets": _array(iter(taken.rest.tickets), rest),
        "tasks": _array(taken.task_records(), rest),
    }
    state = {name: made.get(name, getattr(taken.rest, name)) for name in _STATE_FIELDS}
    return begin_of(Carried) + _encode({"at": at, "state": state})[1:] + b"\n"


def _array(values: Iterator[object], rest: Callable[[], object]) -> msgspec.Raw:
    pieces = []
    while some := list(islice(values, AT_ONCE)):
        pieces.append(_encode(some)[1:-1])
        rest()
    return msgspec.Raw(b"[" + b",".join(pieces) + b"]")
