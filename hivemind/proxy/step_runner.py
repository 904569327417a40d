"""Cooperative long work on the event loop: one step of one piece of work in each turn of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


class StepRunner:
    """Runs long work step by step. Shared, so that a turn of the loop takes no longer however much work there is."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # fair: the longest waiter is next

    async def run(self, work: Generator[None, None, T]) -> T:
        """Do the work, yielding after each step, and return its result. Work of a single step is done at once,
        unless other work waits."""
        if self._lock.locked():
            await self.yield_to_others()
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            await self.yield_to_others()

    async def yield_to_others(self) -> None:
        """Let everything else on the loop run first."""
        async with self._lock:
            await asyncio.sleep(0)
