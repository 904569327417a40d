"""The timeline under the mouse: a click or a drag moves to that moment."""

from __future__ import annotations

from textual import events
from textual.message import Message

from hivemind_tui.panels.timeline_strip import share_at
from hivemind_tui.widgets.panel import Panel, Render


class Scrubber(Panel):
    """A panel that posts where in the recording the mouse is while its button is down."""

    class Scrubbed(Message):
        """The operator moved the mouse there."""

        def __init__(self, share: float) -> None:
            super().__init__()
            self.share = share
            """Of the recording, from 0 to 1."""

        def can_replace(self, message: Message) -> bool:
            """Return whether the message is outdated: only the last position counts."""
            return isinstance(message, Scrubber.Scrubbed)

    def __init__(self, render: Render, *, id: str) -> None:
        super().__init__(render, id=id)
        self._dragged = False

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin to drag."""
        if event.button == 1:
            self._dragged = True
            self.capture_mouse()
            self._tell(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Post each new position."""
        if self._dragged:
            self._tell(event.x)

    def on_mouse_up(self, _event: events.MouseUp) -> None:
        """End the drag."""
        if self._dragged:
            self._dragged = False
            self.release_mouse()

    def _tell(self, x: int) -> None:
        self.post_message(self.Scrubbed(share_at(x, *self.size)))
