"""Every command by its words: type a few letters, enter runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from textual import events
from textual.strip import Strip

from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Pen, Row, Span, call
from hivemind_tui.widgets.overlay import Box
from hivemind_tui.widgets.prompt import Line

WIDTH, ROWS = 92, 16
_NAME, _KEY = 22, 12
_STEPS = {"down": 1, "ctrl+n": 1, "tab": 1, "up": -1, "shift+tab": -1, "pagedown": ROWS, "pageup": -ROWS}
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


class Palette(Box):
    """The command palette."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._choices: Sequence[Choice] = ()
        self._offer: Offer = lambda _: ()
        self._found: Sequence[Choice] = ()
        self._line = Line()
        self._at = 0

    def open(self, choices: Sequence[Choice], offer: Offer, pen: Pen) -> None:
        """Show the choices and wait."""
        self._choices, self._offer, self.pen = choices, offer, replace(pen, boxed=True)
        self.display = True
        self._search(Line())

    def press(self, event: events.Key) -> None:
        """Type, move, enter or escape."""
        match event.key:
            case "escape" | "ctrl+c" | "ctrl+p":
                self.close()
            case "enter":
                self.run(self._at)
            case key if key in _STEPS:
                self.move(_STEPS[key])
            case _:
                edited = self._line.after(event)
                if edited is not None:
                    self._search(edited)

    def paste(self, text: str) -> None:
        """Type pasted text, on one line."""
        self._search(self._line.typed(text))

    def run(self, index: int) -> None:
        """Close, and run one of the choices; stay open where there is none."""
        if index < len(self._found):
            self.close()
            self._found[index].run()

    def move(self, step: int) -> None:
        """Select another choice, so many rows down."""
        self._at = max(0, min(len(self._found) - 1, self._at + step))
        self.draw()

    def _search(self, line: Line) -> None:
        if line.text != self._line.text or not line.text:
            self._at = 0
            self._found = [*self._offer(line.text), *found(self._choices, line.text)]
        self._line = line
        self.draw()

    def draw(self) -> None:
        """Draw the line, and the choices around the selected one."""
        pen, screen = self.pen, self.app.size
        width, height = min(WIDTH, screen.width), min(ROWS + 4, screen.height)
        cells, room = max(1, width - 4), max(1, height - 4)
        first = max(0, min(self._at - room // 2, len(self._found) - room))
        body: list[Strip | Row] = [[("> ", "accent"), *self._line.spans(cells - 2, pen)]]
        body.append([(pen.glyphs.frame[4] * cells, "rule")])
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
            body.append([(_HELP, "wait")])
        self.show_box("Commands", f"{len(self._found)} of {len(self._choices)}", body, width, height, above=3)


def found(choices: Sequence[Choice], text: str) -> list[Choice]:
    """Return the choices that contain every word of the text, those first whose name begins with it."""
    text = text.strip().lower()
    words = text.split()

    def rank(choice: Choice) -> int:
        name = choice.name.lower()
        if name.startswith(text):
            return int(name != text)
        return 2 if any(part.startswith(text) for part in name.replace(".", " ").split()) else 3

    def fits(choice: Choice) -> bool:
        searched = f"{choice.name} {choice.words} {choice.also}".lower()
        return all(word in searched for word in words)

    fitting = [choice for choice in choices if fits(choice)]
    return sorted(fitting, key=rank) if text else fitting
