"""Sockets that listen: bound on every address of a host, with one line that says why where that can't be."""

from __future__ import annotations

import errno
import socket
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from hivemind.errors import BindError
from hivemind.text.shells import word
from hivemind.text.table import width, wrapped
from hivemind.upstream.native import enable_keepalive

if TYPE_CHECKING:
    from hivemind.settings import Settings

_UNSENT = 128 << 10
"""Bytes that the system takes for a client before earlier ones are sent; it would take megabytes otherwise."""
BACKLOG = 2048
_CLIENT_GONE_S = 600
"""When a client whose machine answers nothing is gone; a laptop may sleep for less."""


def bind(host: str, port: int) -> list[socket.socket]:
    """Return bound sockets for every address of `host`, all on one port; port 0 picks a free one. Raises: BindError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:
        raise BindError(f"no address to listen on is known for {host}; try --host 127.0.0.1") from None
    sockets: list[socket.socket] = []
    for family, _, _, _, address in dict.fromkeys(found):
        try:
            sockets.append(_bound(family, (address[0], port, *address[2:])))
        except OSError as error:
            if sockets and error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                continue  # a second address of the same name (IPv6 of localhost) that this machine doesn't have
            for bound in sockets:
                bound.close()
            raise BindError(_refusal(error, host, port), in_use=error.errno == errno.EADDRINUSE) from None
        port = sockets[0].getsockname()[1]
    return sockets


def _bound(family: int, address: tuple[Any, ...]) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # named, else asyncio leaves Nagle on
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        enable_keepalive(sock, _CLIENT_GONE_S)  # accepted sockets inherit it
        # Where the system knows it: what a client doesn't read stays with the upstream, not in this machine's memory.
        if (option := getattr(socket, "TCP_NOTSENT_LOWAT", None)) is not None:
            sock.setsockopt(socket.IPPROTO_TCP, option, _UNSENT)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
        # Now rather than when the server starts, because two sockets may share an address until one of them listens.
        sock.listen(BACKLOG)
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def _refusal(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is in use; choose another with --port, or --port 0 for any free one"
            f" (if a HiveMind runs there: hivemind-tui --attach {word('bash', url_of(host, port))})"
        )
    if error.errno == errno.EACCES:
        return f"port {port} on {host} needs more rights than this process has; choose one from 1024 on with --port"
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; try --host 127.0.0.1"
    return f"can't listen on {host} port {port}: {error.strerror}"


def url_of(host: str, port: int) -> str:
    """Return the base URL of a proxy that listens there."""
    return f"http://{shown(host)}:{port}"


def ready_line(address: str, settings: Settings, program: str = "hivemind") -> str:
    """Return the line by which a program says that it serves a proxy with these settings."""
    upstreams = [(origin.name, origin.url) for origin in settings.origins()]
    return f"{program}: ready on {address} -> {targets(upstreams, settings.route())}"


def targets(upstreams: Iterable[tuple[str, str]], route: str) -> str:
    """Return upstreams by name and URL, and what requests go through besides (:meth:`.Settings.route`)."""
    listed = ", ".join(f"{name} {url}" for name, url in upstreams)
    return f"{listed}, {route}" if route else listed


def print_ready(line: str) -> None:
    """Print that line; on a terminal in several, broken between words, else in one for the program that reads it."""
    print("\n".join(wrapped(line, width())) if sys.stdout.isatty() else line, flush=True)


def shown(host: str) -> str:
    """Return a host as it is written in a URL."""
    return f"[{host}]" if ":" in host else host
