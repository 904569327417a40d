"""The mock without sockets and on real ones: the in-process transport is a connection, and resets are resets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import uvloop
from starlette.types import Receive, Scope, Send

from hivemind_mock.provider.answer import DROP
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig
from hivemind_mock.provider.inprocess import InProcessTransport
from hivemind_mock.provider.serve import serving

START = {"type": "http.response.start", "status": 200, "headers": [(b"x-one", b"1"), (b"x-one", b"2")]}
URL = "http://app.invalid/a%20b/c?d=e&f"


def body(data: bytes, more: bool) -> dict[str, Any]:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def open_response(app: Any) -> httpx.Response:
    return await InProcessTransport(app).handle_async_request(httpx.Request("POST", URL, content=b"asked"))


async def read_into(got: list[bytes], app: Any) -> None:
    async for chunk in (await open_response(app)).aiter_raw():
        got.append(chunk)


async def test_the_body_streams() -> None:
    """Each piece can be read before the application has gone on to the next."""
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        await send(body(b"first", True))
        await go_on.wait()
        await send(body(b"second", False))

    chunks = (await open_response(app)).aiter_raw()
    assert await anext(chunks) == b"first"
    go_on.set()
    assert await anext(chunks) == b"second"


async def test_a_slow_reader_slows_the_application() -> None:
    """Only a bounded amount is in flight while nobody reads, and all of it arrives in the end."""
    sent = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send(START)
        for _ in range(100):
            await send(body(b"x" * 10_000, True))
            sent += 1
        await send(body(b"", False))

    response = await open_response(app)
    for _ in range(300):
        await asyncio.sleep(0)
    assert sent < 10
    assert len(await response.aread()) == 1_000_000


@pytest.mark.parametrize(("reset", "error"), [(True, httpx.ReadError), (False, httpx.RemoteProtocolError)])
@pytest.mark.parametrize("begun", [False, True])
async def test_a_dropped_connection_fails_where_it_was_dropped(
    reset: bool, error: type[Exception], begun: bool
) -> None:
    """Before the head the request fails; after it everything sent arrives first, then reading fails."""
    ended: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send(START)
            await send(body(b"some", True))
        await receive()
        scope["extensions"][DROP](reset)
        ended.append((await receive())["type"])

    got: list[bytes] = []
    with pytest.raises(error):
        await read_into(got, app)
    await asyncio.sleep(0)
    assert got == ([b"some"] if begun else [])
    assert ended == ["http.disconnect"]


async def test_a_crash_after_the_head_closes_the_connection() -> None:
    """As under a real server; the reason stays attached."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(START)
        raise ZeroDivisionError

    with pytest.raises(httpx.RemoteProtocolError) as caught:
        await (await open_response(app)).aread()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def exchange(loop: Callable[[], asyncio.AbstractEventLoop], faults: FaultConfig, stream: bool) -> tuple[bytes, str]:
    """What a bare client reads from one request, and how its connection ends."""

    async def main() -> tuple[bytes, str]:
        mock = MockProvider(MockConfig(latency=LatencyConfig(0.002, 0.0), faults=faults))
        async with serving(mock) as url:
            host, port = urlsplit(url).hostname, urlsplit(url).port
            reader, writer = await asyncio.open_connection(host, port)
            messages = [{"role": "user", "content": "hello"}]
            body = json.dumps({"model": "m", "max_tokens": 1024, "stream": stream, "messages": messages}).encode()
            head = "POST /v1/messages HTTP/1.1\r\nhost: mock\r\nconnection: close\r\n"
            head += f"content-length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            got, ending = b"", "fin"
            try:
                while chunk := await reader.read(65_536):
                    got += chunk
            except ConnectionResetError:
                ending = "rst"
            finally:
                writer.close()
            return got, ending

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reset_is_a_reset(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """The client's socket sees RST, not an orderly end, and not one byte of a reply."""
    assert exchange(loop, FaultConfig(reset=1.0), stream=False) == (b"", "rst")


@pytest.mark.parametrize("loop", LOOPS)
def test_a_reset_in_the_middle_comes_after_content(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """What was sent before the reset arrives."""
    got, ending = exchange(loop, FaultConfig(reset_mid=1.0), stream=True)
    assert b"content_block_delta" in got
    assert ending == "rst"


@pytest.mark.parametrize("loop", LOOPS)
def test_a_truncated_answer_ends_with_fin(loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """A whole answer that is cut off ends in good order, short of its stated length."""
    got, ending = exchange(loop, FaultConfig(truncated=1.0), stream=False)
    head, _, body = got.partition(b"\r\n\r\n")
    stated = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
    assert ending == "fin"
    assert 0 < len(body) < stated


class Patience:
    """A provider's sleep that never ends, and tells when it began and when it was broken off."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def __call__(self, seconds: float) -> None:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def ask_and_wait(url: str, patience: Patience) -> asyncio.StreamWriter:
    """A connection whose request the provider works on."""
    _, writer = await asyncio.open_connection(urlsplit(url).hostname, urlsplit(url).port)
    writer.write(b"POST /v1/messages HTTP/1.1\r\nhost: mock\r\ncontent-length: 2\r\n\r\n{}")
    await patience.began.wait()
    return writer


async def test_a_client_that_hangs_up_is_noticed() -> None:
    """A place in the concurrency limit doesn't stay taken by somebody who has gone."""
    patience = Patience()
    mock = MockProvider(MockConfig(), sleep=patience)
    async with asyncio.timeout(10), serving(mock) as url:
        writer = await ask_and_wait(url, patience)
        assert mock.stats.active == 1
        writer.close()
        await patience.ended.wait()
        await asyncio.sleep(0)
        assert (mock.stats.active, mock.stats.left) == (0, 1)
