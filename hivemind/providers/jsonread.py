"""Reading JSON that somebody else wrote: only the fields we need, each judged by itself, and never an exception.

Fields are declared :class:`msgspec.Raw`, so one of an unexpected type costs that field alone and not its neighbours.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
MOST = 10**12
"""Larger numbers aren't meant."""
MOST_ITEMS = 128
"""Items of an array that are looked at one by one: choices, parts, details of an error. None has so many."""
_LONGEST_ARRAY = 128 * 1024
_LONGEST_VALUE = 64 * 1024
"""Bytes of the text of a value that is built whole."""
_EMPTY = (b"", b"null", b'""', b"[]", b"{}")

_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_number = msgspec.json.Decoder(float, strict=False)
_anything = msgspec.json.Decoder()


def decoder(shape: type[T]) -> msgspec.json.Decoder[T]:
    """A decoder for a struct or a container of structs; unknown fields are skipped without being built."""
    return msgspec.json.Decoder(shape, strict=False)


def read(reader: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    """Decode, or None where the bytes aren't that."""
    if not data:
        return None
    try:
        return reader.decode(data)
    except _UNREADABLE:
        return None


def text(raw: Raw) -> str:
    """A string field; empty where absent or of another type."""
    return read(_text, raw) or ""


def flag(raw: Raw) -> bool | None:
    """A boolean field."""
    return read(_flag, raw)


def number(raw: Raw) -> float | None:
    """A finite number, also one written as a string or with a fraction."""
    value = read(_number, raw)
    return value if value is not None and -MOST < value < MOST else None


def count(raw: Raw) -> int | None:
    """A whole number from 0; None for anything else (a negative one means "no limit" where it occurs)."""
    data = bytes(raw)
    if data.isdigit() and len(data) <= 12:
        return int(data)  # as nearly all are written
    value = number(raw)
    return int(value) if value is not None and value >= 0 else None


def filled(raw: Raw) -> bool:
    """Whether the field is there and neither null nor empty."""
    return bytes(raw) not in _EMPTY


def length(raw: Raw) -> int:
    """Characters of a string field, roughly: escapes count as written."""
    data = bytes(raw)
    return 0 if data in _EMPTY else max(0, len(data) - 2)


def several(reader: msgspec.json.Decoder[list[T]], data: bytes | Raw) -> list[T]:
    """The first items of an array; none where it isn't one, or is longer than such arrays are."""
    if len(bytes(data)) > _LONGEST_ARRAY:
        return []
    return (read(reader, data) or [])[:MOST_ITEMS]


def anything(data: bytes | Raw) -> object:
    """Any JSON value; None where it isn't JSON, or so long that building it would take its time."""
    return read(_anything, data) if len(bytes(data)) <= _LONGEST_VALUE else None
