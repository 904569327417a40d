"""What may lie over the board and take the keys: the box with its question or help, the palette, a line being typed."""

from __future__ import annotations

from collections.abc import Mapping

from textual import events
from textual.actions import ActionParseResult
from textual.dom import DOMNode

from hivemind_tui.loop.base_app import GuestApp
from hivemind_tui.render.pen import Pen
from hivemind_tui.widgets.line_table import LineTable
from hivemind_tui.widgets.overlay import Overlay
from hivemind_tui.widgets.palette import Palette
from hivemind_tui.widgets.prompt import BottomRow


class Layers:
    """Of the three at most one is open. Keys are handed over here, in the order in which they were pressed: a widget
    that asks Textual for the focus has it a moment later, and what was typed ahead would be lost."""

    def __init__(self, overlay: Overlay, palette: Palette, line: BottomRow) -> None:
        self.overlay = overlay
        self.palette = palette
        self.line = line

    @property
    def is_open(self) -> bool:
        """Whether keys belong to one of them."""
        return self.overlay.is_open or self.palette.is_open or self.line.is_open

    def close(self) -> None:
        """As when nothing had been asked, but for a line: what was typed stays."""
        self.overlay.close()
        self.palette.close()

    def place(self, pen: Pen) -> None:
        """Draw what is open anew: in other colours, or on a screen of another size."""
        if self.overlay.is_open:
            self.overlay.place(pen)
        if self.palette.is_open:
            self.palette.place(pen)

    def press(self, event: events.Key) -> bool:
        """Hand a key to the one that is open; False where none is."""
        for layer in (self.overlay, self.palette, self.line):
            if layer.is_open:
                event.stop()
                event.prevent_default()
                layer.press(event)
                return True
        return False

    def paste(self, text: str) -> None:
        """Pasted text goes into the line being typed, if there is one."""
        for layer in (self.palette, self.line):
            if layer.is_open:
                layer.paste(text)
                return

    def wheel(self, step: int) -> bool:
        """Scroll the one that is open; False where none is. A line has nothing to scroll, but keeps what it is for."""
        if self.overlay.is_open:
            self.overlay.scroll_rows(step)
        elif self.palette.is_open:
            self.palette.move(step)
        return self.is_open

    def clicked(self, widget: object) -> None:
        """A click beside a box closes it."""
        if widget not in (self.overlay, self.palette):
            self.close()


class LayeredApp(GuestApp):
    """Whatever is pressed, pasted or clicked goes to its layers first."""

    layers: Layers

    def on_key(self, event: events.Key) -> None:
        """Keys that no widget has taken come here before they are looked up among the bindings."""
        self.layers.press(event)

    def on_paste(self, event: events.Paste) -> None:
        """Into the line being typed."""
        self.layers.paste(event.text)

    def on_click(self, event: events.Click) -> None:
        """A click on nothing that does something."""
        self.layers.clicked(event.widget)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """As Textual's; a click on what lies under a box doesn't do what it says, but closes the box."""
        done = await super().run_action(action, default_namespace, namespaces)
        if not done and isinstance(default_namespace, LineTable):
            self.layers.clicked(default_namespace)
        return done

    def action_answer(self, key: str) -> None:
        """A click on one of the choices of a question."""
        self.layers.overlay.answer(key)

    def action_run_choice(self, index: int) -> None:
        """A click in the palette."""
        self.layers.palette.run(index)
