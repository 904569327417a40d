"""OpenAI's Responses API."""

from __future__ import annotations

from msgspec import Raw, Struct

from hivemind.providers import jsonread
from hivemind.providers.base import Facts, Headers, StreamForm, Tap, TapState
from hivemind.providers.dialect import RETRYABLE, JsonDialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.openai_errors import error_body, error_object, provider_error
from hivemind.providers.openai_usage import openai_usage
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.tapping import tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure

_CONTENT = frozenset({"response.output_item.done", "response.content_part.done"})
"""The end of a piece that came without deltas; its beginning is still empty."""
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


_request = jsonread.decoder(_Request)
_event = jsonread.decoder(_Event)
_response = jsonread.decoder(_Response)


class ResponsesReader:
    """Counts one response."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = TapState()

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        event = jsonread.read(_event, data)
        if event is None:
            return
        state = self.state
        kind = name.decode("latin-1") or jsonread.text(event.type)
        if kind.endswith(".delta"):
            state.content_started = True
            state.output_chars += jsonread.length(event.delta)
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
        found = jsonread.read(_response, body)
        self.state.usage = openai_usage(found.usage) if found else None

    def closed(self) -> None:
        """Only a closing event completes a response."""


def _failed(error: object) -> bytes:
    """`response.failed`, which Codex tries again after, with the error also where the SDKs look for one to raise."""
    response = {"id": "resp_hivemind", "object": "response", "status": "failed", "error": error, "output": []}
    event = {"type": "response.failed", "sequence_number": 0, "response": response, "error": error}
    return b"event: response.failed\ndata: " + encode(event) + b"\n\n"


class OpenAIResponses(JsonDialect):
    """Responses and their compaction."""

    name = "openai_responses"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = jsonread.read(_request, plain) or _Request()
        stream = jsonread.flag(found.stream) is True
        chained = jsonread.filled(found.previous_response_id) or jsonread.filled(found.conversation)
        # Absent, `store` means true at OpenAI, yet nothing that a client didn't ask for by name is worth losing it for.
        stored = jsonread.flag(found.store) is True or jsonread.flag(found.background) is True
        return Facts(
            model=jsonread.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=jsonread.count(found.max_output_tokens),
            continues_state=chained or stored,
            session=jsonread.text(found.prompt_cache_key),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(ResponsesReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return error_body(status, reason, message)

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """The code of a temporary error is `server_error`: Codex takes `server_is_overloaded` for final."""
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
        """A bare newline; Codex alone counts only parsed events as life."""
        return b'event: ping\ndata: {"type":"ping"}\n\n' if client == "codex" else b"\n"
