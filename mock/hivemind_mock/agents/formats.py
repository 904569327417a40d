"""The client's side of every wire format: requests, and reading of responses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_MAX_TOKENS = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """One request, ready to be sent to a base URL."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Heard:
    """What a whole response with status 200 says."""

    tokens: int
    """Input and output together, as the provider says."""
    error: str
    """Empty: the answer is whole. Else what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Voice:
    """How to speak one wire format."""

    ask: Callable[[str, str, bool], Question]
    """From model, prompt and whether to stream."""
    hear: Callable[[bytes, bool], Heard]
    """From the body and whether it was a stream."""


def _question(path: str, body: Mapping[str, object], *headers: tuple[str, str]) -> Question:
    data = msgspec.json.encode(body)
    sent = (("content-type", "application/json"), ("content-length", str(len(data))), *headers)
    return Question(path, sent, data)


def _events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON data of every server-sent event; `[DONE]` becomes an event of that type."""
    for line in body.splitlines():
        if line.startswith(b"data: "):
            data = line[6:]
            yield {"type": "[DONE]"} if data == b"[DONE]" else msgspec.json.decode(data, type=dict)


def _judge(tokens: int, *, ended: bool, error: object = None) -> Heard:
    if error:
        return Heard(tokens, f"error event: {error}")
    return Heard(tokens, "" if ended else "truncated")


def _ask_anthropic(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "max_tokens": _MAX_TOKENS, "stream": stream, "messages": messages}
    return _question("/v1/messages", body, ("x-api-key", "mock-key"), ("anthropic-version", "2023-06-01"))


def _hear_anthropic(body: bytes, stream: bool) -> Heard:
    if not stream:
        usage = msgspec.json.decode(body)["usage"]
        return Heard(usage["input_tokens"] + usage["output_tokens"], "")
    taken = produced = 0
    ended, error = False, None
    for event in _events(body):
        if event["type"] == "message_start":
            taken = event["message"]["usage"]["input_tokens"]
        elif event["type"] == "message_delta":
            produced = event["usage"]["output_tokens"]
        elif event["type"] == "error":
            error = event["error"]["message"]
        ended = event["type"] == "message_stop"
    return _judge(taken + produced, ended=ended, error=error)


def _ask_chat(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    body: dict[str, object] = {"model": model, "max_completion_tokens": _MAX_TOKENS, "messages": messages}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return _question("/v1/chat/completions", body, ("authorization", "Bearer mock-key"))


def _hear_chat(body: bytes, stream: bool) -> Heard:
    if not stream:
        return Heard(msgspec.json.decode(body)["usage"]["total_tokens"], "")
    tokens, ended, error = 0, False, None
    for event in _events(body):
        if event.get("usage"):
            tokens = event["usage"]["total_tokens"]
        error = error or event.get("error")
        ended = event.get("type") == "[DONE]"
    return _judge(tokens, ended=ended, error=error)


def _ask_responses(model: str, prompt: str, stream: bool) -> Question:
    body = {"model": model, "max_output_tokens": _MAX_TOKENS, "stream": stream, "input": prompt, "store": False}
    return _question("/v1/responses", body, ("authorization", "Bearer mock-key"))


def _hear_responses(body: bytes, stream: bool) -> Heard:
    if not stream:
        return Heard(msgspec.json.decode(body)["usage"]["total_tokens"], "")
    tokens, ended, error = 0, False, None
    for event in _events(body):
        if event["type"] in ("response.completed", "response.incomplete"):
            tokens, ended = event["response"]["usage"]["total_tokens"], True
        elif event["type"] in ("error", "response.failed"):
            error = event
    return _judge(tokens, ended=ended, error=error)


def _ask_google(model: str, prompt: str, stream: bool) -> Question:
    operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
    contents = [{"role": "user", "parts": [{"text": prompt}]}]
    body = {"contents": contents, "generationConfig": {"maxOutputTokens": _MAX_TOKENS}}
    return _question(f"/v1beta/models/{model}:{operation}", body, ("x-goog-api-key", "mock-key"))


def _hear_google(body: bytes, stream: bool) -> Heard:
    tokens, ended, error = 0, False, None
    for chunk in _events(body) if stream else (msgspec.json.decode(body),):
        error = error or chunk.get("error")
        tokens = chunk.get("usageMetadata", {}).get("totalTokenCount", tokens)
        ended = any("finishReason" in candidate for candidate in chunk.get("candidates", ()))
    return _judge(tokens, ended=ended, error=error)


def _ask_ollama(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    return _question("/api/chat", {"model": model, "stream": stream, "messages": messages})


def _hear_ollama(body: bytes, stream: bool) -> Heard:
    tokens, ended, error = 0, False, None
    for line in body.splitlines():
        chunk = msgspec.json.decode(line)
        error = error or chunk.get("error")
        if chunk.get("done"):
            tokens, ended = chunk["prompt_eval_count"] + chunk["eval_count"], True
    return _judge(tokens, ended=ended, error=error)


VOICES = {
    "anthropic": Voice(_ask_anthropic, _hear_anthropic),
    "openai_chat": Voice(_ask_chat, _hear_chat),
    "openai_responses": Voice(_ask_responses, _hear_responses),
    "google": Voice(_ask_google, _hear_google),
    "ollama": Voice(_ask_ollama, _hear_ollama),
}
"""By the names of :data:`hivemind_mock.provider.formats.FORMATS`."""
