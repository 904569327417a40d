"""Every command by its words: type a few letters, enter runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from textual import events

from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Span, call
from hivemind_tui.widgets.line import Line
from hivemind_tui.widgets.line_table import LineTable

WIDTH, ROWS = 92, 16
_NAME, _KEY = 22, 12
_HELP = "no command of that name; a knob takes a number: beta 0.7"


@dataclass(frozen=True, slots=True)
class Choice:
    """A command that can be run."""

    name: str
    """What it is called, and first of all found by."""
    words: str
    """What it does; found by too."""
    shown: str
    """The key that does it too; empty where there is none."""
    run: Callable[[], object]
    also: str = ""
    """Further words that it is found by."""


Offer = Callable[[str], Sequence[Choice]]
"""From what was typed so far to choices that only that text makes possible."""


class Palette(LineTable):
    """The command palette; while it is open, the screen hands keys to it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Sequence[Choice] = ()
        self._offer: Offer = lambda _: ()
        self._found: Sequence[Choice] = ()
        self._line = Line()
        self._at = 0
        self._ink = Pen()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, choices: Sequence[Choice], offer: Offer, pen: Pen) -> None:
        """Show the choices and wait."""
        self._choices, self._offer, self._ink = choices, offer, replace(pen, boxed=True)
        self.display = True
        self._search(Line())

    def place(self, pen: Pen) -> None:
        """Draw it for the screen as it is now."""
        self._ink = replace(pen, boxed=True)
        self._draw()

    def close(self) -> None:
        """Give the keys back."""
        self.display = False

    def press(self, event: events.Key) -> None:
        """Type, move, enter or escape."""
        match event.key:
            case "escape" | "ctrl+c" | "ctrl+p":
                self.close()
            case "enter":
                self.run(self._at)
            case "down" | "ctrl+n" | "tab":
                self.move(1)
            case "up" | "shift+tab":
                self.move(-1)
            case "pagedown":
                self.move(ROWS)
            case "pageup":
                self.move(-ROWS)
            case key:
                edited = self._line.pressed(key)
                if edited is None and event.character is not None and event.is_printable:
                    edited = self._line.typed(event.character)
                if edited is not None:
                    self._search(edited)

    def paste(self, text: str) -> None:
        """Type pasted text, on one line."""
        self._search(self._line.typed(text))

    def run(self, index: int) -> None:
        """Close, and run one of the choices; stay open where there is none."""
        if index < len(self._found):
            chosen = self._found[index]
            self.close()
            chosen.run()

    def move(self, step: int) -> None:
        """Select another choice, so many rows down."""
        self._at = max(0, min(len(self._found) - 1, self._at + step))
        self._draw()

    def _search(self, line: Line) -> None:
        if line.text != self._line.text or not line.text:
            self._at = 0
            self._found = [*self._offer(line.text), *found(self._choices, line.text)]
        self._line = line
        self._draw()

    def _draw(self) -> None:
        pen, screen = self._ink, self.app.size
        width, height = min(WIDTH, screen.width), min(ROWS + 4, screen.height)
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (screen.width - width) // 2, max(0, (screen.height - height) // 3)
        cells, room = max(1, width - 4), max(1, height - 4)
        first = max(0, min(self._at - room // 2, len(self._found) - room))
        before, after = self._line.shown(cells - 2)
        typed: list[Span] = [
            *[("> ", "accent"), (before, "strong")],
            *[(pen.glyphs.cursor, "accent"), (after, "strong")],
        ]
        body = [pen.row(cells, *typed), pen.row(cells, (pen.glyphs.frame[4] * cells, "rule"))]
        for index, choice in enumerate(self._found[first : first + room], first):
            here = index == self._at
            spans: list[Span] = [
                (pen.glyphs.cursor if here else " ", "accent"),
                (" " + fit(choice.name, _NAME), "strong" if here else "text"),
                (" " + fit(choice.words, max(0, cells - _NAME - _KEY - 4)), "dim"),
                (" " + fit(choice.shown, _KEY, ">"), "accent"),
            ]
            body.append(pen.row(cells, *spans, selected=here, link=call("app.run_choice", index)))
        if not self._found:
            body.append(pen.row(cells, (_HELP, "wait")))
        note = f"{len(self._found)} of {len(self._choices)}"
        self.set_rows(pen.frame("Commands", note, body, width, height))


def found(choices: Sequence[Choice], text: str) -> list[Choice]:
    """Return the choices that contain every word of the text, those first whose name begins with it."""
    text = text.strip().lower()
    words = text.split()

    def rank(choice: Choice) -> int:
        name = choice.name.lower()
        if name.startswith(text):
            return int(name != text)
        return 2 if any(part.startswith(text) for part in name.replace(".", " ").split()) else 3

    fitting = [choice for choice in choices if all(word in _all_of(choice) for word in words)]
    return sorted(fitting, key=rank) if text else fitting


def _all_of(choice: Choice) -> str:
    return f"{choice.name} {choice.words} {choice.also}".lower()
