"""What a request head must be to be served, beyond what the parser (llhttp in its strict mode) refuses by itself.

Each refusal is a :class:`RequestRefused`, after which the connection is closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hivemind.wire.headers import Headers
from hivemind.wire.refusal import RequestRefused
from hivemind.wire.target import parse_path

MAX_HEAD = 64 << 10
"""Bytes of a request head, and of a request's trailers."""
MAX_LINES = 200
"""Header lines of a request, and, counted apart, its trailer lines."""
MAX_TARGET = 16 << 10
"""Bytes of a request target."""
FRAMING = frozenset({b"host", b"connection", b"content-length", b"transfer-encoding", b"expect"})
"""Headers that decide where a message ends, which host it is for and whether the connection persists."""

_LONGEST_SHOWN = 2 << 10
"""A longer target belongs to no known API, so its error needs no API's form."""
_BY_PARSER = {
    "Invalid HTTP version": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here"),
    "Pause on PRI/Upgrade": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here, not HTTP/2"),
}


def api_path(target: bytes) -> str:
    """Return the path that tells which API a target, complete or not, belongs to."""
    path = target.partition(b"?")[0] if len(target) <= _LONGEST_SHOWN else b"/"
    return parse_path(path).path if path.startswith(b"/") else "/"


def unparsable(why: str) -> RequestRefused:
    """Return the refusal of what the parser rejects, in the parser's words."""
    status, text = _BY_PARSER.get(why, (400, f"the request isn't valid HTTP: {why}"))
    return RequestRefused(status, text)


def head_too_large() -> RequestRefused:
    return RequestRefused(431, f"the request head is larger than {MAX_HEAD >> 10} KiB", "head_too_large")


def too_many_lines() -> RequestRefused:
    return RequestRefused(431, f"the request has more than {MAX_LINES} header lines", "head_too_large")


def target_too_long() -> RequestRefused:
    return RequestRefused(414, f"the request target is longer than {MAX_TARGET >> 10} KiB", "target_too_long")


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the bytes of names and values together."""
    return sum(map(len, chain.from_iterable(headers)))


def check(method: bytes, target: bytes, version: str, framing: Headers) -> None:
    """Raise RequestRefused unless this is a head that can be understood in one way only.

    `framing` holds the headers named in :data:`FRAMING`, in the order in which they came. A length given twice, a
    length beside a transfer encoding, and one that doesn't end in `chunked` are refused by the parser.
    """
    if version != "1.1" and version != "1.0":
        raise RequestRefused(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    hosts = 0
    for name, value in framing:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            if version == "1.0":
                raise RequestRefused(400, "HTTP/1.0 has no Transfer-Encoding")
            if value.strip().lower() != b"chunked":
                raise RequestRefused(400, "the only Transfer-Encoding understood here is chunked")
    if hosts > 1 or (not hosts and version == "1.1"):
        raise RequestRefused(400, "an HTTP/1.1 request has exactly one Host header")
    if not target.startswith(b"/"):
        raise _not_a_path(method, target)
    if b"#" in target:
        raise RequestRefused(400, "a request target has no fragment (#)")


def _not_a_path(method: bytes, target: bytes) -> RequestRefused:
    if method == b"CONNECT":
        return RequestRefused(400, "this proxy opens no tunnels (CONNECT); set it as the client's base URL")
    if b"://" in target:
        text = "this is no forward proxy: set it as the client's base URL, not in HTTP_PROXY"
        return RequestRefused(400, text)
    return RequestRefused(400, "a request target is a path that begins with /")
