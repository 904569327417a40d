"""Who is trusted, and the ways through another proxy."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import trustme
from upstream.conftest import Opener
from upstream.exchange import OK, post, whole
from upstream.scripted import Handler, Scripted, answering, closing, serving

from hivemind.upstream.base import ConnectFailed, NotTrusted, Timeouts, Upstream, UpstreamRequest
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.native import client_context

TUNNEL = b"HTTP/1.1 200 Connection established\r\n\r\n"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority that nobody else trusts."""
    return trustme.CA()


@pytest.fixture
def ca_file(authority: trustme.CA, tmp_path: Path) -> str:
    """Its certificate as a file."""
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    return str(path)


@pytest.fixture
def context(authority: trustme.CA) -> ssl.SSLContext:
    """What a server with a certificate for the loopback speaks."""
    return server_context(authority, "127.0.0.1", "localhost")


def server_context(authority: trustme.CA, *names: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(*names).configure_cert(context)
    return context


Opening = Callable[..., Upstream]


@pytest.fixture
async def opening() -> AsyncIterator[Opening]:
    """open_upstream, with everything closed at the end."""
    opened: list[Upstream] = []

    def opener(url: str, **named: object) -> Upstream:
        opened.append(open_upstream(url, **named))  # type: ignore[arg-type]
        return opened[-1]

    yield opener
    for upstream in opened:
        await upstream.aclose()


def tunnelling(connect_answer: bytes = TUNNEL) -> Handler:
    """A CONNECT proxy; any answer but the usual one is followed by a hang-up."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()

    async def handle(script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await script.request(reader)
        writer.write(connect_answer)
        if connect_answer is not TUNNEL:
            return
        host, port = request.split(b" ")[1].split(b":")
        there, back = await asyncio.open_connection(host.decode(), int(port))
        await asyncio.gather(copy(reader, back), copy(there, writer))

    return handle


async def test_an_extra_authority_is_trusted(opening: Opening, ca_file: str, context: ssl.SSLContext) -> None:
    """With its certificate in a file, a server of one's own is reached, its connection kept, large bodies included."""
    async with serving(answering(OK), context=context) as server:
        upstream = opening(server.url, ca_file=ca_file)
        body = b"x" * 3_000_000
        for _ in range(2):
            assert await whole(await post(upstream, body)) == b"ok"
        assert server.accepted == 1
        assert server.requests[1].endswith(body)


async def test_a_stranger_is_not(client: Opener, context: ssl.SSLContext) -> None:
    """A certificate of an unknown authority ends the attempt before anything was sent."""
    async with serving(answering(OK), context=context) as server:
        with pytest.raises(NotTrusted, match=r"(?i)certificate"):
            await post(client(server.url))
        assert server.requests == []


async def test_nor_is_a_certificate_for_another_name(opening: Opening, ca_file: str, authority: trustme.CA) -> None:
    """A trusted authority's word for somebody else is worth nothing."""
    async with serving(answering(OK), context=server_context(authority, "example.org")) as server:
        with pytest.raises(ConnectFailed, match=r"not valid for '127\.0\.0\.1'"):
            await post(opening(server.url, ca_file=ca_file))


async def test_a_name_is_sent_along(opening: Opening, ca_file: str, context: ssl.SSLContext) -> None:
    """The server learns by SNI which of its names was meant."""
    names: list[str | None] = []
    context.sni_callback = lambda _socket, name, _context: names.append(name)
    async with serving(answering(OK), context=context) as server:
        assert await whole(await post(opening(f"https://localhost:{server.port}", ca_file=ca_file))) == b"ok"
        assert names == ["localhost"]


async def test_plain_text_where_tls_is_spoken(opening: Opening) -> None:
    """A server that doesn't speak TLS wasn't reached, and won't be by another attempt: its URL is wrong."""

    async def handle(_script: Scripted, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read()

    async with serving(handle) as server:
        with pytest.raises(NotTrusted, match=r"speaks none; is its URL http://\?"):
            await post(opening(f"https://127.0.0.1:{server.port}"))


async def test_an_unframed_body_ends_with_tls_too(opening: Opening, ca_file: str, context: ssl.SSLContext) -> None:
    """The end of the connection ends it, as many servers leave out TLS's own goodbye."""
    async with serving(closing(b"HTTP/1.1 200 OK\r\n\r\nhello"), context=context) as server:
        assert await whole(await post(opening(server.url, ca_file=ca_file))) == b"hello"


async def test_through_a_tunnel(opening: Opening, ca_file: str, context: ssl.SSLContext) -> None:
    """An upstream over TLS is reached by CONNECT; the proxy gets its credentials, the upstream doesn't see them."""
    async with serving(answering(OK), context=context) as server, serving(tunnelling()) as proxy:
        via = f"http://user:secret@127.0.0.1:{proxy.port}"
        upstream = opening(server.url, via=via, ca_file=ca_file)
        for _ in range(2):
            assert await whole(await post(upstream)) == b"ok"
        assert proxy.requests[0].startswith(b"CONNECT 127.0.0.1:%d HTTP/1.1\r\n" % server.port)
        assert b"Proxy-Authorization: Basic dXNlcjpzZWNyZXQ=" in proxy.requests[0]
        assert (proxy.accepted, server.accepted, len(server.requests)) == (1, 1, 2)
        assert b"roxy" not in server.requests[0]


async def test_a_plain_upstream_through_a_proxy(opening: Opening) -> None:
    """The proxy is asked for the whole URL, query and all."""
    async with serving(answering(OK)) as proxy:
        upstream = opening("http://upstream.invalid:81", via=proxy.url)
        assert await whole(await upstream.send(UpstreamRequest(b"GET", b"/a/../b?c=%2f", [], b""))) == b"ok"
        assert proxy.requests[0].startswith(b"GET http://upstream.invalid:81/a/../b?c=%2f HTTP/1.1\r\n")
        assert b"host: upstream.invalid:81\r\n" in proxy.requests[0]


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n", b"", b"nonsense\r\n\r\n"]
)
async def test_a_proxy_that_will_not(opening: Opening, answer: bytes) -> None:
    """Whatever the proxy does instead of connecting, the upstream wasn't reached; its password stays ours."""
    async with serving(tunnelling(answer)) as proxy:
        upstream = opening("https://upstream.invalid", via=f"http://user:secret@127.0.0.1:{proxy.port}")
        with pytest.raises(ConnectFailed) as raised:
            await post(upstream)
        assert "secret" not in str(raised.value)
        assert "dXNlcjpzZWNyZXQ" not in str(raised.value)


async def test_a_proxy_that_is_silent(opening: Opening) -> None:
    """The time for connecting covers the proxy's part."""
    async with serving(answering(b"")) as proxy:
        upstream = opening("https://upstream.invalid", via=proxy.url, timeouts=Timeouts(connect_s=0.02))
        with pytest.raises(ConnectFailed, match=r"no connection within 0\.02 s"):
            await post(upstream)


def test_an_environment_that_names_authorities_is_obeyed(monkeypatch: pytest.MonkeyPatch, ca_file: str) -> None:
    """SSL_CERT_FILE replaces the usual authorities rather than adding to them."""
    monkeypatch.setenv("SSL_CERT_FILE", ca_file)
    assert client_context().cert_store_stats()["x509_ca"] == 1


async def test_tiny_chunks_before_the_end(opening: Opening, context: ssl.SSLContext, ca_file: str) -> None:
    """A long answer in the smallest chunks comes whole though the server leaves long before all of it is parsed."""
    answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 100_000
    async with serving(closing(answer + b"0\r\n\r\n"), context=context) as server:
        response = await post(opening(server.url, ca_file=ca_file))
        assert len(await whole(response)) == 100_000


async def test_a_proxy_that_resets_what_it_takes(opening: Opening, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where that comes early, anyio asks a socket of uvloop's for its peer that is gone: nothing was sent."""

    async def connect_tcp(*_: object, **__: object) -> None:
        raise AttributeError(name="getpeername")

    monkeypatch.setattr("httpcore._backends.auto.AutoBackend.connect_tcp", connect_tcp)
    with pytest.raises(ConnectFailed, match="closed as it was made"):
        await post(opening("https://upstream.invalid", via="http://ann:secret@127.0.0.1:9"))
