"""The in-process transport behaves as a connection does."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from hivemind_mock.provider.answer import DROP
from hivemind_mock.provider.inprocess import InProcessTransport

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
