"""Requests that cost nothing: lists, polls, uploads, downloads. They need no ticket, and pass byte for byte.

They come after the agents' own requests: while the provider asks to wait, polls wait too. A failure is hidden as it is
from other requests, by another attempt, if nothing can be done twice by that: what only looks up or removes is asked
again after any temporary failure, anything else only where it surely wasn't done.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from hivemind.providers.errors import MAX_ERROR_BODY
from hivemind.providers.paths import may_answer
from hivemind.proxy.asgi import Receive
from hivemind.proxy.cycle import AnswerCut
from hivemind.proxy.engine import Engine
from hivemind.proxy.polls import Poll
from hivemind.proxy.reply import LINKS_WITHIN, failure_of_reply, is_json, may_hold_links, nothing_ran, with_links
from hivemind.proxy.response_writer import ResponseWriter
from hivemind.scheduler.admission.retry import MAX_PAUSE_S
from hivemind.scheduler.types import Failure
from hivemind.upstream.base import (
    BodyStream,
    NotTrusted,
    Truncated,
    UpstreamError,
    UpstreamRequest,
    UpstreamResponse,
    UpstreamTimeout,
)
from hivemind.wire.call import Call, CallHead
from hivemind.wire.request_head import for_client

_log = logging.getLogger(__name__)

STREAMED_FROM = 1 << 20
"""A longer body of a request that costs nothing is passed on as it comes, and so can't be sent again."""


def is_streamed(head: CallHead, length: bytes | None) -> bool:
    """Return whether a body that hasn't come whole is passed on as it comes; `length` as stated, None: in chunks."""
    long = length is None or int(length) > STREAMED_FROM
    return head.free and head.method == b"POST" and long and not may_answer(head.path)


def upload(receive: Receive, length: bytes | None) -> BodyStream:
    """Return the body of a request as its client sends it."""

    async def parts() -> AsyncIterator[bytes]:
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Truncated("the client left")
            yield message.get("body", b"")
            more = message.get("more_body", False)

    return BodyStream(parts(), None if length is None else int(length))


class Relay:
    """Serves one call that costs nothing. `wall` is the time in seconds since the epoch; `poll` makes what reads
    beside a reply; `stream` is the body, where it is passed on as it comes."""

    def __init__(
        self,
        call: Call,
        writer: ResponseWriter,
        engine: Engine,
        wall: Callable[[], float],
        poll: Callable[[UpstreamResponse], Poll],
        stream: BodyStream | None = None,
    ) -> None:
        self._call = call
        self._writer = writer
        self._engine = engine
        self._wall = wall
        self._poll = poll
        self._stream = stream
        self._repeatable = call.head.method not in (b"POST", b"PATCH")
        patience_s = call.head.client.patience_s
        deadline_s = engine.retry.deadline_s
        self._until = engine.now() + (deadline_s if patience_s is None else min(patience_s, deadline_s))
        self._failures = 0

    async def run(self) -> None:
        """Send the call, and pass the answer on.

        Raises: AnswerCut: it was truncated, and ends where it is.
        """
        while not await self._attempt():
            pass

    async def _attempt(self) -> bool:
        """Return whether the request is over."""
        await self._await_pause()
        call, head = self._call, self._call.head
        request = UpstreamRequest(
            head.method, head.target, head.headers, call.body, retry_stale=self._repeatable, stream=self._stream
        )
        try:
            response = await head.route.upstream.send(request)
        except UpstreamError as error:
            if await self._again_after(error):
                return False
            status = 504 if isinstance(error, UpstreamTimeout) else 502
            form = head.client.try_again
            headers, body = head.dialect.refusal(status, "upstream_unreachable", f"HiveMind: {error}", None, form)
            await self._writer.answer(status, headers, body)
            return True
        try:
            return await self._answered(response)
        finally:
            response.close()

    async def _answered(self, response: UpstreamResponse) -> bool:
        """Pass an answer on, unless another attempt is to follow. What is short is held, because that may still fail,
        or hold links."""
        links, fails = self._call.head.links, response.status >= 400
        headers = for_client(response.headers, links)
        body = b""
        if fails or (may_hold_links(response.headers) and self._call.head.method != b"HEAD"):
            most = MAX_ERROR_BODY if fails else LINKS_WITHIN
            try:
                while len(body) <= most and (data := await response.read()):
                    body += data
                if len(body) <= most:
                    if fails and await self._again_after_reply(response, body):
                        return False
                    poll = self._poll(response)
                    await poll.read(body)
                    await poll.end()
                    await self._writer.answer(response.status, *with_links(links, headers, body))
                    return True
            except UpstreamError as error:
                if await self._again_after(error):
                    return False
                await self._writer.start(response.status, headers)
                await self._writer.write(body)
                raise AnswerCut(str(error)) from None
        poll = self._poll(response)
        await self._writer.start(response.status, headers)
        document = is_json(response.headers)
        try:
            while data := body or await response.read():
                body = b""
                if document:
                    links.look_in(data)
                await poll.read(data)
                await self._writer.write(data)
        except UpstreamError as error:
            raise AnswerCut(str(error)) from None
        await poll.end()
        await self._writer.finish()
        return True

    # --- Another attempt ------------------------------------------------------------------------------------------

    async def _again_after(self, error: UpstreamError) -> bool:
        """Return whether another attempt is to be made after one without a whole answer, once its time has come."""
        failure = self._call.failure_of(error)
        trusted = not isinstance(error, NotTrusted)
        return (self._repeatable or nothing_ran(failure, None)) and trusted and await self._again(failure)

    async def _again_after_reply(self, response: UpstreamResponse, body: bytes) -> bool:
        """Return the same after an error."""
        failure = failure_of_reply(response, body, self._call.head.route.origin, self._wall())
        may = self._repeatable or nothing_ran(failure, response)
        return may and failure.retryable and await self._again(failure)

    async def _again(self, failure: Failure) -> bool:
        """Wait until another attempt may be made. Return False where that would be too late for the client."""
        self._failures += 1
        delay_s = failure.delay_s or self._engine.backoff_s(self._failures - 1)
        if self._stream is not None or self._failures >= self._engine.retry.max_attempts or delay_s > MAX_PAUSE_S:
            return False
        if not await self._sleep(delay_s):
            return False
        _log.info("asked again after %s: %s", failure.status or failure.kind.value, self._call.head.shown_path)
        return True

    async def _await_pause(self) -> None:
        """Wait while the provider asks the requests of this lane to; what that would make too late is sent at once."""
        while self._repeatable and (left_s := self._engine.paused_s(self._call.head.lane)):
            if not await self._sleep(left_s):
                return

    async def _sleep(self, for_s: float) -> bool:
        """Return whether there was time for it."""
        if self._engine.now() + for_s > self._until:
            return False
        await asyncio.sleep(for_s)
        return True
