"""A box over the panels: a menu that waits for one key, or the help. The panels under it stay alive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from rich.cells import cell_len
from textual import events

from hivemind_tui.ink import Ink, Span

from .line_table import LineTable

Rows = Sequence[Sequence[Span]]

_FAR = 1_000_000
_SCROLL = {
    **{"down": 1, "j": 1, "up": -1, "k": -1},
    **{"pagedown": 10, "space": 10, "ctrl+d": 10, "pageup": -10, "ctrl+u": -10},
    **{"g": -_FAR, "home": -_FAR, "G": _FAR, "end": _FAR},
}


class Overlay(LineTable):
    """While it is open, whoever has the keys hands them to it. One that is none of its choices closes it, which is
    always the safe way; where the rows don't all fit, the keys that move elsewhere scroll them."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Mapping[str, Callable[[], object]] = {}
        self._content: tuple[str, Rows, Ink] = ("", (), Ink())
        self._first = 0

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, title: str, rows: Rows, ink: Ink, choices: Mapping[str, Callable[[], object]] | None = None) -> None:
        """Show rows and wait for a key; `choices` says what each key does."""
        self._choices = choices or {}
        self._content = title, rows, replace(ink, boxed=True)
        self._first = 0
        self.display = True
        self._place()

    def close(self) -> None:
        """Give the keys back."""
        self.display = False

    def press(self, event: events.Key) -> None:
        """One key: its choice, or nothing; then closed."""
        key = event.character if event.character in self._choices else event.key
        if key not in self._choices and self.scroll_rows(_SCROLL.get(event.key, 0)):
            return
        self.answer(key or "")

    def answer(self, key: str) -> None:
        """As if this key had been pressed."""
        chosen = self._choices.get(key)
        self.close()
        if chosen is not None:
            chosen()

    def scroll_rows(self, step: int) -> bool:
        """So many rows further down, or up; False where they are all in sight."""
        last = len(self._content[1]) - self._room()
        if step == 0 or last <= 0:
            return False
        self._first = max(0, min(last, self._first + step))
        self._place()
        return True

    def _room(self) -> int:
        return max(1, self.app.size.height - 2)

    def _place(self) -> None:
        """Size and centre the box for the screen as it is now."""
        title, rows, ink = self._content
        screen = self.app.size
        longest = max((sum(cell_len(text) for text, _ in row) for row in rows), default=0)
        width = max(1, min(screen.width, max(longest, cell_len(title) + 4) + 4))
        height = max(1, min(screen.height, len(rows) + 2))
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (screen.width - width) // 2, (screen.height - height) // 2
        shown = rows[self._first : self._first + max(1, height - 2)]
        note = f"{self._first + 1}-{self._first + len(shown)} of {len(rows)}, j k" if len(shown) < len(rows) else ""
        self.set_rows(ink.frame(title, note, [ink.row(max(1, width - 4), *row) for row in shown], width, height))
