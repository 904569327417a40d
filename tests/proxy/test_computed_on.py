"""Servers that compute an answer to its end though its client left: it is load until then, and never computed twice."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from proxy.kit import Close, Raw, Running, between, client, proxying, raw, request
from proxy.wire import ANSWER, PLAIN_BODY, STREAM, STREAM_BODY
from upstream.scripted import Scripted, serving
from waiting import until

from hivemind.providers.profiles import OLLAMA, PROFILES
from hivemind.records import replace

TARGET = "/v1/messages"
OTHER = b'{"model":"m","messages":[]}'


@contextlib.asynccontextmanager
async def computing(patch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Running, Scripted, asyncio.Event]]:
    """A proxy with one slot before a server that computes until the event, whoever has left."""
    patch.setitem(PROFILES, "ollama", replace(OLLAMA, stops="streams", computes_s=60.0))
    done = asyncio.Event()
    values = {"profile": "ollama", "max_concurrency": 1, "headers_timeout_s": 0.02}
    async with between([done, ANSWER], **values) as (proxy, upstream):
        yield proxy, upstream, done


async def left(proxy: Running, leaving: Raw, upstream: Scripted) -> None:
    """Have the first request sent, and its client leave."""
    await leaving.send(request(TARGET, PLAIN_BODY))
    await upstream.until(lambda: len(upstream.requests) == 1)
    leaving.leave()
    await until(lambda: proxy.proxy.app._retries.left)


async def test_it_holds_its_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose client left holds its slot until the server is done, and what it used is counted; nobody waits
    for it when the proxy drains."""
    async with computing(monkeypatch) as (proxy, upstream, done), raw(proxy.port) as one, raw(proxy.port) as two:
        await left(proxy, one, upstream)
        await two.send(request(TARGET, OTHER))
        world = await proxy.until(lambda world: world.queued == 1)
        assert (world.lanes[0].state.active, proxy.proxy.app.answering, len(upstream.open)) == (1, 1, 1)
        done.set()
        assert (await two.head())[0] == 200
        totals = proxy.snapshot().totals
        assert (len(upstream.requests), totals.abandoned, totals.failed) == (2, 1, 0)
        assert (totals.wasted.input_tokens, totals.wasted.output_tokens) == (3, 4)


async def test_its_clients_retry_gets_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that gave up and asks the same again gets the answer that is computed already; one that leaves too
    changes nothing."""
    async with computing(monkeypatch) as (proxy, upstream, done), raw(proxy.port) as one, raw(proxy.port) as two:
        await left(proxy, one, upstream)
        await two.send(request(TARGET, PLAIN_BODY))
        (exchange,) = proxy.proxy.app._retries.left
        await until(lambda: not exchange.left)
        async with raw(proxy.port) as three:
            two.leave()
            await until(lambda: exchange.left)
            await three.send(request(TARGET, PLAIN_BODY))
            await until(lambda: not exchange.left)
            done.set()
            status, headers = await three.head()
            assert (status, await three.body(headers)) == (200, ANSWER.partition(b"\r\n\r\n")[2])
        assert (len(upstream.requests), proxy.snapshot().totals.finished) == (1, 1)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.0 200 OK\r\ncontent-type: application/json\r\n\r\n"], ids=["", "head"])
async def test_it_is_waited_for(head: bytes) -> None:
    """Timeouts that are shorter than an answer takes don't hold, before its head (transformers) or after (MLX): the
    attempt that they ended would be computed beside the next."""
    done, answer = asyncio.Event(), ANSWER
    if head:
        answer = ANSWER.partition(b"\r\n\r\n")[2]
    values = {"headers_timeout_s": 0.02, "idle_timeout_s": 0.02}
    async with between([head, done, answer, Close()], profile="mlx", **values) as (proxy, upstream), client() as web:
        asking = asyncio.create_task(web.post(proxy.url + TARGET, content=PLAIN_BODY))
        await asyncio.sleep(0.2)  # ten of its timeouts
        done.set()
        assert ((await asking).status_code, len(upstream.requests)) == (200, 1)


async def test_a_stream_has_as_long_as_is_likely() -> None:
    """Once it is known how long prompts take, one that never begins is cut, which servers notice, and sent again."""
    begun = asyncio.Event()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await script.request(reader)
            if len(script.requests) == 2:
                await reader.read()  # it says nothing until the proxy leaves
                return
            await begun.wait()
            writer.write(STREAM)

    values: dict[str, Any] = {"headers_timeout_s": 0.01, "idle_timeout_s": 0.01}
    async with serving(handle) as upstream, proxying(f"mlx={upstream.url}", **values) as proxy, client() as web:
        asking = asyncio.create_task(web.post(proxy.url + TARGET, content=STREAM_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await asyncio.sleep(0.03)
        begun.set()
        assert ((await asking).status_code, len(upstream.requests)) == (200, 1), "nothing was known"
        again = await web.post(proxy.url + TARGET, content=STREAM_BODY)
        assert again.status_code == 200
        assert len(upstream.requests) >= 3  # more where this machine is slow to answer the second
