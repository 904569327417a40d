"""Changing single numbers in a TOML text, with comments, order and spelling of all the rest as they were."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import tomlkit
from tomlkit.items import InlineTable

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_HEADER = re.compile(r"[ \t]*\[")


def edited(text: str, numbers: Mapping[str, int | float]) -> str:
    """A TOML text with these keys set: `aimd.beta` is `beta` in `[aimd]`, however the text spells that.

    A key that is there is changed where it stands; one that isn't comes after its table's last; a table that isn't
    comes at the end. A key that has the value already keeps its spelling.
    """
    document = tomlkit.parse(text)
    with_header = {section.table for section in _sections(text)}
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


@dataclass(frozen=True, slots=True)
class _Section:
    """The lines of a table, its header the first; the root's come without."""

    table: str
    lines: list[str]


def _inserted(text: str, table: str, entries: list[str]) -> str:
    if text and not text.endswith("\n"):
        text += "\n"
    sections = list(_sections(text))
    new = [f"{entry}\n" for entry in entries]
    section = next((section for section in sections if section.table == table), None)
    if section is None:
        parted = not text or not _LINE.findall(text)[-1].strip()
        sections[-1].lines.extend([*([] if parted else ["\n"]), f"[{table}]\n", *new])
    else:
        _insert(section, new, last=section is sections[-1])
    return "".join(line for section in sections for line in section.lines)


def _insert(section: _Section, new: list[str], *, last: bool) -> None:
    """After the last entry, and after comments that belong to it: those that a blank line parts from the next table."""
    lines = section.lines
    after = len(lines)
    while after > 0 and not lines[after - 1].partition("#")[0].strip():
        after -= 1
    rest = lines[after:]
    blank = next((index for index, line in enumerate(rest) if not line.strip()), None)
    at = after + (blank if blank is not None else len(rest) if last else 0)
    lines[at:at] = new if last or after or blank is not None else [*new, "\n"]


def _sections(text: str) -> Iterator[_Section]:
    """The root, then each table. A line that begins with a bracket is a header where all before it is whole TOML."""
    section, before = _Section("", []), ""
    for line in _LINE.findall(text):
        if _HEADER.match(line) and _is_toml(before):
            yield section
            section = _Section(".".join(tomllib.loads(line)), [])
        section.lines.append(line)
        before += line
    yield section


def _is_toml(text: str) -> bool:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _in_style_of(text: str, changed: str) -> str:
    """With line ends as they are in all of the text."""
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        return re.sub(r"(?<!\r)\n", "\r\n", changed)
    return changed
