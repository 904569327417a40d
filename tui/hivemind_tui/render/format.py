"""Numbers, durations and names as people read them. Pure; widths are terminal cells."""

from __future__ import annotations

import math
import time

from rich.cells import cell_len, set_cell_size

from hivemind.text.humanise import NOTHING, short_duration

_LEAST_NAME = 6  # of fewer cells the end would leave nothing of the beginning
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))
LATEST = 253_402_214_400.0
"""The last day of the year 9999, in seconds since the epoch."""


def clean(text: str) -> str:
    """Return the text on one line, without the control, escape and direction characters that clients may send."""
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "·" for character in text)


def fit(text: str, width: int, align: str = "<", ellipsis: str = "…") -> str:
    """Return the text in exactly `width` cells: padded left (`>`) or right (`<`), or cut with an ellipsis."""
    if text.isascii() and text.isprintable():  # most texts by far, and one cell a character
        length = len(text)
    else:
        text = clean(text)
        length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + ellipsis if width > 0 else ""
    padding = " " * (width - length)
    return padding + text if align == ">" else text + padding


def fit_name(name: str, width: int) -> str:
    """Return a name in exactly `width` cells, cut in its middle: names made alike differ at their ends."""
    name = clean(name)
    if cell_len(name) <= width or width < _LEAST_NAME:
        return fit(name, width)
    end = name[-((width - 1) * 2 // 3) :]
    while cell_len(end) > (width - 1) * 2 // 3:
        end = end[1:]
    return fit(set_cell_size(name, max(0, width - 1 - cell_len(end))) + "…" + end, width)


def broken(text: str, width: int) -> list[str]:
    """Return a command or an address in pieces of at most `width` characters, which together are all of it, broken
    after a blank where that is possible, else after a slash."""
    pieces: list[str] = []
    while len(text) > width > 0:
        at = 1 + max(text.rfind(" ", 0, width), -1)
        at = at or 1 + max(text.rfind("/", 0, width), -1) or width
        pieces.append(text[:at])
        text = text[at:]
    return [*pieces, text]


def about(value: float | None) -> str:
    """Return an estimated duration in whole seconds, at least one: `1s`, `42s`, `3m05s`."""
    if value is None:
        return NOTHING
    seconds = max(1, round(value))
    return f"{seconds}s" if seconds < 10 else short_duration(seconds)


def dated(text: str, age_s: float | None, room: int = 1000) -> str:
    """Return a text with its age, also where there is little room: `overloaded, 3m ago`, `overl… 3m`."""
    if not text or age_s is None:
        return text
    age = next((f"{age_s // unit:.0f}{name}" for unit, name in _UNITS if age_s >= unit), "1s")
    whole = f"{text}, {age} ago"
    return whole if cell_len(whole) <= room else f"{fit(text, max(0, room - len(age) - 1)).rstrip()} {age}"


def uptime(value: float) -> str:
    """Return the time since start: `04:12` in the first hour, by the minute afterwards."""
    minutes, seconds = divmod(int(value), 60)
    return f"{minutes:02d}:{seconds:02d}" if minutes < 60 else short_duration(int(value))


def local(wall: float) -> time.struct_time:
    """Return the local time; of moments that no calendar has, which a recording may claim, the nearest one."""
    return time.localtime(max(0.0, min(LATEST, wall)))


def clock(wall: float) -> str:
    """Local time of day."""
    return time.strftime("%H:%M:%S", local(wall))


def level(value: float) -> str:
    """Return the slots of a concurrency level, which AIMD moves by parts of one, or ∞ where there is no limit."""
    return "∞" if math.isinf(value) else f"{int(value)}"


def whole(value: float) -> str:
    """A limit that is a whole number as one, or ∞."""
    return "∞" if math.isinf(value) else f"{value:g}"


def ordinal(value: int) -> str:
    """`1st`, `2nd`, `3rd`, `4th`, `11th`."""
    last = 0 if value // 10 % 10 == 1 else value % 10
    return f"{value}{('th', 'st', 'nd', 'rd')[last] if last < 4 else 'th'}"


def percent(part: float, total: float) -> str:
    """A share, or nothing where there is no whole to share."""
    return f"{100 * part / total:.0f}%" if total > 0 else NOTHING


def wrapped(text: str, width: int) -> list[str]:
    """Return the text in lines of at most `width` cells, broken at blanks; a word longer than a line is broken too."""
    lines: list[str] = []
    line = ""
    for word in clean(text).split(" "):
        if line and cell_len(line) + 1 + cell_len(word) <= width:
            line += f" {word}"
            continue
        if line:
            lines.append(line)
        while cell_len(word) > width > 1:
            head = set_cell_size(word, width).rstrip()
            lines.append(head)
            word = word[len(head) :]
        line = word
    return [*lines, line] if line else lines
