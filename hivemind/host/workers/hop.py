"""Requests to the proxy's own pages that another worker got, answered by the first one, which knows of all.

A request is passed on as the ASGI messages that it consists of, and so is its answer.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hivemind.control.guard import failure
from hivemind.host.front import Page
from hivemind.host.workers import frames
from hivemind.proxy.asgi import Receive, Scope, Send
from hivemind.proxy.cycle import AnswerCut
from hivemind.wire.request_head import RequestPath

_SCOPE = ("type", "http_version", "method", "scheme", "path", "raw_path", "query_string", "root_path")
_ENDS = ("client", "server")
"""Addresses of the connection, by which its sender is found."""
_HEALTH = "/_health"
_ABSENT = "the first worker, which answers for all, is being started again; try again in a moment"
_CUT = "the first worker ended within its answer"

App = Callable[[Page, Scope, RequestPath, Receive, Send], Awaitable[object]]


class Hop:
    """Has the first worker answer."""

    def __init__(self, first: Path) -> None:
        self._first = first

    async def serve(self, page: Page, scope: Scope, place: RequestPath, receive: Receive, send: Send) -> bool:
        """Answer a request; False: it is to be answered here, because health doesn't depend on another worker's."""
        try:
            reader, writer = await asyncio.open_unix_connection(self._first)
        except OSError:
            if place.path == _HEALTH:
                return False
            await failure(503, _ABSENT, {"retry-after": "1"})({**scope}, receive, send)
            return True
        try:
            request = {key: scope[key] for key in (*_SCOPE, *_ENDS) if key in scope}
            where = {"path": place.path, "raw_path": place.raw_path, "agent": place.agent}
            writer.write(
                frames.packed({"page": page, "scope": {**request, "headers": scope["headers"]}, "place": where})
            )
            body = asyncio.create_task(_pass_body(receive, writer), name="pass a request on")
            try:
                begun = await _pass_answer(reader, send)
            finally:
                body.cancel()
                await asyncio.wait((body,))
        finally:
            writer.close()
        if begun is None:
            return True
        if begun:
            raise AnswerCut(_CUT)
        if place.path == _HEALTH:
            return False
        await failure(503, _ABSENT, {"retry-after": "1"})({**scope}, receive, send)
        return True

    async def aclose(self) -> None:
        """Nothing is held between two requests."""


async def _pass_body(receive: Receive, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while True:
            message = await receive()
            writer.write(frames.packed(message))
            await writer.drain()
            if message["type"] == "http.disconnect":
                return


async def _pass_answer(reader: asyncio.StreamReader, send: Send) -> bool | None:
    """Pass the answer on; None: it was whole, else whether it had begun."""
    begun = False
    while (message := await frames.receive(reader)) is not None:
        begun = True
        if "headers" in message:
            message["headers"] = [(name, value) for name, value in message["headers"]]
        await send(message)
        if message["type"] == "http.response.body" and not message.get("more_body"):
            return None
    return begun


async def serve_hop(app: App, first: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer a request that came over a :class:`Hop`, of which `first` is the first message."""

    async def receive() -> Any:
        message = await frames.receive(reader)
        return {"type": "http.disconnect"} if message is None else message

    async def send(message: Any) -> None:
        writer.write(frames.packed(message))
        await writer.drain()

    scope, place = first["scope"], first["place"]
    scope["headers"] = [(name, value) for name, value in scope["headers"]]
    scope |= {"asgi": {"version": "3.0"}, **{key: scope.get(key) for key in _ENDS}}
    where = RequestPath(place["path"], place["raw_path"], place["agent"], None, None)
    await app(first["page"], scope, where, receive, send)
