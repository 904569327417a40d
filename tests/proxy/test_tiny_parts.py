"""Bodies and answers in the smallest parts: everybody else is served meanwhile, and what has no end is refused."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxy.kit import Raw, Seen, between, healths_until, raw, request
from proxy.wire import ANSWER, END, HELLO, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, WORLD, chunk, head, http
from waiting import Turns

from hivemind.proxy import server_protocol
from hivemind.proxy.server_protocol import SMALLEST_CHUNK, TINY_CHUNKS, ClientProtocol
from hivemind.proxy.streaming import MOST_HELD, EventHold
from hivemind.upstream.connection import Connection
from hivemind.upstream.input_turns import SLICE, TURN_PARTS

MESSAGES = "/v1/messages"
AT_ONCE = 2 * (TURN_PARTS + SLICE // 6)
"""Chunks that may be parsed in one turn, whose least size with their framing is six bytes."""
MANY = 16
CHUNKED = b"POST %b HTTP/1.1\r\nhost: x\r\nx-api-key: k\r\ntransfer-encoding: chunked\r\n\r\n" % MESSAGES.encode()
BOTH = pytest.mark.parametrize(
    "extension", [pytest.param(b"", id="bare", marks=pytest.mark.slow), pytest.param(b";a=bcdefgh", id="extensions")]
)


def cut(body: bytes, size: int = 1, extension: bytes = b"") -> bytes:
    """The body in chunks of this size."""
    parts = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts)


class Chunks(Turns):
    """How many chunks were parsed in each turn of the loop, of clients and of upstreams."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for protocol in (ClientProtocol, Connection):
            self._count(monkeypatch, protocol)

    def _count(self, monkeypatch: pytest.MonkeyPatch, protocol: type[ClientProtocol | Connection]) -> None:
        method: Callable[[Any], None] = protocol.on_chunk_header

        def counting(connection: object) -> None:
            self.now += 1
            method(connection)

        monkeypatch.setattr(protocol, "on_chunk_header", counting)


@BOTH
async def test_endless_bodies_in_tiny_chunks(extension: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is refused in the provider's form; sixteen of them take no more of a turn than one."""
    turns, piece = Chunks(monkeypatch), cut(b"a" * 20_000, 1, extension)
    monkeypatch.setattr(server_protocol, "TINY_CHUNKS", 8 << 10)

    async def endless(direct: Raw) -> tuple[int, dict[str, object]]:
        async def send() -> None:
            with contextlib.suppress(ConnectionError):
                await direct.send(CHUNKED)
                while True:
                    await direct.send(piece)

        sending = asyncio.create_task(send())
        try:
            status, headers = await direct.head()
            return status, json.loads(await direct.body(headers))
        finally:
            sending.cancel()

    async with between([ANSWER]) as (running, upstream), contextlib.AsyncExitStack() as stack, turns.watched():
        clients = [await stack.enter_async_context(raw(running.port)) for _ in range(MANY)]
        sending = asyncio.gather(*map(endless, clients))
        answered = await healths_until(running, sending)
        for status, body in await sending:
            assert (status, body["type"]) == (400, "error")
            assert "chunks are too small" in json.dumps(body)
        assert not upstream.requests
        assert running.proxy.app.body_budget.used == 0
    assert answered >= 10
    assert turns.most <= AT_ONCE


@pytest.mark.parametrize(
    ("size", "length"),
    [(1, TINY_CHUNKS), (SMALLEST_CHUNK, 400_000), (4096, 400_000)],
    ids=["as many tiny ones as may be", "of the smallest size", "larger"],
)
async def test_small_chunks_that_pass(size: int, length: int) -> None:
    """A body whose chunks are large enough on average, or that is short, goes upstream as it is."""
    body = b'{"pad":"' + b"x" * (length - 10) + b'"}'
    async with between([ANSWER]) as (_, upstream), raw(_.port) as direct:
        assert (await direct.ask(CHUNKED + cut(body, size) + END))[0] == 200
        assert Seen.of(upstream.requests[0]).body == body


async def test_an_average_counts() -> None:
    """Tiny chunks may come among large ones."""
    async with between([ANSWER]) as (running, upstream), raw(running.port) as direct:
        body = [b"a" * 100_000, b"b" * 1_000, b"c" * 100_000]
        assert (await direct.ask(CHUNKED + chunk(body[0]) + cut(body[1]) + chunk(body[2]) + END))[0] == 200
        assert Seen.of(upstream.requests[0]).body == b"".join(body)


async def test_a_body_with_a_length_in_tiny_segments() -> None:
    """However it is cut on the wire, it has no chunks that could be too small."""
    body = b'{"pad":"' + b"x" * (2 * TINY_CHUNKS) + b'"}'
    async with between([ANSWER]) as (running, upstream), raw(running.port) as direct:
        message = request(MESSAGES, body, "x-api-key: k")
        for at in range(0, len(message), 50):
            direct.writer.write(message[at : at + 50])
            await asyncio.sleep(0)
        assert (await direct.head())[0] == 200
        assert Seen.of(upstream.requests[0]).body == body


@BOTH
async def test_an_answer_in_tiny_chunks(extension: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream is never refused for it, however long: it arrives whole, read a little in each turn."""
    turns, stream = Chunks(monkeypatch), b"".join([*MESSAGE[:2], *[HELLO, WORLD] * 300, *MESSAGE[-3:]])
    answer = head(SSE) + cut(stream, 1, extension) + END
    async with between([answer]) as (running, _), contextlib.AsyncExitStack() as stack, turns.watched():

        async def ask() -> bytes:
            client = await stack.enter_async_context(raw(running.port))
            status, headers = await client.ask(request(MESSAGES, STREAM_BODY, "x-api-key: k"))
            assert status == 200
            return await client.body(headers)

        asking = asyncio.gather(*(ask() for _ in range(4)))
        await healths_until(running, asking)
        assert await asking == [stream] * 4
    assert turns.most <= AT_ONCE


async def test_an_answer_and_more_behind_it() -> None:
    """What follows a whole answer, however far behind, is no answer to the next request."""
    long = b"x" * 300_000
    answers = http(200, long) + ANSWER
    async with between([answers], [ANSWER]) as (running, upstream), raw(running.port) as direct:
        for expected in (long, ANSWER.partition(b"\r\n\r\n")[2]):
            _, headers = await direct.ask(request(MESSAGES, PLAIN_BODY, "x-api-key: k"))
            assert await direct.body(headers) == expected
        assert upstream.accepted == 2


@pytest.mark.parametrize(
    "endless",
    [b"HTTP/1.1 200 -\r\n" + b"a:b\r\n" * 50_000, b"HTTP/1.1 100 -\r\n\r\n" * 16_000],
    ids=["header lines", "interim answers"],
)
async def test_endless_heads_of_an_upstream(endless: bytes) -> None:
    """They are malformed answers, whatever comes behind."""
    play = [endless + b"\r\n" + ANSWER]
    async with between(play, retry={"max_attempts": 1}) as (running, _), raw(running.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY, "x-api-key: k"))
        assert (status, b"malformed" in await direct.body(headers)) == (502, True)


# --- Events that come in pieces ---------------------------------------------------------------------------------------

ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


@given(st.data())
def test_events_are_held_to_their_end(data: st.DataObject) -> None:
    """Wherever a stream is cut, what is passed on is what comes of looking at all that is held, each time."""
    stream = b"".join(data.draw(st.lists(st.sampled_from([b"a", b"\n", b"\r", b"data: x", *ENDS]), max_size=40)))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=20))
    hold, held, before = EventHold(ENDS, is_between=True), b"", 0
    for at in sorted({*cuts, len(stream)}):
        held += stream[before:at]
        end = max(held.rfind(mark) + len(mark) if mark in held else 0 for mark in ENDS)
        assert hold.passed(stream[before:at]) == held[:end]
        held, before = held[end:], at
        assert (bytes(hold.held), hold.is_between) == (held, True)


async def test_a_long_event_byte_by_byte_is_searched_once() -> None:
    """Of what is held, no byte but the last few is searched again when more comes."""

    class Counting(bytearray):
        searched = 0

        def rfind(self, mark: bytes, start: int = 0) -> int:  # type: ignore[override]
            self.searched += len(self) - start
            return super().rfind(mark, start)

    hold = EventHold(ENDS, is_between=True)
    hold.held = Counting()
    for _ in range(MOST_HELD // 4):
        assert hold.passed(b"a") == b""
    assert hold.held.searched <= 20 * MOST_HELD // 4
    assert hold.passed(b"\n\n") == b"a" * (MOST_HELD // 4) + b"\n\n"
    assert hold.is_between
