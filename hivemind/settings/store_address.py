"""The address of the fleet's store, as the setting `fleet` spells it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qs, unquote, urlsplit

EXAMPLE = "redis://127.0.0.1:6379"
DEFAULT_PORT = 6379
_SCHEMES = {"redis": False, "rediss": True, "valkey": False, "valkeys": True, "unix": False}
"""Whether a scheme means TLS."""
_ALLOWED = "redis://, rediss://, valkey://, valkeys:// or unix://"
_MOST_DATABASE = 1_000_000


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """The store's address and the credentials for it."""

    host: str
    """Empty: a unix socket."""
    port: int
    path: str
    """Of the unix socket; else empty."""
    tls: bool
    database: int
    user: str | None = field(repr=False)
    password: str | None = field(repr=False)
    shown: str
    """The URL without user and password, for messages."""


def store_address(url: str) -> StoreAddress:
    """Read a store's URL. Raises: ValueError: it can't be one; the text repeats nothing of it."""
    if not url.isprintable() or " " in url:
        raise ValueError(f"must be a URL without spaces, as {EXAMPLE}")
    try:
        parts = urlsplit(url)
        scheme, port = parts.scheme.lower(), parts.port
    except ValueError:
        raise ValueError(f"must be a URL, as {EXAMPLE}; special characters in a password are written as %40") from None
    if scheme not in _SCHEMES:
        raise ValueError(f"must be a store's URL: {_ALLOWED}, as {EXAMPLE}")
    if parts.fragment or "#" in url:
        raise ValueError("must have no #; in a password it is written as %23")
    user = unquote(parts.username) if parts.username else None
    password = unquote(parts.password) if parts.password else None
    if scheme == "unix":
        if not parts.path.startswith("/") or parts.hostname:
            raise ValueError("must name the socket by its whole path, as unix:///run/redis/redis.sock")
        database, path = _queried(parts), unquote(parts.path)
        return StoreAddress("", 0, path, False, database, user, password, f"unix://{path}{_suffix(database, '?db=')}")
    if not parts.hostname or port == 0:
        raise ValueError(f"must name a host, as {EXAMPLE}")
    database = _numbered(parts.path.strip("/")) if parts.path.strip("/") else _queried(parts)
    host, port = parts.hostname, port or DEFAULT_PORT
    named = f"[{host}]" if ":" in host else host
    shown = f"{scheme}://{named}:{port}{_suffix(database, '/')}"
    return StoreAddress(host, port, "", _SCHEMES[scheme], database, user, password, shown)


def _queried(parts: SplitResult) -> int:
    """Return the database that the query names, as redis-py and redis-cli write it for unix sockets."""
    try:
        query = parse_qs(parts.query, strict_parsing=True, keep_blank_values=True) if parts.query else {}
    except ValueError:
        query = {"": []}
    if query.keys() - {"db"} or len(query.get("db", ())) > 1:
        raise ValueError("may have no query but ?db=NUMBER; a ? in a password is written as %3F")
    return _numbered(query["db"][0]) if query else 0


def _numbered(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,7}", text) or int(text) > _MOST_DATABASE:
        raise ValueError(f"must name the database by its number, as {EXAMPLE}/0")
    return int(text)


def _suffix(database: int, before: str) -> str:
    return f"{before}{database}" if database else ""
