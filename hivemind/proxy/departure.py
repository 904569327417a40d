"""uvicorn's protocol with three things more that a proxy needs; under any other server the application does without.

*Departure*: ASGI tells of a client's leaving through `receive()`, which somebody must await all the while: a task more
for every request. This protocol calls back instead, through an object that the application finds in the scope.

*Whole answers*: head and body go out in one write. Written one after the other they cost a second system call, a tenth
of all that a small request costs.

*Upgrades declined*: a client that offers HTTP/2 in clear text, as Java's does by default, or WebSocket, is served in
HTTP/1.1 as if it hadn't (RFC 9110, 7.8). uvicorn would lose the body of its request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

EXTENSION = "hivemind.departure"
LINGER_S = 10.0
"""A client whose answer was cut off, and that takes nothing of what there was, is kept no longer."""


class Departure:
    """One connection's end, told to whoever serves a request on it."""

    __slots__ = ("_callbacks", "_protocol")

    def __init__(self, protocol: ClientProtocol) -> None:
        self._protocol: ClientProtocol | None = protocol
        self._callbacks: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when the connection ends, until :meth:`forget`; at once where it has."""
        self._callbacks.append(callback)
        if self._protocol is None:
            callback()
        else:
            # A large body leaves reading paused, and then the end would go unnoticed.
            self._protocol.flow.resume_reading()

    def forget(self, callback: Callable[[], None]) -> None:
        """Call back no more: nothing more is written for whom this was."""
        self._callbacks.remove(callback)
        if self._protocol is not None:
            self._protocol.see_off()

    def happened(self) -> None:
        """The connection has ended."""
        # Each holds the other; in a circle both, and all of their request, would stay until the collector comes.
        self._protocol = None
        for callback in list(self._callbacks):
            callback()


class Cycle(RequestResponseCycle):
    """uvicorn's request and response, able to write a whole answer at once."""

    def answer(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        """Write a response of which all is there, and complete it. The headers must be those of a parsed response, or
        our own: they aren't looked at again.

        Raises: RuntimeError: something of a response was written already.
        """
        if self.disconnected:
            return
        if self.response_started:
            raise RuntimeError("the response has begun")
        self.response_started = True
        lines = [self._status_line(status)]
        framed = False
        for name, value in headers:
            framed = framed or name == b"content-length"
            self.keep_alive = self.keep_alive and not (name == b"connection" and b"close" in value.lower())
            lines += (name, b": ", value, b"\r\n")
        bodiless = self.scope["method"] == "HEAD" or status in (204, 304)
        if not framed and not bodiless:
            lines.append(b"content-length: %d\r\n" % len(body))
        if not self.keep_alive:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n" if bodiless else b"\r\n" + body)
        self.transport.write(b"".join(lines))
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    @staticmethod
    def _status_line(status: int) -> bytes:
        return STATUS_LINE.get(status) or b"HTTP/1.1 %d \r\n" % status


class ClientProtocol(HttpToolsProtocol):
    """uvicorn's HTTP protocol, telling of its end.

    Its timer for idle connections is set once and looks, when it comes, whether it came too early, rather than set and
    taken back with every request.
    """

    _resting_since: float | None = None
    _last_moment: asyncio.TimerHandle | None = None

    def see_off(self) -> None:
        """The application is done. Where it leaves an answer unfinished, uvicorn closes the connection as soon as the
        client has taken the rest, which one that hangs never does."""
        if self.cycle.response_started and not self.cycle.response_complete:
            self._last_moment = self.loop.call_later(LINGER_S, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        self._resting_since = None
        while data:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
                self.parser = _parser(self)
                continue
            return

    def _head_without_upgrade(self) -> bytes:
        """The head just parsed, less what `connection` names; `upgrade` stays, for the application to see."""
        named = {b"connection"}
        for name, value in self.headers:
            if name == b"connection":
                named.update(token.strip() for token in value.lower().split(b","))
        named.discard(b"upgrade")
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        lines += [name + b": " + value for name, value in self.headers if name not in named]
        return b"\r\n".join([*lines, b"", b""])

    def _upgrades(self) -> bool:
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def on_message_complete(self) -> None:
        if not self._upgrades():
            super().on_message_complete()

    def on_headers_complete(self) -> None:
        if self._upgrades():
            return
        super().on_headers_complete()
        # The task that runs the application hasn't begun yet, and ours only adds a method.
        self.cycle.__class__ = Cycle

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._resting_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_after(self.timeout_keep_alive)

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._resting_since is None or self.transport.is_closing():
            return
        left_s = self._resting_since + self.timeout_keep_alive - self.loop.time()
        if left_s > 0:
            self._look_after(left_s)
        else:
            self.transport.close()

    def _look_after(self, wait_s: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(wait_s, self.timeout_keep_alive_handler)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        departure = getattr(self, "_departure", None)
        if departure is None:
            departure = self._departure = Departure(self)
        self.scope["extensions"] = {EXTENSION: departure}  # type: ignore[dict-item]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        if self._last_moment is not None:
            self._last_moment.cancel()
            self._last_moment = None
        departure = getattr(self, "_departure", None)
        if departure is not None:
            departure.happened()


def _parser(protocol: ClientProtocol) -> httptools.HttpRequestParser:
    parser = httptools.HttpRequestParser(protocol)
    # As uvicorn has it: a request may follow one that asked for the connection to be closed.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


def departure_of(scope: Mapping[str, Any]) -> Departure | None:
    """The connection's, where our own protocol serves it."""
    extensions = scope.get("extensions")
    return extensions.get(EXTENSION) if extensions else None
