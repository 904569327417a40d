"""The control room's screen: polls a source, hands the panels what they show, and turns keys into commands."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.driver import Driver
from textual.geometry import Size

from hivemind.scheduler.commands import Command, Rejected, SetCircuit
from hivemind_styles import STYLE_SHEETS
from hivemind_styles.themes import THEMES

from . import dialogs, keymap
from .board import Board
from .driver import TerminalBack
from .format import clean, seconds
from .glyphs import glyphs_for
from .guest import GuestApp
from .intents import INTENTS
from .pace import Pace, wanted_fps
from .plots.process import PlotProcess
from .source import Source
from .view import View
from .widgets.overlay import Overlay

_TICK_S = 1 / 16
_BLURRED_FPS = 1.0


class ControlRoom(GuestApp):
    """One screen on one source. Ends with `quit` when the operator asked for it."""

    CSS_PATH: ClassVar[list[str | PurePath]] = [*STYLE_SHEETS]
    BINDINGS: ClassVar[list[BindingType]] = [*keymap.bindings()]
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    TITLE = "HiveMind"

    def __init__(
        self,
        source: Source,
        *,
        drain_s: float = 30.0,
        plots: PlotProcess | None = None,
        environment: Mapping[str, str] = os.environ,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = THEMES[0].name
        self.animation_level = "none"
        self._source = source
        self._drain_s = drain_s
        self._pace = Pace(wanted_fps(environment))
        self._full_fps = self._pace.wanted
        self._view = View(source.snapshot())
        self._last_tick_s: float | None = None
        self._room = Size(0, 0)
        self._board = Board(glyphs_for(environment), plots)
        self._overlay = Overlay(id="overlay")

    def compose(self) -> ComposeResult:
        """The board, and the overlay over it."""
        yield self._board
        yield self._overlay

    def on_mount(self) -> None:
        """Begin to poll."""
        self._room = self.size
        self.theme_changed_signal.subscribe(self, lambda _theme: self._restyle())
        self._restyle()
        self.set_interval(_TICK_S, self._tick)

    def _tick(self) -> None:
        started = time.perf_counter()
        late_s = 0.0 if self._last_tick_s is None else max(0.0, started - self._last_tick_s - _TICK_S)
        self._last_tick_s = started
        if not self._pace.due(started):
            return
        self._look()
        self._board.draw_turn(self._view)
        self._draw_footer()
        self._pace.drawn(time.perf_counter() - started, late_s)

    def _look(self) -> None:
        if not self._view.frozen:
            self._view = replace(self._view, snapshot=self._source.snapshot())

    def _draw_all(self) -> None:
        self._board.draw_all(self._view)
        self._draw_footer()

    def _draw_footer(self) -> None:
        slow = self._pace.fps < self._pace.wanted
        self._board.draw_footer(self._room, f"screen at {self._pace.fps:.0f} fps" if slow else "")

    def _restyle(self) -> None:
        self._board.restyle(self.theme_variables, self._room)
        self._overlay.close()
        self._draw_all()

    def on_resize(self, event: events.Resize) -> None:
        """Another layout may fit now."""
        self._room = event.size
        self._restyle()

    def on_app_blur(self) -> None:
        """Nobody looks: once a second will do."""
        self._pace.want(_BLURRED_FPS)

    def on_app_focus(self) -> None:
        """Somebody looks again."""
        self._pace.want(self._full_fps)

    def on_terminal_back(self, event: TerminalBack) -> None:
        """Frames were dropped, so everything is painted anew."""
        self.action_repaint()
        self.notify(f"the terminal didn't read for {seconds(event.stalled_s)}; the traffic went on", markup=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the overlay is open, keys are its own."""
        return not self._overlay.is_open or not hasattr(ControlRoom, f"action_{action}")

    def _command(self, intent: Callable[[], Command]) -> None:
        try:
            self._source.apply(intent(), "you")
        except Rejected as rejected:
            self.notify(clean(str(rejected)), severity="warning", timeout=4, markup=False)
            return
        self._look()
        self._draw_all()

    def action_tell(self, intent: str, *arguments: int) -> None:
        """Tell the source what a key means at this moment."""
        self._command(lambda: INTENTS[intent](self._view, *arguments))

    def action_circuit(self) -> None:
        lane = self._view.lane.state.lane if self._view.lane else None
        title, rows = dialogs.circuit_menu(self._view)

        choices = {
            key: partial(self._command, partial(SetCircuit, mode, lane)) for key, mode in dialogs.CIRCUIT_MODES.items()
        }
        self._overlay.open(title, rows, self._board.ink, choices)

    def action_move(self, step: int) -> None:
        names = [agent.name for agent in self._view.snapshot.agents]
        if self._view.agent is not None:
            index = names.index(self._view.agent.name)
            self._select(names[min(len(names) - 1, max(0, index + step))])

    def action_edge(self, index: int) -> None:
        if self._view.snapshot.agents:
            self._select(self._view.snapshot.agents[index].name)

    def _select(self, name: str) -> None:
        self._view = replace(self._view, selected=name)
        self._draw_all()

    def action_lane(self, step: int) -> None:
        self._view = replace(self._view, lane_index=self._view.lane_index + step)
        self._draw_all()

    def action_freeze(self) -> None:
        self._view = replace(self._view, frozen=not self._view.frozen)
        self._draw_all()

    def action_help(self) -> None:
        self._overlay.open("Help", dialogs.help_rows(self._board.ink), self._board.ink)

    def action_theme(self) -> None:
        themes = [theme.name for theme in THEMES]
        self.theme = themes[(themes.index(self.theme) + 1) % len(themes)]

    def action_repaint(self) -> None:
        self.screen.refresh()

    def action_leave(self) -> None:
        now = self._source.snapshot()
        flying, queued = len(now.slots), now.queued
        leave = partial(self.exit, "quit")
        if not flying and not queued:
            leave()
            return
        rows = dialogs.quit_question(flying, queued, self._drain_s)
        self._overlay.open("Quit?", rows, self._board.ink, dict.fromkeys(("y", "ctrl+c", "ctrl+q"), leave))
