"""The server's side of a client connection: uvicorn's httptools protocol, with the bounds that a proxy needs.

*Disconnects*: ASGI reports a client's disconnect through `receive()`, which must be awaited all the while: one more
task for every request. This protocol calls back instead, through an object in the scope. Reading is never paused while
a request waits for its answer, because only a reader sees the end of a connection.

*Whole answers*: head and body go out in one write. A second system call would cost a tenth of all that a small request
costs.

*Upgrades declined*: a client that offers HTTP/2 in clear text, as Java's does by default, or WebSocket, is served in
HTTP/1.1 as if it hadn't (RFC 9110, 7.8). uvicorn would lose the body of its request.

*Bounds*: heads, trailers, chunk extensions and pipelined requests are counted while they come, before the parser has
accumulated them; heads, bodies and the client's reading have deadlines; and what can't be served gets one answer, after
which the connection is closed in a way that lets the client read that answer.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from hivemind.proxy.file_limit import ConnectionLimit
from hivemind.upstream.deadline import Deadline
from hivemind.wire.request_head import (
    FRAMING,
    MAX_HEAD,
    MAX_LINES,
    MAX_TARGET,
    Headers,
    RequestRefused,
    api_path,
    check,
    head_too_large,
    size_of,
    unparsable,
)

_log = logging.getLogger(__name__)

EXTENSION = "hivemind.disconnect"
HEAD_S = 30.0
"""Longest time from the first byte of a request to the end of its head."""
BODY_WINDOW_S = 30.0
"""A body must make progress in every such stretch of time."""
MIN_BODY_RATE = 500
"""Bytes a second that count as progress (the default of Apache's mod_reqtimeout)."""
MAX_AHEAD = 64 << 10
"""Bytes that a client may send ahead of the answer to its last request."""
MAX_PIPELINED = 32
"""Requests that may wait for their turn on one connection."""
WRITE_STALL_S = 300.0
"""Longest time in which a client takes nothing of an answer of which more than the write buffer waits for it. It is as
long as an upstream may be silent, so that a suspended program loses nothing earlier than its answer would end."""
LINGER_S = 10.0
"""A connection that was answered before the client had sent everything, or whose answer was cut off, is kept no longer
for the client to take what it was sent."""
LINGER_BYTES = 1 << 20
"""No more than about this is read and discarded meanwhile."""
_OVERHEAD_PER_BYTE = 16
"""Bytes of chunk framing that each byte of a body may come with; as in Go's net/http, more adds to an excess, which is
bounded like a head."""

_IDLE, _HEAD, _BODY, _DISCARD, _UNTIMED = range(5)
"""What is being received: nothing, a head, a body, or data to be discarded."""


class DisconnectNotifier:
    """Calls back when one connection ends."""

    __slots__ = ("_callbacks", "_protocol")

    def __init__(self, protocol: ClientProtocol) -> None:
        self._protocol: ClientProtocol | None = protocol
        self._callbacks: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when the connection ends, until :meth:`forget`; at once where it has ended."""
        self._callbacks.append(callback)
        if self._protocol is None:
            callback()
        else:
            # A large body leaves reading paused, which would hide the end of the connection.
            self._protocol.flow.resume_reading()

    def forget(self, callback: Callable[[], None]) -> None:
        """Call back no more, because nothing more is written for this request."""
        self._callbacks.remove(callback)
        if self._protocol is not None:
            self._protocol.start_linger_timeout()

    def notify(self) -> None:
        """Call back, because the connection has ended."""
        # Broken here, or the reference cycle would keep both, with all of the request, until a garbage collection.
        self._protocol = None
        for callback in list(self._callbacks):
            callback()


class Cycle(RequestResponseCycle):
    """uvicorn's request and response. It can write a whole answer at once, and leaves closing the connection to the
    protocol, which knows whether the client is still sending."""

    _bodiless = False
    protocol: ClientProtocol

    @property
    def client_gone(self) -> DisconnectNotifier:
        """The notifier of the connection."""
        notifier = disconnect_notifier(self.scope)
        assert notifier is not None
        return notifier

    def run_in_task(self, app: Any) -> None:
        """Serve the request by an ASGI application."""
        self.protocol._start_asgi_task(self, app)

    def take_body(self) -> bytes:
        """Return the body of a request that has come whole."""
        self.message_event.clear()  # as if it had been received
        body, self.body = bytes(self.body), bytearray()
        return body

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

    def pass_on(self, data: bytes) -> None:
        """Write a part of the body of a response that has begun."""
        if not self.disconnected:
            self._write(data, True)

    async def send(self, message: Any) -> None:
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
        self.response_started = True
        self.waiting_for_100_continue = False
        self._bodiless = self.scope["method"] == "HEAD" or status in (204, 304)
        if self.more_body:
            self.keep_alive = False  # the rest of the request isn't read
        lines = [status_line(status)]
        ends = 2 + len(headers)
        framed = closes = False
        for name, value in headers:
            if name == b"content-length":
                framed, self.expected_content_length = True, int(value)
            elif name == b"transfer-encoding":
                framed = self.chunked_encoding = True
            elif name == b"connection" and b"close" in value.lower():
                closes, self.keep_alive = True, False
            lines += (name, b": ", value, b"\r\n")
        if not (framed or self._bodiless):
            ends += 1
            if size is None:
                self.chunked_encoding = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                lines.append(b"content-length: %d\r\n" % size)
        if not (self.keep_alive or closes):
            ends += 1
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        head = b"".join(lines)
        # Upstreams' headers were checked when they came; this is about our own.
        if head.count(b"\n") != ends or head.count(b"\r") != ends:
            self.response_started = False
            raise RuntimeError("a response header holds a line break")
        return head

    def _write(self, body: bytes, more: bool) -> None:
        if self._bodiless:
            return
        if self.chunked_encoding:
            chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            self.transport.write(chunk if more else chunk + b"0\r\n\r\n")
            return
        self.expected_content_length -= len(body)
        if self.expected_content_length < 0 or (self.expected_content_length and not more):
            raise RuntimeError("the response's body isn't as long as its content-length says")
        self.transport.write(body)

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        self.on_response()


def status_line(status: int) -> bytes:
    """Return the status line, with the usual phrase where the status has one."""
    return STATUS_LINE.get(status) or b"HTTP/1.1 %d \r\n" % status


class ClientProtocol(HttpToolsProtocol):
    """One client's connection: receives requests one after the other and serves them in that order.

    One timer (:class:`.upstream.deadline.Deadline`) bounds each wait on the client: for a first request, the rest of a
    head, progress of a body, the next request, the end of a connection after its last answer.
    """

    cycle: Cycle | None  # type: ignore[assignment]  # of the newest request

    _connection_limit = ConnectionLimit()  # shared by the process, as its limit of open files is

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.url = b""
        self._disconnect: DisconnectNotifier | None = None
        self._deadline = Deadline(self.loop, self._expired)
        self._write_deadline = Deadline(self.loop, self._write_stalled)
        self._serve_whole: Callable[[Cycle], bool] | None = getattr(self.app, "serve_whole", None)
        """Serves a request that has come whole without a task, if it can."""
        self._serving: Cycle | None = None
        """The request that is being answered."""
        self._unstarted: Cycle | None = None
        """The same, until it is started."""
        self._refusal: bytes | None = None
        """Sent after the answers that are due."""
        self._state = _IDLE
        self._timed = _UNTIMED
        """The state that the deadline is for."""
        self._chunk = 0
        """Length of the data being parsed."""
        self._received = self._received_before = 0
        """Bytes in all, now and when the current window began."""
        self._begins_chunk = False
        self._head_size = self._head_slack = 0
        """Bytes of the head so far, and how many of these may have been the end of the message before it."""
        self._body_size = 0
        """Bytes of all bodies."""
        self._excess = 0
        self._ahead = 0
        self._left = 0

    # --- Transport callbacks --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._connection_limit.is_full(len(self.connections), transport):
            self._reject_connection(transport)
        else:
            self._await_request()

    def data_received(self, data: bytes) -> None:
        size = len(data)
        if self._state == _DISCARD:
            self._discard(size)
            return
        self._received += size
        self._chunk = size
        self._begins_chunk = self._state == _IDLE
        if self._state == _HEAD:
            self._head_size += size
        serving = self._serving
        if serving is not None and not serving.more_body:
            self._ahead += size
            if self._ahead > MAX_AHEAD:
                self._refuse(_too_far_ahead())
                return
        before = self._body_size
        refusal = self._parse(data)
        if self._unstarted is not None:
            self._start()
        if refusal is None and self._state:
            refusal = self._check_incomplete(size, self._body_size - before)
        if refusal is not None:
            self._refuse(refusal)

    def pause_writing(self) -> None:
        """Start a deadline, or a client that stops reading would hold its slot for ever."""
        super().pause_writing()
        self._write_deadline.start(WRITE_STALL_S)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._write_deadline.stop()

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.close()
        self._write_deadline.close()
        serving, self._serving = self._serving, None
        if serving is not None and not serving.response_complete:
            serving.disconnected = True
            serving.message_event.set()
        super().connection_lost(exc)
        # Requests that never began refer to us; the cycle would keep all until a garbage collection.
        self.pipeline.clear()
        self.cycle = None
        if self._disconnect is not None:
            self._disconnect.notify()

    def shutdown(self) -> None:
        """Close the connection for the server's end, once the current answer is sent."""
        if self._serving is None:
            self.transport.close()
        else:
            self._serving.keep_alive = False

    # --- Parsing --------------------------------------------------------------------------------------------------

    def _parse(self, data: bytes) -> RequestRefused | None:
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserCallbackError as error:
                cause = error.__context__
                if isinstance(cause, RequestRefused):
                    return cause.with_traceback(None)
                raise
            except httptools.HttpParserError as error:
                return unparsable(str(error))
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = _parser(self)
                continue
            return None
        return None

    def _head_without_upgrade(self) -> bytes:
        """The head just parsed, with `upgrade` no longer an option of the connection; the header of that name stays,
        for the application to see."""
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        for name, value in self.headers:
            if name == b"connection":
                value = b", ".join(each for each in value.split(b",") if each.strip().lower() != b"upgrade")
            lines.append(name + b": " + value)
        return b"\r\n".join([*lines, b"", b""])

    def _check_incomplete(self, size: int, grown: int) -> RequestRefused | None:
        """Check a message that is incomplete after `size` more bytes, by which its body grew by `grown`."""
        if self._state == _HEAD:
            if self._head_size - self._head_slack > MAX_HEAD:
                return head_too_large()
            if self._timed != _HEAD:
                self._time(_HEAD, HEAD_S)
            return None
        self._excess = max(0, self._excess + size - _OVERHEAD_PER_BYTE * grown)
        if self._excess > MAX_HEAD:
            return RequestRefused(400, "the body's chunk extensions or trailers are too long")
        if self._timed != _BODY:
            self._time_body()
        return None

    def on_message_begin(self) -> None:
        self.url = b""
        headers = self.headers = []
        notifier = self._disconnect
        if notifier is None:
            notifier = self._disconnect = DisconnectNotifier(self)
        self.scope = {  # type: ignore[typeddict-item]  # the rest comes with the end of the head
            "type": "http",
            "asgi": {"version": self.asgi_version, "spec_version": "2.3"},
            "server": self.server,
            "client": self.client,
            "scheme": self.scheme,  # type: ignore[typeddict-item]
            "root_path": "",
            "headers": headers,
            "state": {},
            "extensions": {EXTENSION: notifier},  # type: ignore[dict-item]
        }
        self._state, self._timed = _HEAD, _UNTIMED
        self._deadline.stop()
        self._head_size = self._chunk
        self._head_slack = 0 if self._begins_chunk else self._chunk
        self._begins_chunk = False

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > MAX_TARGET:
            text = f"the request target is longer than {MAX_TARGET >> 10} KiB"
            raise RequestRefused(414, text, "target_too_long")

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))
        if len(self.headers) > MAX_LINES:
            raise RequestRefused(431, f"the request has more than {MAX_LINES} header lines", "head_too_large")

    def on_headers_complete(self) -> None:
        if self._head_size > MAX_HEAD and self._exact_head_size() > MAX_HEAD:
            raise head_too_large()
        parser = self.parser
        method, version = parser.get_method(), parser.get_http_version()
        framing = [pair for pair in self.headers if pair[0] in FRAMING]
        check(method, self.url, version, framing)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _too_far_ahead()
        if parser.should_upgrade():
            return
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("ascii")
        scope = self.scope
        scope["method"] = method.decode("ascii")
        scope["http_version"] = version
        scope["path"] = urllib.parse.unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        self._state = _BODY
        # Trailers come the same way. None may stand in for a header (RFC 9110, 6.5.1), so they go nowhere.
        self.headers = []
        self._excess = -self._chunk  # of which the head, and what came before it, are no part of this body
        cycle = self.cycle = Cycle(
            scope=scope,
            transport=self.transport,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=[],
            message_event=asyncio.Event(),
            expect_100_continue=version == "1.1" and any(map(_expects_continue, framing)),
            keep_alive=version != "1.0" and parser.should_keep_alive(),
            on_response=self.on_response_complete,
        )
        cycle.protocol = self
        if self._serving is None:
            self._serve(cycle)
        else:
            self.pipeline.append((cycle, self.app))

    def _exact_head_size(self) -> int:
        """Return the size without other messages in the same data; needed only where all together are too long."""
        return len(self.url) + size_of(self.headers) + 4 * len(self.headers)

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.body += body
        # The body of a pipelined request isn't read yet; its size is bounded by MAX_AHEAD.
        if cycle is self._serving and len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._state = _IDLE
        if self._timed != _UNTIMED:
            self._timed = _UNTIMED
            self._deadline.stop()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = False
            cycle.message_event.set()

    # --- The course of requests -----------------------------------------------------------------------------------

    def _serve(self, cycle: Cycle) -> None:
        """Serve a request once all that came with its head is parsed."""
        self._serving = self._unstarted = cycle
        self._ahead = 0

    def _start(self) -> None:
        cycle, self._unstarted = self._unstarted, None
        assert cycle is not None
        if cycle.more_body or self._serve_whole is None or not self._serve_whole(cycle):
            cycle.run_in_task(self.app)

    def on_response_complete(self) -> None:
        """Serve the next request, or close the connection."""
        self.server_state.total_requests += 1
        done, self._serving = self._serving, None
        if self.transport.is_closing() or done is None:
            return
        if not done.keep_alive:
            self._close(sending=done.more_body or self._state != _IDLE)
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, _ = self.pipeline.popleft()
            assert isinstance(cycle, Cycle)
            self._serve(cycle)
            self._start()
        elif self._refusal is not None:
            self._write_last(self._refusal)
        elif self._state == _IDLE:
            self._await_request()

    def start_linger_timeout(self) -> None:
        """Bound the time of a connection whose answer the application leaves unfinished: uvicorn closes it once the
        client has read the rest, which one that hangs never does."""
        serving = self._serving
        if serving is not None and serving.response_started and not serving.response_complete:
            self._state, self._left = _DISCARD, LINGER_BYTES
            self._time(_DISCARD, LINGER_S)

    def _refuse(self, refusal: RequestRefused) -> None:
        """Discard all further input; answer the earlier requests, then send this refusal."""
        headers, body = refusal.response(api_path(self.url))
        answer = _whole(refusal.status, headers, body)
        self._state, self._timed = _DISCARD, _UNTIMED
        self._deadline.stop()
        serving, newest = self._serving, self.cycle
        if serving is None:
            self._write_last(answer)
        elif serving is newest and serving.more_body:
            # The body of the current request can't be read, so the application sees a disconnect.
            serving.disconnected = True
            serving.message_event.set()
            self._serving = None
            if serving.response_started:
                self.transport.close()
            else:
                self._write_last(answer)
        else:
            if newest is not None and newest.more_body and self.pipeline:
                self.pipeline.pop()
            self._refusal = answer
            self._left = 0

    def _reject_connection(self, transport: asyncio.Transport) -> None:
        self._connection_limit.log_full(len(self.connections), self.loop.time())
        if self._connection_limit.is_exhausted(transport):
            transport.abort()
            return
        text = "too many connections are open; as many as the limit of open files allows"
        self._refuse(RequestRefused(503, text, "too_many_connections", retry_after_s=5.0))

    def _write_last(self, answer: bytes) -> None:
        self.transport.write(answer)
        self._close(sending=True)

    def _close(self, *, sending: bool) -> None:
        """Close. While the client is still `sending`, that would reset the connection, and the client might lose the
        answer, so only our direction is closed at first; the other one is read and discarded for a while."""
        if not sending or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._state, self._left = _DISCARD, LINGER_BYTES
        self.transport.write_eof()
        self.flow.resume_reading()
        self._time(_DISCARD, LINGER_S)

    def _discard(self, size: int) -> None:
        if self._timed != _DISCARD:
            return  # answers are due, and only a reader notices a disconnect
        self._left -= size
        if self._left < 0:
            # Aborted now, a client that is still sending would get a reset, and lose the answer with it.
            self.flow.pause_reading()

    # --- Time -----------------------------------------------------------------------------------------------------

    def _await_request(self) -> None:
        self._time(_IDLE, self.timeout_keep_alive)

    def _time(self, what: int, seconds: float) -> None:
        self._timed = what
        self._deadline.start(seconds)

    def _time_body(self) -> None:
        self._received_before = self._received
        self._time(_BODY, BODY_WINDOW_S)

    def _expired(self) -> None:
        timed, self._timed = self._timed, _UNTIMED
        if self.transport.is_closing() and timed != _DISCARD:
            return
        if timed == _IDLE:
            self.transport.close()
        elif timed == _HEAD:
            text = f"the request head didn't come whole within {HEAD_S:g} s"
            self._refuse(RequestRefused(408, text, "request_timeout"))
        elif timed == _BODY:
            enough = self._received - self._received_before >= MIN_BODY_RATE * BODY_WINDOW_S
            if enough or self.flow.read_paused:
                self._time_body()
            else:
                text = f"the request body comes too slowly: less than {MIN_BODY_RATE} bytes/s for {BODY_WINDOW_S:g} s"
                self._refuse(RequestRefused(408, text, "request_timeout"))
        else:
            self.transport.abort()

    def _write_stalled(self) -> None:
        _log.info("a client took nothing of its answer for %g s, so its connection was closed", WRITE_STALL_S)
        self.transport.abort()


def _expects_continue(header: tuple[bytes, bytes]) -> bool:
    return header[0] == b"expect" and header[1].lower() == b"100-continue"


def _too_far_ahead() -> RequestRefused:
    text = (
        f"more than {MAX_AHEAD >> 10} KiB or {MAX_PIPELINED} requests were sent ahead of an answer;"
        " wait for it before sending more"
    )
    return RequestRefused(503, text, "too_far_ahead")


def _whole(status: int, headers: Headers, body: bytes) -> bytes:
    """Return a response after which the connection is closed."""
    fields = b"".join(b"%b: %b\r\n" % field for field in headers if field[0] != b"content-length")
    return b"%b%bcontent-length: %d\r\nconnection: close\r\n\r\n%b" % (status_line(status), fields, len(body), body)


def _parser(protocol: ClientProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    # As uvicorn has it: a request may follow one that asked for the connection to be closed.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def disconnect_notifier(scope: Mapping[str, Any]) -> DisconnectNotifier | None:
    """Return the notifier of the connection, where our own protocol serves it."""
    extensions = scope.get("extensions")
    return extensions.get(EXTENSION) if extensions else None
