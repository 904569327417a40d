"""A stream on its way from the upstream's connection to the client's, without a task in between."""

from __future__ import annotations

import asyncio

from hivemind.providers.base import Steps, Tap
from hivemind.proxy.progress import ProgressReporter
from hivemind.proxy.server_protocol import Cycle
from hivemind.upstream.response import NativeResponse


class Splice:
    """Writes what comes from upstream to one client at once, and has the tap read it."""

    __slots__ = ("_cycle", "_progress", "_response", "_stopped", "_tap")

    def __init__(self, response: NativeResponse, cycle: Cycle, tap: Tap, progress: ProgressReporter) -> None:
        self._response = response
        self._cycle = cycle
        self._tap = tap
        self._progress = progress
        self._stopped: asyncio.Future[Steps | None] | None = None

    async def run(self) -> Steps | None:
        """Pass data on until something must be waited for: the client, which takes nothing; the end of the stream; or
        long work of the tap, which is returned."""
        self._stopped = asyncio.get_running_loop().create_future()
        self._response.watch(self._passed)
        try:
            self._passed()  # what has come meanwhile, or the end
            return await self._stopped
        finally:
            self._response.watch(None)

    def _passed(self) -> None:
        response, cycle, stopped = self._response, self._cycle, self._stopped
        assert stopped is not None
        steps = None
        if data := response.take():
            cycle.pass_on(data)
            steps = self._tap.feed(data)
            self._progress.content()
        if (steps is not None or cycle.flow.write_paused or not response.growing) and not stopped.done():
            stopped.set_result(steps)
            response.watch(None)
