"""What a request head must be to be served, beyond what the parser (llhttp in its strict mode) refuses by itself.

Each refusal is one :class:`BadRequest`: a status and a sentence, told to the client in the shape of its API.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain

from hivemind.providers.detect import dialect_for
from hivemind.wire.headers import Headers
from hivemind.wire.identity import address

MAX_HEAD = 64 << 10
"""Bytes of a request head, and of a request's trailers."""
MAX_LINES = 200
"""Header lines of a request, and, counted apart, its trailer lines."""
MAX_TARGET = 16 << 10
"""Bytes of a request target."""
FRAMING = frozenset({b"host", b"connection", b"content-length", b"transfer-encoding", b"expect"})
"""Headers that decide where a message ends, whom it is for and how the connection goes on."""

_LONGEST_SHOWN = 2 << 10
"""A longer target isn't looked up to find the API's form of an error: it is none of a known API."""
_BY_PARSER = {
    "Invalid HTTP version": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here"),
    "Pause on PRI/Upgrade": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here, not HTTP/2"),
}


class BadRequest(Exception):
    """A request that isn't served; its connection is closed after the answer.

    `reason` is the provider-neutral word that dialects put into their errors.
    """

    def __init__(self, status: int, text: str, reason: str = "bad_request", retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    def response(self, target: bytes) -> tuple[Headers, bytes]:
        """Headers and body in the shape of the API that `target`, as far as it has come, belongs to."""
        path = target.partition(b"?")[0] if len(target) <= _LONGEST_SHOWN else b"/"
        dialect = dialect_for(address(path).path if path.startswith(b"/") else "/")
        return dialect.refusal(self.status, self.reason, f"HiveMind: {self}", self.retry_after_s)


def unparsable(why: str) -> BadRequest:
    """The refusal of what the parser can't read, in the parser's words."""
    status, text = _BY_PARSER.get(why, (400, f"the request isn't valid HTTP: {why}"))
    return BadRequest(status, text)


def head_too_large() -> BadRequest:
    return BadRequest(431, f"the request head is larger than {MAX_HEAD >> 10} KiB", "head_too_large")


def too_many_lines() -> BadRequest:
    return BadRequest(431, f"the request has more than {MAX_LINES} header lines", "head_too_large")


def target_too_long() -> BadRequest:
    return BadRequest(414, f"the request target is longer than {MAX_TARGET >> 10} KiB", "target_too_long")


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Bytes of names and values together."""
    return sum(map(len, chain.from_iterable(headers)))


def check(method: bytes, target: bytes, version: str, framing: Headers) -> None:
    """Raise BadRequest unless this is a head that can be understood in one way only.

    `framing` holds the headers named in :data:`FRAMING`, in the order in which they came. A length given twice, a
    length beside a transfer encoding, and one that doesn't end in `chunked` are refused by the parser.
    """
    if version != "1.1" and version != "1.0":
        raise BadRequest(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    hosts = 0
    for name, value in framing:
        if name == b"host":
            hosts += 1
        elif name == b"transfer-encoding":
            if version == "1.0":
                raise BadRequest(400, "HTTP/1.0 has no Transfer-Encoding")
            if value.strip().lower() != b"chunked":
                raise BadRequest(400, "the only Transfer-Encoding understood here is chunked")
    if hosts > 1 or (not hosts and version == "1.1"):
        raise BadRequest(400, "an HTTP/1.1 request has exactly one Host header")
    if not target.startswith(b"/"):
        raise _not_a_path(method, target)
    if b"#" in target:
        raise BadRequest(400, "a request target has no fragment (#)")


def _not_a_path(method: bytes, target: bytes) -> BadRequest:
    if method == b"CONNECT":
        return BadRequest(400, "this proxy opens no tunnels (CONNECT); set it as the client's base URL")
    if b"://" in target:
        text = "this is no forward proxy: set it as the client's base URL, not in HTTP_PROXY"
        return BadRequest(400, text)
    return BadRequest(400, "a request target is a path that begins with /")
