"""How often the scheduler hears of a stream."""

from __future__ import annotations

import asyncio

from hivemind.lab.simulate.clock import run_virtual
from hivemind.proxy.streaming import ProgressReporter


def told(*gaps_s: float) -> list[float]:
    """When it is told, in seconds, of content that comes with these gaps between."""

    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        began, moments = loop.time(), list[float]()
        telling = ProgressReporter(lambda: moments.append(round(loop.time() - began, 3)))
        for gap_s in gaps_s:
            await asyncio.sleep(gap_s)
            telling.content()
        await asyncio.sleep(10)
        return moments

    return run_virtual(main())


def test_twice_a_second_at_most() -> None:
    """However much comes."""
    assert told(*[0.3] * 6) == [0.8, 1.4, 2.0]


def test_content_before_a_silence() -> None:
    """It is told within half a second, and once, however long nothing more comes."""
    assert told(0.0, 0.2, 5.0) == [0.5, 5.7]


def test_after_the_end() -> None:
    """Nothing is."""

    async def main() -> None:
        telling = ProgressReporter(lambda: moments.append("told"))
        telling.content()
        telling.stop()
        telling.stop()
        await asyncio.sleep(10)

    moments: list[str] = []
    run_virtual(main())
    assert moments == []
