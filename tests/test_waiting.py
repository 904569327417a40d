from __future__ import annotations

import asyncio

import pytest

from hivemind.waiting import wait_up_to


async def test_an_end_that_comes_with_the_event() -> None:
    """It isn't lost: whoever ends a task waits for it."""
    event = asyncio.Event()
    task = asyncio.create_task(wait_up_to(event, 60.0))
    for _ in range(3):
        await asyncio.sleep(0)
    event.set()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
