"""Waiting for what a thread, a process or another task brings about, and no event tells."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable


async def until(reached: Callable[[], object], patience_s: float = 120.0) -> None:
    """Wait until it is so. Raises TimeoutError if it never is."""
    async with asyncio.timeout(patience_s):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


class Turns:
    """Of what is counted as `now`, the `most` in one turn of the event loop, and in how many `turns` there was some."""

    def __init__(self) -> None:
        self.most = self.turns = self.now = 0

    @contextlib.asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        async def tick() -> None:
            while True:
                await asyncio.sleep(0)
                self.most, self.turns, self.now = max(self.most, self.now), self.turns + (self.now > 0), 0

        ticking = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticking.cancel()
