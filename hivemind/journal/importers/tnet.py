"""Tagged netstrings, the form of mitmproxy's dumps: `LENGTH:VALUE` and a letter that says what the value is.

After the format's public description (tnetstrings.org, with mitmproxy's `;` for text), strictly, and within limits: a
hostile file can neither nest deep nor announce more than there is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from hivemind.journal.importers.entry import LARGEST, Unreadable

Value = bytes | str | int | float | bool | None | list["Value"] | dict[str, "Value"]

DEEPEST = 32
_DIGITS = 12
_LONGEST_NUMBER = 64


def values(file: IO[bytes]) -> Iterator[Value]:
    """Every value in a file, one after the other. Raises: Unreadable; OSError."""
    while (first := file.read(1)) != b"":
        size = _size(file, first)
        # In pieces, so that a length that isn't true costs no more than what is there.
        data = file.read(min(size + 1, 1 << 20))
        while len(data) < size + 1 and (piece := file.read(min(size + 1 - len(data), 1 << 20))):
            data += piece
        if len(data) < size + 1:
            raise Unreadable("the file isn't whole")
        yield _value(data[:size], data[size:], 0)


def _size(file: IO[bytes], digits: bytes) -> int:
    while (letter := file.read(1)) != b":":
        if not letter:
            raise Unreadable("the file isn't whole")
        digits += letter
        if len(digits) > _DIGITS:
            break
    size = _number(digits)
    if size > LARGEST:
        raise Unreadable(f"one flow is larger than {LARGEST >> 30} GiB")
    return size


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _DIGITS or (len(digits) > 1 and digits.startswith(b"0")):
        raise Unreadable("it isn't in mitmproxy's form")
    return int(digits)


def _split(data: bytes, start: int) -> tuple[bytes, bytes, int]:
    """The value that begins there, its tag, and where the next one begins."""
    colon = data.find(b":", start, start + _DIGITS + 1)
    if colon < 0:
        raise Unreadable("it isn't in mitmproxy's form")
    end = colon + 1 + _number(data[start:colon])
    if end >= len(data):
        raise Unreadable("a value is longer than what holds it")
    return data[colon + 1 : end], data[end : end + 1], end + 1


def _value(data: bytes, tag: bytes, depth: int) -> Value:
    if depth > DEEPEST:
        raise Unreadable("its values are nested too deep")
    try:
        match tag:
            case b",":
                return data
            case b";":
                return data.decode()
            case b"#" if len(data) <= _LONGEST_NUMBER:
                return int(data)
            case b"^" if len(data) <= _LONGEST_NUMBER:
                return float(data)
            case b"!" if data in (b"true", b"false"):
                return data == b"true"
            case b"~" if not data:
                return None
            case b"]":
                return list(_items(data, depth))
            case b"}":
                return _mapping(data, depth)
    except ValueError as error:
        raise error if isinstance(error, Unreadable) else Unreadable("it isn't in mitmproxy's form") from None
    raise Unreadable("it isn't in mitmproxy's form")


def _items(data: bytes, depth: int) -> Iterator[Value]:
    place = 0
    while place < len(data):
        each, tag, place = _split(data, place)
        yield _value(each, tag, depth + 1)


def _mapping(data: bytes, depth: int) -> dict[str, Value]:
    items = list(_items(data, depth))
    keys = [key.decode() if isinstance(key, bytes) else key for key in items[::2]]
    if len(items) % 2 or not all(isinstance(key, str) for key in keys):
        raise Unreadable("it isn't in mitmproxy's form")
    return {str(key): value for key, value in zip(keys, items[1::2], strict=True)}
