"""Method, path and headers as they may be shown or written.

Four nets, each for what slips through the one before: the names under which credentials travel; an allow-list of
headers, since nobody knows all of those names; the forms that credentials have; and the very values found so, wherever
else they stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Protocol

from hivemind.redaction.names import is_secret, is_shown, query_fields
from hivemind.redaction.text import MASK, decodings, holds_key, less, printable, redact, shortened
from hivemind.redaction.values import SCHEME, SHORTEST, TOKEN_IN_PATH, Headers, credentials_in, longest_first, texts

_LONGEST_REMEMBERED = 300
"""Bytes of a header that is cached."""
_LONGEST_VALUE = 4096
"""Characters of a header's value that are shown."""
_LONGEST_PATH = 8192


class Heads(Protocol):
    """:class:`hivemind.wire.recent_heads.Heads`."""

    method: str
    raw_path: bytes
    query: bytes

    @property
    def request(self) -> Headers: ...

    @property
    def response(self) -> Headers: ...


def secrets_of(heads: Heads, known: Iterable[str] = ()) -> tuple[str, ...]:
    """The values of credentials in heads that may stand elsewhere too, and those `known`; the longest first."""
    target = heads.raw_path + b"?" + heads.query
    return longest_first({*known, *credentials_in(heads.request, target), *credentials_in(heads.response, b"")})


def masked_target(heads: Heads, secrets: Sequence[str]) -> tuple[str, str]:
    """Method, and path with its query; `secrets` as :func:`secrets_of` gives them."""
    method = printable(shortened(redact(less(heads.method, secrets)), SHORTEST * 4))
    return method, masked_path(heads.raw_path.decode("latin-1"), heads.query.decode("latin-1"), secrets)


def masked_path(path: str, query: str = "", secrets: Sequence[str] = ()) -> str:
    """A path with its query, as it came but for its credentials; the longest are cut."""
    text = less(TOKEN_IN_PATH.sub(rf"\1{MASK}", path), secrets)
    if query:
        text += "?" + "&".join(_field(*each) for each in query_fields(less(query, secrets)))
    text = redact(text, _LONGEST_PATH)
    return MASK if _spells(text, secrets) else printable(text)


def masked_headers(headers: Headers, secrets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Names in lower case, values as they may be shown."""
    return tuple([_header(name, value, secrets) for name, value in headers])


def _field(field: str, name: str, value: str) -> str:
    return f"{field[: len(field) - len(value)]}{MASK}" if value and is_secret(name) else field


def _header(name: bytes, value: bytes, secrets: Sequence[str]) -> tuple[str, str]:
    remembered = len(name) + len(value) <= _LONGEST_REMEMBERED
    shown, text = _remembered_by_name(name, value) if remembered else _by_name(name, value)
    return less(shown, secrets), MASK if _spells(text, secrets) else less(text, secrets)


def _by_name(name: bytes, value: bytes) -> tuple[str, str]:
    """The header as it may be shown by its name and the forms of keys, whatever the request's own are."""
    ((name_, text),) = texts([(name, value)])
    shown = printable(redact(shortened(name_, _LONGEST_REMEMBERED)))
    if is_secret(name_):
        scheme = SCHEME.match(text)
        return shown, f"{scheme[1]} {MASK}" if scheme else MASK
    # What is shorter than any credential tells more than it could give away.
    if not is_shown(name_) and len(text) >= SHORTEST:
        return shown, MASK
    text = redact(text, _LONGEST_VALUE)
    return shown, MASK if "%" in text and holds_key(text) else printable(text)


_remembered_by_name = lru_cache(maxsize=2048)(_by_name)  # most headers are the same in each request


def _spells(text: str, secrets: Sequence[str]) -> bool:
    """Whether percent-decoding brings a credential to light: one of `secrets`, or one that is known by its form."""
    if "%" not in text:
        return False
    decoded = decodings(text)[1:]
    return any(each in spelled for spelled in decoded for each in secrets) or any(map(holds_key, decoded))
