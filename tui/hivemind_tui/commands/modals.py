"""What may lie over the board and take the keys: the box with its question or help, the palette, a line being typed."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.actions import ActionParseResult
from textual.dom import DOMNode

from hivemind_tui.loop.base_app import GuestApp
from hivemind_tui.render.pen import Pen
from hivemind_tui.widgets.line_table import LineTable
from hivemind_tui.widgets.overlay import Overlay, Palette
from hivemind_tui.widgets.prompt import BottomRow


class ModalApp(GuestApp):
    """An app with three modal widgets, of which at most one is open; keys, pasted text and clicks go to it first.

    Keys are handed over here, in the order in which they were pressed: a widget that asks Textual for the focus gets it
    a moment later, and keys typed ahead would be lost.
    """

    overlay: Overlay
    palette: Palette
    line: BottomRow

    @property
    def modal_open(self) -> bool:
        """Whether keys belong to one of the modal widgets."""
        return self.overlay.is_open or self.palette.is_open or self.line.is_open

    def place_modals(self, pen: Pen) -> None:
        """Draw what is open anew: in other colours, or on a screen of another size."""
        for box in (self.overlay, self.palette):
            if box.is_open:
                box.place(pen)

    def scroll_modal(self, step: int) -> bool:
        """Scroll the box that is open; return whether anything is, as a line keeps the wheel from the board too."""
        if self.overlay.is_open:
            self.overlay.scroll_rows(step)
        elif self.palette.is_open:
            self.palette.move(step)
        return self.modal_open

    def on_key(self, event: events.Key) -> None:
        for modal in (self.overlay, self.palette, self.line):
            if modal.is_open:
                event.stop()
                event.prevent_default()
                modal.press(event)
                return

    def on_paste(self, event: events.Paste) -> None:
        for modal in (self.palette, self.line):
            if modal.is_open:
                modal.paste(event.text)
                return

    def on_click(self, event: events.Click) -> None:
        self._clicked(event.widget)

    def _clicked(self, widget: object) -> None:
        if widget not in (self.overlay, self.palette):
            self.overlay.close()
            self.palette.close()

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; a click on what lies under a box closes the box instead."""
        done = await super().run_action(action, default_namespace, namespaces)
        if not done and isinstance(default_namespace, LineTable):
            self._clicked(default_namespace)
        return done

    def action_answer(self, key: str) -> None:
        self.overlay.answer(key)

    def action_run_choice(self, index: int) -> None:
        self.palette.run(index)
