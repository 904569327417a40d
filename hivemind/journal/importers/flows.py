"""mitmproxy's dumps of flows (`mitmdump -w FILE`), of its versions from 7 on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from hivemind.journal.importers.lines import unpacked
from hivemind.journal.importers.parsed import LARGEST, Entry, Headers, UnreadableEntry, lower

_LONGEST_S = 7 * 86_400.0


def entries(path: Path) -> Iterator[Entry | UnreadableEntry | None]:
    """Every flow of HTTP, or what is wrong with it; None for one of another kind. What can't be read ends it.

    Raises: UsageError: the file can't be read.
    """
    with unpacked(path) as file:
        try:
            for value in values(file):
                try:
                    yield _entry(value)
                except UnreadableEntry as error:
                    yield error
        except UnreadableEntry as error:
            yield error


def _entry(value: Value) -> Entry | None:
    """Return the entry of a flow; None if it isn't HTTP. Raises: Unreadable."""
    flow = _part(value)
    if flow.get("type") not in ("http", b"http"):
        return None
    request, response, error = (_part(flow.get(name)) for name in ("request", "response", "error"))
    began_at = _moment(request.get("timestamp_start"))
    if began_at is None:
        raise UnreadableEntry("a flow doesn't say when it began")
    first_at = _moment(response.get("timestamp_start"))
    ended_at = _moment(response.get("timestamp_end")) or _moment(error.get("timestamp")) or first_at or began_at
    path, _, query = _bytes(request.get("path")).partition(b"?")
    status = response.get("status_code")
    content = response.get("content")
    return Entry(
        method=_bytes(request.get("method")).decode("latin-1").upper(),
        origin=_origin(request),
        path=path or b"/",
        query=query,
        headers=_headers(request),
        body=_bytes(request.get("content")),
        began_at=began_at,
        sent_at=began_at,
        first_at=None if first_at is None else max(began_at, first_at),
        ended_at=min(max(began_at, first_at or began_at, ended_at), began_at + _LONGEST_S),
        status=status if isinstance(status, int) and 100 <= status <= 999 else 0,
        answer_headers=_headers(response),
        answer=_bytes(content),
        whole=content is not None,
        error=_bytes(error.get("msg")).decode("utf-8", "replace"),
    )


def _part(value: Value) -> dict[str, Value]:
    return value if isinstance(value, dict) else {}


def _bytes(value: Value) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return value if isinstance(value, bytes) else b""


def _moment(value: Value) -> float | None:
    return float(value) if isinstance(value, int | float) and 0 < value < 1e11 else None


def _origin(request: dict[str, Value]) -> str:
    """Return the origin of a request. Raises: Unreadable."""
    scheme = _bytes(request.get("scheme")).decode("latin-1")
    host = _bytes(request.get("host")).decode("latin-1")
    port = request.get("port")
    if not isinstance(port, int | None):
        port = None
    shown = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}.get(scheme)
    origin = f"{scheme}://{shown}{'' if port in (usual, None) else f':{port}'}"
    try:
        parts = urlsplit(origin)
        fits = bool(parts.hostname) and parts.port != 0 and not parts.path and not parts.query and "@" not in host
    except ValueError:
        fits = False
    if usual is None or not fits or not origin.isprintable():
        raise UnreadableEntry("a flow has no host")
    return origin


def _headers(message: dict[str, Value]) -> Headers:
    found = message.get("headers")
    pairs = [each for each in (found if isinstance(found, list) else []) if isinstance(each, list) and len(each) == 2]
    return lower([(_bytes(name), _bytes(value)) for name, value in pairs if _bytes(name)])


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
            raise UnreadableEntry("the file isn't whole")
        yield _value(data[:size], data[size:], 0)


def _size(file: IO[bytes], digits: bytes) -> int:
    while (letter := file.read(1)) != b":":
        if not letter:
            raise UnreadableEntry("the file isn't whole")
        digits += letter
        if len(digits) > _DIGITS:
            break
    size = _number(digits)
    if size > LARGEST:
        raise UnreadableEntry(f"one flow is larger than {LARGEST >> 30} GiB")
    return size


def _number(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > _DIGITS or (len(digits) > 1 and digits.startswith(b"0")):
        raise UnreadableEntry("it isn't in mitmproxy's form")
    return int(digits)


def _split(data: bytes, start: int) -> tuple[bytes, bytes, int]:
    """The value that begins there, its tag, and where the next one begins."""
    colon = data.find(b":", start, start + _DIGITS + 1)
    if colon < 0:
        raise UnreadableEntry("it isn't in mitmproxy's form")
    end = colon + 1 + _number(data[start:colon])
    if end >= len(data):
        raise UnreadableEntry("a value is longer than what holds it")
    return data[colon + 1 : end], data[end : end + 1], end + 1


def _value(data: bytes, tag: bytes, depth: int) -> Value:
    if depth > DEEPEST:
        raise UnreadableEntry("its values are nested too deep")
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
        raise error if isinstance(error, UnreadableEntry) else UnreadableEntry("it isn't in mitmproxy's form") from None
    raise UnreadableEntry("it isn't in mitmproxy's form")


def _items(data: bytes, depth: int) -> Iterator[Value]:
    place = 0
    while place < len(data):
        each, tag, place = _split(data, place)
        yield _value(each, tag, depth + 1)


def _mapping(data: bytes, depth: int) -> dict[str, Value]:
    items = list(_items(data, depth))
    keys = [key.decode() if isinstance(key, bytes) else key for key in items[::2]]
    if len(items) % 2 or not all(isinstance(key, str) for key in keys):
        raise UnreadableEntry("it isn't in mitmproxy's form")
    return {str(key): value for key, value in zip(keys, items[1::2], strict=True)}
