"""The demo, started from the first screen rather than from the command line."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

from hivemind.world.snapshot import Snapshot
from hivemind_tui.sources.base import Local

if TYPE_CHECKING:
    from hivemind.host.proxy import Proxy
    from hivemind_tui.sources.demo import DemoWorld

Start = Callable[[], Awaitable[tuple["Proxy", "DemoWorld"]]]


class DemoLater:
    """A demo that may be asked for once, and what became of it."""

    def __init__(self, start: Start, drain_s: float, file: Path) -> None:
        self.world: DemoWorld | None = None
        """None until it was asked for."""
        self._start = start
        self._drain_s = drain_s
        self._file = file
        self._proxy: Proxy | None = None

    async def start(self) -> Local:
        """Bring it up. Returns its proxy as something to look at."""
        self._proxy, self.world = await self._start()
        return Local(self._proxy, self._file)

    async def finished(self) -> Snapshot | None:
        """End its agents and let what is in flight finish; the world as it was then, None where there was none."""
        if self._proxy is None or self.world is None:
            return None
        snapshot = self._proxy.snapshot()
        await self.world.dismiss()
        await self._proxy.drain(self._drain_s)
        return snapshot
