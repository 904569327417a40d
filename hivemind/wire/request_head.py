"""The head of a request: HiveMind's prefixes of its path, what is refused as ambiguous, and which headers pass.

The parser (llhttp in its strict mode) refuses more by itself. Each refusal is a :class:`RequestRefused`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from urllib.parse import unquote, unquote_to_bytes

from msgspec import Struct

from hivemind.agent_names import LONGEST
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.paths import dialect_for
from hivemind.providers.profiles import PROFILES
from hivemind.redaction.forms import text_finder
from hivemind.wire.links import LINK_HEADERS, Links

Headers = list[tuple[bytes, bytes]]

ALLOW = (b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS")
"""The methods that upstreams are asked with."""


class RequestRefused(Exception):
    """A request that isn't served; the text is for the client.

    `reason` is the provider-neutral word that dialects put into their errors.
    """

    def __init__(self, status: int, text: str, reason: str = "bad_request", retry_after_s: float | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s

    def response(self, path: str, form: TryAgain = UNKNOWN) -> tuple[Headers, bytes]:
        """Return headers and body in the shape of the API that the path belongs to, for a client of that form."""
        text = f"HiveMind: {self}"
        headers, body = dialect_for(path).refusal(self.status, self.reason, text, self.retry_after_s, form)
        return [*headers, ALLOW] if self.status == 405 else headers, body


# --- The path ---------------------------------------------------------------------------------------------------------

MOST_NAME_BYTES = 12 * LONGEST + 1
"""Bytes of a raw name that are read: each character has four bytes at most, each of them percent-encoded, and one more
makes it too long."""
HOLD = b"hold-answers"
_PREFIXES = (b"/agent/", b"/upstream/", b"/to/", b"/token/", b"/%b/" % HOLD)
_SHORT = {b"to": b"upstream"}
_SPLIT = "the path must not hold what looks like a key with an empty segment (//) in it"
_PARAMETERS = re.compile(r";[^/]*")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_DOTS = re.compile(r"/\.{1,2}(?:[/;]|$)")


class RequestPath(Struct, frozen=True):
    """A request's path, parsed."""

    path: str
    """Without our prefixes, decoded, and without parameters (`;x=1`): the path by which an upstream routes."""
    raw_path: bytes
    """The path as it goes upstream: as it came, but for our prefixes and empty segments (`//`)."""
    agent: str | None
    upstream: str | None
    token: str | None
    holds: bool = False
    """Its answer is to be held until it is whole."""
    prefix: bytes = b""
    """Our prefixes as they came, which lead to the same upstream, agent and run again."""
    flaw: str = ""
    """Why it is refused: servers interpret such a path differently. Empty where it is fine."""


def parse_path(raw_path: bytes) -> RequestPath:
    """Strip `/upstream/<name>` (or `/to/<name>`), `/agent/<name>`, `/token/<token>` and `/hold-answers`, in any order,
    from the front of a path."""
    found: dict[bytes, str] = {}
    flaw, prefix, holds = "", b"", False
    rest = _one_slash(raw_path)
    while rest.startswith(_PREFIXES):
        head, _, tail = rest[1:].partition(b"/")
        if head == HOLD:
            holds, rest = True, _one_slash(b"/" + tail)
            continue
        kind = _SHORT.get(head, head)
        if kind in found:
            break
        name, slash, after = tail.partition(b"/")
        if not name:
            # Passed on as a path of the upstream's, or without the slash, the next segment would become the name.
            flaw = "" if tail in (b"", b"/") else f"/{head.decode()}/ must be followed by a name"
            break
        found[kind] = decoded(name if kind != b"agent" else name[:MOST_NAME_BYTES])
        prefix += b"/%b/%b" % (head, name)
        rest = _one_slash(slash + after) or b"/"
    while b"//" in rest:
        rest = rest.replace(b"//", b"/")
    path = decoded(rest)
    return RequestPath(
        path=_PARAMETERS.sub("", path) if ";" in path else path,
        raw_path=rest,
        agent=found.get(b"agent"),
        upstream=found.get(b"upstream"),
        token=found.get(b"token"),
        holds=holds,
        prefix=prefix,
        flaw=flaw or _flaw(path) or (_SPLIT if b"//" in raw_path and _splits_key(raw_path) else ""),
    )


def _splits_key(raw_path: bytes) -> bool:
    """Return whether a key has an empty segment in it, without which the rest of it isn't recognised as one."""
    text, finder = raw_path.decode("latin-1"), text_finder()
    spans = map(finder.span, finder.pattern.finditer(text))
    return any("//" in text[start:end].lstrip("/") for start, end in spans)


def decoded(raw: bytes) -> str:
    """Return a path or header value as text, percent-decoded where it is encoded."""
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


def _one_slash(path: bytes) -> bytes:
    """Return the path, several slashes at its beginning replaced by one."""
    return b"/" + path.lstrip(b"/") if path.startswith(b"//") else path


def _flaw(path: str) -> str:
    """Return why a decoded path is refused; empty where it isn't.

    Servers differ in how they resolve such a path, so it might be served as another one than was scheduled, or leave
    the upstream's base path. Clients resolve dots themselves (RFC 3986, 5.2.4), so no known client sends them.
    """
    if not path.startswith("/"):
        return "the path must begin with a slash"
    if "\\" in path:
        return "the path must not hold a backslash"
    if not path.isprintable() and _CONTROLS.search(path):
        return "the path must not hold control characters"
    # What is left of percent-encoding was encoded twice.
    if _DOTS.search(path) or ("%" in path and _DOTS.search(unquote(path))):
        return "the path must not hold segments of dots (. or ..), in any encoding; send it resolved"
    return ""


# --- What a head must be ----------------------------------------------------------------------------------------------

MAX_HEAD = 64 << 10
"""Bytes of a request head, and of a request's trailers."""
MAX_LINES = 200
"""Header lines of a request, and, counted apart, its trailer lines."""
MAX_TARGET = 16 << 10
"""Bytes of a request target."""
FRAMING = frozenset({b"host", b"connection", b"content-length", b"transfer-encoding", b"expect"})
"""Headers that decide where a message ends, which host it is for and whether the connection persists."""

_NOT_SERVED = frozenset(
    b"CONNECT TRACE SOURCE ANNOUNCE DESCRIBE FLUSH GET_PARAMETER PAUSE PLAY RECORD REDIRECT SET_PARAMETER SETUP"
    b" TEARDOWN".split()
)
"""Methods that would open a tunnel or give away a request's headers, and those of RTSP and ICE, which the parser takes
for HTTP."""
_LONGEST_SHOWN = 2 << 10
"""A longer target belongs to no known API, so its error needs no API's form."""
_TLS = b"\x16\x03"
"""How a client begins that speaks TLS (RFC 8446, 5.1)."""
_BY_PARSER = {
    "Invalid HTTP version": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here"),
    "Pause on PRI/Upgrade": (505, "only HTTP/1.1 and HTTP/1.0 are spoken here, not HTTP/2"),
    "TLS": (505, "HTTP is spoken here, not TLS: the client must be pointed at http://, not at https://"),
}


def api_path(target: bytes) -> str:
    """Return the path of a target, complete or not, by which its API is recognised."""
    path = target.partition(b"?")[0] if len(target) <= _LONGEST_SHOWN else b"/"
    return parse_path(path).path if path.startswith(b"/") else "/"


def unparsable(data: bytes | memoryview, why: str) -> RequestRefused:
    """Return the refusal of data that the parser rejects, in the parser's words."""
    why = "TLS" if data[:2] == _TLS else why
    status, text = _BY_PARSER.get(why, (400, f"the request isn't valid HTTP: {why}"))
    return RequestRefused(status, text)


def head_too_large() -> RequestRefused:
    return RequestRefused(431, f"the request head is larger than {MAX_HEAD >> 10} KiB", "head_too_large")


def size_of(headers: Iterable[tuple[bytes, bytes]]) -> int:
    """Return the bytes of names and values together."""
    return sum(map(len, chain.from_iterable(headers)))


def check(method: bytes, target: bytes, version: str, framing: Headers) -> bytes:
    """Raise RequestRefused unless this is a head that can be understood in one way only. Return its target as a path,
    or `*` (RFC 9112, 3.2).

    `framing` holds the headers named in :data:`FRAMING`, in the order in which they came. A length given twice, a
    length beside a transfer encoding, and one that doesn't end in `chunked` are refused by the parser.
    """
    if version != "1.1" and version != "1.0":
        raise RequestRefused(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    hosts = 0
    host = b""
    for name, value in framing:
        if name == b"host":
            hosts += 1
            host = value
        elif name == b"transfer-encoding":
            if version == "1.0":
                raise RequestRefused(400, "HTTP/1.0 has no Transfer-Encoding")
            if value.strip().lower() != b"chunked":
                raise RequestRefused(400, "the only Transfer-Encoding understood here is chunked")
        elif name == b"expect" and version == "1.1" and value.strip().lower() not in (b"", b"100-continue"):
            raise RequestRefused(417, "the only expectation met here is 100-continue (Expect)")
    if hosts > 1 or (not hosts and version == "1.1"):
        raise RequestRefused(400, "an HTTP/1.1 request has exactly one Host header")
    if method in _NOT_SERVED:
        text = f"{method.decode()} isn't served here; set this proxy as the client's base URL, not in HTTP_PROXY"
        raise RequestRefused(405, text, "method_not_allowed")
    if not target.startswith(b"/") and (target != b"*" or method != b"OPTIONS"):
        target = _path_of(target, host)
    if b"#" in target:
        raise RequestRefused(400, "a request target has no fragment (#)")
    return target


def _path_of(target: bytes, host: bytes) -> bytes:
    """Return the path of a target that is a URL of this proxy's, as its `Host` header has it."""
    scheme, separator, rest = target.partition(b"://")
    if not separator:
        raise RequestRefused(400, "a request target is a path that begins with /")
    path = rest[len(host) :]
    own = host and rest[: len(host)].lower() == host.lower() and path[:1] in (b"", b"/", b"?")
    if scheme.lower() != b"http" or not own:
        raise RequestRefused(400, "this is no forward proxy: set it as the client's base URL, not in HTTP_PROXY")
    return path if path.startswith(b"/") else b"/" + path


# --- Which headers pass the proxy, in both directions -----------------------------------------------------------------

# RFC 9110, 7.6.1: all but the hop-by-hop ones and our own.

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding"
    b" upgrade".split()
)
_NOT_CLIENT = HOP_BY_HOP | LINK_HEADERS
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


def for_client(headers: Iterable[tuple[bytes, bytes]], links: Links) -> Headers:
    """Return the upstream's headers without those of its connection to us, and with links that lead through us."""
    return _end_to_end(headers, _NOT_CLIENT, links)


def _end_to_end(
    headers: Iterable[tuple[bytes, bytes]], excluded: frozenset[bytes], links: Links | None = None
) -> Headers:
    """Return the headers without the excluded ones and those that `connection` headers name as hop-by-hop; of the
    excluded ones the links, as they lead through us."""
    connection, kept = b"", []
    for pair in headers:
        if pair[0] == b"connection":
            connection = b"%b,%b" % (connection, pair[1]) if connection else pair[1]
        elif pair[0] not in excluded:
            kept.append(pair)
        elif links is not None and pair[0] in LINK_HEADERS:
            kept.append((pair[0], links.in_header(*pair)))
    if not connection or connection in (b"close", b"keep-alive", b"Keep-Alive"):
        return kept
    named = {token.strip() for token in connection.lower().split(b",")} - _END_TO_END
    return [pair for pair in kept if pair[0] not in named]


def about_body(headers: Iterable[tuple[bytes, bytes]]) -> Headers:
    """Return the headers by which a body is read."""
    return [pair for pair in headers if pair[0] == b"content-type" or pair[0] == b"content-encoding"]


_LONGEST_SHARED = 200


@lru_cache(1024)
def _shared(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    return pair


def shared_pair(pair: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
    """Return an equal header of another head that came lately: thousands of heads are kept, which differ in little."""
    return _shared(pair) if len(pair[1]) <= _LONGEST_SHARED else pair


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
