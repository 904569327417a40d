"""The flexible client: any httpx transport, such as one through another proxy, or a provider in this process."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import types
from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any, NoReturn

import httpcore
import httpx

from hivemind.redaction.text import mask_any_length
from hivemind.redaction.values import credentials_of_url
from hivemind.upstream.base import (
    MALFORMED,
    SLICE,
    ConnectFailed,
    Disconnected,
    Headers,
    NotTrusted,
    StartedResponse,
    Timeouts,
    Truncated,
    Upstream,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTimeout,
    describe,
    encode_head,
    holds_control,
    is_untrusted,
    raisable,
)
from hivemind.upstream.connection import CLOSED
from hivemind.upstream.native import client_context
from hivemind.upstream.origin import Origin, can_exist

_PIECES_A_TURN = 16
"""Pieces of an answer that are read in one turn of the event loop; httpx takes 50 µs for each."""
_NOT_CONNECTED = (
    *(httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError, httpx.UnsupportedProtocol),
    *(httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.PoolTimeout, httpcore.ProxyError),
    *(httpcore.UnsupportedProtocol, ConnectionRefusedError),
)
_TIMEOUTS = (httpx.TimeoutException, httpcore.TimeoutException, TimeoutError)
_BROKEN = (*(httpx.NetworkError, httpx.ProtocolError, OSError), *(httpcore.NetworkError, httpcore.ProtocolError))


class TransportUpstream:
    """One origin behind an :class:`httpx.AsyncBaseTransport`, which is closed with it.

    `dials` says that the transport makes connections and reads a request's body only once one is open, as httpx's own
    does. Then the timeout for connecting covers all handshakes together, and any failure before counts as
    :class:`ConnectFailed` (an outbound proxy that closes the connection, say).

    `secrets` are the credentials for an outbound proxy, which may repeat them in its errors; ours never hold them.
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

    def start(self, request: UpstreamRequest) -> StartedResponse | None:
        return None

    async def send(self, request: UpstreamRequest, started: StartedResponse | None = None) -> UpstreamResponse:
        if self._closed:
            raise ConnectFailed(f"{self._origin}: {CLOSED}")
        framing = request.framing
        fields = [(b"host", self._origin.authority), *request.headers, *([framing] if framing else [])]
        encode_head(request.method, request.target, fields)  # Refuses what the native client would.
        outgoing = self._request(request.method, request.target, fields)
        try:
            return await self._attempt(outgoing, request)
        except Disconnected as exc:
            if not (exc.reused and request.retry_stale):
                raise
        return await self._attempt(outgoing, request)

    async def aclose(self) -> None:
        self._closed = True
        await self._transport.aclose()
        await asyncio.gather(*self._closing)

    def describe(self, exc: BaseException) -> str:
        """Return what happened, in one line without credentials."""
        text = "the connection broke off" if isinstance(exc, _BROKEN) and not str(exc) else describe(exc)
        return mask_any_length(text, self._secrets) if self._secrets else text

    def close_in_background(self, closing: Coroutine[Any, Any, None]) -> None:
        """Run it without waiting for its end; :meth:`aclose` does."""
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
        # For connecting only: a transport's read timeout is the same for head and body.
        request.extensions["timeout"] = {"connect": self._timeouts.connect_s, "read": None, "write": None, "pool": None}
        return request

    async def _attempt(self, request: httpx.Request, asked: UpstreamRequest) -> UpstreamResponse:
        timeouts = self._timeouts.at_least(asked.silent_s)
        headers_s = timeouts.headers_s
        limit = asyncio.timeout(self._timeouts.connect_s if self._dials else headers_s)
        progress = _SendProgress(asked, limit, headers_s)
        request.stream = progress
        request.extensions["trace"] = progress.trace
        try:
            async with limit:
                response = await self._transport.handle_async_request(request)
        except (httpx.LocalProtocolError, httpcore.LocalProtocolError) as exc:
            raise ValueError(f"the request can't be written: {self.describe(exc)}") from exc
        except (*_NOT_CONNECTED, *_TIMEOUTS, *_BROKEN) as exc:
            self._drop_connection(progress)
            self._explain(exc, progress, expired=limit.expired())
        except BaseException:
            self._drop_connection(progress)
            raise
        finally:
            progress.over = True
        if response.status_code < 200:
            self.close_in_background(response.aclose())
            raise Disconnected(f"malformed response: status {response.status_code}")
        answer = TransportResponse(self, response, timeouts.idle_s)
        if holds_control(answer.headers):
            answer.close()
            raise Disconnected(f"malformed response: {MALFORMED}")
        return answer

    def _drop_connection(self, progress: _SendProgress) -> None:
        """Close the request's connection: httpcore leaks it when it is cancelled during a TLS handshake."""
        if progress.connection is not None:
            self.close_in_background(progress.connection.aclose())

    def _explain(self, exc: Exception, progress: _SendProgress, *, expired: bool) -> NoReturn:
        unsent = self._dials and not progress.began
        if expired and unsent:
            raise ConnectFailed(f"{self._origin}: no connection within {self._timeouts.connect_s:g} s") from exc
        if unsent or isinstance(exc, _NOT_CONNECTED):
            raise (NotTrusted if is_untrusted(exc) else ConnectFailed)(f"{self._origin}: {self.describe(exc)}") from exc
        if expired:
            raise UpstreamTimeout(f"no response within {progress.headers_s:g} s") from exc
        if isinstance(exc, _TIMEOUTS):
            raise UpstreamTimeout(self.describe(exc)) from exc
        raise Disconnected(self.describe(exc), reused=progress.reused) from exc


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
        self._pieces_read = 0

    async def read(self) -> bytes:
        while self._response is not None:
            piece = await self._next(self._response)
            self._pieces_read += 1
            if self._pieces_read % _PIECES_A_TURN == 0:
                await asyncio.sleep(0)  # a read of tiny chunks brings thousands of pieces without waiting for one
            if piece and self._response is not None:
                return piece
        if self._error is not None:
            raise raisable(self._error)
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
        except _TIMEOUTS as exc:
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
            self._upstream.close_in_background(self._shut(response))

    async def _shut(self, response: httpx.Response) -> None:
        await response.aclose()
        pieces = self._pieces
        if isinstance(pieces, types.AsyncGeneratorType) and not pieces.ag_running:
            await pieces.aclose()


class _ExactURL(httpx.URL):
    """A URL whose path and query are sent unchanged: httpx would resolve `..` and quote again."""

    def __init__(self, url: httpx.URL, target: bytes) -> None:
        super().__init__(url)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target


class _SendProgress(httpx.AsyncByteStream):
    """A request's body, which tracks how far the transport has come."""

    def __init__(self, request: UpstreamRequest, limit: asyncio.Timeout, headers_s: float | None) -> None:
        self.began = False
        self.over = False
        self._request = request
        self._limit = limit
        self.headers_s = headers_s
        self.connection: httpcore.AsyncNetworkStream | None = None
        """The connection that was opened for this request, if any."""
        self._traced = False

    @property
    def reused(self) -> bool:
        """Whether the request surely went over a kept-alive connection."""
        return self._traced and self.connection is None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        self.began = True
        self._restart()
        body, stream = self._request.body, self._request.stream
        for start in range(0, len(body), SLICE):
            yield body[start : start + SLICE]
            self._restart()
        if stream is not None:
            async for part in stream.parts:
                yield part
                self._restart()

    async def trace(self, name: str, info: dict[str, Any]) -> None:
        """Handle a step of httpcore's `trace` extension."""
        self._traced = True
        if name.endswith("connect_tcp.complete"):
            self.connection = info["return_value"]

    def _restart(self) -> None:
        """Restart the timeout for the response head, because sending goes on."""
        if not self.over and not self._limit.expired():
            within = self.headers_s
            self._limit.reschedule(None if within is None else asyncio.get_running_loop().time() + within)


@contextlib.contextmanager
def connecting() -> Iterator[None]:
    """Raise httpx.ConnectError where anyio asks a socket of uvloop's for its peer that isn't there any more (anyio
    4.16)."""
    try:
        yield
    except AttributeError as error:
        if error.name != "getpeername":
            raise
        raise httpx.ConnectError("the connection was closed as it was made") from None


class _Dialling(httpx.AsyncHTTPTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        with connecting():
            return await super().handle_async_request(request)


def upstream_via_proxy(
    origin: Origin, via: str, ca_file: str | None, context: ssl.SSLContext, timeouts: Timeouts, max_idle: int
) -> Upstream:
    """Return a client that connects through the proxy at `via`; `context` is for the upstream behind it.

    Raises: ValueError, in one line that repeats no password.
    """
    transport = _Dialling(
        proxy=_proxy(via, ca_file),
        verify=context,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_idle),
        retries=0,
    )
    return TransportUpstream(origin, transport, timeouts=timeouts, dials=True, secrets=credentials_of_url(via))


def _proxy(via: str, ca_file: str | None) -> httpx.Proxy:
    shown = "the proxy's URL" if "@" in via else f"proxy {via!r}"
    try:
        url = httpx.URL(via)
        proxy = httpx.Proxy(url, ssl_context=client_context(ca_file) if url.scheme == "https" else None)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"{shown} must be of the form http://, https://, socks5:// or socks5h://host:port") from exc
    if not can_exist(url.raw_host, url.port):
        raise ValueError(f"{shown} names no host and port that could exist")
    return proxy
