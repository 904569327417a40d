"""What work used that goes on after its reply is booked once in a whole fleet, over real proxies and a real store."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from proxy.kit import Running, proxying
from proxy.test_work import ALL, asked, in_flight, used
from proxy.wire import http
from redis_server import RedisServer
from upstream.scripted import Handler, Scripted, serving
from waiting import until

from hivemind.fleet.works import AWAY

TOKENS = {"prompt_tokens": 100_000, "completion_tokens": 50_000, "total_tokens": 150_000}
STATED = {"input_tokens": 100_000, "output_tokens": 50_000, "total_tokens": 150_000}
RESPONSE = {"id": "resp_1", "object": "response", "background": True, "output": []}
BATCH = {"id": "batch_1", "object": "batch"}
LINE = {"response": {"status_code": 200, "body": {"model": "gpt-4o", "usage": TOKENS}}}
RUN = {"id": "run_1", "object": "thread.run"}
FILE, DONE = "/v1/files/file-1/content", {**BATCH, "status": "completed", "output_file_id": "file-1"}
KINDS: dict[str, tuple[str, dict[str, Any], dict[str, dict[str, Any]]]] = {
    "a response": (
        "/v1/responses",
        {**RESPONSE, "status": "queued"},
        {"/v1/responses/resp_1": {**RESPONSE, "status": "completed", "usage": STATED}},
    ),
    "a run, which doesn't say that it is in the background": (
        "/v1/threads/t/runs",
        {**RUN, "status": "queued"},
        {"/v1/threads/t/runs/run_1": {**RUN, "status": "completed", "usage": TOKENS}},
    ),
    "a batch, by its file and by itself": (
        "/v1/batches",
        {**BATCH, "status": "in_progress"},
        {"/v1/batches/batch_1": {**DONE, "model": "gpt-4o", "usage": STATED}, FILE: LINE},
    ),
}


def answering(begun: dict[str, Any], ends: dict[str, dict[str, Any]]) -> Handler:
    """An upstream that knows one piece of work, which has ended when it is asked for."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            target = (await script.request(reader)).split(b" ")[1].decode()
            writer.write(http(200, ends.get(target, begun)))
            await writer.drain()

    return handle


@contextlib.asynccontextmanager
async def two(server: RedisServer, kind: str) -> AsyncIterator[tuple[Running, Running, list[str]]]:
    """Two proxies, through the first of which work was begun by agent `a`; and where it is asked for."""
    server.command("FLUSHALL")
    path, begun, ends = KINDS[kind]
    async with contextlib.AsyncExitStack() as stack:
        script = await stack.enter_async_context(serving(answering(begun, ends)))
        proxies = [await stack.enter_async_context(proxying(f"lab={script.url}", fleet=server.url)) for _ in range(2)]
        await asked(proxies[0], "POST", path, b'{"model": "gpt-4o", "input": "hi", "background": true}')
        yield proxies[0], proxies[1], list(ends)


@pytest.mark.parametrize("kind", KINDS)
async def test_it_is_booked_once_in_the_fleet(server: RedisServer, kind: str) -> None:
    """To the agent that began it, whichever proxies are asked for it, at once and again; no slot is held then."""
    async with two(server, kind) as (first, second, ends):
        await until(lambda: server.command("KEYS", "hm:work:*") != "[]")
        for _ in range(2):
            asks = [asked(each, "GET", end, agent="b") for each in (second, first) for end in ends]
            await asyncio.gather(*asks)
        await until(lambda: used(first) + used(second) > 0 and not in_flight(first))
        await asyncio.gather(*(asked(each, "GET", end, agent="b") for each in (second, first) for end in ends))
        for each in (first, second):
            assert each.proxy.fleet_part is not None
            await until(lambda part=each.proxy.fleet_part: not part.works._tasks)  # type: ignore[misc]
        assert used(first) + used(second) == ALL
        assert used(first, "b") + used(second, "b") == 0
        assert not [view for each in (first, second) for view in each.snapshot().work]


async def test_a_store_that_is_away(server: RedisServer, caplog: pytest.LogCaptureFixture) -> None:
    """Work is booked by each proxy that is told what it used, which is said; the store learns it when it is back."""
    async with two(server, "a response") as (first, second, (end,)):
        server.kill()
        await asked(first, "GET", end)
        await until(lambda: used(first) == ALL)
        assert in_flight(first) == 0
        await asked(second, "GET", end)
        await until(lambda: used(second) == ALL)
        assert all(AWAY in running.snapshot().notices for running in (first, second))
        server.start()
        await until(lambda: "booked here and by another proxy" in caplog.text)
