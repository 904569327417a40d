"""One exchange with the target: a request is sent and its answer read to the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hivemind.lab.loadtest.messages import OutgoingRequest
from hivemind.lab.loadtest.requests import RequestResult
from hivemind.scheduler.types import FailureKind
from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    Truncated,
    Upstream,
    UpstreamError,
    UpstreamResponse,
    UpstreamTimeout,
)

_ERROR_LIMIT = 1 << 20
"""Bytes of an error body that are read."""
_KINDS: tuple[tuple[type[UpstreamError], FailureKind], ...] = (
    (ConnectFailed, FailureKind.CONNECT),
    (Disconnected, FailureKind.DISCONNECTED),
    (UpstreamTimeout, FailureKind.TIMEOUT),
    (Truncated, FailureKind.TRUNCATED),
)


class Exchange:
    """Sends messages to one upstream; `clock` in seconds, `wall` the time of day in seconds since the epoch."""

    def __init__(self, upstream: Upstream, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self._upstream = upstream
        self._clock = clock
        self._wall = wall
        self.last_error = ""
        """The latest transport error, for people."""
        self.answers = 0
        """Requests of which at least a status came back."""

    async def __call__(self, message: OutgoingRequest) -> RequestResult:
        """Send a request and return its result."""
        began = self._clock()
        try:
            response = await self._upstream.send(
                message.method,
                message.target,
                message.headers,
                message.body,
                retry_stale=False,  # a load test counts what it sends
            )
        except UpstreamError as error:
            return RequestResult(None, self._kind(error), None, self._clock() - began, None)
        except ValueError as error:
            self.last_error = f"a recorded request can't be sent: {error}"
            return RequestResult(None, "unsendable", None, self._clock() - began, None)
        self.answers += 1
        try:
            if response.status >= 400:
                return await self._refused(message, response, began)
            return await self._answered(message, response, began)
        finally:
            response.close()

    async def _refused(self, message: OutgoingRequest, response: UpstreamResponse, began: float) -> RequestResult:
        parts: list[bytes] = []
        size = 0
        error = ""
        try:
            while size < _ERROR_LIMIT and (data := await response.read()):
                parts.append(data)
                size += len(data)
        except UpstreamError as broken:
            error = self._kind(broken)
        failure = message.dialect.classify(response.status, response.headers, b"".join(parts), self._wall())
        if failure is not None:
            error = failure.kind.value
        kind = error or FailureKind.CLIENT_ERROR.value
        return RequestResult(response.status, kind, None, self._clock() - began, None)

    async def _answered(self, message: OutgoingRequest, response: UpstreamResponse, began: float) -> RequestResult:
        tap = message.dialect.tap(response.status, response.headers, message.facts)
        state = tap.state
        first_s: float | None = None
        error = ""
        try:
            while data := await response.read():
                for _ in tap.feed(data) or ():
                    await asyncio.sleep(0)
                if first_s is None and state.content_started:
                    first_s = self._clock() - began
            for _ in tap.end() or ():
                await asyncio.sleep(0)
        except UpstreamError as broken:
            error = self._kind(broken)
        if not error and state.error is not None:
            error = state.error.kind.value
        if not error and message.facts.stream and not state.complete:
            error = FailureKind.TRUNCATED.value
        return RequestResult(response.status, error, first_s, self._clock() - began, state.usage)

    def _kind(self, error: UpstreamError) -> str:
        self.last_error = str(error)
        return next(kind.value for made, kind in _KINDS if isinstance(error, made))
