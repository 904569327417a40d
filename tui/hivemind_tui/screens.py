"""Makes the screens of a program, one after the other where one fails. Importing this imports Textual."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from .app import ControlRoom
from .collector import loosen
from .driver import driver_class
from .monitor import Monitor
from .plots.process import PlotProcess
from .source import Source
from .supervisor import MakeScreen


class Screens:
    """What outlives the single screen: the plotting process, the monitor, and the choice of a driver."""

    def __init__(self, *, drain_s: float, on_first_frame: Callable[[], None]) -> None:
        self.monitor = Monitor()
        self._drain_s = drain_s
        self._on_first_frame = on_first_frame
        self._plots = PlotProcess()
        self._driver = driver_class()

    def on(self, source: Source) -> MakeScreen:
        """How a screen on this source is made."""
        return partial(self._make, source)

    def write_report(self, file: Path) -> None:
        """What the monitor saw, as JSON. Raises: OSError."""
        file.write_bytes(msgspec.json.format(msgspec.json.encode(self.monitor.report()), indent=2) + b"\n")

    async def aclose(self) -> None:
        """End what they share."""
        await self._plots.aclose()

    def _make(self, source: Source) -> ControlRoom:
        loosen()
        room = ControlRoom(source, drain_s=self._drain_s, plots=self._plots, driver_class=self._driver)
        room.monitor, room.on_first_frame = self.monitor, self._on_first_frame
        return room
