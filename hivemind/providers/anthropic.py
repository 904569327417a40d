"""Anthropic's Messages API (docs.claude.com, "Messages", "Streaming Messages", "Errors")."""

from __future__ import annotations

import re

import msgspec
from msgspec import Raw, Struct

from hivemind.providers import jsonread
from hivemind.providers.base import Facts, Headers, StreamForm, Tap, TapState
from hivemind.providers.dialect import RETRYABLE, JsonDialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.tapping import tap_for
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
    """A usage object as it nearly always comes; :class:`_Usage` reads any other."""

    input_tokens: int = 0
    cache_creation_input_tokens: int = 0
    cache_read_input_tokens: int = 0
    output_tokens: int | None = None
    iterations: Raw = Raw()


class _Iteration(Struct):
    type: Raw = Raw()
    input_tokens: Raw = Raw()
    output_tokens: Raw = Raw()


_request = jsonread.decoder(_Request)
_batch = jsonread.decoder(_Batch)
_metadata = jsonread.decoder(_Metadata)
_user_id = jsonread.decoder(_UserId)
_typed = jsonread.decoder(_Typed)
_event = jsonread.decoder(_Event)
_delta = jsonread.decoder(_Delta)
_message = jsonread.decoder(_Message)
_usage = jsonread.decoder(_Usage)
_counts = msgspec.json.Decoder(_Counts)
_iterations = jsonread.decoder(list[_Iteration])


class AnthropicReader:
    """Counts one Messages reply."""

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
        if kind == "content_block_delta":
            state.content_started = True
            delta = jsonread.read(_delta, event.delta)
            if delta is not None:
                state.output_chars += sum(map(jsonread.length, (delta.text, delta.thinking, delta.partial_json)))
        elif kind == "content_block_stop":
            state.content_started = True  # a block that came whole, in its start
        elif kind == "message_start":
            message = jsonread.read(_message, event.message)
            self._count(message.usage if message else Raw())
        elif kind == "message_delta":
            state.content_started = True  # a message without any block: the reply is decided
            state.usage_final = self._count(event.usage)
        elif kind == "message_stop":
            state.complete = state.content_started = True
        elif kind == "error":
            state.error = judge_event(read_error(data))

    def whole(self, body: bytes) -> None:
        message = jsonread.read(_message, body)
        self._count(message.usage if message else Raw())

    def closed(self) -> None:
        """Only `message_stop` completes a message."""

    def _count(self, raw: Raw) -> bool:
        """Take in a usage object. Its counts are cumulative; what a later one leaves out stays."""
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
    """A usage object; None where there is none. A field of an unexpected kind counts as absent."""
    if not raw:
        return None
    found = jsonread.read(_counts, raw)
    if found is not None and min(found.input_tokens, found.output_tokens or 0) >= 0 and _sum(found) < jsonread.MOST:
        return found
    odd = jsonread.read(_usage, raw)
    if odd is None:
        return None
    return _Counts(
        jsonread.count(odd.input_tokens) or 0,
        jsonread.count(odd.cache_creation_input_tokens) or 0,
        jsonread.count(odd.cache_read_input_tokens) or 0,
        jsonread.count(odd.output_tokens),
        odd.iterations,
    )


def _compaction(raw: Raw) -> tuple[int, int]:
    """Tokens of server-side compaction, which the sums at the top of a usage object leave out."""
    rounds = [r for r in jsonread.several(_iterations, raw) if jsonread.text(r.type) == "compaction"]
    if not rounds:
        return 0, 0
    return (
        sum(jsonread.count(r.input_tokens) or 0 for r in rounds),
        sum(jsonread.count(r.output_tokens) or 0 for r in rounds),
    )


def _session(raw: Raw) -> str:
    """Claude Code's session, from `metadata.user_id`: JSON in a string, in older versions joined by underscores."""
    metadata = jsonread.read(_metadata, raw)
    user_id = jsonread.text(metadata.user_id) if metadata else ""
    if len(user_id) > _LONGEST_USER:
        return ""
    inner = jsonread.read(_user_id, user_id.encode())
    if inner is not None:
        return jsonread.text(inner.session_id)
    old = _OLD_SESSION.search(user_id)
    return old[1] if old else ""


def _event_bytes(error: object) -> bytes:
    return b"event: error\ndata: " + encode({"type": "error", "error": error}) + b"\n\n"


def _batch_facts(body: bytes) -> Facts:
    """A batch costs, later, what its requests cost; it is estimated by its size and the model of its first request."""
    batch = jsonread.read(_batch, body)
    first = _MODEL.search(bytes(batch.requests)[:_BATCH_SEARCHED]) if batch else None
    model = first[1].decode() if first else ""
    return Facts(model=model, size_chars=size_chars(body), continues_state=True, unmetered=True)


class Anthropic(JsonDialect):
    """Messages, their token counts and their batches."""

    name = "anthropic"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        if _BATCHES.search(path):
            return _batch_facts(plain)
        found = jsonread.read(_request, plain) or _Request()
        stream = jsonread.flag(found.stream) is True
        thread = jsonread.read(_typed, found.thread)
        return Facts(
            model=jsonread.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=jsonread.count(found.max_tokens),
            continues_state=thread is not None and jsonread.text(thread.type) == "continue",
            session=_session(found.metadata),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(AnthropicReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """What may pass is told as `overloaded_error`, after which Claude Code tries again with backoff; any other type
        makes it ask again at once, without streaming."""
        if status in RETRYABLE:
            return _event_bytes({"type": "overloaded_error", "message": message})
        return b"event: error\ndata: " + self.error_body(status, reason, message, None) + b"\n\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        """The provider's own error object; where another try could help, under the type after which clients try."""
        envelope = jsonread.anything(body)
        error = envelope.get("error") if isinstance(envelope, dict) else None
        if not isinstance(error, dict):
            return self.stream_error(failure_status(failure), failure.kind.value, failure.message)
        return _event_bytes({**error, "type": "overloaded_error"} if failure.retryable else error)

    def keepalive(self, client: str) -> bytes:
        return b'event: ping\ndata: {"type": "ping"}\n\n'
