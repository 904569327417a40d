"""A Textual app as a guest in somebody else's event loop and process: it leaves both as it found them."""

from __future__ import annotations

import asyncio
import gc
import logging

from textual.app import App

_log = logging.getLogger(__name__)


class GuestApp(App[str]):
    """Undoes what Textual does to a whole process on the assumption that it is alone there."""

    def on_load(self) -> None:
        """Textual makes all tasks of the loop eager, the proxy's too; that changes their order, so it is undone."""
        asyncio.get_running_loop().set_task_factory(None)
        # What a screen before this one left behind may be collected now. Not when that one ends: then streams drain.
        gc.unfreeze()

    def on_ready(self) -> None:
        """Keep what has been built so far out of garbage collection: walking all of Textual takes 50 ms and more."""
        gc.freeze()

    def _fatal_error(self) -> None:
        # Textual prints a traceback with every local variable, and a variable may hold a credential.
        _log.exception("the screen failed")
        self._close_messages_no_wait()
