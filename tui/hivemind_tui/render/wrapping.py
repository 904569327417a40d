"""Texts longer than a row: broken where words end, and scrolled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size
from textual.strip import Strip

from hivemind_tui.render.format import clean
from hivemind_tui.render.pen import Pen, Span, scrollbar


def flowed(chunks: Sequence[Sequence[Span]], width: int, gap: str = "  ") -> list[list[Span]]:
    """The chunks in rows of at most `width` cells, each chunk whole; one that is longer than a row has its own."""
    rows: list[list[Span]] = []
    left = 0
    for chunk in chunks:
        cells = sum(cell_len(clean(text)) for text, _ in chunk)
        if rows and cells + len(gap) <= left:
            rows[-1] += [(gap, "text"), *chunk]
            left -= cells + len(gap)
        else:
            rows.append([*chunk])
            left = width - cells
    return rows


@lru_cache(1024)
def broken(text: str, width: int, rows: int, ellipsis: str) -> tuple[str, ...]:
    """The text in at most so many rows of `width` cells, broken after a word or a comma where there is one in the
    second half of the row, and cut with an ellipsis where it is longer."""
    text, made = clean(text).strip(), list[str]()
    width = max(2, width)  # the widest character
    while cell_len(text) > width and len(made) < rows - 1:
        row = _cut(text, width)
        made.append(row.rstrip())
        text = text[len(row) :].lstrip()
    return (*made, text if cell_len(text) <= width else set_cell_size(text, width - 1).rstrip() + ellipsis)


def _cut(text: str, width: int) -> str:
    whole = len(text)
    while cell_len(text[:whole]) > width:
        whole -= max(1, (cell_len(text[:whole]) - width) // 2)
    if text[whole : whole + 1] == " ":
        return text[:whole]
    half = width // 2
    # Numbers have commas too: a row ends with one only where it has no blank.
    end = text.rfind(" ", half, whole) + 1 or max(text.rfind(",", half, whole), text.rfind(";", half, whole)) + 1
    return text[: max(1, end or whole)]


def scrolled(entries: Sequence[Sequence[Strip]], first: int, width: int, rows: int, pen: Pen) -> list[Strip]:
    """The entries from this one on, each of a row or several of `width` - 1 cells, and a bar that tells how far down.

    `first` counts entries; beyond the last page it means that one.
    """
    total = sum(len(entry) for entry in entries)
    if total <= rows:
        return [Strip.join([strip, pen.row(1)]) for entry in entries for strip in entry]
    first = min(max(0, first), last_page(entries, rows))
    above = sum(len(entry) for entry in entries[:first])
    shown = [strip for entry in entries[first:] for strip in entry][:rows]
    shown += [pen.row(width - 1)] * (rows - len(shown))
    bar = scrollbar(above, rows, total, rows, pen)
    return [Strip.join([strip, pen.row(1, span)]) for strip, span in zip(shown, bar, strict=True)]


def last_page(entries: Sequence[Sequence[Strip]], rows: int) -> int:
    """Return the first entry from which the last one is shown completely."""
    left = rows
    for index in range(len(entries) - 1, -1, -1):
        left -= len(entries[index])
        if left < 0:
            return min(index + 1, len(entries) - 1)
    return 0
