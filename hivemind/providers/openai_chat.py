"""OpenAI's chat completions, legacy completions and embeddings, also spoken by most other servers."""

from __future__ import annotations

import re
from itertools import islice

from msgspec import Raw, Struct

from hivemind.providers import json_fields
from hivemind.providers.base import Facts, Headers, StreamForm, Tap
from hivemind.providers.dialect import Dialect, encode
from hivemind.providers.encoding import decode_body
from hivemind.providers.errors import read_error
from hivemind.providers.openai_common import error_body, error_object, openai_usage, provider_error
from hivemind.providers.prompt import size_chars
from hivemind.providers.sse import fields
from hivemind.providers.taps import Reader, tap_for
from hivemind.providers.verdict import judge_event
from hivemind.scheduler.types import Failure

_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")


class _Request(Struct):
    model: Raw = Raw()
    stream: Raw = Raw()
    max_tokens: Raw = Raw()
    max_completion_tokens: Raw = Raw()
    store: Raw = Raw()
    prompt_cache_key: Raw = Raw()


class _Delta(Struct):
    content: Raw = Raw()
    tool_calls: Raw = Raw()
    function_call: Raw = Raw()
    refusal: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_content: Raw = Raw()
    audio: Raw = Raw()


class _Choice(Struct):
    delta: _Delta | None = None
    text: Raw = Raw()
    finish_reason: Raw = Raw()


class _Chunk(Struct):
    choices: list[_Choice] | None = None
    usage: Raw = Raw()
    error: Raw = Raw()


class _Whole(Struct):
    usage: Raw = Raw()


_request = json_fields.decoder(_Request)
_chunk = json_fields.decoder(_Chunk)
_whole = json_fields.decoder(_Whole)


class ChatReader(Reader):
    """Reader of one reply of chat completions or completions."""

    __slots__ = ("_finished",)

    def __init__(self) -> None:
        super().__init__()
        self._finished = False

    def record(self, record: bytes) -> None:
        name, data = fields(record)
        if data.startswith(b"[DONE]"):
            self._complete()
            return
        chunk = json_fields.read(_chunk, data)
        if chunk is None:
            return
        if name == b"error" or json_fields.filled(chunk.error):
            self.state.error = judge_event(read_error(data))
            return
        for choice in islice(chunk.choices or (), json_fields.MOST_ITEMS):
            self._choice(choice)
        if json_fields.filled(chunk.usage) and (usage := openai_usage(chunk.usage)):
            self.state.usage = usage
            self.state.usage_final = not chunk.choices

    def _choice(self, choice: _Choice) -> None:
        state = self.state
        delta = choice.delta
        parts = [choice.text]
        if delta is not None:
            parts += [delta.content, delta.tool_calls, delta.reasoning, delta.reasoning_content, delta.refusal]
            parts += [delta.function_call, delta.audio]
        chars = sum(map(json_fields.length, parts))
        state.output_chars += chars
        if json_fields.filled(choice.finish_reason):
            self._finished = True
        if chars or self._finished:
            state.content_started = True

    def _complete(self) -> None:
        self.state.complete = self.state.content_started = True
        self.state.usage_final = self.state.usage is not None

    def whole(self, body: bytes) -> None:
        found = json_fields.read(_whole, body)
        self.state.usage = openai_usage(found.usage) if found else None

    def closed(self) -> None:
        """Complete after a finish reason too, since some compatible servers omit `[DONE]`."""
        if self._finished and not self.state.complete:
            self._complete()


def _event_bytes(error: object) -> bytes:
    return b"data: " + encode({"error": error}) + b"\n\n"


class OpenAIChat(Dialect):
    """Dialect of chat completions, completions and embeddings, at OpenAI, Azure and compatible servers."""

    name = "openai_chat"

    def facts(self, path: str, query: str, headers: Headers, body: bytes) -> Facts:
        plain = decode_body(headers, body)
        found = json_fields.read(_request, plain) or _Request()
        stream = json_fields.flag(found.stream) is True
        deployment = _DEPLOYMENT.search(path)
        most = json_fields.count(found.max_completion_tokens)
        return Facts(
            model=json_fields.text(found.model) or (deployment[1] if deployment else ""),
            stream=stream,
            size_chars=size_chars(plain),
            max_output_tokens=json_fields.count(found.max_tokens) if most is None else most,
            continues_state=json_fields.flag(found.store) is True,
            session=json_fields.text(found.prompt_cache_key),
            form=StreamForm.SSE if stream else StreamForm.WHOLE,
        )

    def tap(self, status: int, headers: Headers, facts: Facts) -> Tap:
        return tap_for(ChatReader(), headers, facts)

    def error_body(self, status: int, reason: str, message: str, retry_s: int | None) -> bytes:
        return error_body(status, reason, message)

    def stream_error(self, status: int, reason: str, message: str) -> bytes:
        return _event_bytes(error_object(status, reason, message))

    def failure_event(self, failure: Failure, body: bytes) -> bytes:
        return _event_bytes(provider_error(failure, body))

    def keepalive(self, client: str) -> bytes:
        """Return a newline: the only form that every streaming parser skips, those for compatible servers
        included."""
        return b"\n"
