"""One request's connection, with the one thing that ASGI lacks: dropping it.

A server that can do it puts a :data:`Drop` into `scope["extensions"][DROP]`. After the call the server reports
`http.disconnect`. Both servers of the mock can: :mod:`.serve` on sockets, :mod:`.inprocess` without.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
from starlette.types import Receive, Scope, Send

from hivemind_mock.provider.formats.base import Headers

Drop = Callable[[bool], None]
"""Ends the connection at once: True resets it (RST), False closes it in good order (FIN) with the answer unfinished."""

DROP = "hivemind_mock.drop"
_JSON = (b"content-type", b"application/json")


async def read_body(receive: Receive) -> bytes | None:
    """The whole request body; None where the client left before its end."""
    parts = []
    while (message := await receive())["type"] != "http.disconnect":
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)
    return None


class Connection:
    """The client's side of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._drop: Drop | None = scope.get("extensions", {}).get(DROP)
        self._receive = receive
        self._send = send
        self.dropped = False

    async def start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def body(self, data: bytes, *, more: bool = True) -> None:
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def reply(self, status: int, headers: Headers, data: bytes) -> None:
        """Send a whole reply."""
        await self.start(status, [*headers, (b"content-length", b"%d" % len(data))])
        await self.body(data, more=False)

    async def reply_json(self, status: int, body: object, headers: Headers | None = None) -> None:
        await self.reply(status, [_JSON, *(headers or [])], msgspec.json.encode(body))

    def drop(self, *, reset: bool) -> None:
        """End the connection with the reply unfinished. Raises RuntimeError under a server that can't."""
        if self._drop is None:
            raise RuntimeError("this server can't drop connections; use hivemind_mock.provider's serve or inprocess")
        self.dropped = True
        self._drop(reset)

    async def ended(self) -> None:
        """Wait until the connection is gone, or the reply complete."""
        while (await self._receive())["type"] != "http.disconnect":
            pass
