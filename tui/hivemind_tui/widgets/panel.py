"""A panel on the screen: a pure render function, a place, and a guard between the two."""

from __future__ import annotations

import logging
from collections.abc import Callable

from textual import events
from textual.strip import Strip

from hivemind_tui.render.pen import Pen
from hivemind_tui.state.view import View
from hivemind_tui.widgets.line_table import LineTable

Render = Callable[[View, int, int, Pen], list[Strip]]

_log = logging.getLogger(__name__)


class Panel(LineTable):
    """Draws a view with its render function; an exception of that is shown here and logged."""

    def __init__(self, render: Render, *, id: str) -> None:
        super().__init__(id=id)
        self._draw = render
        self._shown: tuple[View, Pen] | None = None
        self._error = ""

    def show(self, view: View, pen: Pen) -> None:
        """Draw a view, once there is a place for it. Never raises: one bad panel must not take the screen, or anybody's
        stream, with it."""
        self._shown = view, pen
        if not (self.size and self.is_on_screen):
            return
        width, height = self.size
        try:
            rows = self._draw(view, width, height, pen)
            self._error = ""
        except Exception as error:
            rows = self._failed(error, width, height, pen)
        self.set_rows(rows)

    def _failed(self, error: Exception, width: int, height: int, pen: Pen) -> list[Strip]:
        # Several times a second the same words would drown everything else in the log.
        if repr(error) != self._error:
            self._error = repr(error)
            _log.exception("panel %s could not be drawn", self.id)
        message = f"{pen.glyphs.cross} panel error: {type(error).__name__} (logged)"
        return pen.frame((self.id or "panel").capitalize(), "", [pen.row(width, (message, "bad"))], width, height)

    def on_resize(self, _event: events.Resize) -> None:
        """Draw the last view again in the new size."""
        if self._shown is not None:
            self.show(*self._shown)
