"""Every provider format: a request, a good answer in its parts, errors, and a strict reader of both.

The bytes are those of the mock provider. The readers are written for these tests alone: they accept what a provider
sends and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hivemind_mock.provider.formats import FORMATS as WIRES
from hivemind_mock.provider.formats.base import ApiError, ErrorKind, Format, MockReply, Request

Object = dict[str, Any]
_REPLY = MockReply("abcdefghijklmnopqrstuvwx", 1_700_000_000, ("one ", "two ", "three ", "four "), 8, False, 0.01)
_PROMPT = [{"role": "user", "content": "hi"}]


class Malformed(Exception):
    """Something that the format doesn't allow."""


@dataclass(frozen=True)
class ErrorShape:
    """An error as it was read."""

    message: str
    status: int | None = None
    """Where the format repeats it in the body."""


@dataclass(frozen=True, eq=False)
class Api:
    """One format."""

    name: str
    paths: tuple[str, str]
    """For whole answers, and for streams."""
    body: Object
    stream_field: Object
    """What is added to a request for a stream."""
    whole_field: Object
    """What is added to a request for a whole answer."""
    error: Callable[[int, str], Object]
    """The body of an error with that status and message."""
    read_error: Callable[[Object], ErrorShape]
    """Reads such a body strictly. Raises: Malformed, KeyError."""
    keepalive: bytes
    """What may come again and again before a stream's first event, since the provider's clients skip it."""

    @cached_property
    def wire(self) -> Format:
        """The mock's renderer."""
        return WIRES[self.name]

    def path(self, stream: bool) -> str:
        """Where requests go."""
        return self.paths[stream]

    def request(self, stream: bool) -> bytes:
        """A request's body."""
        return json.dumps({**self.body, **(self.stream_field if stream else self.whole_field)}).encode()

    def _parsed(self, stream: bool) -> Request:
        path, _, query = self.path(stream).partition("?")
        request = self.wire.parse(path, query, json.loads(self.request(stream)))
        assert request is not None
        return request

    @property
    def stream_type(self) -> str:
        """A header line."""
        return f"content-type: {self.wire.stream_type.decode()}"

    @cached_property
    def whole(self) -> bytes:
        """A good whole answer."""
        return json.dumps(self.wire.whole(self._parsed(False), _REPLY)).encode()

    @cached_property
    def opening(self) -> bytes:
        """What a stream says before its first content."""
        return self.wire.opening(self._parsed(True), _REPLY)

    @cached_property
    def pieces(self) -> tuple[bytes, ...]:
        """Its events with content."""
        request = self._parsed(True)
        return tuple(self.wire.piece(request, _REPLY, index) for index in range(len(_REPLY.pieces)))

    @cached_property
    def closing(self) -> tuple[bytes, bytes]:
        """What it says after its content, without and only the event that ends it."""
        closing = self.wire.closing(self._parsed(True), _REPLY)
        end = self.separator
        *others, last = closing.removesuffix(end).split(end)
        return b"".join(each + end for each in others), last + end

    @property
    def stream(self) -> bytes:
        """A good stream."""
        return self.opening + b"".join(self.pieces) + b"".join(self.closing)

    @property
    def separator(self) -> bytes:
        """What ends each event."""
        return {"google": b"\r\n\r\n", "ollama": b"\n"}.get(self.name, b"\n\n")

    def encoded(self, body: object) -> bytes:
        """JSON as it goes on the wire."""
        return json.dumps(body).encode()

    def error_body(self, status: int, message: str) -> bytes:
        """An error's body."""
        return self.encoded(self.error(status, message))

    def stream_error(self, sent: int) -> bytes:
        """The provider's own error event, after so many pieces."""
        error = ApiError(ErrorKind.OVERLOADED, "Overloaded", _REPLY.ident)
        return self.wire.stream_error(self._parsed(True), error, sent)

    # --- Reading ----------------------------------------------------------------------------------------------------

    def whole_error(self, body: bytes) -> ErrorShape:
        """Read an error that came as an answer. Raises: Malformed."""
        return self._error(_object(body))

    def error_event(self, event: bytes) -> ErrorShape | None:
        """Read an event that came in a stream; None where it isn't an error. Raises: Malformed."""
        read: dict[str, Callable[[bytes], Object | None]] = {
            "anthropic": _anthropic_event,
            "openai_chat": _chat_event,
            "openai_responses": _responses_event,
            "google": _google_event,
            "ollama": _ollama_event,
        }
        found = read[self.name](event)
        return None if found is None else self._error(found)

    def _error(self, found: Object) -> ErrorShape:
        try:
            return self.read_error(found)
        except (KeyError, TypeError) as error:
            raise Malformed(f"{found} isn't an error of {self.name}: {error!r}") from error


def _object(data: bytes) -> Object:
    try:
        found = json.loads(data)
    except ValueError as error:
        raise Malformed(f"not JSON: {data!r}") from error
    if not isinstance(found, dict):
        raise Malformed(f"not an object: {data!r}")
    return found


def _fields(event: bytes) -> tuple[str, bytes]:
    """The name and the data of a server-sent event. Raises: Malformed: it isn't exactly one."""
    name, data = "", b""
    for line in event.removesuffix(b"\n\n").split(b"\n"):
        key, colon, value = line.partition(b": ")
        if not colon or key not in (b"event", b"data") or (key == b"data" and data):
            raise Malformed(f"not one event: {event!r}")
        if key == b"event":
            name = value.decode()
        else:
            data = value
    return name, data


def _anthropic_event(event: bytes) -> Object | None:
    name, data = _fields(event)
    found = _object(data)
    if found.get("type") != name:
        raise Malformed(f"event and type differ: {event!r}")
    return found if name == "error" else None


def _chat_event(event: bytes) -> Object | None:
    name, data = _fields(event)
    if name:
        raise Malformed(f"an event with a name: {event!r}")
    if data == b"[DONE]":
        return None
    found = _object(data)
    return found if "error" in found else None


def _responses_event(event: bytes) -> Object | None:
    name, data = _fields(event)
    found = _object(data)
    if found.get("type") != name:
        raise Malformed(f"event and type differ: {event!r}")
    if name == "error":
        return {"error": {"type": "error", **found}}
    if name != "response.failed":
        return None
    response = found["response"]
    if response["status"] != "failed" or response["object"] != "response" or not response["id"]:
        raise Malformed(f"a failure of no failed response: {event!r}")
    return {"error": response["error"]}


def _google_event(event: bytes) -> Object | None:
    # Google ends a stream with an error in bare JSON, on a line of its own.
    bare = event.startswith(b"{")
    found = _object(event if bare else event.removesuffix(b"\r\n\r\n").removeprefix(b"data: "))
    if bare and "error" not in found:
        raise Malformed(f"content without data: {event!r}")
    return found if "error" in found else None


def _ollama_event(event: bytes) -> Object | None:
    found = _object(event)
    return found if "error" in found else None


# --- The formats ----------------------------------------------------------------------------------------------------


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise Malformed(f"{value!r} isn't a text")
    return value


def _anthropic_error(status: int, message: str) -> Object:
    kinds = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def _read_anthropic(body: Object) -> ErrorShape:
    error = body["error"]
    if body["type"] != "error" or not _text(error["type"]).endswith(("_error", "request_too_large")):
        raise Malformed(f"{body} has no type")
    return ErrorShape(_text(error["message"]))


def _openai_error(status: int, message: str) -> Object:
    kind = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def _read_openai(body: Object) -> ErrorShape:
    error = body["error"]
    _text(error["type"])
    if not (error["code"] is None or _text(error["code"])):
        raise Malformed(f"{body} has an odd code")
    return ErrorShape(_text(error["message"]))


def _google_error(status: int, message: str) -> Object:
    names = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND"}
    return {"error": {"code": status, "message": message, "status": names.get(status, "UNAVAILABLE")}}


def _read_google(body: Object) -> ErrorShape:
    error = body["error"]
    if not isinstance(error["code"], int) or not _text(error["status"]).isupper():
        raise Malformed(f"{body} has no code or status")
    return ErrorShape(_text(error["message"]), error["code"])


_CHAT: Object = {"model": "mock-1", "messages": _PROMPT}
_GEMINI = "/v1beta/models/mock-1:"
_GEMINI_PATHS = (f"{_GEMINI}generateContent", f"{_GEMINI}streamGenerateContent?alt=sse")
_GEMINI_BODY: Object = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
_STREAM: tuple[Object, Object] = ({"stream": True}, {})
_ANTHROPIC = (*_STREAM, _anthropic_error, _read_anthropic, b'event: ping\ndata: {"type": "ping"}\n\n')
_OPENAI = (*_STREAM, _openai_error, _read_openai, b"\n")
_OLLAMA = (lambda _, message: {"error": message}, lambda body: ErrorShape(_text(body["error"])))
APIS = {
    api.name: api
    for api in (
        Api("anthropic", ("/v1/messages",) * 2, {**_CHAT, "max_tokens": 100}, *_ANTHROPIC),
        Api("openai_chat", ("/v1/chat/completions",) * 2, _CHAT, *_OPENAI),
        Api("openai_responses", ("/v1/responses",) * 2, {"model": "mock-1", "input": "hi"}, *_OPENAI),
        Api("google", _GEMINI_PATHS, _GEMINI_BODY, {}, {}, _google_error, _read_google, b"\n"),
        Api("ollama", ("/api/chat",) * 2, _CHAT, {}, {"stream": False}, *_OLLAMA, b" "),
    )
}
