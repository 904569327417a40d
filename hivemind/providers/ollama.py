"""Ollama's own API (docs/api of ollama/ollama): newline-delimited JSON, streaming unless told otherwise."""

from __future__ import annotations

import re

from msgspec import Raw, Struct

from hivemind.providers import jsonread
from hivemind.providers.base import Facts, Headers, StreamForm, Tap, TapState
from hivemind.providers.dialect import JsonDialect, encode, failure_status
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.tapping import tap_for
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


_request = jsonread.decoder(_Request)
_options = jsonread.decoder(_Options)
_object = jsonread.decoder(_Object)
_message = jsonread.decoder(_Message)


class OllamaReader:
    """Counts one reply."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = TapState()

    def record(self, record: bytes) -> None:
        data = record if record.startswith(b"{") else fields(record)[1]
        found = jsonread.read(_object, data)
        if found is None:
            return
        state = self.state
        if jsonread.filled(found.error):
            state.error = judge_event(read_error(data))
            return
        message = jsonread.read(_message, found.message) or _Message()
        parts = (message.content, message.thinking, message.tool_calls, found.response, found.thinking)
        chars = sum(map(jsonread.length, parts))
        state.output_chars += chars
        done = jsonread.flag(found.done) is True
        if chars or done:
            state.content_started = True
        if done:
            state.complete = True
            self._count(found)
            state.usage_final = state.usage is not None

    def whole(self, body: bytes) -> None:
        found = jsonread.read(_object, body)
        if found is not None:
            self._count(found)

    def closed(self) -> None:
        """Only `done` completes a reply."""

    def _count(self, found: _Object) -> None:
        prompt = jsonread.count(found.prompt_eval_count)
        output = jsonread.count(found.eval_count)
        if prompt is not None or output is not None:
            self.state.usage = Usage(input_tokens=prompt or 0, output_tokens=output or 0)


class Ollama(JsonDialect):
    """Chat, generate and embeddings."""

    name = "ollama"
    form = StreamForm.NDJSON

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = jsonread.read(_request, plain) or _Request()
        options = jsonread.read(_options, found.options) or _Options()
        stream = _STREAMING.search(path) is not None and jsonread.flag(found.stream) is not False
        return Facts(
            model=jsonread.text(found.model),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=jsonread.count(options.num_predict),
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
        """A space before the next object. An empty line would be parsed, and fail, in Ollama's Python client."""
        return b" "
