"""The journals of a folder, each with what can be told of it without reading it whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hivemind.errors import UsageError
from hivemind.journal.files import by_beginning, parts_in
from hivemind.journal.read.head import last_event, opened
from hivemind.journal.read.reader import open_journal
from hivemind.journal.records import JournalEnded
from hivemind.journal.write.segment import being_written

COUNTED = 1 << 30
"""Bytes that are looked through for requests, the newest journals first; reading so many takes about a second."""
_ARRIVED = b'"event":"Arrived"'
_PIECE = 1 << 20

ENDS = ("ended", "cut off", "still being written")
"""In good order; not so, by a kill, a crash or a full disk; not yet."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A journal as it stands in a list."""

    name: str
    path: Path
    """Its first part that is there."""
    began: float
    """Seconds since the epoch."""
    length_s: float
    parts: int
    bytes: int
    requests: int | None
    """None: nobody counted, as there is too much to look through."""
    end: str
    """One of :data:`ENDS`."""
    source: str
    bodies: bool


def listed(folder: Path) -> tuple[list[Listed], list[str]]:
    """All in the folder, the one begun last first; and a line each of those that can't be read.

    Raises: UsageError: the folder can't be read.
    """
    try:
        journals = parts_in(folder)
    except FileNotFoundError:
        return [], []
    except OSError as error:
        raise UsageError(f"{folder}: can't be read ({error.strerror})") from None
    found, wrong, left = [], [], COUNTED
    for name in by_beginning(journals):
        parts = [path for _, path in sorted(journals[name].items())]
        try:
            size = sum(path.stat().st_size for path in parts)
            found.append(_listed(name, parts, size, counted=size <= left))
        except UsageError as error:
            wrong.append(str(error))
            continue
        except OSError as error:
            wrong.append(f"{name}: can't be read ({error.strerror})")
            continue
        left -= size if size <= left else 0
    return found, wrong


def _listed(name: str, parts: Sequence[Path], size: int, *, counted: bool) -> Listed:
    """Return one journal's row. Raises: UsageError."""
    began = open_journal(parts[0]).began
    last = last_event(parts[-1])
    end = "ended" if isinstance(last, JournalEnded) else "cut off"
    if being_written(parts[-1]):
        end = "still being written"
    return Listed(
        name=name,
        path=parts[0],
        began=began.wall,
        length_s=max(0.0, (began if last is None else last).at - began.at),
        parts=len(parts),
        bytes=size,
        requests=sum(map(requests_in, parts)) if counted else None,
        end=end,
        source=began.source,
        bodies=began.bodies,
    )


def requests_in(path: Path) -> int:
    """Requests that arrived, by a plain search in the file. Raises: UsageError."""
    count, rest = 0, b""
    with opened(path) as file:
        while piece := file.read(_PIECE):
            piece = rest + piece
            count += piece.count(_ARRIVED)
            rest = piece[-len(_ARRIVED) + 1 :]
    return count
