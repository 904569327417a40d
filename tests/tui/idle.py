"""Waiting until a screen under test has dealt with everything, without looking at a clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

_MOST_TURNS = 100_000
"""Turns of the loop after which a screen that never comes to rest fails its test."""


async def idle(*_sleeps: float) -> None:
    """Wait until the event loop has nothing left to run: what remains waits for a timer, a thread or a socket.

    Replaces `textual._wait.wait_for_idle`, which sleeps 20 ms at a time until the process uses little CPU. Only
    asyncio's own loop is supported, because uvloop doesn't show what is ready.
    """
    loop: Any = asyncio.get_running_loop()
    for _ in range(_MOST_TURNS):
        await asyncio.sleep(0)
        if not loop._ready:
            return
    raise AssertionError("the event loop is never idle")


async def until(reached: Callable[[], bool], patience_s: float = 60.0) -> None:
    """Wait for a condition that a thread, a process or a timer brings about. Raises TimeoutError if it never does."""
    async with asyncio.timeout(patience_s):
        while not reached():  # noqa: ASYNC110 - other threads and processes set no event here
            await asyncio.sleep(0.001)
