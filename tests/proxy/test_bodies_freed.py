"""Requests in memory: one copy of each body, given back however its request ends, and little else of a stream."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from proxy.kit import Close, Hang, Play, Reset, Running, between, raw, request
from proxy.wire import ANSWER, END, MESSAGE, PLAIN_BODY, SSE, STREAM, STREAM_BODY, chunk, chunked, head, http
from waiting import until

from hivemind.proxy import data_plane
from hivemind.proxy.body_budget import BodyBudget
from hivemind.proxy.server_protocol import AWAITED_BODY

MESSAGES = "/v1/messages"
MIB = 1 << 20
PART = 64 << 10
BUSY = http(503, b"{}")
STREAMED = b'{"model":"m","stream":true,"max_tokens":9,"messages":"%b"}'
WHOLE = b'{"model":"m","max_tokens":9,"messages":"%b"}'


class Body(bytes):
    """A body that tells when it is freed."""

    alive = 0

    def __new__(cls, body: bytes) -> Body:
        cls.alive += 1
        return super().__new__(cls, body)

    def __del__(self) -> None:
        Body.alive -= 1


_read = BodyBudget.read


@pytest.fixture(autouse=True)
def _tracked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every body that is passed on, from the task or without one, is a :class:`Body`."""

    async def tracked(*given: object) -> Body | None:
        body = await _read(*given)  # type: ignore[arg-type]
        return None if body is None else Body(body)

    monkeypatch.setattr(Body, "alive", 0)
    monkeypatch.setattr(BodyBudget, "read", tracked)
    monkeypatch.setattr(data_plane, "bytes", Body, raising=False)


def used(running: Running) -> int:
    """Bytes that count as in memory."""
    return running.proxy.app.body_budget.used


async def given_back(running: Running) -> None:
    """Wait until nothing counts and no body is left: the test hangs where one is."""
    await until(lambda: not (used(running) or Body.alive))


ENDS: dict[str, tuple[list[Play], bytes]] = {
    "answered": ([[ANSWER]], WHOLE),
    "streamed": ([[STREAM]], STREAMED),
    "failed": ([[Reset()]], WHOLE),
    "refused": ([[http(400, b"{}")]], WHOLE),
    "busy": ([[BUSY]], WHOLE),
    "retried": ([[BUSY], [Reset()], [ANSWER]], WHOLE),
    "cut": ([[chunked(MESSAGE[:3], SSE)[: -len(END)], Close()]], STREAMED),
    "answered before it was sent": ([[ANSWER, Close()]], WHOLE),
}
SIZES = [40_000, 200_000, 2 * MIB]
"""Written at once, passed on without a task though it is written in pieces, and read by a task."""


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("way", ENDS)
async def test_given_back(way: str, size: int) -> None:
    """Whatever becomes of a request, its body is freed though both connections stay open."""
    plays, form = ENDS[way]
    async with between(*plays, retry={"max_attempts": 3}) as (running, upstream), raw(running.port) as direct:
        for _ in range(2):
            _, headers = await direct.ask(request(MESSAGES, form % (b"x" * size), "x-api-key: k"))
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ValueError):
                await direct.body(headers)
            await given_back(running)
            if direct.reader.at_eof() or way == "cut":
                break
        assert upstream.accepted


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("waits", [True, False], ids=["waiting", "in flight"])
async def test_given_back_when_the_client_leaves(size: int, *, waits: bool) -> None:
    """The body of a client that leaves is freed, wherever its request was."""
    async with (
        between([Hang()], max_concurrency=1) as (running, upstream),
        raw(running.port) as first,
        raw(running.port) as second,
    ):
        message = request(MESSAGES, WHOLE % (b"x" * size), "x-api-key: k")
        await first.send(message)
        await upstream.until(lambda: bool(upstream.requests))
        await second.send(message)
        await running.until(lambda world: world.queued == 1)
        assert used(running) == 2 * len(WHOLE % (b"x" * size))
        for client in (second, first) if waits else (first, second):
            client.leave()
        await given_back(running)


async def test_uploads_are_given_back() -> None:
    """A file, which costs nothing and isn't read, is freed once it is answered."""
    async with between([http(200, b"{}")]) as (running, upstream), raw(running.port) as direct:
        for number in range(1, 4):
            await direct.send(request("/v1/files", b"x" * 3 * MIB, "content-type: application/octet-stream"))
            _, headers = await direct.head()
            await direct.body(headers)
            await given_back(running)
            assert len(upstream.requests) == number
        assert upstream.accepted == 1


# --- While it comes ---------------------------------------------------------------------------------------------------


def begun(size: int) -> bytes:
    """The head of a request with a body of that size."""
    return request(MESSAGES, b"", "x-api-key: k").replace(b"content-length: 0", b"content-length: %d" % size)


async def counted(running: Running, size: int) -> None:
    """Wait until so much counts."""
    await until(lambda: used(running) == size)


@pytest.mark.parametrize("size", [AWAITED_BODY, 2 * MIB], ids=["awaited", "read by the application"])
async def test_what_has_come_counts(size: int) -> None:
    """A body counts as it comes, and no longer when its client leaves."""
    async with between([ANSWER]) as (running, _):
        async with raw(running.port) as direct:
            await direct.send(begun(size))
            for part in range(1, 4):
                await direct.send(b"x" * 50_000)
                await counted(running, part * 50_000)
        await given_back(running)


async def test_what_is_sent_ahead_counts() -> None:
    """Bodies of requests that wait for their turn on their connection count too."""
    async with between([Hang()]) as (running, upstream):
        async with raw(running.port) as direct:
            await direct.send(request(MESSAGES, PLAIN_BODY, "x-api-key: k"))
            await upstream.until(lambda: bool(upstream.requests))
            await direct.send(request(MESSAGES, b"x" * 9_000) + request(MESSAGES, b"x" * 1_000))
            await counted(running, len(PLAIN_BODY) + 10_000)
        await given_back(running)


async def test_an_awaited_body_that_breaks_off_the_rules() -> None:
    """A body that is refused in the middle counts no longer."""
    async with between([ANSWER]) as (running, _), raw(running.port) as direct:
        await direct.send(begun(AWAITED_BODY) + b"x" * 50_000)
        await counted(running, 50_000)
        running.proxy.app.connection_limit._unfinished.popitem()[0].give_up()
        assert (await direct.head())[0] == 408
        await given_back(running)


async def test_no_room_for_what_is_awaited() -> None:
    """Bodies that are awaited are refused before they are whole where all together hold too much."""
    async with between([ANSWER], max_body_mb=1, max_bodies_mb=1) as (running, _), contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(raw(running.port)) for _ in range(6)]
        for number, client in enumerate(clients[:5], 1):
            await client.send(begun(AWAITED_BODY) + b"x" * 200_000)
            await counted(running, number * 200_000)
        await clients[5].send(begun(AWAITED_BODY) + b"x" * 200_000)
        status, headers = await clients[5].head()
        assert (status, b"max_bodies_mb" in await clients[5].body(headers)) == (503, True)
        clients[4].leave()
        await counted(running, 4 * 200_000)
        await clients[0].send(b"x" * (AWAITED_BODY - 200_000))
        assert (await clients[0].head())[0] == 200


# --- One copy ---------------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def traced() -> AsyncIterator[None]:
    """Memory is traced meanwhile."""
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("length", [b"%d" % (16 * MIB), None], ids=["declared", "in chunks"])
async def test_read_into_one_copy(length: bytes | None) -> None:
    """While a body is read, hardly more than its own size is in memory, and nothing of it is joined at the end."""
    parts = 16 * MIB // PART

    async def receive() -> dict[str, object]:
        nonlocal parts
        parts -= 1
        return {"type": "http.request", "body": bytes(PART), "more_body": parts > 0}

    budget = BodyBudget(64, 64)
    async with traced():
        body = await _read(budget, receive, length)
        assert tracemalloc.get_traced_memory()[1] < 1.2 * 16 * MIB
    assert body is not None
    assert (len(body), budget.used) == (16 * MIB, 16 * MIB)


@pytest.mark.skipif(sys.gettrace() is not None, reason="what measures coverage keeps frames in memory")
async def test_a_stream_keeps_little() -> None:
    """Neither heads, parsers nor what held the answer's beginning back stay in memory once it streams; bytes of objects
    that are made by lines of the product are counted, for agents of their own."""
    streams = 40
    play: Play = [head(SSE) + b"".join(map(chunk, MESSAGE[:3])), Hang()]
    async with between(*[play] * 2 * streams) as (running, _), contextlib.AsyncExitStack() as stack:
        for number in range(2 * streams):
            if number == streams:  # the first ones pay for what all have in common
                await stack.enter_async_context(traced())
            client = await stack.enter_async_context(raw(running.port))
            await client.ask(request(f"/agent/a{number}{MESSAGES}", STREAM_BODY, "x-api-key: k"))
        gc.collect()
        held = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, "*/hivemind/*")])
    assert sum(each.size for each in held.statistics("filename")) < 17_500 * streams
