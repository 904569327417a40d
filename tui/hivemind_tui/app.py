"""The control room: polls a source, gives the panels the view, and turns keys into commands."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path, PurePath
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.geometry import Size

from hivemind.errors import UsageError
from hivemind.journal.read.older import OlderLines
from hivemind.records import replace
from hivemind.scheduler.commands import Command, Rejected
from hivemind.text.humanise import short_duration
from hivemind.text.shells import shell_of
from hivemind_styles import STYLE_SHEETS
from hivemind_styles.themes import THEMES
from hivemind_tui.board import Board
from hivemind_tui.commands import dialogs, navigation
from hivemind_tui.commands.actions import Actions
from hivemind_tui.commands.queue import CommandQueue, confirmation
from hivemind_tui.keys import keymap
from hivemind_tui.loop.loop_lag import Diagnostics, Pace, memory_mb, wanted_fps
from hivemind_tui.loop.lossy_driver import LossyDriver, TerminalBack
from hivemind_tui.past.process import PastProcess
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.render.capabilities import coloured, themes_for
from hivemind_tui.render.format import clock
from hivemind_tui.render.glyphs import glyphs_for
from hivemind_tui.render.notices import Notices, NoticesWanted
from hivemind_tui.sources.base import Source
from hivemind_tui.state.view import View, ViewBuilder
from hivemind_tui.whatif.process import SimulationProcess
from hivemind_tui.widgets.overlay import Overlay, Palette

_TICK_S = 1 / 16
_BLURRED_FPS = 1.0
_DETAIL_EVERY_S = 0.5
_WHEEL_ROWS = 3
_READ_COUNTS = 50
"""What a read of the journal counts at least, in lines, so that one without any ends, too."""
_ANSWERS = frozenset({"answer", "run_choice"})


class ControlRoom(Actions):
    """A screen on a source. Ends with `quit` when the operator asked for it."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [*STYLE_SHEETS]
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings()]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    TITLE = "HiveMind"
    order_kept_s = 8.0
    """So long after the cursor was moved, agents stay in the order in which the operator has read them."""

    def __init__(
        self,
        source: Source,
        *,
        drain_s: float = 30.0,
        plots: PlotProcess | None = None,
        environment: Mapping[str, str] = os.environ,
        driver_class: type[Driver] | None = None,
        start_demo: Callable[[], Awaitable[Source]] | None = None,
        token: bool = False,
        notices: NoticesWanted | None = None,
        folder: Path | None = None,
    ) -> None:
        """`start_demo` starts the demo on request; `token`: agents need one; `notices`: what the terminal is told of
        beside the screen; `folder`: where files go, None: the current directory."""
        # Textual's filter for NO_COLOR makes the terminal's own colours black on black, unless it knows of them now.
        super().__init__(driver_class=driver_class, ansi_color=None if coloured(environment) else True)
        for theme in THEMES:
            self.register_theme(theme)
        self.themes = themes_for(environment)
        self.theme = self.themes[0]
        self.animation_level = "none"
        self.source = source
        self._start_demo = start_demo
        self.folder = folder or Path.cwd()
        self._pace = Pace(wanted_fps(environment))
        self._full_fps = self._pace.wanted
        snapshot = source.snapshot()
        self._greeting = not snapshot.totals.requests
        """Whether the start page is shown until the first request."""
        trail = ("start",) if self._greeting else ("overview",)
        demo, shell = start_demo is not None, shell_of(environment, os.name)
        self.view = View(snapshot, trail=trail, drain_s=drain_s, demo=demo, token=token, shell=shell)
        self._builder = ViewBuilder()
        self._notices = None if notices is None else Notices(notices, environment)
        self.simulation = SimulationProcess()
        self.past = PastProcess()
        self.queue = CommandQueue(self._fresh, self.complain, self._draw_all, self._confirm)
        self._last_tick_s: float | None = None
        self._detail_due_s = self._order_until_s = 0.0
        self._inside = False
        self._reading_back = False
        self._room = Size(0, 0)
        self._board = Board(glyphs_for(environment), plots)
        self.overlay, self.palette = Overlay(id="overlay"), Palette(id="palette")
        self.line = self._board.bottom

    def compose(self) -> ComposeResult:
        yield self._board
        yield self.overlay
        yield self.palette

    def on_mount(self) -> None:
        self._room = self.size
        self.theme_changed_signal.subscribe(self, lambda _theme: self._restyle())
        self._look()
        self._restyle()
        self._board.turn_to(self.view.page)  # now that the layout is known, each change of which styles all panels
        self._draw_all()
        self.set_interval(_TICK_S, self._tick)
        self.run_worker(self.queue.run(), name="commands")
        self.run_worker(self.monitor.timed(self._board.paint(), "panels"), name="panels")

    async def on_unmount(self) -> None:
        await self.close_whatif()
        await self.close_past()

    # --- Looking and drawing ---------------------------------------------------------------------------------------

    def _tick(self) -> None:
        started = time.perf_counter()
        late_s = 0.0 if self._last_tick_s is None else max(0.0, started - self._last_tick_s - _TICK_S)
        self._last_tick_s = started
        if not self._pace.due(started):
            return
        begins = self._board.between_frames
        if begins:
            self._look()
            self.ask_past()
        self._board.draw_turn(self.view)
        if begins:
            self._draw_footer()
        self._pace.drawn(time.perf_counter() - started, late_s)

    def _look(self) -> None:
        last = self.queue.last
        kept = self.view.order_kept if time.monotonic() < self._order_until_s else ()
        view = replace(
            self.view, order_kept=kept, untuned=self.queue.untuned, undoable="" if last is None else last.told
        )
        self.view = self._builder.look(view, self.source)
        if self._inside:
            pace = self._pace
            measured = Diagnostics(self.monitor.report(), pace.fps, pace.wanted, pace.cost_s, memory_mb())
            self.view = replace(self.view, inside=measured)
        self._tell_terminal()
        if self.overlay.is_open:
            self.overlay.draw()
        if self.view.page == "start" and self._greeting and self.view.snapshot.totals.requests:
            self.go(navigation.page(self.view, "overview"))
        if self.view.page == "request" and time.monotonic() >= self._detail_due_s:
            self._request_detail()

    def _tell_terminal(self) -> None:
        driver = self._driver
        if self._notices is None or driver is None:
            return
        if told := self._notices.look(self.source.snapshot() if self.view.frozen else self.view.snapshot):
            driver.write(told)
            if isinstance(driver, LossyDriver):
                driver.at_end = self._notices.at_end

    def _fresh(self) -> View:
        self._look()
        return self.view

    def _request_detail(self) -> None:
        self._detail_due_s = time.monotonic() + _DETAIL_EVERY_S
        self.run_worker(self._fetch_detail(self.view.ticket), group="detail", exclusive=True)

    async def _fetch_detail(self, ticket: int) -> None:
        try:
            detail = await self.source.detail(ticket)
        except Rejected:
            return  # the header shows that the connection is lost; what was shown stays
        if self.view.ticket == ticket:
            self.view = replace(self.view, detail=detail)
            self._board.draw_all(self.view)

    def go(self, view: View) -> None:
        self._greeting = self._greeting and view.page == "start"
        turned = view.page != self.view.page
        others = (view.everywhere, view.machine) != (self.view.everywhere, self.view.machine)
        others = others or view.back is not self.view.back
        if view.order_kept:
            self._order_until_s = time.monotonic() + self.order_kept_s
        self.view = view
        if turned:
            self._board.turn_to(view.page)
        self.view = self._builder.look(view, self.source) if turned or others else self._builder.arrange(view)
        self._read_back()
        if self.view.page == "request" and self.view.detail is None:
            self._request_detail()
        self._draw_all()

    def _read_back(self) -> None:
        """Read older lines of the log from the journal, where its first ones are about to be reached."""
        view = self.view
        if view.page != "log" or view.log_before is None or self._reading_back or view.back.pinned:
            return
        if view.log_sought or (view.log_back and view.log_back >= len(view.log_rows) - self.size.height):
            self._reading_back = True
            self.run_worker(self._fetch_older(), group="older lines")

    async def _fetch_older(self) -> None:
        lines, reached = self.view.log_lines, self.view.log_before
        before = lines[0].at if lines and reached == math.inf else reached
        try:
            found = OlderLines() if before is None else await self.source.older_lines(before)
        except (OSError, UsageError) as error:
            found = OlderLines()
            self.complain(f"the journal can't be read back: {error}")
        finally:
            self._reading_back = False
        now = self.view
        if now.log_lines[:1] == lines[:1]:  # else a recording was moved meanwhile
            self.view = replace(now, log_older=found.lines + now.log_older, log_before=found.before)
            if now.log_sought:
                self._go_on_searching()
            self._draw_all()

    def _go_on_searching(self) -> None:
        """Go to what is searched for if the lines just read have it; else read on, or say how far it wasn't found."""
        view = self.view
        found = navigation.find(view, 1)
        if found is not None:
            self.view = replace(found, log_sought=0)
        elif view.log_before is None:
            self.view = replace(view, log_sought=0)
            self.complain(f"nothing further back has {view.log_search}")
        elif len(view.log_older) >= view.log_sought:
            self.view = replace(view, log_sought=0)
            since = clock(view.log_lines[0].wall)
            self.complain(f"nothing since {since} has {view.log_search}; n goes on")
        else:
            self.view = replace(view, log_sought=view.log_sought - _READ_COUNTS)
            self._read_back()

    def _draw_all(self) -> None:
        self._board.draw_all(self.view)
        self._draw_footer()

    def _draw_footer(self) -> None:
        slow = self._pace.fps < self._pace.wanted
        self._board.draw_footer(self.view, self._room, f"{self._pace.fps:.0f} fps" if slow else "")

    def _restyle(self) -> None:
        self._board.restyle(self.theme_variables, self._room)
        for box in (self.overlay, self.palette):
            if box.is_open:
                box.place(self._board.pen)
        self._draw_all()

    def _confirm(self, commands: Sequence[Command]) -> None:
        if text := confirmation(commands, self.view):
            self.clear_notifications()
            self.notify(text, timeout=3, markup=False)

    def on_resize(self, event: events.Resize) -> None:
        self._room = event.size
        self._restyle()

    def on_app_blur(self) -> None:
        self._pace.want(_BLURRED_FPS)

    def on_app_focus(self) -> None:
        self._pace.want(self._full_fps)

    def on_terminal_back(self, event: TerminalBack) -> None:
        self.action_repaint()
        self.notify(
            f"the terminal didn't read for {short_duration(event.stalled_s)}; the traffic went on", markup=False
        )

    def on_mouse_scroll_down(self) -> None:
        self._wheel(_WHEEL_ROWS)

    def on_mouse_scroll_up(self) -> None:
        self._wheel(-_WHEEL_ROWS)

    def _wheel(self, rows: int) -> None:
        if not self.scroll_modal(rows):
            self.action_move(rows)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Allow actions that apply on the page; while a modal widget is open, only its own."""
        if action in _ANSWERS:
            return self.modal_open
        if not hasattr(type(self), f"action_{action}"):
            return True
        return not self.modal_open and keymap.applies(action, parameters, self.view.page, self.view.live)

    # --- Actions ---------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        pen, view, room = self._board.pen, self.view, self._room

        def everything() -> None:
            self.ask("Every key and sign", dialogs.help_rows(pen, view, room), {})

        self.ask("Help (? again: every key and sign)", dialogs.page_help(pen, view, room), {"?": everything})

    def action_palette(self) -> None:
        self.palette.open(self.choices, self.offers, self._board.pen)

    def action_repaint(self) -> None:
        self.screen.refresh()

    def action_inside(self) -> None:
        self._inside = not self._inside
        self._board.show_inside(self._inside)
        self._draw_all()

    def action_demo(self) -> None:
        if self.view.page != "start":
            return
        if self._start_demo is None:
            self.complain("the demo needs a proxy of its own: `hivemind-tui --demo` starts both")
            return
        self.notify("starting the demo", timeout=2)
        self.run_worker(self._become_demo(self._start_demo), exclusive=True, group="demo")

    async def _become_demo(self, start: Callable[[], Awaitable[Source]]) -> None:
        self._start_demo = None
        self.source = await start()
        self._builder = ViewBuilder()
        if self._notices is not None:
            self._notices.forget()
        fresh = View(self.source.snapshot(), drain_s=self.view.drain_s, shell=self.view.shell)
        self.go(fresh)
