"""Where journals are kept: a folder in the state directory, a file a part.

`20261121-182341-8765.jsonl` is the first part of a journal, begun at that moment (UTC) on that port;
`20261121-182341-8765.2.jsonl` the second. Copied elsewhere they keep their meaning, since each part's first line says
what it is.
"""

from __future__ import annotations

import re
from pathlib import Path

from .records import JournalBegan

FOLDER = "journals"
SUFFIX = ".jsonl"
_NAME = re.compile(r"(?P<journal>[\w-]+?)(?:\.(?P<part>[1-9]\d{0,5}))?\.jsonl")


def folder_in(state_dir: Path) -> Path:
    """Where a state directory has its journals."""
    return state_dir / FOLDER


def part_path(folder: Path, journal: str, part: int) -> Path:
    """The file of a journal's part."""
    return folder / (f"{journal}{SUFFIX}" if part == 1 else f"{journal}.{part}{SUFFIX}")


def part_of(name: str) -> tuple[str, int] | None:
    """Journal and part that a file of that name holds; None: none."""
    match = _NAME.fullmatch(name)
    return None if match is None else (match["journal"], int(match["part"] or 1))


def parts_from(path: Path, began: JournalBegan) -> tuple[Path, ...]:
    """This file, and the later parts of the same journal beside it, as far as none is missing between them."""
    found = [path]
    named = part_of(path.name)
    if named == (began.journal, began.part):
        while (following := part_path(path.parent, began.journal, began.part + len(found))).exists():
            found.append(following)
    return tuple(found)
