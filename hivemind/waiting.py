"""Waiting that ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from typing import Any


async def wait_up_to(event: asyncio.Event, within_s: float | None) -> None:
    """Wait for an event, but no longer than so many seconds; None: without an end.

    Unlike `asyncio.wait_for`, which before Python 3.12 may lose a cancellation that comes together with the event.
    """
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(within_s):
            await event.wait()


async def cancel_all(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks and wait until they have ended, whatever they end with."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
