"""uvicorn's protocol with two things more that a proxy needs; under any other server the application does without.

*Departure*: ASGI tells of a client's leaving through `receive()`, which somebody must await all the while: a task more
for every request. This protocol calls back instead, through an object that the application finds in the scope.

*Whole answers*: head and body go out in one write. Written one after the other they cost a second system call, a tenth
of all that a small request costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

EXTENSION = "hivemind.departure"


class Departure:
    """One connection's end, told to whoever serves a request on it."""

    __slots__ = ("_callbacks", "_protocol")

    def __init__(self, protocol: ClientProtocol) -> None:
        self._protocol = protocol
        self._callbacks: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> None:
        """Call back when the connection ends, until :meth:`forget`."""
        self._callbacks.append(callback)
        # A large body leaves reading paused, and then the end would go unnoticed.
        self._protocol.flow.resume_reading()

    def forget(self, callback: Callable[[], None]) -> None:
        self._callbacks.remove(callback)

    def happened(self) -> None:
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
    """uvicorn's HTTP protocol, telling of its end."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        # The task that runs the application hasn't begun yet, and ours only adds a method.
        self.cycle.__class__ = Cycle

    def on_message_begin(self) -> None:
        super().on_message_begin()
        departure = getattr(self, "_departure", None)
        if departure is None:
            departure = self._departure = Departure(self)
        self.scope["extensions"] = {EXTENSION: departure}  # type: ignore[dict-item]

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        departure = getattr(self, "_departure", None)
        if departure is not None:
            departure.happened()


def departure_of(scope: Mapping[str, Any]) -> Departure | None:
    """The connection's, where our own protocol serves it."""
    extensions = scope.get("extensions")
    return extensions.get(EXTENSION) if extensions else None
