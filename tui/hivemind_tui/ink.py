"""Rows of text in the colours of the theme: everything that a panel needs to draw, and nothing that needs a screen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.strip import Strip

from .format import clean
from .glyphs import UNICODE, Glyphs, sign

Span = tuple[str, str]
"""Text and its colour role."""

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


@dataclass(frozen=True, slots=True)
class Ink:
    """Styles by role, the glyphs of this terminal, and whether panels stand in boxes. Plain until a theme is given."""

    styles: Mapping[str, Style] = field(default_factory=dict)
    selection: Style = field(default_factory=Style)
    glyphs: Glyphs = UNICODE
    boxed: bool = True

    @classmethod
    def themed(cls, variables: Mapping[str, str], glyphs: Glyphs, boxed: bool) -> Ink:
        """The ink of a theme, from its CSS variables."""
        ground = Color.parse(variables["background"]).rich_color
        styles = {
            role: Style(color=Color.parse(variables[variable]).rich_color, bgcolor=ground, bold=bold)
            for role, (variable, bold) in ROLES.items()
        }
        selection = Style(bgcolor=Color.parse(variables["ink-selection"]).rich_color, bold=True)
        return cls(styles, selection, glyphs, boxed)

    def row(self, width: int, *spans: Span, selected: bool = False) -> Strip:
        """One row of exactly `width` cells; what doesn't fit is cut."""
        segments: list[Segment] = []
        left = width
        for raw, role in spans:
            text = self.glyphs.plain(clean(raw))
            length = cell_len(text)
            if length > left:
                text, length = set_cell_size(text, left), left
            if text:
                segments.append(Segment(text, self._style(role, selected)))
            left -= length
            if left <= 0:
                break
        if left > 0:
            segments.append(Segment(" " * left, self._style("text", selected)))
        return Strip(segments, max(0, width))

    def _style(self, role: str, selected: bool) -> Style:
        style = self.styles.get(role, Style.null())
        return style + self.selection if selected else style

    def mark(self, state: str) -> Span:
        """A state's glyph in its colour."""
        shown = sign(state)
        return getattr(self.glyphs, shown.glyph), shown.role

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

    def frame(self, title: str, note: str, body: Sequence[Strip], width: int, height: int) -> list[Strip]:
        """The rows of a panel: `height` rows of `width` cells, with a title, a note at the right, and a body.

        In a box where boxes are drawn and there is room for one; under a rule otherwise.
        """
        if height <= 0 or width <= 2:
            return [self.row(width)] * height
        boxed = self.boxed and height >= 3 and width >= 16
        rows = [self._top(title, note, width, boxed)]
        if not boxed:
            margin = self.row(min(1, width))
            rows += [Strip.join([margin, strip.adjust_cell_length(width - 2), margin]) for strip in body[: height - 1]]
        else:
            side = self.glyphs.frame[5]
            left, right = self.row(2, (side + " ", "rule")), self.row(2, (" " + side, "rule"))
            inner = [strip.adjust_cell_length(width - 4) for strip in body[: height - 2]]
            inner += [self.row(width - 4)] * (height - 2 - len(inner))
            rows += [Strip.join([left, strip, right]) for strip in inner]
            bottom = self.glyphs.frame[2] + self.glyphs.frame[4] * (width - 2) + self.glyphs.frame[3]
            rows.append(self.row(width, (bottom, "rule")))
        return rows + [self.row(width)] * (height - len(rows))

    def _top(self, title: str, note: str, width: int, boxed: bool) -> Strip:
        line = self.glyphs.frame[4]
        corners = (self.glyphs.frame[0], self.glyphs.frame[1]) if boxed else (line, line)
        title = self.glyphs.plain(clean(title))
        note = self.glyphs.plain(clean(note))
        if cell_len(title) + cell_len(note) + 8 > width:
            note = set_cell_size(note, max(0, width - cell_len(title) - 8)).rstrip()
        note_spans: list[Span] = [(f" {note} ", "dim")] if note else []
        gap = width - 5 - cell_len(title) - sum(cell_len(text) for text, _ in note_spans) - 1
        return self.row(
            width,
            (corners[0] + line + " ", "rule"),
            (title, "title"),
            (" ", "rule"),
            (line * max(1, gap), "rule"),
            *note_spans,
            (line + corners[1], "rule"),
        )


def body_size(ink: Ink, width: int, height: int) -> tuple[int, int]:
    """Cells and rows that :meth:`Ink.frame` leaves for a panel's body."""
    boxed = ink.boxed and height >= 3 and width >= 16
    return (width - 4, height - 2) if boxed else (max(0, width - 2), max(0, height - 1))


def fitting(width: int, chunks: Iterable[tuple[int, Sequence[Span]]], gap: str = "  ") -> list[Span]:
    """The chunks that fit in `width`, in order; where they don't all fit, those of the highest number go first."""
    kept = list(enumerate(chunks))

    def cells() -> int:
        return sum(sum(cell_len(text) for text, _ in spans) + len(gap) for _, (_, spans) in kept) - len(gap)

    while len(kept) > 1 and cells() > width:
        kept.remove(max(kept, key=lambda item: (item[1][0], item[0])))
    spans: list[Span] = []
    for position, (_, (_, chunk)) in enumerate(kept):
        spans += [(gap, "text")] * (position > 0)
        spans += chunk
    return spans
