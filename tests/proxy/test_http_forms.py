"""HTTP as clients really speak it: probes, upgrades, big and chunked bodies, old versions, pipelines."""

from __future__ import annotations

import asyncio
import json

import pytest
from proxy.kit import Close, Hang, Play, Seen, between, client, raw, request
from proxy.wire import ANSWER, END, JSON, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunk, chunked, http

MESSAGES = "/v1/messages"
PAYLOAD = ANSWER.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("target", ["/", "/api/hello", "/agent/alice/api/hello", "/to/lab/"])
async def test_probe(target: str) -> None:
    """Claude Code's HEAD probe is answered here, and its connection then takes the request."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(target, b"", method="HEAD"))
        assert status == 200
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY))
        assert (status, await direct.body(headers)) == (200, PAYLOAD)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize(
    ("target", "advice"),
    [
        ("/v1/responses", "responses.create(stream=True)"),
        ("/agent/alice/v1/responses", "Codex goes on over HTTP"),
        ("/v1/realtime?model=x", "websocket_base_url"),
        ("/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=k", "http_options"),
        ("/of/an/unknown/api", "over HTTP"),
    ],
)
async def test_websocket(target: str, advice: str) -> None:
    """An upgrade to WebSocket gets the one status after which clients fall back to POST at once; since others show no
    more than that number, the operator is told what to do instead, once a path."""
    said = ("connection: Upgrade", "upgrade: WebSocket", "sec-websocket-version: 13", "sec-websocket-key: eA==")
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        lines = "\r\n".join([f"GET {target} HTTP/1.1", "host: x", *said, "", ""])
        for _ in range(2):
            status, headers = await direct.ask(lines.encode())
            assert (status, dict(headers)[b"upgrade"]) == (426, b"HTTP/1.1")
            assert advice in (await direct.body(headers)).decode()
        assert not upstream.requests
        (notice,) = proxy.snapshot().notices
        assert "WebSocket" in notice
        assert advice in notice


H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABk")


@pytest.mark.parametrize("pieces", [1, 7, 1000])
async def test_offer_of_http_2(pieces: int) -> None:
    """A client that offers HTTP/2 in clear text is served in HTTP/1.1: its body arrives, its offer doesn't, and its
    connection takes the next request."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for _ in range(2):
            message = request(MESSAGES, PLAIN_BODY, *H2C, "x-kept: 1")
            size = -(-len(message) // pieces)
            for start in range(0, len(message), size):
                await direct.send(message[start : start + size])
                await asyncio.sleep(0)
            status, headers = await direct.head()
            assert (status, await direct.body(headers)) == (200, PAYLOAD)
        for raw_request in upstream.requests:
            seen = Seen.of(raw_request)
            assert seen.body == PLAIN_BODY
            assert [name for name, _ in seen.headers] == [b"host", b"x-kept", b"content-length"]


async def test_offer_of_http_2_in_chunks_and_pipelined() -> None:
    """So is one whose body comes in chunks, with another request right behind it."""
    head = "\r\n".join([f"POST {MESSAGES} HTTP/1.1", "host: x", *H2C, "transfer-encoding: chunked", "", ""]).encode()
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(head + chunk(PLAIN_BODY) + END + request(MESSAGES, b"2", *H2C) + request(MESSAGES, b"3"))
        for _ in range(3):
            status, headers = await direct.head()
            assert (status, await direct.body(headers)) == (200, PAYLOAD)
        assert [Seen.of(raw_request).body for raw_request in upstream.requests] == [PLAIN_BODY, b"2", b"3"]


async def test_expect_continue() -> None:
    """A client that asks first is told to go on, and its body arrives."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        message = request(MESSAGES, PLAIN_BODY, "expect: 100-continue")
        assert (await direct.ask(message[: -len(PLAIN_BODY)]))[0] == 100
        assert (await direct.ask(PLAIN_BODY))[0] == 200
        seen = Seen.of(upstream.requests[0])
        assert (seen.body, seen.values(b"expect")) == (PLAIN_BODY, [])


async def test_expect_continue_again() -> None:
    """So is the next one of the same head, where the first didn't wait."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        message = request(MESSAGES, PLAIN_BODY, "expect: 100-continue")
        status, headers = await direct.ask(message)
        while status == 100:
            status, headers = await direct.head()
        await direct.body(headers)
        assert (await direct.ask(message[: -len(PLAIN_BODY)]))[0] == 100
        assert (await direct.ask(PLAIN_BODY))[0] == 200
        assert len(upstream.requests) == 2


async def test_big_request() -> None:
    """Tens of megabytes go through."""
    body = b'{"model":"m","pad":"' + b"x" * (33 << 20) + b'"}'
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        assert (await web.post(proxy.url + MESSAGES, content=body)).status_code == 200
        assert upstream.requests[0].endswith(body)


async def test_head_of_a_list() -> None:
    """An answer to HEAD has the upstream's headers, its length among them, and no body."""
    answer = http(200, b"12345", JSON)[:-5]
    async with between([answer]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            status, headers = await direct.ask(request("/v1/models", b"", method="HEAD"))
            assert (status, dict(headers)[b"content-length"]) == (200, b"5")


@pytest.mark.parametrize("framing", [b"", b"content-length: 0\r\n", b"content-length: 5\r\n"])
async def test_no_content(framing: bytes) -> None:
    """A 204 stays one, and has no length (RFC 9110, 8.6), whatever the upstream says of it."""
    async with between([b"HTTP/1.1 204 -\r\n" + framing + b"x: y\r\n\r\n"]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            assert await direct.ask(request("/v1/files/f", b"", method="DELETE")) == (204, [(b"x", b"y")])


async def test_not_modified() -> None:
    """A 304 keeps the length that a 200 would have, and has no body."""
    answer = b"HTTP/1.1 304 -\r\ncontent-length: 40\r\n\r\n"
    async with between([answer]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            assert await direct.ask(request("/v1/models", b"", method="GET")) == (304, [(b"content-length", b"40")])


@pytest.mark.parametrize("body", [PLAIN_BODY, b""], ids=["body", "no body"])
async def test_old_client(body: bytes) -> None:
    """An HTTP/1.0 client gets its answer, and then the end of its connection."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (status, dict(headers)[b"connection"]) == (200, b"close")
        assert await direct.rest() == PAYLOAD


@pytest.mark.parametrize("whole", [True, False])
async def test_stream_for_an_old_client(whole: bool) -> None:
    """An HTTP/1.0 client knows no chunks: its stream ends with the connection, by a reset where it was cut."""
    sent = chunked(MESSAGE, SSE)
    play: Play = [sent] if whole else [chunked(MESSAGE[:-1], SSE)[: -len(END)], Close()]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(request(MESSAGES, STREAM_BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        assert (status, b"transfer-encoding" in dict(headers)) == (200, False)
        if whole:
            assert await direct.reader.read() == b"".join(MESSAGE)
        else:
            with pytest.raises(ConnectionError):
                await direct.reader.read()


async def test_pipelined_requests() -> None:
    """Requests sent without waiting are answered one by one, in order."""
    plays: list[Play] = [[http(200, {"n": number})] for number in range(5)]
    async with between(*plays) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(b"".join(request(f"{MESSAGES}?{n}", PLAIN_BODY) for n in range(5)))
        answers = []
        for _ in range(5):
            _, headers = await direct.head()
            answers.append(json.loads(await direct.body(headers))["n"])
        assert answers == list(range(5))


async def test_connection_is_kept() -> None:
    """One connection takes request after request: whole answers, streams and refusals."""
    plays: list[Play] = [[ANSWER], [chunked(MESSAGE, SSE)], [http(400, b"{}")]]
    async with between(*plays, [ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for body, status in ((PLAIN_BODY, 200), (STREAM_BODY, 200), (PLAIN_BODY, 400), (PLAIN_BODY, 200)):
            got, headers = await direct.ask(request(MESSAGES, body))
            await direct.body(headers)
            assert got == status
        assert upstream.accepted == 1


@pytest.mark.parametrize("play", [[Hang()], [Close()]], ids=["silent", "closing"])
async def test_list_from_a_silent_upstream(play: Play) -> None:
    """Where a list can't be had, the client is told so in the shape that most servers share."""
    async with between(play, headers_timeout_s=0.05) as (proxy, _), client() as web:
        answer = await web.get(f"{proxy.url}/v1/models")
        assert answer.status_code == (504 if isinstance(play[0], Hang) else 502)
        assert answer.json()["error"]["code"] == "upstream_unreachable"
