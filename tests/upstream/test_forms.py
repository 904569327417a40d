"""Every way a response may be framed or cut by the network, through both clients."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from upstream.conftest import Opener
from upstream.exchange import OK, post, whole
from upstream.scripted import Scripted, answering, closing, serving

from hivemind.upstream.base import UpstreamRequest
from hivemind.upstream.connect import open_upstream


async def test_a_request_goes_out_as_it_was_given(client: Opener) -> None:
    """Request line, headers in their order and spelling, and body are the caller's; host and length are added."""
    async with serving(answering(OK)) as server:
        target = b"/v1/../a%2Fb/./c?q=%zz&&x=1?"
        await whole(
            await client(server.url).send(UpstreamRequest(b"PUT", target, [(b"X-B", b"2"), (b"x-a", b"1")], b"body"))
        )
        host = b"127.0.0.1:%d" % server.port
        assert server.requests == [
            b"PUT " + target + b" HTTP/1.1\r\nhost: " + host + b"\r\nX-B: 2\r\nx-a: 1\r\ncontent-length: 4\r\n\r\nbody"
        ]


@pytest.mark.parametrize(("method", "sized"), [(b"GET", False), (b"DELETE", False), (b"POST", True), (b"PATCH", True)])
async def test_an_empty_body_has_a_length_where_one_is_expected(client: Opener, method: bytes, sized: bool) -> None:
    """Methods that usually carry a body say that theirs is empty; others say nothing."""
    async with serving(answering(OK)) as server:
        await whole(await client(server.url).send(UpstreamRequest(method, b"/", [], b"")))
        assert (b"content-length: 0" in server.requests[0]) is sized


async def test_response_headers_keep_order_duplicates_and_values(client: Opener) -> None:
    """Names come in lower case, all else as received, an empty value and one beyond ASCII included."""
    head = b"HTTP/1.1 418 Teapot\r\nX-B: 2\r\nSet-Cookie: a\r\nx-e:\r\nSET-COOKIE: b\r\nX-F: caf\xc3\xa9\r\n"
    async with serving(answering(head + b"Content-Length: 0\r\n\r\n")) as server:
        response = await post(client(server.url))
        assert response.status == 418
        assert response.headers == [
            (b"x-b", b"2"),
            (b"set-cookie", b"a"),
            (b"x-e", b""),
            (b"set-cookie", b"b"),
            (b"x-f", b"caf\xc3\xa9"),
            (b"content-length", b"0"),
        ]
        assert await whole(response) == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nx-folded: a\r\n b\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nx-trailer: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nconnection: upgrade\r\nupgrade: h2c\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["length", "no-reason", "folded", "chunked", "trailers", "100", "102-103", "upgrade-offered"],
)
async def test_framed_bodies_end_where_they_say(client: Opener, answer: bytes) -> None:
    """The body is exact, nothing of the framing shows, and the connection serves the next request."""
    async with serving(answering(answer)) as server:
        upstream = client(server.url)
        for _ in range(2):
            response = await post(upstream)
            assert (response.status, await whole(response)) == (200, b"hello")
            assert not {b"link", b"x-trailer"} & {name for name, _ in response.headers}
        assert server.accepted == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\ncontent-length: 5\r\n\r\nhello",
    ],
    ids=["unframed", "close", "http-1.0-unframed", "http-1.0-length"],
)
async def test_bodies_may_end_with_the_connection(client: Opener, answer: bytes) -> None:
    """A close that was announced is a clean end, and the connection isn't used again."""
    async with serving(closing(answer)) as server:
        upstream = client(server.url)
        for _ in range(2):
            assert await whole(await post(upstream)) == b"hello"
        assert server.accepted == 2


@pytest.mark.parametrize(
    ("method", "answer"),
    [(b"GET", b"HTTP/1.1 204 No Content\r\n\r\n"), (b"GET", b"HTTP/1.1 304 Not Modified\r\ncontent-length: 5\r\n\r\n")],
    ids=["204", "304"],
)
async def test_some_responses_have_no_body_whatever_they_say(client: Opener, method: bytes, answer: bytes) -> None:
    """They end with their head, and the connection serves the next request."""
    async with serving(answering(answer, OK)) as server:
        upstream = client(server.url)
        assert await whole(await upstream.send(UpstreamRequest(method, b"/", [], b""))) == b""
        assert await whole(await upstream.send(UpstreamRequest(b"GET", b"/", [], b""))) == b"ok"
        assert server.accepted == 1


@pytest.mark.parametrize("more", [b"", b"he", b"hello"], ids=["none", "a part of it", "all of it"])
async def test_a_body_where_none_may_be_is_no_response(native: Opener, more: bytes) -> None:
    """A server that answers HEAD with a body gets the next request on another connection, whatever has come by then."""
    async with serving(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n" + more, OK)) as server:
        upstream = native(server.url)
        assert await whole(await upstream.send(UpstreamRequest(b"HEAD", b"/", [], b""))) == b""
        await upstream.send(UpstreamRequest(b"GET", b"/", [], b""))
        assert server.accepted == 2


async def test_many_small_chunks_are_read_at_once(native: Opener) -> None:
    """What came together is handed over together."""
    body = b"".join(b"1\r\n%c\r\n" % byte for byte in b"abcdefgh" * 16)
    async with serving(
        answering(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + body + b"0\r\n\r\n")
    ) as server:
        response = await post(native(server.url))
        assert await response.read() == b"abcdefgh" * 16
        assert await response.read() == b""


async def test_a_stream_comes_piece_by_piece(client: Opener) -> None:
    """Each piece is there before the server writes the next."""
    read = asyncio.Event()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        for _ in range(3):
            writer.write(b"5\r\nhello\r\n")
            await read.wait()
            read.clear()
        writer.write(b"0\r\n\r\n")
        await reader.read()

    async with serving(handle) as server:
        response = await post(client(server.url))
        for _ in range(3):
            assert await response.read() == b"hello"
            read.set()
        assert await response.read() == b""
        assert await response.read() == b""


async def test_a_large_body_arrives_whole(client: Opener) -> None:
    """A body that doesn't fit any buffer goes out as fast as the server takes it."""
    body = bytes(range(256)) * 8 * 1024
    async with serving(answering(OK)) as server:
        assert await whole(await post(client(server.url), body)) == b"ok"
        assert server.requests[0].endswith(b"content-length: %d\r\n\r\n" % len(body) + body)


async def test_an_answer_may_come_while_the_request_is_still_being_sent(native: Opener) -> None:
    """A server that answers as it reads gets the rest of the body all the same."""
    body = b"x" * 4_000_000

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n")
        writer.write(b"%d" % len(await reader.readexactly(len(body))))
        await reader.read()

    async with serving(handle) as server:
        response = await post(native(server.url), body)
        assert await whole(response) == b"4000000"


async def test_a_refusal_ends_the_sending(native: Opener) -> None:
    """A server that says no early is understood, and isn't sent the rest, even if it would take it."""
    body = b"x" * 30_000_000
    refused, took_it_all = asyncio.Event(), asyncio.Event()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 5\r\n\r\nno")
        await refused.wait()
        await reader.readexactly(len(body))
        took_it_all.set()

    async with serving(handle) as server:
        response = await post(native(server.url), body)
        assert (response.status, await response.read()) == (413, b"no")
        refused.set()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(took_it_all.wait(), 0.05)
        response.close()


async def test_a_refusal_may_be_followed_by_a_hang_up(native: Opener) -> None:
    """A short answer to a long request is whole, and its connection isn't used again."""
    answered = asyncio.Event()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await answered.wait()

    async with serving(handle) as server:
        upstream = native(server.url)
        for _ in range(2):
            response = await post(upstream, b"x" * 30_000_000)
            assert (response.status, await whole(response)) == (413, b"no")
        answered.set()
        assert server.accepted == 2


PIECES = st.lists(st.binary(min_size=1, max_size=40), max_size=8)
FRAMINGS = st.sampled_from(["length", "chunked", "unframed"])


def on_the_wire(pieces: list[bytes], framing: str) -> bytes:
    """A response with these pieces as its body."""
    body = b"".join(pieces)
    match framing:
        case "length":
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        case "chunked":
            chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
        case _:
            return b"HTTP/1.1 200 OK\r\n\r\n" + body


async def exchange(wire: bytes, cuts: list[int]) -> bytes:
    """Fetch a response that is sent in parts, each on its own."""

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script.request(reader)
        at = sorted({0, len(wire), *(cut % len(wire) for cut in cuts)})
        for start, end in itertools.pairwise(at):
            writer.write(wire[start:end])
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async with serving(handle) as server:
        upstream = open_upstream(server.url)
        body = await whole(await post(upstream))
        await upstream.aclose()
        return body


@settings(max_examples=examples(60), deadline=None)
@given(pieces=PIECES, framing=FRAMINGS, cuts=st.lists(st.integers(0, 1000), max_size=12))
def test_a_body_survives_any_cut(pieces: list[bytes], framing: str, cuts: list[int]) -> None:
    """Whatever its framing and wherever a packet ends, in the head too."""
    assert asyncio.run(exchange(on_the_wire(pieces, framing), cuts)) == b"".join(pieces)
