"""Messages of HTTP on both sides: nothing is served that a strict reading refuses, and nothing is framed otherwise."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, cast
from unittest import mock

from door.strict import Meant, requests_in
from door.strict_replies import Said, reply_in
from fuzz.kit import choices, pieces, require, target
from uvicorn.config import Config
from uvicorn.server import ServerState

from hivemind.proxy.cycle import Cycle
from hivemind.proxy.server_protocol import ClientProtocol
from hivemind.upstream.base import Timeouts, Truncated, UpstreamError
from hivemind.upstream.connection import Connection, Pool
from hivemind.upstream.response import NativeResponse

_STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


class Wire(asyncio.Transport):
    """One end of a connection, without a socket: what is written is kept."""

    def __init__(self) -> None:
        super().__init__({"socket": mock.Mock(fileno=lambda: 0), "sockname": ("127.0.0.1", 1)})
        self.written = bytearray()
        self.closed = self.ended = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = True

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


# --- Requests ---------------------------------------------------------------------------------------------------------


@dataclass
class Application:
    """Answers every request, and notes what it was."""

    seen: list[Meant] = field(default_factory=list)

    def serve_whole(self, cycle: Cycle) -> bool:
        self._note(cycle.scope, cycle.take_body())
        cycle.remembered = self
        cycle.answer(200, [], b"")
        return True

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body, more = body + message["body"], message["more_body"]
        self._note(scope, body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _note(self, scope: Any, body: bytes) -> None:
        query = b"?" + scope["query_string"] if scope["query_string"] else b""
        found = tuple(each for each in scope["headers"] if each[0] != b"connection")  # an upgrade is left out of it
        self.seen.append(Meant(scope["method"].encode(), scope["raw_path"] + query, body, found))


async def _served(parts: list[bytes]) -> tuple[list[Meant], bytes, bool]:
    """Return the requests that were served, the bytes of the answers, and whether the connection is at its end."""
    app, wire = Application(), Wire()
    config = mock.Mock(spec=Config, loaded=True, loaded_app=app, timeout_keep_alive=5.0)
    protocol = ClientProtocol(cast(Config, config), ServerState(), {}, asyncio.get_running_loop())
    protocol.connection_made(wire)
    for part in parts:
        if wire.closed:
            break
        protocol.data_received(part)
        while protocol.tasks and not all(map(_waits, protocol.tasks)):  # noqa: ASYNC110 - it runs in steps
            await asyncio.sleep(0)
    closed = wire.closed or wire.ended
    protocol.connection_lost(None)
    while protocol.tasks:  # noqa: ASYNC110 - it runs in steps
        await asyncio.sleep(0)
    return app.seen, bytes(wire.written), closed


def _waits(task: asyncio.Task[None]) -> bool:
    waited_for = getattr(task, "_fut_waiter", None)
    return waited_for is not None and not waited_for.done()


@target(
    "request_heads",
    [
        *(b"GET / HTTP/1.1\r\n", b"POST /v1/messages HTTP/1.1\r\n", b"Host: a\r\n", b"\r\n\r\n", b"Content-Length: "),
        *(b"Transfer-Encoding: chunked\r\n", b"0\r\n\r\n", b"Connection: close\r\n", b"Connection: upgrade\r\n"),
        *(b"|", b"Upgrade: h2c\r\n", b"Expect: 100-continue\r\n", b"HTTP/1.0", b"http://a/", b"*", b"\x00", b"\n"),
        *(b"\r", b"\t", b";a=b", b"chunked, ", b"identity", b"+1", b"0x", b"Content_Length: 1", b" :"),
        *(b"OPTIONS * HTTP/1.1\r\n", b"#"),
    ],
)
def request_heads(data: bytes) -> None:
    """What is served is, one after the other, what a strict reader finds; where that ends early, it is refused."""
    (seed,), text = choices(data, 1)
    parts = _cut(text, seed)
    text = b"".join(parts)
    meant, rest = requests_in(text)
    served, answers, closed = _loop().run_until_complete(_served(parts))
    wanted = [_plain(each) for each in meant]
    found = [_plain(each) for each in served]
    require(found == wanted[: len(found)], "not what was meant", found, wanted)
    statuses = [int(status) for status in _STATUS.findall(answers)]
    refused = [status for status in statuses if status >= 300]
    require(len(refused) <= 1, "refused twice", statuses)
    if len(found) < len(wanted):
        require(refused and closed, "neither served nor refused", statuses, wanted[len(found) :])
    if rest == "malformed" and not (meant and meant[-1].closes):
        require(refused or closed or _waits_for_more(text), "what is malformed isn't refused", statuses, text)


def _cut(text: bytes, seed: int) -> list[bytes]:
    """Cut a text by the seed; 2: at these marks, so that a head can come alone, and once more."""
    return [part for part in text.split(b"|") if part] if seed == 2 else pieces(text, seed)


def _waits_for_more(text: bytes) -> bool:
    """Whether a parser that reads a line once it is whole may not have seen what is wrong."""
    return not text.endswith(b"\r\n\r\n")


def _plain(request: Meant) -> tuple[object, ...]:
    # What stands behind a value is no part of it, and changes nothing (RFC 9110, 5.5).
    headers = tuple((name, value.rstrip(b" \t")) for name, value in request.headers if name != b"connection")
    target_ = request.target.removesuffix(b"?") if request.target.count(b"?") == 1 else request.target
    return request.method, target_, request.body, headers


# --- Replies ----------------------------------------------------------------------------------------------------------


@dataclass
class Read:
    """What an upstream's connection made of the bytes."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes
    ending: str
    """`complete`, `cut`, or `open` where more is awaited."""
    kept: bool
    """The connection may carry another request."""


async def _read(parts: list[bytes], method: bytes, *, relayed: bool, ended: bool) -> Read:
    loop = asyncio.get_running_loop()
    pool, wire = Pool(4), Wire()
    connection = Connection(loop, pool, Timeouts(None, None, None))
    connection.connection_made(wire)
    pool.add(connection)
    response = connection.start(method, b"GET / HTTP/1.1\r\n\r\n", b"")
    body = bytearray()

    def relay(chunk: bytes, start: int) -> None:
        require(not response._chunks, "relayed past the buffer")
        body.extend(chunk[start:-2])

    for part in parts:
        if wire.closed:
            break
        connection.data_received(part)
        if response.status:
            body += response.take()
            if relayed:
                response.relay = relay
    if ended and not wire.closed:
        connection.eof_received()
        connection.connection_lost(None)
    kept = connection in pool._idle
    ending = _ending(response)
    body += response.take()
    if not connection.closed:
        connection.abort()
        connection.connection_lost(None)
    return Read(response.status, response.headers, bytes(body), ending, kept)


def _ending(response: NativeResponse) -> str:
    error: UpstreamError | None = response._error
    if error is not None:
        require(len(str(error)) < 300 and str(error).isprintable(), "not a line", str(error))
        require(isinstance(error, Truncated) == bool(response.status), "not its kind of error", error)
        return "cut"
    return "complete" if response._connection is None else "open"


@target(
    "reply_heads",
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.0 200\r\n", b"Content-Length: "),
        *(b"\r\n\r\n", b"Transfer-Encoding: chunked\r\n", b"5\r\nhello\r\n", b"0\r\n\r\n", b"HTTP/1.1 204 x\r\n"),
        *(b"HTTP/1.1 304 x\r\n", b"Connection: close\r\n", b"Connection: keep-alive\r\n", b"Upgrade: h2c\r\n"),
        *(b"HTTP/1.1 101 x\r\n", b"|", b";a=b", b"chunked, ", b"gzip, chunked", b"identity", b"\x00", b"\n "),
        *(b"\r\n\t", b"X: y\r\n", b"a\r\n", b"\x7f"),
    ],
)
def reply_heads(data: bytes) -> None:
    """A reply is framed as RFC 9112 has it, however it is cut, and one that is cut short is never taken for whole."""
    (seed, way), text = choices(data, 2)
    method = b"HEAD" if way % 4 == 3 else b"POST"
    relayed, ended = bool(way & 4), bool(way & 8)
    parts = _cut(text, seed)
    text = b"".join(parts)
    found = _loop().run_until_complete(_read(parts, method, relayed=relayed, ended=ended))
    said = reply_in(text, method, ended=ended)
    _compare(found, said)
    if found.kept:
        require(said.rest == b"" and found.ending == "complete", "kept, although more came", found, said)


def _compare(found: Read, said: Said) -> None:
    shown = (found, said)
    if said.ending == "malformed":
        require(found.ending != "complete" or not found.kept, "what is malformed is taken for whole", *shown)
        return
    if found.ending == "cut" and said.ending == "complete":
        # Refused although it is well-formed: more bytes than it has, or an upgrade.
        require(said.odd, "what is well-formed is refused", *shown)
        return
    if found.ending == "cut" and said.ending in ("open", "cut"):
        # Refused perhaps, before the line that is wrong is whole, or for an extension without a name.
        require(said.body.startswith(found.body), "another body", *shown)
        return
    require(found.ending == said.ending, "another ending", *shown)
    if found.status:
        require(found.status == said.status, "another status", *shown)
        require(found.body == said.body, "another body", *shown)
        require(_unfolded(found.headers) == _unfolded(said.headers), "other headers", *shown)


def _unfolded(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    return [(name, b" ".join(value.split())) for name, value in headers]
