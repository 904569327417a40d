"""OpenAI's APIs: chat completions, legacy completions, embeddings and responses, also spoken by most other servers.

Cached tokens are part of the input, reasoning is part of the output.
"""

from __future__ import annotations

import re

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.counts import CACHED, WRITTEN, usage_from, usage_in
from hivemind.providers.dialect import RETRYABLE, Dialect, encode, failure_status, failure_text
from hivemind.providers.encoding import is_encoded
from hivemind.providers.errors import ErrorObject, classify_event, error_object, is_error, kind_of
from hivemind.providers.failing import EMPTY, failure_in, finish_failure
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.known import named_by
from hivemind.providers.outline import PREFIX, prefix, size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader
from hivemind.providers.tiers import tier_of
from hivemind.providers.work import RESPONSE, background_work, deferred_work
from hivemind.scheduler.types import Computed, Failure, Usage

_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
}
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")
_MARKS = tuple((name, name + b":null", name + b": null") for name in (b'"usage"', b'"finish_reason"'))
"""Members that tell more than content unless they are null, which many servers send in every chunk."""
_PADDING = b'"obfuscation":"'
"""Random characters that OpenAI adds to events, so that an event's size doesn't tell its content's."""
_NO_CHOICES = re.compile(rb'"choices"\s{0,4}:\s{0,4}\[\s{0,4}\]')
_DATA = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\r\n\r\n))data: ?([^\r\n]++)(?:\n\n|\r\n\r\n)")
_RESPONSE_CONTENT = frozenset({"response.output_item.done", "response.content_part.done"})
"""The end of a piece without deltas; its start is still empty."""
_RESPONSE_END = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})

_FINAL_FOR_CODEX = frozenset({"invalid_prompt", "context_length_exceeded", "insufficient_quota", "usage_not_included"})
"""Codes in a stream after which Codex doesn't ask again."""

_CHAT_REQUEST = Shape(
    "model:text stream:flag max_tokens:count max_completion_tokens:count store:flag prompt_cache_key:text"
    " service_tier:text deferred:flag tools messages"
)
_CHUNK = Shape("choices usage error type:text service_tier:text timings")
_CHOICE = Shape("delta message text finish_reason:text error")
_DELTA = Shape("content tool_calls function_call refusal reasoning reasoning_content audio")
_RESPONSES_REQUEST = Shape(
    "model:text stream:flag max_output_tokens:count previous_response_id conversation store:flag background:flag"
    " prompt_cache_key:text service_tier:text tools instructions input"
)
_EVENT = Shape("type:text delta response error timings")
_READ = frozenset(CACHED)
_WRITTEN = frozenset(WRITTEN)
_DETAILS = Shape(" ".join(f"{name}:count" for name in dict.fromkeys((*CACHED, *WRITTEN))))
_USAGE = Shape(
    "prompt_tokens:count completion_tokens:count input_tokens:count output_tokens:count total_tokens:count "
    + " ".join(f"{name}:count" for name in dict.fromkeys((*CACHED, *WRITTEN))),
    prompt_tokens_details=_DETAILS,
    input_tokens_details=_DETAILS,
)
_REPLY = Shape("service_tier:text timings", usage=_USAGE)
_TIMINGS = Shape("prompt_ms predicted_ms")


def openai_usage(reply: Members, tier: str = "") -> Usage | None:
    """Read the `usage` of chat completions (`prompt_tokens` …) or of responses (`input_tokens` …)."""
    found = _USAGE.within(reply, "usage")
    prompt = json_fields.count(found, "prompt_tokens", "input_tokens")
    output = json_fields.count(found, "completion_tokens", "output_tokens")
    if prompt is None and output is None:
        return None
    chat = json_fields.filled(found, "prompt_tokens_details")
    details = _DETAILS.within(found, "prompt_tokens_details" if chat else "input_tokens_details")
    cached, written = _of_cache(details) or _of_cache(found) or (0, 0)
    if not (cached or written):
        return Usage(prompt or 0, 0, 0, output or 0, tier=tier)
    return usage_from(
        prompt or 0,
        output or 0,
        cached,
        written,
        total=json_fields.count(found, "total_tokens"),
        apart=not chat and "prompt_tokens" not in found and "input_tokens_details" not in found,
        tier=tier,
    )


def _of_cache(found: Members) -> tuple[int, int] | None:
    """Return what was read from and written into a cache; None where neither is stated."""
    cached = written = None
    for name in found:
        if name in _READ:
            cached = json_fields.count(found, name)
        elif name in _WRITTEN:
            written = json_fields.count(found, name)
    return None if cached is None and written is None else (cached or 0, written or 0)


def computed_in(reply: Members) -> Computed | None:
    """Return what llama.cpp says in `timings` (tools/server/README.md); None where it says nothing."""
    timings = _TIMINGS.within(reply, "timings")
    prompt_ms, answer_ms = json_fields.number(timings, "prompt_ms"), json_fields.number(timings, "predicted_ms")
    if prompt_ms is None or answer_ms is None or prompt_ms < 0 or answer_ms < 0:
        return None
    return Computed(prompt_ms / 1000, answer_ms / 1000)


def asking_usage(body: bytes) -> bytes:
    """Return the body of a request for a chat stream, asking for its usage too; all else as it was written."""
    return body.replace(b"{", b'{"stream_options":{"include_usage":true},', 1)


def without_usage(events: bytes) -> bytes:
    """Return whole events of a chat stream without the one that only brings its usage. Azure's first chunk has no
    choices either, but no usage."""
    if _NO_CHOICES.search(events) is None:
        return events
    return _DATA.sub(lambda each: b"" if _brings_usage(each[1]) else each[0], events)


def _brings_usage(data: bytes) -> bool:
    chunk = _CHUNK.read(data)
    none = "choices" in chunk and not bytes(json_fields.raw(chunk, "choices")).strip(b"[] ")
    return none and json_fields.filled(chunk, "usage")


def _error(status: int, reason: str, message: str) -> ErrorObject:
    kind = _ERROR_TYPES.get(status, "server_error" if status in RETRYABLE else "invalid_request_error")
    return {"message": message, "type": kind, "param": None, "code": reason}


class OpenAI(Dialect):
    """What the dialects have in common, also that of unknown paths."""

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return encode({"error": _error(status, reason, message)})

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        return b"data: " + self.error_body(status, reason, message, None) + b"\n\n"

    def upstream_error(self, failure: Failure, error: ErrorObject) -> bytes:
        return b"data: " + encode({"error": error}) + b"\n\n"

    def keepalive(self, client: str) -> bytes:
        """Return a newline: the only form that every streaming parser skips, those for compatible servers
        included."""
        return b"\n"


class OpenAIReader(Reader):
    """What the readers have in common."""

    __slots__ = ()

    def whole(self, body: bytes) -> None:
        reply, state = _REPLY.read(body), self.state
        state.tier = tier_of(json_fields.text(reply, "service_tier"), state.tier)
        state.usage = openai_usage(reply, state.tier) or usage_in(body, state.tier)
        if "timings" in reply:
            state.computed = computed_in(reply)

    def watch(self, body: bytes) -> None:
        self.state.work = background_work(RESPONSE.read(body), stated=True) or deferred_work(body) or self.state.work


class ChatReader(OpenAIReader):
    """Reader of one reply of chat completions or completions."""

    __slots__ = ("_head",)

    finish = b'"finish_reason"'

    def __init__(self) -> None:
        super().__init__()
        self._head = b"\n"
        """The last chunk's beginning, which is the same in all of a reply."""

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        if data.startswith(b"[DONE]"):
            self.state.unexplained = not self.state.decided
            self._complete()
            return
        chunk = _CHUNK.read(data)
        if is_error(name, chunk):
            self.state.error = classify_event(data)
            return
        choices = _CHOICE.items(chunk, "choices")
        for choice in choices:
            self._choice(choice)
        if not choices and not json_fields.filled(chunk, "usage"):
            self.state.error = self.state.error or failure_in(data)
        if choices and record.startswith(b"data: {"):
            self._head = record[: max(7, record.find(b'"choices"'))]
        state = self.state
        if "service_tier" in chunk:
            state.tier = tier_of(json_fields.text(chunk, "service_tier"), state.tier)
        if "timings" in chunk:
            state.computed = computed_in(chunk)
        usage = openai_usage(chunk, state.tier) if json_fields.filled(chunk, "usage") else None
        if usage is None and (state.decided or not choices):
            usage = usage_in(data, state.tier)
        if usage is not None:
            state.usage = usage
            state.usage_final = not choices

    def whole(self, body: bytes) -> None:
        super().whole(body)
        if self.state.usage is None or not self.state.usage.total:  # only what came tells (LM-Proxy)
            for choice in _CHOICE.items(_CHUNK.read(body), "choices"):
                message = _DELTA.within(choice, "message")
                self.state.output_chars += json_fields.length(choice, "text") + json_fields.length(message, *message)

    def content_size(self, record: bytes) -> int:
        # A member's name may be written in escapes too, of which those with \u00 are letters.
        if not record.startswith(self._head):
            return 0
        rest = record[len(self._head) :]
        if b"\n" in rest or b"\r" in rest or b'"error"' in rest or b"\\u00" in rest:
            return 0
        for name, null, spaced in _MARKS:
            if name in rest and rest.count(name) != rest.count(null) + rest.count(spaced):
                return 0
        return _without_padding(record)

    def _choice(self, choice: Members) -> None:
        delta = _DELTA.within(choice, "delta")
        chars = json_fields.length(choice, "text") + json_fields.length(delta, *delta)
        self.state.output_chars += chars
        if chars:
            self.state.content_started = True
        if json_fields.filled(choice, "error"):
            self.state.error = classify_event(b'{"error":%b}' % bytes(json_fields.raw(choice, "error")))
        elif json_fields.filled(choice, "finish_reason"):
            if failure := finish_failure(json_fields.text(choice, "finish_reason")):
                self.state.error = failure
            else:
                self.state.decided = self.state.content_started = True

    def _complete(self) -> None:
        if not self.state.content_started:
            self.state.error = self.state.error or EMPTY
            return
        self.state.complete = self.state.content_started = True
        self.state.usage_final = self.state.usage is not None

    def closed(self) -> None:
        """Complete after a finish reason too, since some compatible servers omit `[DONE]`."""
        if self.state.decided and not self.state.complete:
            self._complete()


class OpenAIChat(OpenAI):
    """Dialect of chat completions, completions and embeddings, at OpenAI, Azure and compatible servers."""

    name = "openai_chat"
    reader = ChatReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _CHAT_REQUEST.read(body)
        stream = json_fields.flag(request, "stream") is True
        deployment = _DEPLOYMENT.search(path)
        named = deployment[1] if deployment else named_by(path)[0]
        deferred = json_fields.flag(request, "deferred") is True
        return Facts(
            model=json_fields.text(request, "model") or named,
            stream=stream,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(request, "max_completion_tokens", "max_tokens"),
            continues_state=json_fields.flag(request, "store") is True or deferred,
            begins="background" if deferred else None,
            tier=tier_of(json_fields.text(request, "service_tier")),
            prefix=_prefix(request, body, "", "messages"),
            session=json_fields.text(request, "prompt_cache_key"),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def can_ask_usage(self, headers: Headers, body: bytes) -> bool:
        return body.lstrip().startswith(b"{") and b'"stream_options"' not in body and not is_encoded(headers)


def _prefix(request: Members, body: bytes, instructions: str, messages: str) -> int:
    if len(body) < PREFIX:
        return 0
    parts = request.get("tools"), request.get(instructions)
    return prefix(json_fields.text(request, "model"), parts, request.get(messages))


class ResponsesReader(OpenAIReader):
    """Reader of one response or its stream."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        event = _EVENT.read(data)
        state = self.state
        if not event and name != b"error":
            state.error = state.error or failure_in(data)
            return
        kind = kind_of(name, event)
        if kind.endswith(".delta"):
            state.content_started = True
            state.output_chars += json_fields.length(event, "delta")
        elif kind in _RESPONSE_CONTENT:
            state.content_started = True
        elif kind in _RESPONSE_END:
            self._close(kind, bytes(json_fields.raw(event, "response")))
            state.computed = computed_in(event)
        elif kind == "error":
            state.error = classify_event(data)
        elif state.watches and "response" in event:
            self.watch(bytes(json_fields.raw(event, "response")))
            # With the id a client can come back, and what goes on can't be tried again.
            state.content_started = state.content_started or (state.work is not None and state.work.sure)
        elif not kind.startswith("response."):
            state.error = state.error or failure_in(data)

    def content_size(self, record: bytes) -> int:
        end = record.find(b"\n")
        is_delta = end > 6 and record.startswith(b".delta\ndata: {", end - 6) and record.startswith(b"event: ")
        return _without_padding(record) if is_delta and record.count(b"\n") == 1 and b"\r" not in record else 0

    def _close(self, kind: str, response: bytes) -> None:
        state = self.state
        if state.watches:
            self.watch(response)
        self.whole(response)
        state.usage_final = state.usage is not None
        state.complete = True
        if kind == "response.failed":
            state.error = classify_event(response)
        else:
            state.content_started = True


class OpenAIResponses(OpenAI):
    """Dialect of responses and their compaction."""

    name = "openai_responses"
    reader = ResponsesReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _RESPONSES_REQUEST.read(body)
        stream = json_fields.flag(request, "stream") is True
        chained = json_fields.filled(request, "previous_response_id") or json_fields.filled(request, "conversation")
        # Without `store` OpenAI stores, but a client that didn't request it explicitly loses nothing by a retry.
        background = json_fields.flag(request, "background") is True
        stored = json_fields.flag(request, "store") is True or background
        return Facts(
            begins="background" if background else None,
            model=json_fields.text(request, "model"),
            stream=stream,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(request, "max_output_tokens"),
            continues_state=stored or chained,
            tier=tier_of(json_fields.text(request, "service_tier")),
            prefix=_prefix(request, body, "instructions", "input"),
            session=json_fields.text(request, "prompt_cache_key"),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        temporary = status in RETRYABLE
        error: ErrorObject = {"code": reason, "message": message, "type": _error(status, reason, message)["type"]}
        return _failed(_coded(error, form) if temporary else error, final=not temporary)

    def failure_event(self, failure: Failure, body: bytes, form: TryAgain = UNKNOWN) -> bytes:
        status = failure_status(failure)
        error = error_object(body) or _error(status, failure.kind.value, failure_text(failure))
        if failure.retryable:
            error = _coded(error, form, failure.delay_s)
        elif not isinstance(error.get("code"), str):
            error["code"] = str(error.get("type") or status)
        return _failed(error, final=not failure.retryable)

    def keepalive(self, client: str) -> bytes:
        """Return a newline; only Codex counts just parsed events as activity."""
        return b'event: ping\ndata: {"type":"ping"}\n\n' if client == "codex" else b"\n"


def _without_padding(record: bytes) -> int:
    """Return the length of a record without its padding."""
    size = len(record)
    start = record.find(_PADDING)
    if start < 0:
        return size
    start += len(_PADDING)
    return size - max(0, record.find(b'"', start) - start)


def _coded(error: ErrorObject, form: TryAgain, asked_s: float | None = None) -> ErrorObject:
    """Return a temporary error with a code that Codex retries; `server_is_overloaded` isn't one. It asks at once, and
    five times, unless the message of a `rate_limit_exceeded` says when."""
    if not form.reads_text:
        return error if error.get("code") == "rate_limit_exceeded" else {**error, "code": "server_error"}
    text = f"{error.get('message', '')} (Please try again in {form.delay_s(asked_s)}s.)"
    return {**error, "code": "rate_limit_exceeded", "message": text}


def _failed(error: ErrorObject, *, final: bool) -> bytes:
    """Return `response.failed` with the error where Codex looks for it and, too, where the SDKs look for one to raise.

    Codex asks again, five times, after any code but a few. Where that can't help it gets one of those.
    """
    told = error if not final or error.get("code") in _FINAL_FOR_CODEX else {**error, "code": "invalid_prompt"}
    response = {"id": "resp_hivemind", "object": "response", "status": "failed", "error": told, "output": []}
    event = {"type": "response.failed", "sequence_number": 0, "response": response, "error": error}
    return b"event: response.failed\ndata: " + encode(event) + b"\n\n"
