"""What goes through untouched, in both directions."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable

import brotli
import pytest
import zstandard
from proxy.kit import Hang, Pairs, Reset, Seen, between, playing, proxying, raw, request
from proxy.wire import ANSWER, JSON, MESSAGE, PLAIN_BODY, SSE, chunked, http
from upstream.scripted import serving

MESSAGES = "/v1/messages"


async def test_body_and_headers_reach_the_upstream_as_they_were() -> None:
    """Body, values, order and duplicates are the client's own; host and framing are the upstream's."""
    body = b'{ "model" : "m",\t"messages": [ ],"unknown":1.0e2, "a":1,"a":2, "s":"\\u00e9\xc3\xa9" }\n'
    said = [
        "X-Api-Key: sk-1",
        "Anthropic-Version: 2026-10-21",
        "anthropic-beta: b, a ,c",
        "X-Twice: One",
        "x-unknown-thing: MiXed; q=0.5",
        "x-twice: two",
        "Accept-Encoding: gzip, deflate, br, zstd",
        "User-Agent: claude-cli/2.1 (external, sdk-cli)",
        "cookie: a=b; c=d",
        "x-empty:",
    ]
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, body, *said))
        seen = Seen.of(upstream.requests[0].replace(b"x-empty:\r\n", b"x-empty: \r\n"))
        assert (seen.method, seen.target, seen.body) == (b"POST", b"/v1/messages", body)
        expected = [tuple(part.strip().encode() for part in line.split(":", 1)) for line in said]
        own = (b"host", b"content-length")
        assert [(n, v) for n, v in seen.headers if n not in own] == [(n.lower(), v) for n, v in expected]
        assert seen.values(b"host") == [b"127.0.0.1:%d" % upstream.port]
        assert seen.values(b"content-length") == [b"%d" % len(body)]


async def test_hop_by_hop_and_own_headers_end_here() -> None:
    """What is between client and proxy stays between them, and so do our own headers."""
    said = [
        "connection: keep-alive, X-Hop",
        "x-hop: 1",
        "keep-alive: timeout=5",
        "te: trailers",
        "proxy-authorization: Basic eA==",
        "x-hivemind-agent: alice",
        "x-hivemind-priority: high",
        "x-kept: 1",
    ]
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.ask(request(MESSAGES, PLAIN_BODY, *said))
        names = [name for name, _ in Seen.of(upstream.requests[0]).headers]
        assert names == [b"host", b"x-kept", b"content-length"]


@pytest.mark.parametrize(
    "target",
    [
        "/v1/messages?beta=true",
        "/v1/messages?a=1&a=2&b=%2F%20+&c",
        "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse&key=k",
        "/openai/deployments/gpt%204/chat/completions?api-version=2024-10-21",
        "/v1/files/a%2Fb?x=http://y/",
    ],
)
@pytest.mark.parametrize("base", ["", "/gateway/v7"])
async def test_path_and_query_are_kept(target: str, base: str) -> None:
    """The path with its escapes and the query with its order go upstream under the upstream's own base path."""
    async with (
        serving(playing([ANSWER])) as upstream,
        proxying(f"lab={upstream.url}{base}") as proxy,
        raw(proxy.port) as direct,
    ):
        await direct.ask(request(f"/agent/alice{target}", PLAIN_BODY))
        assert Seen.of(upstream.requests[0]).target == (base + target).encode()


async def test_answer_s_headers_are_kept() -> None:
    """Every header of the answer comes back with its value, order and duplicates, subscription limits included."""
    said = [
        JSON,
        "request-id: req_1",
        "anthropic-ratelimit-unified-status: allowed_warning",
        "anthropic-ratelimit-unified-5h-utilization: 0.83",
        "anthropic-ratelimit-unified-5h-reset: 1800000000",
        "anthropic-ratelimit-unified-7d-utilization: 0.2",
        "anthropic-ratelimit-requests-limit: 4000",
        "x-should-retry: false",
        "set-cookie: a=1; Path=/",
        "set-cookie: b=2",
        "x-codex-turn-state: opaque==",
        "server: cloudflare",
        "date: Sat, 21 Nov 2026 10:00:00 GMT",
    ]
    hop = ["connection: keep-alive, x-hop", "keep-alive: timeout=60", "x-hop: 1"]
    async with between([http(200, b"{}", *said, *hop)]) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert status == 200
        expected: Pairs = [(n, v) for n, _, v in (line.encode().partition(b": ") for line in said)]
        assert headers == [*expected, (b"content-length", b"2")]


def _deflate(data: bytes) -> bytes:
    coder = zlib.compressobj(wbits=-15)
    return coder.compress(data) + coder.flush()


ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": _deflate,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("name", ENCODERS)
async def test_encoded_answer(name: str) -> None:
    """A whole answer keeps its encoding, byte for byte, and its usage is read all the same."""
    body = ENCODERS[name](b'{"usage":{"input_tokens":5,"output_tokens":6}}')
    async with between([http(200, body, JSON, f"content-encoding: {name}")]) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert (b"content-encoding", name.encode()) in headers
        assert await direct.body(headers) == body
        assert proxy.snapshot().totals.usage.total == 11


@pytest.mark.parametrize("name", ENCODERS)
async def test_encoded_request(name: str) -> None:
    """A compressed request is forwarded as it came, and understood: its model, and that it streams."""
    body = ENCODERS[name](b'{"model":"claude-x","stream":true,"messages":[]}')
    gate = asyncio.Event()
    async with between([gate, chunked(MESSAGE, SSE)]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, body, f"content-encoding: {name}"))
        await upstream.until(lambda: len(upstream.requests) == 1)
        (slot,) = proxy.snapshot().slots
        assert (slot.model, slot.stream) == ("claude-x", True)
        gate.set()
        await direct.head()
        seen = Seen.of(upstream.requests[0])
        assert (seen.body, seen.values(b"content-encoding")) == (body, [name.encode()])


async def test_unreadable_request_goes_through() -> None:
    """A body that is no JSON is the provider's to judge."""
    async with between([http(400, b"{}")]) as (proxy, upstream), raw(proxy.port) as direct:
        assert (await direct.ask(request(MESSAGES, b"\xff\x00not json")))[0] == 400
        assert Seen.of(upstream.requests[0]).body == b"\xff\x00not json"


@pytest.mark.parametrize("path", ["/v1/models?limit=1000", "/v1/messages/count_tokens", "/v1/files"])
async def test_what_generates_nothing_needs_no_slot(path: str) -> None:
    """Lists, counts and files pass at once although every slot is taken, and take no ticket."""
    method, body = ("POST", PLAIN_BODY) if "count" in path else ("GET", b"")
    async with (
        between([Hang()], [http(200, b'{"data":[]}', JSON)], max_concurrency=1) as (proxy, upstream),
        raw(proxy.port) as first,
        raw(proxy.port) as second,
    ):
        await first.send(request(MESSAGES, PLAIN_BODY))
        await upstream.until(lambda: len(upstream.requests) == 1)
        status, headers = await second.ask(request(path, body, method=method))
        assert (status, await second.body(headers)) == (200, b'{"data":[]}')
        assert proxy.snapshot().totals.requests == 1


@pytest.mark.parametrize(("method", "status", "sent"), [("POST", 502, 2), ("GET", 200, 3)])
async def test_an_upload_on_a_kept_connection_that_ends(method: str, status: int, sent: int) -> None:
    """It isn't sent again, since the server may have it by then; a list is asked for once more."""
    async with between([ANSWER], [Reset()], [ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for target, how, expected in ((MESSAGES, "POST", 200), ("/v1/files", method, status)):
            got, headers = await direct.ask(request(target, PLAIN_BODY if how == "POST" else b"", method=how))
            await direct.body(headers)
            assert got == expected
        assert len(upstream.requests) == sent


async def test_redirects_are_the_client_s() -> None:
    """A redirect is passed on, not followed."""
    answer = http(307, b"", "location: https://elsewhere.invalid/")
    async with between([answer]) as (proxy, upstream), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert (status, dict(headers)[b"location"]) == (307, b"https://elsewhere.invalid/")
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("size", [10, (1 << 20) - 1, 3 << 20])
async def test_error_body_of_any_length(size: int) -> None:
    """An error that the agent is to see comes whole, and its connection goes on, however long it is."""
    body = b"x" * size
    async with between([http(400, body)], [ANSWER]) as (proxy, _), raw(proxy.port, limit=8 << 20) as direct:
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert (status, await direct.body(headers)) == (400, body)
        assert (await direct.ask(request(MESSAGES, PLAIN_BODY)))[0] == 200
