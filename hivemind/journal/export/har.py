"""Requests as HAR 1.2, an entry for each attempt: what browsers' tools and others open.

An entry's `blocked` is the time in the queue, `wait` until the first content, `receive` from there to the end. Fields
that begin with an underscore are ours, as the format allows.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hivemind.journal.export.csv import moment
from hivemind.journal.read.lifecycle import Asked, Attempt
from hivemind.journal.records import JournalBegan, RequestBody, ResponseBody

_JSON = "application/json"
_EVENTS = "text/event-stream"
Pair = dict[str, str]


def har(requests: Iterable[Asked], began: JournalBegan, wall: Callable[[float], float]) -> Iterator[bytes]:
    """The file, piece by piece. `wall` gives the time of day, in seconds since the epoch, of a journal's moment."""
    creator = {"name": "HiveMind", "version": began.program.rpartition(" ")[2] or "unknown"}
    head = msgspec.json.encode({"version": "1.2", "creator": creator, "pages": []})
    yield b'{"log":' + head[:-1] + b',"entries":['
    between = b"\n"
    upstreams = dict(began.upstreams)
    for asked in requests:
        for each in _entries(asked, upstreams, wall):
            yield between + msgspec.json.encode(each)
            between = b",\n"
    yield b"\n]}}\n"


def _entries(asked: Asked, upstreams: Mapping[str, str], wall: Callable[[float], float]) -> Iterator[dict[str, Any]]:
    base = upstreams.get(asked.arrived.lane.rpartition(":")[0], "")
    request = _request(asked, base)
    for attempt in asked.attempts:
        first = attempt is asked.attempts[0]
        began = asked.arrived.at if first else attempt.queued_at
        times = _times(began, attempt)
        yield _entry(asked, attempt, began, times, request, wall)
    if not asked.attempts:
        end = asked.arrived.at if asked.ended_at is None else asked.ended_at
        yield _entry(asked, None, asked.arrived.at, (end - asked.arrived.at, 0.0, 0.0), request, wall)


def _entry(
    asked: Asked,
    attempt: Attempt | None,
    began: float,
    times: tuple[float, float, float],
    request: dict[str, Any],
    wall: Callable[[float], float],
) -> dict[str, Any]:
    blocked, wait, receive = (round(max(0.0, each) * 1000, 3) for each in times)
    arrived = asked.arrived
    last = attempt is None or attempt is asked.attempts[-1]
    ours: dict[str, Any] = {
        "agent": arrived.agent,
        "client": arrived.client,
        "priority": arrived.priority.name.lower(),
        "ticket": arrived.ticket,
        "attempt": 0 if attempt is None else attempt.number,
        "model": arrived.model,
        "stream": arrived.stream,
        "size_chars": arrived.size_chars,
        "end": asked.end if last else "retried",
    }
    if attempt is not None and attempt.kind is not None:
        ours["kind"] = attempt.kind.value
    if last and asked.reason:
        ours["reason"] = asked.reason
    error = asked.reason if attempt is None else attempt.message or (attempt.kind.value if attempt.kind else "")
    return {
        "startedDateTime": moment(wall(began), precision="microseconds") or "1970-01-01T00:00:00.000Z",
        "time": round(blocked + wait + receive, 3),
        "request": request,
        "response": _response(asked, attempt),
        "cache": {},
        "timings": {
            "blocked": blocked,
            "dns": -1,
            "connect": -1,
            "send": 0,
            "wait": wait,
            "receive": receive,
            "ssl": -1,
        },
        "_hivemind": ours,
        **({"_error": error} if error else {}),
    }


def _times(began: float, attempt: Attempt) -> tuple[float, float, float]:
    """In the queue, until the first content, and from there to the end, in seconds."""
    end = attempt.ended_at if attempt.ended_at is not None else attempt.first_at or attempt.granted_at
    first = end if attempt.first_at is None else attempt.first_at
    return attempt.granted_at - began, first - attempt.granted_at, end - first


def _request(asked: Asked, base: str) -> dict[str, Any]:
    body = asked.body
    path = asked.arrived.path if body is None else body.path
    headers = [] if body is None else _headers(body.headers)
    size = -1 if body is None or body.left_out else len(_raw(body))
    made: dict[str, Any] = {
        "method": "POST" if body is None else body.method,
        "url": (base.rstrip("/") or "http://unknown.invalid") + (path if path.startswith("/") else f"/{path}"),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers,
        "queryString": [_pair(*each) for each in parse_qsl(path.partition("?")[2], keep_blank_values=True)],
        "headersSize": -1,
        "bodySize": size,
    }
    if body is not None and not body.left_out:
        made["postData"] = {"mimeType": _media(headers) or _JSON, "text": body.body}
        if body.encoding:
            made["postData"]["_encoding"] = body.encoding
    return made


def _response(asked: Asked, attempt: Attempt | None) -> dict[str, Any]:
    body = None if attempt is None else attempt.body
    status = asked.status if attempt is None else attempt.status
    headers = [] if body is None else _headers(body.headers)
    size = 0 if body is None or body.left_out else len(_raw(body))
    guess = _EVENTS if asked.arrived.stream and (status or 500) < 400 else _JSON
    content: dict[str, Any] = {"size": size, "mimeType": _media(headers) or guess}
    if body is not None and not body.left_out:
        content["text"] = body.body
        if body.encoding:
            content["encoding"] = body.encoding
    if attempt is not None and attempt.usage is not None:
        content["_usage"] = msgspec.to_builtins(attempt.usage)
    return {
        "status": status or 0,
        "statusText": _phrase(status),
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": headers,
        "content": content,
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": -1 if body is None or body.left_out else size,
    }


def _headers(pairs: Iterable[tuple[str, str]]) -> list[Pair]:
    return [_pair(name, value) for name, value in pairs]


def _pair(name: str, value: str) -> Pair:
    return {"name": name, "value": value}


def _media(headers: Iterable[Pair]) -> str:
    return next((each["value"] for each in headers if each["name"].lower() == "content-type"), "")


def _raw(body: RequestBody | ResponseBody) -> bytes:
    """As it was, before it was made a text."""
    if body.encoding != "base64":
        return body.body.encode("utf-8", "replace")
    try:
        return base64.b64decode(body.body)
    except (binascii.Error, ValueError):
        return b""


def _phrase(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase
    except ValueError:
        return ""
