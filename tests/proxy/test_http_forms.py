"""HTTP as clients really speak it: probes, upgrades, big and chunked bodies, old versions, pipelines."""

from __future__ import annotations

import asyncio
import json

import pytest
from proxy.kit import Close, Hang, Play, Seen, between, client, proxying, raw, request
from proxy.wire import ANSWER, END, JSON, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunk, chunked, http
from upstream.scripted import Handler, Scripted, serving

MESSAGES = "/v1/messages"
PAYLOAD = ANSWER.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize("target", ["/", "/api/hello", "/agent/alice/api/hello", "/to/lab/"])
async def test_probe(target: str) -> None:
    """Claude Code's HEAD probe is answered here, and its connection then takes the request."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(target, b"", method="HEAD"))
        status, headers = await direct.head()
        assert status == 200
        await direct.send(request(MESSAGES, PLAIN_BODY))
        status, headers = await direct.head()
        assert (status, await direct.body(headers)) == (200, PAYLOAD)
        assert len(upstream.requests) == 1


@pytest.mark.parametrize("target", ["/v1/responses", "/agent/alice/v1/responses", "/v1/realtime?model=x"])
async def test_websocket(target: str) -> None:
    """An upgrade to WebSocket gets the one status after which clients fall back to POST at once."""
    said = ("connection: Upgrade", "upgrade: WebSocket", "sec-websocket-version: 13", "sec-websocket-key: eA==")
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        lines = "\r\n".join([f"GET {target} HTTP/1.1", "host: x", *said, "", ""])
        await direct.send(lines.encode())
        status, headers = await direct.head()
        assert (status, dict(headers)[b"upgrade"]) == (426, b"HTTP/1.1")
        assert not upstream.requests


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


async def test_connect() -> None:
    """Nobody is tunnelled anywhere."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await direct.head())[0] == 405
        assert not upstream.requests


async def test_expect_continue() -> None:
    """A client that asks first is told to go on, and its body arrives."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        message = request(MESSAGES, PLAIN_BODY, "expect: 100-continue")
        await direct.send(message[: -len(PLAIN_BODY)])
        assert (await direct.head())[0] == 100
        await direct.send(PLAIN_BODY)
        assert (await direct.head())[0] == 200
        seen = Seen.of(upstream.requests[0])
        assert (seen.body, seen.values(b"expect")) == (PLAIN_BODY, [])


async def test_expect_continue_again() -> None:
    """So is the next one of the same head, where the first didn't wait."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        message = request(MESSAGES, PLAIN_BODY, "expect: 100-continue")
        await direct.send(message)
        status, headers = await direct.head()
        while status == 100:
            status, headers = await direct.head()
        await direct.body(headers)
        await direct.send(message[: -len(PLAIN_BODY)])
        assert (await direct.head())[0] == 100
        await direct.send(PLAIN_BODY)
        assert (await direct.head())[0] == 200
        assert len(upstream.requests) == 2


async def test_chunked_request() -> None:
    """A body in chunks goes upstream whole, with its length."""
    lines = f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode()
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(lines + chunk(PLAIN_BODY[:7]))
        await direct.send(chunk(PLAIN_BODY[7:]) + END)
        assert (await direct.head())[0] == 200
        seen = Seen.of(upstream.requests[0])
        assert (seen.body, seen.values(b"transfer-encoding")) == (PLAIN_BODY, [])


async def test_big_request() -> None:
    """Tens of megabytes go through."""
    body = b'{"model":"m","pad":"' + b"x" * (33 << 20) + b'"}'
    async with between([ANSWER]) as (proxy, upstream), client() as web:
        assert (await web.post(proxy.url + MESSAGES, content=body)).status_code == 200
        assert upstream.requests[0].endswith(body)


async def test_too_big_request() -> None:
    """One beyond the limit is refused in the provider's shape, which isn't worth retrying."""
    async with between([ANSWER], max_body_mb=1) as (proxy, upstream), raw(proxy.port) as direct:
        body = b"x" * ((1 << 20) + 1)
        await direct.send(request(MESSAGES, body))
        status, headers = await direct.head()
        error = json.loads(await direct.body(headers))["error"]
        assert (status, dict(headers)[b"x-should-retry"], error["type"]) == (413, b"false", "request_too_large")
        assert "max_body_mb" in error["message"]
        assert not upstream.requests


async def test_head_of_a_list() -> None:
    """An answer to HEAD has the upstream's headers, its length among them, and no body."""
    answer = http(200, b"12345", JSON)[:-5]
    async with between([answer]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            await direct.send(request("/v1/models", b"", method="HEAD"))
            status, headers = await direct.head()
            assert (status, dict(headers)[b"content-length"]) == (200, b"5")


@pytest.mark.parametrize("framing", [b"", b"content-length: 0\r\n", b"content-length: 5\r\n"])
async def test_no_content(framing: bytes) -> None:
    """A 204 stays one, and has no length (RFC 9110, 8.6), whatever the upstream says of it."""
    async with between([b"HTTP/1.1 204 -\r\n" + framing + b"x: y\r\n\r\n"]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            await direct.send(request("/v1/files/f", b"", method="DELETE"))
            assert await direct.head() == (204, [(b"x", b"y")])


async def test_not_modified() -> None:
    """A 304 keeps the length that a 200 would have, and has no body."""
    answer = b"HTTP/1.1 304 -\r\ncontent-length: 40\r\n\r\n"
    async with between([answer]) as (proxy, _), raw(proxy.port) as direct:
        for _ in range(2):
            await direct.send(request("/v1/models", b"", method="GET"))
            assert await direct.head() == (304, [(b"content-length", b"40")])


@pytest.mark.parametrize("body", [PLAIN_BODY, b""], ids=["body", "no body"])
async def test_old_client(body: bytes) -> None:
    """An HTTP/1.0 client gets its answer, and then the end of its connection."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        status, headers = await direct.head()
        assert (status, dict(headers)[b"connection"]) == (200, b"close")
        assert await direct.rest() == PAYLOAD


@pytest.mark.parametrize("whole", [True, False])
async def test_stream_for_an_old_client(whole: bool) -> None:
    """An HTTP/1.0 client knows no chunks: its stream ends with the connection, by a reset where it was cut."""
    sent = chunked(MESSAGE, SSE)
    play: Play = [sent] if whole else [chunked(MESSAGE[:-1], SSE)[: -len(END)], Close()]
    async with between(play) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, STREAM_BODY).replace(b"HTTP/1.1", b"HTTP/1.0"))
        status, headers = await direct.head()
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
            await direct.send(request(MESSAGES, body))
            got, headers = await direct.head()
            await direct.body(headers)
            assert got == status
        assert upstream.accepted == 1


async def test_upstream_that_answers_before_the_body_is_sent() -> None:
    """A refusal that comes while a big body is still on its way is passed on."""
    body = b"x" * (16 << 20)
    refusal = http(413, {"type": "error", "error": {"type": "request_too_large", "message": "no"}}, "connection: close")

    def early(_: Scripted) -> Handler:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(refusal)
            await writer.drain()
            await reader.read()

        return handle

    async with serving(early) as upstream, proxying(f"lab={upstream.url}") as proxy, client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=body)
        assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")


async def test_nonsense() -> None:
    """What isn't HTTP is a 400, and the proxy goes on."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as direct, client() as web:
        await direct.send(b"\x16\x03\x01 hello\r\n\r\n")
        assert (await direct.head())[0] == 400
        assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).status_code == 200


async def test_unfinished_request_waits_for_nobody() -> None:
    """A client that sends its request slowly holds nothing of the upstream's meanwhile."""
    async with between([ANSWER], max_concurrency=1) as (proxy, upstream), raw(proxy.port) as slow, client() as web:
        await slow.send(request(MESSAGES, PLAIN_BODY)[:-3])
        assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).status_code == 200
        await slow.send(PLAIN_BODY[-3:])
        assert (await slow.head())[0] == 200
        assert len(upstream.requests) == 2


@pytest.mark.parametrize("play", [[Hang()], [Close()]], ids=["silent", "closing"])
async def test_list_from_a_silent_upstream(play: Play) -> None:
    """Where a list can't be had, the client is told so in the shape that most servers share."""
    async with between(play, headers_timeout_s=0.05) as (proxy, _), client() as web:
        answer = await web.get(f"{proxy.url}/v1/models")
        assert answer.status_code == (504 if isinstance(play[0], Hang) else 502)
        assert answer.json()["error"]["code"] == "upstream_unreachable"
