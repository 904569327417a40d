"""Anthropic's Messages API (docs.claude.com, "Messages", "Streaming Messages", "Errors")."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.counts import usage_in
from hivemind.providers.dialect import Dialect, encode
from hivemind.providers.errors import ErrorObject, classify_event, kind_of
from hivemind.providers.failing import EMPTY, failure_in, finish_failure
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.known import named_by
from hivemind.providers.outline import PREFIX, prefix, size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader
from hivemind.providers.tiers import tier_of
from hivemind.providers.work import batch_facts
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
    504: "timeout_error",
    529: "overloaded_error",
}
_OLD_SESSION = re.compile(r"_session_([0-9A-Za-z-]{1,64})$")
_MODEL = re.compile(rb'"model"\s{0,8}:\s{0,8}"([\w.:@/-]{1,200})"', re.ASCII)
_BATCH_SEARCHED = 64 * 1024
"""Bytes of a batch in which its first request's model is looked for: a batch may have 100,000 requests."""
_CONTENT = b"event: content_block_delta\ndata: {"
_AFTER_CONTENT = b'"}}'
_WITHOUT_NEWS = frozenset({"ping", "content_block_start"})
_LONGEST_USER = 4096
"""Characters of a user id that are looked at; Claude Code's has some 200."""

_METADATA = Shape("user_id:text")
_USER_ID = Shape("session_id:text")
_THREAD = Shape("type:text")
_REQUEST = Shape(
    "model:text stream:flag max_tokens:count speed:text requests system tools messages",
    metadata=_METADATA,
    thread=_THREAD,
)
_DELTA = Shape("text thinking partial_json")
_STOP = Shape("stop_reason:text")
_CREATION = Shape("ephemeral_1h_input_tokens:count")
_USAGE = Shape(
    "input_tokens:count cache_creation_input_tokens:count cache_read_input_tokens:count output_tokens:count"
    " service_tier:text speed:text iterations",
    cache_creation=_CREATION,
)
_MESSAGE = Shape("", usage=_USAGE)
_EVENT = Shape("type:text delta error", message=_MESSAGE, usage=_USAGE)
_ITERATION = Shape(
    "type:text model:text input_tokens:count cache_creation_input_tokens:count cache_read_input_tokens:count"
    " output_tokens:count",
    cache_creation=_CREATION,
)
_Count = Annotated[int, Meta(ge=0, lt=json_fields.MOST)]


class _Usual(Struct):
    """The usage of a whole reply, as it usually is."""

    input_tokens: _Count
    output_tokens: _Count
    cache_read_input_tokens: _Count = 0
    cache_creation_input_tokens: _Count = 0
    cache_creation: dict[str, _Count] | None = None
    service_tier: str | None = None
    speed: None = None
    iterations: None = None


class _UsualReply(Struct):
    usage: _Usual


_NOTHING = Usage()
_usual = msgspec.json.Decoder(_UsualReply)
_OF_THE_ANSWER = frozenset({"message", "fallback_message"})
"""Types of iterations whose output the sums at the top include."""


class AnthropicReader(Reader):
    """Reader of one Messages reply."""

    __slots__ = ("_head", "_top")

    finish = b'"stop_reason"'

    def __init__(self) -> None:
        super().__init__()
        self._head = b"\n"
        """The last event of content, up to the content."""
        self._top = _NOTHING
        """The counts at the top of usage objects so far."""

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        event = _EVENT.read(data)
        state = self.state
        if not event and name != b"error":
            state.error = state.error or failure_in(data)
            return
        kind = kind_of(name, event)
        if kind == "content_block_delta":
            state.content_started = True
            delta = _DELTA.within(event, "delta")
            chars = json_fields.length(delta, "text", "thinking", "partial_json")
            state.output_chars += chars
            if record.startswith(_CONTENT):
                self._head = record[: len(record) - chars - len(_AFTER_CONTENT)]
        elif kind == "content_block_stop":
            state.content_started = True  # a block that was complete in its start
        elif kind == "message_start":
            self._count(_MESSAGE.within(event, "message"), data)
        elif kind == "message_delta":
            reason = json_fields.text(_STOP.within(event, "delta"), "stop_reason")
            if failure := finish_failure(reason):
                state.error = failure
            else:
                state.content_started = True  # a message without any block
                state.decided = state.decided or bool(reason)
            state.usage_final = self._count(event, data)
        elif kind == "message_stop":
            state.complete = state.content_started
            state.error = state.error if state.content_started else EMPTY
        elif kind in ("error", "response.failed"):
            state.error = classify_event(data)
        elif kind not in _WITHOUT_NEWS:
            state.error = state.error or failure_in(data)

    def content_size(self, record: bytes) -> int:
        if record.startswith(self._head) and record.count(b"\n") == 1 and b"\r" not in record:
            return len(record)
        return 0

    def closed(self) -> None:
        """Complete after a stop reason too, since some gateways omit `message_stop`."""
        self.state.complete = self.state.complete or self.state.decided

    def whole(self, body: bytes) -> None:
        usual, state = json_fields.decoded(_usual, body), self.state
        if usual is None or self._top is not _NOTHING:
            self._count(_MESSAGE.read(body), body)
            return
        usage, for_an_hour = usual.usage, 0
        written = usage.cache_creation_input_tokens
        if usage.cache_creation:
            for_an_hour = min(written, usage.cache_creation.get("ephemeral_1h_input_tokens", 0))
        tier = state.tier = state.tier or tier_of(usage.service_tier or "")
        read, output = usage.cache_read_input_tokens, usage.output_tokens
        state.usage = self._top = Usage(usage.input_tokens, read, written, output, for_an_hour, tier=tier)

    def _count(self, message: Members, data: bytes) -> bool:
        """Add the usage of a message or event, which has the members `message`; return whether it states the output.

        Counts are cumulative; those that a later one omits keep their value.
        """
        usage = _USAGE.within(message, "usage")
        state = self.state
        if "input_tokens" not in usage and "output_tokens" not in usage:
            found = usage_in(data, state.tier)  # under other names
            state.usage = found or state.usage
            return found is not None and found.output_tokens > 0
        before = self._top
        # A reply at the standard service tier may be one in fast mode.
        state.tier = tier_of(json_fields.text(usage, "speed"), state.tier) or tier_of(
            json_fields.text(usage, "service_tier")
        )
        output = json_fields.count(usage, "output_tokens")
        plain, read, written, for_an_hour = _input_of(usage)
        written = max(before.cache_write_tokens, written)
        state.usage = self._top = Usage(
            max(before.input_tokens, plain),
            max(before.cache_read_tokens, read),
            written,
            before.output_tokens if output is None else output,
            min(written, max(before.cache_write_1h_tokens, for_an_hour)),
            tier=state.tier,
        )
        if iterations := _ITERATION.items(usage, "iterations"):
            self._count_each(state.usage, iterations)
        return output is not None

    def _count_each(self, top: Usage, iterations: list[Members]) -> None:
        """Count the iterations of an answer, which are what is charged: the sums at the top have the input of the first
        one alone, and neither compactions nor other models (docs.claude.com, "Advisor tool", "Usage and billing")."""
        state, answer, extra = self.state, Usage(tier=top.tier), Usage(tier=top.tier)
        others: dict[str, Usage] = {}
        handed_over = False
        for each in iterations:
            plain, read, written, for_an_hour = _input_of(each)
            output = json_fields.total(each, "output_tokens")
            part = Usage(plain, read, written, output, min(written, for_an_hour), tier=top.tier)
            kind, model = json_fields.text(each, "type"), json_fields.text(each, "model")
            if model and not _is_same(model, state.model):
                others[model] = others[model] + part if model in others else part
                handed_over = handed_over or kind in _OF_THE_ANSWER
            elif kind in _OF_THE_ANSWER:
                answer += part
            else:
                extra += part
        if not handed_over:  # else the sums at the top are another model's too
            answer = Usage(
                max(top.input_tokens, answer.input_tokens),
                max(top.cache_read_tokens, answer.cache_read_tokens),
                max(top.cache_write_tokens, answer.cache_write_tokens),
                max(top.output_tokens, answer.output_tokens),
                max(top.cache_write_1h_tokens, answer.cache_write_1h_tokens),
                tier=top.tier,
            )
        state.usage, state.used = answer + extra, others


def _input_of(usage: Members) -> list[int]:
    """Return the input tokens of a usage object: plain, read from a cache, written to one, and of these for an hour."""
    creation = _CREATION.within(usage, "cache_creation") if "cache_creation" in usage else {}
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return [*json_fields.counts(usage, *names), json_fields.total(creation, "ephemeral_1h_input_tokens")]


def _is_same(model: str, asked: str) -> bool:
    """Return whether a model is the one that was asked for, one of the two perhaps with its date."""
    return not asked or model.startswith(asked) or asked.startswith(model)


def _session(request: Members) -> str:
    """Return Claude Code's session from `metadata.user_id`: JSON in a string, underscore-separated in older
    versions."""
    user_id = json_fields.text(_METADATA.within(request, "metadata"), "user_id")
    if len(user_id) > _LONGEST_USER:
        return ""
    if user_id.startswith("{"):
        return json_fields.text(_USER_ID.read(user_id.encode()), "session_id")
    old = _OLD_SESSION.search(user_id)
    return old[1] if old else ""


def _prefix(request: Members, body: bytes) -> int:
    if len(body) < PREFIX:
        return 0
    instructions = map(request.get, ("tools", "system"))
    return prefix(json_fields.text(request, "model"), instructions, request.get("messages"), b'"cache_control"')


def _event_bytes(error: object) -> bytes:
    return b"event: error\ndata: " + encode({"type": "error", "error": error}) + b"\n\n"


class Anthropic(Dialect):
    """Dialect of messages, token counts and batches."""

    name = "anthropic"
    reader = AnthropicReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _REQUEST.read(body)
        if path.rstrip("/").endswith("/messages/batches"):
            first = _MODEL.search(bytes(json_fields.raw(request, "requests"))[:_BATCH_SEARCHED])
            model = first[1].decode() if first else ""
            return batch_facts(model)
        model, _ = named_by(path)
        stream = json_fields.flag(request, "stream") is True
        return Facts(
            model=model or json_fields.text(request, "model"),
            stream=stream,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(request, "max_tokens"),
            continues_state="thread" in request
            and json_fields.text(_THREAD.within(request, "thread"), "type") == "continue",
            tier=tier_of(json_fields.text(request, "speed")) if "speed" in request else "",
            prefix=_prefix(request, body),
            session=_session(request) if "metadata" in request else "",
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        """A 503 is an `api_error`: at the third `overloaded_error` Claude Code ends, whatever its status, in streams
        too."""
        kind = _ERROR_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return encode({"type": "error", "error": {"type": kind, "message": message}})

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        return b"event: error\ndata: " + self.error_body(status, reason, message, None) + b"\n\n"

    def upstream_error(self, failure: Failure, error: ErrorObject) -> bytes:
        """Give a retryable error the type that no client ends at."""
        return _event_bytes({**error, "type": "api_error"} if failure.retryable else error)

    def keepalive(self, client: str) -> bytes:
        return b'event: ping\ndata: {"type": "ping"}\n\n'
