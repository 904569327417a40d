"""The engine: what a request waits for under leases, and who is told of what, and when."""

from __future__ import annotations

import asyncio

from proxy.kit import Running, between, client
from proxy.wire import http

from hivemind.scheduler.lease import Lease, LeaseState
from hivemind.scheduler.types import Request, WindowKind

ANSWER = http(200, {"usage": {"input_tokens": 3, "output_tokens": 4}})


async def ask(running: Running) -> int:
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
    async with client() as web:
        return (await web.post(f"{running.url}/v1/messages", json=body)).status_code


async def test_a_request_waits_for_its_lease() -> None:
    """The lane is told of, a sync is asked for, and what is leased lets requests through."""
    async with between([ANSWER], rpm=60) as (running, upstream):
        engine = running.proxy.engine
        opened: list[str] = []
        short: list[str] = []
        engine.need_leases()
        engine.hooks.lane_opened = lambda key, config: opened.append(key)
        engine.hooks.lease_short = short.append
        first = asyncio.create_task(ask(running))
        await running.until(lambda snapshot: bool(snapshot.queue))
        (lane,) = opened
        assert short == [lane]
        assert running.snapshot().queue[0].gate == "fleet"
        report = engine.lease_report(lane)
        assert report is not None
        assert report.waiting == [0, 0, 1, 0]
        ((family, kind), _), *_ = report.windows.items()
        assert kind is WindowKind.REQUESTS
        lease = Lease(LeaseState.LEASED, slots=4, level=8, members=2, credits={(family, kind): 1.0})
        engine.take_lease(lane, lease)
        assert await first == 200
        assert len(upstream.requests) == 1
        second = asyncio.create_task(ask(running))
        await running.until(lambda snapshot: bool(snapshot.queue) and snapshot.queue[0].gate == "credits")
        assert short == [lane, lane]
        assert len(upstream.requests) == 1
        engine.take_lease(lane, lease)
        assert await second == 200


async def test_what_comes_together_is_published_together() -> None:
    """At the end of the turn, or before it where somebody looks; alone at once."""
    async with between([ANSWER]) as (running, _):
        assert await ask(running) == 200
        engine, told = running.proxy.engine, list[int]()
        asked = Request("a", running.snapshot().lanes[0].state.lane, "m", "m", 9, 9, False)
        engine.hooks.record = lambda events: told.append(len(events))
        alone = engine.arrive(asked)
        engine.batches = True
        first, second = engine.arrive(asked), engine.arrive(asked)
        assert told == [1]
        await asyncio.sleep(0)  # to the end of the turn
        assert told == [1, 2]
        for each in (alone, first, second):
            engine.succeed(each, 200, None)
        assert len(engine.world.requests(0, engine.now()).changed) == 4
        assert told == [1, 2, 3]
