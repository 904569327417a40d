"""The bottom row: the keys that apply, or one line to type into."""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from hivemind_tui.format import clean
from hivemind_tui.ink import Ink, Span

from .line_table import LineTable

LONGEST = 200


class BottomRow(LineTable, can_focus=True):
    """Shows spans until something is asked; then takes every key until enter or escape."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._label = ""
        self._hint = ""
        self._text = ""
        self._ink = Ink()
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str], None] | None = None
        self._kept = ""
        self.is_open = False

    def ask(
        self,
        label: str,
        text: str,
        ink: Ink,
        *,
        hint: str = "",
        typed: Callable[[str], None] | None = None,
        done: Callable[[str], None] | None = None,
    ) -> None:
        """Ask for a line. `typed` hears of every change; `done` of the text at enter. Escape brings `text` back."""
        self._label, self._text, self._kept, self._ink, self._hint = label, text, text, ink, hint
        self._typed, self._done = typed, done
        self.is_open = True
        self._draw()
        self.focus()

    def close(self) -> None:
        """Give the keys back."""
        self.is_open = False
        self.blur()

    def show(self, spans: list[Span], ink: Ink) -> None:
        """The keys that apply; not while something is asked."""
        self._ink = ink
        if self.is_open:
            self._draw()
        else:
            self.set_rows([ink.row(self.size.width, *spans)])

    def on_key(self, event: events.Key) -> None:
        """Type, enter or escape."""
        if not self.is_open:
            return
        event.stop()
        event.prevent_default()
        match event.key:
            case "enter":
                self.close()
                if self._done is not None:
                    self._done(self._text)
                return
            case "escape" | "ctrl+c":
                changed, self._text = self._text != self._kept, self._kept
                self.close()
                if changed and self._typed is not None:
                    self._typed(self._text)
                return
            case "backspace":
                self._change(self._text[:-1])
            case "ctrl+u":
                self._change("")
            case "ctrl+w":
                self._change(self._text.rstrip().rpartition(" ")[0])
            case _ if event.character is not None and event.is_printable:
                self._change(self._text + event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is typed, on one line."""
        if self.is_open:
            event.stop()
            self._change(self._text + " ".join(event.text.split()))

    def _change(self, text: str) -> None:
        self._text = clean(text)[:LONGEST]
        self._draw()
        if self._typed is not None:
            self._typed(self._text)

    def _draw(self) -> None:
        spans: list[Span] = [
            (f" {self._label} ", "accent"),
            (self._text, "strong"),
            (self._ink.glyphs.cursor, "accent"),
        ]
        self.set_rows([self._ink.row(self.size.width, *spans, (f"  {self._hint}", "dim"))])
