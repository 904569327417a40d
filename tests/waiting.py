"""Waiting for what a thread, a process or another task brings about, and no event tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(reached: Callable[[], object], patience_s: float = 120.0) -> None:
    """Wait until it is so. Raises TimeoutError if it never is."""
    async with asyncio.timeout(patience_s):
        while not reached():  # noqa: ASYNC110
            await asyncio.sleep(0.001)
