"""The client of the plotting process: submits jobs and keeps the newest figure, without waiting."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable

import msgspec

from hivemind_tui.loop.child import AskedProcess
from hivemind_tui.loop.loop_lag import Monitor
from hivemind_tui.plots.sample import Figure, Job

_ANSWER_S = 5.0
"""A figure takes 5 to 20 ms; a process that needs longer than this is stuck."""
_COMMAND = (sys.executable, "-P", "-m", "hivemind_tui.plots.plotter")


class PlotProcess:
    """Has a child draw: with the first job, and in another child after a growing pause when it dies. Only the newest
    job counts; without a child there is no figure, because an old one would be mistaken for the present."""

    def __init__(
        self, command: tuple[str, ...] = _COMMAND, restart_s: float = 1.0, monitor: Monitor | None = None
    ) -> None:
        """`monitor` times the task that talks to the child."""
        self.figure: Figure | None = None
        """The newest figure; None until there is one and after the child died."""
        self.on_figure: Callable[[], None] | None = None
        """Called when :attr:`figure` changed."""
        self._child: AskedProcess[Job, Figure] = AskedProcess(
            command, msgspec.msgpack.Decoder(Figure), (), lambda _: Figure(0, 0, []), "the curves"
        )
        self._restart_s = restart_s
        self._monitor = monitor
        self._job: Job | None = None
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The child's; None: there is none."""
        return None if self._child.process is None else self._child.process.pid

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
        await self._child.aclose()

    async def _keep_drawing(self) -> None:
        pause_s = self._restart_s
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._job is None:
                continue
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self._child.ask(self._job, self._show)
            except TimeoutError:
                self._show(None)
            if self.figure is None:
                self._wanted.set()  # the job that was lost, or a newer one
                await asyncio.sleep(pause_s)
                pause_s = min(60.0, pause_s * 2)
            else:
                pause_s = self._restart_s

    def _show(self, figure: Figure | None) -> None:
        self.figure = figure if figure is not None and figure.rows else None
        if self.on_figure is not None:
            self.on_figure()
