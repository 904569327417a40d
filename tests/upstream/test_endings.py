"""Every way an attempt may end badly, told apart by both clients."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest
from ports import unused_port
from upstream.conftest import Opener
from upstream.exchange import OK, post, whole
from upstream.scripted import Handler, Scripted, answering, closing, reset, serving

from hivemind.upstream.base import ConnectFailed, Disconnected, Timeouts, Truncated, UpstreamRequest, UpstreamTimeout

LENGTH = b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"
UNFRAMED = b"HTTP/1.1 200 OK\r\n\r\nhello"


def resetting(answer: bytes, read: asyncio.Event | None = None) -> Handler:
    """Answers a request with these bytes and, once they were read, resets the connection."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(answer)
        if read is not None:
            await read.wait()
        reset(writer)

    return handle


async def test_a_head_of_too_many_lines(native: Opener) -> None:
    """Tens of thousands of short header lines are no answer, and none of them is looked at."""
    answer = OK.replace(b"\r\n", b"\r\n" + b"x: 1\r\n" * 20_000, 1)
    async with serving(closing(answer)) as server:
        with pytest.raises(Disconnected, match="more than 1000 header lines"):
            await post(native(server.url))


async def test_nobody_listens(client: Opener) -> None:
    """A refused connection never reached the upstream."""
    port = unused_port()
    with pytest.raises(ConnectFailed, match=r"refused|attempts failed"):
        await post(client(f"http://127.0.0.1:{port}"))


async def test_a_name_that_is_not_there(client: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that doesn't resolve never reached the upstream."""

    async def unknown(*_args: Any, **_named: Any) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown, raising=False)
    with pytest.raises(ConnectFailed, match="Name or service not known"):
        await post(client("http://nowhere.invalid"))


async def test_a_handshake_that_never_ends(client: Opener) -> None:
    """A server that accepts and says nothing where TLS is spoken costs the time for connecting, and wasn't reached."""
    async with serving(answering(OK)) as server:
        upstream = client(f"https://127.0.0.1:{server.port}", timeouts=Timeouts(connect_s=0.2))
        with pytest.raises(ConnectFailed, match=r"no connection within 0\.2 s"):
            await post(upstream)
        await server.until(lambda: server.accepted == 1 and not server.open)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\ncontent-len"], ids=["nothing", "half-a-head"])
async def test_a_close_before_the_head(client: Opener, answer: bytes) -> None:
    """A connection that ends before a whole response head was disconnected, and not because it was an old one."""
    async with serving(closing(answer)) as server:
        with pytest.raises(Disconnected) as raised:
            await post(client(server.url))
        assert not raised.value.reused
        assert len(server.requests) == 1


async def test_a_reset_before_the_head(client: Opener) -> None:
    """So was one that was reset."""
    async with serving(resetting(b"")) as server:
        with pytest.raises(Disconnected, match="connection") as raised:
            await post(client(server.url))
        assert not raised.value.reused


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx y: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ntransfer-encoding: chunked, gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-nul: a\0b\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-escape: a\x1b[2Jb\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-delete: a\x7fb\r\ntransfer-encoding: chunked\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx-long: " + b"x" * 300_000,
    ],
    ids=[
        "not-http",
        "bad-name",
        "two-framings",
        "coded",
        "coded-in-two",
        "two-lengths",
        "nul",
        "escape",
        "delete",
        "101",
        "endless",
    ],
)
async def test_a_head_that_makes_no_sense(client: Opener, answer: bytes) -> None:
    """What can't be read as a response head counts as none, and the connection is dropped."""
    async with serving(answering(answer)) as server:
        with pytest.raises(Disconnected):
            await post(client(server.url))
        await server.until(lambda: not server.open)


@pytest.mark.parametrize("answer", [LENGTH, CHUNKED], ids=["length", "chunked"])
async def test_a_body_that_stops_short(client: Opener, answer: bytes) -> None:
    """What came of it can be read; then it is truncated, as often as one asks."""
    async with serving(closing(answer)) as server:
        response = await post(client(server.url))
        assert await response.read() == b"hello"
        for _ in range(2):
            with pytest.raises(Truncated):
                await response.read()


@pytest.mark.parametrize("answer", [LENGTH, CHUNKED, UNFRAMED], ids=["length", "chunked", "unframed"])
async def test_a_body_cut_off_by_a_reset(client: Opener, answer: bytes) -> None:
    """A reset is never a clean end, not even where the end of the connection would be one."""
    read = asyncio.Event()
    async with serving(resetting(answer, read)) as server:
        response = await post(client(server.url))
        assert await response.read() == b"hello"
        read.set()
        with pytest.raises(Truncated):
            await response.read()


async def test_a_chunk_that_makes_no_sense(client: Opener) -> None:
    """A body whose framing breaks is truncated there."""
    async with serving(answering(CHUNKED + b"zz\r\n")) as server:
        with pytest.raises(Truncated):
            await whole(await post(client(server.url)))
        await server.until(lambda: not server.open)


async def test_no_head_in_time(client: Opener) -> None:
    """A server that takes the request and doesn't answer is late; the connection is dropped."""
    async with serving(answering(b"")) as server:
        with pytest.raises(UpstreamTimeout, match=r"0\.02 s"):
            await post(client(server.url, timeouts=Timeouts(headers_s=0.02)))
        await server.until(lambda: len(server.requests) == 1 and not server.open)


@pytest.mark.parametrize("answer", [LENGTH, CHUNKED, UNFRAMED], ids=["length", "chunked", "unframed"])
async def test_no_further_byte_in_time(client: Opener, answer: bytes) -> None:
    """A body that stands still is late, after what came of it was read."""
    async with serving(answering(answer)) as server:
        response = await post(client(server.url, timeouts=Timeouts(idle_s=0.02)))
        assert await response.read() == b"hello"
        with pytest.raises(UpstreamTimeout, match=r"0\.02 s"):
            await response.read()
        await server.until(lambda: not server.open)


async def test_no_time_limits(client: Opener) -> None:
    """None waits for ever, and says nothing of seconds when something else goes wrong."""
    none = Timeouts(connect_s=None, headers_s=None, idle_s=None)
    async with serving(closing(CHUNKED)) as server:
        upstream = client(server.url, timeouts=none)
        with pytest.raises(Truncated):
            await whole(await post(upstream))


@pytest.mark.parametrize(
    ("method", "target", "header"),
    [
        (b"GET", b"/", (b"x-a", b"1\r\nx-b: 2")),
        (b"GET", b"/", (b"x-a\nx-b", b"1")),
        (b"GET", b"/", (b"x-a", b"1\0")),
        (b"GET", b"/ HTTP/1.1\r\nx-b: 2\r\n\r\nGET /", (b"x-a", b"1")),
        (b"GET", b"/ HTTP/1.0", (b"x-a", b"1")),
        (b"GET / HTTP/1.1\r\n\r\nGET", b"/", (b"x-a", b"1")),
    ],
    ids=["value", "name", "nul", "target", "space", "method"],
)
async def test_nothing_can_be_smuggled_into_a_head(
    client: Opener, method: bytes, target: bytes, header: tuple[bytes, bytes]
) -> None:
    """A line break in any part of a request is refused before a connection is made."""
    async with serving(answering(OK)) as server:
        with pytest.raises(ValueError, match="holds a"):
            await client(server.url).send(UpstreamRequest(method, target, [header], b""))
        assert server.accepted == 0


async def test_closing_the_client_ends_what_is_on_the_way(client: Opener) -> None:
    """Waiting for a head, reading a body, resting: all end, and no new request is taken."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(CHUNKED if len(script.requests) == 1 else b"")
        await reader.read()

    async with serving(handle) as server:
        upstream = client(server.url)
        response = await post(upstream)
        waiting = asyncio.ensure_future(post(upstream))
        await server.until(lambda: len(server.requests) == 2)
        await upstream.aclose()
        with pytest.raises(Disconnected):
            await waiting
        with pytest.raises(Truncated):
            await whole(response)
        with pytest.raises(ConnectFailed, match="client was closed"):
            await post(upstream)
        await server.until(lambda: not server.open)
