"""Synthetic requests as large as the recorded ones, for answers as long, in the form of the recorded API.

Each differs from all others, so that none is answered from a cache or joined with another, but requests of one agent
begin alike, as those of a conversation do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote

import msgspec

from hivemind.lab.loadtest.requests import RecordedRequest
from hivemind.providers.detect import dialect_for
from hivemind.scheduler.types import record

_WORDS = (
    "the scheduler keeps a queue of requests and lets each of them go when there is room for it, while the provider"
    " counts what was used in every minute and says in its answers how much of that is left for the others to take; "
)
_BLOCK = _WORDS * (65_536 // len(_WORDS) + 1)
_LONGEST_PROMPT = 64 << 20
"""Characters of a prompt; no API takes more."""
_WITHOUT_LIMIT = 256
"""Tokens of an answer of unknown length, where the API requires a limit."""
_LOWEST_LIMIT_OF_RESPONSES = 16
"""The lowest limit that OpenAI's Responses API accepts."""
_AZURE_VERSION = "api-version=2024-10-21"
_PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "azure": "/openai/v1/chat/completions",
    "ollama": "/api/chat",
}
_WITH_MAX_COMPLETION_TOKENS = frozenset({"openai", "azure"})
"""Providers whose models require `max_completion_tokens`; others don't know it."""


@record
class SyntheticRequest:
    """A synthetic request, without its credential."""

    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


Fields = dict[str, object]
_Shape = Callable[[RecordedRequest, str, int | None], Fields]
"""Return the body from a request, its prompt, and the most tokens of its answer."""


def path_of(request: RecordedRequest) -> str:
    """Return the request's path; if the journal doesn't have it, the usual one of its provider and model."""
    if request.path:
        return request.path
    if request.provider == "google" or (request.provider in ("", "generic") and request.model.startswith("gemini")):
        operation = "streamGenerateContent" if request.stream else "generateContent"
        return f"/v1beta/models/{quote(request.model, safe='')}:{operation}"
    provider = "anthropic" if request.model.startswith("claude") and request.provider != "ollama" else request.provider
    return _PATHS.get(provider, _PATHS["openai"])


@lru_cache(maxsize=1024)
def can_synthesize(path: str) -> bool:
    """Return whether requests for this path can be synthesized."""
    return _shape(dialect_for(path).name, path.rstrip("/")) is not None


def synthetic_request(request: RecordedRequest, most: int | None) -> SyntheticRequest | None:
    """Return a request for an answer of at most `most` tokens (None: unknown), or None if the API isn't known."""
    path = path_of(request)
    dialect = dialect_for(path).name
    shape = _shape(dialect, path.rstrip("/"))
    if shape is None:
        return None
    body = _filled(request, shape, most)
    return SyntheticRequest(path, _query(request, dialect, path), _headers(dialect), body)


def max_answer_tokens(request: RecordedRequest, *, as_allowed: bool) -> int | None:
    """Return the most tokens of the answer: as many as it had, or (`as_allowed`) as the request allowed."""
    produced = request.recorded.usage.output_tokens if request.recorded.usage is not None else 0
    real = produced if not request.recorded.error else 0
    allowed = max(0, request.max_output_tokens or 0)
    return (allowed or real or None) if as_allowed else (real or allowed or None)


def _filled(request: RecordedRequest, shape: _Shape, most: int | None) -> bytes:
    """Return the body, with a prompt that fills the recorded size."""
    room = request.size_chars - len(msgspec.json.encode(shape(request, "", most)))
    return msgspec.json.encode(shape(request, _prompt(request, min(room, _LONGEST_PROMPT)), most))


def _prompt(request: RecordedRequest, size: int) -> str:
    name = blake2b(request.agent.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    begin, end = f"Agent {name}. ", f" Go on with a long text, number {request.ticket}."
    room = size - len(begin) - len(end)
    if room < 0:
        return (begin + end)[-max(size, len(str(request.ticket)) + 1) :]
    return begin + (_BLOCK * (room // len(_BLOCK) + 1))[:room] + end


def _shape(dialect: str, path: str) -> _Shape | None:
    if dialect == "openai_chat" and not path.endswith("/chat/completions"):
        return _embeddings if path.endswith("/embeddings") else _completions
    if dialect == "openai_responses" and not path.endswith("/responses"):
        return None
    if dialect == "google":
        return _google if path.endswith(("enerateContent",)) and "batch" not in path else None
    if dialect == "ollama" and not path.endswith("/chat"):
        return {"generate": _ollama_generate, "embed": _ollama_embed, "embeddings": _ollama_embeddings}.get(
            path.rpartition("/")[2]
        )
    if dialect == "anthropic" and not path.endswith("/messages"):
        return None
    return {
        "anthropic": _anthropic,
        "openai_chat": _chat,
        "openai_responses": _responses,
        "ollama": _ollama_chat,
    }.get(dialect)


def _anthropic(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {
        "model": request.model,
        "max_tokens": most or _WITHOUT_LIMIT,
        "stream": request.stream,
        "messages": [{"role": "user", "content": prompt}],
    }


def _chat(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": request.model, "messages": [{"role": "user", "content": prompt}]}
    if most is not None:
        body["max_completion_tokens" if request.provider in _WITH_MAX_COMPLETION_TOKENS else "max_tokens"] = most
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if request.stream else {})


def _completions(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": request.model, "prompt": prompt, "stream": request.stream}
    return body | ({} if most is None else {"max_tokens": most})


def _embeddings(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": request.model, "input": prompt}


def _responses(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": request.model, "input": prompt, "stream": request.stream, "store": False}
    return body | ({} if most is None else {"max_output_tokens": max(most, _LOWEST_LIMIT_OF_RESPONSES)})


def _google(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    return body | ({} if most is None else {"generationConfig": {"maxOutputTokens": most}})


def _ollama_chat(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {**_ollama(request, most), "messages": [{"role": "user", "content": prompt}]}


def _ollama_generate(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {**_ollama(request, most), "prompt": prompt}


def _ollama_embed(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": request.model, "input": prompt}


def _ollama_embeddings(request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": request.model, "prompt": prompt}


def _ollama(request: RecordedRequest, most: int | None) -> Fields:
    body: Fields = {"model": request.model, "stream": request.stream}
    return body | ({} if most is None else {"options": {"num_predict": most}})


def _query(request: RecordedRequest, dialect: str, path: str) -> str:
    if dialect == "google" and request.stream and path.endswith(":streamGenerateContent"):
        return "alt=sse"
    return _AZURE_VERSION if "/openai/deployments/" in path else ""


def _headers(dialect: str) -> tuple[tuple[bytes, bytes], ...]:
    own = ((b"anthropic-version", b"2023-06-01"),) if dialect == "anthropic" else ()
    return ((b"content-type", b"application/json"), *own)
