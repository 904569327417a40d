"""Google's Gemini API: the generateContent family, and interactions as far as they share its format."""

from __future__ import annotations

import re
from urllib.parse import unquote

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.providers.dialect import Dialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import ErrorInfo, read_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader, tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure, Usage

MODEL_CALL = re.compile(r"/models/([^/:]+):([A-Za-z]+)$")
"""Model and method of a path; Google names the model there and not in the body."""
_BATCH_METHODS = frozenset({"batchGenerateContent", "asyncBatchEmbedContent"})
"""Batches, which are processed later; their reply has no usage."""
_SSE_QUERY = re.compile(r"(?:^|&)alt=sse(?:&|$)")
_STATUS_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class _Generation(Struct):
    maxOutputTokens: Raw = Raw()
    max_output_tokens: Raw = Raw()


class _Request(Struct):
    model: Raw = Raw()
    stream: Raw = Raw()
    generationConfig: Raw = Raw()
    generation_config: Raw = Raw()
    previous_interaction_id: Raw = Raw()
    store: Raw = Raw()
    background: Raw = Raw()


class _Content(Struct):
    parts: list[dict[str, Raw]] | None = None


class _Candidate(Struct):
    content: _Content | None = None
    finishReason: Raw = Raw()


class _Feedback(Struct):
    blockReason: Raw = Raw()


class _Chunk(Struct):
    candidates: list[_Candidate] | None = None
    usageMetadata: Raw = Raw()
    promptFeedback: _Feedback | None = None
    error: Raw = Raw()
    event_type: Raw = Raw()
    interaction: Raw = Raw()
    delta: Raw = Raw()
    usage: Raw = Raw()


class _Usage(Struct):
    promptTokenCount: Raw = Raw()
    cachedContentTokenCount: Raw = Raw()
    candidatesTokenCount: Raw = Raw()
    thoughtsTokenCount: Raw = Raw()
    toolUsePromptTokenCount: Raw = Raw()


class _InteractionUsage(Struct):
    total_input_tokens: Raw = Raw()
    total_cached_tokens: Raw = Raw()
    total_output_tokens: Raw = Raw()
    total_thought_tokens: Raw = Raw()
    total_tool_use_tokens: Raw = Raw()


_request = json_fields.decoder(_Request)
_generation = json_fields.decoder(_Generation)
_chunk = json_fields.decoder(_Chunk)
_chunks = json_fields.decoder(list[_Chunk])
_usage = json_fields.decoder(_Usage)
_interaction_usage = json_fields.decoder(_InteractionUsage)


class GoogleReader(Reader):
    """Reader of one generated content or interaction."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        # An error in the middle of a stream comes as bare JSON, without `data:`.
        data = record if record.lstrip().startswith(b"{") else fields(record)[1]
        chunk = json_fields.read(_chunk, data)
        if chunk is None:
            return
        if json_fields.filled(chunk.error):
            self.state.error = judge_event(read_error(data))
        elif json_fields.filled(chunk.event_type):
            self._interaction(json_fields.text(chunk.event_type), chunk)
        else:
            self._generated(chunk)

    def _generated(self, chunk: _Chunk) -> None:
        state = self.state
        for candidate in (chunk.candidates or ())[: json_fields.MOST_ITEMS]:
            for part in ((candidate.content and candidate.content.parts) or ())[: json_fields.MOST_ITEMS]:
                state.output_chars += json_fields.length(part["text"]) if "text" in part else 0
                state.content_started = state.content_started or any(map(json_fields.filled, part.values()))
            if json_fields.filled(candidate.finishReason):
                state.content_started = state.complete = True
        if chunk.promptFeedback is not None and json_fields.filled(chunk.promptFeedback.blockReason):
            state.content_started = state.complete = True
        state.usage = _generated_usage(chunk.usageMetadata) or state.usage
        state.usage_final = state.complete and state.usage is not None

    def _interaction(self, kind: str, chunk: _Chunk) -> None:
        state = self.state
        if kind.endswith(".delta"):
            state.content_started = True
            state.output_chars += json_fields.length(chunk.delta)
        elif kind in ("content.start", "step.start"):
            state.content_started = True
        elif kind in ("interaction.complete", "interaction.completed"):
            self._interaction_done(chunk.interaction)
            state.content_started = state.complete = True
            state.usage_final = state.usage is not None
        elif kind == "error":
            state.error = judge_event(ErrorInfo())

    def _interaction_done(self, raw: Raw) -> None:
        found = json_fields.read(_chunk, raw)
        if found is not None:
            self.state.usage = _interaction_usage_of(found.usage) or self.state.usage

    def whole(self, body: bytes) -> None:
        one = json_fields.read(_chunk, body)
        for chunk in [one] if one else json_fields.several(_chunks, body):
            usage = _generated_usage(chunk.usageMetadata) or _interaction_usage_of(chunk.usage)
            self.state.usage = usage or self.state.usage


def _generated_usage(raw: Raw) -> Usage | None:
    found = json_fields.read(_usage, raw)
    if found is None:
        return None
    prompt = _sum(found.promptTokenCount, found.toolUsePromptTokenCount)
    return _parts(prompt, found.cachedContentTokenCount, _sum(found.candidatesTokenCount, found.thoughtsTokenCount))


def _interaction_usage_of(raw: Raw) -> Usage | None:
    found = json_fields.read(_interaction_usage, raw)
    if found is None:
        return None
    prompt = _sum(found.total_input_tokens, found.total_tool_use_tokens)
    return _parts(prompt, found.total_cached_tokens, _sum(found.total_output_tokens, found.total_thought_tokens))


def _parts(prompt: int, cached: Raw, output: int) -> Usage | None:
    read = min(prompt, json_fields.count(cached) or 0)
    return Usage(prompt - read, read, 0, output) if prompt or output else None


def _sum(*counts: Raw) -> int:
    return sum(json_fields.count(count) or 0 for count in counts)


class Google(Dialect):
    """Dialect of generateContent, streamGenerateContent, embeddings and interactions."""

    name = "google"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = json_fields.read(_request, plain) or _Request()
        call = MODEL_CALL.search(path)
        form = _form(call[2] if call else "", query, found)
        batch = call is not None and call[2] in _BATCH_METHODS
        config = found.generationConfig if json_fields.filled(found.generationConfig) else found.generation_config
        generation = json_fields.read(_generation, config) or _Generation()
        most = json_fields.count(generation.maxOutputTokens)
        return Facts(
            model=unquote(call[1]) if call else json_fields.text(found.model),
            stream=form is StreamForm.SSE,
            size_chars=size_chars(plain),
            max_output_tokens=json_fields.count(generation.max_output_tokens) if most is None else most,
            continues_state=batch or _continues(found),
            unmetered=batch,
            form=form,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(GoogleReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        """Include RetryInfo, from which Google's clients read the delay."""
        details: list[object] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason.upper()}]
        if retry_s is not None:
            details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_s}s"})
        name = _STATUS_NAMES.get(status, "UNAVAILABLE" if status >= 500 else "FAILED_PRECONDITION")
        return encode({"error": {"code": status, "message": message, "status": name, "details": details}})

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        """Return bare JSON on one line, as Google ends a stream with an error: its Python SDK raises it in any
        form, its JavaScript SDK only without `data:` and a blank line."""
        return self.error_body(status, reason, message, None) + b"\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        envelope = json_fields.anything(body)
        if isinstance(envelope, list) and envelope:
            envelope = envelope[0]
        error = envelope.get("error") if isinstance(envelope, dict) else None
        status = failure_status(failure)
        if not isinstance(error, dict):
            return self.stream_error(status, failure.kind.value, failure.message)
        code = error.get("code")
        return encode({"error": {**error, "code": code if isinstance(code, int) else status}}) + b"\n"

    def keepalive(self, client: str) -> bytes:
        """Return a newline; Google's parsers treat anything else as content."""
        return b"\n"


def _form(method: str, query: str, found: _Request) -> StreamForm:
    if method == "streamGenerateContent":
        return StreamForm.SSE if _SSE_QUERY.search(query) else StreamForm.JSON_ARRAY
    return StreamForm.SSE if not method and json_fields.flag(found.stream) is True else StreamForm.WHOLE


def _continues(found: _Request) -> bool:
    stored = json_fields.flag(found.store) is True or json_fields.flag(found.background) is True
    return stored or json_fields.filled(found.previous_interaction_id)
