"""Synthetic requests as large as the recorded ones, for answers as long, in the form of the recorded API.

Each differs from all others, so that none is answered from a cache or joined with another, but requests of one agent
begin alike, as those of a conversation do.
"""

from __future__ import annotations

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


def path_of(request: RecordedRequest) -> str:
    """Return the request's path; if the journal doesn't have it, the usual one of its provider and model."""
    if request.path:
        return request.path
    if request.provider == "google" or (request.provider in ("", "generic") and request.model.startswith("gemini")):
        operation = "streamGenerateContent" if request.stream else "generateContent"
        return f"/v1beta/models/{quote(request.model, safe='')}:{operation}"
    provider = "anthropic" if request.model.startswith("claude") and request.provider != "ollama" else request.provider
    return _PATHS.get(provider, _PATHS["openai"])


def synthetic_request(request: RecordedRequest, most: int | None) -> SyntheticRequest | None:
    """Return a request for an answer of at most `most` tokens (None: unknown), or None if the API isn't known."""
    path = path_of(request)
    api = api_of(path)
    if api is None:
        return None
    headers = [(b"content-type", b"application/json")]
    if api == "anthropic":
        headers.append((b"anthropic-version", b"2023-06-01"))
    query = _AZURE_VERSION if "/openai/deployments/" in path else ""
    if api == "google" and request.stream and path.endswith(":streamGenerateContent"):
        query = "alt=sse"
    # The prompt fills the recorded size.
    room = request.size_chars - len(msgspec.json.encode(_fields(api, request, "", most)))
    prompt = _prompt(request, min(room, _LONGEST_PROMPT))
    return SyntheticRequest(path, query, tuple(headers), msgspec.json.encode(_fields(api, request, prompt, most)))


def max_answer_tokens(request: RecordedRequest, *, as_allowed: bool) -> int | None:
    """Return the most tokens of the answer: as many as it had, or (`as_allowed`) as the request allowed."""
    produced = request.recorded.usage.output_tokens if request.recorded.usage is not None else 0
    real = produced if not request.recorded.error else 0
    allowed = max(0, request.max_output_tokens or 0)
    return (allowed or real or None) if as_allowed else (real or allowed or None)


def _prompt(request: RecordedRequest, size: int) -> str:
    name = blake2b(request.agent.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    begin, end = f"Agent {name}. ", f" Go on with a long text, number {request.ticket}."
    room = size - len(begin) - len(end)
    if room < 0:
        return (begin + end)[-max(size, len(str(request.ticket)) + 1) :]
    return begin + (_BLOCK * (room // len(_BLOCK) + 1))[:room] + end


@lru_cache(maxsize=1024)
def api_of(path: str) -> str | None:
    """Return the name of the API at a path; None: requests to it can't be synthesized."""
    dialect, path = dialect_for(path).name, path.rstrip("/")
    last = path.rpartition("/")[2]
    if dialect == "openai_chat":
        if path.endswith("/chat/completions"):
            return "chat"
        return "embed" if last == "embeddings" else "completions"
    if dialect == "google":
        return "google" if path.endswith("enerateContent") and "batch" not in path else None
    if dialect == "ollama":
        known = {"chat": "ollama chat", "generate": "ollama generate", "embed": "embed", "embeddings": "ollama embed"}
        return known.get(last)
    return {("anthropic", "messages"): "anthropic", ("openai_responses", "responses"): "responses"}.get((dialect, last))


def _fields(api: str, request: RecordedRequest, prompt: str, most: int | None) -> Fields:
    """Return the fields of the body, with at most `most` tokens for the answer (None: unknown)."""
    model: Fields = {"model": request.model}
    streamed: Fields = {**model, "stream": request.stream}
    messages = [{"role": "user", "content": prompt}]
    limited = most is not None
    match api:
        case "anthropic":
            return {**streamed, "max_tokens": most or _WITHOUT_LIMIT, "messages": messages}
        case "chat":
            limit = "max_completion_tokens" if request.provider in _WITH_MAX_COMPLETION_TOKENS else "max_tokens"
            stream: Fields = {"stream": True, "stream_options": {"include_usage": True}} if request.stream else {}
            return {**model, "messages": messages, **({limit: most} if limited else {}), **stream}
        case "completions":
            return {**streamed, "prompt": prompt, **({"max_tokens": most} if limited else {})}
        case "responses":
            tokens = None if most is None else max(most, _LOWEST_LIMIT_OF_RESPONSES)
            return {**streamed, "input": prompt, "store": False, **({"max_output_tokens": tokens} if limited else {})}
        case "google":
            config: Fields = {"generationConfig": {"maxOutputTokens": most}} if limited else {}
            return {"contents": [{"role": "user", "parts": [{"text": prompt}]}], **config}
        case "ollama chat" | "ollama generate":
            options: Fields = {"options": {"num_predict": most}} if limited else {}
            content: Fields = {"messages": messages} if api == "ollama chat" else {"prompt": prompt}
            return {**streamed, **options, **content}
        case "ollama embed":
            return {**model, "prompt": prompt}
    return {**model, "input": prompt}
