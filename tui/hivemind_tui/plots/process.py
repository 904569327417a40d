"""The client of the plotting process: submits jobs and keeps the newest figure, without waiting."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Callable

import msgspec

from hivemind_tui.loop.child import Child
from hivemind_tui.loop.loop_lag import Monitor
from hivemind_tui.plots.sample import Figure, Job

_log = logging.getLogger(__name__)
_FIGURES = msgspec.msgpack.Decoder(Figure)

_ANSWER_S = 5.0
"""A figure takes 5 to 20 ms; a process that needs longer than this is stuck."""
_COMMAND = (sys.executable, "-P", "-m", "hivemind_tui.plots.plotter")


class PlotProcess:
    """Owns the child: starts it with the first job, and again after a growing pause when it dies. Only the newest job
    counts; without a child there is no figure, because an old one would be mistaken for the present."""

    def __init__(
        self, command: tuple[str, ...] = _COMMAND, restart_s: float = 1.0, monitor: Monitor | None = None
    ) -> None:
        """`monitor` times the task that talks to the child."""
        self.figure: Figure | None = None
        """The newest figure; None until there is one and after the child died."""
        self.pid: int | None = None
        self.on_figure: Callable[[], None] | None = None
        """Called when :attr:`figure` changed."""
        self._command = command
        self._restart_s = restart_s
        self._monitor = monitor
        self._job: Job | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def submit(self, job: Job) -> None:
        """Ask for a figure; a job still waiting is forgotten for it."""
        self._job = job
        self._wanted.set()
        if self._task is None:
            drawing = self._keep_drawing()
            timed = self._monitor.timed(drawing, "plots") if self._monitor else drawing
            self._task = asyncio.create_task(timed, name="hivemind-plots")

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _keep_drawing(self) -> None:
        pause_s = self._restart_s
        while True:
            drawn = await self._life()
            pause_s = self._restart_s if drawn else min(60.0, pause_s * 2)
            self._show(None)
            self._wanted.set()  # the job that was lost, or a newer one
            await asyncio.sleep(pause_s)

    async def _life(self) -> int:
        """Run one child until it dies; return how many figures it drew."""
        drawn = 0
        try:
            child = await Child.start(self._command, _FIGURES)
        except OSError as error:
            _log.warning("the plotting process can't be started: %s", error)
            return drawn
        self.pid = child.process.pid
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                if self._job is not None:
                    async with asyncio.timeout(_ANSWER_S):
                        await child.send(self._job)
                        figure = await child.receive()
                    self._show(figure)
                    drawn += 1
        except (OSError, asyncio.IncompleteReadError, TimeoutError, msgspec.DecodeError) as error:
            _log.warning("the plotting process is gone (%s); starting another", type(error).__name__)
            return drawn
        finally:
            self.pid = None
            await child.kill()

    def _show(self, figure: Figure | None) -> None:
        self.figure = figure
        if self.on_figure is not None:
            self.on_figure()
