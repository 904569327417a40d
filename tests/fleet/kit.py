"""Real proxies of a fleet before one upstream that counts, in the test's process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
from proxy.kit import Running, client, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from upstream.scripted import Scripted, serving

HEADERS = {"x-api-key": "sk-canary-of-the-fleet-123456"}


class Counting:
    """An upstream that answers after a while, and notes what it was sent when."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.at: list[float] = []
        self.in_flight = 0
        self.most = 0
        """In flight at once."""

    async def serve(self, script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await script.request(reader)
            self.at.append(time.monotonic())
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
            await asyncio.sleep(self.delay_s)
            self.in_flight -= 1
            writer.write(ANSWER)
            await writer.drain()

    @property
    def in_worst_minute(self) -> int:
        """Most requests within any 60 s."""
        return max((sum(at <= other < at + 60 for other in self.at) for at in self.at), default=0)


@contextlib.asynccontextmanager
async def fleet_of(number: int, store: str, upstream: Counting, **values: Any) -> AsyncIterator[list[Running]]:
    """So many proxies with one store before one upstream."""
    async with contextlib.AsyncExitStack() as stack:
        script = await stack.enter_async_context(serving(upstream.serve))
        values = {"hangs_s": 120.0, "fleet": store, "profile": "anthropic", **values}
        yield [await stack.enter_async_context(proxying(f"lab={script.url}", **values)) for _ in range(number)]


async def ask(web: httpx.AsyncClient, url: str, agent: str) -> int:
    """One request; return its status."""
    answer = await web.post(f"{url}/agent/{agent}/v1/messages", content=PLAIN_BODY, headers=HEADERS, timeout=120)
    return answer.status_code


@contextlib.asynccontextmanager
async def busy(urls: list[str], agents: int, pause_s: float = 0.0) -> AsyncIterator[list[int]]:
    """Agents at each proxy that ask again and again; yields the statuses of all answers so far.

    At the end those that still wait leave.
    """
    statuses: list[int] = []

    async def asks(web: httpx.AsyncClient, url: str, name: str) -> None:
        while True:
            statuses.append(await ask(web, url, name))
            await asyncio.sleep(pause_s)

    async with client() as web:
        tasks = [asyncio.create_task(asks(web, url, f"a{n}")) for url in urls for n in range(agents)]
        try:
            yield statuses
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not [each for each in results if not isinstance(each, asyncio.CancelledError)]


def state_of(proxy: Running) -> str:
    """How the proxy stands to its fleet."""
    assert proxy.proxy.fleet_part is not None
    return proxy.proxy.fleet_part.link.view().state
