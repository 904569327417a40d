"""Boxes over the panels, which stay alive under them: a menu, the help, the command palette."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct
from rich.cells import cell_len
from textual import events
from textual.strip import Strip

from hivemind.records import replace
from hivemind_tui.render.format import fit
from hivemind_tui.render.pen import Body, Pen, Row, Span, call, cells_of
from hivemind_tui.widgets.line_table import LineTable
from hivemind_tui.widgets.prompt import InputLine

Rows = Sequence[Row]
_NARROWEST = 12
"""Cells in which words are still broken into lines."""
_FAR = 1_000_000
_SCROLL = {
    **{"down": 1, "j": 1, "up": -1, "k": -1},
    **{"pagedown": 10, "space": 10, "ctrl+d": 10, "pageup": -10, "ctrl+u": -10},
    **{"g": -_FAR, "home": -_FAR, "G": _FAR, "end": _FAR},
}
WIDTH, ROWS = 92, 16
_NAME, _KEY = 22, 13
_STEPS = {"down": 1, "ctrl+n": 1, "tab": 1, "up": -1, "shift+tab": -1, "pagedown": ROWS, "pageup": -ROWS}
_HELP = "no command of that name; a setting takes a number: latency target 5"


class Box(LineTable):
    """A box in the middle of the screen. While it is open, the screen hands keys to it."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.pen = Pen()

    @property
    def is_open(self) -> bool:
        return bool(self.display)

    def close(self) -> None:
        self.display = False

    def place(self, pen: Pen) -> None:
        self.pen = replace(pen, boxed=True)
        self.draw()

    def draw(self) -> None:
        """Draw the content for the screen as it is now."""
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
        self._content: Callable[[], Rows] = tuple
        self._folded: Rows = ()
        self._first = self._widest = 0

    def open(
        self,
        title: str,
        rows: Callable[[], Rows],
        pen: Pen,
        choices: Mapping[str, Callable[[], object]] | None = None,
    ) -> None:
        """Show rows and wait for a key; `choices` says what each key does."""
        self._choices = choices or {}
        self._title, self._content = title, rows
        self._first = self._widest = 0
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
        width = max(1, self.app.size.width - 4)
        self._folded = [part for row in self._content() for part in _wrapped(row, width)]
        self._show_rows()

    def _room(self) -> int:
        return max(1, self.app.size.height - 2)

    def _show_rows(self) -> None:
        rows, room = self._folded, self._room()
        self._first = max(0, min(len(rows) - room, self._first))
        # No narrower than before: what is shown follows what happens, and the box would jump with each figure.
        self._widest = max(self._widest, cell_len(self._title) + 4, *map(cells_of, rows))
        width = max(1, min(self.app.size.width, self._widest + 4))
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


class Choice(Struct, frozen=True):
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
    """A box in which a command is found by a few letters of its words."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._title = self._nothing = ""
        self._made: Callable[[], Sequence[Choice]] = tuple
        self._choices: Sequence[Choice] = ()
        self._offer: Offer = lambda _: ()
        self._found: Sequence[Choice] = ()
        self._line = InputLine()
        self._at = 0

    def open(
        self,
        choices: Callable[[], Sequence[Choice]],
        offer: Offer,
        pen: Pen,
        title: str = "Commands",
        nothing: str = _HELP,
    ) -> None:
        """Show the choices and wait. `nothing`: what is said where none fits what was typed."""
        self._title, self._nothing = title, nothing
        self._made, self._offer, self.pen = choices, offer, replace(pen, boxed=True)
        self.display = True
        self._line = InputLine()
        self.look()

    def look(self) -> None:
        """Make the choices anew, of which there may be more now."""
        if self.is_open:
            self._choices = self._made()
            self._found = [*self._offer(self._line.text), *found(self._choices, self._line.text)]
            self._at = min(self._at, max(0, len(self._found) - 1)) if self._line.text else 0
            self.draw()

    def press(self, event: events.Key) -> None:
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

    def _search(self, line: InputLine) -> None:
        if line.text != self._line.text:
            self._at = 0
            self._found = [*self._offer(line.text), *found(self._choices, line.text)]
        self._line = line
        self.draw()

    def draw(self) -> None:
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
            body.append([(self._nothing, "wait")])
        self.show_box(self._title, f"{len(self._found)} of {len(self._choices)}", body, width, height, above=3)


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
