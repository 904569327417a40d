"""Numbers, durations and names as people read them. Pure; widths are terminal cells."""

from __future__ import annotations

import math
import time

from rich.cells import cell_len, set_cell_size

from hivemind.text.humanise import NOTHING, short_duration

LATEST = 253_402_214_400.0
"""The last day of the year 9999, in seconds since the epoch."""


def clean(text: str) -> str:
    """The text on one line without anything a terminal would obey.

    Names of agents and models come from whoever connects, so control, escape and direction characters are replaced.
    """
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "·" for character in text)


def fit(text: str, width: int, align: str = "<", ellipsis: str = "…") -> str:
    """The text in exactly `width` cells: padded left (`>`) or right (`<`), or cut with an ellipsis."""
    if text.isascii() and text.isprintable():  # most texts by far, and one cell a character
        length = len(text)
    else:
        text = clean(text)
        length = cell_len(text)
    if length > width:
        return set_cell_size(text, max(0, width - 1)) + ellipsis if width > 0 else ""
    padding = " " * (width - length)
    return padding + text if align == ">" else text + padding


def about(value: float | None) -> str:
    """An estimated duration, no finer than it deserves and never nothing: `1s`, `42s`, `3m05s`."""
    if value is None:
        return NOTHING
    whole = max(1, round(value))
    return f"{whole}s" if whole < 10 else short_duration(whole)


def uptime(value: float) -> str:
    """Time since start: `04:12` in the first hour; by the minute afterwards, so that no cell changes each second."""
    whole = int(value)
    if whole < 3600:
        return f"{whole // 60:02d}:{whole % 60:02d}"
    return short_duration(whole)


def local(wall: float) -> time.struct_time:
    """That moment here. What no calendar has, as a recording may claim it, is the nearest that one has."""
    return time.localtime(max(0.0, min(LATEST, wall)))


def clock(wall: float) -> str:
    """Local time of day."""
    return time.strftime("%H:%M:%S", local(wall))


def level(value: float) -> str:
    """A concurrency level: one decimal, or ∞ where there is no limit."""
    return "∞" if math.isinf(value) else f"{value:.1f}"


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
    """The text in lines of at most `width` cells, broken at blanks; a word longer than a line is broken too."""
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
