"""Tables in plain text: aligned, as wide as the terminal, in colour where that is one."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import force_setattr

from hivemind.console import printable

_STYLES = {"dim": "2", "bold": "1", "good": "32", "warn": "33", "bad": "31"}
_GAP = 2
_PLAINER = str.maketrans({"├": "|", "│": "|", "└": "`", "…": "~", "±": "+-"})
_LEAST = 4
"""Least width of any column."""


class Cell(Struct, frozen=True):
    """A text and how it looks: `dim`, `bold`, `good`, `warn`, `bad`, or (empty) plain."""

    text: str
    """Whatever isn't printable in it is replaced."""
    style: str = ""

    def __post_init__(self) -> None:
        if not self.text.isprintable():
            force_setattr(self, "text", printable(self.text))


class TextColumn(Struct, frozen=True):
    """A column, and what happens to it on a narrow terminal."""

    title: str
    right: bool = False
    """Aligned to the right, as numbers are."""
    cut: bool = False
    """It may be narrowed."""
    least: int = 12
    """Its width is kept at this as long as another column can be omitted."""
    spare: int = 0
    """It may be omitted: columns with the largest number first, 0 never."""


def width() -> int | None:
    """Return the terminal's width; None without a terminal, so that a program that reads the output gets everything."""
    if os.environ.get("COLUMNS", "").isdecimal() or sys.stdout.isatty():
        return max(20, shutil.get_terminal_size().columns)
    return None


def in_colour() -> bool:
    """Return whether to colour: on a terminal that can, unless NO_COLOR is set."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def styled(text: str, style: str) -> str:
    """Return the text in a style, where colours are used."""
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if text and style and in_colour() else text


def show(rows: Iterable[str]) -> None:
    """Print lines, in plainer signs where standard output's encoding hasn't ours."""
    text, encoding = "\n".join(rows), sys.stdout.encoding or "ascii"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        text = text.translate(_PLAINER).encode(encoding, "replace").decode(encoding)
    print(text, flush=True)


def wrapped(text: str, room: int | None) -> list[str]:
    """Return a sentence in lines that fit; a word that is longer than a line, as an address may be, stays whole."""
    return [text] if room is None else textwrap.wrap(text, room, break_on_hyphens=False, break_long_words=False)


def lines(columns: Sequence[TextColumn], rows: Sequence[Sequence[Cell | str]], room: int | None) -> list[str]:
    """Return the table, its titles first, without columns whose cells are all empty."""
    cells = [[each if isinstance(each, Cell) else Cell(each) for each in row] for row in rows]
    shown = [n for n in range(len(columns)) if not cells or any(row[n].text for row in cells)]
    widths = {n: max([len(columns[n].title), *(len(row[n].text) for row in cells)]) for n in shown}
    if room is not None:
        _fit(columns, widths, room)
    titles = [Cell(column.title, "dim") for column in columns]
    return [_line(columns, row, widths) for row in (titles, *cells)]


def _fit(columns: Sequence[TextColumn], widths: dict[int, int], room: int) -> None:
    """Narrow columns to their `least`, then omit columns, then narrow further."""
    while not _cut(widths, room, {n: columns[n].least for n in widths if columns[n].cut}):
        spare = max((n for n in widths if columns[n].spare), key=lambda n: columns[n].spare, default=None)
        if spare is None:
            _cut(widths, room, {n: _LEAST for n in widths if columns[n].cut})
            return
        del widths[spare]


def _cut(widths: dict[int, int], room: int, least: dict[int, int]) -> bool:
    """Narrow these columns until the table fits, the widest surplus first; return False, unchanged, if it can't."""
    over = sum(widths.values()) + _GAP * (len(widths) - 1) - room
    if sum(max(0, widths[n] - size) for n, size in least.items()) < over:
        return False
    for _ in range(over):
        widths[max(least, key=lambda n: widths[n] - least[n])] -= 1
    return True


def _line(columns: Sequence[TextColumn], row: Sequence[Cell], widths: dict[int, int]) -> str:
    parts, owed = [], 0
    for n, size in widths.items():
        text = row[n].text if len(row[n].text) <= size else row[n].text[: size - 1] + "…"
        blanks = size - len(text)
        before = owed + (blanks if columns[n].right else 0)
        parts.append(" " * before + styled(text, row[n].style))
        owed = _GAP + (0 if columns[n].right else blanks)
    return "".join(parts).rstrip()
