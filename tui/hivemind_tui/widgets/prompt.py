"""A line that is being typed, and the bottom row: the keys that apply, or such a line."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct
from rich.cells import cell_len
from textual import events

from hivemind.scheduler.commands import Rejected
from hivemind_tui.render.format import clean
from hivemind_tui.render.pen import Pen, Span
from hivemind_tui.widgets.line_table import LineTable

LONGEST = 200
"""Characters; what is typed or pasted beyond them is dropped."""


class InputLine(Struct, frozen=True):
    """A text and the place in it where the next character goes."""

    text: str = ""
    at: int = 0

    @classmethod
    def of(cls, text: str) -> InputLine:
        """Return a text with the cursor behind it."""
        return cls(text, len(text))

    def typed(self, text: str) -> InputLine:
        """Return the line with a text inserted at the cursor, on one line and without control characters."""
        text = text if text == " " else clean(" ".join(text.split()))
        text = text[: max(0, LONGEST - len(self.text))]
        return InputLine(self.text[: self.at] + text + self.text[self.at :], self.at + len(text))

    def after(self, event: events.Key) -> InputLine | None:
        """Return the line after a key that types or edits; None: it is no such key."""
        edited = self.pressed(event.key)
        if edited is None and event.character is not None and event.is_printable:
            return self.typed(event.character)
        return edited

    def pressed(self, key: str) -> InputLine | None:
        """Return the line after a key that moves the cursor or removes text; None: it is no such key."""
        edit = _EDITS.get(key)
        return edit(self) if edit is not None else None

    def spans(self, width: int, pen: Pen) -> list[Span]:
        """Return the line with its cursor in so many cells."""
        before, after = self.shown(width)
        return [(before, "strong"), (pen.glyphs.cursor, "accent"), (after, "strong")]

    def shown(self, width: int) -> tuple[str, str]:
        """Return the text before and behind the cursor, cut so that the cursor, a cell wide, is in sight."""
        before, after = self.text[: self.at], self.text[self.at :]
        room = max(1, width - 1)
        if cell_len(before) + cell_len(after) <= room:
            return before, after
        room = max(1, room - min(cell_len(after), room // 4))
        if cell_len(before) > room:
            while before and cell_len(before) > room - 1:
                before = before[1:]
            before = "…" + before
        return before, after


def _word(line: InputLine) -> InputLine:
    kept = line.text[: line.at].rstrip().rpartition(" ")
    before = kept[0] + kept[1]
    return InputLine(before + line.text[line.at :], len(before))


def _without(line: InputLine, first: int, last: int) -> InputLine:
    first, last = max(0, first), min(len(line.text), last)
    return InputLine(line.text[:first] + line.text[last:], first)


def _to(line: InputLine, at: int) -> InputLine:
    return InputLine(line.text, max(0, min(len(line.text), at)))


_EDITS: Mapping[str, Callable[[InputLine], InputLine]] = {
    "left": lambda line: _to(line, line.at - 1),
    "right": lambda line: _to(line, line.at + 1),
    "home": lambda line: _to(line, 0),
    "ctrl+a": lambda line: _to(line, 0),
    "end": lambda line: _to(line, len(line.text)),
    "ctrl+e": lambda line: _to(line, len(line.text)),
    "backspace": lambda line: _without(line, line.at - 1, line.at),
    "ctrl+h": lambda line: _without(line, line.at - 1, line.at),
    "delete": lambda line: _without(line, line.at, line.at + 1),
    "ctrl+w": _word,
    "ctrl+u": lambda line: _without(line, 0, line.at),
    "ctrl+k": lambda line: _without(line, line.at, len(line.text)),
}


class BottomRow(LineTable):
    """Shows spans, or asks for a line; then the screen hands keys to it until enter or escape."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._label = ""
        self._hint = ""
        self._trouble = ""
        self._line = InputLine()
        self._ink = Pen()
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str], None] | None = None
        self._kept = ""
        self.is_open = False

    def ask(
        self,
        label: str,
        text: str = "",
        *,
        hint: str = "",
        typed: Callable[[str], None] | None = None,
        done: Callable[[str], None] | None = None,
        trouble: str = "",
    ) -> None:
        """Ask for a line. `typed` is called with every change, `done` with the text at enter: where it raises
        :class:`Rejected`, the line stays as it was typed, with the reason. Escape brings `text` back. `trouble`: why
        `text` was refused before."""
        self._label, self._line, self._kept, self._hint = label, InputLine.of(text), text, hint
        self._typed, self._done = typed, done
        self._trouble = ""
        self.is_open = True
        if trouble:
            self._refuse(trouble)
        self._draw()

    def close(self) -> None:
        self.is_open = False

    def show(self, spans: list[Span], pen: Pen) -> None:
        """Show the keys that apply, unless a line is being typed."""
        self._ink = pen
        if self.is_open:
            self._draw()
        else:
            self.set_rows([pen.row(self.size.width, *spans)])

    def press(self, event: events.Key) -> None:
        match event.key:
            case "enter":
                self.close()
                if self._done is not None:
                    try:
                        self._done(self._line.text)
                    except Rejected as rejected:
                        self.is_open = True
                        self._refuse(str(rejected))
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
        self._change(self._line.typed(text))

    def _change(self, line: InputLine) -> None:
        changed, self._line = line.text != self._line.text, line
        if changed:
            self._trouble = ""
        self._draw()
        if changed and self._typed is not None:
            self._typed(line.text)

    def _refuse(self, why: str) -> None:
        """Show beside the text why it is refused, and in full above it where there is no room beside it."""
        self._trouble = clean(why)
        room = self.size.width - cell_len(f" {self._label} {self._line.text}") - cell_len(self._ink.glyphs.warn) - 4
        if cell_len(self._trouble) > room:
            self.notify(self._trouble, severity="warning", markup=False)
        self._draw()

    def _draw(self) -> None:
        label = f" {self._label} "
        width = self.size.width
        typed = self._line.spans(width - cell_len(label) - 1, self._ink)
        note: Span = (f"  {self._hint}", "dim")
        if self._trouble:
            note = (f"  {self._ink.glyphs.warn} {self._trouble}", "bad")
        self.set_rows([self._ink.row(width, (label, "accent"), *typed, note)])
