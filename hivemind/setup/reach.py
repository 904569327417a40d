"""Where a URL can be reached from."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def local_url(host: str, port: int) -> str:
    """Where a proxy that listens there is found by an agent on the same machine."""
    host = host.removeprefix("[").removesuffix("]")
    return connectable(f"http://{f'[{host}]' if ':' in host else host}:{port}")


def is_loopback(url: str) -> bool:
    """Whether it is this machine's own."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def is_public(url: str) -> bool:
    """Whether a server on the internet might reach it, over TLS."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        reachable = ipaddress.ip_address(host).is_global
    except ValueError:
        reachable = "." in host and not host.endswith((".local", ".localhost", ".internal", ".lan", ".home.arpa"))
    return parts.scheme == "https" and reachable


def connectable(url: str) -> str:
    """The URL of a server on this machine as a client uses it: one that listens on every address is reached on one."""
    for everywhere, one in (("//0.0.0.0", "//127.0.0.1"), ("//[::]", "//[::1]")):
        url = url.replace(everywhere, one, 1)
    return url
