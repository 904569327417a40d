"""Every command by its words: type a few letters, enter runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from textual import events

from hivemind_tui.format import clean, fit
from hivemind_tui.ink import Ink, Span

from .line_table import LineTable

WIDTH, ROWS = 76, 16


@dataclass(frozen=True, slots=True)
class Choice:
    """One thing that can be run."""

    words: str
    shown: str
    """The key that does it too; empty where there is none."""
    run: Callable[[], object]


Offer = Callable[[str], Sequence[Choice]]
"""From what was typed so far to choices that only that text makes possible."""


class Palette(LineTable, can_focus=True):
    """Takes every key while it is open."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Sequence[Choice] = ()
        self._offer: Offer = lambda _: ()
        self._found: Sequence[Choice] = ()
        self._text = ""
        self._at = 0
        self._ink = Ink()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def open(self, choices: Sequence[Choice], offer: Offer, ink: Ink) -> None:
        """Show the choices and wait."""
        self._choices, self._offer, self._ink = choices, offer, replace(ink, boxed=True)
        self.display = True
        self._search("")
        self.focus()

    def close(self) -> None:
        """Give the keys back."""
        self.display = False
        self.blur()

    def on_key(self, event: events.Key) -> None:
        """Type, move, enter or escape."""
        event.stop()
        event.prevent_default()
        match event.key:
            case "escape" | "ctrl+c" | "ctrl+p":
                self.close()
            case "enter":
                chosen = self._found[self._at] if self._found else None
                self.close()
                if chosen is not None:
                    chosen.run()
            case "down" | "ctrl+n" | "tab":
                self._move(1)
            case "up" | "shift+tab":
                self._move(-1)
            case "pagedown":
                self._move(ROWS)
            case "pageup":
                self._move(-ROWS)
            case "backspace":
                self._search(self._text[:-1])
            case "ctrl+u":
                self._search("")
            case _ if event.character is not None and event.is_printable:
                self._search(self._text + event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Pasted text is typed."""
        event.stop()
        self._search(self._text + clean(" ".join(event.text.split())))

    def _move(self, step: int) -> None:
        self._at = max(0, min(len(self._found) - 1, self._at + step))
        self._draw()

    def _search(self, text: str) -> None:
        self._text, self._at = text[:WIDTH], 0
        self._found = [*self._offer(text), *found(self._choices, text)]
        self._draw()

    def _draw(self) -> None:
        ink, screen = self._ink, self.app.size
        width, height = min(WIDTH, screen.width), min(ROWS + 4, screen.height)
        self.styles.width, self.styles.height = width, height
        self.styles.offset = (screen.width - width) // 2, max(0, (screen.height - height) // 3)
        cells, room = max(1, width - 4), max(1, height - 4)
        first = max(0, min(self._at - room // 2, len(self._found) - room))
        typed: list[Span] = [("> ", "accent"), (self._text, "strong"), (ink.glyphs.cursor, "accent")]
        body = [ink.row(cells, *typed), ink.row(cells, (ink.glyphs.frame[4] * cells, "rule"))]
        for index, choice in enumerate(self._found[first : first + room], first):
            here = index == self._at
            spans: list[Span] = [
                (ink.glyphs.cursor if here else " ", "accent"),
                (" " + fit(choice.words, cells - 13), "text"),
                (fit(choice.shown, 11, ">"), "dim"),
            ]
            body.append(ink.row(cells, *spans, selected=here))
        if not self._found:
            body.append(ink.row(cells, ("nothing of that name", "dim")))
        note = f"{len(self._found)} of {len(self._choices)}"
        self.set_rows(ink.frame("Commands", note, body, width, height))


def found(choices: Sequence[Choice], text: str) -> list[Choice]:
    """The choices that have every word of the text somewhere, those that begin with it first."""
    words = text.lower().split()
    fitting = [choice for choice in choices if all(word in choice.words.lower() for word in words)]
    return sorted(fitting, key=lambda choice: not choice.words.lower().startswith(text.lower()))
