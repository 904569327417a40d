"""The log's lines from before those that are in memory, read back from a journal piece by piece."""

from __future__ import annotations

import math
import re
from pathlib import Path

from msgspec import Struct

from hivemind.journal.codec import event_if_any
from hivemind.journal.files import part_of, parts_in
from hivemind.journal.read.cursor import line_near, line_start, moment_of
from hivemind.journal.read.reader import open_journal
from hivemind.world.lines import line_of
from hivemind.world.snapshot import Line

PIECE = 1 << 20
"""Bytes that are read at once."""
LINES_MOST = 500
"""Lines after which a call returns."""
_PIECES = 8
"""Pieces after which it returns, whatever it found."""
_MARGIN = 256 << 10
"""Bytes after which a line that is near a moment is after it."""
_KIND = re.compile(rb'\{"v":\d+,"event":"(\w+)"')
_SILENT = frozenset(
    b"Arrived Granted Prefill FirstContent Progress LimitsRead Sampled TaskAdded TaskForgotten AgentRecalled"
    b" RequestBody ResponseBody Carried JournalBegan JournalEnded".split()
)
"""Kinds without a line, the most frequent and the longest among them."""
_FIRST_TIME = b'"attempts":1,'
"""In a request's end: it has no line either."""


class OlderLines(Struct, frozen=True):
    """Some lines, and where to go on."""

    lines: tuple[Line, ...] = ()
    """Oldest first."""
    before: float | None = None
    """Lines before this moment are still to be read; None: there are none."""


def older_lines(path: Path, before: float) -> OlderLines:
    """Return lines from before a moment, by the path of any part of the journal. For a thread: it reads megabytes.

    Raises: UsageError, OSError: it can't be read.
    """
    journal, _ = part_of(path.name) or ("", 0)
    parts = [each for _, each in sorted(parts_in(path.parent).get(journal, {}).items())] or [path]
    began = open_journal(parts[0]).began
    wall_offset, found, pieces, reached = began.wall - began.at, list[Line](), 0, before
    for part in reversed(parts):
        end = min(part.stat().st_size, line_near(part, before) + _MARGIN)
        while end > 0:
            end, read = _piece(part, end)
            events = [event for line in read if _may_be_told(line) and (event := event_if_any(line)) is not None]
            made = (line_of(event, event.at + wall_offset) for event in events if event.at < before)
            found[:0] = [line for line in made if line is not None]
            reached = next((at for line in read if (at := moment_of(line)) is not None), reached)
            pieces += 1
            # What happened at that very moment may stand before this piece, too: all of it is for the next call.
            rest = math.nextafter(reached, math.inf)
            if (len(found) >= LINES_MOST or pieces >= _PIECES) and rest < before:
                return OlderLines(tuple(line for line in found if line.at >= rest), rest)
    return OlderLines(tuple(found))


def _piece(part: Path, end: int) -> tuple[int, list[bytes]]:
    """Return where the piece before this byte begins, and its whole lines."""
    begin = max(0, end - PIECE)
    with part.open("rb") as file:
        start = line_start(file, begin)
        if start >= end:  # a long line, as of a body
            return begin, []
        file.seek(start)
        return start, file.read(end - start).split(b"\n")


def _may_be_told(line: bytes) -> bool:
    kind = _KIND.match(line)
    return kind is not None and kind[1] not in _SILENT and not (kind[1] == b"Finished" and _FIRST_TIME in line)
