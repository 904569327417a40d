"""The bottom row: the keys that apply, or one line to type into."""

from __future__ import annotations

from collections.abc import Callable

from rich.cells import cell_len
from textual import events

from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.widgets.line import Line
from hivemind_tui.widgets.line_table import LineTable


class BottomRow(LineTable):
    """Shows spans, or asks for a line; then the screen hands keys to it until enter or escape."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._label = ""
        self._hint = ""
        self._line = Line()
        self._ink = Pen()
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str], None] | None = None
        self._kept = ""
        self.is_open = False

    def ask(
        self,
        label: str,
        text: str,
        pen: Pen,
        *,
        hint: str = "",
        typed: Callable[[str], None] | None = None,
        done: Callable[[str], None] | None = None,
    ) -> None:
        """Ask for a line. `typed` hears of every change; `done` of the text at enter. Escape brings `text` back."""
        self._label, self._line, self._kept, self._ink, self._hint = label, Line.of(text), text, pen, hint
        self._typed, self._done = typed, done
        self.is_open = True
        self._draw()

    def close(self) -> None:
        """Give the keys back."""
        self.is_open = False

    def show(self, spans: list[Span], pen: Pen) -> None:
        """Show the keys that apply, unless a line is being typed."""
        self._ink = pen
        if self.is_open:
            self._draw()
        else:
            self.set_rows([pen.row(self.size.width, *spans)])

    def press(self, event: events.Key) -> None:
        """Type, move about in what was typed, enter or escape."""
        match event.key:
            case "enter":
                self.close()
                if self._done is not None:
                    self._done(self._line.text)
            case "escape" | "ctrl+c":
                changed = self._line.text != self._kept
                self.close()
                if changed and self._typed is not None:
                    self._typed(self._kept)
            case _:
                edited = self._line.after(event)
                if edited is not None:
                    self._change(edited)

    def paste(self, text: str) -> None:
        """Type pasted text, on one line."""
        self._change(self._line.typed(text))

    def _change(self, line: Line) -> None:
        changed, self._line = line.text != self._line.text, line
        self._draw()
        if changed and self._typed is not None:
            self._typed(line.text)

    def _draw(self) -> None:
        label = f" {self._label} "
        width = self.size.width
        typed = self._line.spans(width - cell_len(label) - 1, self._ink)
        self.set_rows([self._ink.row(width, (label, "accent"), *typed, (f"  {self._hint}", "dim"))])
