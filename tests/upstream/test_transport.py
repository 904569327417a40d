"""Transports within this process: how their failures are understood, and that their clock may be any."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any

import httpcore
import httpx
import pytest
from upstream.exchange import post, whole

from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    Timeouts,
    Truncated,
    Upstream,
    UpstreamError,
    UpstreamRequest,
    UpstreamTimeout,
)
from hivemind.upstream.connect import open_upstream

BEFORE_THE_HEAD = [
    (httpx.ConnectError("refused"), ConnectFailed),
    (httpx.ConnectTimeout(""), ConnectFailed),
    (httpx.PoolTimeout(""), ConnectFailed),
    (httpx.ProxyError("407"), ConnectFailed),
    (httpcore.ConnectError("refused"), ConnectFailed),
    (httpcore.ConnectTimeout(""), ConnectFailed),
    (ConnectionRefusedError(111, "refused"), ConnectFailed),
    (httpx.ReadTimeout(""), UpstreamTimeout),
    (httpx.WriteTimeout(""), UpstreamTimeout),
    (httpcore.ReadTimeout(""), UpstreamTimeout),
    (httpx.ReadError(""), Disconnected),
    (httpx.WriteError(""), Disconnected),
    (httpx.RemoteProtocolError("Server disconnected without sending a response."), Disconnected),
    (httpcore.ReadError(""), Disconnected),
    (ConnectionResetError(104, "reset"), Disconnected),
    (httpx.LocalProtocolError("illegal header"), ValueError),
]
WITHIN_THE_BODY = [
    (httpx.ReadTimeout(""), UpstreamTimeout),
    (httpcore.ReadTimeout(""), UpstreamTimeout),
    (httpx.ReadError(""), Truncated),
    (httpx.RemoteProtocolError("peer closed connection"), Truncated),
    (httpcore.RemoteProtocolError("peer closed connection"), Truncated),
    (ConnectionResetError(104, "reset"), Truncated),
]


def named(cases: Sequence[tuple[Exception, type[Exception]]]) -> list[str]:
    return [f"{type(exc).__module__}.{type(exc).__name__}" for exc, _ in cases]


class Body(httpx.AsyncByteStream):
    """Pieces with pauses between them; an exception is raised in its turn."""

    def __init__(self, *pieces: bytes | Exception, pause_s: float = 0.0) -> None:
        self.closed = False
        self._pieces = pieces
        self._pause_s = pause_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(self._pause_s)
            if isinstance(piece, Exception):
                raise piece
            yield piece

    async def aclose(self) -> None:
        self.closed = True


class Inside(httpx.AsyncBaseTransport):
    """Answers with a body after a while, or fails."""

    def __init__(self, body: Body | Exception, *, after_s: float = 0.0) -> None:
        self.closed = False
        self.requests: list[httpx.Request] = []
        self._body = body
        self._after_s = after_s

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        await asyncio.sleep(self._after_s)
        if isinstance(self._body, Exception):
            raise self._body
        return httpx.Response(200, headers=[(b"X-A", b"1")], stream=self._body)

    async def aclose(self) -> None:
        self.closed = True


def upstream_of(transport: httpx.AsyncBaseTransport, timeouts: Timeouts = Timeouts()) -> Upstream:  # noqa: B008
    return open_upstream("http://provider.invalid", transport=transport, timeouts=timeouts)


@pytest.mark.parametrize(("failure", "meaning"), BEFORE_THE_HEAD, ids=named(BEFORE_THE_HEAD))
async def test_failures_before_the_head(failure: Exception, meaning: type[Exception]) -> None:
    """Each of httpx's and httpcore's errors is one of ours, never of an old connection's making, in one line."""
    transport = Inside(failure)
    with pytest.raises(meaning) as raised:
        await post(upstream_of(transport))
    assert not getattr(raised.value, "reused", False)
    assert str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(transport.requests) == 1


@pytest.mark.parametrize(("failure", "meaning"), WITHIN_THE_BODY, ids=named(WITHIN_THE_BODY))
async def test_failures_within_the_body(failure: Exception, meaning: type[UpstreamError]) -> None:
    """After what came was read, the error is one of ours; the response is closed."""
    body = Body(b"hello", b"", failure)
    upstream = upstream_of(Inside(body))
    response = await post(upstream)
    assert await response.read() == b"hello"
    for _ in range(2):
        with pytest.raises(meaning):
            await response.read()
    await upstream.aclose()
    assert body.closed


async def test_an_error_that_is_nobodys_is_left_alone() -> None:
    """A transport's own mistake isn't taken for an upstream's failure."""
    with pytest.raises(KeyError):
        await post(upstream_of(Inside(KeyError("bug"))))
    upstream = upstream_of(Inside(Body(KeyError("bug"))))
    with pytest.raises(KeyError):
        await whole(await post(upstream))
    await upstream.aclose()


async def test_a_whole_exchange() -> None:
    """The transport sees the request as httpx makes it; its response is read to the end and closed."""
    body = Body(b"hel", b"", b"lo")
    transport = Inside(body)
    upstream = upstream_of(transport)
    response = await post(upstream, b"x" * 200_000)
    assert (response.status, response.headers) == (200, [(b"x-a", b"1")])
    assert await whole(response) == b"hello"
    (request,) = transport.requests
    assert str(request.url) == "http://provider.invalid/v1/messages"
    assert await request.aread() == b"x" * 200_000
    assert body.closed
    await upstream.aclose()
    assert transport.closed


async def test_a_response_that_was_made_at_once() -> None:
    """Transports that answer with ready bytes, encoded or not, are read as they are."""
    packed = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=httpx.ByteStream(b"\x1f\x8b..."))
    upstream = upstream_of(httpx.MockTransport(lambda _request: packed))
    assert await whole(await post(upstream)) == b"\x1f\x8b..."
    upstream = upstream_of(httpx.MockTransport(lambda _request: httpx.Response(200, content=b"hello")))
    assert await whole(await post(upstream)) == b"hello"


async def test_closing_a_response_closes_the_transports() -> None:
    """Closing doesn't wait; the client's own close does."""
    body = Body(b"hello", b"hello")
    upstream = upstream_of(Inside(body))
    response = await post(upstream)
    await response.read()
    response.close()
    response.close()
    with pytest.raises(Truncated):
        await response.read()
    await upstream.aclose()
    assert body.closed


async def test_giving_up_reading_closes_the_response() -> None:
    """A reader that is cancelled leaves nothing open."""
    body = Body(b"hello", pause_s=3600)
    upstream = upstream_of(Inside(body))
    response = await post(upstream)
    reading = asyncio.ensure_future(response.read())
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await upstream.aclose()
    assert body.closed


async def test_a_target_that_is_no_url() -> None:
    """What can't be written into a URL is the caller's mistake."""
    with pytest.raises(ValueError, match="target"):
        await upstream_of(Inside(Body())).send(UpstreamRequest(b"GET", b"/\x7f", [], b""))


class Jumping(selectors.DefaultSelector):
    """Never waits: the loop's clock jumps to the next timer instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.now += timeout or 0.0
        return super().select(0)


def in_virtual_time(main: Coroutine[Any, Any, None]) -> float:
    """Run on a loop whose clock jumps, and return what it showed at the end."""
    selector = Jumping()
    loop = asyncio.SelectorEventLoop(selector)
    loop.time = lambda: selector.now  # type: ignore[method-assign]
    try:
        loop.run_until_complete(main)
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()
    return selector.now


def test_the_wait_for_a_head_is_kept_by_the_loops_clock() -> None:
    """A transport that keeps no time itself is held to it, on any clock; connecting isn't what takes it long."""

    async def main() -> None:
        timeouts = Timeouts(connect_s=1, headers_s=600)
        assert await whole(await post(upstream_of(Inside(Body(b"ok"), after_s=599), timeouts))) == b"ok"
        with pytest.raises(UpstreamTimeout, match="within 600 s"):
            await post(upstream_of(Inside(Body(b"ok"), after_s=3600), timeouts))

    assert in_virtual_time(main()) == pytest.approx(599 + 600)


def test_so_is_the_wait_for_the_next_piece() -> None:
    """Each piece has its own time."""

    async def main() -> None:
        timeouts = Timeouts(idle_s=300)
        assert await whole(await post(upstream_of(Inside(Body(b"o", b"k", pause_s=299)), timeouts))) == b"ok"
        body = Body(b"ok", pause_s=301)
        upstream = upstream_of(Inside(body), timeouts)
        with pytest.raises(UpstreamTimeout, match="for 300 s"):
            await (await post(upstream)).read()
        await upstream.aclose()
        assert body.closed

    assert in_virtual_time(main()) == pytest.approx(2 * 299 + 300)


async def test_pieces_without_a_pause_leave_time_for_others() -> None:
    """A read that brings thousands of pieces holds the loop for a few of them at a time."""
    turns = 0

    async def tick() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    class Pieces(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(1_000):
                yield b"a"

    upstream = open_upstream("http://lab", transport=Inside(Pieces()))
    ticking = asyncio.create_task(tick())
    response = await post(upstream)
    before = turns
    assert len(await whole(response)) == 1_000
    assert turns - before >= 1_000 // 20
    ticking.cancel()
