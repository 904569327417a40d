"""Which headers pass the proxy, in both directions (RFC 9110, 7.6.1): all but the hop-by-hop ones and our own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hivemind.providers.profiles import PROFILES

Headers = list[tuple[bytes, bytes]]

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_UPSTREAM = HOP_BY_HOP | {b"host", b"content-length", b"expect"}
OWN = b"x-hivemind-"
_END_TO_END = frozenset(
    {b"content-encoding", b"content-length", b"content-type", b"cookie"}.union(
        *(profile.auth_headers for profile in PROFILES.values())
    )
)
"""What no `connection` header can take away: where a body ends and what it is, and the credentials, or a request would
count under one key and be sent with another."""


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """What an agent sent, less what is between it and us."""
    kept, named = [], b""
    for pair in headers:
        name = pair[0]
        if name == b"connection":
            named = b"%b,%b" % (named, pair[1]) if named else pair[1]
        elif name not in _NOT_UPSTREAM and not name.startswith(OWN):
            kept.append(pair)
    return _less_named(kept, named)


def for_client(headers: Sequence[tuple[bytes, bytes]]) -> Headers:
    """What the upstream answered, less what is between it and us."""
    named = b""
    kept = []
    for pair in headers:
        if pair[0] == b"connection":
            named = b"%b,%b" % (named, pair[1]) if named else pair[1]
        elif pair[0] not in HOP_BY_HOP:
            kept.append(pair)
    return _less_named(kept, named)


def without(headers: Headers, *names: bytes) -> Headers:
    """The headers but for these, named in lower case."""
    return [pair for pair in headers if pair[0] not in names]


def fields(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """The first value of each header, for looking up several."""
    return dict(reversed(headers))


def value(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The first value of a header."""
    for key, found in headers:
        if key == name:
            return found
    return None


def _less_named(headers: Headers, connection: bytes) -> Headers:
    """Without the headers that the `connection` headers, here in one, name as ending here too."""
    if not connection or connection in (b"close", b"keep-alive", b"Keep-Alive"):
        return headers
    named = {token.strip() for token in connection.lower().split(b",")} - _END_TO_END
    return [pair for pair in headers if pair[0] not in named]
