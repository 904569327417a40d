"""Mock agents: they send a request per turn, never retry, and die at their first error, as real agents do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import httpx
import msgspec

from hivemind.providers.paths import dialect_for
from hivemind.providers.taps import end_through, feed_through

_MAX_TOKENS = 1024
_TIMEOUTS = {"connect": 10.0, "read": 900.0, "write": 10.0, "pool": None}
_PROMPT = (
    "You are {name}, working through the open issues of this repository. Read the next failing test, explain in one "
    "paragraph why it fails, then make the smallest change that fixes it without touching what other agents work on. "
)
_PROMPT_CHARS = 240


@dataclass(frozen=True, slots=True)
class AgentConfig:
    """Configuration of one agent."""

    name: str
    turns: int
    """Requests until its work is done."""
    think_s: float = 0.05
    """Between two turns."""
    format: str = "anthropic"
    """A name in :data:`QUESTIONS`."""
    model: str = "claude-sonnet-5"
    stream: bool = False
    prompt_tokens: int = 60
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request."""


@dataclass(frozen=True, slots=True)
class AgentResult:
    """Outcome of an agent's run."""

    name: str
    alive: bool
    turns: int
    """Requests answered."""
    tokens: int
    """Used, input and output together. All wasted if it died."""
    error: str
    """The error that it died of."""


class AgentDied(Exception):
    """The first error an agent saw; `tokens` were used by the answer that carried it."""

    def __init__(self, message: str, tokens: int = 0) -> None:
        super().__init__(message)
        self.tokens = tokens


class Agent:
    """One mock agent on its transport. The same prompt every turn, so its request is built once."""

    def __init__(
        self,
        config: AgentConfig,
        transport: httpx.AsyncBaseTransport,
        base_url: str,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.config = config
        self._transport = transport
        self._sleep = sleep
        self._question = QUESTIONS[config.format](config.model, _prompt(config), config.stream)
        self._request = httpx.Request(
            "POST",
            base_url + self._question.path,
            headers=[*self._question.headers, *config.headers],
            content=self._question.body,
            extensions={"timeout": _TIMEOUTS},
        )

    async def run(self) -> AgentResult:
        """Work until all turns are done or an error comes."""
        tokens = 0
        for turn in range(self.config.turns):
            if turn:
                await self._sleep(self.config.think_s)
            try:
                tokens += await self.turn()
            except AgentDied as death:
                return AgentResult(self.config.name, False, turn, tokens + death.tokens, str(death))
        return AgentResult(self.config.name, True, self.config.turns, tokens, "")

    async def turn(self) -> int:
        """Send a request and return the tokens used. Raises AgentDied at any error, reset or truncation."""
        try:
            response = await self._transport.handle_async_request(self._request)
            try:
                body = b"".join([chunk async for chunk in response.aiter_bytes()])
            finally:
                await response.aclose()
        except httpx.TransportError as error:
            raise AgentDied(f"{type(error).__name__}: {error}") from error
        if response.status_code >= 400:
            raise AgentDied(f"status {response.status_code}")
        tokens, wrong = self._question.read(response.headers["content-type"], body)
        if wrong:
            raise AgentDied(wrong, tokens)
        return tokens


def _prompt(config: AgentConfig) -> str:
    text = _PROMPT.format(name=config.name)
    chars = config.prompt_tokens * _PROMPT_CHARS // 60
    return (text * (chars // len(text) + 1))[:chars]


# --- Wire formats -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """One request, ready to be sent to a base URL."""

    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def read(self, content_type: str, body: bytes) -> tuple[int, str]:
        """Return the tokens that an answer with status 200 says were used, input and output together, and what is wrong
        with it; empty: it is whole."""
        path, _, query = self.path.partition("?")
        dialect = dialect_for(path)
        tap = dialect.tap([(b"content-type", content_type.encode())], dialect.facts(path, query, [], self.body))
        feed_through(tap, body)
        end_through(tap)
        state = tap.state
        wrong = "" if state.complete else "truncated"
        if state.error is not None:
            wrong = f"error event: {state.error.message}"
        return state.usage.total if state.usage is not None else 0, wrong


def _question(path: str, body: Mapping[str, object], *headers: tuple[str, str]) -> Question:
    data = msgspec.json.encode(body)
    sent = (("content-type", "application/json"), ("content-length", str(len(data))), *headers)
    return Question(path, sent, data)


def _anthropic(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    body = {"model": model, "max_tokens": _MAX_TOKENS, "stream": stream, "messages": messages}
    return _question("/v1/messages", body, ("x-api-key", "mock-key"), ("anthropic-version", "2023-06-01"))


def _chat(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    body: dict[str, object] = {"model": model, "max_completion_tokens": _MAX_TOKENS, "messages": messages}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return _question("/v1/chat/completions", body, ("authorization", "Bearer mock-key"))


def _responses(model: str, prompt: str, stream: bool) -> Question:
    body = {"model": model, "max_output_tokens": _MAX_TOKENS, "stream": stream, "input": prompt, "store": False}
    return _question("/v1/responses", body, ("authorization", "Bearer mock-key"))


def _google(model: str, prompt: str, stream: bool) -> Question:
    operation = "streamGenerateContent?alt=sse" if stream else "generateContent"
    contents = [{"role": "user", "parts": [{"text": prompt}]}]
    body = {"contents": contents, "generationConfig": {"maxOutputTokens": _MAX_TOKENS}}
    return _question(f"/v1beta/models/{model}:{operation}", body, ("x-goog-api-key", "mock-key"))


def _ollama(model: str, prompt: str, stream: bool) -> Question:
    messages = [{"role": "user", "content": prompt}]
    return _question("/api/chat", {"model": model, "stream": stream, "messages": messages})


QUESTIONS: Mapping[str, Callable[[str, str, bool], Question]] = {
    "anthropic": _anthropic,
    "openai_chat": _chat,
    "openai_responses": _responses,
    "google": _google,
    "ollama": _ollama,
}
"""What makes a request of a model, a prompt and whether to stream, by the names of
:data:`hivemind_mock.provider.formats.FORMATS`."""
