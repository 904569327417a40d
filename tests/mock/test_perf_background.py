"""Traffic like the demo's."""

from __future__ import annotations

import asyncio

import pytest
from mock.test_perf_load import scripted, upstream

from benchmarks.perf import background, wire
from benchmarks.perf.background import working
from benchmarks.perf.target import PerfError


async def test_agents_ask_again_when_they_have_thought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each reads a stream to its end, and then another, until the context is left."""
    monkeypatch.setattr(background, "_ANSWER", wire.Pace(2, 0.001))
    monkeypatch.setattr(background, "_THINK_S", 0.001)
    monkeypatch.setattr(background, "_ONE_AFTER_THE_OTHER_S", 0.001)
    ends: dict[str, int] = {}
    thrice = asyncio.Event()
    once = background._Agent.on_message_complete

    def counted(agent: background._Agent) -> None:
        name = str(id(agent))
        ends[name] = ends.get(name, 0) + 1
        if len(ends) == 2 and min(ends.values()) >= 3:
            thrice.set()
        once(agent)

    monkeypatch.setattr(background._Agent, "on_message_complete", counted)
    async with asyncio.timeout(30.0), upstream() as target, working(target, 2):
        await thrice.wait()


async def test_an_agent_that_cannot_work_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured beside it would be worth nothing."""
    refused = asyncio.Event()
    fail = background._Agent.fail

    def failed(agent: background._Agent, what: str) -> None:
        fail(agent, what)
        refused.set()

    monkeypatch.setattr(background._Agent, "fail", failed)
    async with scripted(b"HTTP/1.1 529 Overloaded\r\ncontent-length: 0\r\n\r\n") as target:
        with pytest.raises(PerfError, match="scripted answered 529"):
            async with working(target, 1):
                await refused.wait()
