"""Worlds drawn from seeds: what their providers do, and that a seed gives the same world."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from benchmarks.worlds.kinds import KINDS, kinds_of
from benchmarks.worlds.server import Server, Speed
from benchmarks.worlds.world import run, shortened, world
from hivemind.lab.simulate.clock import run_virtual
from hivemind.lab.simulate.recording import load


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


def test_a_seed_is_a_world(tmp_path: Path) -> None:
    """The same seed and luck give the same run; another luck gives another one."""
    walls = []
    for name, luck in (("a", 1), ("b", 1), ("c", 2)):
        path = tmp_path / f"{name}.jsonl"
        run(shortened(world(8)), luck, path=path)
        walls.append(load(path).figures.wall_s)
    assert walls[0] == walls[1] != walls[2]
    assert {kind for seed in range(len(KINDS)) for kind in kinds_of(seed)} == set(KINDS)
    assert len(world(3).changes) == 3
