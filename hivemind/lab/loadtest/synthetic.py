"""Requests made up to be as large as recorded ones, and to get answers as long, in the form of the API that was asked.

Each differs from all others, so that nothing joins them or answers from a cache, but an agent's begin alike, as those
of a conversation do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote

import msgspec

from hivemind.lab.loadtest.plan import RecordedRequest
from hivemind.providers.detect import dialect_for
from hivemind.scheduler.types import record

_WORDS = (
    "the scheduler keeps a queue of requests and lets each of them go when there is room for it, while the provider"
    " counts what was used in every minute and says in its answers how much of that is left for the others to take; "
)
_BLOCK = _WORDS * (65_536 // len(_WORDS) + 1)
_MOST_WORDS = 64 << 20
"""Characters of one made-up prompt: no API takes more."""
_WITHOUT_LIMIT = 256
"""Tokens of an answer about which nothing is known, where the API wants a limit."""
_LEAST_OF_RESPONSES = 16
"""OpenAI's Responses API takes no lower limit."""
_AZURE_VERSION = "api-version=2024-10-21"
_PATHS = {
    "anthropic": "/v1/messages",
    "openai": "/v1/chat/completions",
    "azure": "/openai/v1/chat/completions",
    "ollama": "/api/chat",
}
_COMPLETING = frozenset({"openai", "azure"})
"""Of these alone models want `max_completion_tokens`, which others don't know."""


@record
class SyntheticRequest:
    """A request without its credential."""

    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


Fields = dict[str, object]
_Shape = Callable[[RecordedRequest, str, int | None], Fields]
"""Of a request, its prompt and the most tokens of its answer, the body."""


def path_of(ask: RecordedRequest) -> str:
    """The path that was asked for; where the journal doesn't have it, the one where its provider's models are asked."""
    if ask.path:
        return ask.path
    if ask.provider == "google" or (ask.provider in ("", "generic") and ask.model.startswith("gemini")):
        operation = "streamGenerateContent" if ask.stream else "generateContent"
        return f"/v1beta/models/{quote(ask.model, safe='')}:{operation}"
    provider = "anthropic" if ask.model.startswith("claude") and ask.provider != "ollama" else ask.provider
    return _PATHS.get(provider, _PATHS["openai"])


@lru_cache(maxsize=1024)
def can_synthesize(path: str) -> bool:
    """Whether requests for this path can be made up."""
    return _shape(dialect_for(path).name, path.rstrip("/")) is not None


def synthetic_request(ask: RecordedRequest, most: int | None) -> SyntheticRequest | None:
    """A request for an answer of at most so many tokens (None: nothing is known). None: its path is of no API whose
    requests can be made up."""
    path = path_of(ask)
    dialect = dialect_for(path).name
    shape = _shape(dialect, path.rstrip("/"))
    if shape is None:
        return None
    body = _filled(ask, shape, most)
    return SyntheticRequest(path, _query(ask, dialect, path), _headers(dialect), body)


def max_answer_tokens(ask: RecordedRequest, *, as_allowed: bool) -> int | None:
    """The most tokens that its answer should have: what it really had, or (`as_allowed`) what the request allowed."""
    produced = ask.then.usage.output_tokens if ask.then.usage is not None else 0
    real = produced if not ask.then.error else 0
    allowed = max(0, ask.max_output_tokens or 0)
    return (allowed or real or None) if as_allowed else (real or allowed or None)


def _filled(ask: RecordedRequest, shape: _Shape, most: int | None) -> bytes:
    """The prompt takes up what the rest of the body leaves."""
    room = ask.size_chars - len(msgspec.json.encode(shape(ask, "", most)))
    return msgspec.json.encode(shape(ask, _prompt(ask, min(room, _MOST_WORDS)), most))


def _prompt(ask: RecordedRequest, size: int) -> str:
    name = blake2b(ask.agent.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    begin, end = f"Agent {name}. ", f" Go on with a long text, number {ask.ticket}."
    room = size - len(begin) - len(end)
    if room < 0:
        return (begin + end)[-max(size, len(str(ask.ticket)) + 1) :]
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


def _anthropic(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {
        "model": ask.model,
        "max_tokens": most or _WITHOUT_LIMIT,
        "stream": ask.stream,
        "messages": [{"role": "user", "content": prompt}],
    }


def _chat(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": ask.model, "messages": [{"role": "user", "content": prompt}]}
    if most is not None:
        body["max_completion_tokens" if ask.provider in _COMPLETING else "max_tokens"] = most
    return body | ({"stream": True, "stream_options": {"include_usage": True}} if ask.stream else {})


def _completions(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": ask.model, "prompt": prompt, "stream": ask.stream}
    return body | ({} if most is None else {"max_tokens": most})


def _embeddings(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": ask.model, "input": prompt}


def _responses(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"model": ask.model, "input": prompt, "stream": ask.stream, "store": False}
    return body | ({} if most is None else {"max_output_tokens": max(most, _LEAST_OF_RESPONSES)})


def _google(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    body: Fields = {"contents": [{"role": "user", "parts": [{"text": prompt}]}]}
    return body | ({} if most is None else {"generationConfig": {"maxOutputTokens": most}})


def _ollama_chat(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {**_ollama(ask, most), "messages": [{"role": "user", "content": prompt}]}


def _ollama_generate(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {**_ollama(ask, most), "prompt": prompt}


def _ollama_embed(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": ask.model, "input": prompt}


def _ollama_embeddings(ask: RecordedRequest, prompt: str, most: int | None) -> Fields:
    return {"model": ask.model, "prompt": prompt}


def _ollama(ask: RecordedRequest, most: int | None) -> Fields:
    body: Fields = {"model": ask.model, "stream": ask.stream}
    return body | ({} if most is None else {"options": {"num_predict": most}})


def _query(ask: RecordedRequest, dialect: str, path: str) -> str:
    if dialect == "google" and ask.stream and path.endswith(":streamGenerateContent"):
        return "alt=sse"
    return _AZURE_VERSION if "/openai/deployments/" in path else ""


def _headers(dialect: str) -> tuple[tuple[bytes, bytes], ...]:
    own = ((b"anthropic-version", b"2023-06-01"),) if dialect == "anthropic" else ()
    return ((b"content-type", b"application/json"), *own)
