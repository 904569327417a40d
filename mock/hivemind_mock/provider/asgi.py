"""The ASGI vocabulary of the mock, with the one thing ASGI lacks: dropping the connection.

A server that can do it puts a :data:`Drop` into `scope["extensions"][DROP]`. After the call the server reports
`http.disconnect`. Both servers of the mock can: :mod:`.serve` on sockets, :mod:`.inprocess` without.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Drop = Callable[[bool], None]
"""Ends the connection at once: True resets it (RST), False closes it in good order (FIN) with the answer unfinished."""

DROP = "hivemind_mock.drop"


async def read_body(receive: Receive) -> bytes | None:
    """The whole request body; None where the client left before its end."""
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
