"""Heads as they may be shown: whatever is a credential, or looks like one, is masked.

Three nets, each for what slips through the one before: the names under which credentials travel; the forms that
credentials have (:func:`hivemind.logs.redact`); and the very values found so, wherever else they stand.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from urllib.parse import unquote

from hivemind.logs import redact
from hivemind.requests import RequestDetail

from .credentials import MASK, SCHEME, SHORTEST, TOKEN_IN_PATH, credentials_in, is_secret, less, query_fields, texts
from .headers import Headers
from .remembered import Heads


@dataclass(frozen=True, slots=True)
class Masked:
    """Heads without credentials."""

    method: str
    path: str
    """With its query."""
    request: tuple[tuple[str, str], ...]
    response: tuple[tuple[str, str], ...]


def with_heads(detail: RequestDetail, heads: Heads, known: Iterable[str] = ()) -> RequestDetail:
    """The detail with what is remembered of the heads; `known` are credentials of our own."""
    shown = masked(heads, secrets_of(heads, known))
    return replace(
        detail,
        method=shown.method,
        path=shown.path,
        request_headers=shown.request,
        response_headers=shown.response,
    )


def secrets_of(heads: Heads, known: Iterable[str] = ()) -> list[str]:
    """The values of credentials in heads that may stand elsewhere too, and those `known`; the longest first."""
    target = heads.raw_path + b"?" + heads.query
    secrets = {*known, *credentials_in(heads.request, target), *credentials_in(heads.response, b"")}
    return sorted((each for each in secrets if len(each) >= SHORTEST), key=len, reverse=True)


def masked(heads: Heads, found: list[str]) -> Masked:
    """The heads as they may be shown; `found` as :func:`secrets_of` gives them."""
    return Masked(
        _anywhere(heads.method, found),
        _path(heads, found),
        _headers(heads.request, found),
        _headers(heads.response, found),
    )


def _path(heads: Heads, found: list[str]) -> str:
    """With its query, as it came."""
    path = TOKEN_IN_PATH.sub(rf"\1{MASK}", heads.raw_path.decode("latin-1"))
    fields = []
    for field, name, value in query_fields(heads.query.decode("latin-1")):
        secret = bool(value) and (is_secret(name) or _looks_secret(name, value))
        fields.append(f"{field[: len(field) - len(value)]}{MASK}" if secret else field)
    whole = _anywhere(path + ("?" + "&".join(fields) if heads.query else ""), found)
    return MASK if _holds_any(unquote(whole), found) else whole


def _headers(headers: Headers, found: list[str]) -> tuple[tuple[str, str], ...]:
    return tuple((_anywhere(name, found), _value(name, value, found)) for name, value in texts(headers))


def _value(name: str, value: str, found: list[str]) -> str:
    if is_secret(name):
        scheme = SCHEME.match(value)
        return f"{scheme[1]} {MASK}" if scheme else MASK
    if _looks_secret(name, value) or _holds_any(unquote(value), found):
        return MASK
    return _anywhere(value, found)


def _looks_secret(name: str, value: str) -> bool:
    return any(redact(text) != text for text in (f"{name}: {value}", f"{name}: {unquote(value)}"))


def _holds_any(text: str, found: list[str]) -> bool:
    return any(each in text for each in found)


def _anywhere(text: str, found: list[str]) -> str:
    """Without what was found, and with nothing that would upset a terminal."""
    text = less(text, found)
    return text if text.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
