"""A request's path: HiveMind's own prefixes taken off, and ambiguous paths refused."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote, unquote_to_bytes

from hivemind.agent_names import LONGEST
from hivemind.scheduler.types import record

LONGEST_CACHED = 512
"""Bytes of a path whose parsed form is cached."""
MOST_NAME_BYTES = 12 * LONGEST + 1
"""Bytes of a raw name that are read: each character has four bytes at most, each of them percent-encoded, and one more
makes it too long."""
_PREFIXES = (b"/agent/", b"/to/", b"/token/")
_PARAMETERS = re.compile(r";[^/]*")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_DOTS = re.compile(r"/\.{1,2}(?:[/;]|$)")


@record
class RequestPath:
    """A request's path, parsed."""

    path: str
    """Without our prefixes, decoded, and without parameters (`;x=1`): the path by which an upstream routes."""
    raw_path: bytes
    """The path as it goes upstream: as it came, but for our prefixes and empty segments (`//`)."""
    agent: str | None
    upstream: str | None
    token: str | None
    flaw: str = ""
    """Why it is refused: servers interpret such a path differently. Empty where it is fine."""


def parse_path(raw_path: bytes) -> RequestPath:
    """Strip `/to/<upstream>`, `/agent/<name>` and `/token/<token>`, in any order, from the front of a path."""
    # An agent asks for the same path again and again; one that holds a secret, or is long, isn't cached.
    if len(raw_path) > LONGEST_CACHED or b"/token/" in raw_path:
        return _parse(raw_path)
    return _parse_cached(raw_path)


def _parse(raw_path: bytes) -> RequestPath:
    found: dict[bytes, str] = {}
    flaw = ""
    rest = _one_slash(raw_path)
    while rest.startswith(_PREFIXES):
        head, _, tail = rest[1:].partition(b"/")
        if head in found:
            break
        name, slash, after = tail.partition(b"/")
        if not name:
            # Passed on as a path of the upstream's, or without the slash, the next segment would become the name.
            flaw = "" if tail in (b"", b"/") else f"/{head.decode()}/ must be followed by a name"
            break
        found[head] = decoded(name if head != b"agent" else name[:MOST_NAME_BYTES])
        rest = _one_slash(slash + after) or b"/"
    while b"//" in rest:
        rest = rest.replace(b"//", b"/")
    path = decoded(rest)
    return RequestPath(
        path=_PARAMETERS.sub("", path) if ";" in path else path,
        raw_path=rest,
        agent=found.get(b"agent"),
        upstream=found.get(b"to"),
        token=found.get(b"token"),
        flaw=flaw or _flaw(path),
    )


_parse_cached = lru_cache(maxsize=1024)(_parse)


def decoded(raw: bytes) -> str:
    """Return a path or header value as text, percent-decoded where it is encoded."""
    return (unquote_to_bytes(raw) if b"%" in raw else raw).decode("utf-8", "replace")


def _one_slash(path: bytes) -> bytes:
    """Return the path, several slashes at its beginning replaced by one."""
    return b"/" + path.lstrip(b"/") if path.startswith(b"//") else path


def _flaw(path: str) -> str:
    """Return why a decoded path is refused; empty where it isn't.

    Servers and the proxies in front of them differ in whether they resolve such a path, and to what: one that is
    scheduled as this would be served as that, or lie outside the upstream's base path. Clients resolve dots themselves
    (RFC 3986, 5.2.4), so no known client sends them.
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
