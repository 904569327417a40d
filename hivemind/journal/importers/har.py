"""HAR files (HTTP Archive 1.2), as browsers, mitmproxy, Charles and HiveMind itself write them."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hivemind.errors import UsageError
from hivemind.journal.codec import BOM
from hivemind.journal.importers.lines import unpacked
from hivemind.journal.importers.parsed import LARGEST, Entry, Headers, Hints, UnreadableEntry, lower
from hivemind.providers.sse import ArraySplitter

_ENTRIES = b'"entries"'
_PARTS = ("blocked", "dns", "connect", "send", "wait", "receive")
_LONGEST_MS = 7 * 86_400_000.0


class _Log(msgspec.Struct):
    entries: list[msgspec.Raw]


class _Har(msgspec.Struct):
    log: _Log


def entries(path: Path) -> Iterator[Entry | UnreadableEntry]:
    """Every entry, or what is wrong with it; at the end what is wrong with the file, where that is truncated.

    Raises: UsageError: it can't be read, or isn't a HAR file.
    """
    with unpacked(path) as file:
        data = file.read(LARGEST + 1).removeprefix(BOM)
    if len(data) > LARGEST:
        raise UsageError(f"{path}: is larger than {LARGEST >> 30} GiB; export fewer requests at a time")
    try:
        found = [bytes(each) for each in msgspec.json.decode(data, type=_Har).log.entries]
        cut_off = None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        start = data.find(b"[", data.find(_ENTRIES)) if _ENTRIES in data else -1
        if start < 0:
            raise UsageError(f"{path}: isn't a HAR file: it has no log with entries") from None
        found = ArraySplitter().feed(data[start:])
        cut_off = UnreadableEntry("the file isn't whole")
    for each in found:
        try:
            yield _entry(msgspec.json.decode(each))
        except (UnreadableEntry, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            yield UnreadableEntry(str(error))
    if cut_off is not None:
        yield cut_off


def _entry(values: object) -> Entry:
    """Return the entry that this value holds. Raises: Unreadable."""
    request, response = _part(values, "request"), _part(values, "response")
    began_at = _moment(_text(values, "startedDateTime"))
    sent_s, wait_s, receive_s = _times(values)
    origin, path, query = _address(_text(request, "url"))
    status = int(_number(response, "status") or 0)
    status = status if 100 <= status <= 999 else 0
    content = _part(response, "content")
    answer = _body(content)
    headed_at = began_at + sent_s + wait_s
    ended_at = headed_at + receive_s
    size = _number(content, "size") or 0
    return Entry(
        method=_text(request, "method").upper() or "GET",
        origin=origin,
        path=path,
        query=query,
        headers=_headers(request),
        body=_body(_part(request, "postData")),
        began_at=began_at,
        sent_at=began_at + sent_s,
        first_at=_first_event(values, headed_at, ended_at) if status else None,
        ended_at=ended_at,
        status=status,
        answer_headers=_headers(response),
        answer=answer,
        whole=len(answer) >= size and bool(answer or not size),
        error=_text(values, "_error") or _text(response, "_error"),
        hints=_hints(_part(values, "_hivemind"), content),
    )


def _times(values: object) -> tuple[float, float, float]:
    """Seconds before the request went out, from there to the first byte, and from there to the end."""
    timings = _part(values, "timings")
    parts = {name: min(max(0.0, _number(timings, name) or 0.0), _LONGEST_MS) / 1000 for name in _PARTS}
    if not any(parts.values()):
        parts["wait"] = min(max(0.0, _number(values, "time") or 0.0), _LONGEST_MS) / 1000
    return parts["blocked"], parts["dns"] + parts["connect"] + parts["send"] + parts["wait"], parts["receive"]


def _first_event(values: object, headed_at: float, ended_at: float) -> float:
    """Return when the first event of a stream came (Chromium keeps their times), else the answer's head."""
    events = values.get("_eventSourceMessages") if isinstance(values, dict) else None
    times = (_number(each, "time") for each in (events if isinstance(events, list) else []))
    return min((at for at in times if at is not None and headed_at <= at <= ended_at), default=headed_at)


def _hints(ours: dict[str, Any], content: dict[str, Any]) -> Hints:
    try:
        return msgspec.convert({**ours, "usage": content.get("_usage")}, Hints)
    except msgspec.ValidationError:
        return Hints()


def _part(values: object, name: str) -> dict[str, Any]:
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, dict) else {}


def _text(values: object, name: str) -> str:
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, str) else ""


def _number(values: object, name: str) -> float | None:
    found = values.get(name) if isinstance(values, dict) else None
    return float(found) if isinstance(found, int | float) and abs(found) < 1e15 else None


def _moment(text: str) -> float:
    """Return the moment in seconds since the epoch. Raises: Unreadable."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        raise UnreadableEntry("an entry doesn't say when it began") from None


def _address(url: str) -> tuple[str, bytes, bytes]:
    """Return the parts of the address. Raises: Unreadable."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if not host or parts.scheme not in ("http", "https", "ws", "wss"):
        raise UnreadableEntry("an entry has no URL")
    shown = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}"
    return origin, parts.path.encode("utf-8", "replace") or b"/", parts.query.encode("utf-8", "replace")


def _headers(message: dict[str, Any]) -> Headers:
    found = message.get("headers")
    pairs = [
        (_text(each, "name").encode("utf-8", "replace"), _text(each, "value").encode("utf-8", "replace"))
        for each in (found if isinstance(found, list) else [])
    ]
    # The text has no encoding any more, whatever the headers say.
    return lower([pair for pair in pairs if pair[0].lower() not in (b"", b"content-encoding")])


def _body(content: dict[str, Any]) -> bytes:
    text = _text(content, "text")
    if "base64" not in (content.get("encoding"), content.get("_encoding")):
        return text.encode("utf-8", "replace")
    try:
        return base64.b64decode(text)
    except ValueError:
        return b""
