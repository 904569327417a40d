"""Requests that can be understood in two ways, or that are too large to be looked at: each gets one clear answer, its
connection ends, and no upstream sees anything of it."""

from __future__ import annotations

import asyncio
import json

import pytest
from proxy.kit import Hang, Pairs, Raw, Running, Seen, between, raw, request
from proxy.wire import ANSWER, END, PLAIN_BODY, chunk, http
from upstream.scripted import Scripted

from hivemind.wire.request_head import MAX_HEAD, MAX_LINES, MAX_TARGET

MESSAGES = "/v1/messages"
CHUNKED = b"1\r\na\r\n0\r\n\r\n"


def post(*headers: str, body: bytes = b"", version: str = "1.1", target: str = MESSAGES, host: bool = True) -> bytes:
    """A request as it may be written by anything."""
    lines = [f"POST {target} HTTP/{version}", *(["host: x"] if host else []), *headers, "", ""]
    return "\r\n".join(lines).encode("latin-1") + body


REFUSED: dict[str, tuple[bytes, int, str]] = {
    "HTTP/0.9": (b"GET /v1/messages\r\n\r\n", 505, "HTTP/1.1"),
    "HTTP/0.9, said": (post(version="0.9"), 505, "HTTP/1.1"),
    "HTTP/1.2": (post(version="1.2"), 505, "HTTP/1.1"),
    "HTTP/2.0": (post(version="2.0"), 505, "HTTP/1.1"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/1.1"),
    "TLS": (b"\x16\x03\x01\x00\xc5\x01\x00\x00\xc1\x03\x03" + bytes(194), 505, "at http://, not at https://"),
    "no Host": (post(host=False), 400, "one Host"),
    "two Hosts": (post("host: y"), 400, "one Host"),
    "two Hosts in HTTP/1.0": (post("host: y", version="1.0"), 400, "one Host"),
    "transfer encoding in HTTP/1.0": (post("transfer-encoding: chunked", body=CHUNKED, version="1.0"), 400, "1.0"),
    "length after encoding": (post("transfer-encoding: chunked", "content-length: 3", body=CHUNKED), 400, "-"),
    "encoding after length": (post("content-length: 3", "transfer-encoding: chunked", body=CHUNKED), 400, "-"),
    "unknown encoding": (post("transfer-encoding: x", body=b"abc"), 400, "Transfer-Encoding"),
    "gzip before chunked": (post("transfer-encoding: gzip, chunked", body=CHUNKED), 400, "chunked"),
    "chunked before gzip": (post("transfer-encoding: chunked, gzip", body=CHUNKED), 400, "Transfer-Encoding"),
    "chunked twice": (post("transfer-encoding: chunked", "Transfer-Encoding: chunked", body=CHUNKED), 400, "-"),
    "nearly chunked": (post("transfer-encoding: xchunked", body=CHUNKED), 400, "-"),
    "chunked after a control": (post("transfer-encoding: \x0bchunked", body=CHUNKED), 400, "header value"),
    "two lengths": (post("content-length: 3", "content-length: 4", body=b"abcd"), 400, "Content-Length"),
    "one length twice": (post("content-length: 3", "content-length: 3", body=b"abc"), 400, "Content-Length"),
    "a list of lengths": (post("content-length: 3, 3", body=b"abc"), 400, "Content-Length"),
    "a signed length": (post("content-length: +3", body=b"abc"), 400, "Content-Length"),
    "a hexadecimal length": (post("content-length: 0x3", body=b"abc"), 400, "Content-Length"),
    "an empty length": (post("content-length:", body=b"abc"), 400, "Content-Length"),
    "an endless length": (post("content-length: 99999999999999999999999"), 400, "Content-Length"),
    "a folded line": (post("a: b\r\n c"), 400, "whitespace"),
    "a folded first line": (post(" a: b", host=False), 400, "space"),
    "NUL in a value": (post("a: b\0c"), 400, "header value"),
    "CR in a value": (post("a: b\rc"), 400, "header value"),
    "LF alone": (post("a: b\nc: d"), 400, "header value"),
    "a control in a value": (post("a: b\x1bc"), 400, "header value"),
    "DEL in a value": (post("a: b\x7fc"), 400, "header value"),
    "a space before the colon": (post("content-length : 3", body=b"abc"), 400, "header"),
    "a control in a name": (post("a\x01: b"), 400, "header token"),
    "no name": (post(": b"), 400, "header token"),
    "no colon": (post("novalue"), 400, "header token"),
    "another host's URL": (post(target="http://other/v1/messages"), 400, "base URL"),
    "a longer host's URL": (post(target="http://xy/v1/messages"), 400, "base URL"),
    "a user's URL": (post(target="http://u@x/v1/messages"), 400, "base URL"),
    "another scheme": (post(target="https://x/v1/messages"), 400, "base URL"),
    "another host's URL without Host": (post(target="http://x/", host=False, version="1.0"), 400, "base URL"),
    "a tunnel": (b"CONNECT x:443 HTTP/1.1\r\nhost: x:443\r\n\r\n", 405, "CONNECT"),
    "a tunnel with a length": (b"CONNECT x:443 HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\na", 405, "CONNECT"),
    "another protocol": (b"SOURCE / ICE/1.0\r\nhost: x\r\n\r\n", 405, "SOURCE"),
    "a trace": (b"TRACE / HTTP/1.1\r\nhost: x\r\n\r\n", 405, "TRACE"),
    "an unknown expectation": (post("expect: 100-continue, tea"), 417, "100-continue"),
    "an asterisk": (b"GET * HTTP/1.1\r\nhost: x\r\n\r\n", 400, "begins with /"),
    "no slash": (post(target="v1/messages"), 400, "HTTP"),
    "a fragment": (post(target="/v1/messages#a"), 400, "fragment"),
    "a raw byte in the path": (post(target="/v1/\xff"), 400, "url"),
    "a control in the path": (post(target="/v1/\x01"), 400, "url"),
    "a space in the path": (post(target="/v1/a b"), 400, "HTTP"),
    "a method in lower case": (b"post / HTTP/1.1\r\nhost: x\r\n\r\n", 400, "method"),
    "a broken chunk size": (post("transfer-encoding: chunked", body=b"z\r\n"), 400, "chunk size"),
    "a negative chunk size": (post("transfer-encoding: chunked", body=b"-1\r\na\r\n" + END), 400, "chunk size"),
    "an endless chunk size": (post("transfer-encoding: chunked", body=b"f" * 17 + b"\r\n"), 400, "Chunk size"),
    "a chunk without its end": (post("transfer-encoding: chunked", body=b"1\r\nab\r\n" + END), 400, "chunk"),
    "a trailer that closes": (
        post("transfer-encoding: chunked", body=b"1\r\na\r\n0\r\nConnection: close\r\n\r\n"),
        400,
        "trailer",
    ),
    "a header of 64 KiB": (post("a: " + "b" * MAX_HEAD), 431, "64 KiB"),
    "a name of 64 KiB": (post("a" * MAX_HEAD + ": b"), 431, "64 KiB"),
    "headers of 64 KiB": (post(*[f"a{n}: {'b' * 1024}" for n in range(64)]), 431, "64 KiB"),
    "many lines": (post(*["a: b"] * MAX_LINES), 431, "200 header lines"),
    "a long target": (post(target="/" + "a" * MAX_TARGET), 414, "16 KiB"),
    "a long query": (post(target="/v1/messages?" + "a" * MAX_TARGET), 414, "16 KiB"),
    "many trailers": (
        post("transfer-encoding: chunked", body=chunk(PLAIN_BODY) + b"0\r\n" + b"a: b\r\n" * (MAX_LINES + 2)),
        431,
        "200 header lines",
    ),
}


async def one_answer(direct: Raw) -> tuple[int, Pairs, bytes]:
    """The only response on a connection that ends after it."""
    status, headers = await direct.head()
    body = await direct.body(headers)
    assert dict(headers)[b"connection"] == b"close"
    assert await direct.rest() == b""
    return status, headers, body


def nothing_went_on(proxy: Running, upstream: Scripted) -> bool:
    """No upstream and no ticket."""
    return not upstream.requests and proxy.snapshot().totals.requests == 0


async def test_refused() -> None:
    """One response, of which the text says why, in JSON; then the end."""
    async with between([ANSWER]) as (proxy, upstream):
        for name, (message, status, says) in REFUSED.items():
            async with raw(proxy.port) as direct:
                await direct.send(message)
                got, headers, body = await one_answer(direct)
            assert (got, dict(headers)[b"content-type"]) == (status, b"application/json"), name
            assert says in json.loads(body)["error"]["message"], name
            assert nothing_went_on(proxy, upstream), name
        assert sum("TLS" in line.text or "HTTP/2" in line.text for line in proxy.snapshot().lines) == 2


async def test_a_key_that_an_empty_segment_cuts() -> None:
    """Its first half would be the agent's name, and the rest a path in which nothing recognises it."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for target in (f"/agent/1//0{'a' * 40}/v1/messages", f"/v1/1//0{'a' * 40}"):
            status, headers = await direct.ask(post(target=target))
            assert (status, b"(//)" in await direct.body(headers)) == (400, True)
        assert nothing_went_on(proxy, upstream)


@pytest.mark.parametrize("name", ["two Hosts", "gzip before chunked", "NUL in a value", "many lines", "a fragment"])
async def test_refused_in_pieces(name: str) -> None:
    """It makes no difference in which pieces the request comes."""
    message, status, _ = REFUSED[name]
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for start in range(0, len(message), 7):
            await direct.send(message[start : start + 7])
            await asyncio.sleep(0)
        assert (await one_answer(direct))[0] == status
        assert nothing_went_on(proxy, upstream)


async def test_refusal_has_the_shape_of_the_api() -> None:
    """Anthropic's errors have a type of their own."""
    async with between([ANSWER]) as (proxy, _), raw(proxy.port) as direct:
        await direct.send(post("host: y"))
        _, _, body = await one_answer(direct)
        assert json.loads(body)["type"] == "error"


@pytest.mark.parametrize(("url", "target"), [("http://X/v1/messages?a", "/v1/messages?a"), ("HTTP://x?a", "/?a")])
async def test_its_own_url(url: str, target: str) -> None:
    """The absolute form is read as the path, where it names the host that `Host` does (RFC 9112, 3.2.2)."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        assert (await direct.ask(post(f"content-length: {len(PLAIN_BODY)}", target=url, body=PLAIN_BODY)))[0] == 200
        assert Seen.of(upstream.requests[0]).target == target.encode()


async def test_options_of_the_server() -> None:
    """The proxy answers for itself; a 405 names the methods too."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for message, status in ((b"OPTIONS *", 204), (b"TRACE /", 405)):
            got, headers = await direct.ask(message + b" HTTP/1.1\r\nhost: x\r\n\r\n")
            assert (got, b"POST" in dict(headers)[b"allow"]) == (status, True)
        assert nothing_went_on(proxy, upstream)


async def test_refusal_waits_for_the_answers_before_it() -> None:
    """What follows a good request isn't answered in the middle of that one's answer."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(request(MESSAGES, PLAIN_BODY) + post("host: y", "content-length: 2", body=b"{}"))
        status, headers = await direct.head()
        await direct.body(headers)
        assert status == 200
        assert (await one_answer(direct))[0] == 400
        assert len(upstream.requests) == 1


async def test_what_is_large_but_allowed() -> None:
    """A head just below the bounds passes, whole and in pieces, also right behind another request's body."""
    target = f"{MESSAGES}?{'q' * (MAX_TARGET - 100)}"
    large = request(target, PLAIN_BODY, *[f"a{n}: {'b' * 450}" for n in range(MAX_LINES - 100)])
    behind = request(MESSAGES, b"x" * 300_000)
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        for message, answers in ((large, 1), (behind + large[:40_000], 1), (large[40_000:], 1)):
            await direct.send(message)
            for _ in range(answers):
                status, headers = await direct.head()
                assert (status, await direct.body(headers)) == (200, ANSWER.partition(b"\r\n\r\n")[2])
        assert len(upstream.requests) == 3


@pytest.mark.parametrize("where", ["value", "name", "target", "extension", "trailer"])
async def test_endless(where: str) -> None:
    """What has no end is refused after little more than its bound: long before all of it came, so nothing of it was
    kept."""
    begun, status = {
        "value": (b"POST / HTTP/1.1\r\nhost: x\r\na: ", 431),
        "name": (b"POST / HTTP/1.1\r\nhost: x\r\n", 431),
        "target": (b"POST /", 414),
        "extension": (post("transfer-encoding: chunked", body=b"1;a="), 400),
        "trailer": (post("transfer-encoding: chunked", body=b"1\r\na\r\n0\r\na: "), 400),
    }[where]
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(begun)
        piece = b"a" * 4096
        for _ in range(6 * MAX_HEAD // len(piece)):  # one reading takes 256 KiB at most
            direct.writer.write(piece)
            await asyncio.sleep(0)
        assert (await one_answer(direct))[0] == status
        assert nothing_went_on(proxy, upstream)


async def test_bytes_of_framing_may_be_many_where_the_body_is() -> None:
    """A body in the smallest chunks is no attack."""
    body = b'{"pad":"' + b"x" * 20_000 + b'"}'
    message = post("transfer-encoding: chunked", body=b"".join(chunk(body[n : n + 1]) for n in range(len(body))) + END)
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        assert (await direct.ask(message))[0] == 200
        assert Seen.of(upstream.requests[0]).body == body


SMUGGLED = request("/v1/models", b"", method="GET")


@pytest.mark.parametrize(
    "framing",
    [("content-length: %d", SMUGGLED), ("transfer-encoding: chunked", chunk(SMUGGLED) + END)],
    ids=["content-length", "transfer-encoding"],
)
@pytest.mark.parametrize("named", ["content-length", "transfer-encoding", "host"])
async def test_connection_does_not_take_away_what_frames_a_body(framing: tuple[str, bytes], named: str) -> None:
    """A body stays a body, whatever a `connection` header names beside an upgrade."""
    header, body = framing
    header = header % len(body) if "%" in header else header
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        assert (await direct.ask(post(f"connection: upgrade, {named}", "upgrade: x", header, body=body)))[0] == 200
        await direct.send(request(MESSAGES, PLAIN_BODY, "connection: close"))
        await direct.rest()
        assert [Seen.of(each).body for each in upstream.requests] == [SMUGGLED, PLAIN_BODY]


async def test_trailers_are_dropped() -> None:
    """A trailer is no header: it names no agent and carries no key."""
    body = chunk(PLAIN_BODY) + b"0\r\nx-hivemind-agent: mallory\r\nx-api-key: other\r\nx-trailer: 1\r\n\r\n"
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(post("x-api-key: k", "x-hivemind-agent: alice", "transfer-encoding: chunked", body=body))
        assert (await direct.head())[0] == 200
        seen = Seen.of(upstream.requests[0])
        assert (seen.values(b"x-api-key"), seen.values(b"x-trailer")) == ([b"k"], [])
        assert [agent.name for agent in proxy.snapshot().agents] == ["alice"]


async def test_every_connection_header_counts() -> None:
    """In both directions, and in whatever order they come."""
    answer = http(200, b"{}", "connection: x-one", "connection: keep-alive, X-Two", "x-one: 1", "x-two: 2", "x-kept: 3")
    async with between([answer]) as (proxy, upstream), raw(proxy.port) as direct:
        said = ("Connection: x-one", "connection: X-Two", "connection: keep-alive")
        status, headers = await direct.ask(request(MESSAGES, PLAIN_BODY, *said, "x-one: 1", "x-two: 2", "x-kept: 3"))
        assert (status, [name for name, _ in headers]) == (200, [b"x-kept", b"content-length"])
        assert [name for name, _ in Seen.of(upstream.requests[0]).headers] == [b"host", b"x-kept", b"content-length"]


@pytest.mark.parametrize(
    ("program", "kept"),
    [
        ("Bun/1.3.13", False),
        ("ai-sdk/openai/4.0.1 ai-sdk/provider-utils/5.0.0 runtime/bun/1.2.20", False),
        ("claude-cli/2.1.119 (external, cli)", False),
        ("Bun/1.3.14", True),
        ("opencode/1.18.33 ai-sdk/provider-utils/5.0.0 runtime/bun/1.4.5", True),
        ("claude-cli/2.1.120 (external, cli)", True),
        ("claude-cli/2.1.1190 (external, cli)", True),
        ("python-httpx/1.0", True),
    ],
)
async def test_a_client_that_sends_again_has_a_connection_for_each_request(program: str, kept: bool) -> None:
    """On a kept one, an early Bun appends a second answer to one that breaks off."""
    message = request(MESSAGES, PLAIN_BODY, f"user-agent: {program}")
    async with between([ANSWER, ANSWER]) as (proxy, _), raw(proxy.port) as direct:
        status, headers = await direct.ask(message)
        assert (status, (b"connection", b"close") in headers) == (200, not kept)
        await direct.body(headers)
        if kept:
            assert (await direct.ask(message))[0] == 200
        else:
            assert await direct.rest() == b""


async def test_connection_takes_away_no_credential() -> None:
    """Else a request would be counted under one key and sent with another."""
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        said = ("connection: x-api-key, authorization, content-type", "x-api-key: k", "authorization: Bearer b")
        status, _ = await direct.ask(request(MESSAGES, PLAIN_BODY, *said, "content-type: application/json"))
        seen = Seen.of(upstream.requests[0])
        assert (status, seen.values(b"x-api-key"), seen.values(b"authorization")) == (200, [b"k"], [b"Bearer b"])
        assert seen.values(b"content-type") == [b"application/json"]


async def test_a_bad_chunk_of_a_body_that_asks_first(caplog: pytest.LogCaptureFixture) -> None:
    """Its client is refused, not told to go on, and nothing fails."""
    message = post("expect: 100-continue", "transfer-encoding: chunked", body=b"z\r\n")
    async with between([ANSWER]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(message)
        assert (await one_answer(direct))[0] == 400
        assert nothing_went_on(proxy, upstream)
    assert not caplog.records


@pytest.mark.parametrize("early", [b"", b"{"])
async def test_a_body_that_breaks_off_the_rules_ends_its_request(early: bytes) -> None:
    """The request that was begun is given up, and nothing is held for it."""
    async with between([Hang()]) as (proxy, upstream), raw(proxy.port) as direct:
        await direct.send(post("transfer-encoding: chunked", body=chunk(early) if early else b""))
        await asyncio.sleep(0.01)
        await direct.send(b"not a size\r\n")
        assert (await one_answer(direct))[0] == 400
        assert nothing_went_on(proxy, upstream)
