"""The types of ASGI, what a raw application handles itself, and long work in steps between other requests."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from io import BytesIO
from typing import Any, TypeVar

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def read_body(receive: Receive, limit: float = math.inf) -> bytes | None:
    """Return the whole body, or a little more than `limit` of it; None when the client left."""
    body = BytesIO()  # joining the parts of 64 MiB would block the loop for 50 ms; this returns its own buffer
    while (message := await receive())["type"] != "http.disconnect":
        body.write(message.get("body", b""))
        if not message.get("more_body") or body.tell() > limit:
            return body.getvalue()
    return None


async def not_http(scope: Scope, receive: Receive, send: Send) -> None:
    """Close a WebSocket; acknowledge lifespan events."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    message: Message = await receive()
    while message["type"] != "lifespan.shutdown":
        await send({"type": "lifespan.startup.complete"})
        message = await receive()
    await send({"type": "lifespan.shutdown.complete"})


T = TypeVar("T")


class StepRunner:
    """Runs long work step by step. Shared, so that a turn of the loop takes no longer however much work there is."""

    def __init__(self) -> None:
        self._lock = asyncio.Lock()  # fair: the longest waiter is next

    async def run(self, work: Generator[None, None, T]) -> T:
        """Do the work, yielding after each step, and return its result. Work of a single step is done at once,
        unless other work waits."""
        if self._lock.locked():
            await self.yield_to_others()
        while True:
            try:
                next(work)
            except StopIteration as done:
                result: T = done.value
                return result
            await self.yield_to_others()

    async def yield_to_others(self) -> None:
        """Let everything else on the loop run first."""
        async with self._lock:
            await asyncio.sleep(0)
