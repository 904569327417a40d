"""A Textual app that shares its event loop and process with a server, and leaves both as it found them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.screen import Screen

from hivemind_tui.loop.incremental_screen import screen_class
from hivemind_tui.loop.loop_lag import Monitor
from hivemind_tui.loop.strip_patch import without_cycles
from hivemind_tui.loop.task_timing import instrument, messages_reported

_TURN_S = 0.002
_log = logging.getLogger(__name__)


async def parse_in_turns(sheet: Stylesheet) -> None:
    """What :meth:`Stylesheet.reparse` does after a change of its variables, one source a turn: 10 ms in all."""
    parse = getattr(sheet, "_parse_rules", None)
    if parse is None:  # a private name of Textual's, which fills the cache that the public method reads
        sheet.reparse()
        return
    for place, source in list(sheet.source.items()):
        await asyncio.sleep(0)
        parse(source.content, place, source.is_defaults, source.tie_breaker, source.scope)
    sheet.parse()


class GuestApp(App[str]):
    """Undoes what Textual does to a whole process on the assumption that it is alone there, and has itself timed."""

    def __init__(self, *args: Any, monitor: Monitor | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.monitor = monitor or Monitor()
        """Times every step of this app's own; several apps one after the other may share one."""
        self.on_first_frame: Callable[[], None] | None = None
        """Called once this app's first frame is on its way to the terminal."""
        self._up = False

    async def run_async(self, *args: Any, **kwargs: Any) -> str | None:
        """As Textual's, with every step timed."""
        without_cycles()
        self.monitor.begun()
        self.monitor.watching = instrument()
        with self.monitor.watching_gc(), messages_reported(self.monitor.handling):
            return await self.monitor.timed(super().run_async(*args, **kwargs), type(self).__name__)

    def get_default_screen(self) -> Screen[None]:
        """One that is painted in bands."""
        return screen_class()(id="_default")

    def refresh_css(self, animate: bool = True) -> None:
        """As Textual's, but a few widgets at a time once there is a screen: another theme changes every rule of every
        widget, which takes 30 to 60 ms."""
        if not self._up or len(self.screen_stack) != 1:
            super().refresh_css(animate)
            return
        self.stylesheet.set_variables(self.get_css_variables())
        self.call_next(self._restyle_in_turns)

    async def _restyle_in_turns(self) -> None:
        await parse_in_turns(self.stylesheet)
        with self.batch_update():
            turn_began_s = 0.0
            for node in list(self.walk_children(with_self=True)):
                if time.perf_counter() - turn_began_s > _TURN_S:
                    await asyncio.sleep(0)
                    turn_began_s = time.perf_counter()
                self.stylesheet.update_nodes([node])
        self.screen.refresh(layout=True)

    def on_load(self) -> None:
        """Textual makes all tasks of the loop eager, the proxy's too; that changes their order, so it is undone."""
        asyncio.get_running_loop().set_task_factory(None)

    def on_ready(self) -> None:
        """Everything is laid out; the next refresh paints it."""
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        self._up = True
        self.monitor.first_frame()
        if self.on_first_frame is not None:
            self.on_first_frame()

    def _fatal_error(self) -> None:
        # Textual prints a traceback with every local variable, and a variable may hold a credential.
        _log.exception("the screen failed")
        self._close_messages_no_wait()
