"""Waiting that ends."""

from __future__ import annotations

import asyncio
import contextlib


async def wait_up_to(event: asyncio.Event, within_s: float | None) -> None:
    """Wait for an event, but no longer than so many seconds; None: without an end.

    Unlike `asyncio.wait_for`, which before Python 3.12 may lose a cancellation that comes together with the event.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()
