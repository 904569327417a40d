"""Ollama's own API (docs/api of ollama/ollama): newline-delimited JSON, streaming by default."""

from __future__ import annotations

import re

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.providers.dialect import Dialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader, tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure, Usage

_STREAMING = re.compile(r"/api/(?:chat|generate)/?$")


class _Options(Struct):
    num_predict: Raw = Raw()


class _Request(Struct):
    model: Raw = Raw()
    stream: Raw = Raw()
    options: Raw = Raw()


class _Message(Struct):
    content: Raw = Raw()
    thinking: Raw = Raw()
    tool_calls: Raw = Raw()


class _Object(Struct):
    message: Raw = Raw()
    response: Raw = Raw()
    thinking: Raw = Raw()
    done: Raw = Raw()
    error: Raw = Raw()
    prompt_eval_count: Raw = Raw()
    eval_count: Raw = Raw()


_request = json_fields.decoder(_Request)
_options = json_fields.decoder(_Options)
_object = json_fields.decoder(_Object)
_message = json_fields.decoder(_Message)


class OllamaReader(Reader):
    """Reader of one Ollama reply."""

    __slots__ = ()

    def record(self, record: bytes) -> None:
        data = record if record.startswith(b"{") else fields(record)[1]
        found = json_fields.read(_object, data)
        if found is None:
            return
        state = self.state
        if json_fields.filled(found.error):
            state.error = judge_event(read_error(data))
            return
        message = json_fields.read(_message, found.message) or _Message()
        parts = (message.content, message.thinking, message.tool_calls, found.response, found.thinking)
        chars = sum(map(json_fields.length, parts))
        state.output_chars += chars
        done = json_fields.flag(found.done) is True
        if chars or done:
            state.content_started = True
        if done:
            state.complete = True
            self._count(found)
            state.usage_final = state.usage is not None

    def whole(self, body: bytes) -> None:
        found = json_fields.read(_object, body)
        if found is not None:
            self._count(found)

    def _count(self, found: _Object) -> None:
        prompt = json_fields.count(found.prompt_eval_count)
        output = json_fields.count(found.eval_count)
        if prompt is not None or output is not None:
            self.state.usage = Usage(input_tokens=prompt or 0, output_tokens=output or 0)


class Ollama(Dialect):
    """Dialect of chat, generate and embeddings."""

    name = "ollama"
    form = StreamForm.NDJSON

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = json_fields.read(_request, plain) or _Request()
        options = json_fields.read(_options, found.options) or _Options()
        stream = _STREAMING.search(path) is not None and json_fields.flag(found.stream) is not False
        return Facts(
            model=json_fields.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=json_fields.count(options.num_predict),
            form=StreamForm.NDJSON if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(OllamaReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return encode({"error": message})

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        return self.error_body(status, reason, message, None) + b"\n"

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        message = read_error(body).message
        return self.stream_error(failure_status(failure), failure.kind.value, message or failure.message)

    def keepalive(self, client: str) -> bytes:
        """Return a space before the next object. Ollama's Python client fails to parse an empty line."""
        return b" "
