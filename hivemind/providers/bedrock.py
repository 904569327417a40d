"""Amazon Bedrock's own API: invoke (the model's native format) and converse, whose streams are binary frames
(application/vnd.amazon.eventstream)."""

from __future__ import annotations

import re

from hivemind.providers import json_fields
from hivemind.providers.anthropic import Anthropic, AnthropicReader
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.counts import usage_in
from hivemind.providers.dialect import encode, failure_status
from hivemind.providers.errors import ErrorObject, classify_event
from hivemind.providers.failing import finish_failure
from hivemind.providers.frames import frame
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.known import named_by
from hivemind.providers.outline import PREFIX, prefix, size_chars
from hivemind.providers.sse import fields
from hivemind.scheduler.types import Failure

_ERRORS = {400: "validationException", 429: "throttlingException", 503: "serviceUnavailableException"}

_CONFIG = Shape("maxTokens:count")
_REQUEST = Shape("max_tokens:count tools toolConfig system messages", inferenceConfig=_CONFIG)
_EVENT = Shape("delta stopReason:text")
_DELTA = Shape("text toolUse reasoningContent")
_EMPTY = re.compile(rb'"(?:generation|outputText|completion|text)"\s{0,4}:\s{0,4}""')


class BedrockReader(AnthropicReader):
    """Reader of Claude's events, of converse's, and of other models' as far as they state what they used."""

    __slots__ = ("_is_other",)

    def __init__(self) -> None:
        super().__init__()
        self._is_other = False
        """The events are those of a model whose format isn't known, so its end isn't either."""

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        state = self.state
        if name == b"contentBlockDelta":
            delta = _DELTA.within(_EVENT.read(data), "delta")
            state.content_started = True
            state.output_chars += json_fields.length(delta, "text", "toolUse", "reasoningContent")
        elif name == b"messageStop":
            state.error = finish_failure(json_fields.text(_EVENT.read(data), "stopReason"))
            state.decided = state.content_started = state.error is None or state.content_started
        elif name == b"metadata":
            state.usage = usage_in(data, state.tier)
            state.usage_final = state.usage is not None
            state.complete = state.decided
        elif name == b"error":
            state.error = classify_event(data)
        elif not name and data and b'"type"' not in data and b'"error"' not in data:
            self._other(data)
        else:
            super().record(record)
            if b"invocationMetrics" in data and (usage := usage_in(data, state.tier)):
                state.usage, state.usage_final = usage, True

    def _other(self, data: bytes) -> None:
        state = self.state
        self._is_other = True
        state.content_started = state.content_started or not _EMPTY.search(data)
        state.output_chars += len(data) // 2
        if usage := usage_in(data, state.tier):
            state.usage, state.usage_final = usage, True

    def closed(self) -> None:
        super().closed()
        self.state.complete = self.state.complete or self._is_other


class Bedrock(Anthropic):
    """Dialect of invoke and converse; the path names the model, and whether it streams."""

    name = "bedrock"
    form = StreamForm.FRAMES
    reader = BedrockReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _REQUEST.read(body)
        model, stream = named_by(path)
        config = json_fields.count(_CONFIG.within(request, "inferenceConfig"), "maxTokens")
        return Facts(
            model=model,
            stream=stream is True,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(request, "max_tokens") or config,
            prefix=_prefix(model, request, body),
            form=StreamForm.FRAMES if stream else StreamForm.WHOLE,
        )

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return encode({"__type": _exception(status), "message": message})

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        names = {":exception-type": _exception(status), ":content-type": "application/json"}
        return frame({**names, ":message-type": "exception"}, encode({"message": message}))

    def upstream_error(self, failure: Failure, error: ErrorObject) -> bytes:
        text = str(error.get("message") or failure.message)
        return self.stream_error(failure_status(failure), failure.kind.value, text)

    def keepalive(self, client: str) -> bytes:
        """Return nothing: no frame is skipped by every client."""
        return b""


def _prefix(model: str, request: Members, body: bytes) -> int:
    """Return what the cache knows the prompt by, which converse marks in its own way, and invoke in Claude's."""
    if len(body) < PREFIX:
        return 0
    mark = b'"cachePoint"' if b'"cachePoint"' in body else b'"cache_control"'
    return prefix(model, map(request.get, ("tools", "toolConfig", "system")), request.get("messages"), mark)


def _exception(status: int) -> str:
    return _ERRORS.get(status, "internalServerException" if status >= 500 else "validationException")
