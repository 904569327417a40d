"""Makes the screens of a program, one after the other where one fails. Importing this imports Textual."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import new_class
from typing import cast

import msgspec
from textual.driver import Driver

from hivemind.records import replace
from hivemind_tui.app import ControlRoom
from hivemind_tui.keys import keymap
from hivemind_tui.loop.gc_pacing import Collector
from hivemind_tui.loop.loop_lag import Monitor
from hivemind_tui.loop.lossy_driver import LossyDriver
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.program.supervisor import MakeScreen
from hivemind_tui.render.notices import NoticesWanted
from hivemind_tui.sources.base import Source
from hivemind_tui.state.lists import SortOrder


class Screens:
    """What outlives the single screen: the plotting process, the monitor, and the choice of a driver."""

    def __init__(
        self, *, drain_s: float, token: bool, collector: Collector, first_frame: asyncio.Event, notices: NoticesWanted
    ) -> None:
        """`token`: agents must show one; `first_frame` is set when there is one."""
        self._notices = notices
        self.monitor = Monitor()
        self.start_demo: Callable[[], Awaitable[Source]] | None = None
        """Starts the demo where the operator asks for it; None where it isn't offered."""
        self.driver: type[Driver] | None = None
        """In place of a terminal's."""
        self._room: ControlRoom | None = None
        """The last one made."""
        self.rebound = False
        """Keys have been changed since the classes of screens were made."""
        self.order = SortOrder()
        """Of the agents at first."""
        self._drain_s = drain_s
        self._token = token
        self._collector = collector
        self._first_frame = first_frame
        self.plots = PlotProcess(monitor=self.monitor)

    def on(self, source: Source) -> MakeScreen:
        """Return the function that makes a screen on this source."""
        self._source = source
        return self._make

    def write_report(self, file: Path) -> None:
        """Write the monitor's report as JSON. Raises: OSError."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self.monitor.report()), indent=2) + b"\n")

    @property
    def chosen_theme(self) -> str:
        """The theme that the operator has turned to; empty: none."""
        room = self._room
        return "" if room is None or room.theme == room.themes[0] else room.theme.removeprefix("hivemind-")

    def _make(self) -> ControlRoom:
        gc.unfreeze()  # what an ended screen leaves behind is full of cycles
        make: type[ControlRoom] = ControlRoom
        if self._source.link.kind == "replay":
            from hivemind_tui.replay_app import ReplayRoom

            make = ReplayRoom
        if self.rebound:
            # Textual reads the keys of a class when that is made, and its keymaps know nothing of pages.
            own = {"BINDINGS": keymap.bindings()}
            made = new_class(make.__name__, (make,), {"inherit_bindings": False}, lambda body: body.update(own))
            make = cast(type[ControlRoom], made)
        room = make(
            self._source,
            drain_s=self._drain_s,
            token=self._token,
            notices=None if self._source.link.kind == "replay" else self._notices,
            plots=self.plots,
            driver_class=self.driver or LossyDriver,
            start_demo=self._begin_demo if self.start_demo is not None else None,
        )
        room.has_terminal = self.driver is None
        if self._room is not None and self._room.aside:
            room.view, room.theme = self._room.view, self._room.theme
        else:
            room.view = replace(room.view, agents_order=self.order)
        room.monitor, room.on_first_frame = self.monitor, self._on_first_frame
        self._room = room
        return room

    async def _begin_demo(self) -> Source:
        assert self.start_demo is not None
        self._source, self.start_demo = await self.start_demo(), None
        return self._source

    def _on_first_frame(self) -> None:
        self._collector.settle()
        self._first_frame.set()
