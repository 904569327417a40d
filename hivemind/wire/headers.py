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
"""Headers that no `connection` header can remove: the length and type of a body, and the credentials, or a request
would be counted under one key and sent with another."""


def for_upstream(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return an agent's headers without those of its connection to us, and without our own."""
    return [pair for pair in _end_to_end(headers, _NOT_UPSTREAM) if not pair[0].startswith(OWN)]


def for_client(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the upstream's headers without those of its connection to us."""
    return _end_to_end(headers, HOP_BY_HOP)


def _end_to_end(headers: Iterable[tuple[bytes, bytes]], excluded: frozenset[bytes]) -> Headers:
    """Return the headers without the excluded ones and those that `connection` headers name as hop-by-hop."""
    connection, kept = b"", []
    for pair in headers:
        if pair[0] == b"connection":
            connection = b"%b,%b" % (connection, pair[1]) if connection else pair[1]
        elif pair[0] not in excluded:
            kept.append(pair)
    if not connection or connection in (b"close", b"keep-alive", b"Keep-Alive"):
        return kept
    named = {token.strip() for token in connection.lower().split(b",")} - _END_TO_END
    return [pair for pair in kept if pair[0] not in named]


def without(headers: Headers, *names: bytes) -> Headers:
    """Return the headers except these, named in lower case."""
    return [pair for pair in headers if pair[0] not in names]


def fields(headers: Sequence[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """Return the first value of each header, for looking up several."""
    return dict(reversed(headers))


def value(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """Return the first value of a header."""
    for key, found in headers:
        if key == name:
            return found
    return None
