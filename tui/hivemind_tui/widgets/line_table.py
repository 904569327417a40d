"""Widgets that paint rows of text and repaint only the rows that changed.

Textual repaints whatever region it is told to, changed or not, and its DataTable forgets all its caches with each cell.
Comparing rows ourselves is what makes a live screen cheap: 30 to 50 ms a frame become one or two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View

Render = Callable[[View, int, int, Pen], list[Strip]]

_log = logging.getLogger(__name__)


class LineTable(Widget):
    """Rows handed in whole; those equal to the last ones are kept, with everything Textual cached on them.

    A click on a linked span (:func:`hivemind_tui.render.pen.linked`) runs its action.
    """

    ALLOW_SELECT: ClassVar[bool] = False
    """Textual selects text where it knows its offsets, which rows don't have; a double click would mark everything."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        # Textual's links change their look under the mouse, and the whole widget is painted again for that.
        self.set_reactive(LineTable.auto_links, False)
        self.rows: Sequence[Strip] = ()
        """As they are painted now."""

    def set_rows(self, rows: Sequence[Strip]) -> int:
        """Show these rows instead, and return how many differ from before."""
        old, width = self.rows, self.size.width
        merged: list[Strip] = []
        changed: list[Region] = []
        for y, row in enumerate(rows):
            if y < len(old) and old[y] == row:
                merged.append(old[y])
            else:
                merged.append(row)
                changed.append(Region(0, y, width, 1))
        changed += [Region(0, y, width, 1) for y in range(len(rows), len(old))]
        self.rows = merged
        if changed and self.size:
            self.refresh(*changed)
        return len(changed)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return these rows as the terminal can show them. Textual looks for borders, padding and opacity in each."""
        width, filters = self.outer_size.width, self.get_line_filters()
        strips = [self.render_line(y) for y in crop.line_range]
        if self.styles.gutter or any(strip.cell_length != width for strip in strips):
            return super().render_lines(crop)
        _, background = self.background_colors
        for each in filters:
            strips = [strip.apply_filter(each, background) for strip in strips]
        if crop.column_span != (0, width):
            strips = [strip.crop(*crop.column_span) for strip in strips]
        return strips

    def render_line(self, y: int) -> Strip:
        return self.rows[y] if y < len(self.rows) else Strip.blank(self.size.width, self.rich_style)


class Panel(LineTable):
    """Draws a view with its render function; an exception of that is shown here and logged."""

    def __init__(self, render: Render, *, id: str, key: str = "", action: str = "", steers: bool = False) -> None:
        """`key`: what leads to its page, in its title, or on a live screen what `steers` it; a click there runs
        `action`."""
        super().__init__(id=id)
        self._draw = render
        self._key = key, action
        self._steers = steers
        self._own = Pen(), Pen()
        """The board's pen, and the same with this panel's key."""
        self._shown: tuple[View, Pen] | None = None
        self._next: tuple[View, Pen, Size, list[Strip] | None] | None = None
        self._error = ""

    def redraw(self) -> None:
        """Draw the view that is shown once more."""
        if self._shown is not None and self._has_place:
            self.set_rows(self._rows(*self._shown))

    def prepare(self, view: View, pen: Pen) -> None:
        """Draw a view, which :meth:`commit` will show: what one frame shows is drawn panel by panel."""
        self._next = view, pen, self.size, self._rows(view, pen) if self._has_place else None

    def commit(self) -> None:
        """Show what was drawn last."""
        if self._next is None:
            return
        view, pen, size, rows = self._next
        self._shown, self._next = (view, pen), None
        if self._has_place:
            self.set_rows(rows if rows is not None and size == self.size else self._rows(view, pen))

    @property
    def _has_place(self) -> bool:
        return bool(self.size) and self.is_on_screen

    def _rows(self, view: View, pen: Pen) -> list[Strip]:
        """Return the rows of a view; an exception of the render function is shown instead."""
        width, height = self.size
        if self._key[0] and (view.live or not self._steers):
            if self._own[0] is not pen:
                self._own = pen, replace(pen, key=self._key)
            pen = self._own[1]
        try:
            rows = self._draw(view, width, height, pen)
            self._error = ""
        except Exception as error:
            # Logged once, not several times a second.
            if repr(error) != self._error:
                self._error = repr(error)
                _log.exception("panel %s could not be drawn", self.id)
            message = f"{pen.glyphs.cross} panel error: {type(error).__name__} (logged)"
            rows = pen.frame((self.id or "panel").capitalize(), "", [[(message, "bad")]], width, height)
        return rows

    def on_resize(self, _event: events.Resize) -> None:
        self.redraw()
