"""Requests as RFC 9112 has them, read without any of the leniencies that it allows, and an upstream that reads so.

What a client *meant* is what this reader finds in its bytes; what the upstream *saw* is what it finds in the proxy's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

TOKEN = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
# Several spaces instead of one change nothing (RFC 9112, 3), nor do line ends of any kind before a request (2.2), nor
# does a chunk's extension without a name or value, or with a quoted value behind another (7.1.1): the proxy passes none
# of them on.
_REQUEST_LINE = re.compile(rb"(%b) +([\x21-\x7e]+) +HTTP/(1\.[01])" % TOKEN)
_BEFORE = re.compile(rb"[\r\n]*")
_FIELD_LINE = re.compile(
    rb"(%b):[ \t]*((?:[\x21-\x7e\x80-\xff](?:[ \t\x21-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?)[ \t]*" % TOKEN
)
_QUOTED = rb'"(?:[\t \x21\x23-\x5b\x5d-\x7e\x80-\xff]|\\[\t \x21-\x7e\x80-\xff])*"'
_CHUNK_LINE = re.compile(
    rb"([0-9A-Fa-f]+)(?:[ \t]*;[ \t]*(?:%b)?(?:[ \t]*=[ \t]*(?:%b)?(?:%b)?)?)*" % (TOKEN, TOKEN, _QUOTED)
)
_NO_TRAILERS = (b"content-length", b"transfer-encoding", b"host", b"connection", b"expect")
"""Headers that would say something else of a message than its head did (RFC 9110, 6.5.1)."""
_HOST = re.compile(rb"(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")


class Malformed(Exception):
    """These bytes aren't a request, or one that can be understood in several ways."""


class Incomplete(Exception):
    """The rest of a request is missing."""


@dataclass(frozen=True, slots=True)
class Meant:
    """One request."""

    method: bytes
    target: bytes
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """Names in lower case."""
    closes: bool = False
    has_host: bool = True
    """Its one `Host` is a host."""

    @property
    def what(self) -> tuple[bytes, bytes, bytes]:
        """What a proxy keeps that changes nothing but empty segments of paths and empty queries."""
        path, _, query = self.target.partition(b"?")
        path = re.sub(b"//+", b"/", path)
        return self.method, path + b"?" + query if query else path, self.body

    def value(self, name: bytes) -> bytes | None:
        """The first value of a header."""
        return next((value for key, value in self.headers if key == name), None)


def requests_in(data: bytes) -> tuple[list[Meant], str]:
    """Return the requests that these bytes are, and what follows the last: nothing, "malformed" or "incomplete".

    Nothing that follows a request after which its client closes is meant as one.
    """
    found: list[Meant] = []
    at = 0
    while at < len(data):
        try:
            request, at = _request(data, _end(_BEFORE, data, at))
        except Malformed:
            return found, "malformed"
        except Incomplete:
            return found, "incomplete"
        if request is None:
            break
        found.append(request)
        if request.closes:
            break
    return found, ""


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return at if found is None else found.end()


def _line(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the line at a position, without its end, and where the next begins."""
    end = data.find(b"\r\n", at)
    line = data[at:] if end < 0 else data[at:end]
    if b"\n" in line or b"\r" in line[:-1] or (b"\r" in line and end >= 0):
        raise Malformed
    if end < 0:
        raise Incomplete
    return line, end + 2


def _fields(data: bytes, at: int) -> tuple[list[tuple[bytes, bytes]], int]:
    fields: list[tuple[bytes, bytes]] = []
    while True:
        line, at = _line(data, at)
        if not line:
            return fields, at
        found = _FIELD_LINE.fullmatch(line)
        if found is None:
            raise Malformed
        fields.append((found[1].lower(), found[2]))


def _request(data: bytes, at: int) -> tuple[Meant | None, int]:
    if at == len(data):
        return None, at
    line, at = _line(data, at)
    found = _REQUEST_LINE.fullmatch(line)
    if found is None:
        raise Malformed
    method, target, version = found[1], found[2], found[3]
    fields, at = _fields(data, at)
    hosts, lengths, codings = (
        [value for name, value in fields if name == wanted]
        for wanted in (b"host", b"content-length", b"transfer-encoding")
    )
    if len(hosts) > 1 or (not hosts and version == b"1.1"):
        raise Malformed
    if codings:
        if lengths or version == b"1.0" or len(codings) > 1 or codings[0].lower() != b"chunked":
            raise Malformed
        body, at = _chunks(data, at)
    elif lengths:
        if len(lengths) > 1 or not re.fullmatch(rb"[0-9]+", lengths[0]) or int(lengths[0]) >= 1 << 64:
            raise Malformed
        body, at = _exactly(data, at, int(lengths[0]))
    else:
        body = b""
    options = [
        option.strip().lower() for name, value in fields if name == b"connection" for option in value.split(b",")
    ]
    closes = b"close" in options or version == b"1.0"
    is_host = len(hosts) == 1 and _HOST.fullmatch(hosts[0]) is not None
    return Meant(method, _origin_form(target, hosts), body, tuple(fields), closes, is_host), at


def _origin_form(target: bytes, hosts: list[bytes]) -> bytes:
    """The absolute form means the same where it names the same host (RFC 9112, 3.2.2)."""
    if hosts and target.lower().startswith(b"http://" + hosts[0].lower()):
        rest = target[7 + len(hosts[0]) :]
        if rest[:1] in (b"", b"/", b"?"):
            return rest if rest.startswith(b"/") else b"/" + rest
    return target


def _exactly(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if len(data) - at < size:
        raise Incomplete
    return data[at : at + size], at + size


def _chunks(data: bytes, at: int) -> tuple[bytes, int]:
    parts: list[bytes] = []
    while True:
        line, at = _line(data, at)
        found = _CHUNK_LINE.fullmatch(line)
        if found is None or int(found[1], 16) >= 1 << 64:
            raise Malformed
        size = int(found[1], 16)
        if not size:
            trailers, at = _fields(data, at)
            if any(name in _NO_TRAILERS for name, _ in trailers):
                raise Malformed
            return b"".join(parts), at
        part, at = _exactly(data, at, size)
        parts.append(part)
        end, at = _exactly(data, at, 2)
        if end != b"\r\n":
            raise Malformed


# --- An upstream that reads so ----------------------------------------------------------------------------------------

_ALLOWED = b"GET, HEAD, POST, OPTIONS"
_DATE = b"date: Sun, 22 Nov 2026 10:00:00 GMT\r\n"


class Origin:
    """Records each connection's bytes and the requests in them, and answers like a small web server.

    `/` echoes the body, `/echo` the headers; `/cookie` the cookies.
    """

    def __init__(self) -> None:
        self.seen: list[Meant] = []
        self.broken: list[bytes] = []
        """What came on connections that weren't whole requests only."""
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b""
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            while True:
                requests, rest = requests_in(data)
                if requests and not rest:
                    self.seen += requests
                    data = b""
                    for request in requests:
                        writer.write(answer(request))
                elif rest == "malformed":
                    break
                more = await reader.read(1 << 20)
                if not more:
                    break
                data += more
        if data:
            self.broken.append(data)
        writer.close()


def answer(request: Meant) -> bytes:
    """Return what the origin answers."""
    path = request.target.partition(b"?")[0]
    if request.method == b"OPTIONS":
        return b"HTTP/1.1 204 No Content\r\n%ballow: %b\r\n\r\n" % (_DATE, _ALLOWED)
    if request.method not in (b"GET", b"HEAD", b"POST"):
        return b"HTTP/1.1 405 Method Not Allowed\r\n%ballow: %b\r\ncontent-length: 0\r\n\r\n" % (_DATE, _ALLOWED)
    unless = request.value(b"if-none-match")
    since = request.value(b"if-modified-since")
    tags = b'etag: "v1"\r\nlast-modified: Sat, 21 Nov 2026 10:00:00 GMT\r\n'
    unmodified = since is not None and since.startswith((b"Sat, 21 Nov 2026", b"Sun, 22 Nov 2026"))
    if request.method != b"POST" and (unless in (b'"v1"', b'W/"v1"', b"*") if unless is not None else unmodified):
        return b"HTTP/1.1 304 Not Modified\r\n%b%b\r\n" % (_DATE, tags)
    body = request.body
    if path == b"/echo":
        body = b"".join(b"%b: %b\n" % pair for pair in request.headers)
    elif path == b"/cookie":
        body = b"".join(value + b"\n" for name, value in request.headers if name == b"cookie")
    head = b"HTTP/1.1 200 OK\r\n%b%bcontent-type: text/plain\r\ncontent-length: %d\r\n\r\n" % (_DATE, tags, len(body))
    return head if request.method == b"HEAD" else head + body


@contextlib.asynccontextmanager
async def origin() -> AsyncIterator[Origin]:
    """Serve one."""
    script = Origin()
    server = await asyncio.start_server(script, "127.0.0.1", 0, backlog=1024)
    script.port = server.sockets[0].getsockname()[1]
    try:
        yield script
    finally:
        server.close()
