"""Changing single numbers in a TOML text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping

import tomlkit
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import InlineTable

_MOST_HEADERS = 100
"""Lines that begin with a bracket, for each of which all before it is parsed."""
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER = re.compile(r"[ \t]*\[")


def edited(text: str, numbers: Mapping[str, int | float]) -> str | None:
    """Return a TOML text with these keys set; comments, order and spelling of the rest are unchanged. None: it has too
    many tables, or a form that tomlkit doesn't take.

    `aimd.beta` is `beta` in `[aimd]`, however the text spells that. A new key follows the last one of its table, a new
    table is put at the end. A key that has the value already keeps its spelling.
    """
    if sum(map(bool, map(_HEADER.match, text.split("\n")))) > _MOST_HEADERS:
        return None
    try:
        return _edited(text, numbers)
    except TOMLKitError:
        return None


def _edited(text: str, numbers: Mapping[str, int | float]) -> str:
    document = tomlkit.parse(text)
    with_header = {table for table, _ in _sections(text)}
    missing: dict[str, list[str]] = {}
    for name, number in numbers.items():
        table, _, key = name.rpartition(".")
        place = document.get(table) if table else document
        if place is None or (key not in place and table in with_header):
            missing.setdefault(table, []).append(f"{key} = {tomlkit.item(number).as_string()}")
        elif key not in place and isinstance(place, InlineTable):
            value = tomlkit.item(number)
            value.trivia.indent = " " if place else ""
            place.append(key, value)
        elif key not in place or place[key] != number:
            place[key] = number
    changed = document.as_string()
    for table, entries in missing.items():
        changed = _inserted(changed, table, entries)
    return _in_style_of(text, changed)


def _inserted(text: str, table: str, entries: list[str]) -> str:
    if text and not text.endswith("\n"):
        text += "\n"
    sections = list(_sections(text))
    new = [f"{entry}\n" for entry in entries]
    lines = next((lines for name, lines in sections if name == table), None)
    last = sections[-1][1]
    if lines is None:
        parted = not text or not _LINE.findall(text)[-1].strip()
        last.extend([*([] if parted else ["\n"]), f"[{table}]\n", *new])
    else:
        _insert(lines, new, last=lines is last)
    return "".join(line for _, lines in sections for line in lines)


def _insert(lines: list[str], new: list[str], *, last: bool) -> None:
    """Insert after the last entry and its comments, which a blank line separates from the next table."""
    after = len(lines)
    while after > 0 and not lines[after - 1].partition("#")[0].strip():
        after -= 1
    rest = lines[after:]
    blank = next((index for index, line in enumerate(rest) if not line.strip()), None)
    at = after + (blank if blank is not None else len(rest) if last else 0)
    lines[at:at] = new if last or after or blank is not None else [*new, "\n"]


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield name and lines of the root and of each table; the header is the first line.

    A line that begins with a bracket is a header if all before it is complete TOML.
    """
    table, lines, before = "", list[str](), ""
    for line in _LINE.findall(text):
        if _HEADER.match(line) and _is_toml(before):
            yield table, lines
            table, lines = ".".join(tomllib.loads(line)), []
        lines.append(line)
        before += line
    yield table, lines


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _in_style_of(text: str, changed: str) -> str:
    """Return the changed text with Windows line ends, if the original has only these."""
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        return re.sub(r"(?<!\r)\n", "\r\n", changed)
    return changed
