"""How often the scheduler hears of a stream."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import cast

import pytest

from hivemind.lab.simulate.clock import run_virtual
from hivemind.providers.base import TapState
from hivemind.proxy.streaming import TURN_S, TURNS, ProgressReport, ProgressReporter, StreamProgress
from hivemind.scheduler.ticket import Ticket


def stream() -> StreamProgress:
    """Of a request that nothing but its identity is asked of."""
    return StreamProgress(cast(Ticket, object()), TapState(), unmetered=False)


class Heard:
    """What was reported, and when, in seconds."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self.reports: list[tuple[float, list[Ticket]]] = []

    def __call__(self, reports: list[ProgressReport]) -> None:
        at = round(asyncio.get_running_loop().time() - self._began, 2)
        self.reports.append((at, [ticket for ticket, _, _ in reports]))

    def times_of(self, stream: StreamProgress) -> list[float]:
        return [at for at, tickets in self.reports if stream.ticket in tickets]


def test_once_in_a_round_at_most() -> None:
    """However much comes; nothing while nothing comes, and what came before a silence within a round."""

    async def main() -> None:
        heard = Heard()
        reporter, one = ProgressReporter(heard), stream()
        reporter.add(one)
        round_s = TURNS * TURN_S
        for gap_s, times in ((TURN_S, 5 * TURNS), (10 * round_s, 1)):
            for _ in range(times):
                await asyncio.sleep(gap_s)
                one.has_news = True
        await asyncio.sleep(10 * round_s)
        times_s = heard.times_of(one)
        gaps_s = [after - before for before, after in pairwise(times_s)]
        assert gaps_s == pytest.approx([round_s] * 5 + [10 * round_s])
        reporter.discard(one)

    run_virtual(main())


def test_after_the_end() -> None:
    """Nothing is, and no timer runs once all streams have ended."""

    async def main() -> None:
        heard = Heard()
        reporter, one = ProgressReporter(heard), stream()
        reporter.add(one)
        one.has_news = True
        reporter.discard(one)
        reporter.discard(one)
        await asyncio.sleep(10)
        assert not heard.reports
        assert len(asyncio.all_tasks()) == 1
        reporter.add(one)
        await asyncio.sleep(1.5 * TURNS * TURN_S)
        assert len(heard.times_of(one)) == 1, "it goes on with the next stream"
        reporter.discard(one)

    run_virtual(main())


def test_streams_are_spread() -> None:
    """Each is reported on once in a round, and the same number at a time."""

    async def main() -> None:
        heard = Heard()
        reporter, streams = ProgressReporter(heard), [stream() for _ in range(10 * TURNS)]
        for each in streams:
            reporter.add(each)
        for _ in range(5 * TURNS):
            for each in streams:
                each.has_news = True
            await asyncio.sleep(TURN_S)
        assert {len(heard.times_of(each)) for each in streams} <= {4, 5}
        assert {len(tickets) for _, tickets in heard.reports} == {10}
        for each in streams:
            reporter.discard(each)

    run_virtual(main())
