"""Bodies that take long to read: everybody else is served meanwhile, and they reach their end untouched."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import logging
import zlib

import pytest
from proxy.kit import Raw, between, healths_until, raw, request
from proxy.wire import ANSWER, HELLO, JSON, MESSAGE_START, MESSAGE_STOP, PLAIN_BODY, SSE, STREAM_BODY, chunk, head, http
from waiting import Turns

from hivemind.providers import encoding
from hivemind.providers.encoding import Decoder
from hivemind.providers.outline import Outline
from hivemind.providers.sse import SseSplitter

MB = 1 << 20
LIMIT = 24 * MB
AT_ONCE = 1.5 * MB
"""Bytes that may be unpacked or looked at in one turn of the loop."""


def packed(start: bytes, unit: bytes, size: int) -> bytes:
    """Gzip of so many bytes, of which hardly any stand in memory."""
    packer = zlib.compressobj(9, wbits=31)
    block = unit * (MB // len(unit))
    return packer.compress(start) + b"".join(packer.compress(block) for _ in range(size // MB)) + packer.flush()


BOMB = gzip.compress(packed(b'{"model":"m","messages":"', b"x", 24 * MB), 9)
COMMENTS = packed(MESSAGE_START + HELLO, b":\n\n", 12 * MB)


@pytest.fixture
def _limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than the usual 64 MiB are unpacked."""
    monkeypatch.setattr(encoding.decoder_for, "__defaults__", (LIMIT,))


class Work(Turns):
    """How many bytes were unpacked, split and looked at in each turn of the loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        for cls, name in ((Outline, "feed"), (SseSplitter, "feed")):
            self._count_input(monkeypatch, cls, name)
        through = Decoder._through

        def counting(decoder: Decoder, stage: int, data: bytes) -> object:
            for piece in through(decoder, stage, data):
                self.now += len(piece)
                yield piece

        monkeypatch.setattr(Decoder, "_through", counting)

    def _count_input(self, monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> None:
        method = getattr(cls, name)

        def counting(each: object, data: bytes) -> object:
            self.now += len(data)
            return method(each, data)

        monkeypatch.setattr(cls, name, counting)


async def asked(client: Raw, *sent: bytes) -> bytes:
    """Send a request, a megabyte at a time, and read the answer."""
    for data in sent:
        for at in range(0, len(data), MB):
            await client.send(data[at : at + MB])
    status, headers = await client.head()
    assert status == 200
    return await client.body(headers)


REQUESTS = {
    "gzip of gzip": (BOMB, ("content-encoding: gzip, gzip",)),
    "empty members": (gzip.compress(b"") * 40_000, ("content-encoding: gzip",)),
    "brackets": (b'{"model":"m","a":[' + b"{}," * (3 * MB) + b"1]}", ()),
    "one string": (b'{"model":"m","a":"' + b'\\"' * (6 * MB) + b'"}', ()),
    "keys of payloads": (b'{"model":"m","base64":[' + b'"data",' * (3 * MB) + b"1]}", ()),
}


@pytest.mark.parametrize(
    "name", ["gzip of gzip", *(pytest.param(n, marks=pytest.mark.slow) for n in REQUESTS if n != "gzip of gzip")]
)
async def test_a_request_that_takes_long_to_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is read a little in each turn of the loop, forwarded as it came, and answered."""
    body, encoding = REQUESTS[name]
    work = Work(monkeypatch)
    async with between([ANSWER]) as (running, upstream), raw(running.port) as client, work.watched():

        async def ask() -> None:
            await asked(client, request("/v1/messages", body, "x-api-key: k", *encoding))

        asking = asyncio.create_task(ask())
        answered = await healths_until(running, asking)
        await asking
        assert upstream.requests[0].endswith(body)
    assert answered >= 10
    assert work.most <= AT_ONCE


@pytest.mark.slow
async def test_many_at_once_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn of the loop takes no longer when three are to be read than when one is."""
    work = Work(monkeypatch)
    sent = request("/v1/messages", BOMB, "x-api-key: k", "content-encoding: gzip, gzip")
    async with between([ANSWER]) as (running, upstream), contextlib.AsyncExitStack() as stack, work.watched():
        clients = [await stack.enter_async_context(raw(running.port)) for _ in range(3)]
        await asyncio.gather(*(asked(client, sent) for client in clients))
        assert len(upstream.requests) == 3
    assert work.most <= AT_ONCE
    assert work.turns > 3 * 24


@pytest.mark.usefixtures("_limit")
@pytest.mark.parametrize(
    ("stream", "coding"),
    [
        (False, "gzip, gzip"),
        *(pytest.param(stream, "gzip", marks=pytest.mark.slow) for stream in (True, False)),
        pytest.param(True, "gzip, gzip", marks=pytest.mark.slow),
    ],
)
async def test_an_answer_that_takes_long_to_read(
    stream: bool, coding: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets the very bytes that came; what was used is estimated where it couldn't be read, and that is
    said."""
    caplog.set_level(logging.INFO)
    body = packed(MESSAGE_START if stream else b'{"a":"', b"x", LIMIT + 2 * MB)
    body = gzip.compress(body, 9) if "," in coding else body
    answer = http(200, body, SSE if stream else JSON, f"content-encoding: {coding}")
    work = Work(monkeypatch)
    async with between([answer]) as (running, _), raw(running.port) as client, work.watched():
        got = b""

        async def ask() -> None:
            nonlocal got
            got = await asked(client, request("/v1/messages", STREAM_BODY if stream else PLAIN_BODY, "x-api-key: k"))

        asking = asyncio.create_task(ask())
        answered = await healths_until(running, asking)
        await asking
        (seen,) = running.proxy.engine.requests(0).changed
    assert got == body
    assert answered >= 10
    assert work.most <= AT_ONCE
    assert "what request 1 used is estimated: the body unpacks to more than 24 MiB" in caplog.text
    assert seen.usage is not None
    assert seen.usage.output_tokens > 0


async def test_comments_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Megabytes of them between two events are passed over, and the usage after them is read."""
    work = Work(monkeypatch)
    end = gzip.compress(MESSAGE_STOP)
    answer = head(SSE, "content-encoding: gzip") + chunk(COMMENTS) + chunk(end) + b"0\r\n\r\n"
    async with between([answer]) as (running, _), raw(running.port) as client, work.watched():
        got = await asked(client, request("/v1/messages", STREAM_BODY, "x-api-key: k"))
        assert got == COMMENTS + end
    assert work.most <= AT_ONCE


@pytest.mark.usefixtures("_limit")
async def test_a_bomb_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """A request whose size is a guess is named in the log, with the reason."""
    caplog.set_level(logging.INFO)
    bomb = packed(b'{"model":"m","a":"', b"x", LIMIT + 2 * MB)
    async with between([ANSWER]) as (running, _), raw(running.port) as client:
        await asked(client, request("/agent/ann/v1/messages", bomb, "x-api-key: k", "content-encoding: gzip"))
    assert "the size of a request of ann is estimated: the body unpacks to more than 24 MiB" in caplog.text


async def test_a_begun_stream_is_decoded_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client whose stream was begun before its turn gets plain bytes, be they ten thousand times as many."""
    work = Work(monkeypatch)
    goes_on = asyncio.Event()
    answer = head(SSE, "content-encoding: gzip") + chunk(COMMENTS) + b"0\r\n\r\n"
    async with (
        between([goes_on, ANSWER], [answer], max_concurrency=1, keepalive_after_s=0.001) as (running, upstream),
        raw(running.port) as first,
        raw(running.port, limit=64 * MB) as second,
        work.watched(),
    ):
        await first.send(request("/v1/messages", PLAIN_BODY, "x-api-key: k"))
        await upstream.until(lambda: bool(upstream.requests))
        status, _ = await second.ask(request("/v1/messages", STREAM_BODY, "x-api-key: k"))
        assert status == 200
        goes_on.set()
        size = 0
        with contextlib.suppress(asyncio.IncompleteReadError, ValueError):
            while data := await second.chunk():
                size += len(data)
    assert size >= 12 * MB
    assert work.most <= AT_ONCE
