"""Requests that are sent again while the first still waits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from unittest import mock

import pytest
from proxy.kit import Play, Raw, Running, playing, proxying, raw, request
from proxy.wire import ANSWER, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunked
from upstream.scripted import Scripted, serving
from waiting import until

from hivemind.providers import clients as known_clients
from hivemind.providers.clients import Client, TryAgain
from hivemind.proxy import data_plane

TARGET = "/agent/alice/v1/messages"
FIRST = b'{"model":"m","messages":[]}'
AGAIN = "x-stainless-retry-count: 1"


@contextlib.asynccontextmanager
async def busy(*plays: Play) -> AsyncIterator[tuple[Running, Scripted, asyncio.Event]]:
    """A proxy whose only slot is taken until the event is set."""
    gate = asyncio.Event()
    async with (
        serving(playing([gate, ANSWER], *plays)) as upstream,
        proxying(f"lab={upstream.url}", max_concurrency=1) as proxy,
        raw(proxy.port) as first,
    ):
        await first.send(request(TARGET, FIRST))
        await upstream.until(lambda: len(upstream.requests) == 1)
        yield proxy, upstream, gate


async def queued(proxy: Running, client: Raw, body: bytes, *headers: str, depth: int) -> None:
    """Send, and wait until so many requests are in the queue."""
    await client.send(request(TARGET, body, *headers))
    await proxy.until(lambda world: world.queued == depth)


def listeners(proxy: Running) -> int:
    """All who wait for an answer, whether it is theirs or one that they joined."""
    return sum(len(found.writer._clients) for waiting in proxy.proxy.app._retries.waiting.values() for found in waiting)


async def joined(proxy: Running, client: Raw, body: bytes, *headers: str) -> None:
    """Send a repetition, and wait until it has joined the original."""
    before = listeners(proxy)
    await client.send(request(TARGET, body, *headers))
    await until(lambda: listeners(proxy) != before)


@pytest.mark.parametrize("body", [PLAIN_BODY, STREAM_BODY], ids=["whole", "stream"])
async def test_repetition_joins(body: bytes) -> None:
    """The client's own retry joins the original: one request upstream, one answer for both."""
    play = [ANSWER] if body is PLAIN_BODY else [chunked(MESSAGE, SSE)]
    async with busy(play) as (proxy, upstream, gate), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, body, depth=1)
        await joined(proxy, two, body, AGAIN)
        gate.set()
        bodies = [await client.body((await client.head())[1]) for client in (one, two)]
        assert bodies[0] == bodies[1] != b""
        assert len(upstream.requests) == 2
        assert proxy.snapshot().totals.requests == 2


async def test_repetition_takes_over() -> None:
    """When the original's client leaves, the one that joined gets the answer, from the same place in the queue."""
    async with busy([ANSWER]) as (proxy, upstream, gate), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, PLAIN_BODY, depth=1)
        await joined(proxy, two, PLAIN_BODY, AGAIN)
        one.leave()
        await asyncio.sleep(0)
        gate.set()
        status, headers = await two.head()
        assert (status, await two.body(headers)) == (200, ANSWER.partition(b"\r\n\r\n")[2])
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["original first", "repetition first"])
async def test_nobody_left(order: tuple[int, int]) -> None:
    """When all who wanted the answer have left, in whichever order, it is dropped from the queue."""
    async with busy([ANSWER]) as (proxy, upstream, gate), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, PLAIN_BODY, depth=1)
        await joined(proxy, two, PLAIN_BODY, AGAIN)
        for number in order:
            (one, two)[number].leave(hard=True)
            await asyncio.sleep(0.01)
        world = await proxy.until(lambda world: world.queued == 0)
        assert world.totals.abandoned == 1
        gate.set()
        await proxy.until(lambda world: not world.slots)
        assert len(upstream.requests) == 1


async def test_named_agent_that_repeats_itself_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent with a name of its own, whose client doesn't count its retries, joins too once some time has passed."""
    monkeypatch.setattr(data_plane, "PARALLEL_WITHIN_S", 0.0)
    async with busy([ANSWER]) as (proxy, upstream, gate), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, PLAIN_BODY, depth=1)
        await joined(proxy, two, PLAIN_BODY)
        gate.set()
        assert [(await client.head())[0] for client in (one, two)] == [200, 200]
        assert len(upstream.requests) == 2


async def test_a_slow_burst_is_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests of which each comes shortly after the one before it are parallel, however long all of them take."""
    monkeypatch.setattr(data_plane, "PARALLEL_WITHIN_S", 60.0)
    async with busy([ANSWER]) as (proxy, upstream, gate), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(proxy.port)) for _ in range(3)]
        for depth, one in enumerate(clients, 1):
            await queued(proxy, one, PLAIN_BODY, depth=depth)
            (waiting,) = proxy.proxy.app._retries.waiting.values()
            for each in waiting:
                each.ticket.arrived_at -= 40.0
        gate.set()
        assert [(await one.head())[0] for one in clients] == [200, 200, 200]
        assert len(upstream.requests) == 4


async def test_parallel_requests_stay_apart() -> None:
    """Identical requests that come together are meant as several: each goes upstream."""
    async with busy([ANSWER]) as (proxy, upstream, gate), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, PLAIN_BODY, depth=1)
        await queued(proxy, two, PLAIN_BODY, "x-stainless-retry-count: 0", depth=2)
        gate.set()
        assert [(await client.head())[0] for client in (one, two)] == [200, 200]
        assert len(upstream.requests) == 3


@pytest.mark.parametrize(
    ("body", "header"),
    [
        (STREAM_BODY, "x: y"),
        (PLAIN_BODY, "x-api-key: another"),
        (PLAIN_BODY, "authorization: Bearer another"),
        (PLAIN_BODY, "x-hivemind-deadline: 1h"),
    ],
    ids=["another body", "another credential", "another credential elsewhere", "another deadline"],
)
async def test_only_the_same_request_joins(body: bytes, header: str) -> None:
    """Neither another body, another deadline nor another credential makes a repetition, though credentials may share a
    lane."""
    async with busy([ANSWER]) as (proxy, _, _), raw(proxy.port) as one, raw(proxy.port) as two:
        await queued(proxy, one, PLAIN_BODY, depth=1)
        await two.send(request(TARGET, body, AGAIN, header))
        await proxy.until(lambda world: world.totals.requests == 3)


def waits(proxy: Running) -> list[float]:
    """How long the requests that wait have waited already in earlier tries."""
    return [each.ticket.request.waited_s for found in proxy.proxy.app._retries.waiting.values() for each in found]


async def test_a_try_after_a_refusal_of_ours_keeps_the_age_of_the_first() -> None:
    """However often it was refused; another prompt, agent or path has no part in it, nor has one more equal request."""
    async with busy() as (proxy, upstream, _), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(proxy.port)) for _ in range(6)]
        began = asyncio.get_running_loop().time()
        for one in clients[:2]:
            status, headers = await one.ask(request(TARGET, PLAIN_BODY, "x-stainless-timeout: 0.1"))
            assert status == 503
            await one.body(headers)
        await queued(proxy, clients[0], PLAIN_BODY, AGAIN, depth=1)
        assert 0.16 <= waits(proxy)[0] <= asyncio.get_running_loop().time() - began
        await queued(proxy, clients[2], PLAIN_BODY, "x-stainless-retry-count: 0", depth=2)
        await queued(proxy, clients[3], STREAM_BODY, depth=3)
        await clients[4].send(request("/agent/bob/v1/messages", PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 4)
        assert [waited_s > 0 for waited_s in waits(proxy)] == [True, False, False, False]
        assert len(upstream.requests) == 1


async def test_a_try_in_the_clients_place_keeps_its_age(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a refusal is held back and the request tried again by HiveMind, it has waited as long as its client."""
    impatient = re.compile("^pi/"), Client("pi", try_again=TryAgain(3, 0.0, hold_s=0.01))
    monkeypatch.setattr(known_clients, "PROGRAMS", (impatient,))
    async with busy() as (proxy, _, _), raw(proxy.port) as pi:
        await pi.send(request(TARGET, PLAIN_BODY, "user-agent: pi/1.6.0", "x-stainless-timeout: 0.5"))
        await proxy.until(lambda world: world.totals.refused == 1)
        await proxy.until(lambda world: world.queued == 1)
        assert waits(proxy)[0] >= 0.4


async def test_a_try_after_its_client_left_in_the_queue_keeps_the_age_of_the_first() -> None:
    """Each of several equal ones; one that was sent upstream is no longer waited for."""
    async with busy([ANSWER]) as (proxy, _, gate), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(proxy.port)) for _ in range(5)]
        for depth, one in enumerate(clients[:2], 1):
            await queued(proxy, one, PLAIN_BODY, "x-stainless-retry-count: 0", depth=depth)
        for one in clients[:2]:
            one.leave(hard=True)
        await proxy.until(lambda world: world.totals.abandoned == 2)
        for depth, one in enumerate(clients[2:], 1):
            await queued(proxy, one, PLAIN_BODY, "x-stainless-retry-count: 0", depth=depth)
        first, second, third = waits(proxy)
        assert min(first, second) > third == 0
        gate.set()
        assert (await clients[2].head())[0] == 200


async def test_what_was_not_sent_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while, and of many the oldest."""
    monkeypatch.setattr(data_plane, "UNSENT_KEPT", 1)
    async with busy() as (proxy, _, _), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(proxy.port)) for _ in range(5)]
        for one, body in zip(clients, (PLAIN_BODY, STREAM_BODY), strict=False):
            await queued(proxy, one, body, depth=1)
            one.leave(hard=True)
            await proxy.until(lambda world: world.queued == 0)
        assert len(proxy.proxy.app._retries.unsent) == 1
        await queued(proxy, clients[2], PLAIN_BODY, depth=1)
        monkeypatch.setattr(data_plane, "KEPT_S", 0.0)
        await queued(proxy, clients[3], STREAM_BODY, depth=2)
        assert waits(proxy) == [0.0, 0.0]
        assert not proxy.proxy.app._retries.unsent


async def test_one_that_a_used_up_window_refused_keeps_its_place() -> None:
    """Asked again hours later, before the reset or just after it, it is as old as it was at first."""
    error = b'{"type":"error","error":{"type":"rate_limit_error","message":"x"}}'
    head = (
        b"HTTP/1.1 429 N\r\ncontent-type: application/json\r\nanthropic-ratelimit-unified-5h-utilization: 1.0\r\n"
        b"anthropic-ratelimit-unified-5h-status: rejected\r\nretry-after: 9000\r\n"
        b"anthropic-ratelimit-unified-5h-reset: %d\r\ncontent-length: %d\r\n\r\n"
    )
    play = [head % (time.time() + 9000, len(error)) + error]
    async with serving(playing(play, [ANSWER])) as upstream, proxying(f"anthropic={upstream.url}") as proxy:
        retries = proxy.proxy.app._retries
        async with raw(proxy.port) as client:
            assert (await client.ask(request(TARGET, PLAIN_BODY)))[0] == 429
        ((since, ended_at),) = retries.unsent.values()
        assert ended_at - since[0] == pytest.approx(9000, abs=30)
        engine, later = proxy.proxy.engine, proxy.proxy.engine.now() + 8000
        with (
            mock.patch.object(engine, "now", return_value=later),
            mock.patch.object(engine, "arrive", wraps=engine.arrive) as arrive,
        ):
            async with raw(proxy.port) as client:
                assert (await client.ask(request(TARGET, PLAIN_BODY)))[0] == 200
        assert not retries.unsent
        assert arrive.call_args.args[0].waited_s == pytest.approx(8000, abs=30)


async def test_a_refusal_says_what_bounded_the_wait() -> None:
    """The setting, what kept the request, or its own deadline; a deadline that can't be read is wrong usage."""
    async with busy() as (proxy, _, _gate):
        found = []
        for header in (
            "x-hivemind-deadline: 0.2s",
            "x-hivemind-deadline: soon",
            "x-hivemind-deadline: 2020-01-01T10:00",
        ):
            async with raw(proxy.port) as client:
                status, headers = await client.ask(request(TARGET, PLAIN_BODY, header))
                found.append((status, json.loads(await client.body(headers))["error"]["message"]))
    span = "must be a span of time (90s, 1h30m), a time of day (18:00), or a date with a time (2026-12-24T18:00)"
    assert found == [
        (400, "HiveMind: its deadline has passed"),
        (400, f"HiveMind: x-hivemind-deadline: {span}"),
        (400, "HiveMind: x-hivemind-deadline: must be a moment from now on, within a year"),
    ]
    gate = asyncio.Event()
    async with (
        serving(playing([gate, ANSWER])) as upstream,
        proxying(f"lab={upstream.url}", max_concurrency=1, queue={"max_wait_s": 0.2}) as proxy,
        raw(proxy.port) as first,
        raw(proxy.port) as second,
    ):
        await first.send(request(TARGET, FIRST))
        await upstream.until(lambda: len(upstream.requests) == 1)
        status, headers = await second.ask(request("/agent/bob/v1/messages", PLAIN_BODY))
        text = json.loads(await second.body(headers))["error"]["message"]
    assert status == 503
    assert re.fullmatch(
        r"HiveMind: the request waited [0-9.]+ m?s, as long as queue.max_wait_s allows; every slot .*", text
    )
