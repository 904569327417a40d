"""The interface to the network: send one request upstream, read its answer as it comes.

Two implementations: :mod:`.native` (an asyncio protocol on httptools, the hot path) and :mod:`.transport` (any
:class:`httpx.AsyncBaseTransport`: an upstream HTTP or SOCKS proxy, or the mock in-process under virtual time).

The errors distinguish every ending::

    UpstreamError
     ├── ConnectFailed      never reached the upstream: refused, no route, DNS, TLS, connect timeout
     │    └── NotTrusted    the peer's certificate isn't accepted, or it has none
     ├── Disconnected       sent, but the connection ended before a response head
     ├── UpstreamTimeout    sent, but no head (or no further byte) came in the time allowed
     └── Truncated          the head came; the body ended before its end
"""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from copy import copy
from itertools import chain
from typing import Protocol

from msgspec import Struct

Headers = list[tuple[bytes, bytes]]
_LONGEST = 200
_NO_TLS = "WRONG_VERSION_NUMBER"
"""OpenSSL's reason where what comes isn't TLS."""


class UpstreamError(Exception):
    """An attempt that ended without a whole response. The text is one line for people, free of credentials."""


def raisable(error: UpstreamError) -> UpstreamError:
    """Return a copy of an error that is kept, to be raised.

    A raised error refers to the frames it went through, and so to its keeper and the request's whole body: a cycle that
    would stay until a garbage collection.
    """
    return copy(error)


class ConnectFailed(UpstreamError):
    """The upstream was never reached, so a retry is always safe."""


class NotTrusted(ConnectFailed):
    """The upstream's certificate isn't accepted, or it has none. A retry is safe, but useless until that is fixed."""


class Disconnected(UpstreamError):
    """The connection ended before a response head.

    `reused`: it was a kept-alive connection, which the other side may have closed as we wrote.
    """

    def __init__(self, message: str, *, reused: bool = False) -> None:
        super().__init__(message)
        self.reused = reused


class UpstreamTimeout(UpstreamError):
    """No response head, or no further byte, in the time allowed."""


class Truncated(UpstreamError):
    """The body ended before its framing said so."""


class Timeouts(Struct, frozen=True):
    """Timeouts in seconds; None: wait for ever."""

    connect_s: float | None = 10.0
    """TCP, proxy and TLS handshakes together."""
    headers_s: float | None = 600.0
    """From the last byte sent to the response head."""
    idle_s: float | None = 300.0
    """Between two pieces of the body."""

    def at_least(self, silent_s: float) -> Timeouts:
        """Return the timeouts for a request that may be computed so long without a byte of its answer."""
        if not silent_s:
            return self
        head, idle = (each if each is None else max(each, silent_s) for each in (self.headers_s, self.idle_s))
        return Timeouts(self.connect_s, head, idle)


class UpstreamResponse(Protocol):
    """A response whose head has come. Exactly one of reading to the end or `close()` gives the connection back."""

    status: int
    headers: Headers
    """The headers as received: in order, with duplicates and hop-by-hop ones; names in lower case."""

    async def read(self) -> bytes:
        """Return all body bytes that have come, waiting for at least one; `b""` at the clean end.

        Content encoding is kept; transfer encoding is removed. Between calls, reading from the socket pauses after a
        bounded amount.

        Raises: Truncated, UpstreamTimeout.
        """

    def close(self) -> None:
        """Drop the connection unless the body was read to its end. Never blocks, may be called twice."""


class StartedResponse(UpstreamResponse, Protocol):
    """A response to a request that is being sent, whose head may not have come."""

    @property
    def whole(self) -> bytes | None:
        """The body where all of it has come and nothing of it was read; None otherwise."""

    @property
    def begun(self) -> bytes:
        """The first piece of the body that has come, where nothing of it was read; empty: none has."""

    @property
    def growing(self) -> bool:
        """Whether more of it comes while nobody reads."""

    def watch(self, callback: Callable[[], None] | None) -> None:
        """Call back, outside of the parser, when more of the response has come or it has failed; None: no more."""


class EncodedHead(Struct):
    """Keeps the head of requests that differ in their bodies alone, encoded for one upstream."""

    data: bytes = b""
    """Without the body's length; empty until it is encoded."""


class BodyStream(Struct, frozen=True):
    """A body that is sent as it comes, and so can't be sent again."""

    parts: AsyncIterator[bytes]
    """Raises UpstreamError where it breaks off; then the connection is dropped."""
    length: int | None
    """None: it isn't known, so the body is sent in chunks."""


class UpstreamRequest(Struct):
    """A request for an upstream."""

    method: bytes
    target: bytes
    """The raw path and query as it goes on the wire."""
    headers: Headers
    """Without hop-by-hop ones, `host` and `content-length`, which are added; they go out in the order given."""
    body: bytes = b""
    retry_stale: bool = True
    """Where a kept-alive connection ends with no byte answered, send the request once more on a fresh one. False for
    one that continues state on the server: it may have arrived."""
    encoded: EncodedHead | None = None
    """Where its head is kept once it is encoded, if others repeat it."""
    silent_s: float = 0.0
    """The response head, and each further piece, is waited for at least so long."""
    stream: BodyStream | None = None
    """In place of :attr:`body`; with it, :attr:`retry_stale` is False and :attr:`encoded` None."""

    @property
    def framing(self) -> tuple[bytes, bytes] | None:
        """The header that says where the body ends, where the request needs one (RFC 9110, 8.6)."""
        if self.stream is None:
            length: int | None = len(self.body)
            if not length and self.method not in _ALWAYS_SIZED:
                return None
        else:
            length = self.stream.length
        return (b"transfer-encoding", b"chunked") if length is None else (b"content-length", b"%d" % length)


class Upstream(Protocol):
    """One origin (scheme, host, port), with its pool of connections."""

    def start(self, request: UpstreamRequest) -> StartedResponse | None:
        """Write a request to a connection that is open, without waiting for anything; None where there is none.

        Raises: ValueError, as :meth:`send`.
        """

    async def send(self, request: UpstreamRequest, started: StartedResponse | None = None) -> UpstreamResponse:
        """Send a request and wait for the response head; `started` is what :meth:`start` returned for it, if called.

        Cancelling the call drops the connection.

        Raises: ConnectFailed, Disconnected, UpstreamTimeout; ValueError for a header, method or target that can't be
        written, such as one with a line break.
        """

    async def aclose(self) -> None:
        """Close every connection."""


def describe(exc: BaseException) -> str:
    """Return what happened, in one short line."""
    match exc:
        case ssl.SSLCertVerificationError():
            return f"certificate not accepted: {exc.verify_message}"
        case ssl.SSLError() if exc.reason == _NO_TLS:
            return "TLS failed: what answers speaks none; is its URL http://?"
        case ssl.SSLError():
            # OpenSSL's reasons are constants: `WRONG_VERSION_NUMBER`.
            return f"TLS failed: {one_line(exc.reason or str(exc)).lower().replace('_', ' ')}"
        case socket.gaierror():
            return f"name not resolved: {exc.strerror}"
        case OSError() if exc.errno in (errno.EMFILE, errno.ENFILE):
            return "no file is left for a connection; raise the limit of open files with `ulimit -n`"
        case OSError() if exc.errno:
            return os.strerror(exc.errno).lower()
        case _:
            return one_line(str(exc)) or type(exc).__name__


def is_untrusted(exc: BaseException | None) -> bool:
    """Return whether the root cause is a certificate that wasn't accepted, or plain text where TLS was expected; httpx
    wraps it twice."""
    while exc is not None and not isinstance(exc, ssl.SSLError):
        exc = exc.__cause__ or exc.__context__
    return isinstance(exc, ssl.SSLCertVerificationError) or getattr(exc, "reason", None) == _NO_TLS


def one_line(text: str) -> str:
    """Return the text without line breaks, cut where it gets long."""
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


SLICE = 64 * 1024
"""A larger body is written in pieces of this size, as fast as the other side takes them."""
MALFORMED = "a control character in a header"
_ALWAYS_SIZED = frozenset({b"POST", b"PUT", b"PATCH"})
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})


def encode_head(method: bytes, target: bytes, fields: Headers) -> bytes:
    """Return request line and headers, without the empty line that ends them.

    Raises: ValueError: a part holds a line break, a NUL, or (method and target) a space, and so would be parsed
    differently.
    """
    first = b"%b %b HTTP/1.1" % (method, target)
    head = b"\r\n".join((first, *map(b": ".join, fields), b""))
    lines = len(fields) + 1
    # Counting is an order of magnitude cheaper than checking every header, and as strict.
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise ValueError("a request header holds a line break or a NUL")
    if first.count(b" ") != 2:
        raise ValueError("a request's method or target holds a space")
    return head


def holds_control(headers: Headers) -> bool:
    """Return whether a name or value holds a control character other than a tab (RFC 9110, 5.5), which would break the
    head for the client, or the terminal that shows it."""
    text = b"".join(chain.from_iterable(headers))
    return len(text.translate(None, _CONTROLS)) != len(text)
