"""Heads as they may be shown: whatever is a credential, or looks like one, is masked.

Three nets, each for what slips through the one before: the names under which credentials travel; the forms that
credentials have (:func:`hivemind.logs.redact`); and the very values found so, wherever else they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from urllib.parse import unquote

from hivemind.logs import redact
from hivemind.requests import RequestDetail

from .credentials import MASK, SCHEME, SHORTEST, TOKEN_IN_PATH, credentials_in, is_secret, less, query_fields, texts
from .headers import Headers
from .remembered import Heads

_LONGEST_KNOWN = 300
"""Characters of a header that is remembered, not to be looked at again."""


def with_heads(detail: RequestDetail, heads: Heads, known: Iterable[str] = ()) -> RequestDetail:
    """The detail with what is remembered of the heads; `known` are credentials of our own."""
    found = secrets_of(heads, known)
    method, path = masked_target(heads, found)
    return replace(
        detail,
        method=method,
        path=path,
        request_headers=masked_headers(heads.request, found),
        response_headers=masked_headers(heads.response, found),
    )


def secrets_of(heads: Heads, known: Iterable[str] = ()) -> list[str]:
    """The values of credentials in heads that may stand elsewhere too, and those `known`; the longest first."""
    target = heads.raw_path + b"?" + heads.query
    return longest_first({*known, *credentials_in(heads.request, target), *credentials_in(heads.response, b"")})


def longest_first(secrets: Iterable[str]) -> list[str]:
    """Those that are long enough to be looked for."""
    return sorted((each for each in secrets if len(each) >= SHORTEST), key=len, reverse=True)


def masked_target(heads: Heads, found: list[str]) -> tuple[str, str]:
    """Method, and path with its query; `found` as :func:`secrets_of` gives them."""
    return _anywhere(heads.method, found), _path(heads, found)


def masked_headers(headers: Headers, found: list[str]) -> tuple[tuple[str, str], ...]:
    """Names in lower case, values as they may be shown."""
    known = tuple(found)
    return tuple([_header(name, value, known) for name, value in headers])


def _header(name: bytes, value: bytes, found: tuple[str, ...]) -> tuple[str, str]:
    masked = _masked_header if len(name) + len(value) <= _LONGEST_KNOWN else _masked_header.__wrapped__
    return masked(name, value, found)


@lru_cache(maxsize=2048)  # most headers are the same in each request
def _masked_header(name: bytes, value: bytes, found: tuple[str, ...]) -> tuple[str, str]:
    ((name_, text),) = texts([(name, value)])
    return _anywhere(name_, found), _value(name_, text, found)


def _path(heads: Heads, found: list[str]) -> str:
    """With its query, as it came."""
    path = TOKEN_IN_PATH.sub(rf"\1{MASK}", heads.raw_path.decode("latin-1"))
    fields = []
    for field, name, value in query_fields(heads.query.decode("latin-1")):
        secret = bool(value) and (is_secret(name) or _looks_secret(name, value))
        fields.append(f"{field[: len(field) - len(value)]}{MASK}" if secret else field)
    whole = _anywhere(path + ("?" + "&".join(fields) if heads.query else ""), found)
    return MASK if _holds_any(unquote(whole), found) else whole


def _value(name: str, value: str, found: Sequence[str]) -> str:
    if is_secret(name):
        scheme = SCHEME.match(value)
        return f"{scheme[1]} {MASK}" if scheme else MASK
    if _looks_secret(name, value) or _holds_any(unquote(value), found):
        return MASK
    return _anywhere(value, found)


def _looks_secret(name: str, value: str) -> bool:
    return _looks(name, value) if len(name) + len(value) <= _LONGEST_KNOWN else _looks.__wrapped__(name, value)


@lru_cache(maxsize=2048)  # most headers are the same in each request, and looking takes longer than all else
def _looks(name: str, value: str) -> bool:
    return any(redact(text) != text for text in {f"{name}: {value}", f"{name}: {unquote(value)}"})


def _holds_any(text: str, found: Sequence[str]) -> bool:
    return any(each in text for each in found)


def _anywhere(text: str, found: Sequence[str]) -> str:
    """Without what was found, and with nothing that would upset a terminal."""
    text = less(text, found)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
