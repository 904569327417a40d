"""Mock agents: they send a request per turn, never retry, and die at their first error, as real agents do.

They speak Anthropic's Messages API.
"""

from __future__ import annotations

import asyncio

import httpx
import msgspec
from msgspec import Struct

from hivemind.providers.paths import dialect_for
from hivemind.providers.taps import end_through, feed_through

_PATH = "/v1/messages"
_MAX_TOKENS = 1024
_HEADERS = (("content-type", "application/json"), ("x-api-key", "mock-key"), ("anthropic-version", "2023-06-01"))
_TIMEOUTS = {"connect": 10.0, "read": 900.0, "write": 10.0, "pool": None}
_PROMPT = (
    "You are {name}, working through the open issues of this repository. Read the next failing test, explain in one "
    "paragraph why it fails, then make the smallest change that fixes it without touching what other agents work on. "
)
_PROMPT_CHARS = 240


class AgentConfig(Struct, frozen=True):
    """Configuration of one agent."""

    name: str
    turns: int
    """Requests until its work is done."""
    think_s: float = 0.05
    """Between two turns."""
    model: str = "claude-sonnet-5"
    stream: bool = False
    prompt_tokens: int = 60
    headers: tuple[tuple[str, str], ...] = ()
    """Sent with every request."""


class AgentResult(Struct, frozen=True):
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

    def __init__(self, config: AgentConfig, transport: httpx.AsyncBaseTransport, base_url: str) -> None:
        self.config = config
        self._transport = transport
        messages = [{"role": "user", "content": _prompt(config)}]
        body = {"model": config.model, "max_tokens": _MAX_TOKENS, "stream": config.stream, "messages": messages}
        self._body = msgspec.json.encode(body)
        self._request = httpx.Request(
            "POST",
            base_url + _PATH,
            headers=[*_HEADERS, ("content-length", str(len(self._body))), *config.headers],
            content=self._body,
            extensions={"timeout": _TIMEOUTS},
        )

    async def run(self) -> AgentResult:
        """Work until all turns are done or an error comes."""
        tokens = 0
        for turn in range(self.config.turns):
            if turn:
                await asyncio.sleep(self.config.think_s)
            try:
                tokens += await self.turn()
            except AgentDied as died:
                return AgentResult(self.config.name, False, turn, tokens + died.tokens, str(died))
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
        tokens, wrong = read_answer(_PATH, self._body, response.headers["content-type"], body)
        if wrong:
            raise AgentDied(wrong, tokens)
        return tokens


def _prompt(config: AgentConfig) -> str:
    text = _PROMPT.format(name=config.name)
    chars = config.prompt_tokens * _PROMPT_CHARS // 60
    return (text * (chars // len(text) + 1))[:chars]


def read_answer(target: str, request: bytes, content_type: str, body: bytes) -> tuple[int, str]:
    """Return the tokens that an answer with status 200 says were used, input and output together, and what is wrong
    with it; empty: it is whole. `target` and `request` are the path, with its query, and the body that were sent."""
    path, _, query = target.partition("?")
    dialect = dialect_for(path)
    tap = dialect.tap([(b"content-type", content_type.encode())], dialect.facts(path, query, [], request))
    feed_through(tap, body)
    end_through(tap)
    state = tap.state
    wrong = "" if state.complete else "truncated"
    if state.error is not None:
        wrong = f"error event: {state.error.message}"
    return state.usage.total if state.usage is not None else 0, wrong
