"""Which journals there are to be: the name of a new one, and old ones removed."""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hivemind.journal.files import part_path, parts_in
from hivemind.journal.write.segment import Part, being_written

_log = logging.getLogger(__name__)

_NAMES_TRIED = 1000


def begin(folder: Path, wall: float, port: int) -> tuple[str, Part]:
    """A new journal that begins at this moment (seconds since the epoch): its name, and its first part.

    Raises: OSError: it can't be made.
    """
    if not folder.is_dir() and os.path.lexists(folder):
        raise NotADirectoryError(errno.ENOTDIR, "isn't a folder", str(folder))
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime(wall))
    for number in range(1, _NAMES_TRIED + 1):
        name = f"{moment}-{port}" if number == 1 else f"{moment}-{port}-{number}"
        try:
            return name, Part(part_path(folder, name, 1))
        except FileExistsError:
            continue
    raise FileExistsError(0, "too many journals begin at this moment", str(folder))


@dataclass(frozen=True, slots=True)
class Retention:
    """What of a folder's journals is kept."""

    max_age_s: float
    max_bytes: int
    """All of them together."""


def prune(writing: Path, keeping: Retention, wall: Callable[[], float]) -> None:
    """Remove what is too old or too much from the folder of the part that is being written, the oldest first; nothing
    of a journal that another program writes."""
    try:
        files = sorted(_removable(writing), key=lambda each: (each.changed, each.path))
        total = sum(each.size for each in files) + _others(writing, files)
    except OSError as error:
        _log.warning("old journals in %s can't be removed (%s)", writing.parent, error.strerror)
        return
    oldest = wall() - keeping.max_age_s
    for each in files:
        if each.changed >= oldest and total <= keeping.max_bytes:
            continue
        try:
            _remove(each.path)
        except OSError as error:
            _log.warning("%s is old, but can't be removed (%s)", each.path, error.strerror)
        else:
            total -= each.size


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    changed: float
    size: int


def _removable(writing: Path) -> Iterator[_File]:
    """Every part in the folder but the one that is being written, and those of journals that others write."""
    for parts in parts_in(writing.parent).values():
        last = parts[max(parts)]
        if writing in parts.values() or not being_written(last):
            yield from (found for path in parts.values() if path != writing and (found := _seen(path)) is not None)


def _others(writing: Path, removable: list[_File]) -> int:
    """Bytes of what isn't to be removed."""
    mine = {each.path for each in removable}
    kept = (path for parts in parts_in(writing.parent).values() for path in parts.values() if path not in mine)
    return sum(found.size for path in kept if (found := _seen(path)) is not None)


def _seen(path: Path) -> _File | None:
    try:
        stat = path.stat()
    except FileNotFoundError:  # another proxy was quicker
        return None
    return _File(path, stat.st_mtime, stat.st_size)


def _remove(path: Path) -> None:
    """With what was made of it: its index beside it."""
    for each in (*path.parent.glob(f"{path.name}.index*"), *path.parent.glob(f"{path.stem}.index*"), path):
        each.unlink(missing_ok=True)
