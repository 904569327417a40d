"""Runs screens one after the other, in the event loop that they share with the proxy.

A screen that fails is drawn again, once a minute at most; where it fails sooner, plain lines take over. The program is
stopped by a signal or by the operator, never by a bug in a panel.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from hivemind.console import Console
from hivemind.text.humanise import short_plural
from hivemind.text.table import show
from hivemind_tui.program.headless import follow
from hivemind_tui.sources.base import Source

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind_tui.app import ControlRoom

_log = logging.getLogger(__name__)

REDRAW_S = 60.0
"""A screen that fails again within this time isn't drawn again."""

_SETTLE_S = 0.3
"""A terminal that reads has the last frame by then; draining doesn't wait longer for one that doesn't."""
_LAST_CHANCE_S = 2.0
_REPORT_AFTER_S = 0.1

MakeScreen = Callable[[], "ControlRoom"]


class Stop(asyncio.Event):
    """Set by the first SIGINT, SIGTERM or SIGHUP, which also calls :attr:`on_stop`."""

    on_stop: Callable[[], None] | None = None

    def ask(self) -> None:
        """Do what the first signal does."""
        if not self.is_set():
            self.set()
            if self.on_stop is not None:
                self.on_stop()


@contextmanager
def stop_on_signals() -> Iterator[Stop]:
    """Yield a stop that signals set until the context is left; enter it before anything that takes long to start.

    After the first SIGINT or SIGTERM both have their default handlers again, so a second one ends the process at once,
    whatever the loop is doing. A hang-up never counts as the second: shells send it more than once.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    insistent = (signal.SIGINT, signal.SIGTERM)

    def on_signal(number: signal.Signals) -> None:
        if number in insistent or stop.is_set():
            for each in insistent:
                loop.remove_signal_handler(each)
                signal.signal(each, signal.SIG_DFL)
        stop.ask()

    for number in (*insistent, signal.SIGHUP):
        loop.add_signal_handler(number, on_signal, number)
    try:
        yield stop
    finally:
        for number in (*insistent, signal.SIGHUP):
            loop.remove_signal_handler(number)


class Supervisor:
    """Shows a source until it is asked to stop."""

    def __init__(self, console: Console, stop: Stop) -> None:
        self._console = console
        self._stop = stop
        self._app: ControlRoom | None = None
        self.in_lines = asyncio.Event()
        """Set once plain lines are written, because there is no screen or none that works."""
        self.stuck = False
        """The terminal never read the last frames, and an orderly exit of Python would wait for it for ever."""

    async def watch(self, source: Source, make_screen: MakeScreen | None) -> None:
        """Show screens, or lines where there is no screen or it fails, until asked to stop."""
        if make_screen is not None:
            if await self.show(make_screen):
                return
            self._console.line("the screen failed; the proxy goes on, in plain lines (Ctrl-C drains and ends)")
        self.in_lines.set()
        await follow(source, self._console, self._stop)

    async def show(self, make_screen: MakeScreen) -> bool:
        """Show screens until asked to stop; return False where they failed too often."""
        self._console.hold()
        failed_at: float | None = None
        while not self._stop.is_set():
            if await self._run_screen(make_screen):
                if self._app is not None and self._app.aside:
                    await self._run_aside(self._app.aside)
                    continue
                self._stop.ask()
                break
            now = time.monotonic()
            if failed_at is not None and now - failed_at < REDRAW_S:
                break
            failed_at = now
        self._console.release()
        return self._stop.is_set()

    async def _run_aside(self, command: Sequence[str]) -> None:
        """Let another program have the terminal until it ends, or until asked to stop."""
        process = await asyncio.create_subprocess_exec(*command)
        self._stop.on_stop = process.terminate
        try:
            await process.wait()
        finally:
            self._stop.on_stop = None

    async def drain(self, proxy: Proxy, timeout_s: float) -> None:
        """Drain a proxy, and report that it drains where this takes a while."""
        draining = asyncio.create_task(proxy.drain(timeout_s), name="hivemind-drain")
        await asyncio.wait([draining], timeout=_REPORT_AFTER_S)
        in_flight = len(proxy.snapshot().slots)
        if not draining.done() and in_flight:
            requests = short_plural(in_flight, "request")
            self._console.line(f"draining: {requests} in flight, at most {timeout_s:g} s (Ctrl-C ends it at once)")
        await draining
        if self.stuck and self._app is not None:
            from hivemind_tui.loop.lossy_driver import freed

            self.stuck = not await freed(self._app, _LAST_CHANCE_S)

    async def print(self, rows: list[str]) -> None:
        """Print lines at the end, not waiting for a terminal that has stopped reading since the screen was left.

        Raises: BrokenPipeError: nobody reads them.
        """
        if not sys.stdout.isatty():
            try:
                show(rows)
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                raise BrokenPipeError from None  # the terminal is gone
            return
        printing = threading.Thread(target=show, args=(rows,), daemon=True, name="hivemind-summary")
        printing.start()
        await asyncio.to_thread(printing.join, _LAST_CHANCE_S)
        self.stuck = printing.is_alive()

    async def _run_screen(self, make_screen: MakeScreen) -> bool:
        from hivemind_tui.loop.lossy_driver import closed  # with Textual, which lines don't need

        try:
            app = self._app = make_screen()
        except Exception:
            _log.exception("the screen could not be made")
            return False
        self._stop.on_stop = app.exit
        try:
            await app.run_async()
        except Exception:
            _log.exception("the screen could not be drawn")
            return False
        finally:
            self._stop.on_stop = None
            self.stuck = not await closed(app, _SETTLE_S)
        return not app.return_code
