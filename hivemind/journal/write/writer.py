"""The thread that writes a journal, so that the event loop never waits for a disk.

What waits is kept in order: lines, bodies that are still to be made into lines, and the beginnings of new parts.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hivemind.journal.write.segment import Closed, Part

_log = logging.getLogger(__name__)

AGAIN_S = 1.0
"""Between two tries while the disk refuses."""
CLOSE_S = 5.0
"""For what waits at the end."""


class Sheet(Protocol):
    """What lines are written to; :class:`~hivemind.journal.write.segment.Part` but in tests."""

    path: Path

    def append(self, lines: bytes) -> tuple[int, OSError | None]: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Later:
    """Lines that are still to be made."""

    make: Callable[[], bytes]
    """Called in the thread."""
    weight: int
    """Bytes of memory that wait with them."""
    lines: int = 1


@dataclass(frozen=True, slots=True)
class NewPart:
    """What comes next stands in another file."""

    path: Path
    head: bytes
    """Its first lines."""


Item = bytes | Later | NewPart


class Writer:
    """Writes to `sheet` first. `open_part` makes the sheets that follow; `tidy` is called in the thread with the path
    of each of them once it is there.

    Everything but the thread's own work is called from one other thread, and never waits for the disk.
    """

    def __init__(
        self,
        sheet: Sheet,
        *,
        tidy: Callable[[Path], object],
        open_part: Callable[[Path], Sheet] = Part,
        again_s: float = AGAIN_S,
    ) -> None:
        self.waiting = 0
        """Bytes of lines that wait."""
        self.written = 0
        """Bytes that are in files."""
        self.error: OSError | None = None
        """Why nothing can be written now."""
        self._sheet = sheet
        self._open_part = open_part
        self._tidy = tidy
        self._again_s = again_s
        self._changed = threading.Condition()
        self._items: deque[Item] = deque()
        self._ending = False
        self._thread = threading.Thread(target=self._run, daemon=True, name="hivemind-journal")
        self._thread.start()

    @property
    def path(self) -> Path:
        """Of the part that is being written."""
        return self._sheet.path

    @property
    def closed(self) -> bool:
        """The file takes nothing more, so it takes a new part to go on, and none waits to be begun."""
        with self._changed:
            return isinstance(self.error, Closed) and not any(isinstance(item, NewPart) for item in self._items)

    def put(self, item: Item) -> None:
        """Have it written after all that waits."""
        with self._changed:
            self._items.append(item)
            self.waiting += _size(item)
            self._changed.notify()

    def give_up(self) -> int:
        """Forget all that waits. Returns how many lines that were."""
        with self._changed:
            lost = sum(_lines(item) for item in self._items)
            self._items.clear()
            self.waiting = 0
        return lost

    def close(self) -> int:
        """Write what is left. Blocks, for some seconds at most. Returns how many lines couldn't be written."""
        with self._changed:
            self._ending = True
            self._changed.notify()
        self._thread.join(CLOSE_S)
        return self.give_up()

    # --- In the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._look_after(self._sheet.path)
        while (item := self._next()) is not None:
            rest, error = self._write(item)
            with self._changed:
                self.error = error
                if self._items and self._items[0] is item:
                    self._items.popleft()
                    self.waiting -= _size(item)
                    if rest is not None:
                        self._items.appendleft(rest)
                        self.waiting += _size(rest)
                if error is not None:
                    if self._ending:
                        break
                    self._changed.wait_for(lambda: self._ending or self._anew(), self._again_s)
        self._sheet.close()

    def _look_after(self, path: Path) -> None:
        try:
            self._tidy(path)
        except Exception:  # whatever it is: writing goes on
            _log.exception("old journals can't be looked after")

    def _next(self) -> Item | None:
        """What is to be written next, which stays where it is meanwhile; None: the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._items or self._ending)
            return self._items[0] if self._items else None

    def _anew(self) -> bool:
        """The file takes nothing more, but what comes next is another one."""
        return isinstance(self.error, Closed) and bool(self._items) and isinstance(self._items[0], NewPart)

    def _write(self, item: Item) -> tuple[Item | None, OSError | None]:
        """Returns what is left to be written, and why."""
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


def made(item: Later) -> bytes:
    """Its lines; none where they can't be made, which is logged."""
    try:
        return item.make()
    except Exception:  # whatever it is: the lines after it are written all the same
        _log.exception("a body can't be written down")
        return b""


def _size(item: Item) -> int:
    match item:
        case bytes():
            return len(item)
        case Later():
            return item.weight
        case NewPart():
            return len(item.head)


def _lines(item: Item) -> int:
    match item:
        case bytes():
            return item.count(b"\n")
        case Later():
            return item.lines
        case NewPart():
            return 0
