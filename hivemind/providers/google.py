"""Google's Gemini API: the generateContent family, and interactions as far as they share its format."""

from __future__ import annotations

import re
from urllib.parse import unquote

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.dialect import Dialect, encode, failure_status
from hivemind.providers.errors import ErrorObject, classify_event, is_error
from hivemind.providers.failing import failure_in
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.outline import PREFIX, prefix, size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader
from hivemind.providers.tiers import tier_of
from hivemind.providers.work import RESPONSE, background_work, batch_facts
from hivemind.scheduler.types import Failure, Usage

MODEL_CALL = re.compile(r"/models/([^/:]+):([A-Za-z]+)$")
"""Model and method of a path; Google names the model there and not in the body."""
_INTERNAL_CALL = re.compile(r"/v1internal:([A-Za-z]+)$")
"""Method of a path of Code Assist, which wraps request and reply and names the model in the body."""
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


_REQUEST = Shape(
    "model stream generationConfig generation_config previous_interaction_id store background"
    " serviceTier:text service_tier:text request cachedContent systemInstruction system_instruction tools contents"
)
_GENERATION = Shape("maxOutputTokens max_output_tokens")
_CHUNK = Shape(
    "type:text candidates usageMetadata promptFeedback error event_type interaction delta usage service_tier:text"
    " response"
)
_CANDIDATE = Shape("content finishReason")
_CONTENT = Shape("parts")
_FEEDBACK = Shape("blockReason")
_USAGE_METADATA = Shape(
    "promptTokenCount cachedContentTokenCount candidatesTokenCount thoughtsTokenCount toolUsePromptTokenCount"
    " serviceTier:text trafficType:text"
)
_INTERACTION_USAGE = Shape(
    "total_input_tokens total_cached_tokens total_output_tokens total_thought_tokens total_tool_use_tokens"
)


class GoogleReader(Reader):
    """Reader of one generated content or interaction."""

    __slots__ = ()

    finish = b'"finishReason"'

    def record(self, record: bytes) -> None:
        # An error in the middle of a stream comes as bare JSON, without `data:`.
        name, data = (b"", record) if record.lstrip().startswith(b"{") else fields(record)
        chunk = _CHUNK.read(data)
        if is_error(name, chunk):
            self.state.error = classify_event(data)
        elif json_fields.filled(chunk, "event_type"):
            self._interaction(json_fields.text(chunk, "event_type"), chunk)
        else:
            if "response" in chunk:
                chunk = _CHUNK.within(chunk, "response")
            self._generated(chunk)
            if "candidates" not in chunk and "usageMetadata" not in chunk and "promptFeedback" not in chunk:
                self.state.error = self.state.error or failure_in(data)

    def _generated(self, chunk: Members) -> None:
        state = self.state
        for candidate in _CANDIDATE.items(chunk, "candidates"):
            for part in json_fields.objects(_CONTENT.within(candidate, "content"), "parts"):
                state.output_chars += json_fields.length(part, "text")
                state.content_started = state.content_started or any(json_fields.filled(part, name) for name in part)
            if json_fields.filled(candidate, "finishReason"):
                state.content_started = state.complete = True
        if json_fields.filled(_FEEDBACK.within(chunk, "promptFeedback"), "blockReason"):
            state.content_started = state.complete = True
        state.usage = self._generated_usage(chunk) or state.usage
        state.usage_final = state.complete and state.usage is not None

    def _interaction(self, kind: str, chunk: Members) -> None:
        state = self.state
        if state.watches and "interaction" in chunk:
            self.watch(bytes(json_fields.raw(chunk, "interaction")))
            state.content_started = state.content_started or (state.work is not None and state.work.sure)
        if kind.endswith(".delta"):
            state.content_started = True
            state.output_chars += json_fields.length(chunk, "delta")
        elif kind in ("content.start", "step.start"):
            state.content_started = True
        elif kind in ("interaction.complete", "interaction.completed"):
            state.usage = self._interaction_usage(_CHUNK.within(chunk, "interaction")) or state.usage
            state.content_started = state.complete = True
            state.usage_final = state.usage is not None
        elif kind == "error":
            state.error = classify_event(b"")

    def whole(self, body: bytes) -> None:
        for each in [one] if (one := _CHUNK.read(body)) else _CHUNK.all_in(body):
            chunk = _CHUNK.within(each, "response") or each
            self.state.usage = self._generated_usage(chunk) or self._interaction_usage(chunk) or self.state.usage

    def watch(self, body: bytes) -> None:
        self.state.work = background_work(RESPONSE.read(body), stated=True) or self.state.work

    def _generated_usage(self, chunk: Members) -> Usage | None:
        found = _USAGE_METADATA.within(chunk, "usageMetadata")
        return self._usage(
            json_fields.text(found, "serviceTier") or json_fields.text(found, "trafficType"),  # Vertex has the latter
            json_fields.total(found, "promptTokenCount", "toolUsePromptTokenCount"),
            json_fields.total(found, "cachedContentTokenCount"),
            json_fields.total(found, "candidatesTokenCount", "thoughtsTokenCount"),
        )

    def _interaction_usage(self, interaction: Members) -> Usage | None:
        found = _INTERACTION_USAGE.within(interaction, "usage")
        return self._usage(
            json_fields.text(interaction, "service_tier"),
            json_fields.total(found, "total_input_tokens", "total_tool_use_tokens"),
            json_fields.total(found, "total_cached_tokens"),
            json_fields.total(found, "total_output_tokens", "total_thought_tokens"),
        )

    def _usage(self, tier: str, prompt: int, cached: int, output: int) -> Usage | None:
        self.state.tier = tier_of(tier, self.state.tier)
        read = min(prompt, cached)
        return Usage(prompt - read, read, 0, output, tier=self.state.tier) if prompt or output else None


class Google(Dialect):
    """Dialect of generateContent, streamGenerateContent, embeddings and interactions."""

    name = "google"

    reader = GoogleReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = outer = _REQUEST.read(body)
        call, internal = MODEL_CALL.search(path), _INTERNAL_CALL.search(path)
        if internal:
            request = _REQUEST.within(outer, "request")
        form = _form(call[2] if call else internal[1] if internal else "", query, request)
        if call is not None and call[2] in _BATCH_METHODS:
            return batch_facts(unquote(call[1]))
        camel = json_fields.filled(request, "generationConfig")
        generation = _GENERATION.within(request, "generationConfig" if camel else "generation_config")
        background = json_fields.flag(request, "background") is True
        stored = json_fields.flag(request, "store") is True or background
        return Facts(
            model=unquote(call[1]) if call else json_fields.text(outer, "model"),
            stream=form is StreamForm.SSE,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(generation, "maxOutputTokens", "max_output_tokens"),
            continues_state=stored or json_fields.filled(request, "previous_interaction_id"),
            tier=tier_of(_tier(request)),
            prefix=_prefix(unquote(call[1]) if call else json_fields.text(outer, "model"), request, body),
            begins="background" if background else None,
            form=form,
        )

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        """Include RetryInfo, from which Google's clients read the delay."""
        details: list[object] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": reason.upper()}]
        if retry_s is not None:
            details.append({"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{retry_s}s"})
        name = _STATUS_NAMES.get(status, "UNAVAILABLE" if status >= 500 else "FAILED_PRECONDITION")
        return encode({"error": {"code": status, "message": message, "status": name, "details": details}})

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        """Return bare JSON on one line, as Google ends a stream with an error: its Python SDK raises it in any
        form, its JavaScript SDK only without `data:` and a blank line."""
        return self.error_body(status, reason, message, None) + b"\n"

    def upstream_error(self, failure: Failure, error: ErrorObject) -> bytes:
        code = error.get("code")
        code = code if isinstance(code, int) else failure_status(failure)
        return encode({"error": {**error, "code": code}}) + b"\n"

    def keepalive(self, client: str) -> bytes:
        """Return a newline; Google's parsers treat anything else as content."""
        return b"\n"


def _prefix(model: str, request: Members, body: bytes) -> int:
    """Return what an implicit cache knows the prompt by; 0 where it begins with a cache that was made before."""
    if len(body) < PREFIX or json_fields.filled(request, "cachedContent"):
        return 0
    parts = map(request.get, ("systemInstruction", "system_instruction", "tools"))
    return prefix(model, parts, request.get("contents"))


def _tier(request: Members) -> str:
    return json_fields.text(request, "serviceTier") or json_fields.text(request, "service_tier")


def _form(method: str, query: str, request: Members) -> StreamForm:
    if method == "streamGenerateContent":
        return StreamForm.SSE if _SSE_QUERY.search(query) else StreamForm.JSON_ARRAY
    return StreamForm.SSE if not method and json_fields.flag(request, "stream") is True else StreamForm.WHOLE
