"""An event loop whose clock jumps to the next timer, so that ten minutes of waiting take no time at all.

Everything that reads time from the running loop (`asyncio.sleep`, `asyncio.timeout`, `loop.call_at`) works unchanged.
The clock jumps only while nothing outside the loop can call back. As long as a socket is watched or a job runs in an
executor, time passes at its real pace, so real I/O never loses a race against a timer that jumped ahead of it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import math
import selectors
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

_RESOLUTION_S = 1e-7
"""Timers this close to now are due. Coarser than the loop's own nanosecond, which a float can't add to a clock that
shows more than some months: the loop would spin on a timer that is never quite due."""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Stalled(RuntimeError):
    """Every task waits and nothing can ever wake one: a deadlock in the program under test."""


class _JumpingSelector(selectors.DefaultSelector):
    """Tells its loop how long it would have slept instead of sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.jobs = 0
        """Running jobs of executors."""
        self.own_files = 0
        """Files that the loop itself watches."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        outside = self.jobs > 0 or len(self.get_map()) > self.own_files
        if outside or (timeout is None and threading.active_count() > 1):
            started = time.monotonic()
            ready = super().select(timeout)
            self.now += time.monotonic() - started
            return ready
        if timeout is None:
            raise Stalled("every task waits for something that can't happen any more")
        # nextafter: however small the step, the clock moves, so the loop can't spin on a rounding error.
        self.now = max(self.now + timeout, math.nextafter(self.now, math.inf))
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time, which starts at 0. The order of callbacks is that of their timers alone."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        super().__init__(self._clock)
        self._clock_resolution = _RESOLUTION_S
        self._clock.own_files = len(self._clock.get_map())

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(
        self, executor: concurrent.futures.Executor | None, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self._clock.jobs += 1
        future.add_done_callback(self._job_done)
        return future

    async def shutdown_default_executor(self, *timeout: float) -> None:
        """Do as the base class; its time limit (Python 3.12) doesn't jump ahead of the threads it waits for."""
        self._clock.jobs += 1
        try:
            await super().shutdown_default_executor(*timeout)
        finally:
            self._clock.jobs -= 1

    def _job_done(self, _: asyncio.Future[Any]) -> None:
        self._clock.jobs -= 1


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on virtual time and return its result.

    Raises: Stalled, and whatever the coroutine raises.
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
