from __future__ import annotations

import asyncio

import pytest

from hivemind.waiting import cancel_all, wait_up_to


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


async def test_tasks_that_are_cancelled() -> None:
    """All have ended, also one that ends well when it is cancelled, or before."""

    async def staying() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return "stayed"

    over = asyncio.create_task(asyncio.sleep(0, "over"))
    await over
    tasks = [asyncio.create_task(asyncio.Event().wait()), asyncio.create_task(staying()), over]
    await asyncio.sleep(0)
    await cancel_all(tasks)
    assert (tasks[0].cancelled(), tasks[1].result(), over.result()) == (True, "stayed", "over")
    await cancel_all([])
