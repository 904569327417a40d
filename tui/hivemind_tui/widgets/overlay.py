"""A box over the panels: a menu that waits for one key, or the help. The panels under it stay alive."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual import events

from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.widgets.line_table import LineTable

Row = Sequence[Span]
Rows = Sequence[Row]
_NARROWEST = 12
"""Cells in which words are still broken into lines."""

_FAR = 1_000_000
_SCROLL = {
    **{"down": 1, "j": 1, "up": -1, "k": -1},
    **{"pagedown": 10, "space": 10, "ctrl+d": 10, "pageup": -10, "ctrl+u": -10},
    **{"g": -_FAR, "home": -_FAR, "G": _FAR, "end": _FAR},
}


class Overlay(LineTable):
    """While it is open, the screen hands keys to it. A key that is none of its choices closes it, which is
    always the safe way; where the rows don't all fit, the keys that move elsewhere scroll them."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Mapping[str, Callable[[], object]] = {}
        self._content: tuple[str, Rows, Pen] = ("", (), Pen())
        self._folded: list[Row] = []
        self._first = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, title: str, rows: Rows, pen: Pen, choices: Mapping[str, Callable[[], object]] | None = None) -> None:
        """Show rows and wait for a key; `choices` says what each key does."""
        self._choices = choices or {}
        self._content = title, rows, pen
        self._first = 0
        self.display = True
        self.place(pen)

    def close(self) -> None:
        """Give the keys back."""
        self.display = False

    def press(self, event: events.Key) -> None:
        """Close it, and run the choice of this key if there is one; keys that scroll scroll."""
        key = event.character if event.character in self._choices else event.key
        if key not in self._choices and self.scroll_rows(_SCROLL.get(event.key, 0)):
            return
        self.answer(key or "")

    def answer(self, key: str) -> None:
        """Act as if this key had been pressed."""
        chosen = self._choices.get(key)
        self.close()
        if chosen is not None:
            chosen()

    def scroll_rows(self, step: int) -> bool:
        """Scroll down or up; return False where all rows are shown."""
        last = len(self._folded) - self._room()
        if step == 0 or last <= 0:
            return False
        self._first = max(0, min(last, self._first + step))
        self._draw()
        return True

    def place(self, pen: Pen) -> None:
        """Draw it for the screen as it is now."""
        title, rows, _ = self._content
        self._content = title, rows, replace(pen, boxed=True)
        self._folded = [part for row in rows for part in folded(row, max(1, self.app.size.width - 4))]
        self._first = max(0, min(len(self._folded) - self._room(), self._first))
        self._draw()

    def _room(self) -> int:
        return max(1, self.app.size.height - 2)

    def _draw(self) -> None:
        """Size and centre the box, and show the rows that fit."""
        (title, _, pen), rows = self._content, self._folded
        screen = self.app.size
        longest = max((cells_of(row) for row in rows), default=0)
        width = max(1, min(screen.width, max(longest, cell_len(title) + 4) + 4))
        height = max(1, min(screen.height, len(rows) + 2))
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (screen.width - width) // 2, (screen.height - height) // 2
        shown = rows[self._first : self._first + max(1, height - 2)]
        note = f"{self._first + 1}-{self._first + len(shown)} of {len(rows)}, j k" if len(shown) < len(rows) else ""
        self.set_rows(pen.frame(title, note, [pen.row(max(1, width - 4), *row) for row in shown], width, height))


def cells_of(row: Row) -> int:
    """Return the width of a row in cells."""
    return sum(cell_len(text) for text, _ in row)


def folded(row: Row, width: int) -> list[Row]:
    """Return a row as several where it is too wide: its last text is wrapped below where it began."""
    if cells_of(row) <= width or not row:
        return [row]
    *heads, (text, role) = row
    indent = cells_of(heads)
    lines = textwrap.wrap(text, max(_NARROWEST, width - indent)) or [""]
    first: Row = [*heads, (lines[0], role)]
    return [first, *([(" " * indent, "text"), (line, role)] for line in lines[1:])]
