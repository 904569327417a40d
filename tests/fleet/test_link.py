"""Real proxies that share a limit through a real Redis, before one upstream that counts."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from proxy.kit import Running, client, proxying
from proxy.wire import ANSWER, PLAIN_BODY
from redis_server import RedisServer, running
from upstream.scripted import Handler, Scripted, serving

HEADERS = {"x-api-key": "sk-canary-of-the-fleet-123456"}


class Counting:
    """An upstream that answers after a while, and notes what it was sent when."""

    def __init__(self, delay_s: float = 0.0) -> None:
        self.delay_s = delay_s
        self.at: list[float] = []
        self.flying = 0
        self.most = 0

    def made(self, script: Scripted) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await script.request(reader)
                self.at.append(time.monotonic())
                self.flying += 1
                self.most = max(self.most, self.flying)
                await asyncio.sleep(self.delay_s)
                self.flying -= 1
                writer.write(ANSWER)
                await writer.drain()

        return handle


@contextlib.asynccontextmanager
async def fleet_of(number: int, store: RedisServer, upstream: Counting, **values: Any) -> AsyncIterator[list[Running]]:
    """So many proxies with one store before one upstream."""
    async with contextlib.AsyncExitStack() as stack:
        script = await stack.enter_async_context(serving(upstream.made))
        values = {"hangs_s": 60.0, "fleet": store.url, "profile": "anthropic", **values}
        yield [await stack.enter_async_context(proxying(f"lab={script.url}", **values)) for _ in range(number)]


async def ask(web: httpx.AsyncClient, proxy: Running, agent: str, headers: dict[str, str] | None = None) -> int:
    url = f"{proxy.url}/agent/{agent}/v1/messages"
    return (await web.post(url, content=PLAIN_BODY, headers=headers or HEADERS)).status_code


async def until(true: Callable[[], bool]) -> None:
    while not true():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


def state_of(proxy: Running) -> str:
    assert proxy.proxy.fleet_part is not None
    return proxy.proxy.fleet_part.view().state


async def test_two_proxies_share_a_limit() -> None:
    upstream = Counting()
    with running() as store:
        async with fleet_of(2, store, upstream, rpm=60) as proxies, client() as web:
            asked = [[asyncio.create_task(ask(web, each, f"a{n}")) for n in range(50)] for each in proxies]
            await until(lambda: len(upstream.at) >= 60)
            assert [state_of(each) for each in proxies] == ["leased", "leased"]
            await asyncio.sleep(1.0)  # in which the sixtieth of a minute may go through, and no more
            served = [sum(task.done() for task in tasks) for tasks in asked]
            for task in (*asked[0], *asked[1]):
                task.cancel()
            assert len(upstream.at) <= 62
            assert abs(served[0] - served[1]) <= 6


async def test_each_sees_the_others() -> None:
    upstream = Counting()
    with running() as store:
        async with fleet_of(2, store, upstream) as proxies, client() as web:
            for each in proxies:
                assert await ask(web, each, "alice") == 200
            async with asyncio.timeout(20):
                while True:
                    fleet = await proxies[0].proxy.fleet()
                    if [member.state for member in fleet.members] == ["leased", "leased"]:
                        break
                    await asyncio.sleep(0.05)
            assert len(fleet.lanes) == 1
            assert fleet.store == store.url
        # Both have left.
        assert store.command("ZCARD", "hm:proxies") == "0"
        assert '"members":{}' in store.command("GET", store.command("KEYS", "hm:lane:*")[3:-2])


async def test_what_is_told_of_it(caplog: pytest.LogCaptureFixture) -> None:
    upstream = Counting()
    with running(password="canary-5f2d8c6b1e") as store:
        async with fleet_of(1, store, upstream) as (proxy,), client() as web:
            assert await ask(web, proxy, "alice") == 200
            await until(lambda: state_of(proxy) == "leased")
            assert (await web.get(f"{proxy.url}/_health")).json()["fleet"] == "leased"
            view = proxy.snapshot().fleet
            assert view is not None
            assert (view.lanes, view.members, view.text) == (1, 1, "requests go on with leases")
            metrics = (await web.get(f"{proxy.url}/metrics")).text
            assert 'hivemind_fleet_state{state="leased"} 1.0' in metrics
            store.kill()
            await until(lambda: state_of(proxy) == "safe")
            assert await ask(web, proxy, "alice") == 200
            store.start()
            await until(lambda: state_of(proxy) == "leased")
            view = proxy.snapshot().fleet
            assert view is not None
            assert view.errors["refused"] > 0
            everything = f"{await proxy.stats()}{caplog.text}{metrics}{vars(proxy.proxy.settings)!r}"
            assert "canary" not in everything
