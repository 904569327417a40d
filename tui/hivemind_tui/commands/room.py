"""The screen as its actions see it: what is shown, where commands go, and the modal widgets that ask for more."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any

from textual import events
from textual.actions import ActionParseResult
from textual.dom import DOMNode

from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected
from hivemind_tui.board import Board
from hivemind_tui.commands.dialogs import Rows
from hivemind_tui.commands.queue import CommandQueue, Intent
from hivemind_tui.loop.base_app import GuestApp
from hivemind_tui.render.format import clean
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.widgets.line_table import LineTable
from hivemind_tui.widgets.overlay import Overlay, Palette
from hivemind_tui.widgets.prompt import BottomRow

_TOLD = 4
"""So many lines that are copied, and more, aren't shown one by one."""


class Room(GuestApp):
    """An app with three modal widgets, of which at most one is open; keys, pasted text and clicks go to it first.

    Keys are handed over here, in the order in which they were pressed: a widget that asks Textual for the focus gets it
    a moment later, and keys typed ahead would be lost.
    """

    view: View
    """What is shown now."""
    source: Source
    """Where the view comes from and commands go to."""
    simulation: SimulationProcess
    queue: CommandQueue
    themes: Sequence[str]
    """Names of those that this terminal can show."""
    overlay: Overlay
    palette: Palette
    line: BottomRow
    aside: Sequence[str] = ()
    """A command that takes the terminal over once this screen has ended, before another one is shown."""
    _board: Board

    @abstractmethod
    def go(self, view: View) -> None:
        """Show another view."""

    # --- Modal widgets ---------------------------------------------------------------------------------------------

    @property
    def modal_open(self) -> bool:
        """Whether keys belong to one of the modal widgets."""
        return self.overlay.is_open or self.palette.is_open or self.line.is_open

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

    # --- What actions need -----------------------------------------------------------------------------------------

    def complain(self, text: str) -> None:
        """Show in one line why something can't be done."""
        self.clear_notifications()
        self.notify(clean(text), severity="warning", timeout=4, markup=False)

    def inform(self, text: str) -> None:
        """Show in one line what was done."""
        self.notify(clean(text), markup=False, timeout=4)

    def copy(self, text: str) -> None:
        """Put a text on the clipboard, without control characters except line ends: it is pasted into terminals."""
        text = "\n".join(map(clean, text.split("\n")))
        self.copy_to_clipboard(text)
        first, *more = text.rstrip("\n").split("\n")
        self.inform(f"copied {len(more) + 1} lines, the first: {first}" if len(more) >= _TOLD else f"copied: {text}")

    def run_task(self, work: Coroutine[Any, Any, None], group: str) -> None:
        """Run something beside the screen."""
        self.run_worker(self.monitor.timed(work, group), group=group)

    def ask(self, title: str, rows: Rows | Callable[[View], Rows], choices: Mapping[str, Callable[[], object]]) -> None:
        """Ask for one key; any that is none of the choices means no. Rows that are made from a view follow what
        happens, also while the view is frozen."""

        def made() -> Rows:
            if not callable(rows):
                return rows
            return rows(replace(self.view, snapshot=self.source.snapshot()) if self.view.frozen else self.view)

        self.overlay.open(title, made, self._board.pen, choices)

    def steer(self, intent: Intent, refused: Callable[[str], None] | None = None) -> None:
        """Send the commands of an intent after those before it; `refused` is called with the reason if they are."""
        self.queue.send(self.source, intent, refused)

    def ask_value(
        self,
        label: str,
        meant: Callable[[View, str], list[Command]],
        *,
        hint: str = "",
        text: str = "",
        trouble: str = "",
    ) -> None:
        """Ask for a value, and send the commands that it means. A refused one is asked for again, as it was typed."""

        def again(typed: str, why: str) -> None:
            if self.modal_open:
                self.complain(why)
            else:
                self.ask_value(label, meant, hint=hint, text=typed, trouble=why)

        def done(typed: str) -> None:
            if typed.strip():
                meant(self.view, typed)
                self.steer(lambda view: meant(view, typed), partial(again, typed))

        self.line.ask(label, text, hint=hint, done=done, trouble=trouble)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take a step, or show why it is refused."""
        try:
            step()
        except Rejected as rejected:
            self.complain(str(rejected))
