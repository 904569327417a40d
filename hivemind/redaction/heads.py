"""Method, path and headers as they may be shown or written.

Four filters, each for what the previous one misses: names of headers and fields that carry credentials; an allow-list
of headers, because not all such names are known; the forms of credentials; and the values found so, wherever else they
occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from hivemind.redaction.text import MASK, decodings, holds_key, mask_values, printable, redact, shortened
from hivemind.redaction.values import SCHEME, SHORTEST, TOKEN_IN_PATH, Headers, is_secret, is_shown, query_fields, texts

_LONGEST_CACHED = 300
"""Most bytes of a header that is cached."""
_LONGEST_VALUE = 4096
"""Most characters of a header's value that are shown."""
_LONGEST_PATH = 8192


def masked_method(method: str, secrets: Sequence[str]) -> str:
    """Return a request's method, credentials masked."""
    return printable(shortened(redact(mask_values(method, secrets)), SHORTEST * 4))


def masked_path(path: str, query: str = "", secrets: Sequence[str] = ()) -> str:
    """Return a path with its query, credentials masked; long ones are cut."""
    text = mask_values(TOKEN_IN_PATH.sub(rf"\1{MASK}", path), secrets)
    if query:
        text += "?" + "&".join(_field(*each) for each in query_fields(mask_values(query, secrets)))
    text = redact(text, _LONGEST_PATH)
    return MASK if _spells(text, secrets) else printable(text)


def masked_headers(headers: Headers, secrets: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Return names in lower case, and values with credentials masked."""
    return tuple([_header(name, value, secrets) for name, value in headers])


def _field(field: str, name: str, value: str) -> str:
    return f"{field[: len(field) - len(value)]}{MASK}" if value and is_secret(name) else field


def _header(name: bytes, value: bytes, secrets: Sequence[str]) -> tuple[str, str]:
    remembered = len(name) + len(value) <= _LONGEST_CACHED
    shown, text = _cached_by_name(name, value) if remembered else _by_name(name, value)
    return mask_values(shown, secrets), MASK if _spells(text, secrets) else mask_values(text, secrets)


def _by_name(name: bytes, value: bytes) -> tuple[str, str]:
    """Return the header, masked by its name and by the forms of keys, but not by the request's own secrets."""
    ((name_, text),) = texts([(name, value)])
    shown = printable(redact(shortened(name_, _LONGEST_CACHED)))
    if is_secret(name_):
        scheme = SCHEME.match(text)
        return shown, f"{scheme[1]} {MASK}" if scheme else MASK
    # A value shorter than any credential is useful, and gives nothing away.
    if not is_shown(name_) and len(text) >= SHORTEST:
        return shown, MASK
    text = redact(text, _LONGEST_VALUE)
    return shown, MASK if "%" in text and holds_key(text) else printable(text)


_cached_by_name = lru_cache(maxsize=2048)(_by_name)  # most headers are the same in each request


def _spells(text: str, secrets: Sequence[str]) -> bool:
    """Return whether percent-decoding reveals a credential: one of `secrets`, or one recognised by its form."""
    if "%" not in text:
        return False
    decoded = decodings(text)[1:]
    return any(each in spelled for spelled in decoded for each in secrets) or any(map(holds_key, decoded))
