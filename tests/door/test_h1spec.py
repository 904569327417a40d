"""The 33 cases of h1spec (https://github.com/uNetworking/h1spec), written anew, through a proxy to an upstream that
echoes bodies."""

from __future__ import annotations

import asyncio

import pytest
from door.strict import origin
from proxy.kit import proxying, raw

HOST = "host: example.com\r\n"
WHOLE = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"
CUTS = {
    "method": b"G",
    "URL, none yet": b"GET ",
    "URL": b"GET /hello",
    "URL, ended": b"GET /hello ",
    "version": b"GET /hello HTTP",
    "request line": b"GET /hello HTTP/1.1",
    "request line and CR": b"GET /hello HTTP/1.1\r",
    "request line, ended": b"GET /hello HTTP/1.1\r\n",
    "field name": b"GET /hello HTTP/1.1\r\nHos",
    "field value, none yet": b"GET /hello HTTP/1.1\r\nHost:",
    "field value, space": b"GET /hello HTTP/1.1\r\nHost: ",
    "field value": b"GET /hello HTTP/1.1\r\nHost: localhost",
    "field value and CR": b"GET /hello HTTP/1.1\r\nHost: localhost\r",
    "field line, ended": b"GET /hello HTTP/1.1\r\nHost: localhost\r\n",
    "empty line without LF": b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r",
}
SILENT_S = 0.05


@pytest.mark.parametrize("begun", CUTS.values(), ids=list(CUTS))
async def test_waits_for_the_rest(begun: bytes) -> None:
    """A request that isn't complete isn't answered, and is served once it is."""
    async with origin() as upstream, proxying(f"lab={upstream.url}") as proxy, raw(proxy.port) as direct:
        await direct.send(begun)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(direct.reader.read(1), SILENT_S)
        assert (await direct.ask(WHOLE[len(begun) :]))[0] == 200
    assert not upstream.broken


CASES: dict[str, tuple[str, tuple[int, ...], bytes | None]] = {
    "no version": ("GET / \r\n\r\n", (400, 505), None),
    "Expect": (f"GET / HTTP/1.1\r\n{HOST}Expect: 100-continue\r\n\r\n", (100, 200), None),
    "GET": (f"GET / HTTP/1.1\r\n{HOST}\r\n", (200,), None),
    "odd but valid fields": ("GET / HTTP/1.1\r\nhoSt:\texample.com\r\nempty:\r\n\r\n", (200,), None),
    "brackets in a field name": (f"GET / HTTP/1.1\r\n{HOST}X-Invalid[]: test\r\n\r\n", (400,), None),
    "no Host": ("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", (400,), None),
    "two Hosts": (f"GET / HTTP/1.1\r\n{HOST}Host: example.org\r\n\r\n", (400,), None),
    "endless negative length": (f"GET / HTTP/1.1\r\n{HOST}Content-Length: -{'123456789' * 3}\r\n\r\n", (400,), None),
    "negative length": (f"GET / HTTP/1.1\r\n{HOST}Content-Length: -1234\r\n\r\n", (400,), None),
    "length in letters": (f"GET / HTTP/1.1\r\n{HOST}Content-Length: abc\r\n\r\n", (400,), None),
    "empty field value": (f"GET / HTTP/1.1\r\n{HOST}X-Empty-Header: \r\n\r\n", (200,), None),
    "control character": (f"GET / HTTP/1.1\r\n{HOST}X-Bad-Control-Char: test\x07\r\n\r\n", (400,), None),
    "unknown version": (f"GET / HTTP/9.9\r\n{HOST}\r\n", (400, 505), None),
    "prefix": (f"Extra lineGET / HTTP/1.1\r\n{HOST}\r\n", (400,), None),
    "invalid line ending": (f"GET / HTTP/1.1\r\n{HOST}\rSome-Header: Test\r\n\r\n", (400,), None),
    "POST": (f"POST / HTTP/1.1\r\n{HOST}Content-Length: 5\r\n\r\nhello", (200,), b"hello"),
    "chunks": (
        f"POST / HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\nc\r\nHellO world1\r\n0\r\n\r\n",
        (200,),
        b"HellO world1",
    ),
    "length and chunks": (
        f"POST / HTTP/1.1\r\n{HOST}content-LengtH: 5\r\nTransFer-Encoding: chunked\r\n\r\n"
        "c\r\nHellO world1\r\n0\r\n\r\n",
        (400,),
        None,
    ),
}


@pytest.mark.parametrize(("message", "statuses", "echo"), CASES.values(), ids=list(CASES))
async def test_answers(message: str, statuses: tuple[int, ...], echo: bytes | None) -> None:
    """By a status that h1spec expects; bodies come back."""
    async with (
        origin() as upstream,
        proxying(f"lab={upstream.url}", allowed_hosts=("example.com",)) as proxy,
        raw(proxy.port) as direct,
    ):
        status, headers = await direct.ask(message.encode("latin-1"))
        assert status in statuses
        if echo is not None:
            assert await direct.body(headers) == echo
    assert not upstream.broken


def test_all_cases() -> None:
    """As many as h1spec has."""
    assert len(CUTS) + len(CASES) == 33
