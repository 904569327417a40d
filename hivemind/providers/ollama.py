"""Ollama's own API (docs/api of ollama/ollama): newline-delimited JSON, streaming by default."""

from __future__ import annotations

import re

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, StreamForm
from hivemind.providers.clients import UNKNOWN, TryAgain
from hivemind.providers.dialect import Dialect, encode, failure_status, failure_text
from hivemind.providers.errors import classify_event, is_error, read_error
from hivemind.providers.failing import failure_in
from hivemind.providers.json_fields import Members, Shape
from hivemind.providers.outline import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader
from hivemind.scheduler.types import Computed, Failure, Usage

_STREAMING = re.compile(r"/api/(?:chat|generate)/?$")
_REQUEST = Shape("model stream options")
_OPTIONS = Shape("num_predict")
_OBJECT = Shape(
    "type:text message response thinking done error prompt_eval_count eval_count prompt_eval_duration eval_duration"
)
_MESSAGE = Shape("content thinking tool_calls")


class OllamaReader(Reader):
    """Reader of one Ollama reply."""

    __slots__ = ("_is_own",)

    def __init__(self) -> None:
        super().__init__()
        self._is_own = False
        """It has the member by which Ollama says whether more comes."""

    def record(self, record: bytes) -> None:
        data = record if record.startswith(b"{") else fields(record)[1]
        found = _OBJECT.read(data)
        state = self.state
        if is_error(b"", found):
            state.error = classify_event(data)
            return
        if not found:
            state.error = state.error or failure_in(data)
        message = _MESSAGE.within(found, "message")
        chars = json_fields.length(message, "content", "thinking", "tool_calls")
        chars += json_fields.length(found, "response", "thinking")
        state.output_chars += chars
        done = json_fields.flag(found, "done") is True
        self._is_own = self._is_own or "done" in found
        if chars or done:
            state.content_started = True
        if done:
            state.complete = True
            self._count(found)
            state.usage_final = state.usage is not None

    def content_size(self, record: bytes) -> int:
        # A member's name may be written in escapes too, of which those with \u00 are letters.
        if not record.startswith(b"{") or b"\n" in record or b'"error"' in record or b"\\u00" in record:
            return 0
        if record.count(b'"done"') != record.count(b'"done":false') + record.count(b'"done": false'):
            return 0
        return len(record)

    def is_part_of_stream(self, *, is_json: bool) -> bool:
        return self._is_own or (self.state.output_chars > 0 and not is_json)

    def whole(self, body: bytes) -> None:
        self._count(_OBJECT.read(body))

    def _count(self, found: Members) -> None:
        prompt = json_fields.count(found, "prompt_eval_count")
        output = json_fields.count(found, "eval_count")
        if prompt is not None or output is not None:
            self.state.usage = Usage(input_tokens=prompt or 0, output_tokens=output or 0)
        prompt_ns = json_fields.count(found, "prompt_eval_duration")
        answer_ns = json_fields.count(found, "eval_duration")
        if prompt_ns is not None and answer_ns is not None:
            self.state.computed = Computed(prompt_ns / 1e9, answer_ns / 1e9)


class Ollama(Dialect):
    """Dialect of chat, generate and embeddings."""

    name = "ollama"
    form = StreamForm.NDJSON
    reader = OllamaReader

    def request_facts(self, path: str, query: str, body: bytes) -> Facts:
        request = _REQUEST.read(body)
        stream = _STREAMING.search(path) is not None and json_fields.flag(request, "stream") is not False
        return Facts(
            model=json_fields.text(request, "model"),
            stream=stream,
            size_chars=size_chars(body),
            max_output_tokens=json_fields.count(_OPTIONS.within(request, "options"), "num_predict"),
            form=StreamForm.NDJSON if stream else StreamForm.WHOLE,
        )

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return encode({"error": message})

    def stream_error(self, status: int, reason: str, message: str, form: TryAgain = UNKNOWN) -> bytes:
        return self.error_body(status, reason, message, None) + b"\n"

    def failure_event(self, failure: Failure, body: bytes, form: TryAgain = UNKNOWN) -> bytes:
        message = read_error(body).message
        return self.stream_error(failure_status(failure), failure.kind.value, message or failure_text(failure))

    def keepalive(self, client: str) -> bytes:
        """Return a space before the next object. Ollama's Python client fails to parse an empty line."""
        return b" "
