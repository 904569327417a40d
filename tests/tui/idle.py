"""Waiting until a screen under test has dealt with everything, without looking at a clock."""

from __future__ import annotations

import asyncio
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
