"""The types of ASGI, and what a raw application handles itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from io import BytesIO
from typing import Any

Scope = Mapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


async def read_body(receive: Receive, limit: int) -> bytes | None:
    """Return the whole body, or a little more than `limit` of it; None when the client left."""
    message = await receive()
    if message["type"] == "http.disconnect":
        return None
    if not message.get("more_body"):
        return bytes(message.get("body", b""))
    body = BytesIO()  # joining the parts of 64 MiB would block the loop for 50 ms; this returns its own buffer
    body.write(message.get("body", b""))
    while message.get("more_body") and body.tell() <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body.write(message.get("body", b""))
    return body.getvalue()


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
