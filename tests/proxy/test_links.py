"""Links in answers lead through the proxy; what can't be mended is told once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable

import pytest
from proxy.kit import Raw, Running, Seen, between, playing, proxying, raw, request
from proxy.wire import JSON, PLAIN_BODY, http
from upstream.scripted import Handler, Scripted, serving

TOKEN = "own-token-1"
PREFIX = f"/token/{TOKEN}/agent/ann"


async def answer(direct: Raw, path: str, body: bytes, *headers: str, method: str) -> tuple[dict[bytes, bytes], bytes]:
    """Headers and body of the answer to one request."""
    _, found = await direct.ask(request(PREFIX + path, body, *headers, method=method))
    return dict(found), await direct.body(found)


CREATED = {"id": "b", "type": "message_batch", "results_url": None, "usage": {"input_tokens": 1}}
CALLS = [
    ("GET", "/v1/messages/batches/b"),
    ("POST", "/v1/messages/batches"),
    ("POST", "/v1/of/an/unknown/api"),
    ("POST", "/upload/v1beta/files"),
    ("DELETE", "/v1/files/f"),
]


def replying(answer: Callable[[Scripted], bytes]) -> Handler:
    """An upstream whose answers name its own URL."""
    return lambda script, *ends: playing([answer(script)])(script, *ends)


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize(("method", "path"), CALLS)
async def test_links_are_followed_through_the_proxy(method: str, path: str, encoded: bool) -> None:
    """With token and agent, whatever the call costs, in headers and in short documents, encoded or not; following one
    reaches the path that the upstream meant."""

    def answered(script: Scripted) -> bytes:
        own = f"{script.url}/v1/messages/batches/b/results"
        body = json.dumps({**CREATED, "results_url": own}).encode()
        said = [JSON, f"operation-location: {own}", f"x-goog-upload-url: {own}", "location: /v1/x"]
        return http(200, gzip.compress(body) if encoded else body, *said, *(["content-encoding: gzip"] * encoded))

    async with (
        serving(replying(answered)) as upstream,
        proxying(f"lab={upstream.url}", token=TOKEN) as proxy,
        raw(proxy.port) as direct,
    ):
        headers, body = await answer(direct, path, PLAIN_BODY if method == "POST" else b"", method=method)
        through = f"http://localhost{PREFIX}/v1/messages/batches/b/results".encode()
        assert headers[b"operation-location"] == headers[b"x-goog-upload-url"] == through
        assert headers[b"location"] == f"{PREFIX}/v1/x".encode()
        assert json.loads(body) == {**CREATED, "results_url": through.decode()}
        await answer(direct, "/v1/messages/batches/b/results", b"", method="GET")
        assert Seen.of(upstream.requests[-1]).target == b"/v1/messages/batches/b/results"


async def test_an_encoded_answer_without_links_keeps_its_encoding() -> None:
    """What needs no change passes byte for byte."""
    body = gzip.compress(b'{"data":[],"uri":"http://x/"}')
    async with between([http(200, body, JSON, "content-encoding: gzip")]) as (proxy, _), raw(proxy.port) as direct:
        _, headers = await direct.ask(request("/v1/files", b"", method="GET"))
        assert (b"content-encoding", b"gzip") in headers
        assert await direct.body(headers) == body


async def test_behind_tls_and_before_several_upstreams() -> None:
    """A link has the scheme of what ends TLS in front, and names its upstream where the request didn't."""
    async with (
        serving(playing([http(200, {})])) as other,
        serving(
            lambda script, *ends: playing([http(200, {}, f"location: {script.url}/v1/x")])(script, *ends)
        ) as upstream,
        proxying(f"lab={upstream.url}", f"other={other.url}", token=TOKEN) as proxy,
        raw(proxy.port) as it,
    ):
        for asked, named in (("/upstream/lab/v1/y", ""), ("/v1/chat/completions", "/upstream/lab")):
            headers, _ = await answer(
                it, asked, b"", "authorization: Bearer k", "x-forwarded-proto: https", method="GET"
            )
            after = "/upstream/lab" if not named else ""
            assert headers[b"location"] == f"https://localhost{named}{PREFIX}{after}/v1/x".encode()


async def told(*plays: bytes, paths: tuple[str, ...]) -> tuple[str, ...]:
    """What the operator is told after these answers."""
    async with between(*([each] for each in plays)) as (proxy, _), raw(proxy.port, limit=4 << 20) as direct:
        for path in paths:
            _, headers = await direct.ask(request(path, b"", method="GET"))
            await direct.body(headers)
        return notices(proxy)


def notices(proxy: Running) -> tuple[str, ...]:
    """Those of the status, each of which has a line in the log."""
    world = proxy.snapshot()
    assert [line.text for line in world.lines if line.tag == "notice"] == list(world.notices)
    return world.notices


async def test_what_leads_past_the_proxy_is_told_once() -> None:
    """By the place and the host; of very long documents that they lead there."""
    past = http(200, {"results_url": "https://eu.example.com/b"}, "operation-location: https://eu.example.com/o")
    first, second = await told(past, past, paths=("/v1/jobs/job_1", "/v1/jobs/job_2"))
    assert first.startswith("operation-location in answers of /v1/jobs/* leads to eu.example.com, past this proxy")
    assert second.startswith("results_url in answers of /v1/jobs/*")


async def test_links_in_long_documents_are_told_of() -> None:
    """They aren't read, so their links stay."""
    async with (
        serving(
            lambda script, *ends: playing([http(200, {"next": f"{script.url}/2", "x": "y" * (300 << 10)})])(
                script, *ends
            )
        ) as up,
        proxying(f"lab={up.url}") as proxy,
        raw(proxy.port) as direct,
    ):
        _, headers = await direct.ask(request("/v1/files", b"", method="GET"))
        assert json.loads(await direct.body(headers))["next"] == f"{up.url}/2"
        assert len(notices(proxy)) == 1
