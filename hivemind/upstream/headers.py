"""Request heads as they go on the wire, and response heads that can't be passed on."""

from __future__ import annotations

from itertools import chain

from hivemind.upstream.base import Headers

SLICE = 64 * 1024
"""A larger body is written in pieces of this size, as fast as the other side takes them."""
MALFORMED = "a control character in a header"
_ALWAYS_SIZED = frozenset({b"POST", b"PUT", b"PATCH"})
_CONTROLS = bytes({*range(0x20), 0x7F} - {0x09})


def framed(method: bytes, authority: bytes, headers: Headers, body: bytes) -> Headers:
    """Return the headers with `host` before and, where the request needs one, `content-length` after them (RFC 9110,
    8.6)."""
    fields = [(b"host", authority), *headers]
    if body or method in _ALWAYS_SIZED:
        fields.append((b"content-length", b"%d" % len(body)))
    return fields


def encode_head(method: bytes, target: bytes, fields: Headers) -> bytes:
    """Return request line and headers, with the empty line that ends them.

    Raises: ValueError: a part holds a line break, a NUL, or (method and target) a space, and so would be parsed
    differently.
    """
    first = b"%b %b HTTP/1.1" % (method, target)
    head = b"\r\n".join((first, *map(b": ".join, fields), b"", b""))
    lines = len(fields) + 2
    # Counting is an order of magnitude cheaper than checking every header, and as strict.
    if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
        raise ValueError("a request header holds a line break or a NUL")
    if first.count(b" ") != 2:
        raise ValueError("a request's method or target holds a space")
    return head


def holds_control(headers: Headers) -> bool:
    """Return whether a name or value holds a control character other than a tab (RFC 9110, 5.5), which would break the
    head for the client, or the terminal that shows it."""
    text = b"".join(chain.from_iterable(headers))
    return len(text.translate(None, _CONTROLS)) != len(text)
