"""Which client is opened, for what is written where."""

from __future__ import annotations

import socket
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from upstream.exchange import OK, post, whole
from upstream.scripted import answering, serving

from hivemind.upstream import origin as origin_module
from hivemind.upstream.connect import open_upstream
from hivemind.upstream.native import NativeUpstream
from hivemind.upstream.origin import Origin
from hivemind.upstream.transport import TransportUpstream

PORTS = {"http": 80, "https": 443}


@pytest.mark.parametrize(
    ("url", "origin", "shown"),
    [
        ("https://api.anthropic.com", ("https", "api.anthropic.com", 443, b"api.anthropic.com"), None),
        ("HTTPS://API.Anthropic.com:443/v1/", ("https", "api.anthropic.com", 443, b"api.anthropic.com"), None),
        ("http://localhost:11434", ("http", "localhost", 11434, b"localhost:11434"), None),
        ("http://[::1]:8080/x?y", ("http", "::1", 8080, b"[::1]:8080"), "http://[::1]:8080"),
        ("https://bücher.example", ("https", "xn--bcher-kva.example", 443, b"xn--bcher-kva.example"), None),
    ],
)
def test_an_origin_is_read_from_a_url(url: str, origin: tuple[str, str, int, bytes], shown: str | None) -> None:
    """Scheme, host and port as they go on the wire; the default port isn't named."""
    read = Origin.parse(url)
    assert (read.scheme, read.host, read.port, read.authority) == origin
    assert str(read) == (shown or f"{origin[0]}://{origin[3].decode()}")


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=st.text("az09.-", min_size=1, max_size=70),
    port=st.none() | st.integers(0, 70_000),
    path=st.sampled_from(["", "/", "/v1/x.y~z/"]),
)
def test_the_short_way_reads_what_httpx_does(scheme: str, host: str, port: int | None, path: str) -> None:
    """A URL written as most are is read without httpx, to the same end, or left to it."""
    url = f"{scheme}://{host}{'' if port is None else f':{port}'}{path}"
    short = origin_module._usual(url)
    assert short is None or (*short[:2], short[2] or PORTS[scheme]) == _ports_filled(origin_module._unusual(url))


@pytest.mark.parametrize("url", ["https://api.anthropic.com", "http://127.0.0.1:8080/v1", "http://localhost:11434"])
def test_a_usual_url_needs_no_httpx(url: str) -> None:
    """Importing that takes as long as importing the rest of the proxy."""
    assert origin_module._usual(url) is not None


def _ports_filled(read: tuple[str, str, int | None]) -> tuple[str, str, int]:
    scheme, host, port = read
    return scheme, host, port or PORTS[scheme]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.anthropic.com",
        "localhost:8080",
        "ftp://x",
        "https://",
        "http://x:99999",
        "http://[::1",
        "http://\x00",
        "http://a..b",
        "http://" + "x" * 64,
        *("https://user:hunter2@api.example", "https://hunter2@api.example", "http://a:hunter2@"),
    ],
)
def test_what_is_no_upstream_is_said_in_one_line(url: str) -> None:
    """A URL that can't be one is refused at once; so is one with a password, which isn't repeated: an upstream gets its
    clients' credentials, none of ours."""
    with pytest.raises(ValueError, match="upstream") as raised:
        open_upstream(url)
    assert not any(each in str(raised.value) for each in ("\n", "hunter2"))


@pytest.mark.parametrize("via", ["ftp://x:1", "nonsense", "http://", "http://user:hunter2@[", "socks4://x:1"])
def test_what_is_no_proxy_is_said_in_one_line(via: str) -> None:
    """So is a proxy's URL that can't be one, without its password."""
    with pytest.raises(ValueError, match="proxy") as raised:
        open_upstream("https://api.example", via=via)
    assert "\n" not in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(("content", "word"), [(None, "can't be read"), ("no certificate", "holds no certificate")])
def test_an_unusable_ca_file_is_said_in_one_line(tmp_path: Path, content: str | None, word: str) -> None:
    """A CA file that isn't there or isn't one is refused at once, even where no TLS is spoken yet."""
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_text(content)
    for url in ("https://api.example", "http://api.example"):
        with pytest.raises(ValueError, match=word):
            open_upstream(url, ca_file=str(path))


@pytest.mark.parametrize(
    "via", [None, "http://proxy:8080", "https://proxy", "socks5://u:p@proxy:1080", "socks5h://p:1"]
)
async def test_the_fast_client_unless_there_is_a_proxy(via: str | None) -> None:
    """Direct connections are the native client's, all else goes over httpx."""
    upstream = open_upstream("https://api.example", via=via)
    assert isinstance(upstream, NativeUpstream if via is None else TransportUpstream)
    await upstream.aclose()


async def test_a_transport_takes_the_place_of_the_network() -> None:
    """Nothing is connected where a transport is given."""
    upstream = open_upstream(
        "https://api.example", transport=httpx.MockTransport(lambda request: httpx.Response(200, text=request.url.host))
    )
    assert await whole(await post(upstream)) == b"api.example"
    await upstream.aclose()


def speaks_ipv6() -> bool:
    """Whether this machine's loopback has an address of the new kind."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


@pytest.mark.skipif(not speaks_ipv6(), reason="no IPv6 here")
async def test_an_address_of_the_new_kind() -> None:
    """An IPv6 address is connected to, and stands in brackets in the host header."""
    async with serving(answering(OK), host="::1") as server:
        upstream = open_upstream(f"http://[::1]:{server.port}")
        assert await whole(await post(upstream)) == b"ok"
        assert b"\r\nhost: [::1]:%d\r\n" % server.port in server.requests[0]
        await upstream.aclose()
