"""The way to an upstream through another proxy."""

from __future__ import annotations

import ssl

import httpx

from hivemind.upstream.origin import names_a_place
from hivemind.upstream.tls import client_context


def proxied_transport(
    via: str, ca_file: str | None, context: ssl.SSLContext, max_idle: int
) -> httpx.AsyncBaseTransport:
    """A transport through the proxy at `via`; `context` is for the upstream behind it.

    Raises: ValueError, in one line that repeats no password.
    """
    return httpx.AsyncHTTPTransport(
        proxy=_proxy(via, ca_file),
        verify=context,
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=max_idle),
        retries=0,
    )


def _proxy(via: str, ca_file: str | None) -> httpx.Proxy:
    shown = "the proxy's URL" if "@" in via else f"proxy {via!r}"
    try:
        url = httpx.URL(via)
        proxy = httpx.Proxy(url, ssl_context=client_context(ca_file) if url.scheme == "https" else None)
    except (httpx.InvalidURL, ValueError) as exc:
        raise ValueError(f"{shown} must be of the form http://, https://, socks5:// or socks5h://host:port") from exc
    if not names_a_place(url.raw_host, url.port):
        raise ValueError(f"{shown} names no host and port that could exist")
    return proxy
