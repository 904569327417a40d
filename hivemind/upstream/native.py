"""The client on the hot path: asyncio and httptools, uvicorn's own parser.

This side and the clients' (:mod:`hivemind.proxy.server_protocol`) are our own code because every request passes them.
What isn't hot uses libraries: control API and tools are Starlette applications behind the same protocol.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
import ssl
from collections.abc import Sequence

import aiohappyeyeballs
import certifi

from hivemind.upstream.base import (
    BodyStream,
    ConnectFailed,
    Disconnected,
    NotTrusted,
    StartedResponse,
    Timeouts,
    UpstreamRequest,
    UpstreamResponse,
    describe,
    encode_head,
    is_untrusted,
)
from hivemind.upstream.connection import CLOSED, Connection, Pool
from hivemind.upstream.origin import Origin, is_local
from hivemind.upstream.outbox import Outbox
from hivemind.upstream.response import NativeResponse

SURELY_OPEN_S = 2.0
"""A connection that was idle longer isn't used for what can't be sent twice: the shortest keep-alive times of common
servers (Node, uvicorn) are 5 s."""
_SECOND_ADDRESS_S = 0.25
"""Head start of a host's first address over its second, as RFC 8305 recommends."""
_AGAIN_S, _AGAIN_GROWS = 0.02, 1.5
"""A server at home is connected to anew after this time, and then after ever longer ones. One that has more connections
waiting than its backlog holds (mlx_lm.server's is 5) drops further ones, which the system tries again only after a
second, then after two more. Elsewhere a connection may take that long."""
_TURNS = 3
"""Turns of the loop until it surely has seen that a connection stands, after it was held up for longer than that."""
_SILENT_S, _PROBES = 60, 9
"""When the kernel begins to probe a silent connection, and how often it does (Linux's default)."""
_GONE_S = 120
"""An upstream whose machine answers nothing for so long is gone: what hasn't begun to be answered is sent again."""


class NativeUpstream:
    """One origin over TCP or TLS, with kept-alive connections."""

    def __init__(
        self,
        origin: Origin,
        *,
        context: ssl.SSLContext | None,
        timeouts: Timeouts,
        max_idle: int = 256,
        outbox: Outbox | None = None,
    ) -> None:
        """`outbox` gathers the writes of a turn, where there is one."""
        self._origin = origin
        self._is_home = is_local(origin.host)
        self._context = context if origin.tls else None
        self._timeouts = timeouts
        self._pool = Pool(max_idle)
        self._outbox = outbox

    def start(self, request: UpstreamRequest) -> NativeResponse | None:
        head = self._head(request)
        since = 0.0 if request.retry_stale else asyncio.get_running_loop().time() - SURELY_OPEN_S
        connection = self._pool.take(since)
        return None if connection is None else connection.start(request.method, head, request.body, request.silent_s)

    async def send(self, request: UpstreamRequest, started: StartedResponse | None = None) -> UpstreamResponse:
        if request.stream is not None:
            return await self._send_stream(request, request.stream)
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
        response = connection.start(request.method, self._head(request), request.body, request.silent_s)
        await response.head()
        return response

    async def _send_stream(self, request: UpstreamRequest, stream: BodyStream) -> UpstreamResponse:
        open_since = asyncio.get_running_loop().time() - SURELY_OPEN_S
        connection = self._pool.take(open_since) or await self._connect()
        response = connection.start(request.method, self._head(request), b"", request.silent_s)
        connection.stream(stream)
        await response.head()
        return response

    def _head(self, request: UpstreamRequest) -> bytes:
        """Return the head as it goes on the wire. Raises: ValueError."""
        kept = request.encoded
        head = kept.data if kept is not None else b""
        if not head:
            fields = [(b"host", self._origin.authority), *request.headers]
            head = encode_head(request.method, request.target, fields)
            if kept is not None:
                kept.data = head
        framing = request.framing
        return head + b"\r\n" if framing is None else b"%b%b: %b\r\n\r\n" % (head, *framing)

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def _connect(self) -> Connection:
        connection = Connection(asyncio.get_running_loop(), self._pool, self._timeouts, self._outbox)
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
        sock = await self._reach(await _addresses(origin, loop), loop)
        # A server at home that computes may take in nothing meanwhile, so that the rest of a long prompt waits.
        enable_keepalive(sock, _GONE_S, always_read=not self._is_home)
        await loop.create_connection(
            lambda: connection, sock=sock, ssl=self._context, server_hostname=origin.host if origin.tls else None
        )

    async def _reach(
        self, addresses: Sequence[aiohappyeyeballs.AddrInfoType], loop: asyncio.AbstractEventLoop
    ) -> socket.socket:
        """Connect to the first address that answers, at home anew as long as none does."""
        again_s = _AGAIN_S
        while True:
            reaching = aiohappyeyeballs.start_connection(
                addresses,
                happy_eyeballs_delay=again_s / 2 if self._is_home else _SECOND_ADDRESS_S,
                interleave=1,
                loop=loop,
            )
            if not self._is_home:
                return await reaching
            task = loop.create_task(reaching)
            try:
                await asyncio.wait((task,), timeout=again_s)
                for _ in range(_TURNS):
                    if task.done():
                        return task.result()
                    await asyncio.sleep(0)
            except asyncio.CancelledError:
                _give_up(task)
                raise
            _give_up(task)
            again_s *= _AGAIN_GROWS


def _give_up(task: asyncio.Task[socket.socket]) -> None:
    """Cancel a connection that isn't needed any more, or close it if it stands."""
    if not task.cancel() and not task.cancelled() and task.exception() is None:
        task.result().close()


async def _addresses(origin: Origin, loop: asyncio.AbstractEventLoop) -> Sequence[aiohappyeyeballs.AddrInfoType]:
    """Return the origin's addresses. An IP address isn't looked up: that needs a thread, and all may be busy."""
    try:
        scope = getattr(ipaddress.ip_address(origin.host), "scope_id", None)
    except ValueError:
        scope = origin.host
    known = None if scope else aiohappyeyeballs.addr_to_addr_infos((origin.host, origin.port))
    return known or await loop.getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)


def enable_keepalive(sock: socket.socket, gone_s: int, *, always_read: bool = False) -> None:
    """Have the kernel probe a silent connection: routers drop idle ones while a model thinks for minutes,
    and a client that lost its power never closes its own. It is closed once no probe was answered for `gone_s`, and
    with `always_read` no data; else data waits for 15 min on Linux, and for one that is suspended as long as it is."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    values = {"TCP_KEEPIDLE": _SILENT_S, "TCP_KEEPALIVE": _SILENT_S, "TCP_KEEPINTVL": (gone_s - _SILENT_S) // _PROBES}
    for name, value in (values | {"TCP_USER_TIMEOUT": gone_s * 1000} if always_read else values).items():
        option = getattr(socket, name, None)  # Linux and macOS name the first differently, and only Linux has the last
        if option is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, value)


def client_context(ca_file: str | None = None) -> ssl.SSLContext:
    """Return a context that verifies certificate and host name.

    Trusted are the system's authorities and certifi's (some systems have none where OpenSSL looks), or only those that
    `SSL_CERT_FILE` or `SSL_CERT_DIR` name where one is set; and those of `ca_file`, in PEM, in any case.

    Raises: ValueError, where `ca_file` can't be read.
    """
    context = ssl.create_default_context()
    if not (os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")):
        context.load_verify_locations(certifi.where())
    if ca_file is not None:
        try:
            context.load_verify_locations(ca_file)
        except ssl.SSLError as exc:
            raise ValueError(f"CA file {ca_file!r} holds no certificate in PEM form") from exc
        except OSError as exc:
            raise ValueError(f"CA file {ca_file!r} can't be read: {exc.strerror}") from exc
    context.set_alpn_protocols(["http/1.1"])
    return context
