"""The HTTP requests of a load test: recorded ones, or synthetic ones in their place.

A synthetic request is as large as the recorded one, for an answer as long, in the form of the recorded API. Each
differs from all others, so that none is answered from a cache or joined with another, but requests of one agent begin
alike, as those of a conversation do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from hashlib import blake2b
from urllib.parse import quote

import msgspec
from msgspec import Struct

from hivemind import __version__
from hivemind.journal.records import RequestBody, bytes_of
from hivemind.lab.loadtest.requests import RecordedRequest
from hivemind.lab.loadtest.target import ApiKeys, LoadTarget
from hivemind.providers.base import Facts
from hivemind.providers.clients import client_of
from hivemind.providers.dialect import Dialect
from hivemind.providers.paths import dialect_for
from hivemind.providers.profiles import PROFILES
from hivemind.records import replace
from hivemind.redaction.text import MASK
from hivemind.redaction.values import is_secret, query_fields
from hivemind.scheduler.events import Event
from hivemind.wire.identity import CREDENTIAL_HEADERS
from hivemind.wire.request_head import HOP_BY_HOP, OWN, parse_path

Headers = list[tuple[bytes, bytes]]
Fields = dict[str, object]

_NOT_REPEATED = HOP_BY_HOP | {b"host", b"content-length", b"content-encoding", b"expect"}
"""Headers of the recorded connection, and of an encoding that recorded bodies no longer have."""
_USER_AGENT = b"hivemind-replay/" + __version__.encode()
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


class OutgoingRequest(Struct, frozen=True):
    """A request, ready to be sent."""

    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    dialect: Dialect
    facts: Facts
    real: bool
    """It is the recorded request, not a synthetic one."""


class Bodies:
    """The recorded bodies of the tickets in `wanted`, read from the journal when needed, so that few are in memory."""

    def __init__(self, events: Iterable[Event], wanted: Iterable[int]) -> None:
        self._events: Iterator[Event] = iter(events)
        self._wanted = set(wanted)
        self._found: dict[int, RequestBody] = {}

    def take(self, ticket: int) -> RequestBody | None:
        """Return the body of a ticket, at most once; None: there is none."""
        if ticket not in self._wanted:
            return None
        self._wanted.discard(ticket)
        if ticket in self._found:
            return self._found.pop(ticket)
        for event in self._events:
            if type(event) is RequestBody and not event.left_out:
                if event.ticket == ticket:
                    return event
                if event.ticket in self._wanted:
                    self._found[event.ticket] = event
        return None


class MessageBuilder(Struct):
    """Builds the requests for one target."""

    target: LoadTarget
    keys: ApiKeys
    bodies: Bodies
    hivemind: bool = False
    """The target is one, so it gets agents' names and priorities."""
    token: str | None = None

    def build(self, request: RecordedRequest) -> OutgoingRequest | None:
        """Return the HTTP request; None: it can't be synthesized."""
        recorded = self.bodies.take(request.ticket) if request.has_body else None
        body = None if recorded is None else bytes_of(recorded)
        if recorded is None or body is None:
            return self._synthetic(request)
        path, query = _place_of(recorded)
        return self._message(request, recorded.method, path, query, _headers_of(recorded), body, real=True)

    def _synthetic(self, request: RecordedRequest) -> OutgoingRequest | None:
        if not PROFILES[self.target.provider].anybodys:
            # The target's API decides the path and the fields.
            request = replace(request, provider=self.target.provider, path=path_of(request))
        made = synthetic_request(request, max_answer_tokens(request))
        if made is None:
            return None
        headers = [*made.headers, (b"accept-encoding", b"identity"), (b"user-agent", _USER_AGENT)]
        return self._message(request, "POST", made.path, made.query, headers, made.body, real=False)

    def _message(
        self, request: RecordedRequest, method: str, path: str, query: str, headers: Headers, body: bytes, *, real: bool
    ) -> OutgoingRequest:
        dialect = dialect_for(path)
        key = self.keys.header(dialect.name, path)
        sent = [*headers, *([] if key is None else [key]), *self._own(request, headers)]
        facts = dialect.facts(path, query, sent, body)
        target = self.target.path(path) + (f"?{query}" if query else "")
        return OutgoingRequest(method.encode(), target.encode("utf-8"), sent, body, dialect, facts, real)

    def _own(self, request: RecordedRequest, headers: Headers) -> Headers:
        if not self.hivemind:
            return []
        # A client that names its sub-agents itself does so again.
        parent = request.agent.rpartition("/")[0]
        name = parent if parent and client_of(headers).agent else request.agent
        own: Headers = [(b"x-hivemind-agent", name.encode("utf-8", "replace"))]
        if request.priority is not None:
            own.append((b"x-hivemind-priority", request.priority.name.lower().encode()))
        if self.token is not None:
            own.append((b"x-hivemind-token", self.token.encode()))
        return own


def can_be_sent(request: RecordedRequest) -> bool:
    """Return whether a request can be sent, recorded or synthetic."""
    return request.has_body or api_of(path_of(request)) is not None


def _place_of(recorded: RequestBody) -> tuple[str, str]:
    """Return path and query without our own prefixes and without masked values."""
    path, _, query = recorded.path.partition("?")
    path = parse_path(path.encode("utf-8", "replace")).raw_path.decode("utf-8", "replace")
    kept = [field for field, name, value in query_fields(query) if not is_secret(name) and MASK not in value]
    return path, "&".join(field for field in kept if field)


def _headers_of(recorded: RequestBody) -> Headers:
    """Return the headers to send again, without credentials and without our own."""
    kept: Headers = []
    for name, value in recorded.headers:
        lower = name.lower().encode("latin-1", "replace")
        secret = lower in CREDENTIAL_HEADERS or is_secret(name.lower()) or MASK in value
        if not secret and lower not in _NOT_REPEATED and not lower.startswith(OWN):
            kept.append((lower, value.encode("latin-1", "replace")))
    return kept


class SyntheticRequest(Struct, frozen=True):
    """A synthetic request, without its credential."""

    path: str
    query: str
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


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


def max_answer_tokens(request: RecordedRequest) -> int | None:
    """Return the most tokens of the answer: as many as it had, else as the request allowed."""
    produced = request.recorded.usage.output_tokens if request.recorded.usage is not None else 0
    real = produced if not request.recorded.error else 0
    return real or max(0, request.max_output_tokens or 0) or None


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
