"""The way to the upstream: through another proxy, and over TLS."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from ports import unused_port
from proxy.kit import client, playing, proxying, raw, request
from proxy.wire import ANSWER, MESSAGE, PLAIN_BODY, SSE, STREAM_BODY, chunked
from upstream.scripted import Scripted, serving

MESSAGES = "/v1/messages"
PAYLOAD = ANSWER.partition(b"\r\n\r\n")[2]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def forwarding(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A forward proxy for CONNECT; what it was asked for is recorded."""
    head = await reader.readuntil(b"\r\n\r\n")
    script.requests.append(head)
    host, _, port = head.split(b" ")[1].decode().partition(":")
    there_reader, there = await asyncio.open_connection(host, int(port))
    writer.write(b"HTTP/1.1 200 -\r\n\r\n")
    ways = [asyncio.create_task(_copy(reader, there)), asyncio.create_task(_copy(there_reader, writer))]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        there.close()


@pytest.fixture
def authority() -> trustme.CA:
    """Whoever signs the upstream's certificate."""
    return trustme.CA()


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    """The upstream's side of TLS."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(made)
    return made


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> Path:
    """The signer's certificate in a file."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


async def test_tls(context: ssl.SSLContext, ca_file: Path) -> None:
    """An upstream whose certificate an extra CA file vouches for is reached over TLS, whole answers and streams."""
    async with (
        serving(playing([ANSWER], [chunked(MESSAGE, SSE)]), context=context) as upstream,
        proxying(f"lab={upstream.url}", ca_file=ca_file) as proxy,
        client() as web,
    ):
        assert (await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)).content == PAYLOAD
        assert (await web.post(proxy.url + MESSAGES, content=STREAM_BODY)).content == b"".join(MESSAGE)
        assert upstream.accepted == 1


@pytest.mark.parametrize("path", [MESSAGES, "/v1/chat/completions", "/v1beta/models/g:generateContent", "/api/chat"])
async def test_unknown_authority(context: ssl.SSLContext, path: str) -> None:
    """A certificate that nobody vouches for is refused: at once a 502 in the provider's shape that says so, nothing
    sent; trying again wouldn't change it."""
    async with (
        serving(playing([ANSWER]), context=context) as upstream,
        proxying(f"lab={upstream.url}", retry={"max_attempts": 2}) as proxy,
        client() as web,
    ):
        answer = await web.post(proxy.url + path, content=b'{"model":"m","stream":false}')
        assert (answer.status_code, answer.headers["content-type"]) == (502, "application/json")
        error = answer.json()["error"]
        assert "certificate" in (error if isinstance(error, str) else error["message"]).lower()
        assert (await web.get(proxy.url + "/_stats")).json()["totals"]["retries"] == 0
        assert not upstream.requests


async def test_via_a_tunnel(context: ssl.SSLContext, ca_file: Path) -> None:
    """An upstream with TLS is reached through a tunnel, inside which it proves who it is; streams come as they are."""
    async with (
        serving(playing([chunked(MESSAGE, SSE)]), context=context) as upstream,
        serving(forwarding) as between,
        proxying(f"lab={upstream.url}", via=between.url, ca_file=ca_file) as proxy,
        raw(proxy.port) as direct,
    ):
        status, headers = await direct.ask(request(MESSAGES, STREAM_BODY))
        assert (status, await direct.body(headers)) == (200, b"".join(MESSAGE))
        assert between.requests[0].startswith(f"CONNECT 127.0.0.1:{upstream.port} ".encode())
        assert len(between.requests) == 1


async def test_via_nobody() -> None:
    """A proxy that isn't there is a 502 in the provider's shape, without the credentials in its URL."""
    url = f"http://user:hunter2@127.0.0.1:{unused_port()}"
    async with proxying("lab=http://127.0.0.1:9", via=url, retry={"max_attempts": 1}) as proxy, client() as web:
        answer = await web.post(proxy.url + MESSAGES, content=PLAIN_BODY)
        assert (answer.status_code, answer.json()["error"]["type"]) == (502, "api_error")
        assert "hunter2" not in answer.text + repr(proxy.snapshot())
