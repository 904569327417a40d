"""The client on the hot path: asyncio and httptools, uvicorn's own parser."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Sequence

import aiohappyeyeballs

from hivemind.upstream.base import (
    ConnectFailed,
    Disconnected,
    NotTrusted,
    StartedResponse,
    Timeouts,
    UpstreamRequest,
    UpstreamResponse,
)
from hivemind.upstream.connection import Connection
from hivemind.upstream.describe import describe, is_untrusted
from hivemind.upstream.headers import encode_head, framed
from hivemind.upstream.origin import Origin
from hivemind.upstream.response import NativeResponse

CLOSED = "the upstream client was closed"
SURELY_OPEN_S = 2.0
"""A connection that was idle longer isn't used for what can't be sent twice: the shortest keep-alive times of common
servers (Node, uvicorn) are 5 s."""
_SECOND_ADDRESS_S = 0.25
"""Head start of a host's first address over its second, as RFC 8305 recommends."""
_KEEPALIVE_IDLE_S = 60


class Pool:
    """Open connections of one upstream.

    The most recently used one is handed out first: it is the least likely to have been closed by the other side, and
    the surplus of a busy minute grows old and is closed.
    """

    def __init__(self, max_idle: int) -> None:
        self.closed = False
        self._max_idle = max_idle
        self._open: set[Connection] = set()
        self._idle: dict[Connection, None] = {}
        self._empty = asyncio.Event()
        self._empty.set()

    def take(self, since: float = 0.0) -> Connection | None:
        """Return an open connection that became idle after `since` (by the loop's clock), or None."""
        while self._idle:
            connection, _ = self._idle.popitem()
            if not connection.is_usable(surely=since > 0.0):
                connection.abort()
            elif connection.idle_since < since:
                self._idle[connection] = None
                break
            else:
                return connection
        return None

    def release(self, connection: Connection) -> None:
        """Keep a connection for the next request; beyond the limit, close the one that was idle longest."""
        self._idle[connection] = None
        if len(self._idle) > self._max_idle:
            next(iter(self._idle)).abort()

    def add(self, connection: Connection) -> None:
        """Add a connection that is open."""
        self._open.add(connection)
        self._empty.clear()

    def exclude(self, connection: Connection) -> None:
        """Never hand it out again."""
        self._idle.pop(connection, None)

    def remove(self, connection: Connection) -> None:
        """Remove a connection that is closed."""
        self.exclude(connection)
        self._open.discard(connection)
        if not self._open:
            self._empty.set()

    async def aclose(self) -> None:
        """Close all connections, idle or not, and wait until they are closed."""
        self.closed = True
        for connection in list(self._open):
            connection.cut(CLOSED)
        await self._empty.wait()


class NativeUpstream:
    """One origin over TCP or TLS, with kept-alive connections."""

    def __init__(
        self, origin: Origin, *, context: ssl.SSLContext | None, timeouts: Timeouts, max_idle: int = 256
    ) -> None:
        self._origin = origin
        self._context = context if origin.tls else None
        self._timeouts = timeouts
        self._pool = Pool(max_idle)

    def start(self, request: UpstreamRequest) -> NativeResponse | None:
        head = self._head(request)
        since = 0.0 if request.retry_stale else asyncio.get_running_loop().time() - SURELY_OPEN_S
        connection = self._pool.take(since)
        return None if connection is None else connection.start(request.method, head, request.body)

    async def send(self, request: UpstreamRequest, started: StartedResponse | None = None) -> UpstreamResponse:
        response = started or self.start(request)
        if response is not None:
            assert isinstance(response, NativeResponse), "started here"
            try:
                await response.head()
            except Disconnected as exc:
                if not (exc.reused and request.retry_stale):
                    raise
            else:
                return response
        connection = await self._connect()
        response = connection.start(request.method, self._head(request), request.body)
        await response.head()
        return response

    def _head(self, request: UpstreamRequest) -> bytes:
        fields = framed(request.method, self._origin.authority, request.headers, request.body)
        return encode_head(request.method, request.target, fields)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _connect(self) -> Connection:
        connection = Connection(asyncio.get_running_loop(), self._pool, self._timeouts)
        limit = asyncio.timeout(self._timeouts.connect_s)
        try:
            async with limit:
                await self._open(connection)
        except (OSError, RuntimeError) as exc:  # uvloop raises RuntimeError for some refusals
            connection.abort()
            reason = f"no connection within {self._timeouts.connect_s:g} s" if limit.expired() else describe(exc)
            raise (NotTrusted if is_untrusted(exc) else ConnectFailed)(f"{self._origin}: {reason}") from exc
        except BaseException:
            connection.abort()
            raise
        if connection.closed:
            raise ConnectFailed(f"{self._origin}: closed before a request was sent")
        if self._pool.closed:
            connection.abort()
            raise ConnectFailed(f"{self._origin}: {CLOSED}")
        self._pool.add(connection)
        return connection

    async def _open(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        origin = self._origin
        sock = await aiohappyeyeballs.start_connection(
            await _addresses(origin, loop), happy_eyeballs_delay=_SECOND_ADDRESS_S, interleave=1, loop=loop
        )
        _enable_keepalive(sock)
        await loop.create_connection(
            lambda: connection, sock=sock, ssl=self._context, server_hostname=origin.host if origin.tls else None
        )


async def _addresses(origin: Origin, loop: asyncio.AbstractEventLoop) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """Return the origin's addresses. An IP address isn't looked up: that needs a thread, and all may be busy."""
    try:
        scope = getattr(ipaddress.ip_address(origin.host), "scope_id", None)
    except ValueError:
        scope = origin.host
    known = None if scope else aiohappyeyeballs.addr_to_addr_infos((origin.host, origin.port))
    return known or await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)


def _enable_keepalive(sock: socket.socket) -> None:
    """Have the kernel probe a silent connection: routers drop idle ones while a model thinks for minutes."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name in ("TCP_KEEPIDLE", "TCP_KEEPALIVE", "TCP_KEEPINTVL"):
        option = getattr(socket, name, None)  # Linux and macOS name the first differently.
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, _KEEPALIVE_IDLE_S)
