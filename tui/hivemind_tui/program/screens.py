"""Makes the screens of a program, one after the other where one fails. Importing this imports Textual."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from hivemind_tui.app import ControlRoom
from hivemind_tui.loop.gc_pacing import Collector
from hivemind_tui.loop.loop_lag import Monitor
from hivemind_tui.loop.lossy_driver import driver_class
from hivemind_tui.plots.process import PlotProcess
from hivemind_tui.program.supervisor import MakeScreen
from hivemind_tui.sources.base import Source


class Screens:
    """What outlives the single screen: the plotting process, the monitor, and the choice of a driver."""

    def __init__(self, *, drain_s: float, token: bool, collector: Collector, up: asyncio.Event) -> None:
        """`token`: agents must show one; `up` is set when there is a first frame."""
        self.monitor = Monitor()
        self._drain_s = drain_s
        self._token = token
        self._collector = collector
        self._up = up
        self.start_demo: Callable[[], Awaitable[Source]] | None = None
        """Brings up the demo where the operator asks for it; None where it isn't offered."""
        self._plots = PlotProcess(monitor=self.monitor)
        self._driver = driver_class()

    def on(self, source: Source) -> MakeScreen:
        """How a screen on this source is made."""
        self._source = source
        return self._make

    def write_report(self, file: Path) -> None:
        """What the monitor saw, as JSON. Raises: OSError."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self.monitor.report()), indent=2) + b"\n")

    async def aclose(self) -> None:
        """End what they share."""
        await self._plots.aclose()

    def _make(self) -> ControlRoom:
        self._collector.loosen()
        room = self._room()(
            self._source,
            drain_s=self._drain_s,
            token=self._token,
            plots=self._plots,
            driver_class=self._driver,
            start_demo=self._begin_demo if self.start_demo is not None else None,
        )
        room.monitor, room.on_first_frame = self.monitor, self._first_frame
        return room

    def _room(self) -> Callable[..., ControlRoom]:
        if self._source.link.kind != "replay":
            return ControlRoom
        from hivemind_tui.replay_app import ReplayRoom

        return ReplayRoom

    async def _begin_demo(self) -> Source:
        """From now on that is what screens show, one drawn anew too."""
        assert self.start_demo is not None
        self._source, self.start_demo = await self.start_demo(), None
        return self._source

    def _first_frame(self) -> None:
        self._collector.settle()
        self._up.set()
