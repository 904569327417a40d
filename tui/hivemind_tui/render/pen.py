"""Rows of text in the colours of the theme: everything that a panel needs to draw, and nothing that needs a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import islice

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from hivemind_tui.render.format import clean, wrapped
from hivemind_tui.render.glyphs import ASCII, UNICODE, Glyphs, Sign, sign

Span = tuple[str, str]
"""Text and its colour role; after an `@` in the role, what a click on it does (:func:`linked`)."""
Row = Sequence[Span]
Body = Iterable[Strip | Row]
"""Rows of a panel; those that are more than spans, as selected ones, are strips already."""
Chunk = tuple[int, Row]
"""Rank and text; where a row is too narrow, the chunks of the highest rank are left out (:func:`fitting`)."""

ROLES: Mapping[str, tuple[str, bool]] = {
    "text": ("ink-text", False),
    "dim": ("ink-dim", False),
    "strong": ("ink-text", True),
    "rule": ("ink-rule", False),
    "title": ("ink-title", True),
    "accent": ("ink-accent", True),
    "ok": ("state-ok", False),
    "wait": ("state-wait", False),
    "bad": ("state-bad", True),
    "recover": ("state-recover", False),
    "info": ("state-info", False),
}
"""Each role's theme variable, and whether it is bold."""

_KEPT = 4096
"""Styles remembered: there are a few roles, and as many actions as there are names to click on."""


def linked(text: str, role: str, action: str) -> Span:
    """Return text that can be clicked. It must be cut or padded before, which would lose the action."""
    return text, f"{role}@{action}" if action else role


def call(name: str, *arguments: str | int | float | bool | None) -> str:
    """Return an action for Textual to parse, as `app.select('bob')`; any agent's name stays one argument."""
    return f"{name}({', '.join(map(repr, arguments))})"


def _has_words(text: str) -> bool:
    """Return whether something is missing without this text: that of a line or a bar says nothing."""
    return any(map(str.isalnum, text))


@dataclass(frozen=True, slots=True)
class Pen:
    """Styles by role, the glyphs of this terminal, and whether panels stand in boxes. Plain until a theme is given."""

    styles: Mapping[str, Style] = field(default_factory=dict)
    selection: Style = field(default_factory=Style)
    glyphs: Glyphs = UNICODE
    boxed: bool = True
    underlined: frozenset[str] = frozenset()
    """Roles whose style underlines, which blanks around their words aren't to be."""
    key: tuple[str, str] = ("", "")
    """A panel's key, which stands before its title, and its action."""
    _made: dict[tuple[str, bool, str], Style] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def themed(cls, variables: Mapping[str, str], glyphs: Glyphs, boxed: bool) -> Pen:
        """The pen of a theme, from its CSS variables."""

        def style(variable: str, words: str) -> Style:
            return Style.parse(variables.get(f"{variable}-style", words))

        def colour(variable: str) -> Style:
            return Style(color=Color.parse(variables[variable]).rich_color) if variable in variables else Style.null()

        ground = Color.parse(variables["background"]).rich_color
        styles = {
            role: style(variable, "none") + colour(variable) + Style(bgcolor=ground, bold=bold or None)
            for role, (variable, bold) in ROLES.items()
        }
        bar = Style(bgcolor=Color.parse(variables["ink-selection"]).rich_color)
        selection = style("ink-selection", "bold") + colour("ink-selected") + bar
        underlined = frozenset(role for role, each in styles.items() if each.underline)
        return cls(styles, selection, glyphs, boxed, underlined)

    def row(self, width: int, *spans: Span, selected: bool = False, link: str = "") -> Strip:
        """Return one row of exactly `width` cells; a click does `link`, except on spans that are :func:`linked`."""
        segments: list[Segment] = []
        ground = self._style("text", selected, link)
        plain, left = not self.glyphs.braille, width
        if self.underlined:
            spans = tuple(self._bare(spans))
        run, last = "", ground
        for number, (text, role) in enumerate(spans, 1):
            if not text:
                continue
            if text.isascii() and text.isprintable():
                length = len(text)
            else:
                text, length = _measured(text, plain)
            if length > left:
                kept = set_cell_size(text, left)
                if left > 0 and _has_words(text[len(kept.rstrip()) :]):
                    kept = set_cell_size(text, left - 1) + self.glyphs.ellipsis
                text, length = kept, left
            elif length == left and any(_has_words(cut) for cut, _ in spans[number:]):
                text = set_cell_size(text, left - 1) + self.glyphs.ellipsis
            style = self._style(role, selected, link)
            # Neighbours of one style become one segment: each costs the terminal forty bytes.
            if style is last:
                run += text
            else:
                if run:
                    segments.append(Segment(run, last))
                run, last = text, style
            left -= length
            if left <= 0:
                break
        if run and left > 0 and last is not ground:
            segments.append(Segment(run, last))
            run = ""
        if left > 0:
            run, last = run + " " * left, ground
        if run:
            segments.append(Segment(run, last))
        return Strip(segments, max(0, width))

    def _bare(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Give the spans with the blanks around underlined words as spans of their own."""
        for text, role in spans:
            name, at, action = role.partition("@")
            words = text.strip(" ")
            if name not in self.underlined or words == text:
                yield text, role
                continue
            before = text.index(words) if words else len(text)
            blank = f"text{at}{action}"
            yield from ((text[:before], blank), (words, role), (text[before + len(words) :], blank))

    def _style(self, role: str, selected: bool, link: str) -> Style:
        style = self._made.get((role, selected, link))
        if style is None:
            name, _, action = role.partition("@")
            style = self.styles.get(name, Style.null()) + (self.selection if selected else Style.null())
            if action or link:
                style += Style(meta={"@click": action or link})
            if len(self._made) >= _KEPT:
                self._made.clear()
            self._made[role, selected, link] = style
        return style

    def sign(self, shown: Sign) -> Span:
        """Return a sign's glyph in its colour."""
        return getattr(self.glyphs, shown.glyph), shown.role

    def worded(self, shown: Sign) -> Span:
        """Return a sign's glyph and word in its colour."""
        return f"{getattr(self.glyphs, shown.glyph)} {shown.word}", shown.role

    def mark(self, state: str) -> Span:
        """Return a state's glyph in its colour."""
        return self.sign(sign(state))

    def more(self, count: int, what: str = "more", indent: str = "") -> list[Span]:
        """Return the row that counts what isn't listed."""
        return [(f"{indent}{self.glyphs.ellipsis} {count} {what}", "dim")]

    def gauge(self, width: int, used: float, reserved: float = 0.0, role: str | None = None) -> list[Span]:
        """A bar of `width` cells; shares from 0 to 1. The reserved part is the end of the used one, drawn lighter.

        Without a role the bar is coloured by how full it is.
        """
        used = min(1.0, max(0.0, used))
        cells = round(used * width)
        if used > 0 and cells == 0:
            cells = min(1, width)
        light = min(cells, round(min(1.0, max(0.0, reserved)) * width))
        colour = role or ("bad" if used >= 0.97 else "wait" if used >= 0.8 else "ok")
        return [
            (self.glyphs.full * (cells - light), colour),
            (self.glyphs.part * light, colour),
            (self.glyphs.empty * (width - cells), "rule"),
        ]

    def frame(self, title: str, note: str, body: Body, width: int, height: int) -> list[Strip]:
        """Return the rows of a panel: `height` rows of `width` cells, with a title, a note at the right, and a body.

        In a box where boxes are drawn and there is room for one; under a rule otherwise.
        """
        if height <= 0 or width <= 2:
            return [self.row(width)] * height
        boxed = self._boxes(width, height)
        cells, room = self.body_size(width, height)
        side = self.glyphs.frame[5]
        left = [*self.row(2, (side + " ", "rule"))] if boxed else [*self.row(1)]
        right = [*self.row(2, (" " + side, "rule"))] if boxed else left
        rows = [self._top(title, note, width, boxed)]
        for line in islice(body, max(0, room)):
            strip = line if isinstance(line, Strip) else self.row(cells, *line)
            if strip.cell_length != cells:
                strip = strip.adjust_cell_length(cells)
            rows.append(Strip([*left, *strip, *right], width))
        if boxed:
            empty = self.row(width, (side, "rule"), (" " * (width - 2), "text"), (side, "rule"))
            rows += [empty] * (height - 1 - len(rows))
            bottom = self.glyphs.frame[2] + self.glyphs.frame[4] * (width - 2) + self.glyphs.frame[3]
            rows.append(self.row(width, (bottom, "rule")))
        return rows + [self.row(width)] * (height - len(rows))

    def body_size(self, width: int, height: int) -> tuple[int, int]:
        """Return the cells and rows that :meth:`frame` leaves for a panel's body."""
        return (width - 4, height - 2) if self._boxes(width, height) else (max(0, width - 2), max(0, height - 1))

    def message(self, title: str, text: str, width: int, height: int, note: str = "") -> list[Strip]:
        """Return the rows of a panel that has one sentence to show, mostly why it is empty."""
        cells, _ = self.body_size(width, height)
        return self.frame(title, note, [[(line, "dim")] for line in wrapped(text, cells)], width, height)

    def _boxes(self, width: int, height: int) -> bool:
        return self.boxed and height >= 3 and width >= 16

    def _top(self, title: str, note: str, width: int, boxed: bool) -> Strip:
        line = self.glyphs.frame[4]
        corners = (self.glyphs.frame[0], self.glyphs.frame[1]) if boxed else (line, line)
        title, note = self.glyphs.plain(clean(title)), self.glyphs.plain(clean(note))
        key, action = self.key
        keyed = f"{key} " if key and width - 7 > len(key) + len(title) else ""
        room = width - 7 - len(keyed)  # for the corners, a blank at each side of the title, and a cell of the rule
        if cell_len(title) > room:
            title = set_cell_size(title, max(0, room - 1)).rstrip() + self.glyphs.ellipsis
        note = self._note(note, room - cell_len(title) - 2)
        note = f" {note} " if note else ""
        rule = line * max(1, width - 6 - len(keyed) - cell_len(title) - cell_len(note))
        left, right = (corners[0] + line + " ", "rule"), (line + corners[1], "rule")
        head = linked(keyed, "accent", action), linked(title, "title", action if keyed else "")
        return self.row(width, left, *head, (" " + rule, "rule"), (note, "dim"), right)

    def _note(self, note: str, room: int) -> str:
        """Return as many of a note's parts, which dots separate, as fit; at least the beginning of the first."""
        dot = self.glyphs.plain(" · ")
        while cell_len(note) > room and dot in note:
            note = note[: note.rindex(dot)]
        if cell_len(note) <= room:
            return note
        return set_cell_size(note, room - 1).rstrip() + self.glyphs.ellipsis if room > 1 else ""


def cells_of(spans: Iterable[Span]) -> int:
    """Return the width of some spans in cells."""
    return sum(cell_len(text) for text, _ in spans)


def fitting(width: int, chunks: Iterable[Chunk], gap: str = "  ") -> list[Span]:
    """Return the chunks that fit in `width`, in order; those of the highest rank are left out first."""
    kept = list(enumerate(chunks))
    while len(kept) > 1 and sum(cells_of(spans) + len(gap) for _, (_, spans) in kept) - len(gap) > width:
        kept.remove(max(kept, key=lambda item: (item[1][0], item[0])))
    shown: list[Span] = []
    for position, (_, (_, spans)) in enumerate(kept):
        shown += [(gap, "text")] * (position > 0)
        shown += spans
    return shown


def scrollbar(first: int, shown: int, total: int, rows: int, pen: Pen) -> list[Span]:
    """Return one cell a row; nothing where all rows are shown. The thumb touches an end only where the list does."""
    if rows <= 0 or total <= shown:
        return []
    thumb = max(1, min(rows - 1, round(rows * shown / total)))
    room = rows - thumb
    hidden = total - shown
    first = max(0, min(hidden, first))
    top = 0 if first == 0 else room if first == hidden else max(1, min(room - 1, round(room * first / hidden)))
    top = max(0, min(room, top))
    glyphs = pen.glyphs
    return [(glyphs.thumb, "dim") if top <= y < top + thumb else (glyphs.track, "rule") for y in range(rows)]


@lru_cache(4096)
def _measured(text: str, plain: bool) -> tuple[str, int]:
    text = clean(text)
    if plain:
        text = ASCII.plain(text)
    return text, cell_len(text)
