"""OpenAI's Responses API (platform.openai.com, "Responses")."""

from __future__ import annotations

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.providers.dialect import RETRYABLE, Dialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.openai_common import error_body, error_object, openai_usage, provider_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader, tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure

_CONTENT = frozenset({"response.output_item.done", "response.content_part.done"})
"""The end of a piece without deltas; its start is still empty."""
_TERMINAL = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})


class _Request(Struct):
    model: Raw = Raw()
    stream: Raw = Raw()
    max_output_tokens: Raw = Raw()
    previous_response_id: Raw = Raw()
    conversation: Raw = Raw()
    store: Raw = Raw()
    background: Raw = Raw()
    prompt_cache_key: Raw = Raw()


class _Event(Struct):
    type: Raw = Raw()
    delta: Raw = Raw()
    response: Raw = Raw()


class _Response(Struct):
    usage: Raw = Raw()


_request = json_fields.decoder(_Request)
_event = json_fields.decoder(_Event)
_response = json_fields.decoder(_Response)


class ResponsesReader(Reader):
    """Reader of one response or its stream."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        event = json_fields.read(_event, data)
        if event is None:
            return
        state = self.state
        kind = name.decode("latin-1") or json_fields.text(event.type)
        if kind.endswith(".delta"):
            state.content_started = True
            state.output_chars += json_fields.length(event.delta)
        elif kind in _CONTENT:
            state.content_started = True
        elif kind in _TERMINAL:
            self._close(kind, event.response)
        elif kind == "error":
            state.error = judge_event(read_error(data))

    def _close(self, kind: str, response: Raw) -> None:
        state = self.state
        self.whole(bytes(response))
        state.usage_final = state.usage is not None
        state.complete = True
        if kind == "response.failed":
            state.error = judge_event(read_error(bytes(response)))
        else:
            state.content_started = True

    def whole(self, body: bytes) -> None:
        found = json_fields.read(_response, body)
        self.state.usage = openai_usage(found.usage) if found else None


def _failed(error: object) -> bytes:
    """Return `response.failed`, which Codex retries, with the error also where the SDKs look for one to raise."""
    response = {"id": "resp_hivemind", "object": "response", "status": "failed", "error": error, "output": []}
    event = {"type": "response.failed", "sequence_number": 0, "response": response, "error": error}
    return b"event: response.failed\ndata: " + encode(event) + b"\n\n"


class OpenAIResponses(Dialect):
    """Dialect of responses and their compaction."""

    name = "openai_responses"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = json_fields.read(_request, plain) or _Request()
        stream = json_fields.flag(found.stream) is True
        chained = json_fields.filled(found.previous_response_id) or json_fields.filled(found.conversation)
        # Without `store` OpenAI stores, but a client that didn't request it explicitly loses nothing by a retry.
        stored = json_fields.flag(found.store) is True or json_fields.flag(found.background) is True
        return Facts(
            model=json_fields.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=json_fields.count(found.max_output_tokens),
            continues_state=chained or stored,
            session=json_fields.text(found.prompt_cache_key),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(ResponsesReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return error_body(status, reason, message)

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """Use the code `server_error` for temporary errors: Codex doesn't retry `server_is_overloaded`."""
        code = "server_error" if status in RETRYABLE else reason
        return _failed({"code": code, "message": message, "type": error_object(status, reason, message)["type"]})

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        error = dict(provider_error(failure, body))
        if failure.retryable and error.get("code") != "rate_limit_exceeded":
            error["code"] = "server_error"
        elif not isinstance(error.get("code"), str):
            error["code"] = str(error.get("type") or failure_status(failure))
        return _failed(error)

    def keepalive(self, client: str) -> bytes:
        """Return a newline; only Codex counts just parsed events as activity."""
        return b'event: ping\ndata: {"type":"ping"}\n\n' if client == "codex" else b"\n"
