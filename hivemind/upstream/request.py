"""A request's head as it goes on the wire."""

from __future__ import annotations

from hivemind.upstream.base import Headers

SLICE = 64 * 1024
"""A larger body is written in pieces of this size, as fast as the other side takes them."""
_ALWAYS_SIZED = frozenset({b"POST", b"PUT", b"PATCH"})


def framed(method: bytes, authority: bytes, headers: Headers, body: bytes) -> Headers:
    """The headers with `host` before and `content-length` after them, where the request needs one (RFC 9110, 8.6)."""
    fields = [(b"host", authority), *headers]
    if body or method in _ALWAYS_SIZED:
        fields.append((b"content-length", b"%d" % len(body)))
    return fields


def encode_head(method: bytes, target: bytes, fields: Headers) -> bytes:
    """Request line and headers, with the empty line that ends them.

    Raises: ValueError, where a part holds a line break, a NUL, or (method and target) a space, and so would be read as
    something else than what it is.
    """
    parts = [b"%b %b HTTP/1.1\r\n" % (method, target)]
    parts += [b"%b: %b\r\n" % field for field in fields]
    parts.append(b"\r\n")
    head = b"".join(parts)
    # Counting is an order of magnitude cheaper than looking at every header, and as strict.
    if head.count(b"\n") != len(parts) or head.count(b"\r") != len(parts) or b"\0" in head:
        raise ValueError("a request header holds a line break or a NUL")
    if parts[0].count(b" ") != 2:
        raise ValueError("a request's method or target holds a space")
    return head
