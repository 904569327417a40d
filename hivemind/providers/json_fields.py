"""Tolerant reading of JSON from outside: only the members needed, each validated separately, without exceptions.

A :class:`Shape` names the members of an object and the usual types of some of them. An object that keeps to these is
decoded at once. In any other, members stay undecoded (:class:`msgspec.Raw`) until one of the functions here reads them,
so one of an unexpected type invalidates only itself.
"""

from __future__ import annotations

from typing import Any, TypedDict, TypeVar

import msgspec
from msgspec import Raw

T = TypeVar("T")
Members = dict[str, Any]
"""The members that are present: undecoded, or of the type that their shape says is usual."""

_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
MOST = 10**12
"""Larger numbers are ignored."""
MOST_ITEMS = 128
"""Most items of an array that are read: choices, parts, details of an error."""
_LONGEST_ARRAY = 128 * 1024
_LONGEST_VALUE = 64 * 1024
"""Largest value in bytes that is decoded completely."""
_EMPTY = (b"", b"null", b"false", b'""', b"[]", b"{}")
_ABSENT = Raw()

_text = msgspec.json.Decoder(str)
_flag = msgspec.json.Decoder(bool)
_number = msgspec.json.Decoder(float, strict=False)
_objects: msgspec.json.Decoder[list[Members]] = msgspec.json.Decoder(list[dict[str, Raw]])
_items: msgspec.json.Decoder[list[Raw]] = msgspec.json.Decoder(list[Raw])
_anything = msgspec.json.Decoder()


_USUAL = {"text": str | None, "flag": bool | None, "count": int | None}


class Shape:
    """The members to read of an object, their names separated by spaces; all others are skipped.

    A name may be followed by its usual type, as in `model:text stream:flag max_tokens:count`; `nested` members usually
    are objects of a shape of their own.
    """

    __slots__ = ("_array", "_object", "_usual", "usual_type")

    def __init__(self, names: str, **nested: Shape) -> None:
        types: dict[str, Any] = {}
        for each in names.split():
            name, _, usual = each.partition(":")
            types[name] = _USUAL[usual] if usual else Raw
        types |= {name: shape.usual_type | None for name, shape in nested.items()}
        # As fast as a struct, and unlike dict[str, Raw] it keeps nothing of a body with a hundred thousand members.
        self.usual_type: Any = TypedDict("usual", types, total=False)  # type: ignore[misc]
        members = TypedDict("members", dict.fromkeys(types, Raw), total=False)  # type: ignore[misc]
        self._usual: msgspec.json.Decoder[Members] = msgspec.json.Decoder(self.usual_type)
        self._object: msgspec.json.Decoder[Members] = msgspec.json.Decoder(members)
        self._array: msgspec.json.Decoder[list[Members]] = msgspec.json.Decoder(list[members])

    def read(self, data: bytes | Raw) -> Members:
        """Return the members of an object; none if it isn't one."""
        if not data:
            return {}
        try:
            return self._usual.decode(data)
        except _UNREADABLE:
            return decoded(self._object, data) or {}

    def within(self, members: Members, name: str) -> Members:
        """Return the members of the object that is this member of another one."""
        value = members.get(name)
        return value if type(value) is dict else self.read(value or b"")

    def items(self, members: Members, name: str) -> list[Members]:
        """Return the members of each object of the array that is this member; none if it isn't one or is too long."""
        return self.all_in(members[name]) if name in members else []

    def all_in(self, data: bytes | Raw) -> list[Members]:
        """Return the members of each object of an array; none if it isn't one or is too long."""
        if len(data) > _LONGEST_ARRAY:
            return []
        return (decoded(self._array, data) or [])[:MOST_ITEMS]


def decoded(decoder: msgspec.json.Decoder[T], data: bytes | Raw) -> T | None:
    """Return a value of the decoder's type; None where this isn't one."""
    if not data:
        return None
    try:
        return decoder.decode(data)
    except _UNREADABLE:
        return None


def raw(members: Members, name: str) -> Raw:
    """Return an undecoded member; empty if absent."""
    found: Raw = members.get(name, _ABSENT)
    return found


def objects(members: Members, name: str) -> list[Members]:
    """Return all members of each object of an array, which has unknown names; bounded as :meth:`Shape.items`."""
    value = raw(members, name)
    return [] if len(value) > _LONGEST_ARRAY else (decoded(_objects, value) or [])[:MOST_ITEMS]


def items(members: Members, name: str) -> list[bytes]:
    """Return the items of an array, undecoded; bounded as :meth:`Shape.items`."""
    value = raw(members, name)
    return [] if len(value) > _LONGEST_ARRAY else [bytes(each) for each in (decoded(_items, value) or [])[:MOST_ITEMS]]


def text(members: Members, name: str) -> str:
    """Return a string; empty if absent or of another type."""
    value = members.get(name)
    if type(value) is Raw:
        value = decoded(_text, value)
    return value or ""


def flag(members: Members, name: str) -> bool | None:
    """Return a boolean; None if absent or of another type."""
    value = members.get(name)
    return decoded(_flag, value) if type(value) is Raw else value


def number(members: Members, name: str) -> float | None:
    """Return a finite number, also one written as a string or with a fraction."""
    return _as_number(members[name]) if name in members else None


def count(members: Members, *names: str) -> int | None:
    """Return the first of these members that is a non-negative integer (a negative one means "no limit")."""
    for name in names:
        if (value := _as_count(members.get(name))) is not None:
            return value
    return None


def counts(members: Members, *names: str) -> list[int]:
    """Return the count of each of these members; 0 for one that isn't a non-negative integer."""
    found = [members.get(name, 0) for name in names]
    return [each if type(each) is int and 0 <= each < MOST else _as_count(each) or 0 for each in found]


def total(members: Members, *names: str) -> int:
    """Return the sum of the counts of these members."""
    return sum(counts(members, *names))


def _as_number(value: Raw) -> float | None:
    found = decoded(_number, value)
    return found if found is not None and -MOST < found < MOST else None


def _as_count(value: Raw | int | None) -> int | None:
    if value is None:
        return None
    if type(value) is int:
        return value if 0 <= value < MOST else None
    assert isinstance(value, Raw), "of a shape that says count, or nothing"
    data = bytes(value)
    if data.isdigit() and len(data) <= 12:
        return int(data)  # the usual spelling
    found = _as_number(value)
    return int(found) if found is not None and found >= 0 else None


def filled(members: Members, name: str) -> bool:
    """Return whether a member is present and neither null, false nor empty."""
    value = members.get(name)
    return bytes(value) not in _EMPTY if type(value) is Raw else bool(value)


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
    return decoded(_anything, data) if len(data) <= _LONGEST_VALUE else None
