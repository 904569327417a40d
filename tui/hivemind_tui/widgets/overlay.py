"""Boxes over the panels, which stay alive under them: a menu that waits for one key, or the help."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual import events

from hivemind_tui.render.pen import Body, Pen, Row, cells_of
from hivemind_tui.widgets.line_table import LineTable

Rows = Sequence[Row]
_NARROWEST = 12
"""Cells in which words are still broken into lines."""

_FAR = 1_000_000
_SCROLL = {
    **{"down": 1, "j": 1, "up": -1, "k": -1},
    **{"pagedown": 10, "space": 10, "ctrl+d": 10, "pageup": -10, "ctrl+u": -10},
    **{"g": -_FAR, "home": -_FAR, "G": _FAR, "end": _FAR},
}


class Box(LineTable):
    """A box in the middle of the screen. While it is open, the screen hands keys to it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.pen = Pen()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def close(self) -> None:
        """Give the keys back."""
        self.display = False

    def place(self, pen: Pen) -> None:
        """Draw it for the screen as it is now."""
        self.pen = replace(pen, boxed=True)
        self.draw()

    def draw(self) -> None:
        """Draw it."""
        raise NotImplementedError

    def show_box(self, title: str, note: str, body: Body, width: int, height: int, above: int = 2) -> None:
        """Show a box of this size, with one part in `above` of the rows that are left above it."""
        screen = self.app.size
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (screen.width - width) // 2, max(0, (screen.height - height) // above)
        self.set_rows(self.pen.frame(title, note, body, width, height))


class Overlay(Box):
    """A key that is none of its choices closes it, which is always the safe way.

    Where the rows don't all fit, the keys that move elsewhere scroll them.
    """

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Mapping[str, Callable[[], object]] = {}
        self._title = ""
        self._content: Rows = ()
        self._folded: Rows = ()
        self._first = 0

    def open(self, title: str, rows: Rows, pen: Pen, choices: Mapping[str, Callable[[], object]] | None = None) -> None:
        """Show rows and wait for a key; `choices` says what each key does."""
        self._choices = choices or {}
        self._title, self._content = title, rows
        self._first = 0
        self.display = True
        self.place(pen)

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
        if step == 0 or len(self._folded) <= self._room():
            return False
        self._first += step
        self._show_rows()
        return True

    def draw(self) -> None:
        """Draw it, with rows wrapped that are too wide."""
        width = max(1, self.app.size.width - 4)
        self._folded = [part for row in self._content for part in _wrapped(row, width)]
        self._show_rows()

    def _room(self) -> int:
        return max(1, self.app.size.height - 2)

    def _show_rows(self) -> None:
        rows, room = self._folded, self._room()
        self._first = max(0, min(len(rows) - room, self._first))
        longest = max((cells_of(row) for row in rows), default=0)
        width = max(1, min(self.app.size.width, max(longest, cell_len(self._title) + 4) + 4))
        height = max(1, min(self.app.size.height, len(rows) + 2))
        shown = rows[self._first : self._first + max(1, height - 2)]
        note = f"{self._first + 1}-{self._first + len(shown)} of {len(rows)}, j k" if len(shown) < len(rows) else ""
        self.show_box(self._title, note, shown, width, height)


def _wrapped(row: Row, width: int) -> Rows:
    """Return a row as several where it is too wide: its last text is wrapped below where it began."""
    if cells_of(row) <= width or not row:
        return [row]
    *heads, (text, role) = row
    indent = cells_of(heads)
    first, *more = textwrap.wrap(text, max(_NARROWEST, width - indent)) or [""]
    return [[*heads, (first, role)], *([(" " * indent, "text"), (line, role)] for line in more)]
