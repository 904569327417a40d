"""What only the native client promises: which connection is used when, and that none is left behind."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any
from unittest.mock import AsyncMock

import aiohappyeyeballs
import pytest
from ports import unused_port
from upstream.conftest import Opener
from upstream.exchange import OK, post, whole
from upstream.scripted import Scripted, answering, reset, serving

from hivemind.upstream import connection
from hivemind.upstream import native as native_module
from hivemind.upstream.base import ConnectFailed, Disconnected, Timeouts, Truncated, Upstream
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.response import HIGH_WATER

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n"


class Stale:
    """A server that answers the first request of each connection, and ends the connection over the next."""

    def __init__(self, last_word: bytes = b"", *, fresh_ones_too: bool = False, by_reset: bool = False) -> None:
        self._last_word = last_word
        self._fresh_ones_too = fresh_ones_too
        self._by_reset = by_reset

    async def __call__(self, script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        if script.accepted > 1 and self._fresh_ones_too:
            return
        writer.write(OK)
        await script.request(reader)
        writer.write(self._last_word)
        if self._by_reset:
            reset(writer)


@pytest.mark.parametrize("by_reset", [False, True], ids=["close", "reset"])
async def test_a_stale_connection_costs_nothing(native: Opener, by_reset: bool) -> None:
    """A kept connection that ends with no byte answered is replaced by a fresh one, unseen."""
    async with serving(Stale(by_reset=by_reset)) as server:
        upstream = native(server.url)
        for _ in range(2):
            assert await whole(await post(upstream)) == b"ok"
        assert (server.accepted, len(server.requests)) == (2, 3)


async def test_a_stale_connection_is_told_where_sending_again_is_forbidden(native: Opener) -> None:
    """A request that continues state on the server is sent once, and the error says what was the matter."""
    async with serving(Stale()) as server:
        upstream = native(server.url)
        await whole(await post(upstream))
        with pytest.raises(Disconnected) as raised:
            await post(upstream, retry_stale=False)
        assert raised.value.reused
        assert len(server.requests) == 2


async def test_what_cannot_be_sent_twice_gets_a_connection_that_surely_stands(
    native: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It isn't put on one that rested long; that one stays for others."""
    monkeypatch.setattr(native_module, "SURELY_OPEN_S", -1.0)
    async with serving(answering(OK)) as server:
        upstream = native(server.url)
        await whole(await post(upstream))
        await whole(await post(upstream, retry_stale=False))
        assert server.accepted == 2
        await whole(await post(upstream))
        assert server.accepted == 2


@pytest.mark.parametrize(("stale", "requests"), [(Stale(b"H"), 2), (Stale(fresh_ones_too=True), 3)])
async def test_what_is_not_tried_again(native: Opener, stale: Stale, requests: int) -> None:
    """A kept connection that began to answer, because one byte shows that the request arrived; and a fresh one, whose
    death is no matter of an old connection."""
    async with serving(stale) as server:
        upstream = native(server.url)
        await whole(await post(upstream))
        with pytest.raises(Disconnected) as raised:
            await post(upstream)
        assert not raised.value.reused
        assert len(server.requests) == requests


@pytest.mark.parametrize("last_word", [b"", b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"])
async def test_a_connection_that_was_closed_at_rest_is_not_used(native: Opener, last_word: bytes) -> None:
    """Neither one that the server closed, nor one on which it said something that nobody asked for."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(OK)
        await bye.wait()
        writer.write(last_word)

    bye = asyncio.Event()
    async with serving(handle) as server:
        upstream = native(server.url)
        await whole(await post(upstream))
        bye.set()
        await server.until(lambda: not server.open)
        assert await whole(await post(upstream, retry_stale=False)) == b"ok"
        assert (server.accepted, len(server.requests)) == (2, 2)


async def test_news_that_the_loop_has_not_seen_counts(native: Opener) -> None:
    """A close that lies in the socket, not yet read, is noticed before a request is written."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(OK)
        await reader.read()

    async with serving(handle) as server:
        upstream = native(server.url)
        await whole(await post(upstream))
        (writer,) = server.open
        os.write(writer.get_extra_info("socket").fileno(), b"unasked")
        assert await whole(await post(upstream, retry_stale=False)) == b"ok"
        assert (server.accepted, len(server.requests)) == (2, 2)


async def test_more_than_one_response_spoils_a_connection(native: Opener) -> None:
    """The response that was asked for is good, but the connection isn't kept."""
    async with serving(answering(OK + OK)) as server:
        upstream = native(server.url)
        for _ in range(2):
            assert await whole(await post(upstream)) == b"ok"
        assert server.accepted == 2


async def test_the_last_one_rested_is_used_first(native: Opener) -> None:
    """So that those which a busy minute left over grow old."""

    may_answer = {b"01": asyncio.Event(), b"02": asyncio.Event()}

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = b"%02d" % script.accepted
        while True:
            await script.request(reader)
            await may_answer[name].wait()
            writer.write(OK.replace(b"ok", name))

    async with serving(handle) as server:
        upstream = native(server.url)
        asked = {asyncio.ensure_future(post(upstream)) for _ in range(2)}
        for name in (b"02", b"01"):
            may_answer[name].set()
            answered, asked = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert await whole(answered.pop().result()) == name
        for _ in range(2):
            assert await whole(await post(upstream)) == b"01"


async def test_the_surplus_is_closed() -> None:
    """At most max_idle connections are kept."""
    async with serving(answering(OK)) as server:
        upstream = open_upstream(server.url, max_idle=2)
        await asyncio.gather(*[whole_post(upstream) for _ in range(5)])
        await server.until(lambda: server.accepted == 5 and len(server.open) == 2)
        for _ in range(3):
            await whole_post(upstream)
        assert server.accepted == 5
        await upstream.aclose()


async def test_every_address_of_a_name_is_tried(native: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """One address that refuses doesn't keep the others from being used."""
    async with serving(answering(OK)) as server:
        kind = (socket.AF_INET, socket.SOCK_STREAM, 6, "")

        async def two(host: str, port: int, **_named: Any) -> list[Any]:
            return [(*kind, ("127.0.0.1", p)) for p in ([unused_port(), server.port] if "two" in host else [port])]

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", two, raising=False)
        assert await whole(await post(native("http://two.invalid"))) == b"ok"


async def test_a_connection_does_not_rest_for_ever(native: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody needed for a while is closed."""
    monkeypatch.setattr(connection, "IDLE_AGE_S", 0.01)
    async with serving(answering(OK)) as server:
        await whole(await post(native(server.url)))
        await server.until(lambda: not server.open)


async def test_a_connection_serves_others_before_its_response_was_read(native: Opener) -> None:
    """A response that has come whole needs its connection no more."""
    async with serving(answering(OK)) as server:
        upstream = native(server.url)
        first = await post(upstream)
        second = await post(upstream)
        assert [await whole(second), await whole(first)] == [b"ok", b"ok"]
        first.close()
        assert await whole(await post(upstream)) == b"ok"
        assert server.accepted == 1


async def test_a_slow_reader_holds_the_server_back(native: Opener) -> None:
    """While nobody reads, no more than a bounded amount is taken in; then all of it comes, in order."""
    total = 64 * 1024 * 1024
    piece = bytes(range(256)) * 256
    written = 0
    blocked = asyncio.Event()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await script.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total)
        while written < total:
            writer.write(piece)
            written += len(piece)
            if writer.transport.get_write_buffer_size() and not blocked.is_set():
                blocked.set()
            await writer.drain()
        await reader.read()

    async with serving(handle) as server:
        response = await post(native(server.url))
        await blocked.wait()
        assert written < total // 4
        taken = 0
        while data := await response.read():
            assert len(data) <= 4 * HIGH_WATER
            start = taken % len(piece)
            assert data[:256] == (piece + piece)[start : start + len(data[:256])]
            taken += len(data)
        assert taken == total


async def test_a_server_that_is_held_back_is_not_late(native: Opener) -> None:
    """The time between two pieces counts only while we listen."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % total + bytes(total))
        await reader.read()

    total = 8 * HIGH_WATER
    async with serving(handle) as server:
        response = await post(native(server.url, timeouts=Timeouts(idle_s=0.05)))
        await asyncio.sleep(0.06)  # Not to wait for something, but to be slow.
        assert len(await whole(response)) == total


async def test_closing_a_response_closes_its_connection(native: Opener) -> None:
    """Whoever doesn't want the rest makes the server stop at once."""
    async with serving(answering(CHUNKED)) as server:
        upstream = native(server.url)
        response = await post(upstream)
        response.close()
        response.close()
        with pytest.raises(Truncated):
            await response.read()
        await server.until(lambda: not server.open)


async def test_hundreds_of_cancelled_requests_leave_nothing_open(native: Opener) -> None:
    """Wherever a caller gives up (connecting, waiting, reading), its connection goes with it."""

    async def give_up_at(step: int) -> None:
        task = asyncio.ensure_future(whole_post(upstream))
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async with serving(answering(CHUNKED)) as server:
        upstream = native(server.url)
        before = len(os.listdir("/dev/fd"))
        for batch in range(4):
            await asyncio.gather(*[give_up_at(batch * 3 + step % 20) for step in range(100)])
        await upstream.aclose()
        async with asyncio.timeout(10):  # The server takes a while to see them all go.
            while len(os.listdir("/dev/fd")) > before:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0)


async def whole_post(upstream: Upstream) -> bytes:
    """One request from beginning to end."""
    return await whole(await post(upstream))


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="Linux alone has it")
@pytest.mark.parametrize(("host", "unanswered_ms"), [("127.0.0.1", 0), ("192.0.2.1", 120_000)])
async def test_an_upstream_that_is_gone_without_a_word(
    native: Opener, monkeypatch: pytest.MonkeyPatch, host: str, unanswered_ms: int
) -> None:
    """The system notices it within two minutes, by probes, and by a request that nobody acknowledges; but at home a
    server that computes may read on much later."""
    async with serving(answering(OK)) as server:
        here = socket.create_connection(("127.0.0.1", server.port))
        here.setblocking(False)
        monkeypatch.setattr(aiohappyeyeballs, "start_connection", AsyncMock(return_value=here))
        await whole_post(native(f"http://{host}:{server.port}"))
        names = "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT"
        idle, between, probes, unanswered = (
            here.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) for name in names
        )
        assert here.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert (idle + between * probes <= 120, unanswered) == (True, unanswered_ms)


@pytest.mark.parametrize(("host", "connects"), [("127.0.0.1", True), ("192.168.0.9", True), ("192.0.2.1", False)])
async def test_a_server_at_home_is_connected_to_anew(
    native: Opener, monkeypatch: pytest.MonkeyPatch, host: str, connects: bool
) -> None:
    """A full backlog drops a connection, which the system would try again after seconds; a distant host takes its
    time."""
    connect, tried = aiohappyeyeballs.start_connection, 0

    async with serving(answering(OK)) as server:

        async def drops_two(_: object, **options: Any) -> socket.socket:
            nonlocal tried
            tried += 1
            if tried <= 2:
                await asyncio.Event().wait()
            here = aiohappyeyeballs.addr_to_addr_infos(("127.0.0.1", server.port))
            assert here is not None
            found: socket.socket = await connect(here, **options)
            return found

        monkeypatch.setattr(aiohappyeyeballs, "start_connection", drops_two)
        monkeypatch.setattr(native_module, "_AGAIN_S", 0.02)
        upstream = native(f"http://{host}:{server.port}", timeouts=Timeouts(connect_s=10.0 if connects else 0.2))
        if connects:
            assert await whole(await post(upstream)) == b"ok"
        else:
            with pytest.raises(ConnectFailed):
                await post(upstream)
            assert tried == 1
