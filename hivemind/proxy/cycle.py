"""One request on a client's connection, and its response: as an ASGI server passes them to an application, or at once.

*Whole answers*: head and body go out in one write. A second system call would cost a tenth of all that a small request
costs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Protocol

from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from hivemind.proxy.asgi import Message, Scope
from hivemind.upstream.outbox import OutboxTransport
from hivemind.wire.request_head import Headers, without

_log = logging.getLogger(__name__)

EXTENSION = "hivemind.cycle"
"""Where an application finds the :class:`Cycle` in its scope."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_FRAMING = frozenset({b"content-length", b"transfer-encoding", b"connection"})
_FAILED = b"Internal Server Error"
_FORGOTTEN: Scope = {}


class AnswerCut(Exception):
    """Raised by an application that leaves its answer incomplete on purpose, so that the connection is cut there. The
    text says why."""


class ClientConnection(Protocol):
    """The connection that a request came on."""

    transport: asyncio.Transport
    tasks: set[asyncio.Task[None]]
    """The tasks that serve requests."""

    @property
    def flow(self) -> FlowControl:
        """Its flow control."""

    def on_response_complete(self) -> None:
        """Serve the next request, or close the connection: it is known here whether the client is still sending."""

    def drop_parser(self, *, head: bool = False) -> None:
        """Drop the parser, unless a request is coming, and with `head` what recognises the next one, hours away."""

    def close_unfinished(self) -> None:
        """Close the connection after a part of a response, once the client has taken it."""


class Cycle:
    """One request and its response."""

    __slots__ = (
        "_bodiless",
        "_chunked",
        "_event",
        "_expected",
        "_has_news",
        "_until_end",
        "began_with",
        "body",
        "connection",
        "disconnected",
        "expects_continue",
        "flow",
        "keep_alive",
        "more_body",
        "on_disconnect",
        "remembered",
        "response_complete",
        "response_started",
        "scope",
        "transport",
    )

    def __init__(
        self,
        connection: ClientConnection,
        scope: Scope,
        *,
        keep_alive: bool = True,
        expects_continue: bool = False,
        body: bytes | None = None,
    ) -> None:
        """`body` is the whole body, where it has come."""
        self.connection = connection
        self.scope = scope
        self.transport = connection.transport
        self.flow = connection.flow
        self.keep_alive = keep_alive
        self.expects_continue = expects_continue
        """The client waits for `100 Continue` before it sends the body."""
        self.remembered: object = None
        """What the application keeps for requests of the same head on this connection."""
        self.began_with = b""
        """The data that the request's head was at the beginning of."""
        self.body: bytes | bytearray = b"" if body is None else body
        """What has come of the body and wasn't received by the application."""
        self.more_body = body is None
        self.disconnected = False
        self.on_disconnect: Callable[[], None] | None = None
        """Called when the client leaves before the response is complete."""
        self.response_started = self.response_complete = False
        self._bodiless = self._chunked = False
        self._until_end = False
        """The body ends with the connection, since the client doesn't know chunks."""
        self._expected = 0
        self._has_news = body is not None
        self._event: asyncio.Event | None = None

    # --- The request ----------------------------------------------------------------------------------------------

    def add_body(self, data: bytes) -> None:
        """Add what has come of the body, and wake the application."""
        if not self.body:
            self.body = data  # as a rule it is received before more comes
        else:
            if isinstance(self.body, bytes):
                self.body = bytearray(self.body)
            self.body += data
        self.notify()

    def notify(self) -> None:
        """Wake the application, because more of the request has come or nothing more will."""
        self._has_news = True
        if self._event is not None:
            self._event.set()

    def disconnect(self) -> None:
        """Note that the client has left."""
        self.disconnected = True
        self.notify()
        if self.on_disconnect is not None:
            self.on_disconnect()

    def watch(self, on_disconnect: Callable[[], None]) -> Callable[[], None]:
        """Call back once the client leaves before the response is complete, at once where it has. Return what ends
        that."""
        self.on_disconnect = on_disconnect
        if self.disconnected:
            on_disconnect()
        else:
            self.flow.resume_reading()  # a large body leaves it paused, which would hide the end of the connection
        return self.unwatch

    def unwatch(self) -> None:
        """Call back no more."""
        self.on_disconnect = None

    def take_body(self) -> bytes:
        """Return the body of a request that has come whole."""
        self._has_news = False  # as if it had been received
        body, self.body = bytes(self.body), b""
        return body

    async def receive(self) -> Message:
        """Return the next ASGI message: a part of the body, or the disconnect."""
        if not (self.disconnected or self.response_complete):
            if self.expects_continue and not self.transport.is_closing():
                self.transport.write(_CONTINUE)
                self.expects_continue = False
            self.flow.resume_reading()
            if not self._has_news:
                self._event = asyncio.Event()
                await self._event.wait()
            self._has_news = False
        if self.disconnected or self.response_complete:
            return {"type": "http.disconnect"}
        body, self.body = bytes(self.body), b""
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    def run_in_task(self, serve: Callable[[], Awaitable[None]]) -> None:
        """Serve the request in a task of its own."""
        self.connection.drop_parser()
        tasks = self.connection.tasks
        task = asyncio.get_running_loop().create_task(self._run(serve))
        task.add_done_callback(tasks.discard)
        tasks.add(task)

    async def _run(self, serve: Callable[[], Awaitable[None]]) -> None:
        """Serve the request. A failure is logged, and answered 500 where it may be.

        The connection of an answer that is incomplete is closed, so that its client can't take it for a whole one.
        """
        serving = serve()
        del serve  # or it would be kept as long as the request
        try:
            await serving
            if self.response_complete or self.disconnected:
                return
            _log.error("an application returned without a complete response")
        except asyncio.CancelledError:
            self.transport.close()
            raise
        except AnswerCut as cut:
            _log.info("an answer was truncated: %s", cut)
        except Exception:
            _log.exception("an application failed")
        if self.disconnected or self.response_complete:
            return
        if self.response_started:
            self.connection.close_unfinished()
        else:
            self.keep_alive = False
            self.answer(500, [(b"content-type", b"text/plain; charset=utf-8")], _FAILED)

    # --- The response ---------------------------------------------------------------------------------------------

    def answer(self, status: int, headers: Headers, body: bytes) -> None:
        """Write a whole response, and complete it. Names of headers are in lower case.

        Raises: RuntimeError: something of a response was written already, or a header holds a line break.
        """
        if self.disconnected:
            return
        if self.response_started:
            raise RuntimeError("the response has begun")
        head = self._head(status, headers, len(body))
        self.transport.write(head if self._bodiless else head + body)
        self._complete()

    @property
    def is_chunked(self) -> bool:
        """Whether the response that has begun goes out in chunks, so that one from upstream can be written as it is."""
        return self._chunked and not self._bodiless

    def write_directly(self) -> None:
        """Have the rest of the response written as it comes: a stream's events rarely come together, and shouldn't wait
        for the end of a turn."""
        if isinstance(self.transport, OutboxTransport):
            self.transport = self.transport.direct()
        self.connection.drop_parser(head=True)
        self.scope, self.remembered = _FORGOTTEN, None

    def pass_on(self, data: bytes) -> None:
        """Write a part of the body of a response that has begun."""
        if not self.disconnected:
            self._write(data, True)

    async def send(self, message: Message) -> None:
        """Send an ASGI message. Raises: RuntimeError: the application breaks the protocol."""
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        kind = message["type"]
        if not self.response_started:
            if kind != "http.response.start":
                raise RuntimeError(f"expected http.response.start, got {kind}")
            self.transport.write(self._head(message["status"], message.get("headers", ()), None))
        elif self.response_complete or kind != "http.response.body":
            raise RuntimeError(f"unexpected {kind}")
        else:
            more = message.get("more_body", False)
            self._write(message.get("body", b""), more)
            if not more:
                self._complete()

    def _head(self, status: int, headers: Headers, size: int | None) -> bytes:
        """Return the head as it goes on the wire. `size` is the length of the body, where it is known."""
        bodiless = self._bodiless = status == 204 or status == 304 or self.scope["method"] == "HEAD"
        if self.more_body:
            self.keep_alive = False  # the rest of the request isn't read
        if status == 204:  # which has no length (RFC 9110, 8.6)
            headers = without(headers, b"content-length", b"transfer-encoding")
        framed = closes = False
        for name, value in headers:
            if name in _FRAMING:
                if name == b"content-length":
                    framed, self._expected = True, int(value)
                elif name == b"transfer-encoding":
                    framed = self._chunked = True
                elif b"close" in value.lower():
                    closes, self.keep_alive = True, False
        lines = [status_line(status), *[b"%b: %b\r\n" % pair for pair in headers]]
        if not (framed or bodiless):
            if size is None and self.scope["http_version"] == "1.0":
                self._until_end = True
                _reset_on_close(self.transport, True)  # until it is complete, lest a part be taken for the whole
            elif size is None:
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                lines.append(b"content-length: %d\r\n" % size)
        if not (self.keep_alive or closes):
            lines.append(b"connection: close\r\n")
        ends = len(lines) + 1
        lines.append(b"\r\n")
        head = b"".join(lines)
        # Upstreams' headers were checked when they came; this is about our own.
        if head.count(b"\n") != ends or head.count(b"\r") != ends:
            raise RuntimeError("a response header holds a line break")
        self.response_started = True
        self.expects_continue = False
        return head

    def _write(self, body: bytes, more: bool) -> None:
        if self._bodiless:
            return
        if self._chunked:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(chunk if more else chunk + b"0\r\n\r\n")
            return
        if not self._until_end:
            self._expected -= len(body)
            if self._expected < 0 or (self._expected and not more):
                raise RuntimeError("the response's body isn't as long as its content-length says")
        self.transport.write(body)

    def _complete(self) -> None:
        if self._until_end:
            _reset_on_close(self.transport, False)
        self.response_complete = True
        self.body = b""  # of which nothing more is received
        if self._event is not None:
            self._event.set()
        self.connection.on_response_complete()


def status_line(status: int) -> bytes:
    """Return the status line, with the usual phrase where the status has one."""
    return STATUS_LINE.get(status) or b"HTTP/1.1 %d \r\n" % status


def _reset_on_close(transport: asyncio.Transport, reset: bool) -> None:
    """Have the client see a reset when the connection is closed, or its end."""
    held = transport.get_extra_info("socket")
    if held is None or transport.is_closing():
        return
    # A second descriptor of the same socket, because uvloop's stand-in for it can't set options.
    with socket.fromfd(held.fileno(), held.family, socket.SOCK_STREAM) as twin:
        twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", reset, 0))
