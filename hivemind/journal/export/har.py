"""Requests as HAR 1.2, an entry for each attempt: what browsers' tools and others open.

An entry's `blocked` is the time in the queue, `wait` until the first content, `receive` from there to the end. Fields
that begin with an underscore are ours, as the format allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from hivemind.journal.export.requests import ExportedRequest, moment
from hivemind.journal.records import JournalBegan, bytes_of
from hivemind.world.lifecycle import Attempt

_JSON = "application/json"
_EVENTS = "text/event-stream"
Pair = dict[str, str]


def har(requests: Iterable[ExportedRequest], began: JournalBegan, wall: Callable[[float], float]) -> Iterator[bytes]:
    """The file, piece by piece. `wall` gives the time of day, in seconds since the epoch, of a journal's moment."""
    creator = {"name": "HiveMind", "version": began.program.rpartition(" ")[2] or "unknown"}
    head = msgspec.json.encode({"version": "1.2", "creator": creator, "pages": []})
    yield b'{"log":' + head[:-1] + b',"entries":['
    between = b"\n"
    upstreams = dict(began.upstreams)
    for request in requests:
        for each in _entries(request, upstreams, wall):
            yield between + msgspec.json.encode(each)
            between = b",\n"
    yield b"\n]}}\n"


def _entries(
    request: ExportedRequest, upstreams: Mapping[str, str], wall: Callable[[float], float]
) -> Iterator[dict[str, Any]]:
    arrived_at = request.arrived.at
    sent = _request(request, upstreams.get(request.arrived.lane.rpartition(":")[0], ""))
    for attempt in request.attempts:
        began = arrived_at if attempt is request.attempts[0] else attempt.queued_at
        yield _entry(request, attempt, began, _times(began, attempt), sent, wall)
    if not request.attempts:
        end = arrived_at if request.end is None else request.end.at
        yield _entry(request, None, arrived_at, (end - arrived_at, 0.0, 0.0), sent, wall)


def _entry(
    request: ExportedRequest,
    attempt: Attempt | None,
    began: float,
    times: tuple[float, float, float],
    sent: dict[str, Any],
    wall: Callable[[float], float],
) -> dict[str, Any]:
    blocked, wait, receive = (round(max(0.0, each) * 1000, 3) for each in times)
    arrived, failed = request.arrived, None if attempt is None else attempt.failed
    last = attempt is None or attempt is request.attempts[-1]
    ours: dict[str, Any] = {
        "agent": arrived.agent,
        "client": arrived.client,
        "priority": arrived.priority.name.lower(),
        "ticket": arrived.ticket,
        "attempt": 0 if attempt is None else attempt.granted.attempt,
        "model": arrived.model,
        "stream": arrived.stream,
        "size_chars": arrived.size_chars,
        "tier": arrived.tier,
        "end": request.outcome if last else "retried",
    }
    if failed is not None:
        ours["kind"] = failed.kind.value
    if last and request.reason:
        ours["reason"] = request.reason
    error = (failed.message or failed.kind.value) if failed is not None else request.reason if attempt is None else ""
    return {
        "startedDateTime": moment(wall(began), precision="microseconds") or "1970-01-01T00:00:00.000Z",
        "time": round(blocked + wait + receive, 3),
        "request": sent,
        "response": _response(request, attempt),
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
    """Return the seconds in the queue, until the first content, and from there to the end."""
    granted_at, first, end = attempt.granted.at, attempt.first_content_at, attempt.ended_at
    end = first or granted_at if end is None else end
    first = end if first is None else first
    return granted_at - began, first - granted_at, end - first


def _request(request: ExportedRequest, base: str) -> dict[str, Any]:
    body = request.body
    path = request.arrived.path if body is None else body.path
    headers = [] if body is None else _headers(body.headers)
    size = -1 if body is None or body.left_out else len(bytes_of(body) or b"")
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


def _response(request: ExportedRequest, attempt: Attempt | None) -> dict[str, Any]:
    body = None if attempt is None else request.response_bodies.get(attempt.granted.attempt)
    status = request.status if attempt is None else attempt.status
    headers = [] if body is None else _headers(body.headers)
    size = 0 if body is None or body.left_out else len(bytes_of(body) or b"")
    guess = _EVENTS if request.arrived.stream and (status or 500) < 400 else _JSON
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


def _phrase(status: int | None) -> str:
    try:
        return HTTPStatus(status or 0).phrase
    except ValueError:
        return ""
