"""Journals of what other programs recorded."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from msgspec import Struct

from hivemind import __version__
from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.gc_pause import gc_paused
from hivemind.journal.codec import line_of
from hivemind.journal.files import folder_in, part_path, parts_in
from hivemind.journal.importers.events import EventBuilder
from hivemind.journal.importers.parsed import grouped
from hivemind.journal.importers.sources import FOLDER, Found, Shelf, Tell, find_sources, understood
from hivemind.journal.importers.tables import Layout
from hivemind.journal.records import JournalBegan, JournalEnded
from hivemind.scheduler.events import Event
from hivemind.store.atomic import output_file
from hivemind.text.humanise import plural

_NAME = re.compile(r"[\w-]{1,80}", re.ASCII)
_KEPT_S = 7 * 86_400.0
"""Journals that were made to be shown once are kept so long."""


class Made(Struct, frozen=True):
    """A journal that was made."""

    path: Path
    name: str
    summary: str
    notes: list[str]
    """What was left out, a line each."""


def make_journal(
    found: Found,
    state_dir: Path,
    *,
    folder: Path | None = None,
    name: str | None = None,
    bodies: bool = False,
    tell: Tell = lambda done, of: None,
) -> Made:
    """Make a journal of recordings. Raises: UsageError: there is no request of a model in them, or a journal of that
    name is there."""
    if name is not None and not _NAME.fullmatch(name):
        raise UsageError("--name: a journal's name is of letters, digits, _ and -, 80 at most")
    folder = folder_in(state_dir) if folder is None else folder
    counts: Counter[str] = Counter()
    with gc_paused():
        tries = understood(found, Shelf(state_dir), counts, tell)
        if not tries:
            named = str(found.sources[0].path) if len(found.sources) == 1 else plural(len(found.sources), "file")
            raise UsageError(f"{named}: no request of a model is in it{_left_out(counts)}")
        requests = grouped(tries)
        began = min(each.entry.began_at for each in tries)
        kinds = list(dict.fromkeys(source.kind for source in found.sources))
        name = name or f"{_moment(began)}-{kinds[0]}"
        builder = EventBuilder(began, bodies=bodies)
        events = builder.events(requests)
        first = JournalBegan(
            at=0.0,
            wall=began,
            journal=name,
            part=1,
            program=f"hivemind {__version__}",
            upstreams=builder.upstreams,
            bodies=bodies,
            source=" and ".join(kinds),
            unknown=builder.unknown(requests),
            imported=len(requests),
        )
        path = _write(folder, name, [first, *events, JournalEnded(events[-1].at)])
    agents = len({tries[0].identity.agent for tries in requests})
    summary = f"{plural(len(requests), 'request')} of {plural(agents, 'agent')}, {plural(len(tries), 'attempt')}"
    notes = list(found.foreign)
    if counts:
        what = found.sources[0].path.name if len(found.sources) == 1 else plural(len(found.sources), "file")
        notes.append(f"{what}{_left_out(counts)}")
    if found.others:
        notes.append(
            f"{plural(found.others, 'file')} of the folder {'is' if found.others == 1 else 'are'} something else"
        )
    if first.not_recorded:
        notes.append(f"not recorded: {first.not_recorded}")
    return Made(path, name, summary, notes)


def journal_of(
    texts: Sequence[str], state_dir: Path, layout: Layout | None = None, tell: Tell = lambda done, of: None
) -> Made:
    """A journal of recordings to be looked at, made once for the files as they are. Raises: UsageError."""
    found = find_sources(texts, layout)
    folder = state_dir / FOLDER
    name = f"{found.sources[0].kind}-{key_of(found, layout)}"
    path = part_path(folder, name, 1)
    if path.is_file():
        return Made(path, name, "", [])
    _remove_old(folder)
    return make_journal(found, state_dir, folder=folder, name=name, tell=tell)


def key_of(found: Found, layout: Layout | None) -> str:
    """What tells these files, as they are now, from others. Raises: UsageError: one is gone."""
    stamps = []
    for path in (each.path for each in found.sources):
        try:
            status = path.stat()
        except OSError as error:
            raise UsageError(f"{path}: can't be read ({error.strerror})") from None
        stamps.append((str(path.resolve()), status.st_size, status.st_mtime_ns))
    return blake2b(repr((__version__, sorted(stamps), layout)).encode(), digest_size=6).hexdigest()


def _remove_old(folder: Path) -> None:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".jsonl") and time.time() - entry.stat().st_mtime > _KEPT_S:
                os.unlink(entry.path)


def _left_out(counts: Counter[str]) -> str:
    """`; left out: 3 (no requests of models), 1 (an entry has no URL)`."""
    if not counts:
        return ""
    reasons = [f"{count:,} ({printable(why[:100])})" for why, count in counts.most_common(5)]
    return f"; left out: {', '.join(reasons)}"


def _write(folder: Path, name: str, events: Iterable[Event]) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken = name in parts_in(folder)
    except OSError as error:
        raise UsageError(f"{folder}: can't be written ({error.strerror})") from None
    if taken:
        raise UsageError(f"{name}: there is such a journal already; name this one with --name")
    path = part_path(folder, name, 1)
    with output_file(path, str(path)) as file:
        file.writelines(line_of(event) for event in events)
    return path


def _moment(wall: float) -> str:
    try:
        return datetime.fromtimestamp(wall, UTC).strftime("%Y%m%d-%H%M%S")
    except (OverflowError, ValueError, OSError):
        return "imported"
