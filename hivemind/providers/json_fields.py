"""Tolerant reading of JSON from outside: only the members needed, each validated separately, without exceptions.

A :class:`Shape` names the members of an object. They stay undecoded (:class:`msgspec.Raw`) until one of the functions
here reads them, so one of an unexpected type invalidates only itself.
"""

from __future__ import annotations

from typing import TypedDict, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")
Members = dict[str, Raw]
"""The members that are present, undecoded."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
MOST = 10**12
"""Larger numbers are ignored."""
MOST_ITEMS = 128
"""Most items of an array that are read: choices, parts, details of an error."""
_LONGEST_ARRAY = 128 * 1024
_LONGEST_VALUE = 64 * 1024
"""Largest value in bytes that is decoded completely."""
_EMPTY = (b"", b"null", b'""', b"[]", b"{}")
_ABSENT = Raw()

_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_number = msgspec.json.Decoder(float, strict=False)
_objects: msgspec.json.Decoder[list[Members]] = msgspec.json.Decoder(list[Members])
_anything = msgspec.json.Decoder()


class Shape:
    """The members to read of an object, their names separated by spaces; all others are skipped."""

    __slots__ = ("_array", "_object")

    def __init__(self, names: str) -> None:
        # As fast as a struct, and unlike dict[str, Raw] it keeps nothing of a body with a hundred thousand members.
        members = TypedDict("members", dict.fromkeys(names.split(), Raw), total=False)  # type: ignore[misc]
        self._object: msgspec.json.Decoder[Members] = msgspec.json.Decoder(members)
        self._array: msgspec.json.Decoder[list[Members]] = msgspec.json.Decoder(list[members])

    def read(self, data: bytes | Raw) -> Members:
        """Return the members of an object; none if it isn't one."""
        if data:
            try:
                return self._object.decode(data)
            except _UNREADABLE:
                pass
        return {}

    def within(self, members: Members, name: str) -> Members:
        """Return the members of the object that is this member of another one."""
        return self.read(members[name]) if name in members else {}

    def items(self, members: Members, name: str) -> list[Members]:
        """Return the members of each object of the array that is this member; none if it isn't one or is too long."""
        return self.all_in(members[name]) if name in members else []

    def all_in(self, data: bytes | Raw) -> list[Members]:
        """Return the members of each object of an array; none if it isn't one or is too long."""
        if len(data) > _LONGEST_ARRAY:
            return []
        return (_decode(self._array, data) or [])[:MOST_ITEMS]


def _decode(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    if not data:
        return None
    try:
        return decoder.decode(data)
    except _UNREADABLE:
        return None


def raw(members: Members, name: str) -> Raw:
    """Return an undecoded member; empty if absent."""
    return members.get(name, _ABSENT)


def objects(members: Members, name: str) -> list[Members]:
    """Return all members of each object of an array, which has unknown names; bounded as :meth:`Shape.items`."""
    value = members.get(name, _ABSENT)
    return [] if len(value) > _LONGEST_ARRAY else (_decode(_objects, value) or [])[:MOST_ITEMS]


def text(members: Members, name: str) -> str:
    """Return a string; empty if absent or of another type."""
    return (_decode(_text, members[name]) or "") if name in members else ""


def flag(members: Members, name: str) -> bool | None:
    """Return a boolean; None if absent or of another type."""
    return _decode(_flag, members[name]) if name in members else None


def number(members: Members, name: str) -> float | None:
    """Return a finite number, also one written as a string or with a fraction."""
    return _as_number(members[name]) if name in members else None


def count(members: Members, *names: str) -> int | None:
    """Return the first of these members that is a non-negative integer (a negative one means "no limit")."""
    for name in names:
        if name in members and (value := _as_count(members[name])) is not None:
            return value
    return None


def total(members: Members, *names: str) -> int:
    """Return the sum of the counts of these members."""
    found = 0
    for name in names:
        if name in members:
            found += _as_count(members[name]) or 0
    return found


def _as_number(value: Raw) -> float | None:
    found = _decode(_number, value)
    return found if found is not None and -MOST < found < MOST else None


def _as_count(value: Raw) -> int | None:
    data = bytes(value)
    if data.isdigit() and len(data) <= 12:
        return int(data)  # the usual spelling
    found = _as_number(value)
    return int(found) if found is not None and found >= 0 else None


def filled(members: Members, name: str) -> bool:
    """Return whether a member is present and neither null nor empty."""
    return name in members and bytes(members[name]) not in _EMPTY


def length(members: Members, *names: str) -> int:
    """Return the approximate length of string members together: escapes count as written."""
    chars = 0
    for name in names:
        if name in members:
            size = len(members[name])
            if size > 4 or filled(members, name):  # "null" has four characters
                chars += max(0, size - 2)
    return chars


def anything(data: bytes) -> object:
    """Return any JSON value; None if it isn't JSON or is too long."""
    return _decode(_anything, data) if len(data) <= _LONGEST_VALUE else None
