"""A streaming client that waits gets pings that its SDK ignores, then its answer or its provider's error."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from proxy.kit import HANGS_S, Hang, Pairs, Play, Raw, Reset, Running, Seen, between, playing, proxying, raw, request
from proxy.wire import (
    ANSWER,
    CHAT,
    END,
    GEMINI,
    MESSAGE,
    MESSAGE_START,
    NDJSON,
    OLLAMA,
    OVERLOADED,
    PLAIN_BODY,
    RESPONSE,
    SSE,
    STREAM_BODY,
    anthropic_error,
    chunk,
    chunked,
    head,
    http,
)
from upstream.scripted import Scripted, serving

MESSAGES = "/v1/messages"
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
SOON: dict[str, Any] = {"keepalive_after_s": 0.005, "keepalive_every_s": 0.005, "max_concurrency": 1}


@dataclass
class Waiting:
    """A streaming client behind another one that has the only slot."""

    proxy: Running
    upstream: Scripted
    raw: Raw
    gate: asyncio.Event
    """Lets the one before it go."""
    headers: Pairs


@contextlib.asynccontextmanager
async def waiting(
    target: str, body: bytes, *plays: Play, headers: tuple[str, ...] = (), **values: Any
) -> AsyncIterator[Waiting]:
    """A client whose stream was begun by a keepalive; once it is granted, the upstream gives these plays."""
    gate = asyncio.Event()
    async with (
        serving(playing([gate, ANSWER], *plays)) as upstream,
        proxying(f"lab={upstream.url}", **SOON | values) as proxy,
        raw(proxy.port) as first,
        raw(proxy.port) as second,
    ):
        await first.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        status, said = await second.ask(request(target, body, *headers))
        assert status == 200
        yield Waiting(proxy, upstream, second, gate, said)


FORMS: dict[str, tuple[str, bytes, tuple[str, ...], bytes, Play, bytes]] = {
    "anthropic": (MESSAGES, STREAM_BODY, (), PING, [chunked(MESSAGE, SSE)], b"".join(MESSAGE)),
    "chat": ("/v1/chat/completions", STREAM_BODY, (), b"\n", [chunked(CHAT, SSE)], b"".join(CHAT)),
    "responses": ("/v1/responses", STREAM_BODY, (), b"\n", [chunked(RESPONSE, SSE)], b"".join(RESPONSE)),
    "codex": (
        "/v1/responses",
        STREAM_BODY,
        ("originator: codex_exec",),
        b'event: ping\ndata: {"type":"ping"}\n\n',
        [chunked(RESPONSE, SSE)],
        b"".join(RESPONSE),
    ),
    "google": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        b'{"contents":[]}',
        (),
        b"\n",
        [chunked(GEMINI, SSE)],
        b"".join(GEMINI),
    ),
    "ollama": ("/api/chat", b'{"model":"m"}', (), b" ", [chunked(OLLAMA, NDJSON)], b"".join(OLLAMA)),
}


@pytest.mark.parametrize(("target", "body", "said", "beat", "play", "answer"), FORMS.values(), ids=list(FORMS))
async def test_company_then_the_answer(
    target: str, body: bytes, said: tuple[str, ...], beat: bytes, play: Play, answer: bytes
) -> None:
    """The head is out, signs of life follow in the client's own form, then the upstream's bytes and nothing else."""
    async with waiting(target, body, play, headers=said) as client:
        kind = b"application/x-ndjson" if "/api/" in target else b"text/event-stream; charset=utf-8"
        assert (b"content-type", kind) in client.headers
        assert [await client.raw.chunk() for _ in range(3)] == [beat] * 3
        client.gate.set()
        got = await client.raw.body(client.headers)
        assert got.endswith(answer)
        assert got.removesuffix(answer).replace(beat, b"") == b""


async def test_answer_comes_without_encoding() -> None:
    """A head that was sent without an encoding binds: the upstream is asked for none, and one that comes is undone."""
    play = [chunked([gzip.compress(b"".join(MESSAGE))], SSE, "content-encoding: gzip")]
    async with waiting(MESSAGES, STREAM_BODY, play, headers=("accept-encoding: gzip, br",)) as client:
        client.gate.set()
        got = await client.raw.body(client.headers)
        assert got.replace(PING, b"") == b"".join(MESSAGE)
        assert Seen.of(client.upstream.requests[1]).values(b"accept-encoding") == [b"identity"]


FAILURES: dict[str, tuple[Play, str, str]] = {
    "refused for good": ([http(400, anthropic_error("invalid_request_error", "bad"))], "invalid_request_error", "bad"),
    "out of quota": ([http(403, anthropic_error("billing_error", "pay"))], "billing_error", "pay"),
}


@pytest.mark.parametrize(("play", "kind", "text"), FAILURES.values(), ids=list(FAILURES))
async def test_company_then_a_refusal(play: Play, kind: str, text: str) -> None:
    """A refusal then arrives as the provider's error event, with the provider's words, in a stream that ends well."""
    async with waiting(MESSAGES, STREAM_BODY, play) as client:
        client.gate.set()
        got = (await client.raw.body(client.headers)).replace(PING, b"")
        name, data = got.removesuffix(b"\n\n").split(b"\n")
        assert name == b"event: error"
        assert json.loads(data.removeprefix(b"data: ")) == anthropic_error(kind, text)


async def test_a_client_that_waits_less_gets_them_sooner() -> None:
    """A client that states a shorter timeout than the time between two of them doesn't run into it."""
    said, play = ("x-stainless-lang: python", "x-stainless-read-timeout: 0.01"), [chunked(MESSAGE, SSE)]
    late = dict.fromkeys(("keepalive_after_s", "keepalive_every_s"), 10 * HANGS_S)
    async with waiting(MESSAGES, STREAM_BODY, play, headers=said, **late) as client:
        assert [await client.raw.chunk() for _ in range(2)] == [PING] * 2
        client.gate.set()
        await client.raw.body(client.headers)


async def test_company_through_failures_then_the_answer() -> None:
    """Failed attempts are made good unseen in a begun stream too."""
    plays: list[Play] = [[Reset()], [http(529)], [chunked([MESSAGE_START, OVERLOADED], SSE)], [chunked(MESSAGE, SSE)]]
    async with waiting(MESSAGES, STREAM_BODY, *plays) as client:
        client.gate.set()
        got = await client.raw.body(client.headers)
        assert got.replace(PING, b"") == b"".join(MESSAGE)
        assert client.proxy.snapshot().totals.failed == 0


async def test_own_refusal_in_a_begun_stream() -> None:
    """A refusal of our own arrives as an error event as well: here because the proxy shuts down."""
    async with waiting(MESSAGES, STREAM_BODY, [ANSWER]) as client:
        drained = asyncio.create_task(client.proxy.proxy.drain(5))
        got = (await client.raw.body(client.headers)).replace(PING, b"")
        assert got.startswith(b'event: error\ndata: {"type":"error","error":{"type":"api_error"')
        client.gate.set()
        await drained


async def test_client_that_leaves_in_company() -> None:
    """A client that leaves while it is kept alive is dropped at once."""
    async with waiting(MESSAGES, STREAM_BODY, [Hang()]) as client:
        client.raw.leave(hard=True)
        await client.proxy.until(lambda world: world.queued == 0 and world.totals.abandoned == 1)
        client.gate.set()
        await client.proxy.until(lambda world: not world.slots)
        assert len(client.upstream.requests) == 1


async def test_whole_answers_get_none() -> None:
    """Who doesn't stream gets no byte before its answer, so that its status can still be anything."""
    gate = asyncio.Event()
    async with (
        serving(playing([gate, ANSWER], [http(400, b"{}")])) as upstream,
        proxying(f"lab={upstream.url}", **SOON) as proxy,
        raw(proxy.port) as first,
        raw(proxy.port) as stream,
        raw(proxy.port) as whole,
    ):
        await first.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        await whole.send(request(MESSAGES, PLAIN_BODY))
        await proxy.until(lambda world: world.queued == 1)
        await stream.ask(request(MESSAGES, STREAM_BODY))
        assert await stream.chunk() == PING
        gate.set()
        assert (await whole.head())[0] == 400


COMMENTS = [b": keepalive 2048/7218\n\n", b": keepalive 7218/7218\r\n\r\n"]
SILENT = ("user-agent: AsyncOpenAI/Python 3.52.0",)
"""A client that ends at an error event."""


@pytest.mark.parametrize("said", [(), SILENT], ids=["any client", "one that ends at an error event"])
async def test_prefill(said: tuple[str, ...]) -> None:
    """A stream begins for its client as the server begins it, with the comments that tell how much of the prompt was
    read, which is shown; a failure after them is still made good unseen. A client to which an error event would be
    final gets all of it with the first content."""
    more, fails, goes_on = asyncio.Event(), asyncio.Event(), asyncio.Event()
    first: Play = [head(SSE) + chunk(COMMENTS[0]), more, chunk(COMMENTS[1]), fails, Reset()]
    second: Play = [head(SSE) + chunk(COMMENTS[0]) + chunk(COMMENTS[1]), goes_on, b"".join(map(chunk, CHAT)) + END]
    async with between(first, second) as (proxy, upstream), raw(proxy.port) as streaming:
        await streaming.send(request("/v1/chat/completions", STREAM_BODY, *said))
        reading = await proxy.until(lambda world: _prefills(proxy) == [(2048, 7218)])
        assert [slot.state for slot in reading.slots] == ["waiting"]
        if not said:
            status, headers = await streaming.head()
            assert (status, await streaming.chunk()) == (200, COMMENTS[0])
        more.set()
        await proxy.until(lambda world: _prefills(proxy) == [(7218, 7218)])
        fails.set()
        await proxy.until(lambda world: _prefills(proxy) == [(7218, 7218)] * 2)
        goes_on.set()
        if said:
            status, headers = await streaming.head()
        assert (await streaming.body(headers)) == b"".join([*([] if said else COMMENTS[1:]), *COMMENTS, *CHAT])
        assert (len(upstream.requests), proxy.snapshot().totals.failed) == (2, 0)


def _prefills(proxy: Running) -> list[tuple[int, int] | None]:
    return [attempt.prefill for each in proxy.proxy.engine.requests(0).changed for attempt in each.attempts]
