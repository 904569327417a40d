"""Bodies that are sent as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from upstream.conftest import Opener
from upstream.exchange import OK, post, whole
from upstream.scripted import Scripted, reset, serving

from hivemind.upstream.base import BodyStream, Disconnected, Timeouts, Truncated, UpstreamRequest

PARTS = [b"", b"one", b"x" * 300_000, b"", b"end"]


async def _of(*parts: bytes, then: asyncio.Event | None = None) -> AsyncIterator[bytes]:
    for part in parts:
        yield part
    if then is not None:
        await then.wait()


def upload(parts: AsyncIterator[bytes], length: int | None) -> UpstreamRequest:
    """A request with that body."""
    return UpstreamRequest(b"POST", b"/v1/files", [], retry_stale=False, stream=BodyStream(parts, length))


@pytest.mark.parametrize("chunked", [True, False])
async def test_it_arrives_whole_and_its_connection_is_kept(client: Opener, chunked: bool) -> None:
    """In chunks where its length isn't known, empty parts among them."""
    body = b"".join(PARTS)

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines = (await reader.readuntil(b"\r\n\r\n")).lower()
        assert (b"transfer-encoding: chunked" in lines) is chunked
        received = b""
        while chunked and (size := int(await reader.readline(), 16)):
            received += (await reader.readexactly(size + 2))[:-2]
        received += await reader.readexactly(2 if chunked else len(body))
        assert received == body + b"\r\n" * chunked
        writer.write(OK)
        await script.request(reader)
        writer.write(OK)

    async with serving(handle) as server:
        upstream = client(server.url)
        sent = upload(_of(*PARTS), None if chunked else len(body))
        assert await whole(await upstream.send(sent)) == b"ok"
        assert await whole(await post(upstream)) == b"ok"
        assert server.accepted == 1


async def test_it_takes_as_long_as_its_sender(native: Opener) -> None:
    """The time for the answer runs from its last byte."""
    late = asyncio.Event()

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"0\r\n\r\n")
        writer.write(OK)

    async with serving(handle) as server:
        upstream = native(server.url, timeouts=Timeouts(headers_s=0.05))
        asyncio.get_running_loop().call_later(0.2, late.set)
        assert await whole(await upstream.send(upload(_of(b"x", then=late), None))) == b"ok"


async def test_a_sender_that_breaks_off(client: Opener) -> None:
    """Its error is the request's, and the server sees no end of the body."""

    async def broken() -> AsyncIterator[bytes]:
        yield b"x"
        raise Truncated("the client left")

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"0\r\n\r\n" not in (await reader.read()).partition(b"\r\n\r\n")[2]

    async with serving(handle) as server:
        with pytest.raises(Truncated):
            await client(server.url).send(upload(broken(), None))


async def test_a_server_that_leaves_before_the_end(native: Opener) -> None:
    """It is noticed while nothing comes from the sender."""

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"1\r\nx\r\n")
        reset(writer)

    async with serving(handle) as server:
        with pytest.raises(Disconnected):
            await native(server.url).send(upload(_of(b"x", then=asyncio.Event()), None))


async def test_a_refusal_comes_before_the_end(native: Opener) -> None:
    """It isn't waited for the rest of the body, whose connection isn't used again."""

    async def handle(_: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"1\r\nx\r\n")
        writer.write(OK.replace(b"200 OK", b"413 No"))
        await reader.read()

    async with serving(handle) as server:
        response = await native(server.url).send(upload(_of(b"x", then=asyncio.Event()), None))
        assert (response.status, await whole(response)) == (413, b"ok")
        await server.until(lambda: not server.open)
