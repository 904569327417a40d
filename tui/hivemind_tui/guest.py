"""A Textual app as a guest in somebody else's event loop and process: it leaves both as it found them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from textual.app import App

from .monitor import Monitor
from .strips import without_cycles
from .watch import instrument, messages_told

_log = logging.getLogger(__name__)


class GuestApp(App[str]):
    """Undoes what Textual does to a whole process on the assumption that it is alone there, and has itself timed."""

    def __init__(self, *args: Any, monitor: Monitor | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.monitor = monitor or Monitor()
        """Times every step of this app's own; several apps one after the other may share one."""
        self.on_first_frame: Callable[[], None] | None = None
        """Called once this app's first frame is on its way to the terminal."""

    async def run_async(self, *args: Any, **kwargs: Any) -> str | None:
        """As Textual's, with every step timed."""
        without_cycles()
        self.monitor.begun()
        self.monitor.watching = instrument()
        with self.monitor.watching_gc(), messages_told(self.monitor.handling):
            return await self.monitor.timed(super().run_async(*args, **kwargs), type(self).__name__)

    def on_load(self) -> None:
        """Textual makes all tasks of the loop eager, the proxy's too; that changes their order, so it is undone."""
        asyncio.get_running_loop().set_task_factory(None)

    def on_ready(self) -> None:
        """Everything is laid out; the next refresh paints it."""
        self.call_after_refresh(self._painted)

    def _painted(self) -> None:
        self.monitor.first_frame()
        if self.on_first_frame is not None:
            self.on_first_frame()

    def _fatal_error(self) -> None:
        # Textual prints a traceback with every local variable, and a variable may hold a credential.
        _log.exception("the screen failed")
        self._close_messages_no_wait()
