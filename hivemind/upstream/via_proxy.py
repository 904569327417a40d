"""Connecting to an upstream through another proxy."""

from __future__ import annotations

import ssl

import httpx

from hivemind.redaction.values import credentials_of_url
from hivemind.upstream.base import Timeouts, Upstream
from hivemind.upstream.origin import Origin, can_exist
from hivemind.upstream.tls import client_context
from hivemind.upstream.transport import TransportUpstream


def upstream_via_proxy(
    origin: Origin, via: str, ca_file: str | None, context: ssl.SSLContext, timeouts: Timeouts, max_idle: int
) -> Upstream:
    """Return a client that connects through the proxy at `via`; `context` is for the upstream behind it.

    Raises: ValueError, in one line that repeats no password.
    """
    transport = httpx.AsyncHTTPTransport(
        proxy=_proxy(via, ca_file),
        verify=context,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_idle),
        retries=0,
    )
    return TransportUpstream(origin, transport, timeouts=timeouts, dials=True, secrets=credentials_of_url(via))


def _proxy(via: str, ca_file: str | None) -> httpx.Proxy:
    shown = "the proxy's URL" if "@" in via else f"proxy {via!r}"
    try:
        url = httpx.URL(via)
        proxy = httpx.Proxy(url, ssl_context=client_context(ca_file) if url.scheme == "https" else None)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"{shown} must be of the form http://, https://, socks5:// or socks5h://host:port") from exc
    if not can_exist(url.raw_host, url.port):
        raise ValueError(f"{shown} names no host and port that could exist")
    return proxy
