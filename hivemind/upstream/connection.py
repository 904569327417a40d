"""The native client's connections: one with the exchange that is on it, and the pool of them all."""

from __future__ import annotations

import asyncio
import math
import select
from typing import cast

import httptools

from hivemind.upstream.base import (
    MALFORMED,
    SLICE,
    BodyStream,
    Disconnected,
    Headers,
    Timeouts,
    Truncated,
    UpstreamError,
    UpstreamTimeout,
    describe,
    holds_control,
    one_line,
)
from hivemind.upstream.deadline import Deadline
from hivemind.upstream.input_turns import InputTurns
from hivemind.upstream.outbox import Outbox, OutboxTransport
from hivemind.upstream.response import NativeResponse

CLOSED = "the upstream client was closed"
MAX_HEAD = 256 * 1024
"""Bytes of a response head (interim ones included) that are read before it counts as malformed."""
MAX_HEAD_LINES = 1000
"""Most header lines of a response; each of tens of thousands would be checked a dozen times."""
FRESH_S = 0.05
"""A connection that was idle no longer is usually open; asking the system costs a third of sending a request."""
_NOTHING = memoryview(b"")
IDLE_AGE_S = 50.0
"""A connection that was idle longer is closed; common load balancers close theirs after 60 s."""


class Connection(asyncio.Protocol):
    """Carries one exchange after another.

    httptools' parser calls the `on_…` methods from within :meth:`parse`.
    """

    # fmt: off
    __slots__ = (
        "_allowed", "_between_chunks", "_complete", "_deadline", "_drained", "_head_only", "_idle_s", "_in_head",
        "_keep", "_loop", "_outbox", "_parser", "_pool", "_reading", "_received", "_response", "_sending",
        "_timeouts", "_transport", "_turns", "_unsent", "_unwanted", "_upload", "_used", "_writable", "backlog",
        "closed", "idle_since", "parts",
    )
    # fmt: on

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pool: Pool, timeouts: Timeouts, outbox: Outbox | None = None
    ) -> None:
        self._loop = loop
        self._pool = pool
        self._timeouts = timeouts
        self._allowed = timeouts
        """The timeouts of the present exchange."""
        self._idle_s = math.inf
        """Of these, the one between two pieces of the body."""
        self._outbox = outbox
        self._deadline = Deadline(loop, self._expired)
        self._parser: httptools.HttpResponseParser | None = None
        self._turns = InputTurns.of(loop)
        self.backlog = _NOTHING
        self.parts = 0
        self._reading = True
        self._transport: asyncio.Transport | None = None
        self.closed = False
        self._writable = True
        self._used = False
        self._response: NativeResponse | None = None
        self._unsent = _NOTHING
        self._sending = False
        self._upload: asyncio.Task[None] | None = None
        """Sends a body as it comes, until it is sent."""
        self._drained: asyncio.Future[None] | None = None
        self._head_only = False
        self._in_head = False
        self._complete = False
        self._between_chunks = False
        self._keep = False
        self._received = 0
        self._unwanted = ""
        self.idle_since = loop.time()
        """Start of its idle time, by the loop's clock."""

    # --- Client ---------------------------------------------------------------------------------------------------

    def is_usable(self, *, surely: bool) -> bool:
        """Return whether a request may be written: it is open, and no input waits that the loop hasn't read; one that
        has just been used is only asked for that if it must `surely` be open."""
        if self.closed:
            return False
        if not surely and self._loop.time() - self.idle_since < FRESH_S:
            return True
        poll = select.poll()  # kept, it would take half a kilobyte
        poll.register(self._open_transport().get_extra_info("socket").fileno(), select.POLLIN)
        return not poll.poll(0)

    def start(self, method: bytes, head: bytes, body: bytes, silent_s: float = 0.0) -> NativeResponse:
        """Write a request, to which nothing may come for `silent_s`. Return its response, which is filled as it
        comes."""
        self._allowed = self._timeouts.at_least(silent_s)
        self._idle_s = math.inf if self._allowed.idle_s is None else self._allowed.idle_s
        response = self._response = NativeResponse(self, self._loop)
        if self._parser is None:
            self._parser = _parser(self)
        self._head_only = method == b"HEAD"
        self._in_head = self._sending = True
        self._complete = self._keep = self._between_chunks = False
        self._received = 0
        transport = self._open_transport()
        if len(body) <= SLICE:
            transport.write(head + body if body else head)
            self._deadline.start(self._allowed.headers_s)
        else:
            transport.write(head)
            self._unsent = memoryview(body)
            self._pump()
        return response

    def stream(self, body: BodyStream) -> None:
        """Send the body of the request that was started, as it comes and as fast as the other side takes it."""
        self._deadline.stop()
        self._upload = self._loop.create_task(self._send(body), name="send a body as it comes")

    def pause(self) -> None:
        """Read no more until :meth:`resume`, and suspend the timeout."""
        if not self._is_closing():
            self._read_if_wanted()
            self._deadline.stop()

    def resume(self) -> None:
        """Continue to read, with the timeout."""
        if not self._is_closing():
            self._read_if_wanted()
            self._deadline.start(self._allowed.idle_s)

    def abort(self, error: UpstreamError | None = None) -> None:
        """Close at once; the exchange on it fails with `error`."""
        response, self._response = self._response, None
        if response is not None and error is not None:
            response.fail(error)
        if self.closed:
            return
        self.closed = True
        self._deadline.close()
        self._pool.exclude(self)
        self._unsent = self.backlog = _NOTHING
        if self._upload is not None:
            self._upload.cancel()
        # Dropped, because uvloop's keeps its reference to us when it is aborted while connecting.
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()

    def cut(self, reason: str) -> None:
        """Close at once; the exchange on it has ended too early."""
        self.abort(self._truncated(reason))

    # --- Transport callbacks --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        opened = cast(asyncio.Transport, transport)
        self._transport = opened if self._outbox is None else OutboxTransport(opened, self._outbox)
        if self.closed:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        response = self._response
        if response is None:
            self.abort()
            return
        relay = response.relay
        if relay is not None and self._between_chunks and not self.backlog:
            # What is exactly one chunk, not the last one, in the usual spelling, as events of a stream come. The parser
            # takes no part in it, which leaves it between chunks, as it was.
            size = len(data)
            start = 3 if size <= 20 else 4 if size <= 261 else 5
            body = size - start - 2
            if body > 0 and data.startswith(b"%x\r\n" % body) and data.endswith(b"\r\n"):
                self._deadline.at = self._loop.time() + self._idle_s
                relay(data, start)
                return
        self._turns.read(self, data)

    def parse(self, data: bytes | memoryview, *, last: bool) -> None:
        response = self._response
        if response is None:
            self.abort()
            return
        if self._in_head:
            self._received += len(data)
        assert self._parser is not None, "only during an exchange"
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as exc:
            self._unwanted = self._unwanted or one_line(str(exc)) or "not HTTP"
        if self._complete:
            if not last:
                self._unwanted = "more than one response"
            self._release(response)
        elif self._unwanted:
            self.cut(f"malformed response: {self._unwanted}")
        elif not self._in_head:
            if data[-2:] != b"\r\n":
                self._between_chunks = False  # the size of the next one has begun
            if not response.paused:
                self._deadline.start(self._allowed.idle_s)
            response.progressed()
        elif self._received > MAX_HEAD:
            self.cut(f"malformed response: head larger than {MAX_HEAD} bytes")
        elif len(response.headers) > MAX_HEAD_LINES:
            self.cut(f"malformed response: more than {MAX_HEAD_LINES} header lines")

    def unsplit(self) -> int:
        return 0

    def backlog_changed(self) -> None:
        if not self._is_closing():
            self._read_if_wanted()

    def eof_received(self) -> None:
        # Returning None closes the transport; connection_lost follows and decides whether the end was clean.
        self._pool.exclude(self)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.backlog:  # TLS may tell of the end before all was taken
            self.parse(self.backlog, last=True)
        response = self._response
        if response is not None and exc is None and response.status and _ends_with_connection(response):
            self._response = None
            response.finish()
        self.closed = True
        self._deadline.close()
        reason = describe(exc) if exc is not None else "the upstream closed the connection"
        self.abort(self._truncated(reason, reused=self._used and not self._received))
        self._unsent = self.backlog = _NOTHING
        # It refers to our methods; the cycle would keep us until a garbage collection.
        self._parser = None
        self._pool.remove(self)

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        if self._unsent:
            self._pump()
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # --- Parser callbacks -----------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self.parts += 1
        if self._complete:
            self._unwanted = "more than one response"

    def on_header(self, name: bytes, value: bytes) -> None:
        # Trailers are reported here too, after the head.
        if not self._in_head or self._response is None:
            self.parts += 1
            return
        self._response.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        response, parser = self._response, self._parser
        assert parser is not None, "it calls"
        status = parser.get_status_code()
        if response is not None and len(response.headers) > MAX_HEAD_LINES:
            self._unwanted = f"more than {MAX_HEAD_LINES} header lines"
        if response is None or self._unwanted:
            return
        if status == 101 or status < 100:
            self._unwanted = f"status {status}"
        elif status < 200:
            response.headers.clear()
        elif holds_control(response.headers):
            self._unwanted = MALFORMED
        elif _is_coded(response.headers):
            self._unwanted = "a transfer coding other than chunked"
        else:
            self._in_head = False
            # After a refusal, the rest of the body is useless.
            self._sending = status < 400
            response.set_status(status)
            if self._head_only:
                self.on_message_complete()

    def on_chunk_header(self) -> None:
        self.parts += 1
        self._between_chunks = False

    def on_chunk_complete(self) -> None:
        self._between_chunks = True

    def on_body(self, data: bytes) -> None:
        if self._response is not None and not self._complete:
            self._response.feed(data)

    def on_message_complete(self) -> None:
        if self._in_head or self._parser is None:
            return
        self._complete = True
        # A server that sends the body all the same would have it taken for the next response.
        self._keep = not self._head_only and self._parser.should_keep_alive()

    # --- Exchange -------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        transport = self._open_transport()
        while self._unsent and self._sending and self._writable:
            piece, rest = self._unsent[:SLICE], self._unsent[SLICE:]
            # An empty slice would keep the whole body in memory for as long as the connection is idle.
            self._unsent = rest or _NOTHING
            transport.write(piece)
        self._await_head()

    async def _send(self, body: BodyStream) -> None:
        """Send a body part by part, until the exchange ends or is refused. Its head is waited for from the last one."""
        transport = self._open_transport()
        try:
            async for part in body.parts:
                if not self._sending:
                    return
                if not part:
                    continue
                transport.write(part if body.length is not None else b"%x\r\n%b\r\n" % (len(part), part))
                if not self._writable:
                    self._await_head()
                    self._drained = self._loop.create_future()
                    await self._drained
                if self._in_head:
                    self._deadline.stop()  # the next part is the client's to send
        except UpstreamError as error:
            self.abort(error)
            return
        if body.length is None:
            transport.write(b"0\r\n\r\n")
        self._upload = None
        self._await_head()

    def _await_head(self) -> None:
        if self._in_head:
            self._deadline.start(self._allowed.headers_s)

    def _read_if_wanted(self) -> None:
        """Read on, unless what has come is still to be parsed, or what was parsed to be taken."""
        wanted = not (self.backlog or (self._response is not None and self._response.paused))
        if wanted == self._reading:
            return
        self._reading = wanted
        if wanted:
            self._open_transport().resume_reading()
        else:
            self._open_transport().pause_reading()

    def _release(self, response: NativeResponse) -> None:
        self._response = None
        if response.paused:
            self.resume()
        if self._keep and not (self._unwanted or self._unsent or self._upload):
            self._used = True
            self.idle_since = self._loop.time()
            self._deadline.start(IDLE_AGE_S)
            self._pool.release(self)
        else:
            self.abort()
        response.finish()

    def _expired(self) -> None:
        response = self._response
        if response is None:
            self.abort()
        elif response.status:
            self.abort(UpstreamTimeout(f"no byte of the body for {self._allowed.idle_s:g} s"))
        else:
            self.abort(UpstreamTimeout(f"no response within {self._allowed.headers_s:g} s"))

    def _truncated(self, reason: str, *, reused: bool = False) -> UpstreamError:
        if self._response is not None and self._response.status:
            return Truncated(reason)
        return Disconnected(reason, reused=reused)

    def _is_closing(self) -> bool:
        """Return whether the transport is being closed by either side; uvloop's can't be paused or resumed then."""
        return self.closed or self._open_transport().is_closing()

    def _open_transport(self) -> asyncio.Transport:
        assert self._transport is not None, "connected before use"
        return self._transport


class Pool:
    """Open connections of one upstream.

    The most recently used one is handed out first: it is the least likely to have been closed by the other side, and
    the surplus of a busy minute grows old and is closed.
    """

    def __init__(self, max_idle: int) -> None:
        self.closed = False
        self._max_idle = max_idle
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def take(self, since: float = 0.0) -> Connection | None:
        """Return an open connection that became idle after `since` (by the loop's clock), or None."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.is_usable(surely=since > 0.0):
                connection.abort()
            elif connection.idle_since < since:
                self._idle[connection] = None
                break
            else:
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next request; beyond the limit, close the one that was idle longest."""
        self._idle[connection] = None
        if len(self._idle) > self._max_idle:
            next(iter(self._idle)).abort()

    def add(self, connection: Connection) -> None:
        """Add a connection that is open."""
        self._open.add(connection)
        self._empty.clear()

    def exclude(self, connection: Connection) -> None:
        """Never hand it out again."""
        self._idle.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.exclude(connection)
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def aclose(self) -> None:
        """Close all connections, idle or not, and wait until they are closed."""
        self.closed = True
        for connection in list(self._open):
            connection.cut(CLOSED)
        await self._empty.wait()


def _is_coded(headers: Headers) -> bool:
    """Return whether the body has a transfer coding that nobody asked for: the client would get it undecoded."""
    if b"transfer-encoding" not in dict(headers):
        return False
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    return len(codings) > 1 or codings[0].lower() not in (b"chunked", b"identity")


def _ends_with_connection(response: NativeResponse) -> bool:
    """Return whether the body has no framing of its own (RFC 9112, 6.3)."""
    for name, value in response.headers:
        if name == b"content-length" or (name == b"transfer-encoding" and value.lower().endswith(b"chunked")):
            return False
    return True


def _parser(connection: Connection) -> httptools.HttpResponseParser:
    parser = httptools.HttpResponseParser(connection)
    # Folded header lines are obsolete, not wrong (RFC 9112, 5.2). This accepts control characters too; see above.
    parser.set_dangerous_leniencies(lenient_headers=True)
    return parser
