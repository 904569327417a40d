"""Answers that are held until they are whole: what cuts one is made good unseen, and what passes is as it came."""

from __future__ import annotations

import asyncio
import gzip
import math
from collections.abc import Awaitable, Callable
from typing import Any

import anthropic
import httpx
import openai
import pytest
from proxy.kit import Close, Hang, Play, Reset, Step, between, client, proxying, raw, request
from proxy.sdk import sdk_http
from proxy.wire import (
    CHAT,
    FRAMED_CLAUDE,
    FRAMES,
    GEMINI,
    MESSAGE,
    NDJSON,
    OLLAMA,
    OVERLOADED,
    RESPONSE,
    SSE,
    STREAM_BODY,
    THROTTLED,
    chunk,
    chunked,
    data,
    event,
    head,
    line,
)

from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import FaultConfig, LatencyConfig, MockConfig
from hivemind_mock.provider.serve import serving as serving_app

MESSAGES = "/v1/messages"
HOLD = {"x-hivemind-hold-answers": "true"}
# Path, body, head, events, how many of them bring some of the content, an error event, tokens in the whole answer.
DIALECTS: dict[str, tuple[str, bytes, str, tuple[bytes, ...], int, bytes, int]] = {
    "anthropic": (MESSAGES, STREAM_BODY, SSE, MESSAGE, 4, OVERLOADED, 18),
    "chat": ("/v1/chat/completions", STREAM_BODY, SSE, CHAT, 2, data(error={"message": "x", "code": 503}), 20),
    "responses": ("/v1/responses", STREAM_BODY, SSE, RESPONSE, 3, event("error", code="server_error", message="x"), 22),
    "google": (
        "/v1beta/models/m:streamGenerateContent?alt=sse",
        b'{"contents":[]}',
        SSE,
        GEMINI,
        1,
        b'{"error":{"code":503,"status":"UNAVAILABLE","message":"x"}}\r\n\r\n',
        24,
    ),
    "ollama": ("/api/chat", b'{"model":"m"}', NDJSON, OLLAMA, 1, line(error="server busy"), 26),
    "bedrock": ("/model/m/invoke-with-response-stream", b"{}", FRAMES, FRAMED_CLAUDE, 2, THROTTLED, 50),
}
ENDS = ["reset", "closed", "clean end", "error", "silence"]


def cut(dialect: str, end: str) -> Play:
    """An answer that ends like this after some of its content."""
    _, _, said, events, number, error, _ = DIALECTS[dialect]
    begun = b"".join(map(chunk, events[:number]))
    if end == "clean end":
        return [chunked(events[:number], said)]
    if end == "error":
        return [chunked([*events[:number], error], said)]
    return [head(said) + begun, Reset() if end == "reset" else Close() if end == "closed" else Hang()]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_cut_is_made_good(dialect: str, end: str) -> None:
    """A client whose answer is held gets the second attempt byte by byte, nothing of the first, and both are charged
    once; to one whose answer isn't held the same is a failure."""
    path, body, said, events, _, _, tokens = DIALECTS[dialect]
    good = [chunked(events, said)]
    quick = {"idle_timeout_s": 0.3} if end == "silence" else {}
    async with between(cut(dialect, end), good, **quick) as (proxy, upstream), client() as http:
        answer = await http.post(proxy.url + path, content=body, headers=HOLD)
        assert (answer.status_code, answer.content) == (200, b"".join(events))
        assert b"x-hivemind" not in upstream.requests[0].lower()
        world = proxy.snapshot()
        assert (world.totals.retried_ok, world.totals.failed, world.totals.retries) == (1, 0, 1)
        used, lost = world.totals.usage.total, world.totals.wasted.total
        assert (used, lost > 0, proxy.proxy.engine.pool.ever.tokens) == (tokens, True, used + lost)
        assert proxy.proxy.app.body_budget.used == 0


@pytest.mark.parametrize(("ends", "sent"), [(Close(), 2), (b"0\r\n\r\n", 1)], ids=["cut", "whole"])
async def test_an_end_marker_without_a_reason(ends: Step, sent: int) -> None:
    """A chat that breaks off after `[DONE]`, before any reason, is tried again; one that ends well there has none."""
    play: Play = [head(SSE) + b"".join(map(chunk, [*CHAT[:2], CHAT[-1]])), ends]
    async with between(play, [chunked(CHAT, SSE)]) as (proxy, upstream), client() as http:
        answer = await http.post(f"{proxy.url}/v1/chat/completions", content=STREAM_BODY, headers=HOLD)
        assert answer.content == b"".join(CHAT if sent == 2 else [*CHAT[:2], CHAT[-1]])
        assert (len(upstream.requests), proxy.snapshot().totals.failed) == (sent, 0)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_passes_before_the_end(dialect: str) -> None:
    """The answer goes out at once when its last event has come, and what it brought so far is shown until then."""
    path, body, said, events, _, _, _ = DIALECTS[dialect]
    last, ends = asyncio.Event(), asyncio.Event()
    play: Play = [head(said) + b"".join(map(chunk, events[:-1])), last, chunk(events[-1]), ends, b"0\r\n\r\n"]
    async with between(play, keepalive_after_s=60) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(path, body, "x-hivemind-hold-answers: 1"))
        await proxy.until(lambda world: any(slot.output_tokens for slot in world.slots))
        assert direct.reader._buffer == b""  # type: ignore[attr-defined]
        last.set()
        status, headers = await direct.head()
        assert (status, await direct.chunk()) == (200, b"".join(events))
        ends.set()
        assert await direct.body(headers) == b""


SILENT = ("user-agent: AsyncAnthropic/Python 2.11.0", "x-stainless-lang: python", "x-stainless-timeout: 600")
"""A client that ends at an error event."""


@pytest.mark.parametrize("encoded", [False, True])
async def test_signs_of_life(encoded: bool) -> None:
    """Until the answer is whole, its client gets pings, also between two attempts; one to which an error event would be
    final gets none, so that a failure for good can be a status."""
    first, second = asyncio.Event(), asyncio.Event()
    pack: Any = gzip.compress if encoded else bytes
    said = (SSE, "content-encoding: gzip") if encoded else (SSE,)
    plays: list[Play] = [
        [head(*said) + chunk(pack(b"".join(MESSAGE[:4]))), first, Reset()],
        [head(SSE) + b"".join(map(chunk, MESSAGE[:4])), second, *map(chunk, MESSAGE[4:]), b"0\r\n\r\n"],
    ]
    soon = {"keepalive_after_s": 0.005, "keepalive_every_s": 0.005}
    ping = b'event: ping\ndata: {"type": "ping"}\n\n'
    async with between(*plays, **soon) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, STREAM_BODY, "x-hivemind-hold-answers: true", "accept-encoding: gzip"))
        _, headers = await direct.head()
        assert [await direct.chunk() for _ in range(3)] == [ping] * 3
        first.set()
        await upstream.until(lambda: len(upstream.requests) == 2)
        assert await direct.chunk() == ping
        second.set()
        assert (await direct.body(headers)).replace(ping, b"") == b"".join(MESSAGE)
    broken: Play = [chunked([*MESSAGE[:4], OVERLOADED], SSE)]
    async with between(broken, retry={"max_attempts": 2}, **soon) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, STREAM_BODY, "x-hivemind-hold-answers: true", *SILENT))
        assert (status, b"retry-after" in dict(headers)) == (529, True)
        assert await direct.body(headers) == OVERLOADED.partition(b"data: ")[2].strip()


async def test_no_room_in_memory() -> None:
    """An answer for which memory has no room passes as it comes from there on, and a cut is the client's to see; held
    answers leave half of the room to requests."""
    text = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "x" * 60_000})
    goes_on = asyncio.Event()
    long = [*MESSAGE[:3], *[text] * 10]
    play: Play = [head(SSE) + b"".join(map(chunk, long)), goes_on, Reset()]
    limits = {"max_body_mb": 1, "max_bodies_mb": 1}
    async with between(play, **limits) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, STREAM_BODY, "x-hivemind-hold-answers: true"))
        assert await direct.chunks(len(b"".join(long))) == b"".join(long)
        assert 0 < proxy.proxy.app.body_budget.used < 1 << 19
        goes_on.set()
        assert b"HiveMind: the answer broke off" in await direct.rest()
        assert (len(upstream.requests), proxy.snapshot().totals.failed) == (1, 1)
        assert proxy.proxy.app.body_budget.used == 0


WHO: dict[str, tuple[str, dict[str, str], bool]] = {
    "nobody": ("", {}, False),
    "header": ("", {"x-hivemind-hold-answers": "ON"}, True),
    "path": ("/hold-answers/to/lab/agent/eve", {}, True),
    "path, in another order": ("/agent/eve/hold-answers", {}, True),
    "agent": ("/agent/Crew", {}, True),
    "its sub-agent": ("/agent/crew", {"x-hivemind-agent": "writer"}, True),
    "another agent": ("/agent/crews", {}, False),
    "agent, but not this request": ("/agent/crew", {"x-hivemind-hold-answers": "0"}, False),
}


@pytest.mark.parametrize(("path", "said", "holds"), WHO.values(), ids=list(WHO))
async def test_whose_answers_are_held(path: str, said: dict[str, str], holds: bool) -> None:
    """Held are the answers to requests that say so, in a header or in their path, and of agents of which the settings
    do; what the header says counts most."""
    plays = cut("anthropic", "clean end"), [chunked(MESSAGE, SSE)]
    async with between(*plays, agents={"hold_answers": ["CREW", "bob"]}) as (proxy, upstream), client() as http:
        try:
            answer = await http.post(f"{proxy.url}{path}{MESSAGES}", content=STREAM_BODY, headers=said)
            assert (holds, answer.content) == (True, b"".join(MESSAGE))
        except httpx.RemoteProtocolError:
            assert not holds
        assert len(upstream.requests) == 1 + holds
        refused = await http.post(proxy.url + MESSAGES, headers={"x-hivemind-hold-answers": "maybe"})
        assert (refused.status_code, "must be true or false" in refused.text) == (400, True)


async def test_latency_of_whole_answers() -> None:
    """That an answer was held counts as a whole answer's latency, not as a long time to its first token."""
    ends = asyncio.Event()
    play: Play = [head(SSE) + b"".join(map(chunk, MESSAGE[:4])), ends, *map(chunk, MESSAGE[4:]), b"0\r\n\r\n"]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, STREAM_BODY, "x-hivemind-hold-answers: true"))
        await proxy.until(lambda world: any(slot.output_tokens for slot in world.slots))
        ends.set()
        _, headers = await direct.head()
        await direct.body(headers)
        (lane,) = proxy.proxy.engine._scheduler.lanes.values()
        pace = lane.allowances["m"].pace
        assert (pace.first.any_s, pace.whole.any_s > 0) == (math.inf, True)


HELLO: Any = {"role": "user", "content": "hi"}
FAULTY = MockConfig(
    faults=FaultConfig(reset_mid=0.15, error_mid=0.15, truncated=0.1, reset_early=0.1),
    latency=LatencyConfig(0.002, 0.0),
)
"""Half of all streams fail, most of them in the middle."""


@pytest.mark.slow
async def test_sdks_that_stream_inside() -> None:
    """Programs on the official SDKs, and on Google's format, don't end at a stream of which attempts are cut, reset or
    answered by an error event in the middle."""
    patient: dict[str, Any] = {"retry": {"max_attempts": 100, "budget_ratio": 100}, "features": {"backpressure": False}}
    async with (
        serving_app(MockProvider(FAULTY)) as url,
        proxying(
            f"anthropic={url}", f"openai={url}", f"google={url}", agents={"hold_answers": ["*"]}, **patient
        ) as proxy,
    ):
        async with sdk_http() as http:
            claude = anthropic.AsyncAnthropic(api_key="k", base_url=proxy.url, http_client=http, max_retries=0)
            gpt = openai.AsyncOpenAI(api_key="k", base_url=f"{proxy.url}/v1", http_client=http, max_retries=0)

            async def messages() -> bool:
                async with claude.messages.stream(model="m", max_tokens=50, messages=[HELLO]) as stream:
                    return bool((await stream.get_final_message()).stop_reason)

            async def chat() -> bool:
                last = None
                async for part in await gpt.chat.completions.create(model="m", messages=[HELLO], stream=True):
                    last = part.choices[0].finish_reason or last
                return bool(last)

            async def responses() -> bool:
                kinds = [each.type async for each in await gpt.responses.create(model="m", input="hi", stream=True)]
                return bool(kinds[-1] == "response.completed")

            async def gemini() -> bool:
                path = "/v1beta/models/g:streamGenerateContent?alt=sse"
                answer = await http.post(f"{proxy.url}{path}", json={"contents": [{"parts": [{"text": "hi"}]}]})
                return '"finishReason"' in answer.text

            async def repeated(ask: Callable[[], Awaitable[bool]]) -> int:
                return sum([await ask() for _ in range(8)])

            done = await asyncio.gather(*map(repeated, (messages, chat, responses, gemini)))
        totals = proxy.snapshot().totals
        assert (done, totals.finished, totals.failed) == ([8] * 4, 32, 0)
        assert totals.retries > 8
