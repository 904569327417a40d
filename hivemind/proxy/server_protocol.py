"""The server's side of a client connection, on httptools, with the bounds that a proxy needs; run by uvicorn's server.

*Disconnects*: ASGI reports a client's disconnect through `receive()`, which must be awaited all the while: one more
task for every request. This protocol calls back instead, through the cycle in the scope. Reading is never paused while
a request waits for its answer, because only a reader sees the end of a connection.

*Repeated heads*: a client sends the same head again and again, but for the body's length. One that is equal, byte for
byte, to the last one on the connection isn't parsed again (:class:`KnownHead`).

*Upgrades declined*: a client that offers HTTP/2 in clear text, as Java's does by default, or WebSocket, is served in
HTTP/1.1 as if it hadn't (RFC 9110, 7.8). uvicorn would lose the body of its request.

*Bounds*: heads, trailers, chunk framing and pipelined requests are counted while they come, before the parser has
accumulated them; what takes long to parse is parsed in several turns of the event loop (:class:`InputTurns`); heads,
bodies and the client's reading have deadlines; and what can't be served gets one answer, after which the connection is
closed in a way that lets the client read that answer.
"""

from __future__ import annotations

import asyncio
import logging
import urllib.parse
from collections.abc import Callable
from functools import cached_property
from typing import Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.utils import get_local_addr, get_remote_addr, is_ssl
from uvicorn.server import ServerState

from hivemind.providers.clients import sends_again
from hivemind.proxy.body_budget import BodyBudget
from hivemind.proxy.cycle import EXTENSION, Cycle, status_line
from hivemind.proxy.file_limit import ConnectionLimit, Spare
from hivemind.proxy.known_head import KnownHead
from hivemind.upstream.deadline import Deadline
from hivemind.upstream.input_turns import InputTurns
from hivemind.upstream.outbox import Outbox, OutboxTransport
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
    shared_pair,
    size_of,
    unparsable,
)

_log = logging.getLogger(__name__)

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
"""A connection that was answered before the client had sent everything, or whose answer was truncated, is kept no
longer for the client to take what it was sent."""
LINGER_BYTES = 1 << 20
"""No more than about this is read and discarded meanwhile, of input that makes no sense."""
LINGER_BODY = 256 << 20
"""The same of a body whose request was answered: most SDKs read nothing of the answer before they have sent it all."""
REST_S = 1.0
"""How long a connection is kept of which so much was discarded; its end lets the client's write fail, which reads the
answer then."""
AWAITED_BODY = 256 << 10
"""A request with a shorter body is served once that has come, because many clients send head and body apart; a longer
one is read by the application."""
_OVERHEAD_PER_BYTE = 16
"""Bytes of chunk framing that each byte of a body may come with; as in Go's net/http, more adds to an excess, which is
bounded like a head."""
TINY_CHUNKS = 64 << 10
"""Bytes of a body that may come in chunks of any size."""
SMALLEST_CHUNK = 64
"""Fewest bytes that a chunk of a longer body has on average. Each costs as much as some kilobytes of a larger one."""
_NOTHING = memoryview(b"")
_ASGI = {"version": "3.0", "spec_version": "2.3"}

_IDLE, _HEAD, _BODY, _HELD, _DISCARD, _UNTIMED = range(6)
"""What is being received: nothing, a head, a body, the body after a known head, or data to be discarded."""


class _Flow(FlowControl):
    """Flow control of a connection that isn't read while what has come is still to be parsed."""

    has_backlog = False

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.read_paused = self.write_paused = False

    @cached_property
    def _is_writable_event(self) -> asyncio.Event:  # type: ignore[override]
        return asyncio.Event()  # made when writing is paused, as it is rarely: it takes more than most connections need

    def resume_reading(self) -> None:
        if not self.has_backlog:
            super().resume_reading()


class ClientProtocol(asyncio.Protocol):
    """One client's connection: receives requests one after the other and serves them in that order.

    One timer (:class:`.upstream.deadline.Deadline`) bounds each wait on the client: for a first request, the rest of a
    head, progress of a body, the next request, the end of a connection after its last answer.
    """

    # fmt: off
    __slots__ = (
        "__weakref__", "_ahead", "_awaits_body", "_began_with", "_begins_chunk", "_bodies", "_body_begins",
        "_body_ends", "_body_size", "_chunk", "_deadline", "_ends", "_excess", "_head_size", "_head_slack", "_held",
        "_known", "_left", "_limit", "_parts_before", "_received", "_received_before", "_refusal", "_serve_whole",
        "_serving", "_state", "_timed", "_turns", "_unserved", "_unstarted", "_write_deadline", "app", "backlog",
        "connections", "cycle", "flow", "headers", "loop", "parser", "parts", "pipeline", "server_state", "tasks",
        "timeout_keep_alive", "transport", "url",
    )
    # fmt: on

    _shared_limit = ConnectionLimit()  # for applications without one of their own

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        """As uvicorn makes one for each connection."""
        if not config.loaded:
            config.load()
        self.app = config.loaded_app
        self.loop = _loop or asyncio.get_running_loop()
        self.timeout_keep_alive = config.timeout_keep_alive
        self.server_state = server_state
        self.connections = cast(set[ClientProtocol], server_state.connections)
        self.tasks = server_state.tasks
        self.parser: httptools.HttpRequestParser | None = None
        """While a request comes, and mostly after it."""
        self.transport: asyncio.Transport
        self.flow: _Flow
        self._ends: tuple[object, object]
        """Addresses of the server's and the client's end, as a scope has them."""
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.cycle: Cycle | None = None
        """The newest request."""
        self.pipeline: list[Cycle] = []
        self._deadline = Deadline(self.loop, self._expired)
        self._write_deadline: Deadline | None = None
        self._limit: ConnectionLimit = getattr(self.app, "connection_limit", self._shared_limit)
        self._bodies: BodyBudget | None = getattr(self.app, "body_budget", None)
        self._serve_whole: Callable[[Cycle], bool] | None = getattr(self.app, "serve_whole", None)
        """Serves a request that has come whole without a task, if it can."""
        self._serving: Cycle | None = None
        """The request that is being answered."""
        self._unstarted: Cycle | None = None
        """The same, until it is started."""
        self._awaits_body = False
        """The unstarted request is started once its body has come."""
        self._known: KnownHead | None = None
        self._began_with = b""
        """The data in which the newest request began, if nothing was before it; by which its head becomes known."""
        self._held = b""
        """A known head whose body hasn't come."""
        self._refusal: bytes | None = None
        """Sent after the answers that are due."""
        self._state = _IDLE
        self._timed = _UNTIMED
        """The state that the deadline is for."""
        self._turns = InputTurns.of(self.loop)
        self.backlog = _NOTHING
        self.parts = 0
        self._chunk = 0
        """Length of the data being parsed."""
        self._received = self._received_before = 0
        """Bytes in all, now and when the current window began."""
        self._begins_chunk = False
        self._head_size = self._head_slack = 0
        """Bytes of the head so far, and how many of these may have been the end of the message before it."""
        self._body_size = 0
        """Bytes of all bodies."""
        self._body_begins = self._body_ends = 0
        """The same before and, where its length is stated, after the newest request's body."""
        self._parts_before = 0
        """Parts before it."""
        self._unserved = 0
        """Bytes of bodies that are counted though their requests aren't served yet."""
        self._excess = 0
        self._ahead = 0
        self._left = 0

    # --- Transport callbacks --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)
        outbox: Outbox | None = getattr(self.app, "outbox", None)
        self.transport = transport if outbox is None else OutboxTransport(transport, outbox)
        self.connections.add(self)
        self.flow = _Flow(transport)
        self._ends = get_local_addr(transport), get_remote_addr(transport)
        surplus = self._limit.surplus(len(self.connections), transport)
        if surplus and not self._finds_room(transport, surplus):
            return
        self._limit.begin(self)
        self._time(_IDLE, self.timeout_keep_alive)

    def data_received(self, data: bytes) -> None:
        if self._state >= _HELD:
            if self._state == _DISCARD:
                self._discard(len(data))
                return
            data = self._unheld() + data
        if self._state == _IDLE and not self.backlog:
            if self._known is not None and self._serving is None and self._serve_known(data, self._known):
                return
            self._began_with = data
        self._turns.read(self, data)

    def parse(self, data: bytes | memoryview, *, last: bool = True) -> None:
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
        if self._unserved or self.pipeline or (self._unstarted is not None and self._unstarted.more_body):
            self._count_unserved()
        self._start_if_ready()
        if refusal is None and self._state:
            refusal = self._check_incomplete(size, self._body_size - before)
        if refusal is not None:
            self._refuse(refusal)

    def unsplit(self) -> int:
        return self._body_ends - self._body_size

    def backlog_changed(self) -> None:
        self.flow.has_backlog = bool(self.backlog)
        if self.backlog:
            self.flow.pause_reading()
        elif not (self._is_body_unread() or (self._state == _DISCARD and self._left < 0)):
            self.flow.resume_reading()

    def abort(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        """Start a deadline, or a client that stops reading would hold its slot for ever."""
        self.flow.pause_writing()
        if self._write_deadline is None:
            self._write_deadline = Deadline(self.loop, self._write_stalled)
        self._write_deadline.start(WRITE_STALL_S)

    def resume_writing(self) -> None:
        self.flow.resume_writing()
        if self._write_deadline is not None:
            self._write_deadline.stop()

    def spare(self) -> tuple[Spare, float] | None:
        timed, at = self._timed, self._deadline.at
        if self.transport.is_closing() and timed != _DISCARD:
            return None
        if timed == _IDLE:
            return Spare.UNUSED if self.cycle is None else Spare.KEPT, at - self.timeout_keep_alive
        if timed == _HEAD and self._serving is None:
            return Spare.UNUSED, at - HEAD_S
        if timed == _DISCARD:
            return Spare.ANSWERED, at - LINGER_S
        if timed in (_BODY, _HELD) and not self.flow.read_paused:
            began = at - BODY_WINDOW_S
            if timed == _HELD or self._received - self._received_before < MIN_BODY_RATE * (self.loop.time() - began):
                return Spare.SLOW, began
        return None

    def give_up(self) -> None:
        """End the connection, because there are too many, and this one has been without a complete request the
        longest. Its file is free at once."""
        if self._state == _DISCARD:
            self.transport.abort()
            return
        if self._state != _IDLE:
            text = "too many connections are without a complete request, and this one's came the slowest"
            self._refuse(RequestRefused(408, text, "request_timeout"))
        if self._serving is None:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit.end(self)
        self._deadline.close()
        if self._write_deadline is not None:
            self._write_deadline.close()
        self.backlog = _NOTHING
        serving, self._serving = self._serving, None
        if serving is not None and not serving.response_complete:
            serving.disconnect()
        self.connections.discard(self)
        self.flow.resume_writing()
        self.transport.close()
        # These refer to us; the cycles would keep all until a garbage collection.
        self.parser = None
        self.pipeline.clear()
        self.cycle = self._unstarted = None
        self._count_unserved()

    def shutdown(self) -> None:
        """Close the connection for the server's end, once the current answer is sent."""
        if self._held:
            self.parse(self._unheld())
        if self._serving is None:
            self.transport.close()
        else:
            self._serving.keep_alive = False

    # --- Known heads ----------------------------------------------------------------------------------------------

    def _serve_known(self, data: bytes, known: KnownHead) -> bool:
        """Serve the request that is all of `data`, if its head is the known one; where only its body is missing, hold
        the head. Return False where the parser must read it."""
        found = known.body_in(data)
        if found is None:
            return False
        digits, start, size = found
        if len(data) == start and 0 < size <= AWAITED_BODY:
            self._held, self._state = data, _HELD
            self._limit.begin(self)
            self._time(_HELD, BODY_WINDOW_S)
            return True
        if len(data) - start != size:
            return False
        self._timed = _UNTIMED
        self._deadline.stop()
        self._received += len(data)
        self._ahead = 0
        scope = known.scope_for(digits)
        cycle = Cycle(self, scope, body=data[start:])
        cycle.remembered = known.remembered
        self.cycle = self._serving = cycle
        self._begin(cycle)
        return True

    def _unheld(self) -> bytes:
        """Return the head that was held, to be read with what follows."""
        data, self._held = self._held, b""
        self._state = _IDLE
        self._limit.end(self)
        return data

    def _learn(self, cycle: Cycle) -> None:
        """Remember the head of a request that was served whole, so that equal ones aren't parsed."""
        data, cycle.began_with = cycle.began_with, b""
        if cycle.remembered is not None and cycle.keep_alive and data:
            self._known = KnownHead.of(data, cycle.scope, cycle.remembered)

    # --- Parsing --------------------------------------------------------------------------------------------------

    def _parse(self, data: bytes | memoryview) -> RequestRefused | None:
        while data:
            try:
                self._open_parser().feed_data(data)
            except httptools.HttpParserCallbackError as error:
                cause = error.__context__
                if isinstance(cause, RequestRefused):
                    return cause.with_traceback(None)
                raise
            except httptools.HttpParserError as error:
                refusal = unparsable(data, str(error))
                if refusal.status == 505:  # a client of another protocol can't read that
                    getattr(self.app, "notice", _log.warning)(f"a client was refused: {refusal}")
                return refusal
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = _parser(self)
                continue
            return None
        return None

    def _head_without_upgrade(self) -> bytes:
        """The head just parsed, with `upgrade` no longer an option of the connection; the header of that name stays,
        for the application to see."""
        parser = self._open_parser()
        lines = [parser.get_method() + b" " + self.url + b" HTTP/" + parser.get_http_version().encode()]
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
                self._limit.begin(self)
                self._time(_HEAD, HEAD_S)
            return None
        self._excess = max(0, self._excess + size - _OVERHEAD_PER_BYTE * grown)
        if self._excess > MAX_HEAD:
            return RequestRefused(400, "the body's chunk extensions or trailers are too long")
        body, chunks = self._body_size - self._body_begins, self.parts - self._parts_before
        if TINY_CHUNKS < body < SMALLEST_CHUNK * (chunks - 1):  # the newest may have just begun
            text = f"the body's chunks are too small: send at least {SMALLEST_CHUNK} bytes in each, on average"
            return RequestRefused(400, text)
        if self._timed != _BODY:
            self._limit.begin(self)
            self._time_body()
        return None

    def on_message_begin(self) -> None:
        self.parts += 1
        self.url = b""
        self.headers = []
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
        name = name.lower()
        if self._state == _BODY and name in FRAMING:
            # The parser would take it for one of the head's, and end the connection by it, or the body.
            raise RequestRefused(400, "a trailer says nothing of the message's length, host or connection")
        self.headers.append(shared_pair((name, value)))
        if len(self.headers) > MAX_LINES:
            raise RequestRefused(431, f"the request has more than {MAX_LINES} header lines", "head_too_large")

    def on_headers_complete(self) -> None:
        if self._head_size > MAX_HEAD and self._exact_head_size() > MAX_HEAD:
            raise head_too_large()
        parser = self._open_parser()
        method, version = parser.get_method(), parser.get_http_version()
        framing = [pair for pair in self.headers if pair[0] in FRAMING]
        self.url = check(method, self.url, version, framing)
        if len(self.pipeline) >= MAX_PIPELINED:
            raise _too_far_ahead()
        if parser.should_upgrade():
            return
        raw_path, _, query = self.url.partition(b"?")
        path = raw_path.decode("ascii")
        server, client = self._ends
        scope = {
            "type": "http",
            "asgi": _ASGI,
            "server": server,
            "client": client,
            "scheme": "https" if is_ssl(self.transport) else "http",
            "root_path": "",
            "method": method.decode("ascii"),
            "http_version": version,
            "path": urllib.parse.unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": query,
            "headers": self.headers,
        }
        keeps = version != "1.0" and parser.should_keep_alive() and not sends_again(self.headers)
        self._state = _BODY
        # Trailers come the same way. None may stand in for a header (RFC 9110, 6.5.1), so they go nowhere.
        self.headers = []
        self._excess = -self._chunk  # of which the head, and what came before it, are no part of this body
        length = next((int(value) for name, value in framing if name == b"content-length"), -1)
        self._body_begins, self._parts_before = self._body_size, self.parts
        self._body_ends = self._body_size + max(length, 0)
        waits = version == "1.1" and any(one[0] == b"expect" and one[1].lower() == b"100-continue" for one in framing)
        cycle = self.cycle = Cycle(self, scope, keep_alive=keeps, expects_continue=waits)
        # An equal head that waits to be told to go on must be seen by the parser, which tells it.
        cycle.began_with, self._began_with = b"" if waits else self._began_with, b""
        self._awaits_body = not waits and 0 <= length <= AWAITED_BODY
        if self._serving is None:
            self._serve(cycle)
        else:
            self.pipeline.append(cycle)

    def _open_parser(self) -> httptools.HttpRequestParser:
        if self.parser is None:
            self.parser = _parser(self)
        return self.parser

    def _exact_head_size(self) -> int:
        """Return the size without other messages in the same data; needed only where all together are too long."""
        return len(self.url) + size_of(self.headers) + 4 * len(self.headers)

    def on_chunk_header(self) -> None:
        self.parts += 1

    def on_body(self, body: bytes) -> None:
        self._body_size += len(body)
        cycle = self.cycle
        if cycle is None or cycle.response_complete:
            return
        cycle.add_body(body)
        if len(cycle.body) > HIGH_WATER_LIMIT and self._is_body_unread():
            self.flow.pause_reading()

    def _is_body_unread(self) -> bool:
        """Return whether the application has so much of the body to receive that no more is to be read. It receives
        nothing of a pipelined request, whose size is bounded by MAX_AHEAD, and of one that is awaited."""
        cycle = self.cycle
        if cycle is None or cycle is not self._serving or self._awaits_body:
            return False
        return cycle.more_body and len(cycle.body) > HIGH_WATER_LIMIT

    def on_message_complete(self) -> None:
        if self._open_parser().should_upgrade():
            return
        self._state = _IDLE
        self._limit.end(self)
        if self._timed != _UNTIMED:
            self._timed = _UNTIMED
            self._deadline.stop()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.more_body = False
            cycle.notify()

    # --- The course of requests -----------------------------------------------------------------------------------

    def _serve(self, cycle: Cycle) -> None:
        """Serve a request once all that came with its head is parsed."""
        self._serving = self._unstarted = cycle
        self._ahead = 0

    def _start_if_ready(self) -> None:
        """Start the next request, unless its body is to be awaited."""
        cycle = self._unstarted
        if cycle is None:
            return
        if cycle.more_body and self._awaits_body and cycle is self.cycle:
            if self._bodies is None or not self._bodies.is_exceeded:
                return
            self._awaits_body = False  # the application refuses it
        self._unstarted = None
        if self._unserved:
            self._count_unserved()
        self._begin(cycle)
        self._learn(cycle)

    def _count_unserved(self) -> None:
        """Count what has come of bodies that nobody reads yet: one that is awaited, and those of pipelined requests."""
        size = sum(len(each.body) for each in self.pipeline)
        if self._unstarted is not None:
            size += len(self._unstarted.body)
        if self._bodies is not None:
            self._bodies.used += size - self._unserved
        self._unserved = size

    def _begin(self, cycle: Cycle) -> None:
        if cycle.more_body or self._serve_whole is None or not self._serve_whole(cycle):
            scope = {**cycle.scope, "extensions": {EXTENSION: cycle}}
            cycle.run_in_task(lambda: self.app(scope, cycle.receive, cycle.send))

    def drop_parser(self, *, head: bool = False) -> None:
        if self._state == _IDLE:
            self.parser = None
        if head:
            self._known = None

    def on_response_complete(self) -> None:
        """Serve the next request, or close the connection."""
        self.server_state.total_requests += 1
        done, self._serving = self._serving, None
        if self.transport.is_closing() or done is None:
            return
        if not done.keep_alive:
            self._close(sending=done.more_body or self._state != _IDLE, most=LINGER_BODY)
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        if self.pipeline:
            self._serve(self.pipeline.pop(0))
            self._start_if_ready()
        elif self._refusal is not None:
            self._write_last(self._refusal)
        elif self._state == _IDLE:
            self._timed = _IDLE
            self._deadline.start(self.timeout_keep_alive)

    def close_unfinished(self) -> None:
        """Close, for at most :data:`LINGER_S`: a client that hangs never takes the rest of its answer."""
        self._state, self._left = _DISCARD, LINGER_BYTES
        self._time(_DISCARD, LINGER_S)
        self.transport.close()

    def _refuse(self, refusal: RequestRefused) -> None:
        """Discard all further input; answer the earlier requests, then send this refusal."""
        headers, body = refusal.response(api_path(self.url))
        answer = _whole(refusal.status, headers, body)
        self._state, self._timed = _DISCARD, _UNTIMED
        self._limit.end(self)
        self._deadline.stop()
        serving, newest = self._serving, self.cycle
        if serving is None:
            self._write_last(answer)
        elif serving is newest and serving.more_body:
            # The body of the current request can't be read, so the application sees a disconnect.
            serving.disconnect()
            self._serving = self._unstarted = None
            if serving.response_started:
                self.transport.close()
            else:
                self._write_last(answer)
        else:
            if newest is not None and newest.more_body and self.pipeline:
                self.pipeline.pop()
            self._refusal = answer
            self._left = 0
        self._count_unserved()

    def _finds_room(self, transport: asyncio.Transport, surplus: int) -> bool:
        """Return whether other connections make room for this one; where none does, refuse this one."""
        now = self.loop.time()
        self._limit.log_full(len(self.connections), now)
        made_room = self._limit.make_room(self.connections, surplus, now)
        if self._limit.is_exhausted(transport, made_room=made_room):
            transport.abort()
            return False
        if made_room:
            return True
        text = "too many connections are open; as many as max_connections, or the limit of open files, allows"
        self._refuse(RequestRefused(503, text, "too_many_connections", retry_after_s=5.0))
        return False

    def _write_last(self, answer: bytes) -> None:
        self.transport.write(answer)
        self._close(sending=True, most=LINGER_BYTES)

    def _close(self, *, sending: bool, most: int) -> None:
        """Close. While the client is still `sending`, that would reset the connection, and the client might lose the
        answer, so only our direction is closed at first; the other one is read and discarded for a while, up to `most`
        bytes."""
        if not sending or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._state, self._left = _DISCARD, most
        self.transport.write_eof()
        self.flow.resume_reading()
        self._time(_DISCARD, LINGER_S)

    def _discard(self, size: int) -> None:
        if self._timed != _DISCARD:
            return  # answers are due, and only a reader notices a disconnect
        self._left -= size
        if self._left < 0:
            # Aborted now, a client that is still sending would get a reset, and might lose the answer with it.
            self.flow.pause_reading()
            self._time(_DISCARD, REST_S)

    # --- Time -----------------------------------------------------------------------------------------------------

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
        elif timed == _HELD:
            self.parse(self._unheld())  # which times its body
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
