"""Anthropic's Messages API (docs.claude.com, "Messages", "Streaming Messages", "Errors")."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.providers.dialect import RETRYABLE, Dialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader, tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure, Usage

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_OLD_SESSION = re.compile(r"_session_([0-9A-Za-z-]{1,64})$")
_MODEL = re.compile(rb'"model"\s{0,8}:\s{0,8}"([\w.:@/-]{1,200})"', re.ASCII)
_BATCH_SEARCHED = 64 * 1024
"""Bytes of a batch in which its first request's model is looked for: a batch may have 100,000 requests."""
_BATCHES = re.compile(r"/messages/batches/?$")
_LONGEST_USER = 4096
"""Characters of a user id that are looked at; Claude Code's has some 200."""


class _Request(Struct):
    model: Raw = Raw()
    stream: Raw = Raw()
    max_tokens: Raw = Raw()
    metadata: Raw = Raw()
    thread: Raw = Raw()


class _Batch(Struct):
    requests: Raw = Raw()


class _Metadata(Struct):
    user_id: Raw = Raw()


class _UserId(Struct):
    session_id: Raw = Raw()


class _Typed(Struct):
    type: Raw = Raw()


class _Delta(Struct):
    text: Raw = Raw()
    thinking: Raw = Raw()
    partial_json: Raw = Raw()


class _Message(Struct):
    usage: Raw = Raw()


class _Event(Struct):
    type: Raw = Raw()
    delta: Raw = Raw()
    message: Raw = Raw()
    usage: Raw = Raw()


class _Usage(Struct):
    input_tokens: Raw = Raw()
    cache_creation_input_tokens: Raw = Raw()
    cache_read_input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()
    iterations: Raw = Raw()


class _Counts(Struct):
    """The usual usage object; :class:`_Usage` reads unusual ones."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int | None = None
    iterations: Raw = Raw()


class _Iteration(Struct):
    type: Raw = Raw()
    input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()


_request = json_fields.decoder(_Request)
_batch = json_fields.decoder(_Batch)
_metadata = json_fields.decoder(_Metadata)
_user_id = json_fields.decoder(_UserId)
_typed = json_fields.decoder(_Typed)
_event = json_fields.decoder(_Event)
_delta = json_fields.decoder(_Delta)
_message = json_fields.decoder(_Message)
_usage = json_fields.decoder(_Usage)
_counts = msgspec.json.Decoder(_Counts)
_iterations = json_fields.decoder(list[_Iteration])


class AnthropicReader(Reader):
    """Reader of one Messages reply."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        event = json_fields.read(_event, data)
        if event is None:
            return
        state = self.state
        kind = name.decode("latin-1") or json_fields.text(event.type)
        if kind == "content_block_delta":
            state.content_started = True
            delta = json_fields.read(_delta, event.delta)
            if delta is not None:
                state.output_chars += sum(map(json_fields.length, (delta.text, delta.thinking, delta.partial_json)))
        elif kind == "content_block_stop":
            state.content_started = True  # a block that was complete in its start
        elif kind == "message_start":
            message = json_fields.read(_message, event.message)
            self._count(message.usage if message else Raw())
        elif kind == "message_delta":
            state.content_started = True  # a message without any block: the reply is decided
            state.usage_final = self._count(event.usage)
        elif kind == "message_stop":
            state.complete = state.content_started = True
        elif kind == "error":
            state.error = judge_event(read_error(data))

    def whole(self, body: bytes) -> None:
        message = json_fields.read(_message, body)
        self._count(message.usage if message else Raw())

    def _count(self, raw: Raw) -> bool:
        """Add a usage object. Its counts are cumulative; fields that a later one omits keep their value."""
        found = _read_counts(raw)
        if found is None:
            return False
        before = self.state.usage or Usage()
        extra_input, extra_output = _compaction(found.iterations) if found.iterations else (0, 0)
        output = found.output_tokens
        self.state.usage = Usage(
            input_tokens=max(before.input_tokens, found.input_tokens + extra_input),
            cache_read_tokens=max(before.cache_read_tokens, found.cache_read_input_tokens),
            cache_write_tokens=max(before.cache_write_tokens, found.cache_creation_input_tokens),
            output_tokens=before.output_tokens if output is None else output + extra_output,
        )
        return output is not None


def _sum(found: _Counts) -> int:
    read_or_written = found.cache_creation_input_tokens + found.cache_read_input_tokens
    return found.input_tokens + read_or_written + (found.output_tokens or 0)


def _read_counts(raw: Raw) -> _Counts | None:
    """Return the usage, or None if there is none. A field of an unexpected type counts as absent."""
    if not raw:
        return None
    found = json_fields.read(_counts, raw)
    if found is not None and min(found.input_tokens, found.output_tokens or 0) >= 0 and _sum(found) < json_fields.MOST:
        return found
    odd = json_fields.read(_usage, raw)
    if odd is None:
        return None
    return _Counts(
        json_fields.count(odd.input_tokens) or 0,
        json_fields.count(odd.cache_creation_input_tokens) or 0,
        json_fields.count(odd.cache_read_input_tokens) or 0,
        json_fields.count(odd.output_tokens),
        odd.iterations,
    )


def _compaction(raw: Raw) -> tuple[int, int]:
    """Return input and output tokens of server-side compaction, which the totals of a usage object omit."""
    rounds = [r for r in json_fields.several(_iterations, raw) if json_fields.text(r.type) == "compaction"]
    if not rounds:
        return 0, 0
    return (
        sum(json_fields.count(r.input_tokens) or 0 for r in rounds),
        sum(json_fields.count(r.output_tokens) or 0 for r in rounds),
    )


def _session(raw: Raw) -> str:
    """Return Claude Code's session from `metadata.user_id`: JSON in a string, underscore-separated in older
    versions."""
    metadata = json_fields.read(_metadata, raw)
    user_id = json_fields.text(metadata.user_id) if metadata else ""
    if len(user_id) > _LONGEST_USER:
        return ""
    inner = json_fields.read(_user_id, user_id.encode())
    if inner is not None:
        return json_fields.text(inner.session_id)
    old = _OLD_SESSION.search(user_id)
    return old[1] if old else ""


def _event_bytes(error: object) -> bytes:
    return b"event: error\ndata: " + encode({"type": "error", "error": error}) + b"\n\n"


def _batch_facts(body: bytes) -> Facts:
    """Return the facts of a batch. Its cost is estimated from its size and the model of its first request."""
    batch = json_fields.read(_batch, body)
    first = _MODEL.search(bytes(batch.requests)[:_BATCH_SEARCHED]) if batch else None
    model = first[1].decode() if first else ""
    return Facts(model=model, size_chars=size_chars(body), continues_state=True, unmetered=True)


class Anthropic(Dialect):
    """Dialect of messages, token counts and batches."""

    name = "anthropic"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        if _BATCHES.search(path):
            return _batch_facts(plain)
        found = json_fields.read(_request, plain) or _Request()
        stream = json_fields.flag(found.stream) is True
        thread = json_fields.read(_typed, found.thread)
        return Facts(
            model=json_fields.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=json_fields.count(found.max_tokens),
            continues_state=thread is not None and json_fields.text(thread.type) == "continue",
            session=_session(found.metadata),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(AnthropicReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """Temporary errors are sent as `overloaded_error`, which Claude Code retries with backoff; any other type
        makes it retry at once, without streaming."""
        if status in RETRYABLE:
            return _event_bytes({"type": "overloaded_error", "message": message})
        return b"event: error\ndata: " + self.error_body(status, reason, message, None) + b"\n\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        """Return the provider's own error object; retryable ones with the type that clients retry."""
        envelope = json_fields.anything(body)
        error = envelope.get("error") if isinstance(envelope, dict) else None
        if not isinstance(error, dict):
            return self.stream_error(failure_status(failure), failure.kind.value, failure.message)
        return _event_bytes({**error, "type": "overloaded_error"} if failure.retryable else error)

    def keepalive(self, client: str) -> bytes:
        return b'event: ping\ndata: {"type": "ping"}\n\n'
