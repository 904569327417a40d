"""Every action of a screen without the screen: pressed keys do what the table of keys says, and nothing is drawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from textual.keys import _character_to_key
from tui.idle import idle
from tui.worlds import FakeSource

from hivemind.scheduler.commands import Rejected
from hivemind_tui.commands.actions import Actions
from hivemind_tui.commands.dialogs import Rows
from hivemind_tui.commands.queue import CommandQueue
from hivemind_tui.keys import keymap
from hivemind_tui.state.view import View, ViewBuilder
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.widgets.overlay import found
from hivemind_tui.widgets.prompt import InputLine

_TYPED = {"space": " ", "plus": "+", "minus": "-", "colon": ":", "slash": "/"}


class Keyboard(Actions):
    """What :class:`~hivemind_tui.app.ControlRoom` is to its actions, in memory."""

    layout_name = "full"
    theme_name = "hivemind-dark"
    themes = ("hivemind-dark", "hivemind-light")

    def __init__(self, source: FakeSource, simulation: SimulationProcess | None = None) -> None:
        self.source = source
        self.simulation = simulation or SimulationProcess(("false",))
        self.said: list[str] = []
        """Every line that was shown as a note."""
        self.left = False
        self.queue = CommandQueue(self._look, self.complain, lambda: None)
        self._gatherer = ViewBuilder()
        self._choices: Mapping[str, Callable[[], object]] | None = None
        self._line: InputLine | None = None
        self._kept = ""
        self._typed: Callable[[str], None] | None = None
        self._done: Callable[[str], None] | None = None
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}
        self.view = View(source.snapshot())
        self._look()

    def _look(self) -> View:
        self.view = self._gatherer.look(self.view, self.source)
        return self.view

    async def press(self, keys: str) -> None:
        """Press keys, separated by blanks, and let them have their effect."""
        for key in keys.split():
            self._press(key)
            await idle()

    def _press(self, key: str) -> None:
        if self._choices is not None:
            choice, self._choices = self._choices.get(key), None
            if choice is not None:
                choice()
        elif self._line is not None:
            self._type(key)
        else:
            name = _character_to_key(key) if len(key) == 1 else key
            for each in keymap.here(self.view):
                if name in each.keys.split(","):
                    self.run_key_action(each.action)

    def _type(self, key: str) -> None:
        line = self._line
        assert line is not None
        if key in ("enter", "escape"):
            self._line = None
            if key == "enter" and self._done is not None:
                try:
                    self._done(line.text)
                except Rejected as rejected:
                    self._line = line
                    self.said.append(str(rejected))
            elif key == "escape" and line.text != self._kept and self._typed is not None:
                self._typed(self._kept)
            return
        edited = line.pressed(key)
        self._line = edited if edited is not None else line.typed(_TYPED.get(key, key))
        if self._line.text != line.text and self._typed is not None:
            self._typed(self._line.text)

    def action_palette(self) -> None:
        """Take a line, and run the first command that it finds."""

        def run(text: str) -> None:
            choices = [*self.offers(text), *found(self.choices(), text)]
            choices[0].run()

        self.ask_line("palette", done=run)

    # --- What actions need of the screen ---------------------------------------------------------------------------

    def go(self, view: View) -> None:
        turned = view.page != self.view.page
        self.view = self._gatherer.look(view, self.source) if turned else self._gatherer.arrange(view)
        if view.page == "request" and view.detail is None:
            self.run_task(self._fetch_detail(), "detail")

    async def _fetch_detail(self) -> None:
        self.view = replace(self.view, detail=await self.source.detail(self.view.ticket))

    def complain(self, text: str) -> None:
        self.said.append(text)

    inform = complain

    def ask(self, title: str, rows: Rows, choices: Mapping[str, Callable[[], object]]) -> None:
        self._choices = choices

    def ask_line(
        self,
        label: str,
        text: str = "",
        *,
        hint: str = "",
        typed: Callable[[str], None] | None = None,
        done: Callable[[str], None] | None = None,
        trouble: str = "",
    ) -> None:
        self._line, self._kept, self._typed, self._done = InputLine.of(text), text, typed, done
        if trouble:
            self.said.append(trouble)

    @property
    def modal_open(self) -> bool:
        return self._line is not None or self._choices is not None

    def copy(self, text: str) -> None:
        self.said.append(f"copied: {text}")

    def use_theme(self, name: str) -> None:
        self.theme_name = name

    def run_task(self, work: Coroutine[Any, Any, None], group: str) -> None:
        self._tasks.setdefault(group, []).append(asyncio.create_task(work))

    def cancel_tasks(self, group: str) -> None:
        for task in self._tasks.pop(group, ()):
            task.cancel()

    def leave(self) -> None:
        self.left = True


@asynccontextmanager
async def keyboard(source: FakeSource, simulation: SimulationProcess | None = None) -> AsyncIterator[Keyboard]:
    """A keyboard whose commands reach the source."""
    board = Keyboard(source, simulation)
    running = asyncio.create_task(board.queue.run())
    try:
        yield board
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
