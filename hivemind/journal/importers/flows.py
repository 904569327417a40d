"""mitmproxy's dumps of flows (`mitmdump -w FILE`), of its versions from 7 on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from hivemind.journal.importers.entry import Entry, Headers, Unreadable, lower
from hivemind.journal.importers.tnet import Value, values
from hivemind.journal.read.head import opened

_LONGEST_S = 7 * 86_400.0


def entries(path: Path) -> Iterator[Entry | Unreadable | None]:
    """Every flow of HTTP, or what is wrong with it; None for one of another kind. What can't be read ends it.

    Raises: UsageError: the file can't be read.
    """
    with opened(path) as file:
        try:
            for value in values(file):
                try:
                    yield _entry(value)
                except Unreadable as error:
                    yield error
        except Unreadable as error:
            yield error


def _entry(value: Value) -> Entry | None:
    """Return the entry of a flow; None if it isn't HTTP. Raises: Unreadable."""
    flow = _part(value)
    if flow.get("type") not in ("http", b"http"):
        return None
    request, response, error = (_part(flow.get(name)) for name in ("request", "response", "error"))
    began_at = _moment(request.get("timestamp_start"))
    if began_at is None:
        raise Unreadable("a flow doesn't say when it began")
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
        raise Unreadable("a flow has no host")
    return origin


def _headers(message: dict[str, Value]) -> Headers:
    found = message.get("headers")
    pairs = [each for each in (found if isinstance(found, list) else []) if isinstance(each, list) and len(each) == 2]
    return lower([(_bytes(name), _bytes(value)) for name, value in pairs if _bytes(name)])
