"""The thread that writes a journal, so that the event loop never waits for a disk.

What waits is kept in order: lines, bodies that are still to be made into lines, and the beginnings of new parts.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hivemind.journal.write.segment import Closed, Part
from hivemind.store.background import BackgroundWriter

_log = logging.getLogger(__name__)

RETRY_S = 1.0
CLOSE_S = 5.0
"""For what waits at the end."""


class LineFile(Protocol):
    """What lines are written to; :class:`~hivemind.journal.write.segment.Part` but in tests."""

    path: Path

    def append(self, lines: bytes) -> tuple[int, OSError | None]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class DeferredLines:
    """Lines that the thread is still to make."""

    make: Callable[[], bytes]
    """Called in the thread."""
    weight: int
    """Bytes of memory held until then."""
    lines: int = 1


@dataclass(frozen=True, slots=True)
class NewPart:
    """The lines that follow go to another file."""

    path: Path
    head: bytes
    """Its first lines."""


Item = bytes | DeferredLines | NewPart


class Writer(BackgroundWriter[Item]):
    """Writes to `sheet` first. `open_part` makes the sheets that follow; `tidy` is called in the thread with the path
    of each of them once it is there."""

    def __init__(
        self,
        sheet: LineFile,
        *,
        tidy: Callable[[Path], object],
        open_part: Callable[[Path], LineFile] = Part,
        retry_s: float = RETRY_S,
    ) -> None:
        super().__init__("hivemind-journal", retry_s)
        self.written = 0
        """Bytes that are in files."""
        self._sheet = sheet
        self._open_part = open_part
        self._tidy = tidy
        self.start()

    @property
    def path(self) -> Path:
        """The part that is being written."""
        return self._sheet.path

    @property
    def closed(self) -> bool:
        """The file takes nothing more, so that a new part is needed to go on, and none waits to be begun."""
        with self._changed:
            return isinstance(self.error, Closed) and not any(isinstance(item, NewPart) for item in self._items)

    def give_up(self) -> int:
        """Forget all that waits. Return how many lines that were."""
        return sum(map(_lines, self.take_waiting()))

    def close(self) -> int:
        """Write what is left. Blocks, for some seconds at most. Return how many lines couldn't be written."""
        self.join(CLOSE_S)
        return self.give_up()

    def size(self, item: Item) -> int:
        """Return the bytes of memory that the item takes."""
        match item:
            case bytes():
                return len(item)
            case DeferredLines():
                return item.weight
            case NewPart():
                return len(item.head)

    def can_retry_at_once(self, first: Item) -> bool:
        """Return whether the file takes nothing more, but what comes next is another one."""
        return isinstance(self.error, Closed) and isinstance(first, NewPart)

    # --- In the thread --------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Look after old journals."""
        self._look_after(self._sheet.path)

    def finish(self) -> None:
        """Close the file after the last write."""
        self._sheet.close()

    def write(self, item: Item) -> tuple[Item | None, Exception | None]:
        """Write lines, or begin a part."""
        if isinstance(item, NewPart):
            try:
                sheet = self._open_part(item.path)
            except OSError as error:
                return item, error
            self._sheet.close()
            self._sheet = sheet
            self._look_after(item.path)
            lines = item.head
        else:
            lines = item if isinstance(item, bytes) else made(item)
        done, stopped = self._sheet.append(lines)
        self.written += done
        return (None if done == len(lines) else lines[done:]), stopped

    def _look_after(self, path: Path) -> None:
        try:
            self._tidy(path)
        except Exception:  # whatever it is: writing goes on
            _log.exception("old journals can't be looked after")


def made(item: DeferredLines) -> bytes:
    """Make the lines. Return none if that fails, which is logged."""
    try:
        return item.make()
    except Exception:  # whatever it is: the lines after it are written all the same
        _log.exception("a body can't be written down")
        return b""


def _lines(item: Item) -> int:
    match item:
        case bytes():
            return item.count(b"\n")
        case DeferredLines():
            return item.lines
        case NewPart():
            return 0
