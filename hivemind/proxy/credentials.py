"""Where credentials stand in a request or an answer, by the names they travel under."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from urllib.parse import unquote

from hivemind.providers.profiles import PROFILES

from .headers import Headers
from .identity import CREDENTIAL_HEADERS

MASK = "***"
SHORTEST = 8
"""Characters of a credential that is looked for everywhere: a shorter one would be found in innocent words."""
_SHORTEST_COOKIE = 16
_LONGEST_KNOWN = 100
"""Characters of a name that is remembered, not to be looked at again."""
_LONGEST_HEADER = 300
"""Likewise, of a header."""

_NAMED = {
    name.decode() for names in (CREDENTIAL_HEADERS, *(p.auth_headers for p in PROFILES.values())) for name in names
}
_SECRET = re.compile(
    r"authori[sz]ation|authentication|cookie|passw|passphrase|secret|credential|signature|assertion|api[-_]?key|bearer"
    r"|jwt|(?:^|[-_.$])(?:key|token|auth|sig|pass|pwd|pat)$",
    re.IGNORECASE,
)
"""In the name of a header or of a query's field. Not `tokens`: providers count those in headers."""
SCHEME = re.compile(r"(bearer|basic|token|key)\s+(?=\S)", re.IGNORECASE)
_BEARER = re.compile(r"\bbearer\s+([^\s'\",;)]+)", re.IGNORECASE)
TOKEN_IN_PATH = re.compile(r"(/token/)([^/?]+)", re.IGNORECASE)


def is_secret(name: str) -> bool:
    """Whether what stands under this name is a credential."""
    return _is_secret(name) if len(name) <= _LONGEST_KNOWN else _is_secret.__wrapped__(name)


@lru_cache(maxsize=1024)  # the same few names come in each request
def _is_secret(name: str) -> bool:
    return name in _NAMED or _SECRET.search(name) is not None


def texts(headers: Headers) -> list[tuple[str, str]]:
    """As text, names in lower case."""
    return [(name.decode("latin-1").lower(), value.decode("latin-1").strip()) for name, value in headers]


def query_fields(query: str) -> list[tuple[str, str, str]]:
    """Each field of a query as it stands, its name decoded, and its value as it stands."""
    fields = ((field, *field.partition("=")[::2]) for field in query.split("&"))
    return [(field, unquote(name).lower(), value) for field, name, value in fields]


def credentials_in(headers: Headers, target: bytes) -> list[str]:
    """The values of all credentials that are long enough to be looked for elsewhere, the longest first."""
    path, _, query = target.decode("latin-1").partition("?")
    found = {match[2] for match in TOKEN_IN_PATH.finditer(path)}
    if query:
        found |= {value for _, name, value in query_fields(query) if is_secret(name)}
    for name, value in headers:
        if len(name) + len(value) <= _LONGEST_HEADER:
            found.update(_in_header(name, value))
        else:
            found.update(_in_header.__wrapped__(name, value))
    found |= {unquote(each) for each in found}
    return sorted((each for each in found if len(each) >= SHORTEST), key=len, reverse=True)


@lru_cache(maxsize=2048)  # most headers are the same in each request
def _in_header(name: bytes, value: bytes) -> frozenset[str]:
    ((name_, text),) = texts([(name, value)])
    found = set(_BEARER.findall(text))
    if is_secret(name_):
        found |= {text, SCHEME.sub("", text, count=1), *_cookies(name_, text)}
    return frozenset(found)


def less(text: str, credentials: Iterable[str]) -> str:
    """The text without any of these."""
    for each in credentials:
        text = text.replace(each, MASK)
    return text


def _cookies(name: str, value: str) -> Iterator[str]:
    """Each cookie's value; what follows it in `set-cookie` isn't one."""
    pairs = value.split(";")[:1] if name == "set-cookie" else value.split(";") if name == "cookie" else []
    for pair in pairs:
        cookie = pair.partition("=")[2].strip()
        if len(cookie) >= _SHORTEST_COOKIE:
            yield cookie
