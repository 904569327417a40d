"""The flexible path: any httpx transport, such as one through another proxy, or a provider in this process."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Coroutine
from typing import Any, NoReturn

import httpcore
import httpx

from hivemind.redaction.text import concealed
from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    Headers,
    NotTrusted,
    Timeouts,
    Truncated,
    UpstreamError,
    UpstreamResponse,
    UpstreamTimeout,
    again,
)
from hivemind.upstream.describe import describe, is_distrust
from hivemind.upstream.heads import MALFORMED, holds_control
from hivemind.upstream.origin import Origin
from hivemind.upstream.pool import CLOSED
from hivemind.upstream.request import SLICE, encode_head, framed

_UNREACHED = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol),
    *(httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout, httpcore.ProxyError),
    *(httpcore.UnsupportedProtocol, ConnectionRefusedError),
)
_LATE = (httpx.TimeoutException, httpcore.TimeoutException, TimeoutError)
_BROKEN = (
    *(httpx.NetworkError, httpx.ProtocolError, OSError),
    *(httpcore.NetworkError, httpcore.ProtocolError),
)


class TransportUpstream:
    """One origin behind an :class:`httpx.AsyncBaseTransport`, which is closed with it.

    `dials` says that the transport makes connections and asks for a request's body only once one stands, as httpx's own
    does: then the time for connecting is kept here, all handshakes together, and what fails before counts as
    :class:`ConnectFailed` whatever it is called (an upstream proxy that hangs up, say).

    `secrets` are what the transport shows a proxy on its way: that may repeat them in its reasons; no error has them.
    """

    def __init__(
        self,
        origin: Origin,
        transport: httpx.AsyncBaseTransport,
        *,
        timeouts: Timeouts,
        dials: bool,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._origin = origin
        self._secrets = secrets
        self._url = httpx.URL(str(origin))
        self._transport = transport
        self._timeouts = timeouts
        self._dials = dials
        self._closed = False
        self._closing: set[asyncio.Task[None]] = set()

    async def send(
        self, method: bytes, target: bytes, headers: Headers, body: bytes, *, retry_stale: bool = True
    ) -> UpstreamResponse:
        if self._closed:
            raise ConnectFailed(f"{self._origin}: {CLOSED}")
        fields = framed(method, self._origin.authority, headers, body)
        encode_head(method, target, fields)  # Refuses what the native client would.
        request = self._request(method, target, fields)
        try:
            return await self._attempt(request, body)
        except Disconnected as exc:
            if not (exc.reused and retry_stale):
                raise
        return await self._attempt(request, body)

    async def aclose(self) -> None:
        self._closed = True
        await self._transport.aclose()
        await asyncio.gather(*self._closing)

    def describe(self, exc: BaseException) -> str:
        """What happened, in one line without credentials."""
        return concealed(describe(exc), self._secrets) if self._secrets else describe(exc)

    def later(self, closing: Coroutine[Any, Any, None]) -> None:
        """Let it run to its end without waiting for it; :meth:`aclose` does."""
        task = asyncio.get_running_loop().create_task(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def _request(self, method: bytes, target: bytes, fields: Headers) -> httpx.Request:
        try:
            url = _ExactURL(self._url.copy_with(raw_path=target), target)
        except httpx.InvalidURL as exc:
            raise ValueError("a request's target can't be part of a URL") from exc
        # Given a stream, httpx adds no headers of its own.
        request = httpx.Request(method.decode("ascii"), self._url, headers=fields, stream=httpx.ByteStream(b""))
        request.url = url
        # For connecting alone: a transport's read timeout doesn't tell the wait for the head from the one for the body.
        request.extensions["timeout"] = {"connect": self._timeouts.connect_s, "read": None, "write": None, "pool": None}
        return request

    async def _attempt(self, request: httpx.Request, body: bytes) -> UpstreamResponse:
        limit = asyncio.timeout(self._timeouts.connect_s if self._dials else self._timeouts.headers_s)
        course = _Course(body, limit, self._timeouts.headers_s)
        request.stream = course
        request.extensions["trace"] = course.trace
        try:
            async with limit:
                response = await self._transport.handle_async_request(request)
        except (httpx.LocalProtocolError, httpcore.LocalProtocolError) as exc:
            raise ValueError(f"the request can't be written: {self.describe(exc)}") from exc
        except (*_UNREACHED, *_LATE, *_BROKEN) as exc:
            self._drop_connection(course)
            self._explain(exc, course, expired=limit.expired())
        except BaseException:
            self._drop_connection(course)
            raise
        finally:
            course.over = True
        if response.status_code < 200:
            self.later(response.aclose())
            raise Disconnected(f"malformed response: status {response.status_code}")
        answer = TransportResponse(self, response, self._timeouts.idle_s)
        if holds_control(answer.headers):
            answer.close()
            raise Disconnected(f"malformed response: {MALFORMED}")
        return answer

    def _drop_connection(self, course: _Course) -> None:
        """httpcore forgets a connection when it is cancelled during a TLS handshake."""
        if course.connection is not None:
            self.later(course.connection.aclose())

    def _explain(self, exc: Exception, course: _Course, *, expired: bool) -> NoReturn:
        unsent = self._dials and not course.began
        if expired and unsent:
            raise ConnectFailed(f"{self._origin}: no connection within {self._timeouts.connect_s:g} s") from exc
        if unsent or isinstance(exc, _UNREACHED):
            raise (NotTrusted if is_distrust(exc) else ConnectFailed)(f"{self._origin}: {self.describe(exc)}") from exc
        if expired:
            raise UpstreamTimeout(f"no response within {self._timeouts.headers_s:g} s") from exc
        if isinstance(exc, _LATE):
            raise UpstreamTimeout(self.describe(exc)) from exc
        raise Disconnected(self.describe(exc), reused=course.reused) from exc


class TransportResponse:
    """Reads a transport's response piece by piece."""

    def __init__(self, upstream: TransportUpstream, response: httpx.Response, idle_s: float | None) -> None:
        self.status = response.status_code
        self.headers: Headers = [(name.lower(), value) for name, value in response.headers.raw]
        assert isinstance(response.stream, httpx.AsyncByteStream), "from an asynchronous transport"
        self._pieces: AsyncIterator[bytes] = aiter(response.stream)
        self._upstream = upstream
        self._response: httpx.Response | None = response
        self._idle_s = idle_s
        self._error: UpstreamError | None = None

    async def read(self) -> bytes:
        while self._response is not None:
            piece = await self._next(self._response)
            if piece and self._response is not None:
                return piece
        if self._error is not None:
            raise again(self._error)
        return b""

    def close(self) -> None:
        self._drop(Truncated("closed before its end"))

    async def _next(self, response: httpx.Response) -> bytes:
        limit = asyncio.timeout(self._idle_s)
        try:
            async with limit:
                return await anext(self._pieces)
        except StopAsyncIteration:
            self._response = None
            await response.aclose()
        except _LATE as exc:
            reason = f"no byte of the body for {self._idle_s:g} s" if limit.expired() else self._upstream.describe(exc)
            self._drop(UpstreamTimeout(reason))
        except _BROKEN as exc:
            self._drop(Truncated(self._upstream.describe(exc)))
        except BaseException:
            self.close()
            raise
        return b""

    def _drop(self, error: UpstreamError) -> None:
        response, self._response = self._response, None
        if response is not None:
            self._error = error
            self._upstream.later(self._shut(response))

    async def _shut(self, response: httpx.Response) -> None:
        await response.aclose()
        pieces = self._pieces
        if isinstance(pieces, types.AsyncGeneratorType) and not pieces.ag_running:
            await pieces.aclose()


class _ExactURL(httpx.URL):
    """A URL whose path and query go out as they came in: httpx would resolve `..` and quote anew."""

    def __init__(self, url: httpx.URL, target: bytes) -> None:
        super().__init__(url)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target


class _Course(httpx.AsyncByteStream):
    """A request's body, which notices how far the transport has come by when it is asked for."""

    def __init__(self, body: bytes, limit: asyncio.Timeout, headers_s: float | None) -> None:
        self.began = False
        self.over = False
        self._body = body
        self._limit = limit
        self._headers_s = headers_s
        self.connection: httpcore.AsyncNetworkStream | None = None
        """The one that was made for this request, if any."""
        self._traced = False

    @property
    def reused(self) -> bool:
        """Whether it surely went over a connection from before."""
        return self._traced and self.connection is None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.began = True
        self._restart()
        for start in range(0, len(self._body), SLICE):
            yield self._body[start : start + SLICE]
            self._restart()

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """httpcore's `trace` extension: it tells of every step."""
        self._traced = True
        if name.endswith("connect_tcp.complete"):
            self.connection = info["return_value"]

    def _restart(self) -> None:
        """Sending goes on, so the time to the response head begins anew."""
        if not self.over and not self._limit.expired():
            within = self._headers_s
            self._limit.reschedule(None if within is None else asyncio.get_running_loop().time() + within)
