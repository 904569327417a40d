"""Owns the proxy, and lends it to a screen: whatever becomes of the screen, the streams go on.

The screen runs in the same event loop, inside :meth:`Supervisor.watch`. Where it fails it is drawn again, once a minute
at most; where it fails sooner, plain lines take over. The proxy is stopped by a signal or by the operator, never by a
bug in a panel.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hivemind.console import Console
from hivemind_tui.program.headless import HasSnapshot, follow
from hivemind_tui.program.signals import Stop

if TYPE_CHECKING:
    from hivemind_tui.app import ControlRoom

_log = logging.getLogger(__name__)

REDRAW_S = 60.0
"""A screen that fails again within this time isn't drawn again."""

_SETTLE_S = 0.3
"""A terminal that reads has the last frame by then; draining doesn't wait longer for one that doesn't."""
_LAST_CHANCE_S = 2.0
_REPORT_AFTER_S = 0.1

MakeScreen = Callable[[], "ControlRoom"]


class Host(HasSnapshot, Protocol):
    """The proxy, as far as the supervisor needs it."""

    async def drain(self, timeout_s: float) -> None:
        """Grant no request and let those in flight finish, for at most this long."""


class Supervisor:
    """Shows a host until it is asked to stop, then drains it."""

    def __init__(self, host: Host, console: Console, stop: Stop, *, drain_s: float) -> None:
        self._host = host
        self._console = console
        self._stop = stop
        self._drain_s = drain_s
        self._app: ControlRoom | None = None
        self.in_lines = asyncio.Event()
        """Set once plain lines are written, because there is no screen or none that works."""
        self.stuck = False
        """The terminal never read the last frames, and an orderly exit of Python would wait for it for ever."""

    async def watch(self, make_screen: MakeScreen | None) -> None:
        """Show screens, or lines where there is no screen, until asked to stop."""
        if make_screen is not None:
            self._console.hold()
            await self._screens(make_screen)
            self._console.release()
            if self._stop.is_set():
                return
            self._console.line("the screen failed; the proxy goes on, in plain lines (Ctrl-C drains and ends)")
        self.in_lines.set()
        await follow(self._host, self._console, self._stop)

    async def drain(self) -> None:
        """Drain the host, and report that it drains where this takes a while."""
        draining = asyncio.create_task(self._host.drain(self._drain_s), name="hivemind-drain")
        await asyncio.wait([draining], timeout=_REPORT_AFTER_S)
        in_flight = len(self._host.snapshot().slots)
        if not draining.done() and in_flight:
            noun = "request" if in_flight == 1 else "requests"
            self._console.line(
                f"draining: {in_flight} {noun} in flight, at most {self._drain_s:g} s (Ctrl-C ends it at once)"
            )
        await draining
        if self.stuck and self._app is not None:
            from hivemind_tui.loop.lossy_driver import freed

            self.stuck = not await freed(self._app, _LAST_CHANCE_S)

    async def _screens(self, make_screen: MakeScreen) -> None:
        """Draw the screen until the operator or a signal ends it, or until it failed too often."""
        failed_at: float | None = None
        while not self._stop.is_set():
            if await self._screen(make_screen):
                self._stop.ask()
                return
            now = time.monotonic()
            if failed_at is not None and now - failed_at < REDRAW_S:
                return
            failed_at = now

    async def _screen(self, make_screen: MakeScreen) -> bool:
        """Run one screen from start to end; return False where it failed."""
        try:
            app = make_screen()
        except Exception:
            _log.exception("the screen could not be made")
            return False
        self._app = app
        self._stop.on_stop = app.exit
        try:
            await app.run_async()
        except Exception:
            _log.exception("the screen could not be drawn")
            return False
        finally:
            self._stop.on_stop = None
            await self._settle(_SETTLE_S)
        return not app.return_code

    async def _settle(self, timeout_s: float) -> None:
        from hivemind_tui.loop.lossy_driver import closed  # with Textual, which lines don't need

        self.stuck = self._app is not None and not await closed(self._app, timeout_s)
