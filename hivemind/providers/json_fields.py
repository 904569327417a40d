"""Tolerant reading of JSON from outside: only the fields needed, each validated separately, without exceptions.

Fields are declared :class:`msgspec.Raw`, so one of an unexpected type invalidates only that field.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
MOST = 10**12
"""Larger numbers are ignored."""
MOST_ITEMS = 128
"""Most items of an array that are read: choices, parts, details of an error."""
_LONGEST_ARRAY = 128 * 1024
_LONGEST_VALUE = 64 * 1024
"""Largest value in bytes that is decoded completely."""
_EMPTY = (b"", b"null", b'""', b"[]", b"{}")

_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_number = msgspec.json.Decoder(float, strict=False)
_anything = msgspec.json.Decoder()


def decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """Return a decoder for a struct or a container of structs; unknown fields are skipped."""
    return msgspec.json.Decoder(shape, strict=False)


def read(reader: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    """Decode the bytes, or return None if they don't match."""
    if not data:
        return None
    try:
        return reader.decode(data)
    except _UNREADABLE:
        return None


def text(raw: Raw) -> str:
    """Return a string field; empty if absent or of another type."""
    return read(_text, raw) or ""


def flag(raw: Raw) -> bool | None:
    """Return a boolean field; None if absent or of another type."""
    return read(_flag, raw)


def number(raw: Raw) -> float | None:
    """Return a finite number, also one written as a string or with a fraction."""
    value = read(_number, raw)
    return value if value is not None and -MOST < value < MOST else None


def count(raw: Raw) -> int | None:
    """Return a non-negative integer; None for anything else (a negative one means "no limit")."""
    data = bytes(raw)
    if data.isdigit() and len(data) <= 12:
        return int(data)  # the usual spelling
    value = number(raw)
    return int(value) if value is not None and value >= 0 else None


def filled(raw: Raw) -> bool:
    """Whether the field is present and neither null nor empty."""
    return bytes(raw) not in _EMPTY


def length(raw: Raw) -> int:
    """Return the approximate length of a string field: escapes count as written."""
    data = bytes(raw)
    return 0 if data in _EMPTY else max(0, len(data) - 2)


def several(reader: msgspec.json.Decoder[list[T]], data: bytes | Raw) -> list[T]:
    """Return the items of an array; none if it isn't one or is too long."""
    if len(bytes(data)) > _LONGEST_ARRAY:
        return []
    return (read(reader, data) or [])[:MOST_ITEMS]


def anything(data: bytes | Raw) -> object:
    """Return any JSON value; None if it isn't JSON or is too long."""
    return read(_anything, data) if len(bytes(data)) <= _LONGEST_VALUE else None
