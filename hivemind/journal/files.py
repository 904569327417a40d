"""Where journals are kept (a folder in the state directory, a file a part), and how people name one and its moments.

`20261121-182341-8765.jsonl` is the first part of a journal, begun at that moment (UTC) on that port;
`20261121-182341-8765.2.jsonl` the second. Copied elsewhere they keep their meaning, since each part's first line says
what it is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from datetime import date, datetime, timedelta
from pathlib import Path

from hivemind.console import printable
from hivemind.errors import UsageError
from hivemind.journal.records import JournalBegan
from hivemind.providers.times import parse_duration, parse_number
from hivemind.text.humanise import did_you_mean, first_few

FOLDER = "journals"
DEMO_FOLDER = "demo-journals"
DEMO_DAYS = 1.0
"""A demo's journal is kept so long; the next demo after that removes it."""
SUFFIX = ".jsonl"
LATEST = "latest"
"""For people: the journal that was begun last."""
_NAMES_SHOWN = 8
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?")
_TIMES = "a time is 18:05, 18:05:30, 2026-11-21T18:05, or so long after the beginning: 90s, 5m, 1h30m"
_MOMENT = re.compile(r"\d{8}-\d{6}")
_NAME = re.compile(r"(?P<journal>[\w-]+?)(?:\.(?P<part>[1-9]\d{0,5}))?\.jsonl")


def folder_in(state_dir: Path) -> Path:
    """Return the folder of a state directory's journals."""
    return state_dir / FOLDER


def demo_folder_in(state_dir: Path) -> Path:
    """Return the folder of the journals of demos, apart from those that are worth keeping."""
    return state_dir / DEMO_FOLDER


def part_path(folder: Path, journal: str, part: int) -> Path:
    """The file of a journal's part."""
    return folder / (f"{journal}{SUFFIX}" if part == 1 else f"{journal}.{part}{SUFFIX}")


def part_of(name: str) -> tuple[str, int] | None:
    """Journal and part that a file of that name holds; None: none."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match["journal"], int(match["part"] or 1))


def parts_from(path: Path, began: JournalBegan) -> tuple[Path, ...]:
    """This file, and the later parts of the same journal beside it, whether or not one is missing between them."""
    return (path, *later_parts(path)) if part_of(path.name) == (began.journal, began.part) else (path,)


def later_parts(path: Path) -> tuple[Path, ...]:
    """Later parts of the same journal beside this one, by their names."""
    journal, number = part_of(path.name) or ("", 0)
    try:
        beside = parts_in(path.parent).get(journal, {})
    except OSError:
        return ()
    return tuple(each for part, each in sorted(beside.items()) if part > number)


def parts_in(folder: Path) -> dict[str, dict[int, Path]]:
    """The files of every journal in a folder, by their parts; the journals by name. Raises: OSError."""
    found: dict[str, dict[int, Path]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            named = part_of(entry.name)
            if named is not None and entry.is_file():
                found.setdefault(named[0], {})[named[1]] = folder / entry.name
    return {name: found[name] for name in sorted(found)}


def find(text: str, state_dir: Path) -> Path:
    """The file that is meant by a path, a journal's name, a beginning that only one name has, or `latest`.

    A name may be of a demo's journal if no other journal has it, and the latest is one where there are no others. Of a
    journal it is the first part that is still there.
    A path is taken as it is, whether or not there is a file.
    Raises: UsageError: there is no such journal, or several are meant.
    """
    path = Path(os.path.expanduser(text))
    if os.sep in text or (path.suffix == SUFFIX and os.path.exists(path)):
        return path
    folder = folder_in(state_dir)
    journals = parts_if_any(folder)
    if text == LATEST and not journals and not (journals := parts_if_any(demo_folder_in(state_dir))):
        raise UsageError(f"{LATEST}: there are no journals in {folder}; a proxy leaves one unless it is told not to")
    named = part_of(text)
    if named is not None and named[1] in journals.get(named[0], {}):
        return journals[named[0]][named[1]]
    meant = by_beginning(journals)[:1] if text == LATEST else _beginning(text, journals)
    if not meant and (demos := parts_if_any(demo_folder_in(state_dir))):
        meant, journals = _beginning(text, demos), journals | demos
    if len(meant) == 1:
        parts = journals[meant[0]]
        return parts[min(parts)]
    if meant:
        raise UsageError(f"{_shown(text)}: {len(meant)} journals begin so: {first_few(meant, _NAMES_SHOWN)}")
    if text and os.path.exists(path):
        return path
    known = f"there are {first_few(list(journals)[::-1], _NAMES_SHOWN)}" if journals else f"there are none in {folder}"
    raise UsageError(f"{_shown(text)}: no such journal{did_you_mean(text, journals) or f'; {known}'}")


def parts_if_any(folder: Path) -> dict[str, dict[int, Path]]:
    """Return :func:`parts_in`; nothing where there is no such folder. Raises: UsageError."""
    try:
        return parts_in(folder)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"{folder}: can't be read ({error.strerror})") from None


def _beginning(text: str, names: Iterable[str]) -> list[str]:
    """Return the name itself, or those that begin so."""
    names = list(names)
    return [text] if text in names else [name for name in names if text and name.startswith(text)]


def by_beginning(names: Iterable[str]) -> list[str]:
    """The names of journals, the one begun last first; those that don't begin with a moment come after."""
    return sorted(names, key=lambda name: (bool(_MOMENT.match(name)), name), reverse=True)


def _shown(text: str) -> str:
    """Return what was typed, bounded, and with nothing that a terminal would obey."""
    return printable(text[:200]) or "(nothing)"


def parse_moment(text: str, began: float) -> float:
    """Seconds since the epoch: of a time of day (local, the first from the beginning on), of a day and time, or of so
    long after the beginning.

    `began` is when the journal did. Raises: UsageError: it is none of these.
    """
    plain = text.strip()
    seconds = plain.removesuffix("s")
    span = parse_number(seconds) if seconds.isdecimal() else parse_duration(plain)
    try:
        if span is not None:
            return began + span
        if clock := _TIME.fullmatch(plain):
            return _time_of_day(int(clock[1]), int(clock[2]), float(clock[3] or 0), began)
        return datetime.fromisoformat(plain).timestamp()
    except (ValueError, OverflowError, OSError):
        raise UsageError(f"{printable(text[:40])}: no moment; {_TIMES}") from None


def _time_of_day(hour: int, minute: int, second: float, began: float) -> float:
    """Raises: ValueError, OverflowError, OSError."""
    day = date.fromtimestamp(began)
    at = datetime(day.year, day.month, day.day, hour, minute, int(second), round(second % 1 * 1e6))
    # The minute in which it began counts as after the beginning.
    if at.timestamp() < began // 60 * 60:
        at += timedelta(days=1)
    return at.timestamp()
