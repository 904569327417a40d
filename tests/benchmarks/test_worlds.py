"""Worlds drawn from seeds: what their providers do, and that a seed gives the same world."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.worlds.server import Server, Speed
from hivemind.lab.simulate.clock import run_virtual


def served(speed: Speed, *works: tuple[float, float], places: int = 0) -> list[float]:
    """Return when requests are served that come at these times with so much work."""

    async def main() -> list[float]:
        server = Server(speed, places=places)
        loop = asyncio.get_running_loop()

        async def one(at: float, work_s: float) -> float:
            await asyncio.sleep(at)
            async with server.place():
                await server.work(work_s)
            return loop.time()

        return await asyncio.gather(*(one(at, work_s) for at, work_s in works))

    return run_virtual(main())


def test_speed_is_shared_over_the_whole_life() -> None:
    """Two that share a speed of 1 take twice as long while both are there."""

    def shared(at: float, active: int) -> float:
        return 1 / max(1, active)

    assert served(shared, (0.0, 2.0), (1.0, 1.0)) == pytest.approx([3.0, 3.0])
    assert served(shared, (0.0, 1.0), (5.0, 1.0)) == pytest.approx([1.0, 6.0])


def test_a_client_that_leaves_gives_its_place_back() -> None:
    """In service as in the queue."""

    async def main() -> int:
        server = Server(lambda at, active: 1.0, places=1)

        async def one() -> None:
            async with server.place():
                await server.work(10.0)

        tasks = [asyncio.create_task(one()) for _ in range(3)]
        await asyncio.sleep(1.0)
        tasks[0].cancel()
        tasks[1].cancel()
        await asyncio.sleep(1.0)
        assert server.active == 1
        await tasks[2]
        return server.active

    assert run_virtual(main()) == 0
