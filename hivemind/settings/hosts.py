"""Host names and origins as the settings `allowed_hosts` and `allowed_origins` and the request headers spell them."""

from __future__ import annotations

import ipaddress
import re

ANY = "*"
NULL = "null"
"""A browser's origin of a page without a site, such as a file, and of a sandboxed frame of any site."""

_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*")
_ORIGIN = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<host>\*|\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?P<port>:[0-9]{1,5})?")
LONGEST_SHOWN = 100
"""Characters of a refused name that a message repeats."""
_LONGEST_HOST = 300
"""A name in DNS has at most 255 characters (RFC 1035, 2.3.4), a port 5."""


def host_in(text: str) -> str | None:
    """Return the name or address in a `Host` header, in lower case, without port and brackets; None if invalid.

    Names have the form of DNS and hosts files (RFC 952, and the underscore).
    """
    if len(text) > _LONGEST_HOST:
        return None
    text = text.strip(" \t").lower()
    host, colon, port = text.rpartition(":")
    if not colon or port.endswith("]"):
        host, port = text, ""
    elif port and not (port.isascii() and port.isdecimal() and len(port) <= 5):
        return None
    if host.startswith("[") and host.endswith("]"):
        return _address(host[1:-1])
    host = host.removesuffix(".")
    return host if _NAME.fullmatch(host) else None


def _address(text: str) -> str | None:
    try:
        return str(ipaddress.IPv6Address(text))
    except ValueError:
        return None


def checked_host(text: str) -> str:
    """Return a name of the setting: a host's, `.example.org` (or `*.example.org`) for all below it, or `*` for any.

    Raises: ValueError.
    """
    name = text.strip().lower().removesuffix(".")
    if name == ANY:
        return name
    bare = name.removeprefix("*").removeprefix(".")
    if host_in(bare) != bare or ":" in bare:
        address = _address(bare.removeprefix("[").removesuffix("]"))
        if address is not None and name.startswith(bare):
            return address
        raise ValueError(
            f"has {text.strip()[:LONGEST_SHOWN]!r}, which is no host name; it is one without scheme and port, as in"
            " hive.example.org, or .example.org for all names below it, or * for any"
        )
    return name.removeprefix("*") if name.startswith("*.") else name


def checked_origin(text: str) -> str:
    """Return an origin of the setting: `https://app.example.org`, `vscode-webview://*` (any of that scheme) or `null`.

    Raises: ValueError.
    """
    origin = text.strip().lower().removesuffix("/")
    found = _ORIGIN.fullmatch(origin)
    web = found is not None and found["scheme"] in ("http", "https")
    if origin != NULL and (found is None or (found["host"] == ANY and (web or found["port"]))):
        raise ValueError(
            f"has {text.strip()[:LONGEST_SHOWN]!r}, which is no origin; it is scheme and host, as in"
            " https://app.example.org, a scheme other than http and https with any host, as in vscode-webview://*, or"
            " null for pages without one"
        )
    default = found is not None and found["port"] == {"http": ":80", "https": ":443"}.get(found["scheme"], "")
    return origin.removesuffix(found["port"] or "") if found is not None and default else origin
