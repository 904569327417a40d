"""Long work in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from hivemind.proxy.asgi import StepRunner


async def test_one_step_in_a_turn_of_the_loop() -> None:
    """Each piece of work gets on as fast as any other, and no two have a step in one turn of the loop."""
    done: list[tuple[int, int]] = []
    now = 0

    def work(name: int) -> Generator[None, None, int]:
        for _ in range(5):
            done.append((now, name))
            yield
        return name

    async def tick() -> None:
        nonlocal now
        while True:
            now += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(tick())
    turns = StepRunner()
    assert await asyncio.gather(*(turns.run(work(name)) for name in range(4))) == [0, 1, 2, 3]
    ticking.cancel()
    assert len({at for at, _ in done}) == len(done) == 20
    assert {name for _, name in done[:7]} == {name for _, name in done[-7:]} == {0, 1, 2, 3}


async def test_work_of_one_step_is_done_at_once() -> None:
    """It costs no turn of the loop."""

    def work() -> Generator[None, None, str]:
        yield from ()
        return "done"

    running = StepRunner().run(work())
    with pytest.raises(StopIteration, match="done"):
        running.send(None)


async def test_who_leaves_is_not_waited_for() -> None:
    """Work that is cancelled while others wait gives its turn up."""
    turns = StepRunner()

    def endless() -> Generator[None, None, None]:
        while True:
            yield

    def short() -> Generator[None, None, int]:
        yield
        yield
        return 7

    leaving = asyncio.create_task(turns.run(endless()))
    await asyncio.sleep(0)
    staying = asyncio.create_task(turns.run(short()))
    await asyncio.sleep(0)
    leaving.cancel()
    assert await asyncio.wait_for(staying, 60) == 7
