"""A Textual app that shares its event loop and process with a server, and leaves both as it found them.

Its widgets, timers and workers are timed by a :class:`~.loop_lag.Monitor`. For that and for strips it patches private
names of Textual's.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from functools import wraps
from typing import Any

from rich.style import Style
from textual import events
from textual._context import message_hook
from textual.app import App
from textual.css.stylesheet import Stylesheet
from textual.geometry import Region
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.strip import Strip
from textual.timer import Timer
from textual.worker import Worker

from hivemind_tui.loop.compositor import FrugalCompositor
from hivemind_tui.loop.loop_lag import Monitor, callback_name

_TURN_S = 0.002
_log = logging.getLogger(__name__)
_Body = Callable[[Any], Coroutine[Any, Any, Any]]
_Of = Callable[[Any], tuple[MessagePump, str]]
"""Returns the pump of a task's owner, and its name."""


async def parse_in_turns(sheet: Stylesheet) -> None:
    """Do what :meth:`Stylesheet.reparse` does, one source in each turn of the loop, as it takes 10 ms in all."""
    for place, source in list(sheet.source.items()):
        await asyncio.sleep(0)
        # This fills the cache that the public method uses.
        sheet._parse_rules(source.content, place, source.is_defaults, source.tie_breaker, source.scope)
    sheet.parse()


class GuestApp(App[str]):
    """Undoes Textual's changes to the process, which assume that it is alone there, and times its own tasks."""

    def __init__(self, *args: Any, monitor: Monitor | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Textual parses in another sheet, and loses what that has cached: it parses twice at a start.
        self.stylesheet.reparse = self.stylesheet.parse  # type: ignore[method-assign]
        self.monitor = monitor or Monitor()
        """Times this app's steps; successive apps may share one."""
        self.on_first_frame: Callable[[], None] | None = None
        """Called once the first frame is on its way to the terminal."""
        self._up = False

    async def run_async(self, *args: Any, **kwargs: Any) -> str | None:
        without_cycles()
        instrument()
        reported = message_hook.set(self.monitor.handling)
        try:
            with self.monitor.watching_gc():
                return await self.monitor.timed(super().run_async(*args, **kwargs), type(self).__name__)
        finally:
            message_hook.reset(reported)

    def get_default_screen(self) -> Screen[None]:
        return BandedScreen(id="_default")

    def refresh_css(self, animate: bool = True) -> None:
        """Restyle a few widgets at a time once there is a screen: all of them take 30 to 60 ms."""
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
        """Undo that Textual makes all tasks of the loop eager, which changes the order of the proxy's too."""
        asyncio.get_running_loop().set_task_factory(None)

    def on_ready(self) -> None:
        """Note the first frame after the next refresh, which paints it."""
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


# --- Strips ----------------------------------------------------------------------------------------------------------


def without_cycles() -> None:
    """Patch Textual's strips, once for a process, so that they make no reference cycles.

    A strip caches the pieces asked of it, also where the piece is the whole strip, which then refers to itself and is
    left to the garbage collector with its segments. A live screen makes 40,000 such objects in a quarter of a minute,
    and collecting them holds the loop for 10 ms and more.
    """
    if not hasattr(Strip.divide, "__wrapped__"):
        Strip.divide, Strip.crop_extend = _divide, _crop_extend  # type: ignore[method-assign]


_textuals_divide, _textuals_crop_extend = Strip.divide, Strip.crop_extend


@wraps(_textuals_divide)
def _divide(self: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    cuts, length = list(cuts), self.cell_length
    if [cut for cut in cuts if cut <= length] == [length]:
        return [self]
    return _textuals_divide(self, cuts)


@wraps(_textuals_crop_extend)
def _crop_extend(self: Strip, start: int, end: int, style: Style | None) -> Strip:
    if start == 0 and end == self.cell_length:
        return self
    return _textuals_crop_extend(self, start, end, style)


# --- Timing ----------------------------------------------------------------------------------------------------------


def instrument() -> None:
    """Patch Textual's classes, once for a process, so that tasks of apps with a `monitor` are timed."""
    tasks: tuple[tuple[Any, str, _Of], ...] = (
        (MessagePump, "_process_messages", _of_pump),
        (Timer, "_run_timer", _of_timer),
        (Worker, "run", lambda worker: (worker.node, f"worker {worker.name}".rstrip())),
    )
    for owner, name, of in tasks:
        body = getattr(owner, name)
        if not hasattr(body, "__wrapped__"):
            setattr(owner, name, _timed(body, of))


def _timed(body: _Body, of: _Of) -> _Body:
    @wraps(body)
    def timed(self: Any) -> Coroutine[Any, Any, Any]:
        pump, where = of(self)
        monitor = getattr(pump.app, "monitor", None)
        return monitor.timed(body(self), where) if isinstance(monitor, Monitor) else body(self)

    return timed


def _of_pump(pump: Any) -> tuple[MessagePump, str]:
    named = getattr(pump, "id", None)
    return pump, f"{type(pump).__name__}#{named}" if named else type(pump).__name__


def _of_timer(timer: Any) -> tuple[MessagePump, str]:
    what = callback_name(timer._callback) if getattr(timer, "_callback", None) else timer.name
    return timer.target, f"timer {what}"


ROWS = 6
"""Rows of a band."""
_AT_ONCE_CELLS = 1_600
"""Changes of this size are painted in one step; those of a live page are smaller."""
_BATCH_S = 0.02
_SOON_S = 0.002
_PAINT_EVERY_S = 0.008


def top_band(regions: Collection[Region], width: int, before: int = 0) -> tuple[set[Region], set[Region]]:
    """Split regions, of which there is at least one, into the parts in their topmost band and the rest; the band begins
    at or below a row where there is anything."""
    bottom = max(region.bottom for region in regions)
    before = before if before < bottom else 0
    top = min(max(region.y, before) for region in regions if region.bottom > before)
    above, band = Region(0, 0, width, top), Region(0, top, width, ROWS)
    below = Region(0, top + ROWS, width, max(0, bottom - top - ROWS))
    return (
        {part for region in regions if (part := region.intersection(band))},
        {part for region in regions for rest in (above, below) if (part := region.intersection(rest))},
    )


class BandedScreen(Screen[None]):
    """A screen that keeps the regions to be painted, and paints them band by band."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._compositor = FrugalCompositor()
        self._pending: set[Region] = set()
        self._painting = self._resumed = False
        self._timer: Timer | None = None

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Keep Textual from styling everything again when the screen first comes up, as it was just styled."""
        event.refresh_styles = event.refresh_styles and self._resumed
        self._resumed = True

    @property
    def _update_timer(self) -> Timer:
        """The timer that paints changes, every 8 ms rather than Textual's 17: panels are drawn one after the other, and
        each would add that to the latency of a key."""
        if self._timer is None:
            self._timer = self.set_interval(_PAINT_EVERY_S, self._on_timer_update, name="screen_update", pause=True)
        return self._timer

    def _compositor_refresh(self) -> None:
        if self.app.is_inline or self is not self.app.screen:
            super()._compositor_refresh()
            return
        self._take_over()
        if self._painting:
            return
        # What is painted inside a batch is lost.
        if self._may_paint and sum(region.area for region in self._pending) <= _AT_ONCE_CELLS:
            self._paint(self._pending)
            self._pending = set()
        else:
            self._painting = self.call_later(self._paint_pending)

    @property
    def _urgent_row(self) -> int:
        """The first row of what lies over the panels, which was asked for by the last key; 0 without any."""
        boxes = [each.region.y for each in self.children if each.display and each.layer == "overlay"]
        return min(boxes, default=0)

    @property
    def _may_paint(self) -> bool:
        """Whether there is no batch, and what was painted before has left: a band that waits is painted as it is then,
        and never one after the other."""
        return not self.app._batch_count and getattr(self.app._driver, "ready", True)

    def _take_over(self) -> None:
        """Take over the regions that changed from Textual, which would forget them with the next step."""
        self._compositor.update_widgets(self._dirty_widgets)
        self._dirty_widgets.clear()
        dirty, whole = self._compositor._dirty_regions, self._compositor.size.region
        self._pending = {part for region in self._pending | dirty if (part := region.intersection(whole))}
        dirty.clear()

    def _paint(self, regions: set[Region]) -> None:
        self._compositor._dirty_regions.update(regions)
        super()._compositor_refresh()

    async def _paint_pending(self) -> None:
        try:
            while self._pending and self.is_current:
                await asyncio.sleep(0)
                if not self._may_paint:
                    await asyncio.sleep(_SOON_S)  # a terminal that reads has it by then
                    if not self._may_paint:
                        break
                self._take_over()
                now, self._pending = top_band(self._pending, self._compositor.size.width, self._urgent_row)
                self._paint(now)
        finally:
            self._painting = False
        if self._pending and self.is_current:
            self._painting = True
            self.set_timer(_BATCH_S, self._paint_pending)
