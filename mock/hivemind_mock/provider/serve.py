"""The mock on real sockets: uvicorn's HTTP protocol, taught to drop a connection the hard way."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from hivemind_mock.provider.answer import DROP

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""`struct linger`: on, zero seconds. Closing then sends RST instead of FIN."""


_ACCEPT_ROUNDS = 4
"""Rounds of the loop within which a connection that was just accepted reaches its protocol."""


class DroppingProtocol(HttpToolsProtocol):
    """uvicorn's protocol, which offers every request's application the means to end its connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {DROP: self.drop}  # type: ignore[dict-item]  # ASGI types say dict; servers add more

    def drop(self, reset: bool) -> None:
        """End the connection: with RST, or with FIN once what was written has gone out."""
        if self.transport.is_closing():
            return  # the client was faster, and there may be no socket any more
        if not reset:
            self.transport.close()
            return
        # A second descriptor of the same socket, because uvloop's stand-in for it can't set options.
        held: socket.socket = self.transport.get_extra_info("socket")
        with socket.fromfd(held.fileno(), held.family, socket.SOCK_STREAM) as twin:
            twin.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()


@asynccontextmanager
async def serving(
    app: ASGIApp,
    host: str = "127.0.0.1",
    port: int = 0,
    protocol: type[asyncio.Protocol] = DroppingProtocol,
    *,
    bound: socket.socket | None = None,
) -> AsyncIterator[str]:
    """Serve an application for as long as the context lasts, and give its base URL. `bound` is a socket to listen on in
    place of host and port; it is closed at the end.

    No signal handlers, no logging set-up, no lifespan; leaving ends open connections at once.
    Raises OSError where the address can't be bound.
    """
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        timeout_keep_alive=75,
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    where: dict[str, Any] = {"host": host, "port": port} if bound is None else {"sock": bound}
    make = cast(Callable[..., asyncio.Protocol], protocol)
    server = await loop.create_server(lambda: make(config, state, {}, loop), **where)
    try:
        address = server.sockets[0].getsockname()
        yield f"http://[{address[0]}]:{address[1]}" if ":" in address[0] else f"http://{address[0]}:{address[1]}"
    finally:
        # Connections that were just accepted must reach their protocol before the server closes: asyncio loses the
        # others without closing them (python/cpython#109564).
        for listener in server.sockets:
            loop.remove_reader(listener.fileno())
        for _ in range(_ACCEPT_ROUNDS):
            await asyncio.sleep(0)
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        for task in list(state.tasks):
            task.cancel()
        if state.tasks:
            await asyncio.wait(list(state.tasks))
        await server.wait_closed()
