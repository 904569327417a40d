"""Long work on the event loop, in steps: one step of one piece of work, then everybody else, then the next one's."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")


class Turns:
    """Shared by all that has long work, so that no turn of the loop takes longer the more of them there are."""

    __slots__ = ("_turn",)

    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # fair: whoever has waited longest is next

    async def run(self, work: Generator[None, None, T]) -> T:
        """Do it, giving way at each of its steps. Returns what it returns. Work of a single step is done at once,
        unless other work waits for its turn."""
        if self._turn.locked():
            await self.give_way()
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            await self.give_way()

    async def give_way(self) -> None:
        """Until everybody else had a turn."""
        async with self._turn:
            await asyncio.sleep(0)
