"""An httpx transport that calls an ASGI application in the same event loop, without sockets and without buffering.

It behaves as a connection does: the body streams with a bounded amount in flight, an application that drops the
connection (:data:`.answer.DROP`) makes the reader fail at that very point, and a reader that closes early ends the
application. Nothing in it reads a clock, so it runs on virtual time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import httpx
from starlette.types import ASGIApp, Message, Scope

from hivemind_mock.provider.answer import DROP
from hivemind_mock.provider.app import MockProvider
from hivemind_mock.provider.config import MockConfig

_HIGH_WATER = 65_536
_EPOCH = 1_800_000_000.0
"""Wall time when virtual time begins."""


class InProcessTransport(httpx.AsyncBaseTransport):
    """Sends every request to one application.

    Raises (from the request or from reading the body): httpx.ReadError after a reset, httpx.RemoteProtocolError where
    the connection ended in good order but too early. What the application itself raises passes through as it is
    until the response has begun; later it closes the connection, as it does under a real server.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        body = b"".join([part async for part in request.stream])
        exchange = _Exchange(body)
        task = asyncio.ensure_future(exchange.run(self._app, _scope(request, exchange)))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        exchange.task = task
        try:
            return await exchange.response()
        except BaseException:
            await exchange.aclose()
            raise

    async def aclose(self) -> None:
        """End every application call that still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def provider_in_loop_time(config: MockConfig) -> MockProvider:
    """Return a provider whose clocks are the running event loop's, which may be virtual."""
    clock = asyncio.get_running_loop().time
    return MockProvider(config, clock=clock, wall=lambda: _EPOCH + clock())


def _scope(request: httpx.Request, exchange: _Exchange) -> Scope:
    raw_path, _, query = request.url.raw_path.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": request.url.scheme,
        "path": request.url.path,
        "raw_path": raw_path,
        "query_string": query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (request.url.host, request.url.port or 80),
        "extensions": {DROP: exchange.drop},
    }


class _Exchange(httpx.AsyncByteStream):
    """One request and its response, between the application's task and the reader's. It is the response's body."""

    def __init__(self, body: bytes) -> None:
        self.task: asyncio.Task[None] | None = None
        self._request: bytes | None = body
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._complete = False
        self._gone = False
        """The connection is over for the application."""
        self._error: BaseException | None = None
        self._changed = asyncio.Event()

    async def run(self, app: ASGIApp, scope: Scope) -> None:
        """Call the application and turn the way it ends into what a reader would see."""
        try:
            await app(scope, self._receive, self._send)
        except Exception as error:
            if self._gone:
                raise
            closed = self._closed()
            closed.__cause__ = error
            self._fail(closed if self._status else error)
        finally:
            if not self._complete:
                self._fail(self._closed())

    def drop(self, reset: bool) -> None:
        """The application ends the connection."""
        self._fail(httpx.ReadError("connection reset by peer") if reset else self._closed())

    async def response(self) -> httpx.Response:
        """Wait for the head."""
        while not self._status:
            if self._error is not None:
                raise self._error
            await self._changed.wait()
        return httpx.Response(self._status, headers=self._headers, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        while True:
            while self._chunks:
                chunk = self._chunks.popleft()
                self._buffered -= len(chunk)
                self._wake()
                yield chunk
            if self._complete:
                return
            if self._error is not None:
                raise self._error
            await self._changed.wait()

    async def aclose(self) -> None:
        """The reader closes the connection; before the body's end that ends the application."""
        self._gone = True
        self._wake()
        if not self._complete and self.task is not None:
            self.task.cancel()

    async def _receive(self) -> Message:
        if self._request is not None:
            body, self._request = self._request, None
            return {"type": "http.request", "body": body, "more_body": False}
        while not (self._gone or self._complete):
            await self._changed.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        while self._buffered > _HIGH_WATER and not self._gone:
            await self._changed.wait()
        if self._gone:
            return
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._headers = list(message.get("headers", ()))
        else:
            if chunk := message.get("body", b""):
                self._chunks.append(chunk)
                self._buffered += len(chunk)
            self._complete = not message.get("more_body", False)
        self._wake()

    def _closed(self) -> httpx.RemoteProtocolError:
        if self._status:
            return httpx.RemoteProtocolError("peer closed connection without sending complete message body")
        return httpx.RemoteProtocolError("Server disconnected without sending a response.")

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            self._error = error
        self._gone = True
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
