"""Choosing the client for an upstream."""

from __future__ import annotations

import httpx

from .base import Timeouts, Upstream
from .native import NativeUpstream
from .origin import Origin, names_a_place
from .tls import client_context
from .transport import TransportUpstream


def open_upstream(
    url: str,
    *,
    via: str | None = None,
    ca_file: str | None = None,
    timeouts: Timeouts = Timeouts(),  # noqa: B008 - frozen
    transport: httpx.AsyncBaseTransport | None = None,
    max_idle: int = 256,
) -> Upstream:
    """A client for the origin of `url`; its path is left aside. Nothing is connected yet.

    `via` names a proxy to go through (`http`, `https`, `socks5` or `socks5h`, with credentials where it wants some),
    `ca_file` certificates in PEM to trust besides the usual ones. `transport` takes the place of the network. At most
    `max_idle` connections are kept for later requests.

    Raises: ValueError, in one line, for a URL or file that won't do.
    """
    origin = Origin.parse(url)
    if transport is not None:
        return TransportUpstream(origin, transport, timeouts=timeouts, dials=False)
    context = client_context(ca_file) if origin.tls or via is not None or ca_file is not None else None
    if via is None or context is None:
        return NativeUpstream(origin, context=context, timeouts=timeouts, max_idle=max_idle)
    proxied = httpx.AsyncHTTPTransport(
        proxy=_proxy(via, ca_file),
        verify=context,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_idle),
        retries=0,
    )
    return TransportUpstream(origin, proxied, timeouts=timeouts, dials=True)


def _proxy(via: str, ca_file: str | None) -> httpx.Proxy:
    shown = "the proxy's URL" if "@" in via else f"proxy {via!r}"
    try:
        url = httpx.URL(via)
        proxy = httpx.Proxy(url, ssl_context=client_context(ca_file) if url.scheme == "https" else None)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"{shown} must be of the form http://, https://, socks5:// or socks5h://host:port") from exc
    if not names_a_place(url):
        raise ValueError(f"{shown} names no host and port that could exist")
    return proxy
