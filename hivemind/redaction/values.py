"""The credentials that one request or answer carries, found by the names of headers and fields."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote, urlsplit

from hivemind.redaction.names import SHOWN, is_secret, query_fields

Headers = Sequence[tuple[bytes, bytes]]

SHORTEST = 8
"""Shortest credential that is masked everywhere: a shorter one would match ordinary words."""
MOST = 64
"""Most credentials of one request that are masked everywhere; no client sends so many. Each is searched for in the
whole body, so their number is bounded."""
_SHORTEST_COOKIE = 16
_LONGEST_DECODED = 512
"""Longest credential that is searched for percent-decoded too."""
_HARMLESS = frozenset(name.encode() for name in SHOWN)
SCHEME = re.compile(r"(bearer|basic|token|key)\s++", re.IGNORECASE)
_BEARER = re.compile(r"\bbearer\s++([^\s'\",;)]+)", re.IGNORECASE)
TOKEN_IN_PATH = re.compile(r"(/token/)([^/?]+)", re.IGNORECASE)


def credentials_in(headers: Headers, target: bytes) -> tuple[str, ...]:
    """Return all credentials that are long enough to be masked elsewhere, the longest first."""
    found = _in_target(target.decode("latin-1")) if b"=" in target or b"/token/" in target.lower() else frozenset()
    for name, value in headers:
        if name not in _HARMLESS:
            found |= _in_header(name, value)
    return longest_first(found)


def longest_first(secrets: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets that are long enough to be masked, the longest first, at most :data:`MOST`."""
    return tuple(sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)[:MOST])


def credentials_of_url(url: str) -> tuple[str, ...]:
    """Return user name and password of a URL in each spelling in which a peer may repeat them, the longest first."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return ()
    given = parts.netloc.rpartition("@")[0]
    if not given:
        return ()
    user, _, password = given.partition(":")
    plain = f"{unquote(user)}:{unquote(password)}"
    found = {given, user, password, plain, unquote(user), unquote(password)}
    found |= {base64.b64encode(each.encode()).decode() for each in (given, plain)}
    found |= {each.rstrip("=") for each in found}
    return tuple(sorted(filter(None, found), key=len, reverse=True))


def texts(headers: Headers) -> list[tuple[str, str]]:
    """Return the headers as text, names in lower case."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1").strip()) for name, value in headers]


def _in_target(target: str) -> frozenset[str]:
    path, _, query = target.partition("?")
    found = {match[2] for match in TOKEN_IN_PATH.finditer(path)}
    found |= {value for _, name, value in query_fields(query) if len(value) >= SHORTEST and is_secret(name)}
    return _spelled(found)


def _in_header(name: bytes, value: bytes) -> frozenset[str]:
    ((name_, text),) = texts([(name, value)])
    found = set(_BEARER.findall(text)) if "bearer" in text.lower() else set()
    if is_secret(name_):
        bare = SCHEME.sub("", text, count=1)
        found |= {bare if len(bare) >= SHORTEST else text, *_cookies(name_, text)}
        if text[:6].lower() == "basic ":
            found.update(_basic(bare))
    return _spelled(found)


def _spelled(found: set[str]) -> frozenset[str]:
    """Return the secrets that are long enough, unchanged and percent-decoded."""
    kept = longest_first(found)
    return frozenset((*kept, *(unquote(each) for each in kept if "%" in each and len(each) <= _LONGEST_DECODED)))


def _basic(encoded: str) -> Iterator[str]:
    """Return the decoded user name and password, because errors repeat those."""
    try:
        plain = base64.b64decode(encoded, validate=True).decode()
    except (binascii.Error, ValueError):
        return
    yield plain
    yield plain.partition(":")[2]


def _cookies(name: str, value: str) -> Iterator[str]:
    """Return each cookie's value, without the attributes of `set-cookie`."""
    pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";") if name == "cookie" else []
    for pair in pairs:
        cookie = pair.partition("=")[2].strip()
        if len(cookie) >= _SHORTEST_COOKIE:
            yield cookie
